// Incidents: cards over one time axis, which all charts share, and what is selected in all of them.

/* Whether an incident has the selected time in it; one that was selected itself marks no other. */
selection.touches = function ([number, , , , from, to, , , , session]) {
  if (this.from === null || from === null) return false;
  if (this.incident !== null) return this.incident === number;
  const overlaps = from <= this.to && (to === null ? report.to : to) >= this.from;
  return overlaps && (this.session < 0 || session < 0 || session === this.session);
};

/* Marks the rows of tables that the selected time is in. */
function markRows(place) {
  place.querySelectorAll("tr[data-from]").forEach((row) => {
    const { from, to } = row.dataset;
    row.toggleAttribute("data-marked", selection.from !== null && Number(from) <= selection.to && Number(to) >= selection.from);
  });
}

const LANE = 18;

/* A lane for each severity, a bar for each incident. */
class IncidentStrip extends Plot {
  constructor(holder, rows) {
    super(holder, { height: 3 * LANE + 30, label: "Incidents over time, a lane for each severity" });
    // Notes without a cause are about the whole history: a bar over everything tells nothing.
    this.rows = rows.filter((row) => row[4] !== null && (row[1] < 2 || row[8]));
    this.later();
  }

  draw() {
    const { right } = this;
    SEVERITIES.forEach((severity, lane) => {
      const y = 4 + lane * LANE;
      this.node.append(
        svg("line", { class: "grid", x1: this.left, x2: right, y1: y + LANE - 1, y2: y + LANE - 1 }),
        svg("text", { x: this.left - 8, y: y + 12, "text-anchor": "end" }, NOUNS[lane][1]),
      );
    });
    this.timeLabels();
    for (const row of this.rows) {
      const [number, severity, title, , from, to] = row;
      const till = to === null ? report.to : to;
      if (till < shownTime.from || from > shownTime.to) continue;
      const x = Math.max(this.x(from), this.left), width = Math.max(Math.min(this.x(till), right) - x, 6);
      const bar = svg("rect", { x, y: 5 + severity * LANE, width, height: LANE - 5, rx: 3, class: "incident", fill: `var(--${SEVERITIES[severity]})`, "data-incident": number });
      if (selection.touches(row)) bar.setAttribute("stroke", "var(--ink)");
      bar.addEventListener("click", () => selectIncident(row, true));
      bar.addEventListener("pointermove", (event) => showTip(event.clientX, event.clientY, [title]));
      bar.addEventListener("pointerleave", hideTip);
      this.node.append(bar);
    }
  }
}

/* Sets all charts to the time of an incident, and marks it in them. */
function selectIncident(row, scrolls) {
  const [number, severity, , group, from, to, , , , session] = row;
  if (from !== null) {
    const till = to === null ? report.to : to;
    const length = Math.max(till - from, (report.to - report.from) / 50, 2000);
    selection.set(from, to, session, number);
    shownTime.set(from - length * 0.6, till + length * 0.6);
  }
  if (group >= 0 && filters.ownersGroup) filters.ownersGroup(group);
  if (!scrolls) return;
  if (severity === 2) document.querySelector("#incidents > .body > details").show();
  document.getElementById(`incident-${number}`).scrollIntoView({ block: "center" });
}

