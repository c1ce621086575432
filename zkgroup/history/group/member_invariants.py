"""Invariants that the members' own records decide: claims and commits (S1 to S4), deliveries (S7 to S9).

Each acknowledgement carries its zxid and the resulting version. Without the server's log there is no other
source. A version that no record explains is a foreign write, or a write whose response was lost, or whose
writer was killed before it could record it: such versions are counted and are no violation.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zkgroup.history.group.replay import GroupEvidence, RecordedOwnership
from zkgroup.history.records import HistoryRecord, partition_of
from zkgroup.history.report import Figures, Violation
from zkgroup.model import TopicPartition

DECIDED = frozenset({"S1", "S2", "S3", "S4"})


@dataclass(frozen=True, slots=True)
class AcknowledgedWrite:
    """One acknowledged change of an offset, or a claim that was recognised by reading back."""

    topic_partition: TopicPartition
    zxid: int
    token: int
    version: int
    value: int
    record: HistoryRecord
    is_claim: bool


def check_chains(evidence: GroupEvidence, figures: Figures) -> Iterator[Violation]:
    """Checks claims and commits (S1 to S4) over each partition's writes, in the order of the server."""
    yield from _registered_first(evidence)
    chains: dict[TopicPartition, list[AcknowledgedWrite]] = {}
    for write in _writes(evidence):
        chains.setdefault(write.topic_partition, []).append(write)
    moved = _moves(evidence, "reset.applied", "foreign_write")
    for tp in sorted(chains):
        # A handover between threads of one member is a release and a claim with one zxid.
        chains[tp].sort(key=lambda write: (write.zxid, write.is_claim))
        yield from _chain(evidence, figures, chains[tp], moved)


def _writes(evidence: GroupEvidence) -> Iterator[AcknowledgedWrite]:
    acknowledged: set[tuple[TopicPartition, int]] = set()
    for record in evidence.records:
        fields = record.fields
        if record.kind == "claim.ok":
            for row in fields["grants"]:
                acknowledged.add((partition_of(row), row["token"]))
                yield _write(record, row, row["token"], is_claim=True)
        elif record.kind == "own.begin" and (record.topic_partition, fields["token"]) not in acknowledged:
            # Adopted after a lost response, or a handover between threads: the token is the claim's zxid.
            acknowledged.add((record.topic_partition, fields["token"]))
            yield _write(record, fields, fields["token"], is_claim=True)
        elif record.kind in ("commit.ok", "release.ok") and fields.get("zxid") is not None:
            rows = fields["offsets" if record.kind == "commit.ok" else "partitions"]
            for row in rows:
                if row.get("version") is not None and row.get("token") is not None:
                    yield _write(record, row, fields["zxid"], is_claim=False)


def _write(record: HistoryRecord, row: Mapping[str, Any], zxid: int, *, is_claim: bool) -> AcknowledgedWrite:
    return AcknowledgedWrite(
        partition_of(row), zxid, row["token"], row["version"], row["offset"], record, is_claim
    )


def _registered_first(evidence: GroupEvidence) -> Iterator[Violation]:
    """A claiming member has registered, in the session in which it claims (S1)."""
    for records in evidence.by_member.values():
        sessions: set[int | None] = set()
        for record in records:
            if record.kind == "registered":
                sessions.add(record.session)
            elif record.kind == "claim.ok" and record.session not in sessions:
                detail = f"{record.member} claimed without a registration in its session"
                yield Violation("S1", detail, None, record.fields["zxid"])


def _chain(
    evidence: GroupEvidence,
    figures: Figures,
    writes: list[AcknowledgedWrite],
    moved: Mapping[TopicPartition, list[HistoryRecord]],
) -> Iterator[Violation]:
    before: AcknowledgedWrite | None = None
    claim: AcknowledgedWrite | None = None
    for write in writes:
        if write.is_claim:
            yield from _claimed(before, write)
            figures.claims += 1
            figures.ownership_changes += claim is not None and claim.record.member != write.record.member
            claim = write
        else:
            figures.commits += 1
            if claim is None or write.token != claim.token:
                owner = f"{claim.record.member} (token {claim.token})" if claim else "no member"
                detail = f"{write.record.member} wrote with token {write.token}, but {owner} owned it"
                yield Violation("S2", detail, write.topic_partition, write.zxid)
            elif before is not None and write.version <= before.version and write.zxid != before.zxid:
                detail = f"version {write.version} after {before.version} within one claim"
                yield Violation("S3", detail, write.topic_partition, write.zxid)
        if before is not None:
            yield from _value(evidence, figures, before, write, moved)
        before = write


