// The last reading of the exporter, asked for once an interval, and drawn again whole.

let live = null, failedSince = null, timer = 0, turn = 0;
const interval = Number(document.body.dataset.interval);

/* The address of the data, also below a path of a proxy; an address with a user cannot be fetched. */
function addressOf(group) {
  const url = new URL("api/snapshot", location.href);
  Object.assign(url, { username: "", password: "", hash: "" });
  if (group !== null) url.searchParams.set("group", group);
  return url;
}

async function ask(group) {
  const answer = await fetch(addressOf(group), { cache: "no-store" });
  if (answer.status === 404 && group !== null) return ask(null);
  if (!answer.ok) throw new Error(answer.status === 503 ? "it has not read anything yet" : `it answers ${answer.status} ${answer.statusText}`);
  return answer.json();
}

async function poll() {
  clearTimeout(timer);
  const own = ++turn;
  try {
    const isListed = (one) => one.groups.some((group) => group.group === chosen);
    let found = await ask(live && !isListed(live) ? null : chosen);
    if (!found.group && isListed(found)) found = await ask(chosen); // it has come back
    if (own !== turn) return;
    live = found;
    failedSince = null;
    if (getSelection().isCollapsed || opening) draw(); // somebody is copying
    timer = setTimeout(poll, interval);
  } catch (error) {
    if (own !== turn) return;
    failedSince = failedSince || Date.now();
    unreachable(error);
    timer = setTimeout(poll, Math.min(interval, 2000));
  }
}

function unreachable(error) {
  const since = `since ${timeOf(failedSince, 0)}`, of = live ? ` What is shown is of ${timeOf(Date.parse(live.time), 0)}.` : "";
  document.getElementById("unknown").replaceChildren(el("p", { class: "alert bad" }, `✕ The exporter does not answer ${since}: ${error.message}.${of}`));
  document.documentElement.classList.add("stale");
}

function head() {
  const facts = document.getElementById("facts"), away = document.getElementById("unknown");
  const fact = (term, value) => facts.append(el("div", {}, el("dt", {}, term), el("dd", {}, value)));
  facts.replaceChildren();
  away.replaceChildren();
  fact("Read at", `${timeOf(Date.parse(live.time), 0)} UTC`);
  fact("Took", durationOf(live.took_ms) + (live.packets === null ? "" : `, ${counted(live.packets, "request")}`));
  fact("Groups", live.as_of ? numberOf(live.groups.length) : "not known");
  fact("Brokers", live.brokers ? live.brokers.data.join(", ") || "none" : "not known");
  fact("Controller", live.brokers ? (live.controller === null ? "none" : String(live.controller)) : "not known");
  fact("Topics", live.topics === null ? "not known" : `${numberOf(live.topics)} with ${counted(live.partitions, "partition")}`);
  if (!live.as_of) {
    const before = live.reached ? `It answered last at ${timeOf(Date.parse(live.reached), 0)}.` : "It has not answered since the exporter was started.";
    away.append(el("p", { class: "alert bad" }, `✕ ZooKeeper does not answer: nothing is known of groups and brokers. ${before}`));
  }
  away.append(...live.unknown.slice(0, 20).map((one) => el("p", { class: "alert" }, `! Not known since ${timeOf(Date.parse(one.since), 0)}: ${one.reason}`)));
  if (live.unknown.length > 20) away.append(el("p", { class: "alert" }, `! ${counted(live.unknown.length - 20, "reason")} more`));
}

