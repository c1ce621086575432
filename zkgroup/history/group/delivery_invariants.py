"""S5 and S7 to S9: which records were delivered and processed, when and from where, by members' records."""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from zkgroup.history.group.acknowledgements import Acknowledgements, Attempt
from zkgroup.history.group.replay import Evidence, RecordedOwnership
from zkgroup.history.records import Record
from zkgroup.history.report import Figures, Violation
from zkgroup.model import TopicPartition


@dataclass(slots=True)
class _Claim:
    """All deliveries under one token."""

    starts: list[Record] = field(default_factory=list)
    ends: list[Record] = field(default_factory=list)


def check_deliveries(evidence: Evidence, figures: Figures) -> Iterator[Violation]:
    """S7, S8 and S9 over every delivery."""
    claims: dict[TopicPartition, dict[int, _Claim]] = {}
    for record in evidence.records:
        if record.kind not in ("deliver.start", "deliver.end"):
            continue
        claim = claims.setdefault(record.topic_partition, {}).setdefault(record.fields["token"], _Claim())
        (claim.starts if record.kind == "deliver.start" else claim.ends).append(record)
    figures.deliveries += sum(len(claim.starts) for tokens in claims.values() for claim in tokens.values())
    yield from _leased(evidence)
    for tp in sorted(claims):
        yield from _disjoint(figures, tp, claims[tp])
    yield from _right_start(evidence, claims)


def _leased(evidence: Evidence) -> Iterator[Violation]:
    """S7: between the beginning and the end of the ownership, and before the lease ran out."""
    slack_ms = evidence.options.slack_ms
    for member, records in evidence.by_member.items():
        held: dict[tuple[TopicPartition, int], bool] = {}
        leases = _Leases(records)
        for record in records:
            if record.kind in ("own.begin", "own.end"):
                held[record.topic_partition, record.fields["token"]] = record.kind == "own.begin"
            if record.kind != "deliver.start":
                continue
            tp, token = record.topic_partition, record.fields["token"]
            offset = record.fields["offset"]
            if not held.get((tp, token), False):
                state = "after the end" if (tp, token) in held else "without a beginning"
                yield Violation("S7", f"{member} delivered {offset} {state} of its claim {token}", tp)
            elif not leases.cover(record.ms - slack_ms, record.ms):
                yield Violation("S7", f"{member} delivered {offset} outside its lease", tp)


class _Leases:
    """The permissions of a member by its own clock: from the send of a write until its deadline."""

    def __init__(self, records: Sequence[Record]) -> None:
        renewals = [r.fields for r in records if r.kind == "lease.renew"]
        self._sent = [fields["sent_ms"] for fields in renewals]
        # Deadlines rise with the time of sending; a running maximum keeps the search right if they do not.
        self._until: list[float] = []
        for fields in renewals:
            self._until.append(max(fields["until_ms"], self._until[-1] if self._until else 0))

    def cover(self, checked_ms: float, stamped_ms: float) -> bool:
        """Whether a lease sent no later than the stamp was still running at the check."""
        known = bisect.bisect_right(self._sent, stamped_ms)
        return known > 0 and self._until[known - 1] > checked_ms


def _disjoint(figures: Figures, tp: TopicPartition, claims: dict[int, _Claim]) -> Iterator[Violation]:
    """S8: an older claim starts nothing after a newer one has started."""
    tokens = sorted(token for token in claims if claims[token].starts)
    for older, newer in itertools.pairwise(tokens):
        first = min(record.ts for record in claims[newer].starts)
        late = [record for record in claims[older].starts if record.ts > first]
        if late:
            overlap_ms = (max(record.ts for record in late) - first) / 1_000_000
            figures.overlap_ms_max = max(figures.overlap_ms_max, overlap_ms)
            detail = (
                f"{late[0].member} started {len(late)} records up to {overlap_ms:.0f} ms after its successor"
            )
            yield Violation("S8", detail, tp, newer)
        figures.in_flight_overlaps += sum(record.ts > first for record in claims[older].ends)


def _right_start(evidence: Evidence, claims: dict[TopicPartition, dict[int, _Claim]]) -> Iterator[Violation]:
    """S9: the first record of a claim is the one at the position written with the claim."""
    moved: dict[TopicPartition, list[Record]] = {}
    for record in evidence.records:
        if record.kind in ("reset.obeyed", "foreign_write", "seek"):
            moved.setdefault(record.topic_partition, []).append(record)
    for holding in evidence.holdings:
        claim = claims.get(holding.topic_partition, {}).get(holding.token)
        if claim is None or not claim.starts or holding.begin.fields["offset"] is None:
            continue
        first, position = claim.starts[0], holding.begin.fields["offset"]
        delivered = first.fields["offset"]
        if position < 0 or delivered == position or _was_moved(holding, first, moved):
            continue
        if delivered < position or not evidence.options.gaps_allowed:
            detail = f"{holding.member} began at {delivered}, its claim says {position}"
            yield Violation("S9", detail, holding.topic_partition, holding.token)


def _was_moved(holding: RecordedOwnership, first: Record, moved: dict[TopicPartition, list[Record]]) -> bool:
    return any(
        record.member == holding.member and holding.begin.ts <= record.ts <= first.ts
        for record in moved.get(holding.topic_partition, ())
    )


