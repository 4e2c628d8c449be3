// Behaviour of all pages: times in the viewer's zone, light and dark, keyboard shortcuts. Pages work without it.
"use strict";
(() => {
  // English as spoken anywhere: 2026-11-23 09:00:00, which forms accept too.
  const language = document.documentElement.lang === "en" ? "sv" : document.documentElement.lang;
  const format = new Intl.DateTimeFormat(language, {
    year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false,
  });

  function showTimes(root) {
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

  function onChange(event) {
    if (!("chooseAll" in event.target.dataset)) return;
    for (const box of event.target.closest("table").querySelectorAll("tbody input[type=checkbox]")) box.checked = event.target.checked;
  }

  function onShow() {
    for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
  }

  // On a small screen the menu is a line that scrolls: the entry of this page must be visible.
  function showEntry() {
    const entry = document.querySelector("body > nav a[aria-current]");
    const menu = entry && entry.closest("nav");
    if (menu) menu.scrollLeft = entry.offsetLeft - (menu.clientWidth - entry.offsetWidth) / 2;
  }

  showTimes(document);
  showEntry();
  document.addEventListener("submit", onSubmit);
  document.addEventListener("change", onChange);
  window.addEventListener("pageshow", onShow);
  document.body.addEventListener("htmx:afterSwap", (event) => showTimes(event.detail.target.parentElement || document));
  document.addEventListener("keydown", onKey);
  document.getElementById("theme").addEventListener("click", toggleTheme);
  document.getElementById("help").addEventListener("click", () => document.getElementById("shortcuts").showModal());
})();
