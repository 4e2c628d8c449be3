// Draws the charts of a page from the history (/api/v1/history) and keeps them current. A sample that failed is a gap in the line.
// The arrow keys move through a chart's times; the values there are shown in its legend.
"use strict";
(() => {
  const REFRESH_MS = 10_000;
  const HEIGHT = 190;
  const DAY_S = 86_400;
  const FINEST_S = 10;
  const SECOND = 1_000, MINUTE = 60_000, HOUR = 3_600_000, DAY = 86_400_000;
  const language = document.documentElement.lang;
  const compact = new Intl.NumberFormat(language, { notation: "compact", maximumFractionDigits: 1 });
  const full = new Intl.NumberFormat(language, { maximumFractionDigits: 1 });
  // Times as in tables, in both languages: 2026-11-23 09:00:00.
  const { timeZone } = document.body.dataset;
  const clock = new Intl.DateTimeFormat("sv", { hour: "2-digit", minute: "2-digit", timeZone });
  const exact = new Intl.DateTimeFormat("sv", { dateStyle: "short", timeStyle: "medium", timeZone });
  const day = new Intl.DateTimeFormat("sv", { month: "2-digit", day: "2-digit", timeZone });

  function bytes(value) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let amount = value, unit = 0;
    while (Math.abs(amount) >= 1024 && unit < units.length - 1) { amount /= 1024; unit += 1; }
    return `${unit ? +amount.toFixed(2) : Math.round(amount)} ${units[unit]}`;
  }

  // The units of durations, and how percentages are written, in the page's language.
  const names = JSON.parse(document.querySelector("[data-units]")?.dataset.units || "{}");

  // The two largest units, the second only if it is not zero, as in tables: 1 min 15 s.
  function duration(ms) {
    if (ms === 0) return `0 ${names.s}`;
    if (ms < SECOND) return `${+ms.toFixed(1)} ${names.ms}`;
    const units = [[names.d, DAY], [names.h, HOUR], [names.min, MINUTE], [names.s, SECOND]];
    const first = units.findIndex(([, size]) => ms >= size);
    let rest = ms;
    const words = units.slice(first, first + 2).map(([unit, size]) => {
      const amount = Math.floor(rest / size);
      rest -= amount * size;
      return amount ? `${amount} ${unit}` : "";
    });
    return words.filter(Boolean).join(" ");
  }

  function decimals(from, to) {
    const steps = [];
    for (let power = from; power <= to; power += 1) steps.push(...[1, 2, 5].map((digit) => +`${digit}e${power}`));
    return steps;
  }

  // For each unit: a value in full, a value at the axis, and the distances of the axis' values, which its format must not round.
  const percent = (value) => names.percent.replace("{percent}", +(value * 100).toFixed(1));
  const units = {
    rate: { full: (value) => full.format(value), axis: (value) => compact.format(value), steps: decimals(-1, 12) },
    number: { full: (value) => full.format(Math.round(value)), axis: (value) => compact.format(value), steps: decimals(0, 15), least: 4 },
    share: { full: percent, axis: percent, steps: [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5] },
    bytes: { full: bytes, axis: bytes, steps: Array.from({ length: 51 }, (_, power) => 2 ** power) },
    duration: {
      full: duration,
      axis: duration,
      steps: [
        ...decimals(-1, 2), ...[1, 2, 5, 10, 15, 30].map((count) => count * SECOND), ...[1, 2, 5, 10, 15, 30].map((count) => count * MINUTE),
        ...[1, 2, 3, 6, 12].map((count) => count * HOUR), ...decimals(0, 4).map((count) => count * DAY),
      ],
    },
  };

  units.latency = { ...units.duration, full: (value) => (value === 0 ? `0 ${names.ms}` : duration(value)) };

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
      this.unit = units[figure.dataset.unit] || units.number;
      this.plot = null;
      new ResizeObserver(() => this.resize()).observe(this.holder);
      this.holder.addEventListener("keydown", (event) => this.move(event));
      this.holder.addEventListener("blur", () => this.plot && this.plot.setCursor({ left: -10, top: -10 }));
    }

    fail(error) {
      this.state.textContent = `${this.figure.dataset.failed} ${error.message}`;
    }

    show(body) {
      const columns = this.items.map((item) => body.series[item.dataset.series] || []);
      const isEmpty = columns.every((column) => column.every((value) => value === null));
      // Of a chart whose series all have no data, the legend has no values: it is said once.
      const text = isEmpty ? this.figure.dataset.empty : "";
      if (this.state.textContent !== text) this.state.textContent = text;
      this.data = [body.times, ...columns];
      this.step = body.step;
      this.figure.classList.toggle("empty", isEmpty);
      if (isEmpty) {
        if (this.plot) this.plot.destroy();
        this.plot = null;
        this.label(null);
        return;
      }
      if (this.plot === null) {
        this.plot = new uPlot(this.options(), this.data, this.holder);
        this.shownTime = this.newestTime();
      } else {
        if (this.newestTime() > this.shownTime) for (const item of this.items) delete item.dataset.value; // the sample is newer than the page
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
        tzDate: (at) => (timeZone ? uPlot.tzDate(new Date(at * 1000), timeZone) : new Date(at * 1000)),
        cursor: { drag: { x: false, y: false }, points: { size: 6 } },
        scales: { y: { range: (_plot, _low, high) => [0, Math.max(high > 0 ? high * 1.08 : 1, this.unit.least || 0)] } },
        axes: [
          { ...axis, space: 70, size: 28, values: (_plot, splits) => splits.map(moment) },
          { ...axis, size: (plot, texts) => this.axisWidth(plot, texts), incrs: this.unit.steps, values: (_plot, splits) => splits.map((value) => (value === 0 ? "0" : this.unit.axis(value))) },
        ],
        series: [{}, ...this.items.map((_, index) => ({ stroke: () => colour(`--line${index + 1}`), width: 2 }))],
        hooks: { setCursor: [(plot) => this.label(plot.cursor.left >= 0 ? plot.cursor.idx : null)] },
      };
    }

    // As wide as the longest value at the axis, with its tick and the gap before it.
    axisWidth(plot, texts) {
      plot.ctx.save();
      plot.ctx.font = plot.axes[1].font[0];
      const widest = Math.max(0, ...(texts || []).map((text) => plot.ctx.measureText(text).width)) / devicePixelRatio;
      plot.ctx.restore();
      return Math.ceil(widest) + 18;
    }

    // The place of the newest values of the chart: the last point may not be complete, and samples every 10 s may be late.
    newest() {
      const [times, ...columns] = this.data;
      const most = this.step > FINEST_S ? 2 : 4;
      for (let index = times.length - 1; index >= Math.max(times.length - most, 0); index -= 1) {
        if (columns.some((column) => column[index] !== null && column[index] !== undefined)) return index;
      }
      return null;
    }

    newestTime() {
      const at = this.newest();
      return at === null ? 0 : this.data[0][at];
    }

    // The values at a place of the data, or the newest ones; a series that ended before has none. A mean of more than 10 s is not "now": its time is
    // shown. The value of the page is shown until there is a newer sample, and if the series has no data yet.
    label(index) {
      const isNewest = index === null || index === undefined;
      const at = isNewest ? this.newest() : index;
      const words = this.items.map((item, number) => {
        const column = this.data[number + 1];
        const known = column.filter((value) => value !== null);
        const own = isNewest && this.plot && (this.step <= FINEST_S || !known.length) ? item.dataset.value : undefined;
        if (!known.length && own === undefined) {
          item.querySelector(".value").textContent = this.plot ? this.figure.dataset.none : "";
          return `${item.querySelector(".label").textContent}: ${this.figure.dataset.none}`;
        }
        const value = own !== undefined ? Number(own) : at === null ? null : column[at];
        const most = this.unit.full(known.reduce((one, other) => Math.max(one, other), value ?? 0));
        const isKnown = value !== null && value !== undefined;
        const when = own !== undefined || (isNewest && this.step <= FINEST_S) ? this.figure.dataset.now : at === null ? "" : exact.format(new Date(this.data[0][at] * 1000));
        const current = isKnown ? `${when} ${this.unit.full(value)}` : isNewest ? "" : `${when} –`;
        const parts = [current, `${this.figure.dataset.most} ${most}`].filter(Boolean);
        item.querySelector(".value").textContent = parts.map((part) => part.replaceAll(" ", "\u00a0")).join(" · "); // lines end between the parts only
        return `${item.querySelector(".label").textContent}: ${parts.join(" · ")}`;
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
  const sources = new Set(charts.map((chart) => chart.figure.dataset.source));

  // One request for all charts that have the same source.
  async function load(source) {
    const loaded = charts.filter((chart) => chart.figure.dataset.source === source);
    try {
      const answer = await fetch(source, { headers: { Accept: "application/json" } });
      const body = await answer.json();
      if (!answer.ok) throw new Error(body.error || answer.statusText);
      for (const chart of loaded) chart.show(body);
    } catch (error) {
      for (const chart of loaded) chart.fail(error);
    }
  }

  const loadAll = () => { if (!document.hidden) sources.forEach(load); };
  const redrawAll = () => charts.forEach((chart) => chart.redraw());
  loadAll();
  setInterval(loadAll, REFRESH_MS);
  document.addEventListener("visibilitychange", loadAll);
  new MutationObserver(redrawAll).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
})();
