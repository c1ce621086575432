"""Findings about the files of ZooKeeper's servers: records that are missing, damaged, or differ.

The rules read every record, whatever range is asked for, and share one pass. Memory: the notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from zkgroup.audit.findings.rules import Bounds, Finding, Occurrence, Severity, WholeRule
from zkgroup.audit.inputs.facts import Facts
from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.model.text import counted, duration_text
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.records import Hole, epoch_of, hole_between
from zkgroup.zkfiles.servers import same_record
from zkgroup.zkfiles.verification import HistoryVerification

KEPT: Final = 10_000
"""The number of notes of a kind that are kept, the first ones."""


class Step(NamedTuple):
    """Two records that follow each other."""

    from_zxid: int
    from_ms: int
    to_zxid: int
    to_ms: int


@dataclass(slots=True)
class RecordChecks:
    """Notes about the zxids, times and digests of all records."""

    elections: list[Step] = field(default_factory=list)
    """The last record of an epoch and the first of the next one."""
    steps_back: list[Step] = field(default_factory=list)
    """The records at which the leader's clock read less than at the one before."""
    holes: list[tuple[Hole, Step]] = field(default_factory=list)
    """The zxids that are missing, and the records on both sides."""
    first: tuple[int, int] | None = None
    """The zxid and time of the first record."""
    last: tuple[int, int] | None = None
    without_digest: int = 0
    """The number of records without a digest, of the kinds that servers write one for."""
    first_digest: int | None = None
    """The zxid of the first record that has one."""


@lru_cache(maxsize=2)
def record_checks_of(history: History) -> RecordChecks:
    """The checks of a history. Results are cached, as several rules ask for them."""
    from zkgroup.audit.inputs.logs import record_facts

    records = record_facts(history)
    if records is None:
        return RecordChecks()
    zxid, time_ms, has_digest, is_error = records

    def steps(mask: Any) -> list[Step]:
        places = mask.nonzero()[0][:KEPT].tolist()
        ends = ((zxid[each], time_ms[each], zxid[each + 1], time_ms[each + 1]) for each in places)
        return [Step(*map(int, each)) for each in ends]

    begins_epoch = ((zxid[1:] >> 32) > (zxid[:-1] >> 32)) & ((zxid[1:] & 0xFFFFFFFF) == 1)
    jumps = steps((zxid[1:] != zxid[:-1] + 1) & ~begins_epoch)
    holes = ((hole_between(step.from_zxid, step.to_zxid), step) for step in jumps)
    return RecordChecks(
        elections=steps((zxid[1:] >> 32) != (zxid[:-1] >> 32)),
        steps_back=steps(time_ms[1:] < time_ms[:-1]),
        holes=[(hole, step) for hole, step in holes if hole is not None],
        first=(int(zxid[0]), int(time_ms[0])),
        last=(int(zxid[-1]), int(time_ms[-1])),
        without_digest=int((~has_digest & ~is_error).sum()),
        first_digest=next(map(int, zxid[has_digest][:1]), None),
    )


class Disagreement(NamedTuple):
    """Zxids that follow each other, at which the same servers differ in the same way."""

    from_zxid: int
    to_zxid: int
    from_ms: int
    to_ms: int
    size: int
    folders: tuple[tuple[Path, ...], ...]
    """The servers, together where they have the same record; those of the record that counts come first."""
    is_of_digests_only: bool
    """True if the records are the same, and the digests behind them are not."""

    @property
    def sides(self) -> str:
        return " against ".join(", ".join(map(str, folders)) for folders in self.folders)


def disagreements(history: History) -> list[Disagreement]:
    """The disagreements by zxid, of the first ones, which the ensemble notes."""
    record_checks_of(history)  # the notes are made while all records are read
    splits = history.ensemble.splits
    records = {
        (server.folder, each.zxid): each
        for server in (history.ensemble.servers if splits else ())
        for each in server.transactions(min(splits), max(splits))
        if each.zxid in splits
    }
    found: list[Disagreement] = []
    for zxid, folders in sorted(splits.items()):
        first, *others = (records[each[0], zxid]._replace(digest=None) for each in folders)
        digests_only = all(same_record(first, other) for other in others)
        last = found[-1] if found else None
        alike = zxid - 1, folders, digests_only
        if last is not None and (last.to_zxid, last.folders, last.is_of_digests_only) == alike:
            found[-1] = last._replace(to_zxid=zxid, to_ms=first.time_ms, size=last.size + 1)
        else:
            found.append(Disagreement(zxid, zxid, first.time_ms, first.time_ms, 1, folders, digests_only))
    return found