class OffsetSet:
    """Whole numbers in disjoint runs, so that a partition read from end to end is one run."""

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
    """What was processed under one token."""

    bases: list[int] = field(default_factory=list)
    """Where it started, and where it was moved to."""
    is_open: bool = True
    """The next offset that it delivers or writes is a start: the reset policy chose it."""
    ended: OffsetSet = field(default_factory=OffsetSet)
    waiting: set[int] = field(default_factory=set)
    """Begun, not ended since."""
    excused: list[tuple[int, int]] = field(default_factory=list)
    """Passed over by order."""

    def start(self, offset: int | None) -> None:
        """It is moved; without an offset to where the reset policy says."""
        if offset is None or offset < 0:
            self.is_open = True
            return
        self.excused.append((min(self.bases, default=0), offset))
        self.bases.append(offset)
        self.is_open = False

    def begin(self, offset: int | None) -> None:
        """The claim says where it starts, or that nothing is committed yet."""
        if offset is not None and offset >= 0:
            self.bases.append(offset)
            self.is_open = False

    def meet(self, offset: int) -> None:
        """The reset policy's start, or the first offset after one of which there is no record."""
        if self.is_open:
            self.start(offset)

    def missing(self, value: int, *, gaps_allowed: bool) -> int | None:
        """The first record before `value` that is not processed; None where none is missing.

        A position may have been taken before the last jump: any start explains it.
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


class ProcessedAudit:
    """Walks over the records once."""

    def __init__(self, evidence: Evidence, acknowledgements: Acknowledgements) -> None:
        """`acknowledgements` has been checked where there is a server's log: what is written is known."""
        self._evidence = evidence
        self._acknowledgements = acknowledgements
        self._recorders = {record.member for record in evidence.records if record.kind == "deliver.start"}
        self._claims: defaultdict[tuple[TopicPartition, int], _ClaimStart] = defaultdict(_ClaimStart)
        self._attempts: defaultdict[int, list[Attempt]] = defaultdict(list)
        for attempt in acknowledgements.attempts:
            self._attempts[id(attempt.invoked)].append(attempt)

    @property
    def is_decidable(self) -> bool:
        """Whether any member recorded deliveries, and commits what it processed."""
        return bool(self._recorders) and not self._evidence.options.offsets_given

    def check(self) -> Iterator[Violation]:
        """S5 over every commit."""
        current: dict[tuple[str, TopicPartition], _ClaimStart] = {}
        for record in self._evidence.records:
            match record.kind:
                case "own.begin":
                    claim = self._claim(record)
                    claim.begin(record.fields["offset"])
                    current[record.member, record.topic_partition] = claim
                case "start":  # the policy's; its commit may come after a seek
                    self._claim(record).meet(record.fields["offset"])
                case "deliver.start":
                    self._claim(record).meet(record.fields["offset"])
                    self._claim(record).waiting.add(record.fields["offset"])
                case "deliver.end":
                    self._claim(record).ended.add(record.fields["offset"])
                    self._claim(record).waiting.discard(record.fields["offset"])
                case "seek" | "reset.obeyed" | "foreign_write":
                    self._moved(record, current.get((record.member, record.topic_partition)))
                case "commit.invoke" | "release.invoke":
                    yield from self._invoked(record)
        if self._evidence.transactions:
            yield from self._over_all()

    def _claim(self, record: Record) -> _ClaimStart:
        return self._claims[record.topic_partition, record.fields["token"]]

    @staticmethod
    def _moved(record: Record, claim: _ClaimStart | None) -> None:
        if claim is not None and (
            record.kind != "foreign_write" or record.fields.get("policy") != "reassert"
        ):
            claim.start(record.fields["offset"])

    def _invoked(self, record: Record) -> Iterator[Violation]:
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

    # --- over all claims ------------------------------------------------------------------------------

    def _over_all(self) -> Iterator[Violation]:
        settled: defaultdict[TopicPartition, OffsetSet] = defaultdict(OffsetSet)
        begun: defaultdict[TopicPartition, set[int]] = defaultdict(set)
        for record in self._evidence.records:
            if record.kind == "deliver.end":
                settled[record.topic_partition].add(record.fields["offset"])
            elif record.kind == "deliver.start" and self._evidence.options.gaps_allowed:
                begun[record.topic_partition].add(record.fields["offset"])
        for (tp, _), claim in self._claims.items():
            for start, end in claim.excused:
                settled[tp].add(start, end)
        for tp, value in self._last_values(settled).items():
            missing = settled[tp].first_missing(0, value)
            if self._evidence.options.gaps_allowed:
                missing = _first_begun(begun[tp], value, settled[tp])
            if missing is not None:
                detail = f"{value} is committed at last, and nobody has processed {missing}"
                yield Violation("S5", detail, tp)

    def _last_values(self, settled: Mapping[TopicPartition, OffsetSet]) -> dict[TopicPartition, int]:
        """The last value of each offset; what brought it on without being ours to judge is settled."""
        values: dict[TopicPartition, int] = {}
        explained = self._acknowledgements.explained
        claims = {each.token for each in self._evidence.holdings if each.member in self._recorders}
        for write in self._acknowledgements.writes:
            tp = write.topic_partition
            if write.value is None:
                continue
            attempt = explained.get(write)
            is_judged = tp in values and (
                write.zxid in claims
                if write.is_claim
                else attempt is not None and attempt.invoked.member in self._recorders
            )
            if not is_judged:
                settled[tp].add(max(values.get(tp, 0), 0), write.value)
            values[tp] = write.value
        return values


def _first_begun(begun: Iterable[int], value: int, settled: OffsetSet) -> int | None:
    return min(
        (each for each in begun if each < value and settled.first_missing(each, each + 1) is not None),
        default=None,
    )
