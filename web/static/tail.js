// The live tail of a topic: the newest messages first, as the console's stream of events sends them.
"use strict";
(() => {
  const MOST_ROWS = 200;
  const table = document.querySelector("[data-tail]");
  const state = document.querySelector("[data-tail-state]");
  const button = document.querySelector("[data-tail-pause]");
  const body = table.tBodies[0];
  const format = new Intl.DateTimeFormat(document.documentElement.lang, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hour12: false, timeZone: document.body.dataset.timeZone });
  let source = null, skipped = 0;

  function tell(text) {
    const more = skipped ? ` ${skipped} ${state.dataset.skipped}.` : "";
    if (state.textContent !== text + more) state.textContent = text + more;
  }

  function cell(text, kind) {
    const one = document.createElement("td");
    if (kind) one.className = kind;
    one.append(text);
    return one;
  }

  function show(message) {
    const row = document.createElement("tr");
    const link = document.createElement("a");
    link.href = table.dataset.basePath + message.path;
    link.textContent = message.id;
    row.append(
      cell(format.format(new Date(message.stored_at)), "time"), cell(link), cell(String(message.queue), "number"), cell(String(message.offset), "number"),
      cell(message.tag), cell(message.keys.join(" ")), cell(`${message.size.toLocaleString("en")} B`, "number"), cell(message.body),
    );
    for (const one of row.cells) {
      one.dataset.label = table.tHead.rows[0].cells[one.cellIndex].textContent;
      one.classList.toggle("blank", !one.textContent);
    }
    body.prepend(row);
    while (body.rows.length > MOST_ROWS) body.deleteRow(-1);
  }

  function open() {
    source = new EventSource(table.dataset.tail);
    source.addEventListener("message", (event) => { show(JSON.parse(event.data)); tell(""); });
    source.addEventListener("skipped", (event) => { skipped += Number(event.data); tell(""); });
    source.addEventListener("problem", (event) => tell(JSON.parse(event.data)));
    source.addEventListener("error", () => { if (source && source.readyState === EventSource.CLOSED) tell(state.dataset.ended); });
    button.textContent = button.dataset.pause;
    tell(state.dataset.waiting);
  }

  button.addEventListener("click", () => {
    if (source === null) { open(); return; }
    source.close();
    source = null;
    button.textContent = button.dataset.resume;
    tell(state.dataset.paused);
  });
  open();
})();
