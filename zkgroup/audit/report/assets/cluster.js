// Brokers' side, sessions, write load and files.

function lives(section, { what, caption, title, column, nothing, toneOf, legend, rows }) {
  const body = bodyOf(section), data = report[section];
  body.append(...notesOf(data.notes));
  if (!rows.length) {
    body.append(none(nothing));
    return;
  }
  const holder = el("div");
  body.append(holder);
  const timeline = new Timeline(holder, { rows, what, label: caption, toneOf, gaps: !toneOf, visible: 12 });
  filters[section] = withTools(holder, timeline, { caption, title, what: column, legend: legend || [] });
}

function controllersSection() {
  const rows = report.controllers.rows.map(([name, spans]) => ({ label: nameOf(name), spans }));
  lives("controllers", { what: "controller", caption: "Controllers", title: "Controller", column: "Named", nothing: "There was no controller.", rows });
  const epochs = report.controllers.epochs;
  if (!epochs.length) return;
  bodyOf("controllers").append(folded(`${counted(epochs.length, "write")} of the epoch`, () => table(
    "Writes of the controller's epoch",
    [{ title: "When", nowrap: true }, { title: "Epoch", num: true }, { title: "Zxid", nowrap: true }, { title: "Session", nowrap: true }],
    epochs, ([ms, zxid, epoch, session]) => [moment(ms), nameOf(epoch), zxid, nameOf(session) || "from before"],
  )));
}

function brokersSection() {
  const rows = report.brokers.rows.map(([name, spans]) => ({ label: nameOf(name), spans }));
  lives("brokers", { what: "broker", caption: "Registrations of brokers", title: "Broker", column: "Address", nothing: "There was no broker.", rows });
}

function replicationSection() {
  if (!report.has_log && isSeen) return bodyOf("replication").append(empty("Only logs show them one by one; findings have what snapshots prove."));
  const rows = report.replication.rows.map(([topic, partition, spans]) => ({ label: partitionOf(topic, partition), spans }));
  const isLost = (span) => nameOf(span[2]).startsWith("no leader");
  lives("replication", {
    what: "partition", caption: "Partitions without leader or not fully in sync", title: "Partition", column: "What",
    nothing: "Every partition had a leader and all its replicas in sync, all the time.", rows,
    toneOf: (span) => ({ fill: colour(isLost(span) ? "error" : "warning"), hatched: isLost(span) }),
    legend: [
      key("no leader", svg("rect", { x: 0, y: 2, width: 22, height: 12, fill: "var(--error)" }), svg("path", { d: "M0,14 l12,-12 m-4,12 l12,-12", stroke: "var(--paper)" })),
      key("not fully in sync", svg("rect", { x: 0, y: 2, width: 22, height: 12, fill: "var(--warning)" })),
    ],
  });
}

function sessionsSection() {
  const body = bodyOf("sessions"), { notes, counts, rows } = report.sessions;
  body.append(...notesOf(notes));
  if (!rows.length) return body.append(none("There was none."));
  const [open, closed, expired, gone] = counts;
  const all = open + closed + expired + gone;
  body.append(el("p", {}, `${counted(all, "session")}: ${closed} closed, ${expired} expired, ${open} open at the end${gone ? `, ${gone} gone in a later snapshot` : ""}.`));
  const holder = el("div");
  const filter = el("input", { type: "search", placeholder: "Filter sessions", "aria-label": "Filter sessions", oninput: () => draw() });
  body.append(el("div", { class: "tools" }, filter), holder);
  filters.sessions = filter;
  const columns = [
    { title: "Session", nowrap: true }, { title: "What it was", name: true }, { title: "From", nowrap: true }, { title: "To", nowrap: true },
    { title: "Ended", nowrap: true }, { title: "Writes", num: true }, { title: "Silent at the end", num: true }, { title: "Timeout", num: true },
    { title: "Ephemerals", num: true }, { title: "Server", num: true },
  ];
  function draw() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (row) => `${nameOf(row[0])} ${row[7]} ${nameOf(row[11])}`.toLowerCase();
    const wanted = rows.filter((row) => words.every((word) => text(row).includes(word)));
    holder.replaceChildren(table(counted(wanted.length, "session"), columns, wanted, (row) => [
      nameOf(row[0]), nameOf(row[11]) || "–", row[3] === null ? "before" : moment(row[3]), row[4] === null ? "" : moment(row[4]),
      row[7] === "expired" ? el("span", { class: "caution" }, "expired") : row[7] || "gone", row[8] === null ? "–" : row[8].toLocaleString("en"), row[9] === null ? "–" : durationOf(row[9]),
      durationOf(row[2]), row[10].toLocaleString("en"), String(row[1]),
    ], { page: 15 }));
  }
  draw();
  return undefined;
}

function loadSection() {
  const body = bodyOf("load"), load = report.load;
  body.append(...notesOf(load.notes));
  if (!load.rows.length) return body.append(empty(report.has_log ? "Nothing was written." : "Only logs show it."));
  new LoadPlot(body, load);
  const swatch = (at) => svg("rect", { x: 4, y: 2, width: 12, height: 12, fill: areaInk(load, at) });
  body.append(el("ul", { class: "legend" }, load.series.map(([name], at) => key(nameOf(name), swatch(at)))));
  const total = load.rows.reduce((sum, row) => sum + row[1], 0);
  body.append(el("p", { class: "empty" }, `Each bar is ${durationOf(load.step_ms)}.`));
  body.append(table("Operations by subtree", [{ title: "Subtree", name: true }, { title: "Operations", num: true }, { title: "Share", num: true }, { title: "Data", num: true }], load.rows, ([name, count, bytes]) => [
    nameOf(name), count.toLocaleString("en"), `${((100 * count) / total).toFixed(1)} %`, sizeOf(bytes),
  ], { page: 12 }));
  return undefined;
}

function filesSection() {
  const body = bodyOf("files");
  const [zxid, isExact, detail] = report.stands_on;
  const start = zxid === "0x0" ? "the ensemble's first record" : `the tree at ${zxid}`;
  body.append(el("p", {}, `${report.has_log ? "The report begins with" : "The last one is"} ${start}, which ${isExact ? "is proved to be that of the servers" : `is not proved to be that of the servers${detail ? `: ${detail}` : ""}`}.`));
  if (report.damage.length) body.append(el("h3", {}, "Damaged or missing"), el("ul", {}, report.damage.map((text) => el("li", {}, text))));
  if (report.notes.length) body.append(el("h3", {}, "To be known"), el("ul", {}, report.notes.map((text) => el("li", {}, text))));
  if (!report.files.length) return body.append(empty("No files of servers were read here."));
  const columns = [
    { title: "File", name: true }, { title: "Kind", nowrap: true }, { title: "Health", nowrap: true }, { title: "First zxid", num: true },
    { title: "Last zxid", num: true }, { title: "Good until", num: true }, { title: "Records", num: true }, { title: "Exact", nowrap: true },
    { title: "Detail", wide: true },
  ];
  body.append(table(counted(report.files.length, "file"), columns, report.files, ([path, kind, records, isHealthy, isWhole, first, last, until, text]) => [
    path.split("/").slice(-3).join("/"), kind, isHealthy ? "✓ good" : el("span", { class: "bad" }, "✕ damaged"), first || "–", last || "–", until || "–",
    records.toLocaleString("en"), isWhole ? "yes" : "no", text || "–",
  ]));
  return undefined;
}