function problemsSection(body) {
  const counts = SEVERITIES.map((severity) => live.problem_counts[severity] || 0);
  document.title = counts[0] + counts[1] ? `(${counts[0] + counts[1]}) zkgroup exporter` : "zkgroup exporter";
  body.append(el("div", { class: "tiles" }, counts.map((count, at) =>
    el("p", { class: `tile ${SEVERITIES[at]}` }, el("b", {}, live.as_of ? numberOf(count) : "?"), el("span", {}, `${SIGNS[at]} ${NOUNS[at][count === 1 ? 0 : 1]}`)))));
  if (!live.as_of) return body.append(empty("Not known."));
  if (!live.problems.length) return body.append(empty(live.unknown.length ? "Nothing is wrong with what is known." : "Nothing is wrong."));
  body.append(el("div", { class: "cards" }, live.problems.slice(0, shownProblems).map((one) =>
    el("article", { class: `card ${one.severity}` }, el("h3", {}, sign(SEVERITIES.indexOf(one.severity)), el("span", {}, `${one.subject}: ${one.detail}`)), one.next ? el("p", {}, command(one.next)) : null))));
  const total = counts.reduce((sum, count) => sum + count, 0), rest = live.problems.length - shownProblems;
  if (rest > 0) body.append(el("button", { class: "act left", type: "button", onclick: () => { shownProblems += 50; draw(); } }, `Show more (${counted(rest, "problem")} left)`));
  else if (total > live.problems.length) body.append(empty(`${counted(total - live.problems.length, "problem")} more, none worse: zkgroup doctor`));
  return undefined;
}

let shownProblems = 10;

function changesSection(body) {
  if (!live.changes.length) return body.append(empty("Nothing since the exporter was started."));
  const who = (verb, members) => (members.length ? `${members.slice(0, 3).join(", ")}${members.length > 3 ? ` and ${members.length - 3} more` : ""} ${verb}` : null);
  body.append(kept("changes", counted(live.changes.length, "change"), [
    { title: "Seen at", nowrap: true }, { title: "Group", name: true }, { title: "Moved", num: true }, { title: "Assigned", num: true }, { title: "Released", num: true }, { title: "Members", wide: true },
  ], live.changes, (one) => [
    timeOf(Date.parse(one.time), 0), el("button", { class: "link", type: "button", "data-key": `change ${one.time} ${one.group}`, onclick: () => openGroup(one.group) }, one.group),
    numberOf(one.moved), numberOf(one.assigned), numberOf(one.released), [who("joined", one.joined), who("left", one.left)].filter(Boolean).join("; ") || "–",
  ]));
  return undefined;
}

function brokersSection(body) {
  if (!live.brokers) return body.append(empty("Not known."));
  const columns = [{ title: "Broker", num: true }, { title: "Address", name: true }, { title: "Role", nowrap: true }, { title: "Leads", num: true }, { title: "Replicas", num: true }, { title: "Out of sync", num: true }];
  const role = (one) => (one.broker === live.controller ? "controller" : live.brokers.controller_only.includes(one.broker) ? "hosts nothing" : "–");
  if (live.broker_loads.length) body.append(kept("brokers", counted(live.broker_loads.length, "broker"), columns, live.broker_loads, (one) => [
    String(one.broker), one.registered ? one.address || "no plain listener" : el("span", { class: "bad" }, "not registered"), role(one), numberOf(one.leaders), numberOf(one.replicas),
    one.out_of_sync ? el("span", { class: "caution" }, numberOf(one.out_of_sync)) : "0",
  ]));
  else body.append(empty("No broker is registered."));
  const total = live.offline_partitions + live.under_replicated_partitions;
  body.append(el("h3", {}, "Replicas out of sync"));
  if (!total) body.append(empty("None: every partition that brokers host has a leader, and all its replicas in sync."));
  else partitionHealth(body, "ill", `${counted(live.offline_partitions, "partition")} without a live leader, ${numberOf(live.under_replicated_partitions)} not fully in sync`, live.ill, total);
  body.append(el("h3", {}, "Moves"));
  if (!live.reassignments) return body.append(empty("Nothing moves."));
  const all = live.reassigned + live.reassignments;
  body.append(el("p", {}, el("progress", { max: all, value: live.reassigned, "aria-label": "Moves that have ended" }), ` ${numberOf(live.reassigned)} of ${counted(all, "move")} ended. `, command("zkgroup reassign list")));
  partitionHealth(body, "moves", `${counted(live.reassignments, "partition")} under way`, live.reassigning, live.reassignments);
  return undefined;
}

