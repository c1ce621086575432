"""Findings about the files of ZooKeeper's servers: what is missing, damaged, or not the same on all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from zkgroup.audit.findings.record_checks import disagreements, record_checks_of
from zkgroup.audit.findings.rules import Bounds, Finding, Severity, WholeRule
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.texts import count_text, duration_text, subtree_text
from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.names import ServerFile
from zkgroup.zkfiles.snapshots import open_snapshot
from zkgroup.zkfiles.verification import HistoryVerification
from zkgroup.zkfiles.zxids import Hole, epoch_of, hole_between


class _Seen(NamedTuple):
    """One snapshot, as far as it is compared. Memory: path and number for each znode."""

    zxid: int
    latest_ms: int
    """The last write that it shows."""
    mzxids: dict[str, int]
    znodes: Counter[str]
    """By subtree."""
    sizes: Counter[str]
    """Bytes of data, by subtree."""


@partial(
    WholeRule,
    severity="info",
    question="How did the tree grow from one snapshot to the next, and where?",
    needs=("snapshot",),
    act="A subtree that only grows will one day be too big: see `znode_bloat` for where, `dead_group` for"
    " groups that can go.",
    bounds={"depth": 1},
)
def growth(history: History, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """What came and went between two snapshots, by subtree.

    Each snapshot that can be read is compared with the one before it, of whatever server. Changed is what
    was written in between, or made anew. A subtree has `depth` names. Snapshots are taken while writes go
    on, so a few changes around them may be counted on the other side.
    """
    depth = int(bounds["depth"])
    before: _Seen | None = None
    for file in _files(history):
        try:
            after = _read(file, depth)
        except (DamagedFileError, NotZooKeeperFileError):
            continue  # reported by `digest_mismatch` and `audit inspect`
        if before is not None:
            yield from _compared(before, after, depth)
        before = after


def _files(history: History) -> list[ServerFile]:
    """Snapshots of all servers by zxid, one of each."""
    files = {each.zxid: each for server in history.ensemble.servers for each in server.files.snapshots}
    return [files[zxid] for zxid in sorted(files)]


def _read(file: ServerFile, depth: int) -> _Seen:
    reader = open_snapshot(file.path, file.zxid)
    seen = _Seen(file.zxid, 0, {}, Counter(), Counter())
    latest = 0
    for znode in reader.znodes():
        subtree = subtree_text(znode.path, depth)
        seen.mzxids[znode.path] = znode.stat.mzxid
        seen.znodes[subtree] += 1
        seen.sizes[subtree] += len(znode.data or b"")
        latest = max(latest, znode.stat.mtime)
    return seen._replace(latest_ms=latest)


def _compared(before: _Seen, after: _Seen, depth: int) -> Iterator[Finding]:
    added: Counter[str] = Counter()
    removed: Counter[str] = Counter()
    changed: Counter[str] = Counter()
    for path, mzxid in after.mzxids.items():
        known = before.mzxids.get(path)
        if known is None:
            added[subtree_text(path, depth)] += 1
        elif known != mzxid:
            changed[subtree_text(path, depth)] += 1
    for path in before.mzxids:
        if path not in after.mzxids:
            removed[subtree_text(path, depth)] += 1
    for subtree in sorted({*added, *removed, *changed}):
        sizes = [count_text(seen.sizes[subtree], "byte") for seen in (before, after)]
        was = f"{count_text(before.znodes[subtree], 'znode')}, {sizes[0]} of data"
        now = f"{after.znodes[subtree]}, {sizes[1]}"
        yield Finding(
            "growth",
            "info",
            from_zxid=before.zxid,
            to_zxid=after.zxid,
            from_ms=before.latest_ms or None,
            to_ms=after.latest_ms or None,
            detail=f"{subtree}: {added[subtree]} added, {removed[subtree]} removed,"
            f" {changed[subtree]} changed; {was} -> {now}",
        )


@partial(
    WholeRule,
    severity="info",
    question="When did ZooKeeper's servers elect a leader, and how long was nothing written?",
    act="Look at the servers' logs of that time: a leader that was lost, a quorum that was not there. In such"
    " a time clients cannot write, and sessions can expire at its end.",
)
def ensemble_election(history: History, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Elections of ZooKeeper's own leader, and how long nothing was written.

    A row for each change of the epoch, from the last record before to the first one behind. A server
    alone has none.
    """
    for step in record_checks_of(history).elections:
        before, after = epoch_of(step.from_zxid), epoch_of(step.to_zxid)
        silence = duration_text(step.to_ms - step.from_ms)
        idle = after - before - 1
        more = f"; {count_text(idle, 'epoch')} between them without a write" if idle > 0 else ""
        detail = f"epoch {before} -> {after}, no write for {silence}{more}"
        yield Finding.during("ensemble_election", "info", step, detail)


