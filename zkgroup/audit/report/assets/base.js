"use strict";

// What all parts of the page share. Data is put in with textContent only, never as markup.

const report = JSON.parse(document.getElementById("data").textContent);
const names = report.names;
const isSeen = report.snapshots.length > 1 || (report.has_log && report.snapshots.length > 0);
const nameOf = (number) => (number === null || number < 0 ? "" : names[number]);
const SEVERITIES = ["error", "warning", "info"];
const SIGNS = ["✕", "!", "i"];
const NOUNS = [["error", "errors"], ["warning", "warnings"], ["note", "notes"]];

/* Of a timeline: times and zxids are packed as differences. [from, to, name, session, first zxid, last zxid,
   how it ended, how many it stands for]; `zxidOf` spells a zxid. */
for (const section of ["owners", "controllers", "brokers", "replication"]) {
  for (const row of report[section].rows) {
    row.push(row.pop().map(([since, lasted, name, session, first, last, ended, together = 1]) => {
      const from = report.from + since, isNumber = typeof first === "number" && last !== null;
      return [from, lasted === null ? null : from + lasted, name, session, first, isNumber ? first + last : last, ended, together];
    }));
  }
}

const firstZxid = report.zxids[0].startsWith("0x-") ? 0n : BigInt(report.zxids[0]);

function zxidOf(zxid) {
  return typeof zxid === "number" ? `0x${(firstZxid + BigInt(zxid)).toString(16)}` : zxid;
}

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

/* A span without an end lasts to the end of the log, or to the last snapshot where there is no log. */
const endOf = (span) => (span[1] === null ? Math.max(report.logged[1], span[0]) : span[1]);

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

const isOneDay = timeOf(report.from).slice(0, 10) === timeOf(report.to).slice(0, 10);
const isOneYear = report.to - report.from < 300 * 864e5;

/* As short as the history allows: without the day where all of it is one, without the year in most. */
function moment(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < report.from) return timeOf(ms);
  return isOneDay ? clockOf(ms) : isOneYear ? timeOf(ms).slice(5) : timeOf(ms);
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

function notesOf(texts) {
  return texts.map((text) => el("p", { class: "note" }, text));
}

function empty(text) {
  return el("p", { class: "empty" }, text);
}

/* What none was found of; only logs tell of all times. */
function none(text) {
  return empty(isSeen ? `${text} That is what snapshots show: what came and went between them is not known.` : text);
}

function sign(severity) {
  const [one] = NOUNS[severity];
  return el("span", { class: `mark ${SEVERITIES[severity]}`, role: "img", "aria-label": one }, SIGNS[severity]);
}

/* A table that shows so many rows at first, and more when asked.
   columns: {title, num, wide, nowrap}; rowOf gives the cells of an item, or nodes. */
function table(caption, columns, items, rowOf, { page = isNarrow() ? 8 : 25, detailOf = null, timesOf = null } = {}) {
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
      const [from, to] = timesOf ? timesOf(item) : [null, null];
      const row = el("tr", from === null ? {} : { "data-from": from, "data-to": to === null ? report.to : to }, cells);
      body.append(row);
      if (detailOf) expandable(row, () => detailOf(item), columns.length);
    }
    shown = Math.min(shown + count, items.length);
    if (timesOf) markRows(body);
    if (shown < items.length) {
      const left = counted(items.length - shown, "row");
      button.textContent = `Show more (${left} left)`;
      button.dataset.paper = `${left} more on the screen`;
      holder.append(button);
    } else button.remove();
  }
  more(page);
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
