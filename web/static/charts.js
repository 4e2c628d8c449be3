// Draws the charts of a page from the history (/api/v1/history) and keeps them current. A sample that failed is a gap in the line.
// The arrow keys move through a chart's times; the values there are shown in its legend.
"use strict";
(() => {
  const REFRESH_MS = 10_000;
  const HEIGHT = 190;
  const DAY_S = 86_400;
  const language = document.documentElement.lang;
  const compact = new Intl.NumberFormat(language, { notation: "compact", maximumFractionDigits: 1 });
  const clock = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", hour12: false });
  const exact = new Intl.DateTimeFormat(language, { dateStyle: "short", timeStyle: "medium", hour12: false });
  const day = new Intl.DateTimeFormat(language, { month: "2-digit", day: "2-digit" });

  function bytes(value) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let amount = value, unit = 0;
    while (Math.abs(amount) >= 1024 && unit < units.length - 1) { amount /= 1024; unit += 1; }
    return `${amount.toFixed(unit ? 1 : 0)} ${units[unit]}`;
  }

  function duration(ms) {
    for (const [unit, size] of [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1_000]]) {
      if (Math.abs(ms) >= size) return `${+(ms / size).toFixed(1)} ${unit}`;
    }
    return `${Math.round(ms)} ms`;
  }

  const formats = { rate: (value) => compact.format(value), number: (value) => compact.format(value), share: (value) => `${+(value * 100).toFixed(1)} %`, bytes, duration };

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.holder = figure.querySelector(".plot");
      this.state = figure.querySelector(".state");
      this.items = [...figure.querySelectorAll(".legend li")];
      this.title = this.holder.getAttribute("aria-label");
      this.format = formats[figure.dataset.unit] || formats.number;
      this.plot = null;
      new ResizeObserver(() => this.resize()).observe(this.holder);
      this.holder.addEventListener("keydown", (event) => this.move(event));
      this.holder.addEventListener("blur", () => this.plot && this.plot.setCursor({ left: -10, top: -10 }));
    }

    async load() {
      try {
        const answer = await fetch(this.figure.dataset.source, { headers: { Accept: "application/json" } });
        const body = await answer.json();
        if (!answer.ok) throw new Error(body.error || answer.statusText);
        this.show(body);
      } catch (error) {
        this.state.textContent = `${this.figure.dataset.failed} ${error.message}`;
      }
    }

    show(body) {
      const columns = this.items.map((item) => body.series[item.dataset.series] || []);
      const isEmpty = columns.every((column) => column.every((value) => value === null));
      const text = isEmpty ? this.figure.dataset.empty : "";
      if (this.state.textContent !== text) this.state.textContent = text;
      this.data = [body.times, ...columns];
      this.step = body.step;
      if (this.plot === null) {
        this.plot = new uPlot(this.options(), this.data, this.holder);
      } else {
        const { left, top } = this.plot.cursor;
        this.plot.setData(this.data);
        if (left >= 0) this.plot.setCursor({ left, top });
      }
      if (!(this.plot.cursor.left >= 0)) this.label(null);
    }

    options() {
      const seconds = Number(this.figure.dataset.seconds);
      const axis = { stroke: () => colour("--muted"), grid: { stroke: () => colour("--line"), width: 1 }, ticks: { stroke: () => colour("--line"), width: 1 } };
      const moment = (at) => (seconds > DAY_S ? day : clock).format(new Date(at * 1000));
      return {
        width: this.holder.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, points: { size: 6 } },
        scales: { y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.08 : 1] } },
        axes: [
          { ...axis, space: 70, values: (_plot, splits) => splits.map(moment) },
          { ...axis, size: 68, values: (_plot, splits) => splits.map((value) => this.format(value)) },
        ],
        series: [{}, ...this.items.map((_, index) => ({ stroke: () => colour(`--line${index + 1}`), width: 2 }))],
        hooks: { setCursor: [(plot) => this.label(plot.cursor.left >= 0 ? plot.cursor.idx : null)] },
      };
    }

    // The values at a place of the data, or the latest ones.
    label(index) {
      const words = this.items.map((item, number) => {
        const column = this.data[number + 1];
        const known = column.filter((value) => value !== null);
        const recent = column.slice(-4).filter((value) => value !== null);
        const value = index === null || index === undefined ? recent.at(-1) : column[index];
        const most = known.length ? this.format(known.reduce((one, other) => Math.max(one, other))) : "–";
        const shown = value === null || value === undefined ? "–" : this.format(value);
        const when = index === null || index === undefined ? this.figure.dataset.now : exact.format(new Date(this.data[0][index] * 1000));
        item.querySelector(".value").textContent = `${shown} (${when}; ${this.figure.dataset.most} ${most})`;
        return `${item.querySelector(".label").textContent}: ${item.querySelector(".value").textContent}`;
      });
      this.holder.setAttribute("aria-label", `${this.title}. ${words.join(". ")}`);
    }

    move(event) {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !this.plot) return;
      event.preventDefault();
      const last = this.data[0].length - 1;
      const at = this.plot.cursor.left >= 0 ? this.plot.cursor.idx : last - step;
      const index = Math.min(Math.max(at + step, 0), last);
      this.plot.setCursor({ left: this.plot.valToPos(this.data[0][index], "x"), top: HEIGHT / 2 });
    }

    resize() {
      if (this.plot && this.holder.clientWidth > 0 && this.plot.width !== this.holder.clientWidth) {
        this.plot.setSize({ width: this.holder.clientWidth, height: HEIGHT });
      }
    }

    redraw() {
      if (this.plot) this.plot.redraw(false, true);
    }
  }

  const charts = [...document.querySelectorAll("[data-chart]")].map((figure) => new Chart(figure));
  const loadAll = () => { if (!document.hidden) charts.forEach((chart) => chart.load()); };
  const redrawAll = () => charts.forEach((chart) => chart.redraw());
  loadAll();
  setInterval(loadAll, REFRESH_MS);
  document.addEventListener("visibilitychange", loadAll);
  new MutationObserver(redrawAll).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
})();
