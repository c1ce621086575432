// Spans in words and as tables, and what stands around a timeline.

/* The member of a thread id, which ends with a dash and the thread's number. */
function memberOf(thread) {
  return thread.replace(/-\d+$/, "");
}

function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let keep = Math.max(Math.floor((text.length * width) / Math.max(pen.measureText(text).width, 1)) - 1, 0);
  const cut = (count) => text.slice(0, Math.ceil(count / 2)) + "…" + (count > 1 ? text.slice(-Math.floor(count / 2)) : "");
  while (keep > 0 && pen.measureText(cut(keep)).width > width) keep -= 1;
  return keep > 1 ? cut(keep) : "";
}

function tellSpan(label, span) {
  const [from, to, name, session, first, last, ended, together] = span;
  const lasted = endOf(span) - from;
  const end = nameOf(ended);
  const who = together > 1 ? `${together} spans, the last one ${nameOf(name)}` : nameOf(name);
  return [
    el("b", {}, label), `: ${who}`, el("br"),
    `${moment(from)} to ${to === null ? "the end" : moment(to)}, ${durationOf(lasted)}; zxid ${zxidOf(first)} to ${last === null ? "the end" : zxidOf(last)}`,
    el("br"),
    `${session >= 0 ? `session ${nameOf(session)}; ` : ""}${ENDS[end] || end}`,
  ];
}

const SPAN_COLUMNS = [
  { title: "From", nowrap: true }, { title: "To", nowrap: true }, { title: "Lasted", num: true },
  { title: "Zxids", nowrap: true }, { title: "Session", nowrap: true }, { title: "Ended", name: true },
];

/* The same as a table; `title` heads the column of rows, `what` that of names. */
function spanTable(timeline, caption, title, what) {
  const items = timeline.rows.flatMap((row) => row.spans.map((span) => ({ row, span })));
  return table(caption, [{ title, name: true }, { title: what, name: true }, ...SPAN_COLUMNS], items, ({ row, span }) => [
    row.label, span[7] > 1 ? `${span[7]} spans, the last one ${nameOf(span[2])}` : nameOf(span[2]),
    moment(span[0]), span[1] === null ? "the end" : moment(span[1]),
    durationOf(endOf(span) - span[0]), `${zxidOf(span[4])} – ${span[5] === null ? "end" : zxidOf(span[5])}`,
    nameOf(span[3]), ENDS[nameOf(span[6])] || nameOf(span[6]),
  ]);
}

/* Buttons and a filter above a timeline, and its table below it. */
function withTools(holder, timeline, { caption, title, what, legend = [] }) {
  const button = (text, label, act) => el("button", { class: "act", type: "button", "aria-label": label, onclick: act }, text);
  const filter = el("input", { type: "search", placeholder: "Filter, for example orders-3", "aria-label": `Filter ${title}`, oninput: (event) => timeline.filter(event.target.value) });
  const tools = el("div", { class: "tools" },
    timeline.all.length > 4 ? filter : null,
    button("+", "Zoom in", () => shownTime.zoom(0.5)), button("−", "Zoom out", () => shownTime.zoom(2)),
    button("‹", "Earlier", () => shownTime.move(-0.3 * (shownTime.to - shownTime.from))),
    button("›", "Later", () => shownTime.move(0.3 * (shownTime.to - shownTime.from))),
    button("Whole history", "Show the whole history", () => shownTime.whole()));
  holder.prepend(tools);
  if (legend.length) holder.append(el("ul", { class: "legend" }, legend));
  let fold = folded("As a table", () => spanTable(timeline, caption, title, what));
  holder.append(fold);
  filter.addEventListener("input", () => {
    const next = folded("As a table", () => spanTable(timeline, caption, title, what));
    fold.replaceWith(next);
    fold = next;
  });
  return filter;
}

function key(text, ...shapes) {
  return el("li", {}, svg("svg", { width: 26, height: 16, "aria-hidden": "true" }, shapes), text);
}