function partitionHealth(body, key, caption, rows, total) {
  const list = (brokers) => brokers.join(", ") || "–";
  const progress = (row) => {
    if (row.isr === null) return "–";
    const wanted = row.target || row.replicas;
    return `${list(row.isr)} (${wanted.filter((broker) => row.isr.includes(broker)).length} of ${wanted.length})`;
  };
  body.append(kept(key, caption, [
    { title: "Partition", name: true }, { title: "Leader", num: true }, { title: "Replicas", nowrap: true },
    key === "moves" ? { title: "Moves to", nowrap: true } : null, { title: "In sync", nowrap: true }, { title: "Since", nowrap: true },
  ].filter(Boolean), rows, (row) => [
    partitionOf(row), row.leader === null || row.leader < 0 ? el("span", { class: "bad" }, "none") : String(row.leader), list(row.replicas),
    row.target ? list(row.target) : null, progress(row), sinceOf(row.since),
  ].filter((cell) => cell !== null)));
  if (rows.length < total) body.append(empty(`${numberOf(total - rows.length)} more are not shown.`));
}

function ensembleSection(body) {
  if (!live.servers.length) body.append(empty("Not known."));
  else body.append(kept("servers", counted(live.servers.length, "server"), [
    { title: "Server", name: true }, { title: "Mode", nowrap: true }, { title: "Version", nowrap: true }, { title: "Connections", num: true }, { title: "Watches", num: true }, { title: "Latency", num: true }, { title: "Znodes", num: true }, { title: "Data", num: true }, { title: "Not known because", wide: true },
  ], live.servers, (one) => [
    one.server, one.mode || el("span", { class: "caution" }, "not known"), one.version || "–", numberOf(one.connections), numberOf(one.watches),
    one.average_latency_ms === null ? "–" : `${one.average_latency_ms.toFixed(1)} ms`, numberOf(one.znodes), one.data_bytes === null ? "–" : sizeOf(one.data_bytes), one.reason || "",
  ]));
  const coordinator = live.coordinator;
  if (!coordinator) return;
  const gone = coordinator.slots_without_leader.length;
  body.append(el("p", {}, `${counted(coordinator.slots, "slot")} of group coordinators, `, gone ? el("span", { class: "bad" }, `${numberOf(gone)} without a live leader`) : "all led", "."));
}

const SECTIONS = { problems: problemsSection, groups: groupsSection, group: groupSection, changes: changesSection, brokers: brokersSection, ensemble: ensembleSection };

/* Where the keyboard is, so that it is there again afterwards. */
function placeOf(node) {
  const section = node && node.closest("section");
  if (!section || !node.closest(".body, .rows")) return null;
  return node.dataset.key ? `#${section.id} [data-key="${CSS.escape(node.dataset.key)}"]` : node.className ? `#${section.id} .${node.className.split(" ").pop()}` : null;
}

function draw() {
  if (!live) return;
  const failed = [], place = opening ? null : placeOf(document.activeElement);
  Object.assign(axisTime, { from: Date.parse(live.time) - HOUR, to: Date.parse(live.time) });
  shownTime.whole();
  document.documentElement.classList.remove("stale");
  head();
  for (const [name, build] of Object.entries(SECTIONS)) {
    const body = el("div", { class: "body" });
    try {
      build(body);
    } catch (error) {
      failed.push(`${name}: ${error.stack || error}`);
      body.append(el("p", { class: "alert bad" }, `This section could not be drawn: ${error.message}`));
    }
    bodyOf(name).replaceWith(body);
  }
  if (place) document.querySelector(place)?.focus({ preventScroll: true });
  document.documentElement.dataset.live = failed.length ? `failed ${failed.join("; ")}` : "drawn";
}

document.getElementById("filter").addEventListener("input", draw);
document.getElementById("filter-partitions").addEventListener("input", draw);
document.getElementById("close").addEventListener("click", closeGroup);
addEventListener("keydown", (event) => event.key === "Escape" && closeGroup());
addEventListener("hashchange", () => {
  const before = chosen;
  choose();
  if (chosen !== before) poll();
});
addEventListener("scroll", hideTip, { passive: true });
document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : poll()));
follow();
choose();
poll();