@WholeRule(
    severity="info",
    question="How did the tree grow from one snapshot to the next, and where?",
    needs=("tree",),
    act="A subtree that only grows will one day be too big: see `znode_bloat` for where, `dead_group` for"
    " groups that can go.",
    bounds={"depth": 1},
)
def growth(history: History, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """The znodes that came, changed and went between two snapshots, by subtree.

    Each snapshot that can be read is compared with the one before it, of any server. A znode changed if it
    was written in between, or created anew. A subtree has `depth` names. Snapshots are taken while writes go
    on, so a few changes around them may be counted on the other side.
    """
    from zkgroup.audit.findings.series_columns import growth_in
    from zkgroup.zkfiles.states import StatesReader, runs_of

    reader = StatesReader()
    read = []
    files = {each.zxid: each for server in history.ensemble.servers for each in server.files.snapshots}
    for _, file in sorted(files.items()):
        with suppress(DamagedFileError, NotZooKeeperFileError):  # see `digest_mismatch` and `audit inspect`
            read.append(reader.read_snapshot(file.path))
    snapshots, trees = zip(*read, strict=True) if read else ((), ())
    runs = runs_of(reader.states, snapshots, trees)
    rows = growth_in(reader.states, runs, int(bounds["depth"])) if read else ()
    for number, detail in sorted(rows):
        ends = [Occurrence(each.zxid, each.time_ms) for each in snapshots[number - 1 : number + 1]]
        found = Finding.between("growth", "info", ends[0], ends[1], detail)
        yield replace(found, from_ms=found.from_ms or None, to_ms=found.to_ms or None)


@WholeRule(
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
        more = f"; {counted(idle, 'epoch')} between them without a write" if idle > 0 else ""
        detail = f"epoch {before} -> {after}, no write for {silence}{more}"
        yield Finding.during("ensemble_election", "info", step, detail)


@WholeRule(
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
    holes: list[tuple[Hole, int | None, int | None, str]] = [
        (hole, step.from_ms, step.to_ms, "between two records") for hole, step in checks.holes
    ]
    snapshots = [each.zxid for server in history.ensemble.servers for each in server.files.snapshots]
    if checks.first is not None and checks.last is not None:
        (first, first_ms), (last, last_ms) = checks.first, checks.last
        before = max((zxid for zxid in snapshots if zxid < first), default=None)
        if before is not None and (hole := hole_between(before, first)) is not None:
            holes.append((hole, None, first_ms, f"between snapshot.{before:x} and the first record"))
        newest = max(snapshots, default=0)
        # A server that takes part in an election may write a snapshot before anything of the epoch was
        # written.
        if newest > last and newest & 0xFFFF_FFFF:
            where = f"between the last record and snapshot.{newest:x}"
            holes.append((Hole(last + 1, newest), last_ms, None, where))
    for (lowest, highest), from_ms, to_ms, where in holes:
        how_many = "zxids are"
        if epoch_of(lowest) == epoch_of(highest):
            how_many = counted(highest - lowest + 1, "zxid is", how_many)
        ends = (lowest, highest, from_ms, to_ms)
        detail = f"{how_many} in no file, {where}"
        yield Finding("history_hole", "error", None, None, None, None, *ends, detail)


@WholeRule(
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
    record_checks_of(history)  # their sizes are known when all are read
    found = {
        one.zxid: (path, one)
        for server in history.ensemble.servers
        for path, of_log in server.oversized.items()
        for one in of_log.values()
    }
    for _, (path, one) in sorted(found.items()):
        yield Finding.between("oversized_transaction", "error", one, one, f"{path.name}: {one.text}")


@WholeRule(
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
            how_many = counted(each.size, "record is", "records are")
            detail = f"{how_many} not the same on all servers: {each.sides}"
            yield Finding.during("split_history", "error", each, detail)


@WholeRule(
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


_DOUBTS_MAX = 20


@WholeRule(
    severity="error",
    question="Does a replay of the files give the trees that the servers had?",
    needs=("tree", "log"),
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
    found = (*_mismatches(history, verification), *_coverage(history, verification))
    for severity, from_zxid, to_zxid, detail in found:
        yield Finding("digest_mismatch", severity, from_zxid=from_zxid, to_zxid=to_zxid, detail=detail)


_Mismatch = tuple[Severity, int | None, int | None, str]


def _mismatches(history: History, verification: HistoryVerification) -> Iterator[_Mismatch]:
    for doubt in verification.doubts[:_DOUBTS_MAX]:
        yield "error", doubt.zxid, doubt.zxid, doubt.detail
    for check in verification.snapshots:
        if check.agrees is False:
            detail = check.detail.removeprefix(str(check.path)).lstrip(",: ")
            severity: Severity = "warning" if check.is_damaged else "error"
            yield severity, check.zxid, check.zxid, f"{check.path.name}: {detail}"
    for each in disagreements(history):
        if each.is_of_digests_only:
            how_many = counted(each.size, "digest is", "digests are")
            detail = f"{how_many} not the same on all servers: {each.sides}"
            yield "error", each.from_zxid, each.to_zxid, detail


def _coverage(history: History, verification: HistoryVerification) -> Iterator[_Mismatch]:
    """The finding for a history without digests, which is never clean: what was checked instead."""
    checks = record_checks_of(history)
    if not checks.without_digest:
        return
    compared = sum(check.agrees is not None for check in verification.snapshots)
    why = ": the servers wrote no digests"
    if checks.first_digest is not None:
        why = f" to all: digests begin at {checks.first_digest:#x}"
    detail = (
        f"not_applicable{why}; compared instead were what {checks.without_digest} records say of the tree"
        f" before them, and {counted(compared, 'snapshot')} with the tree replayed"
    )
    if verification.unchecked:
        detail += f"; {counted(verification.unchecked, 'record')} could not be compared with anything"
    yield "info", None, None, detail
