"use strict";

// What all pages share. Data is put in with textContent only, never as markup.

const SEVERITIES = ["error", "warning", "info"];
const SIGNS = ["✕", "!", "i"];
const NOUNS = [["error", "errors"], ["warning", "warnings"], ["note", "notes"]];

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  fill(node, attributes, children);
  return node;
}

/* A text whose commands and settings, between backticks, are set as code. */
function withCode(text) {
  return text.split("`").map((part, at) => at % 2 ? el("code", {}, part) : part);
}

function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(node, attributes, children);
  return node;
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== "") node.append(child);
  }
}

const counted = (number, one, many) => `${number.toLocaleString("en")} ${number === 1 ? one : many || one + "s"}`;

function timeOf(ms, digits = 3) {
  if (ms === null || ms === undefined) return "";
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return "no time";
  return date.toISOString().replace("T", " ").slice(0, digits ? 20 + digits : 19);
}

function clockOf(ms) {
  return timeOf(ms).slice(11);
}

function durationOf(ms) {
  if (ms === null || ms === undefined) return "";
  ms = Math.max(ms, 0);
  if (ms < 1000) return `${Math.round(ms)} ms`;
  for (const [size, unit] of [[86400000, "d"], [3600000, "h"], [60000, "min"]]) {
    if (ms >= 2 * size) return `${(ms / size).toFixed(1)} ${unit}`;
  }
  return `${(ms / 1000).toFixed(1)} s`;
}

function sizeOf(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let at = -1;
  do { bytes /= 1000; at += 1; } while (bytes >= 1000 && at < units.length - 1);
  return `${bytes.toFixed(1)} ${units[at]}`;
}

const isNarrow = () => matchMedia("(max-width: 45rem)").matches;

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function bodyOf(section) {
  return document.querySelector(`#${section} .body`);
}

function empty(text) {
  return el("p", { class: "empty" }, text);
}

function sign(severity) {
  const [one] = NOUNS[severity];
  return el("span", { class: `mark ${SEVERITIES[severity]}`, role: "img", "aria-label": one }, SIGNS[severity]);
}

/* A table that shows so many rows at first, and more when asked.
   columns: {title, num, wide, nowrap, name}; rowOf gives the cells of an item, or nodes; detailOf what opens below
   it; attributesOf those of its row. onMore gets the body and how many rows are shown. */
function table(caption, columns, items, rowOf, { page = isNarrow() ? 8 : 25, first = page, detailOf = null, attributesOf = () => ({}), onMore = () => {} } = {}) {
  const body = el("tbody");
  const classOf = (column) => ["num", "wide", "nowrap", "name"].filter((each) => column[each]).join(" ") || null;
  const head = columns.map((column) => el("th", { scope: "col", class: column.num ? "num" : null }, column.title));
  const grid = el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, head)), body);
  const holder = el("div", {}, el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, grid));
  let shown = 0;
  const button = el("button", { class: "act left", type: "button", onclick: () => more(page * 4) });
  function more(count) {
    for (const item of items.slice(shown, shown + count)) {
      const cells = rowOf(item).map((cell, at) => el("td", { class: classOf(columns[at]), "data-title": columns[at].title || null }, cell));
      const row = el("tr", attributesOf(item), cells);
      body.append(row);
      if (detailOf) expandable(row, () => detailOf(item), columns.length);
    }
    shown = Math.min(shown + count, items.length);
    onMore(body, shown);
    if (shown < items.length) {
      const left = counted(items.length - shown, "row");
      button.textContent = `Show more (${left} left)`;
      button.dataset.paper = `${left} more on the screen`;
      holder.append(button);
    } else button.remove();
  }
  more(Math.max(first, page));
  return holder;
}

/* The first button of the row opens a row of details below it. */
function expandable(row, detailOf, width) {
  const button = row.querySelector("button.link");
  if (!button) return;
  let detail = null;
  button.setAttribute("aria-expanded", "false");
  button.addEventListener("click", () => {
    if (detail) {
      detail.remove();
      detail = null;
    } else {
      detail = el("tr", { class: "more" }, el("td", { colspan: width }, detailOf()));
      row.after(detail);
    }
    button.setAttribute("aria-expanded", String(detail !== null));
  });
}

/* Built when it is opened for the first time; `show` opens it at once. */
function folded(title, build) {
  const details = el("details", { class: "table" }, el("summary", {}, title));
  details.show = () => {
    if (details.children.length === 1) details.append(build());
    details.open = true;
  };
  details.addEventListener("toggle", () => details.open && details.show());
  return details;
}

const tip = document.getElementById("tip");

function showTip(x, y, nodes) {
  tip.replaceChildren(...nodes);
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${y + box.height + 26 > innerHeight ? Math.max(8, y - box.height - 12) : y + 18}px`;
}

function hideTip() {
  tip.hidden = true;
}

/* Marks in the navigation which section is read. */
function follow() {
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.getAttribute("href").slice(1), link]));
  const near = new Set();
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) near[isIntersecting ? "add" : "delete"](target.id);
    const first = [...links.keys()].find((id) => near.has(id));
    if (!first) return;
    links.forEach((link) => link.removeAttribute("aria-current"));
    links.get(first).setAttribute("aria-current", "true");
  }, { rootMargin: "-15% 0px -80% 0px" });
  links.forEach((_, id) => seen.observe(document.getElementById(id)));
}
