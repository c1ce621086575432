// Consumer groups: owners, rebalances, offsets.

function ownersSection() {
  const body = bodyOf("owners"), owners = report.owners;
  body.append(...notesOf(owners.notes));
  if (!owners.rows.length) return body.append(none("No partition had an owner."));
  const present = new Map(report.members);
  const rows = owners.rows.map(([group, topic, partition, spans]) => ({ label: `${nameOf(group)} ${partitionOf(topic, partition)}`, spans, group, topic, present: present.get(group), short: partitionOf(topic, partition) }));
  const holder = el("div");
  body.append(holder);
  const timeline = new Timeline(holder, { rows, what: "partition", label: "Timeline of owners by partition", gaps: true });
  const bar = () => svg("rect", { x: 0, y: 2, width: 22, height: 12, fill: "var(--c0)" });
  filters.owners = withTools(holder, timeline, {
    caption: "Owners by partition", title: "Partition", what: "Owner",
    legend: [
      key("released by its own session", bar()),
      key("ended with its session", bar(), svg("rect", { x: 20, y: 0, width: 2.5, height: 16, fill: "var(--ink)" })),
      key("deleted by another session", bar(), svg("path", { d: "M15,4 l7,8 m0,-8 l-7,8", stroke: "var(--error)", "stroke-width": 2 })),
      key("no owner, while the group had a member", svg("line", { x1: 0, x2: 24, y1: 8, y2: 8, stroke: "var(--soft)", "stroke-dasharray": "2 4" })),
      key("a colour a member, the same in all charts; from the 13th member on with lines", bar(), svg("rect", { x: 0, y: 10.5, width: 22, height: 1.5, fill: "var(--paper)" })),
    ],
  });
  pickers(holder, rows, timeline);
}

/* Whether a group or topic is chosen: all are where none is. */
const wanted = (select, number) => select.value === "" || Number(select.value) === number;

function choose(label, numbers) {
  return el("select", { "aria-label": label }, el("option", { value: "" }, `all ${label.toLowerCase()}s (${numbers.length})`), numbers.map((number) => el("option", { value: number }, nameOf(number))));
}

/* Views by group and by topic, so that thousands of partitions can be read. */
function pickers(holder, rows, timeline) {
  const groups = [...new Set(rows.map((row) => row.group))], topics = [...new Set(rows.map((row) => row.topic))];
  const group = choose("Group", groups), topic = choose("Topic", topics);
  const apply = () => {
    timeline.isOneGroup = group.value !== "";
    timeline.filter(timeline.words || "", (row) => wanted(group, row.group) && wanted(topic, row.topic));
    filters.owners.dispatchEvent(new Event("input"));
  };
  group.addEventListener("change", apply);
  topic.addEventListener("change", apply);
  const tools = holder.querySelector(".tools");
  if (topics.length > 1) tools.prepend(el("label", {}, "Topic", topic));
  if (groups.length > 1) tools.prepend(el("label", {}, "Group", group));
  /* On a phone names of groups and topics do not fit beside each other: the group with the worst incident comes first. */
  if (groups.length > 1 && isNarrow()) {
    const worst = report.incidents.rows.find((row) => groups.includes(row[3]));
    group.value = String(worst ? worst[3] : groups[0]);
    apply();
  }
  filters.ownersGroup = (number) => {
    if (!groups.includes(number)) return;
    group.value = String(number);
    topic.value = "";
    filters.owners.value = "";
    timeline.words = "";
    apply();
  };
}

