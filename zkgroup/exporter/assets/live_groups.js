// Groups: a row each, with the curve of its lag, and all of the one that the address names (#group=NAME).

const VERDICTS = { warn: "caution", stop: "bad", stall: "bad", rewind: "bad" };
const STATES = { inconsistent: "bad", rebalancing: "caution", frozen: "caution", stable: "good", empty: "muted" };
const HOUR = 3_600_000;

const toned = (text, tones) => (tones[text] ? el("span", { class: tones[text] }, text) : text);
const numberOf = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en"));
const partitionOf = (row) => `${row.topic}-${row.partition}`;
const sinceOf = (time) => (time ? `${timeOf(Date.parse(time), 0)} (${durationOf(Date.parse(live.time) - Date.parse(time))})` : "–");
const wordsOf = (field) => field.value.toLowerCase().split(/\s+/).filter(Boolean);
const matches = (words, text) => words.every((word) => text.toLowerCase().includes(word));

/* A name as a shell takes it. */
const quoted = (name) => (/^[\w@%+=:,./-]+$/.test(name) ? name : `'${name.replaceAll("'", `'"'"'`)}'`);
const command = (text) => el("code", { class: "command" }, text);

/* The group that is shown whole, null for none, and whether it is to be scrolled to. */
let chosen = null, opening = false;

/* The address names a group, or none; that of another section leaves it as it is. */
function choose() {
  if (location.hash.startsWith("#group=")) {
    try {
      chosen = decodeURIComponent(location.hash.slice(7));
      opening = true;
    } catch { /* no name */ }
  } else if (["", "#groups"].includes(location.hash)) chosen = null;
}

/* How bad a group is: the least number first. */
function rankOf(group) {
  if (group.state === "inconsistent") return 0;
  if (VERDICTS[group.verdict] === "bad") return 1;
  if (group.unowned || ["rebalancing", "frozen"].includes(group.state)) return 2;
  return group.verdict === "warn" ? 3 : 4;
}

/* The runs of known values: [place, value] each; `steps` places, the newest at the last one. */
function runsOf(values, steps) {
  const runs = [[]], shift = steps - values.length;
  values.forEach((value, at) => {
    if (value === null) runs.push([]);
    else runs[runs.length - 1].push([at + shift, value]);
  });
  return runs.filter((run) => run.length);
}

const pathOf = (run, x, y) => run.map(([at, value], number) => `${number ? "L" : "M"}${x(at).toFixed(1)},${y(value).toFixed(1)}`).join("") + (run.length > 1 ? "" : "h3");

function spark(values) {
  if (!values) return "–";
  const most = values.reduce((a, b) => Math.max(a, b), 1), steps = HOUR / live.lag_step_ms;
  const last = values[values.length - 1];
  const told = `Lag of the last hour: at most ${numberOf(most)}, now ${last === null ? "not known" : numberOf(last)}`;
  const path = runsOf(values, steps).map((run) => pathOf(run, (at) => (at * 120) / (steps - 1), (value) => 22 - (20 * value) / most)).join("");
  return svg("svg", { class: "spark", viewBox: "0 0 121 24", preserveAspectRatio: "none", role: "img", "aria-label": told }, svg("title", {}, told), svg("path", { d: path }));
}

function groupsSection(body) {
  const words = wordsOf(document.getElementById("filter"));
  const found = live.groups.filter((group) => matches(words, `${group.group} ${group.topics.join(" ")}`));
  found.sort((a, b) => rankOf(a) - rankOf(b) || (b.lag || 0) - (a.lag || 0) || (a.group < b.group ? -1 : 1));
  if (!live.groups.length) return body.append(empty(live.as_of ? "There is no group, or none that is read." : "Not known."));
  if (!found.length) return body.append(empty("Nothing matches."));
  const columns = [
    { title: "Group", name: true }, { title: "State", nowrap: true }, { title: "Members", num: true }, { title: "Partitions", num: true },
    { title: "Unowned", num: true }, { title: "Lag", num: true }, { title: "Last hour" }, { title: "Verdict", nowrap: true }, { title: "Topics", name: true },
  ];
  body.append(kept("groups", counted(found.length, "group"), columns, found, (group) => [
    el("button", { class: "link", type: "button", "data-key": `group ${group.group}`, onclick: () => openGroup(group.group) }, group.group),
    toned(group.state, STATES), numberOf(group.members), numberOf(group.partitions),
    group.unowned ? el("span", { class: "bad" }, numberOf(group.unowned)) : "0", numberOf(group.lag), spark(live.lags[group.group]),
    group.verdict ? toned(group.verdict, VERDICTS) : "–", group.topics.slice(0, 3).join(", ") + (group.topics.length > 3 ? ` and ${group.topics.length - 3} more` : ""),
  ]));
  return undefined;
}

function openGroup(name) {
  const hash = `#group=${encodeURIComponent(name)}`;
  opening = true;
  if (location.hash === hash) draw();
  else location.hash = hash;
}

function closeGroup() {
  if (chosen === null) return;
  const place = `[data-key="${CSS.escape(`group ${chosen}`)}"]`;
  history.replaceState(null, "", "#groups");
  choose();
  draw();
  document.querySelector(place)?.focus();
}

/* The lag of the last hour over the time axis. */
class LagPlot extends Plot {
  show(values) {
    const steps = HOUR / live.lag_step_ms, end = Math.floor(Date.parse(live.time) / live.lag_step_ms);
    this.runs = runsOf(values || [], steps).map((run) => run.map(([at, value]) => [(end - steps + 1 + at) * live.lag_step_ms, value]));
    const known = this.runs.flat().map(([, value]) => value);
    this.node.setAttribute("aria-label", known.length ? `Lag of the last hour, at most ${numberOf(Math.max(...known))}` : "The lag is not known");
    this.node.onpointermove = (event) => this.over(event);
    this.node.onpointerleave = hideTip;
    this.later();
  }

  draw() {
    const known = (this.runs || []).flat();
    if (!known.length) {
      this.node.append(svg("text", { x: this.width / 2, y: this.height / 2, "text-anchor": "middle" }, "the lag is not known"));
      return;
    }
    this.axes(0, Math.max(...known.map(([, value]) => value), 1));
    const x = (ms) => Math.min(Math.max(this.x(ms), this.left), this.right);
    this.runs.forEach((run) => this.node.append(svg("path", { class: "curve", d: pathOf(run, x, (value) => this.y(value)) })));
  }

  over(event) {
    const ms = this.ms(event.clientX - this.node.getBoundingClientRect().left);
    const near = (this.runs || []).flat().find(([from]) => ms >= from && ms < from + live.lag_step_ms);
    if (near) showTip(event.clientX, event.clientY, [`${clockOf(near[0]).slice(0, 5)}: lag ${numberOf(near[1])} at most`]);
    else hideTip();
  }
}

let plot = null;

function groupSection(body) {
  const section = document.getElementById("group"), name = chosen, rows = section.querySelector(".rows");
  section.hidden = name === null;
  if (name === null) return;
  document.getElementById("group-title").textContent = name;
  const group = live.group && live.group.group === name ? live.group : null, summary = live.groups.find((one) => one.group === name);
  for (const part of [section.querySelector("#lag"), section.querySelector(".tools:not(:first-child)")]) part.hidden = !group;
  rows.replaceChildren();
  if (!group || !summary) body.append(empty(live.as_of ? "There is no such group, or it is not read." : "Not known."));
  else {
    plot = plot || new LagPlot(section.querySelector("#lag"), { height: 180, label: "Lag" });
    plot.show(live.lags[name]);
    groupFacts(body, group, summary);
    partitionTable(rows, group);
    groupChanges(rows);
  }
  if (!opening) return;
  opening = false;
  section.scrollIntoView({ block: "start" });
  document.getElementById("group-title").focus({ preventScroll: true });
}

function groupFacts(body, group, summary) {
  const facts = el("dl", { class: "facts" });
  const fact = (term, value) => facts.append(el("div", {}, el("dt", {}, term), el("dd", {}, value)));
  fact("State", toned(group.state, STATES));
  fact("Members", group.protocol === "coordinator" ? `join by Kafka's protocol${group.protocol_state ? `: ${group.protocol_state}` : ", the coordinator does not answer"}` : "register in ZooKeeper");
  fact("Lag", numberOf(summary.lag));
  fact("Verdict", summary.verdict ? toned(summary.verdict, VERDICTS) : "–");
  if (group.assignor) fact("Assignor", group.assignor.split(".").pop());
  body.append(facts, el("p", { class: "muted" }, "In a shell: ", ["describe", "verify", "history"].map((verb) => [command(`zkgroup group ${verb} ${quoted(group.group)}`), " "]).flat()));
  if (group.problems.length) {
    body.append(kept("group problems", counted(group.problems.length, "problem"), [{ title: "Problem", nowrap: true }, { title: "Where", name: true }, { title: "Detail", wide: true }], group.problems,
      (one) => [el("span", { class: "bad" }, one.kind.replaceAll("_", " ")), one.topic === null ? "–" : one.partition === null ? one.topic : partitionOf(one), one.detail]));
  }
  const owned = new Map();
  for (const row of group.partitions) owned.set(row.member, (owned.get(row.member) || 0) + 1);
  if (!group.members.length) return body.append(empty("No member."));
  body.append(kept("members", counted(group.members.length, "member"), [
    { title: "Member", name: true }, { title: "Client", name: true }, { title: "Host", name: true }, { title: "Session", nowrap: true }, { title: "Since", nowrap: true }, { title: "Partitions", num: true },
  ], group.members, (one) => [one.member, one.client_id || one.kind, one.host || "–", one.session || "–",
    one.away_until ? el("span", { class: "caution" }, `away; its partitions wait until ${timeOf(Date.parse(one.away_until), 0)}`) : sinceOf(one.registered_at), numberOf(owned.get(one.member) || 0)]));
  return undefined;
}

function partitionTable(rows, group) {
  const words = wordsOf(document.getElementById("filter-partitions"));
  const found = group.partitions.filter((row) => matches(words, `${partitionOf(row)} ${row.owner || "none"} ${row.verdict || ""}`));
  const bad = (row) => (row.problem || (row.owner === null && row.expected_owner !== null) ? 0 : VERDICTS[row.verdict] ? 1 : 2);
  found.sort((a, b) => bad(a) - bad(b));
  const seen = new Map();
  for (const change of [...live.group_changes].reverse()) for (const one of change.partitions) seen.set(partitionOf(one), change.time);
  rows.append(kept("partitions", counted(found.length, "partition"), [
    { title: "Partition", name: true }, { title: "Owner", name: true }, { title: "Owned since", nowrap: true }, { title: "Offset", num: true },
    { title: "Committed", nowrap: true }, { title: "Log end", num: true }, { title: "Lag", num: true }, { title: "Verdict", nowrap: true }, { title: "Problem", name: true },
  ], found, (row) => [
    partitionOf(row), row.owner === null ? el("span", { class: row.expected_owner ? "bad" : "muted" }, "none") : row.owner,
    row.owner === null ? "–" : sinceOf(row.owned_since || seen.get(partitionOf(row))), numberOf(row.offset),
    row.committed_at ? `${durationOf(Date.parse(live.time) - Date.parse(row.committed_at))} ago` : "–", numberOf(row.log_end_offset), numberOf(row.lag),
    row.verdict ? toned(row.verdict, VERDICTS) : "–", row.problem ? el("span", { class: "bad" }, row.problem.replaceAll("_", " ")) : "",
  ]));
}

function groupChanges(rows) {
  const items = live.group_changes.flatMap((change) => change.partitions.map((one) => ({ change, one })));
  if (!items.length) return;
  rows.append(kept("group changes", "What moved last", [{ title: "When", nowrap: true }, { title: "Partition", name: true }, { title: "Before", name: true }, { title: "After", name: true }], items,
    ({ change, one }) => [timeOf(Date.parse(change.time), 0), partitionOf(one), one.before || "no owner", one.after || "no owner"]));
}

/* A table that keeps what it shows when it is drawn again: how many rows, and the scrolling. */
const shownRows = new Map();

function kept(key, caption, columns, items, rowOf) {
  return table(caption, columns, items, rowOf, { first: shownRows.get(key), onMore: (body, shown) => shownRows.set(key, shown) });
}