/* What an address like `report.html#incident-2` names; findings.json has the same numbers. */
function showLinked() {
  const [, number] = location.hash.match(/^#incident-(\d+)$/) || [];
  const row = report.incidents.rows.find((each) => String(each[0]) === number);
  if (row) selectIncident(row, true);
}

function cardOf(row, findingsOf) {
  const [number, severity, title, , from, to, first, last, cause, , damage, act, counts] = row;
  const facts = el("dl", {});
  const fact = (term, ...texts) => texts.some(Boolean) && facts.append(el("div", {}, el("dt", {}, term), el("dd", {}, texts)));
  const times = from === null ? null : `${timeOf(from)} to ${to === null ? "the end" : timeOf(to).slice(0, 10) === timeOf(from).slice(0, 10) ? clockOf(to) : timeOf(to)}`;
  const zxids = first ? `zxid ${first}${last === first ? "" : ` to ${last || "the end"}`}` : null;
  fact("When", [times, zxids].filter(Boolean).join(", ") || "at the end");
  fact("Cause", cause);
  fact("Damage", damage);
  fact("What to do", ...withCode(act));
  const total = counts.reduce((sum, [, count]) => sum + count, 0);
  const inside = folded(`${counted(total, "finding")}: ${counts.map(([called, count]) => `${count} ${nameOf(called)}`).join(", ")}`,
    () => findingTable(title, findingsOf(number)));
  const button = from === null ? null : el("button", { class: "act", type: "button", onclick: () => selectIncident(row, false) }, "Mark in all charts");
  return el("article", { class: `card ${SEVERITIES[severity]}`, id: `incident-${number}`, "data-incident": number, tabindex: -1 },
    el("h3", {}, sign(severity), el("a", { class: "number", href: `#incident-${number}`, title: "Link to this incident" }, `${number}.`), el("span", {}, title)), facts, inside, button);
}

function incidentsSection() {
  const body = bodyOf("incidents"), { rows, left_out: leftOut } = report.incidents;
  const findingsOf = (number) => report.findings.rules.flatMap((rule) => rule.rows.filter((row) => row[10] === number)).sort((a, b) => a[0] - b[0]);
  const counts = SEVERITIES.map((_, severity) => rows.filter((row) => row[1] === severity).length);
  body.append(el("div", { class: "tiles" }, counts.map((count, severity) =>
    el("p", { class: `tile ${SEVERITIES[severity]}` }, el("b", {}, count.toLocaleString("en")), el("span", {}, `${SIGNS[severity]} ${NOUNS[severity][count === 1 ? 0 : 1]}`)))));
  if (leftOut) body.append(...notesOf([`${counted(leftOut, "incident")} more, none worse than these, are in findings.json.`]));
  if (!rows.length) return body.append(empty("Nothing was found."));
  const button = (text, label, act) => el("button", { class: "act", type: "button", "aria-label": label, onclick: act }, text);
  body.append(el("div", { class: "tools" },
    button("+", "Zoom in", () => shownTime.zoom(0.5)), button("−", "Zoom out", () => shownTime.zoom(2)),
    button("Whole history", "Show the whole history and mark nothing", () => { selection.clear(); shownTime.whole(); })));
  const strip = el("div", { class: "strip" });
  document.getElementById("incidents").before(strip);
  new IncidentStrip(strip, rows);
  body.append(el("ul", { class: "legend" }, SEVERITIES.map((severity, at) =>
    key(NOUNS[at][0], svg("rect", { x: 0, y: 3, width: 22, height: 10, rx: 3, fill: `var(--${severity})` }))),
    el("li", {}, "these three colours mean a severity, on the whole page")));
  const cards = el("div", { class: "cards" }, rows.filter((row) => row[1] < 2).map((row) => cardOf(row, findingsOf)));
  body.append(cards);
  const notes = rows.filter((row) => row[1] === 2);
  if (notes.length) {
    const fold = folded(`${counted(notes.length, "note")}: rebalances and what else is worth knowing`, () => el("div", { class: "cards" }, notes.map((row) => cardOf(row, findingsOf))));
    fold.classList.add("notes");
    body.append(fold);
  }
  addEventListener("keydown", (event) => event.key === "Escape" && selection.clear());
  selection.listeners.push(() => {
    markRows(document);
    document.querySelectorAll(".card").forEach((card) => {
      const row = rows.find((each) => each[0] === Number(card.dataset.incident));
      card.toggleAttribute("data-marked", selection.touches(row));
    });
  });
  return undefined;
}