@partial(
    WholeRule,
    severity="error",
    question="Which transactions are missing in the files?",
    act="Within an epoch zxids have no gaps, so a log is missing, damaged, or was never on this server: one"
    " that was far behind is given a snapshot. Add the folders of the other servers (`--input` takes several)"
    ", or the archive. What other findings say about that time may be wrong.",
)
def history_hole(history: History, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Zxids that must have been and are in no file.

    Looked for between any two records of all servers together, between the newest snapshot before the first
    record and that record, and between the last record and a newer snapshot.
    """
    checks = record_checks_of(history)
    for missing, step in checks.holes:
        yield _history_hole_finding(missing, step.from_ms, step.to_ms, "between two records")
    snapshots = [each.zxid for server in history.ensemble.servers for each in server.files.snapshots]
    if checks.first is None or checks.last is None:
        return
    first, first_ms = checks.first
    before = max((zxid for zxid in snapshots if zxid < first), default=None)
    if before is not None and (hole := hole_between(before, first)) is not None:
        yield _history_hole_finding(hole, None, first_ms, f"between snapshot.{before:x} and the first record")
    last, last_ms = checks.last
    newest = max(snapshots, default=0)
    # A server that takes part in an election may write a snapshot before anything of the epoch was written.
    if newest > last and newest & 0xFFFF_FFFF:
        yield _history_hole_finding(
            Hole(last + 1, newest), last_ms, None, f"between the last record and snapshot.{newest:x}"
        )


def _history_hole_finding(hole: Hole, from_ms: int | None, to_ms: int | None, where: str) -> Finding:
    is_of_one = epoch_of(hole.first_missing) == epoch_of(hole.last_missing)
    missing = hole.last_missing - hole.first_missing + 1
    how_many = (
        f"{count_text(missing, 'zxid is', 'zxids are')} in no file" if is_of_one else "zxids are in no file"
    )
    ends = (hole.first_missing, hole.last_missing, from_ms, to_ms)
    return Finding("history_hole", "error", None, None, None, None, *ends, f"{how_many}, {where}")


@partial(
    WholeRule,
    severity="error",
    question="Is there a transaction with which a server does not start?",
    act="A server that reads this log at its start needs `-Djute.maxbuffer=BYTES`, on every server, or"
    " `-Dzookeeper.jute.maxbuffer.extrasize=BYTES` (from 3.5.7 on), so that both together are at least as"
    " large. Servers that run go on; restart none before it is set. Once each has a snapshot behind the"
    " transaction and this log is gone, the default is enough again. Find out who writes so much at once:"
    " `audit tree` and the paths near this zxid.",
)
def oversized_transaction(history: History, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A record of a log that a server with the default `jute.maxbuffer` does not load.

    Its length as a whole counts, so a multi of small operations can be too large, too. Such a server ends at
    its start with `Unreasonable length`.
    """
    record_checks_of(history)  # reading them all is what shows their sizes
    found = {
        one.zxid: (path, one)
        for server in history.ensemble.servers
        for path, of_log in server.oversized.items()
        for one in of_log.values()
    }
    for _, (path, one) in sorted(found.items()):
        yield Finding.between("oversized_transaction", "error", one, one, f"{path.name}: {one.text}")


@partial(
    WholeRule,
    severity="error",
    question="Which transactions are different on different servers of one ensemble?",
    act="Two servers applied different histories, which ZooKeeper rules out: files of two ensembles in one"
    " folder, a restored or edited log, or a server that lost its disk and voted. What most servers have is"
    " taken here, or, where none is that of most, what the server has whose log goes furthest. Find out which"
    " server is wrong, stop it, and let it start with an empty data folder.",
)
def split_history(history: History, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """One zxid, and different records on two servers.

    The records of the servers' logs are compared one by one; digests alone that differ are `digest_mismatch`.
    Only the first thousand such zxids are reported.
    """
    for each in disagreements(history):
        if not each.is_of_digests_only:
            how_many = count_text(each.size, "record is", "records are")
            detail = f"{how_many} not the same on all servers: {each.sides}"
            yield Finding.during("split_history", "error", each, detail)


@partial(
    WholeRule,
    question="When did the time in the log go back although zxids rose?",
    act="Durations across it are too short by as much, here and in every log of that time. Within an epoch"
    " one server's clock was set back: let it be slewed. At an election the new leader's clock is behind:"
    " compare the servers' clocks.",
    bounds={"least_ms": 1},
)
def clock_step(history: History, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A leader's clock that went back.

    By the time in a record and in the one before it, where the fall is `least_ms` or more.
    """
    for step in record_checks_of(history).steps_back:
        back_ms = step.from_ms - step.to_ms
        if back_ms < bounds["least_ms"]:
            continue
        before, after = epoch_of(step.from_zxid), epoch_of(step.to_zxid)
        where = f"within epoch {after}" if before == after else f"at the election of epoch {after}"
        detail = f"the leader's clock went back by {duration_text(back_ms)} {where}"
        yield Finding.during("clock_step", "warning", step._replace(from_zxid=step.to_zxid), detail)


_DOUBTS_TOLD = 20


@partial(
    WholeRule,
    severity="error",
    question="Does a replay of the files give the trees that the servers had?",
    needs=("snapshot", "log"),
    act="From the first such zxid on the files do not show what happened, and what other findings report"
    " of later times may be wrong. A damaged or edited file, a log of another server among them, or a server"
    " whose memory is not that of the others: compare the servers' folders, and"
    " restart the one that differs with an empty folder, so that it copies the leader's tree.",
)
def digest_mismatch(history: History, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A replay that does not give the tree that the servers had.

    Everything is replayed and compared with the servers' own digests, record by record. Where they wrote
    none (before 3.6, or switched off) that is not applicable, which is said; instead each record has to
    fit the tree before it (versions, counts of children, what it deletes), and each snapshot the tree
    replayed. A snapshot that cannot be read is a warning.
    """
    verification = history.verify()
    for doubt in verification.doubts[:_DOUBTS_TOLD]:
        yield _digest_mismatch_finding("error", doubt.zxid, doubt.zxid, doubt.detail)
    for check in verification.snapshots:
        if check.agrees is False:
            severity: Severity = "warning" if check.is_damaged else "error"
            detail = check.detail.removeprefix(str(check.path)).lstrip(",: ")
            yield _digest_mismatch_finding(severity, check.zxid, check.zxid, f"{check.path.name}: {detail}")
    for each in disagreements(history):
        if each.is_of_digests_only:
            how_many = count_text(each.size, "digest is", "digests are")
            detail = f"{how_many} not the same on all servers: {each.sides}"
            yield _digest_mismatch_finding("error", each.from_zxid, each.to_zxid, detail)
    yield from _coverage(history, verification)


def _coverage(history: History, verification: HistoryVerification) -> Iterator[Finding]:
    """Never said to be clean: where servers wrote no digests, what was compared instead is reported."""
    checks = record_checks_of(history)
    if not checks.without_digest:
        return
    compared = sum(check.agrees is not None for check in verification.snapshots)
    instead = (
        f"compared instead were what {checks.without_digest} records say of the tree before them,"
        f" and {count_text(compared, 'snapshot')} with the tree replayed"
    )
    if verification.unchecked:
        instead += f"; {count_text(verification.unchecked, 'record')} could not be compared with anything"
    if checks.first_digest is None:
        yield _digest_mismatch_finding(
            "info", None, None, f"not_applicable: the servers wrote no digests; {instead}"
        )
    else:
        yield _digest_mismatch_finding(
            "info", None, None, f"not_applicable to all: digests begin at {checks.first_digest:#x}; {instead}"
        )


def _digest_mismatch_finding(
    severity: Severity, from_zxid: int | None, to_zxid: int | None, detail: str
) -> Finding:
    return Finding("digest_mismatch", severity, from_zxid=from_zxid, to_zxid=to_zxid, detail=detail)
