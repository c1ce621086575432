"""S7-S9: what was delivered, when, and from where. Decided from the members' records alone."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from zkgroup.history.evidence import Evidence, Holding
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


def _was_moved(holding: Holding, first: Record, moved: dict[TopicPartition, list[Record]]) -> bool:
    return any(
        record.member == holding.member and holding.begin.ts <= record.ts <= first.ts
        for record in moved.get(holding.topic_partition, ())
    )
