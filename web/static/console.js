// Behaviour of all pages: times in the user's zone, the browser's unless the user chose another, shown and entered, passwords, light and dark, keyboard shortcuts. Pages work without it; times are in UTC then.
"use strict";
(() => {
  // 2026-11-23 09:00:00 in every language: a time can be copied from a page into a form.
  function formatIn(timeZone) {
    return new Intl.DateTimeFormat("sv", {
      year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false, timeZone,
    });
  }

  // A zone that the browser does not know is replaced with its own, also for the other scripts of the page.
  function chosenFormat() {
    try {
      return formatIn(document.body.dataset.timeZone);
    } catch {
      delete document.body.dataset.timeZone;
      return formatIn(undefined);
    }
  }

  const format = chosenFormat();
  const zone = format.resolvedOptions().timeZone.replace(/^Etc\//, "");
  const TIME = /^(\d{4})[-/](\d\d?)[-/](\d\d?)(?:[T ]+(\d\d?):(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?(?:(Z)|([+-]\d\d):?(\d\d))?$/i;
  const PARTS = ["FullYear", "Month", "Date", "Hours", "Minutes", "Seconds", "Milliseconds"];

  // How far the clocks of the zone are ahead of UTC at a time, ms.
  function offsetAt(time) {
    const [date, clock] = format.format(new Date(time)).split(" ");
    return Date.parse(`${date}T${clock}Z`) - Math.floor(time / 1000) * 1000;
  }

  // The time at which the clocks of the zone show what the clocks of UTC show at `utc`, if there is one. The offset is another one where the clocks
  // are changed in between.
  function timeInZone(utc) {
    return utc - offsetAt(utc - offsetAt(utc));
  }

  // What is in a field, as a moment; null if it is something else, such as milliseconds, or a time that does not exist. Without a zone it is in
  // the user's zone, or in UTC. A date is the beginning of its day, or the end.
  function momentOf(text, isUtc, isEnd) {
    const isClock = /^\d\d?(:\d\d){1,2}$/.test(text.trim()) && !isUtc;
    const parts = TIME.exec(isClock ? `${format.format(new Date()).slice(0, 10)} ${text.trim()}` : text.trim());
    if (!parts) return null;
    const entered = parts.slice(1, 7).map((part) => Number(part || 0));
    entered.push(Number((parts[7] || "").padEnd(3, "0").slice(0, 3)));
    entered[1] -= 1;
    if (isEnd && !parts[4]) entered.splice(3, 4, 23, 59, 59, 999);
    const isLocal = !isUtc && !parts[8] && !parts[9];
    const utc = Date.UTC(...entered);
    // Date makes 3 March of 31 February.
    if (PARTS.some((part, index) => new Date(utc)[`getUTC${part}`]() !== entered[index])) return null;
    if (isLocal) {
      const time = timeInZone(utc);
      return time + offsetAt(time) === utc ? new Date(time) : null; // the clocks are put forward over what was entered
    }
    const minutes = parts[9] ? Number(parts[9]) * 60 + Math.sign(`${parts[9]}1`) * Number(parts[10]) : 0;
    return new Date(utc - minutes * 60_000);
  }

  // As a field shows it.
  function textOf(moment) {
    const milliseconds = moment.getMilliseconds();
    return format.format(moment) + (milliseconds ? `.${String(milliseconds).padStart(3, "0")}` : "");
  }

  // The server takes what this page does not understand as UTC: it is not sent.
  function checkField(field) {
    const text = field.value.trim();
    field.setCustomValidity(!text || /^\d{1,14}$/.test(text) || momentOf(text, false, "end" in field.dataset) ? "" : field.dataset.moment);
  }

  // Servers read and write UTC in fields of times: people read and write them in their own zone, as all other times of the page.
  function showFields(root) {
    for (const field of root.querySelectorAll("input[data-moment]:not([data-local])")) {
      const isMilliseconds = /^\d{1,14}$/.test(field.value);
      const moment = isMilliseconds ? new Date(Number(field.value)) : momentOf(field.value, true, "end" in field.dataset);
      if (moment) field.value = textOf(moment);
      field.dataset.local = "";
      checkField(field);
    }
    for (const element of root.querySelectorAll("[data-zone]")) element.textContent = element.textContent.replace("UTC", zone);
  }

  function sendFields(event) {
    for (const field of event.target.querySelectorAll("input[data-moment][data-local]:enabled")) {
      const moment = momentOf(field.value, false, "end" in field.dataset);
      if (moment) event.formData.set(field.name, moment.toISOString());
    }
  }

  function onInput(event) {
    const field = event.target;
    if ("moment" in field.dataset) checkField(field);
    if ("strength" in field.dataset) showStrength(field);
    follow(field);
    // In place of the browser's own words, which do not name the characters.
    if ("rule" in field.dataset) field.setCustomValidity(field.validity.patternMismatch ? field.dataset.rule : "");
  }

  function showTimes(root) {
    showFields(root);
    for (const element of root.querySelectorAll("time[datetime]:not([data-local])")) {
      const moment = new Date(element.dateTime);
      if (Number.isNaN(moment.getTime())) continue;
      element.title = element.dateTime;
      element.textContent = format.format(moment);
      element.dataset.local = "";
    }
  }

  function toggleTheme() {
    const root = document.documentElement;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
  }

  function isTyping(target) {
    return target.closest("input, textarea, select, [contenteditable]") !== null;
  }

  let goes = false;
  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (goes) {
      goes = false;
      const link = document.querySelector(`[data-shortcut="${CSS.escape(event.key)}"]`);
      if (link) link.click();
    } else if (event.key === "g") {
      goes = true;
    } else if (event.key === "/" || event.key === "f") {
      const search = document.querySelector(event.key === "/" ? "[data-search-all]" : "[data-search]");
      if (search) { event.preventDefault(); search.focus(); search.select(); }
    } else if (event.key === "?") {
      document.getElementById("shortcuts").showModal();
    }
  }

  // A second click while the first answer is on its way must not make the same change twice.
  function onSubmit(event) {
    if (event.target.method !== "post") return;
    if ("sent" in event.target.dataset) event.preventDefault();
    else event.target.dataset.sent = "";
  }

  // A box in each form with passwords and keys shows what is typed in them.
  function addReveals() {
    for (const form of document.querySelectorAll("form:has(input[type=password])")) {
      const label = document.createElement("label");
      const box = document.createElement("input");
      const text = document.createElement("span");
      label.className = "line";
      box.type = "checkbox";
      text.textContent = document.body.dataset.reveal;
      label.append(box, text);
      const fields = form.querySelectorAll("input[type=password]");
      const show = (isShown) => { for (const field of fields) field.type = isShown ? "text" : "password"; };
      box.addEventListener("change", () => show(box.checked));
      form.addEventListener("submit", () => show(false));  // browsers remember what was entered into plain fields
      const last = fields[fields.length - 1].closest("label");
      (last.nextElementSibling?.matches(".strength") ? last.nextElementSibling : last).after(label);
    }
  }

  // 0: too short, 1: weak, 2: acceptable, 3: strong. Characters that repeat or continue the one before count nothing. The server also refuses common
  // words.
  function strengthOf(text) {
    const characters = [...text];
    if (characters.length < 12) return 0;
    const counted = characters.filter((one, at) => !at || Math.abs(one.codePointAt(0) - characters[at - 1].codePointAt(0)) > 1);
    const kinds = [[/[0-9]/, 10], [/[a-z]/, 26], [/[A-Z]/, 26], [/[ -/:-@[-`{-~]/, 33], [/[^ -~]/, 100]];
    const choices = kinds.reduce((sum, [kind, size]) => sum + (kind.test(text) ? size : 0), 0);
    const bits = Math.min(counted.length, 2 * new Set(characters).size) * Math.log2(choices);
    return bits < 50 ? 1 : bits < 70 ? 2 : 3;
  }

  function showStrength(field) {
    const place = field.closest("label").nextElementSibling;
    const strength = strengthOf(field.value);
    place.hidden = !field.value;
    place.querySelector("meter").value = strength;
    place.querySelector("span").textContent = place.dataset.words.split("|")[strength];
  }

  // Fields that do not belong to what is chosen are neither shown nor sent.
  function showChosen(choice) {
    for (const fields of choice.form.querySelectorAll("fieldset[data-for]")) fields.hidden = fields.disabled = fields.dataset.for !== choice.value;
  }

  // A field that follows another has its value until the user enters one: a topic with fewer read than write queues has messages that nobody gets.
  function follow(field) {
    const follower = field.form?.querySelector(`[data-follows="${field.name}"]`);
    if (follower && !("own" in follower.dataset)) follower.value = field.value;
    if (field.dataset.follows) field.dataset.own = "";
  }

  function onChange(event) {
    if ("choosesFields" in event.target.dataset) showChosen(event.target);
    if (!("chooseAll" in event.target.dataset)) return;
    for (const box of event.target.closest("table").querySelectorAll("tbody input[type=checkbox]")) box.checked = event.target.checked;
  }

  // A part of the page that asks the server every second is left as it is while a button or link in it is pressed: a click is only one if what is
  // pressed is still there when it is released.
  function keepPressed(event) {
    if (event.detail.target.matches("[hx-trigger^=every]:active")) event.detail.shouldSwap = false;
  }

  // A part of the page that asked the server until something ended does not ask any more: what it names shows the outcome too, and the notice of
  // the beginning has had its time.
  function showOutcome(event) {
    const part = event.detail.target.id && document.getElementById(event.detail.target.id);
    if (!part || !part.dataset.then || part.hasAttribute("hx-get")) return;
    document.querySelector("main > .notice")?.remove();
    htmx.ajax("GET", location.href, { target: part.dataset.then, select: part.dataset.then, swap: "outerHTML" });
  }

  // A form that a user unfolds is ready for its first field.
  function onClick(event) {
    const fold = event.target.closest("summary")?.parentElement;
    const first = fold?.querySelector("[data-focus]");
    if (first && !fold.open) fold.addEventListener("toggle", () => first.focus(), { once: true });
  }

  function onShow() {
    for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
  }

  function isChanged(field) {
    if (!field.matches("select")) return field.value !== field.defaultValue;
    return field.selectedIndex !== Math.max([...field.options].findIndex((option) => option.defaultSelected), 0);
  }

  // What the user entered, or the browser restored, before htmx listened: the table below does not show it yet.
  function takeUpFilters(root) {
    for (const form of root.querySelectorAll("form[hx-get]")) {
      if ([...form.querySelectorAll("select, [type=search]")].some(isChanged)) htmx.trigger(form, "submit");
    }
  }

  showTimes(document);
  addReveals();
  for (const choice of document.querySelectorAll("select[data-chooses-fields]")) showChosen(choice);
  document.addEventListener("submit", onSubmit);
  document.addEventListener("formdata", sendFields);
  document.addEventListener("click", onClick);
  document.addEventListener("input", onInput);
  document.addEventListener("change", onChange);
  window.addEventListener("pageshow", onShow);
  document.body.addEventListener("htmx:afterSwap", (event) => showTimes(event.detail.target.parentElement || document));
  document.body.addEventListener("htmx:afterSwap", showOutcome);
  document.body.addEventListener("htmx:beforeSwap", keepPressed);
  document.body.addEventListener("htmx:load", (event) => takeUpFilters(event.detail.elt));
  document.addEventListener("keydown", onKey);
  document.getElementById("theme").addEventListener("click", toggleTheme);
  document.getElementById("help").addEventListener("click", () => document.getElementById("shortcuts").showModal());
})();
