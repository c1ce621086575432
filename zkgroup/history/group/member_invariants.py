"""S1 to S4 decided from the members' own records: each acknowledgement carries zxid and resulting version.

On a real server there is no other source. A version that no record explains is a foreign write, or a write
whose answer was lost, or whose writer was killed before it could record it: such versions are counted and are
no violation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from zkgroup.history.group.replay import Evidence
from zkgroup.history.records import Record, partition_of
from zkgroup.history.report import Figures, Violation
from zkgroup.model import TopicPartition

DECIDED = frozenset({"S1", "S2", "S3", "S4"})


@dataclass(frozen=True, slots=True)
class Write:
    """One acknowledged change of an offset, or a claim that was recognised by reading back."""

    topic_partition: TopicPartition
    zxid: int
    token: int
    version: int
    value: int
    record: Record
    is_claim: bool


def check_chains(evidence: Evidence, figures: Figures) -> Iterator[Violation]:
    """The writes of each partition in the order of the server, each one judged by those before it."""
    yield from _registered_first(evidence)
    chains: dict[TopicPartition, list[Write]] = {}
    for write in _writes(evidence):
        chains.setdefault(write.topic_partition, []).append(write)
    moved = _explained_moves(evidence)
    for tp in sorted(chains):
        # A move between threads of one member is a release and a claim with one zxid.
        chains[tp].sort(key=lambda write: (write.zxid, write.is_claim))
        yield from _chain(evidence, figures, chains[tp], moved)


def _writes(evidence: Evidence) -> Iterator[Write]:
    acknowledged: set[tuple[TopicPartition, int]] = set()
    for record in evidence.records:
        fields = record.fields
        if record.kind == "claim.ok":
            for row in fields["grants"]:
                acknowledged.add((partition_of(row), row["token"]))
                yield _write(record, row, row["token"], is_claim=True)
        elif record.kind == "own.begin" and (record.topic_partition, fields["token"]) not in acknowledged:
            # Adopted after a lost reply, or a move between threads: the token is the zxid of the claim.
            acknowledged.add((record.topic_partition, fields["token"]))
            yield _write(record, fields, fields["token"], is_claim=True)
        elif record.kind in ("commit.ok", "release.ok") and fields.get("zxid") is not None:
            rows = fields["offsets" if record.kind == "commit.ok" else "partitions"]
            for row in rows:
                if row.get("version") is not None and row.get("token") is not None:
                    yield _write(record, row, fields["zxid"], is_claim=False)


def _write(record: Record, row: Mapping[str, Any], zxid: int, *, is_claim: bool) -> Write:
    return Write(partition_of(row), zxid, row["token"], row["version"], row["offset"], record, is_claim)


def _registered_first(evidence: Evidence) -> Iterator[Violation]:
    """S1: a claiming member has registered, in the session in which it claims."""
    for records in evidence.by_member.values():
        sessions: set[int | None] = set()
        for record in records:
            if record.kind == "registered":
                sessions.add(record.session)
            elif record.kind == "claim.ok" and record.session not in sessions:
                detail = f"{record.member} claimed without a registration in its session"
                yield Violation("S1", detail, None, record.fields["zxid"])


def _chain(
    evidence: Evidence, figures: Figures, writes: list[Write], moved: Mapping[TopicPartition, list[Record]]
) -> Iterator[Violation]:
    before: Write | None = None
    claim: Write | None = None
    for write in writes:
        if write.is_claim:
            yield from _claimed(before, write)
            figures.claims += 1
            figures.ownership_changes += claim is not None and claim.record.member != write.record.member
            claim = write
        else:
            figures.commits += 1
            if claim is None or write.token != claim.token:
                owner = f"{claim.record.member} (token {claim.token})" if claim else "nobody"
                detail = f"{write.record.member} wrote with token {write.token}, but {owner} owned it"
                yield Violation("S2", detail, write.topic_partition, write.zxid)
            elif before is not None and write.version <= before.version and write.zxid != before.zxid:
                detail = f"version {write.version} after {before.version} within one claim"
                yield Violation("S3", detail, write.topic_partition, write.zxid)
        if before is not None:
            yield from _value(evidence, figures, before, write, moved)
        before = write


def _claimed(before: Write | None, claim: Write) -> Iterator[Violation]:
    if before is not None and claim.version == before.version and claim.zxid != before.zxid:
        detail = (
            f"{claim.record.member} claimed at version {claim.version}, which {before.record.member} wrote"
        )
        yield Violation("S3", detail, claim.topic_partition, claim.zxid)


def _value(
    evidence: Evidence,
    figures: Figures,
    before: Write,
    write: Write,
    moved: Mapping[TopicPartition, list[Record]],
) -> Iterator[Violation]:
    """S4, and the versions in between that no record explains."""
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


def _explained_moves(evidence: Evidence) -> dict[TopicPartition, list[Record]]:
    """Records that say why a position may go back: a reset obeyed, a foreign write met."""
    found: dict[TopicPartition, list[Record]] = {}
    for record in evidence.records:
        if record.kind in ("reset.obeyed", "foreign_write"):
            found.setdefault(record.topic_partition, []).append(record)
    return found