def _claimed(before: AcknowledgedWrite | None, claim: AcknowledgedWrite) -> Iterator[Violation]:
    if before is not None and claim.version == before.version and claim.zxid != before.zxid:
        detail = (
            f"{claim.record.member} claimed at version {claim.version}, which {before.record.member} wrote"
        )
        yield Violation("S3", detail, claim.topic_partition, claim.zxid)


def _value(
    evidence: GroupEvidence,
    figures: Figures,
    before: AcknowledgedWrite,
    write: AcknowledgedWrite,
    moved: Mapping[TopicPartition, list[HistoryRecord]],
) -> Iterator[Violation]:
    """Offsets never go back (S4). Counts the versions in between that no record explains."""
    tp, between = write.topic_partition, write.version - before.version - 1
    figures.foreign_writes += max(between, 0)
    new_life = write.version < before.version
    if write.value >= before.value or between > 0 or new_life:
        figures.reasserted += between > 0 and write.value < before.value
        return
    explained = any(before.record.ts <= record.ts <= write.record.ts for record in moved.get(tp, ()))
    if not explained and (tp, write.version) not in evidence.rewinds:
        detail = f"{write.record.member} moved the offset back from {before.value} to {write.value}"
        yield Violation("S4", detail, tp, write.zxid)


def _moves(evidence: GroupEvidence, *kinds: str) -> dict[TopicPartition, list[HistoryRecord]]:
    """Records that explain why a position may go back: an applied reset, a detected foreign write, a seek."""
    found: dict[TopicPartition, list[HistoryRecord]] = {}
    for record in evidence.records:
        if record.kind in kinds:
            found.setdefault(record.topic_partition, []).append(record)
    return found


@dataclass(slots=True)
class _Claim:
    """All deliveries under one token."""

    starts: list[HistoryRecord] = field(default_factory=list)
    ends: list[HistoryRecord] = field(default_factory=list)


def check_deliveries(evidence: GroupEvidence, figures: Figures) -> Iterator[Violation]:
    """Checks every delivery: under a lease (S7), disjoint (S8), from the right start (S9)."""
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


def _leased(evidence: GroupEvidence) -> Iterator[Violation]:
    """It is between the beginning and the end of the ownership, and before the lease ran out (S7)."""
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
    """The leases of a member on its own clock: each from the sending of a write until its deadline."""

    def __init__(self, records: Sequence[HistoryRecord]) -> None:
        renewals = [r.fields for r in records if r.kind == "lease.renew"]
        self._sent = [fields["sent_ms"] for fields in renewals]
        # Deadlines rise with the time of sending; a running maximum keeps the search right if they do not.
        self._until: list[float] = []
        for fields in renewals:
            self._until.append(max(fields["until_ms"], self._until[-1] if self._until else 0))

    def cover(self, checked_ms: float, stamped_ms: float) -> bool:
        """Returns whether a lease sent no later than the stamp was still running at the check."""
        known = bisect.bisect_right(self._sent, stamped_ms)
        return known > 0 and self._until[known - 1] > checked_ms


def _disjoint(figures: Figures, tp: TopicPartition, claims: dict[int, _Claim]) -> Iterator[Violation]:
    """An older claim starts nothing after a newer one has started (S8)."""
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


def _right_start(
    evidence: GroupEvidence, claims: dict[TopicPartition, dict[int, _Claim]]
) -> Iterator[Violation]:
    """The first record of a claim is the one at the position written with the claim (S9)."""
    moved = _moves(evidence, "reset.applied", "foreign_write", "seek")
    for holding in evidence.ownerships:
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


def _was_moved(
    holding: RecordedOwnership, first: HistoryRecord, moved: dict[TopicPartition, list[HistoryRecord]]
) -> bool:
    return any(
        record.member == holding.member and holding.begin.ts <= record.ts <= first.ts
        for record in moved.get(holding.topic_partition, ())
    )