function rebalancesSection() {
  const body = bodyOf("rebalances"), { notes, rows } = report.rebalances;
  body.append(...notesOf(notes));
  if (!rows.length) return body.append(report.has_log ? none("There was none.") : empty("Only logs show them one by one; findings have what snapshots prove."));
  const columns = [
    { title: "Began", nowrap: true }, { title: "Group", name: true }, { title: "Cause", name: true }, { title: "Took", num: true },
    { title: "Members", num: true }, { title: "Moved", num: true }, { title: "Fewest moves", num: true },
    { title: "Retaken", num: true }, { title: "Longest without owner", num: true }, { title: "Left unowned", num: true },
  ];
  const groups = [...new Set(rows.map((row) => row.group))];
  const holder = el("div");
  const select = el("select", { "aria-label": "Group", onchange: () => draw() }, el("option", { value: "" }, "all groups"), groups.map((group) => el("option", { value: group }, nameOf(group))));
  if (groups.length > 1) body.append(el("div", { class: "tools" }, el("label", {}, "Group", select)));
  body.append(holder);
  function draw() {
    const found = rows.filter((row) => wanted(select, row.group));
    holder.replaceChildren(table(counted(found.length, "rebalance"), columns, found, (row) => [
      el("button", { class: "link", type: "button", title: "Who moved what" }, moment(row.from)),
      nameOf(row.group), causeOf(row), durationOf(row.to - row.from), row.members, row.moved,
      row.least === null ? "–" : row.least, row.retaken,
      row.down_max === null ? "–" : durationOf(row.down_max),
      row.unowned ? el("span", { class: "bad" }, String(row.unowned)) : "0",
    ], { detailOf: explained, ...timed((row) => [row.from, row.to]) }));
  }
  draw();
  if (rows.some((row) => row.unowned)) body.append(el("p", { class: "muted" }, el("span", { class: "bad" }, "Red"), ": partitions without an owner when the rebalance ended."));
}

function causeOf(row) {
  if (!row.triggers.length) return "no cause in the log";
  const counts = new Map();
  for (const [cause] of row.triggers) counts.set(cause, (counts.get(cause) || 0) + 1);
  return [...counts].map(([cause, count]) => (count > 1 ? `${cause} ×${count}` : cause)).join(", ");
}

/* One rebalance in full. */
function explained(row) {
  const told = row.triggers.map(([cause, what, zxid, ms]) => el("li", {}, el("b", {}, cause), ` ${nameOf(what)} at ${moment(ms)}, zxid `, el("span", { class: "mono" }, zxid)));
  if (row.more_triggers) told.push(el("li", {}, `and ${row.more_triggers} more`));
  const flows = row.flows.map(([before, after, count]) => el("li", {}, `${counted(count, "partition")}: ${nameOf(before) || "no owner"} → ${nameOf(after) || "no owner"}`));
  const extra = row.least !== null && row.moved > row.least ? ` ${counted(row.moved - row.least, "move")} more than needed.` : "";
  return [
    el("p", {}, `zxid ${row.zxids[0]} – ${row.zxids[1]}. ${counted(row.touched, "partition")} touched, ${row.moved} moved${row.least === null ? "" : `, ${row.least} at the least`}.${row.down_median === null ? "" : ` Half of those that had an owner before stood without one for ${durationOf(row.down_median)} or less.`}${extra}`),
    el("p", {}, el("button", { class: "act", type: "button", onclick: () => showGroup(row) }, "Show in the timeline of owners")),
    told.length ? [el("h3", {}, "Causes"), el("ul", {}, told)] : null,
    flows.length ? [el("h3", {}, "Who moved what"), el("ul", {}, flows)] : null,
    row.changes.length ? table("Partitions touched", [{ title: "Partition", name: true }, { title: "Before", name: true }, { title: "After", name: true }, { title: "Without owner", num: true }], row.changes, ([topic, partition, before, after, down]) => [
      partitionOf(topic, partition), nameOf(before) || "no owner", nameOf(after) || "no owner", down === null ? "–" : durationOf(down),
    ], { page: 10 }) : null,
  ].flat();
}

function showGroup(row) {
  lookAt([0, row.group, -1, null, -1, null, null, row.from, row.to, ""]);
}

const PICKED_MAX = 400;

