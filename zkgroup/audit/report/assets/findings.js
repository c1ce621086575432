// Findings by severity and rule, each with what it asks and what to do.

function findingsSection() {
  const found = report.findings, body = bodyOf("findings");
  const wanted = [true, true, true];
  let words = [];
  const rules = el("div", { class: "rules" });
  const tiles = found.counts.map((count, severity) => {
    const [one, many] = NOUNS[severity];
    const tile = el("button", { class: `tile ${SEVERITIES[severity]}`, type: "button", "aria-pressed": "true", title: `Show or hide ${many}` },
      el("b", {}, count.toLocaleString("en")), el("span", {}, `${SIGNS[severity]} ${count === 1 ? one : many}`));
    tile.addEventListener("click", () => {
      wanted[severity] = !wanted[severity];
      tile.setAttribute("aria-pressed", String(wanted[severity]));
      draw();
    });
    return tile;
  });
  const search = el("input", {
    type: "search", placeholder: "Search findings", "aria-label": "Search findings",
    oninput: (event) => {
      words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
      draw();
    },
  });

  function matches(rule, row) {
    if (!wanted[row[0]]) return false;
    if (!words.length) return true;
    const text = [rule.name, placeOf(row), nameOf(row[4]), row[5], row[9]].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  }

  function draw() {
    const opened = new Set([...rules.querySelectorAll("details[open]")].map((each) => each.dataset.rule));
    rules.replaceChildren();
    for (const rule of found.rules) {
      const rows = rule.rows.filter((row) => matches(rule, row)).sort((a, b) => a[0] - b[0]);
      if (rows.length) rules.append(ruleOf(rule, rows, opened.has(rule.name)));
    }
    if (!rules.children.length) rules.append(empty(found.rules.length ? "Nothing matches." : "Nothing was found."));
  }

  body.append(el("div", { class: "tiles" }, tiles));
  if (found.rules.length) body.append(el("div", { class: "tools" }, search));
  body.append(rules, ...skippedOf(found));
  draw();
}

function skippedOf(found) {
  const nodes = [el("p", { class: "empty" }, `${counted(found.asked, "question")} asked of this history.`)];
  if (found.skipped.length) {
    const list = () => el("ul", {}, found.skipped.map(([name, reason]) => el("li", {}, el("span", { class: "mono" }, name), `: ${reason}`)));
    nodes.push(folded(`${counted(found.skipped.length, "question")} could not be asked`, list));
  }
  return nodes;
}

function ruleOf(rule, rows, isOpen) {
  const worst = rows[0][0];
  const counts = rule.counts.map((count, at) => (count ? counted(count, ...NOUNS[at]) : null)).filter(Boolean).join(", ");
  const details = el("details", { class: `rule ${SEVERITIES[worst]}`, "data-rule": rule.name, open: isOpen },
    el("summary", {}, sign(worst), el("span", { class: "name" }, `${rule.counts.reduce((a, b) => a + b).toLocaleString("en")} ${rule.title}`), el("span", { class: "counts" }, counts), el("span", { class: "asks mono" }, rule.name)));
  const inside = () => el("div", { class: "inside" },
    el("p", {}, rule.question),
    el("p", { class: "acts" }, withCode(rule.act)),
    rule.left_out ? notesOf([`${counted(rule.left_out, "finding")} more of this rule are in findings.json.`]) : null,
    findingTable(`Findings of ${rule.name}`, rows));
  if (isOpen) details.append(inside());
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(inside());
  });
  return details;
}

const FINDING_COLUMNS = [
  { title: "" }, { title: "From", nowrap: true }, { title: "Where", name: true }, { title: "What", wide: true },
  { title: "Zxids", nowrap: true },
];

function findingTable(caption, rows) {
  return table(caption, FINDING_COLUMNS, rows, (row) => [
    sign(row[0]),
    row[7] === null ? "" : el("button", { class: "link", type: "button", title: "Show this time in all charts", onclick: () => lookAt(row) }, moment(row[7])),
    placeOf(row),
    row[9],
    row[5] === null ? "" : row[6] === row[5] ? row[5] : `${row[5]} – ${row[6] || "end"}`,
  ], { page: 12, ...timed((row) => [row[7], row[8]]) });
}

function partitionOf(topic, partition) {
  return partition === null ? nameOf(topic) : `${nameOf(topic)}-${partition}`;
}

function placeOf(row) {
  return [nameOf(row[1]), partitionOf(row[2], row[3])].filter(Boolean).join(" ");
}

const filters = {};

/* Sets the charts to the time of a finding. */
function lookAt(row) {
  const to = row[8] === null ? report.to : row[8], least = Math.max((report.to - report.from) / 50, 2000);
  const length = Math.max(to - row[7], least);
  shownTime.set(row[7] - length * 0.6, to + length * 0.6);
  const hasGroup = row[1] >= 0, hasTopic = row[2] >= 0;
  const target = hasGroup ? "owners" : hasTopic ? "replication" : row[4] >= 0 ? "sessions" : "controllers";
  const filter = filters[target];
  const text = target === "sessions" ? nameOf(row[4]) : placeOf(row);
  if (filter && text) {
    filter.value = text;
    filter.dispatchEvent(new Event("input"));
  }
  document.getElementById(target).scrollIntoView();
}
