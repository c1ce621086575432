"""Invariants of commits: a committed record was processed (S5), and a reported outcome is true (S6).

For S6, a commit reported as done is in the log, with its value and version, at its zxid; one reported as
refused is not. A commit without a response may be either, and accounts for one write at most, so a second
write of the same value has no cause. A release is a commit too, because it writes the position.

A member killed in the middle of a commit has recorded no outcome, which counts as no response. Where the
recording of a member may have ended early (nothing later in the log is acknowledged in it), nothing is
concluded beyond its end.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from zkgroup.history.group.replay import GroupEvidence
from zkgroup.history.group.server_invariants import NO_SESSION, LoggedOffsetWrite
from zkgroup.history.records import HistoryRecord, partition_of
from zkgroup.history.report import Violation
from zkgroup.model import TopicPartition

ReportedOutcome = Literal["nothing", "ok", "fail", "info"]
_ROWS: Final = {"commit": "offsets", "release": "partitions"}


@dataclass(slots=True, eq=False)
class Attempt:
    """One position that a member began to write."""

    topic_partition: TopicPartition
    value: int
    version: int
    """Of the offset znode, once it is written."""
    token: int | None
    """The claim that it was processed under."""
    invoked: HistoryRecord
    reported: ReportedOutcome = "nothing"
    zxid: int | None = None
    """The transaction that writes it: by the reported outcome or, without a response, by the log."""

    @property
    def is_written(self) -> bool:
        return self.zxid is not None or self.reported == "ok"


_Key = tuple[str, TopicPartition, int, int]


class Acknowledgements:
    """Attempts to commit, with the outcomes that members got. `check` adds what the log shows."""

    def __init__(self, evidence: GroupEvidence, writes: Sequence[LoggedOffsetWrite]) -> None:
        self._evidence = evidence
        self.writes = writes
        self._oks: dict[tuple[TopicPartition, int], tuple[int, int, str]] = {}
        """Partition and zxid to value, version and member, of commits reported as done."""
        self._reported_twice: list[Violation] = []
        self.attempts = tuple(self._read())
        self.explained: dict[LoggedOffsetWrite, Attempt] = {}
        """Writes of the log, each with its attempt; filled by `check`."""

    def _read(self) -> Iterator[Attempt]:
        begun: dict[tuple[str, int, str, int], list[Attempt]] = {}
        for record in self._evidence.records:
            operation, _, step = record.kind.partition(".")
            if operation not in _ROWS or step not in ("invoke", "ok", "fail", "info"):
                continue
            key = (record.member, record.pid, operation, record.fields["id"])
            if step == "invoke":
                begun[key] = [
                    each for row in record.fields[_ROWS[operation]] if (each := _attempt(record, row))
                ]
                yield from begun[key]
            else:
                self._outcome(record, step, operation, begun.get(key, []))  # type: ignore[arg-type]

    def _outcome(
        self, record: HistoryRecord, reported: ReportedOutcome, operation: str, attempts: list[Attempt]
    ) -> None:
        zxid = record.fields.get("zxid")
        for attempt in attempts:
            if attempt.reported != "nothing":
                detail = (
                    f"{record.member} got the outcomes {attempt.reported!r} and {reported!r} of one commit"
                )
                self._reported_twice.append(Violation("S6", detail, attempt.topic_partition, zxid))
                return
            attempt.reported, attempt.zxid = reported, zxid if reported == "ok" else None
        if reported == "ok" and zxid is not None:
            for row in record.fields[_ROWS[operation]]:
                if row.get("version") is not None and row.get("offset") is not None:
                    self._oks[partition_of(row), zxid] = row["offset"], row["version"], record.member

    def check(self) -> Iterator[Violation]:
        """Compares every reported commit and release with the log (S6). To be called once, with a log."""
        yield from self._reported_twice
        written = {(write.topic_partition, write.zxid): write for write in self.writes}
        for (tp, zxid), (value, version, member) in self._oks.items():
            write = written.get((tp, zxid))
            if write is None:
                detail = f"{member} got {value} reported as committed, which the log does not have"
                yield Violation("S6", detail, tp, zxid)
            elif (write.value, write.version) != (value, version):
                found = f"{write.value} in version {write.version}"
                detail = (
                    f"{member} got {value} reported as committed in version {version}, the log has {found}"
                )
                yield Violation("S6", detail, tp, zxid)
        yield from self._unaccounted()

    def _unaccounted(self) -> Iterator[Violation]:
        """Writes of recording members whose success was not reported."""
        by_zxid = {
            (a.topic_partition, a.zxid): a for a in self.attempts if a.reported == "ok" and a.zxid is not None
        }
        open_: defaultdict[_Key, list[Attempt]] = defaultdict(list)
        failed: dict[_Key, Attempt] = {}
        for attempt in self.attempts:
            key = (attempt.invoked.member, attempt.topic_partition, attempt.version, attempt.value)
            if attempt.reported == "fail":
                failed[key] = attempt
            elif attempt.zxid is None:
                open_[key].append(attempt)
        recorded = _Recorded(self._evidence)
        for write in self.writes:
            tp, zxid = write.topic_partition, write.zxid
            if (mine := by_zxid.get((tp, zxid))) is not None:
                self.explained[write] = mine
            member = recorded.writer(write)
            if write.is_claim or member is None or write.value is None or (tp, zxid) in self._oks:
                continue
            key = (member, tp, write.version, write.value)
            if open_[key]:
                attempt = open_[key].pop(0)
                attempt.zxid = zxid
                self.explained[write] = attempt
            elif key in failed:
                detail = f"{member} got {write.value} reported as not committed, and it is"
                yield Violation("S6", detail, tp, zxid)
            elif recorded.goes_on_after(member, write.session, zxid):
                detail = (
                    f"{write.value} in version {write.version} was written once more than {member} requested"
                )
                yield Violation("S6", detail, tp, zxid)


class _Recorded:
    """The members that recorded anything: their sessions, and the zxid up to which nothing is missing."""

    def __init__(self, evidence: GroupEvidence) -> None:
        self._members: defaultdict[int, set[str]] = defaultdict(set)
        self._last: dict[tuple[str, int], int] = {}
        """Member and session to the last zxid in an acknowledgement."""
        for record in evidence.records:
            if record.session in (None, NO_SESSION):
                continue
            self._members[record.session].add(record.member)
            if (
                record.kind in ("claim.ok", "commit.ok", "release.ok")
                and record.fields.get("zxid") is not None
            ):
                key = record.member, record.session
                self._last[key] = max(self._last.get(key, 0), record.fields["zxid"])

    def writer(self, write: LoggedOffsetWrite) -> str | None:
        """The zkgroup member that made the write, where that is certain."""
        known = self._members.get(write.session, set())
        found = known & write.members if write.members else known
        return next(iter(found)) if len(found) == 1 else None

    def goes_on_after(self, member: str, session: int, zxid: int) -> bool:
        """Returns whether it recorded something later in this session: then nothing earlier is missing."""
        return self._last.get((member, session), 0) > zxid


def _attempt(record: HistoryRecord, row: Mapping[str, Any]) -> Attempt | None:
    """None for a release that writes no position."""
    version = row["fence"] + 1 if "fence" in row else row.get("version")
    if row.get("offset") is None or version is None:
        return None
    return Attempt(partition_of(row), row["offset"], version, row.get("token"), record)


class OffsetSet:
    """A set of integers as disjoint runs, so that a partition read from end to end is one run."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        """Exclusive; run n is from `_starts[n]` to `_ends[n]`."""

    def add(self, start: int, end: int | None = None) -> None:
        """Adds one number, or all from `start` up to and without `end`."""
        end = start + 1 if end is None else end
        if end <= start:
            return
        low = bisect.bisect_left(self._ends, start)
        high = bisect.bisect_right(self._starts, end)
        if low < high:
            start, end = min(start, self._starts[low]), max(end, self._ends[high - 1])
        self._starts[low:high] = [start]
        self._ends[low:high] = [end]

    def first_missing(self, start: int, end: int) -> int | None:
        """The least number from `start` up to and without `end` that is not in the set."""
        run = bisect.bisect_right(self._starts, start) - 1
        missing = max(start, self._ends[run]) if run >= 0 else start
        return missing if missing < end else None


@dataclass(slots=True)
class _ClaimStart:
    """The records that were processed under one token."""

    bases: list[int] = field(default_factory=list)
    """Its start positions: where it began, and the targets of seeks."""
    is_open: bool = True
    """The next offset that it delivers or writes is a start: the reset policy chose it."""
    ended: OffsetSet = field(default_factory=OffsetSet)
    waiting: set[int] = field(default_factory=set)
    """Records begun and not ended."""
    excused: list[tuple[int, int]] = field(default_factory=list)
    """Ranges skipped by a seek or a reset."""

    def start(self, offset: int | None) -> None:
        """Applies a seek or a reset; without an offset the reset policy chooses the position."""
        if offset is None or offset < 0:
            self.is_open = True
            return
        self.excused.append((min(self.bases, default=0), offset))
        self.bases.append(offset)
        self.is_open = False

    def begin(self, offset: int | None) -> None:
        """Applies the position in the claim; None where nothing is committed yet."""
        if offset is not None and offset >= 0:
            self.bases.append(offset)
            self.is_open = False

    def meet(self, offset: int) -> None:
        """Takes the first offset met as the start, where the position is not known."""
        if self.is_open:
            self.start(offset)

    def missing(self, value: int, *, gaps_allowed: bool) -> int | None:
        """The first record before `value` that is not processed; None where none is missing.

        A position may be from before the last seek, so any start explains it.
        """
        found: int | None = None
        for base in self.bases:
            if base > value:
                continue
            if gaps_allowed:
                first = min((each for each in self.waiting if base <= each < value), default=None)
            else:
                first = self.ended.first_missing(base, value)
            if first is None:
                return None
            found = first if found is None else max(found, first)
        return found


class ProcessedCommitChecker:
    """Decides in one pass over the records whether committed ones were processed (S5)."""

    def __init__(self, evidence: GroupEvidence, acknowledgements: Acknowledgements) -> None:
        """With a server's log, `acknowledgements` must be checked first: then it knows what is written."""
        self._evidence = evidence
        self._acknowledgements = acknowledgements
        self._recorders = {record.member for record in evidence.records if record.kind == "deliver.start"}
        self._claims: defaultdict[tuple[TopicPartition, int], _ClaimStart] = defaultdict(_ClaimStart)
        self._attempts: defaultdict[int, list[Attempt]] = defaultdict(list)
        for attempt in acknowledgements.attempts:
            self._attempts[id(attempt.invoked)].append(attempt)

    @property
    def is_decidable(self) -> bool:
        """True if a member recorded deliveries, and members commit only what they processed."""
        return bool(self._recorders) and not self._evidence.options.offsets_given

    def check(self) -> Iterator[Violation]:
        """Looks for each committed record among the processed ones (S5)."""
        current: dict[tuple[str, TopicPartition], _ClaimStart] = {}
        for record in self._evidence.records:
            match record.kind:
                case "own.begin":
                    claim = self._claim(record)
                    claim.begin(record.fields["offset"])
                    current[record.member, record.topic_partition] = claim
                case "start":  # chosen by the reset policy; its commit may come after a seek
                    self._claim(record).meet(record.fields["offset"])
                case "deliver.start":
                    self._claim(record).meet(record.fields["offset"])
                    self._claim(record).waiting.add(record.fields["offset"])
                case "deliver.end":
                    self._claim(record).ended.add(record.fields["offset"])
                    self._claim(record).waiting.discard(record.fields["offset"])
                case "seek" | "reset.applied" | "foreign_write":
                    self._moved(record, current.get((record.member, record.topic_partition)))
                case "commit.invoke" | "release.invoke":
                    yield from self._invoked(record)
        if self._evidence.transactions:
            yield from self._over_all()

    def _claim(self, record: HistoryRecord) -> _ClaimStart:
        return self._claims[record.topic_partition, record.fields["token"]]

    @staticmethod
    def _moved(record: HistoryRecord, claim: _ClaimStart | None) -> None:
        if claim is not None and (
            record.kind != "foreign_write" or record.fields.get("policy") != "reassert"
        ):
            claim.start(record.fields["offset"])

    def _invoked(self, record: HistoryRecord) -> Iterator[Violation]:
        for attempt in self._attempts[id(record)]:
            known = (attempt.topic_partition, attempt.token) in self._claims
            if (
                attempt.value < 0
                or attempt.token is None
                or not known
                or record.member not in self._recorders
            ):
                continue
            claim = self._claims[attempt.topic_partition, attempt.token]
            claim.meet(attempt.value)
            missing = claim.missing(attempt.value, gaps_allowed=self._evidence.options.gaps_allowed)
            if missing is not None and attempt.is_written:
                detail = f"{record.member} committed {attempt.value}, and {missing} was not processed"
                yield Violation("S5", detail, attempt.topic_partition, attempt.zxid)

    def _over_all(self) -> Iterator[Violation]:
        processed: defaultdict[TopicPartition, OffsetSet] = defaultdict(OffsetSet)
        begun: defaultdict[TopicPartition, set[int]] = defaultdict(set)
        for record in self._evidence.records:
            if record.kind == "deliver.end":
                processed[record.topic_partition].add(record.fields["offset"])
            elif record.kind == "deliver.start" and self._evidence.options.gaps_allowed:
                begun[record.topic_partition].add(record.fields["offset"])
        for (tp, _), claim in self._claims.items():
            for start, end in claim.excused:
                processed[tp].add(start, end)
        for tp, value in self._last_values(processed).items():
            missing = processed[tp].first_missing(0, value)
            if self._evidence.options.gaps_allowed:
                missing = _first_begun(begun[tp], value, processed[tp])
            if missing is not None:
                detail = f"{value} is committed at the end, and no member has processed {missing}"
                yield Violation("S5", detail, tp)

    def _last_values(self, processed: Mapping[TopicPartition, OffsetSet]) -> dict[TopicPartition, int]:
        """The last value of each offset. A range that a write without records covers counts as processed."""
        values: dict[TopicPartition, int] = {}
        explained = self._acknowledgements.explained
        claims = {each.token for each in self._evidence.ownerships if each.member in self._recorders}
        for write in self._acknowledgements.writes:
            tp = write.topic_partition
            if write.value is None:
                continue
            attempt = explained.get(write)
            is_explained = tp in values and (
                write.zxid in claims
                if write.is_claim
                else attempt is not None and attempt.invoked.member in self._recorders
            )
            if not is_explained:
                processed[tp].add(max(values.get(tp, 0), 0), write.value)
            values[tp] = write.value
        return values


def _first_begun(begun: Iterable[int], value: int, processed: OffsetSet) -> int | None:
    return min(
        (each for each in begun if each < value and processed.first_missing(each, each + 1) is not None),
        default=None,
    )