function offsetsSection() {
  const body = bodyOf("offsets"), { notes, rows, marks } = report.offsets;
  body.append(...notesOf(notes));
  if (!rows.length) return body.append(none("No offset was written."));
  const idOf = (group, topic, partition) => `${group} ${topic} ${partition}`;
  const marksOf = new Map();
  for (const mark of marks) {
    const id = idOf(mark[0], mark[1], mark[2]);
    if (!marksOf.has(id)) marksOf.set(id, []);
    marksOf.get(id).push(mark);
  }
  const all = rows.map((row) => ({ row, id: idOf(...row), label: `${nameOf(row[0])} ${partitionOf(row[1], row[2])}`, marks: marksOf.get(idOf(...row)) || [] }));
  const weight = (each) => each.marks.filter((mark) => MARKS[mark[3]].tone === "error").length;
  all.sort((a, b) => weight(b) - weight(a) || b.marks.length - a.marks.length);
  const filter = el("input", { type: "search", placeholder: "Filter partitions", "aria-label": "Filter partitions", oninput: () => fillIn() });
  const select = el("select", { "aria-label": "Partition", onchange: () => show() });
  const step = (count) => () => {
    select.selectedIndex = Math.min(Math.max(select.selectedIndex + count, 0), select.options.length - 1);
    show();
  };
  const groups = [...new Set(rows.map((row) => row[0]))], topics = [...new Set(rows.map((row) => row[1]))];
  const group = choose("Group", groups), topic = choose("Topic", topics);
  group.addEventListener("change", () => fillIn());
  topic.addEventListener("change", () => fillIn());
  body.append(el("div", { class: "tools" }, groups.length > 1 ? el("label", {}, "Group", group) : null, topics.length > 1 ? el("label", {}, "Topic", topic) : null,
    all.length > 4 ? filter : null, el("label", {}, "Partition", select),
    el("button", { class: "act", type: "button", onclick: step(-1), "aria-label": "Partition before" }, "‹"),
    el("button", { class: "act", type: "button", onclick: step(1), "aria-label": "Next partition" }, "›")));
  const told = el("p", { class: "muted" });
  body.append(told);
  const plot = new OffsetPlot(body, { height: 280, label: "Offsets" });
  body.append(el("ul", { class: "legend" }, Object.entries(MARKS).map(([kind, mark]) => key(mark.text, markShape(kind, 12, 8)))));

  function fillIn() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = all.filter((each) => wanted(group, each.row[0]) && wanted(topic, each.row[1]) && words.every((word) => each.label.toLowerCase().includes(word)));
    select.replaceChildren(...found.slice(0, PICKED_MAX).map((each) => el("option", { value: each.id }, each.marks.length ? `${each.label} (${counted(each.marks.length, "mark")})` : each.label)));
    if (found.length > PICKED_MAX) select.append(el("option", { disabled: true }, `${found.length - PICKED_MAX} more: type to find them`));
    show();
  }

  function show() {
    const one = all.find((each) => each.id === select.value);
    told.textContent = one ? `${counted(one.row[3], "write")}, ${counted(one.marks.length, "mark")}.` : "Nothing matches.";
    if (one) plot.show(one.row, one.marks);
  }

  fillIn();
  if (marks.length) body.append(markTable(marks, (mark) => {
    for (const each of [filter, group, topic]) each.value = "";
    fillIn();
    const id = idOf(mark[0], mark[1], mark[2]);
    const one = all.find((each) => each.id === id);
    if (one && ![...select.options].some((option) => option.value === id)) select.prepend(el("option", { value: id }, one.label));
    select.value = id;
    show();
    plot.node.scrollIntoView({ block: "center" });
  }));
  else body.append(none("No rewind, no foreign commit, no reset."));
  return undefined;
}

function markTable(marks, choose) {
  const order = Object.keys(MARKS);
  const sorted = [...marks].sort((a, b) => order.indexOf(a[3]) - order.indexOf(b[3]));
  const columns = [
    { title: "When", nowrap: true }, { title: "What", nowrap: true }, { title: "Partition", name: true }, { title: "Before", num: true },
    { title: "After", num: true }, { title: "By", name: true }, { title: "Owner then", name: true }, { title: "Zxid", nowrap: true },
  ];
  return table(counted(marks.length, "mark"), columns, sorted, (mark) => [
    el("button", { class: "link", type: "button", title: "Show its curve", onclick: () => choose(mark) }, moment(mark[4])),
    MARKS[mark[3]].tone === "error" ? el("span", { class: "bad" }, MARKS[mark[3]].text) : MARKS[mark[3]].text,
    `${nameOf(mark[0])} ${partitionOf(mark[1], mark[2])}`, mark[6] === null ? "–" : String(mark[6]), mark[7] === null ? "–" : String(mark[7]),
    nameOf(mark[9]) || nameOf(mark[8]), nameOf(mark[10]) || "no owner", mark[5],
  ], { page: 12 });
}
