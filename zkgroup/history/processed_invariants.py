"""S5: a committed offset means that every record before it is processed.

Claim by claim, from the records: from where the claim started, or was moved to (a seek, a reset, a foreign
write that was adopted), every record before a committed offset has its `deliver.end` before the commit began.
Over all claims, beside the server's log: every record before the last value of an offset was processed by
somebody. What others than members of ours have written, and what was passed over by order, is excused; so is
the progress of members that record no deliveries.

A delivery whose end a killed process could not record counts as none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from zkgroup.history.acknowledgements import Acknowledgements, Attempt
from zkgroup.history.evidence import Evidence
from zkgroup.history.intervals import Offsets
from zkgroup.history.records import Record
from zkgroup.history.report import Violation
from zkgroup.model import TopicPartition


@dataclass(slots=True)
class _Claim:
    """What was processed under one token."""

    bases: list[int] = field(default_factory=list)
    """Where it started, and where it was moved to."""
    is_open: bool = True
    """The next offset that it delivers or writes is a start: the reset policy chose it."""
    ended: Offsets = field(default_factory=Offsets)
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
        self._claims: defaultdict[tuple[TopicPartition, int], _Claim] = defaultdict(_Claim)
        self._attempts: defaultdict[int, list[Attempt]] = defaultdict(list)
        for attempt in acknowledgements.attempts:
            self._attempts[id(attempt.invoked)].append(attempt)

    @property
    def is_decidable(self) -> bool:
        """Whether somebody recorded deliveries, and commits what he processed."""
        return bool(self._recorders) and not self._evidence.options.offsets_given

    def check(self) -> Iterator[Violation]:
        """S5 over every commit."""
        current: dict[tuple[str, TopicPartition], _Claim] = {}
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

    def _claim(self, record: Record) -> _Claim:
        return self._claims[record.topic_partition, record.fields["token"]]

    @staticmethod
    def _moved(record: Record, claim: _Claim | None) -> None:
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
        settled: defaultdict[TopicPartition, Offsets] = defaultdict(Offsets)
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

    def _last_values(self, settled: Mapping[TopicPartition, Offsets]) -> dict[TopicPartition, int]:
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


def _first_begun(begun: Iterable[int], value: int, settled: Offsets) -> int | None:
    return min(
        (each for each in begun if each < value and settled.first_missing(each, each + 1) is not None),
        default=None,
    )
