// What all parts of a report share: its data, as the scripts read it.

const report = JSON.parse(document.getElementById("data").textContent);
const names = report.names;
const isSeen = report.snapshots.length > 1 || (report.has_log && report.snapshots.length > 0);
const nameOf = (number) => (number === null || number < 0 ? "" : names[number]);
Object.assign(axisTime, { from: report.from, to: report.to, snapshots: isSeen ? report.snapshots : [], logged: isSeen ? report.logged : null });

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

/* A span without an end lasts to the end of the log, or to the last snapshot where there is no log. */
const endOf = (span) => (span[1] === null ? Math.max(report.logged[1], span[0]) : span[1]);

const isOneDay = timeOf(report.from).slice(0, 10) === timeOf(report.to).slice(0, 10);
const isOneYear = report.to - report.from < 300 * 864e5;

/* As short as the history allows: without the day where all of it is one, without the year in most. */
function moment(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < report.from) return timeOf(ms);
  return isOneDay ? clockOf(ms) : isOneYear ? timeOf(ms).slice(5) : timeOf(ms);
}

/* Of a table whose rows have times: those in the selected time are marked. */
const timed = (timesOf) => ({
  attributesOf: (item) => {
    const [from, to] = timesOf(item);
    return from === null ? {} : { "data-from": from, "data-to": to === null ? report.to : to };
  },
  onMore: markRows,
});

function notesOf(texts) {
  return texts.map((text) => el("p", { class: "note" }, text));
}

/* What none was found of; only logs tell of all times. */
function none(text) {
  return empty(isSeen ? `${text} That is what snapshots show: what came and went between them is not known.` : text);
}

