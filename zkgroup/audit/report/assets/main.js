// The head of the page, and all sections in turn: one that fails does not take the others with it.

function head() {
  const facts = document.getElementById("facts");
  const fact = (term, ...texts) => facts.append(el("div", {}, el("dt", {}, term), el("dd", {}, ...texts)));
  fact(report.inputs.length === 1 ? "Input" : "Inputs", report.inputs.map((path, at) => [at ? el("br") : null, path]).flat());
  const snapshots = counted(report.snapshots.length, report.has_log ? "snapshot beside them" : "snapshot", report.has_log ? "snapshots beside them" : "snapshots");
  if (report.has_log || isSeen) fact("Time", `${timeOf(report.from, 0)} to ${timeOf(report.to, 0)} UTC (${durationOf(report.to - report.from)})`);
  else fact("Time", `${timeOf(report.to, 0)} UTC, one tree without a past`);
  if (isSeen) {
    const of = `${snapshots}, ${timeOf(report.snapshots[0], 0)} to ${timeOf(report.snapshots[report.snapshots.length - 1], 0)} UTC`;
    fact("Made of", report.has_log ? `logs, ${timeOf(report.logged[0], 0)} to ${timeOf(report.logged[1], 0)} UTC, and ${of}` : of);
  }
  fact("Zxids", el("span", { class: "mono" }, report.has_log || isSeen ? `${report.zxids[0]} – ${report.zxids[1]}` : report.zxids[1]));
  if (report.group !== null) fact("Only group", report.group);
  const place = document.getElementById("exactness");
  if (isSeen) {
    place.append(el("p", { class: "note" }, `▾ on the time axes is a snapshot${report.has_log ? ", and the line what logs cover" : ""}. What is drawn ends at the last snapshot that proves it; what came and went between two of them is not known.`));
  }
  const damaged = report.files.filter((file) => !file[3]).length;
  const link = el("a", { href: "#files" }, "See the files");
  if (damaged || report.damage.length) {
    place.append(el("p", { class: "alert bad" }, `✕ ${damaged ? `${counted(damaged, "file")} damaged` : "Something is missing"}: this report may be incomplete. `, link));
  } else if (!report.stands_on[1]) {
    place.append(el("p", { class: "alert" }, report.has_log ? "! The state before the first record is not proved. " : "! The last snapshot is not exact. ", link));
  }
}

const SECTIONS = {
  incidents: incidentsSection, owners: ownersSection, rebalances: rebalancesSection, offsets: offsetsSection,
  controllers: controllersSection, brokers: brokersSection, replication: replicationSection, sessions: sessionsSection,
  load: loadSection, findings: findingsSection, files: filesSection,
};

const failed = [];
head();
for (const [name, build] of Object.entries(SECTIONS)) {
  try {
    build();
  } catch (error) {
    failed.push(`${name}: ${error.stack || error}`);
    bodyOf(name).append(el("p", { class: "alert bad" }, `This section could not be drawn: ${error.message}`));
  }
}
shownTime.whole();
follow();
showLinked();
addEventListener("hashchange", showLinked);
/* On paper the worst of it is open, and tips are gone. */
addEventListener("beforeprint", () => document.querySelectorAll("details.rule.error").forEach((each) => (each.open = true)));
addEventListener("scroll", hideTip, { passive: true });
document.documentElement.dataset.report = failed.length ? `failed ${failed.join("; ")}` : "drawn";
