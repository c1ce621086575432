"""True if offsets that an operator wrote below living members stand: judged by what their owners do next.

A member of zkgroup learns of a reset, and ZooKeeper refuses its commits until it has sought to the new offset
(commits, recipes 6). Any other client goes on from the position in its memory, and its next commit overwrites
what was written; it reads an offset only when it claims the partition
(kafka/consumer/ZookeeperConsumerConnector.scala@0.8.2.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from zkgroup.admin.offsets.planning import NONE, OffsetChange, OffsetPlan
from zkgroup.admin.offsets.writes import Applied, WrittenOffset
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.reader import snapshot_or_empty
from zkgroup.groups.reads import offset_of
from zkgroup.groups.snapshot import GroupSnapshot
from zkgroup.groups.verify import expected_ownership
from zkgroup.model import TopicPartition
from zkgroup.znodes.consumers import subscription_kind

POLL_S = 1.0
"""Seconds between two reads."""

Standing = Literal["stands", "overwritten", "pending"]
"""`stands`: the owner goes on from the new offset, or whoever claims the partition will. `overwritten`: a
commit has followed that does not come from the new offset. `pending`: nothing shows yet which it will be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetStanding:
    """A partition whose offset was written, and what became of it."""

    topic_partition: TopicPartition
    """The partition."""
    standing: Standing
    """True if the new offset stands."""
    offset: int | None
    """The committed offset as last read; None if there is none, or it cannot be read."""
    owner: str | None
    """The thread id in the owner znode then; None if the partition had no owner."""


def judge(change: OffsetChange, written: WrittenOffset, snapshot: GroupSnapshot) -> Standing:
    """Judges what a snapshot shows of an offset that was written.

    An owner that claimed the partition before that: a member of zkgroup obeys, so its offset is at the new
    one or beyond; any other has overwritten the offset as soon as anybody has written it. Whoever claimed it
    later has read the new offset, if nobody wrote before the claim. Where that is not known, the committed
    offset decides: it does not come from the new one if it is below, or has passed the one before.
    """
    tp = change.topic_partition
    entry, owner = snapshot.offsets.get(tp), snapshot.owners.get(tp)
    stat = None if entry is None else entry.stat
    is_untouched = stat is not None and stat.mzxid == written.zxid
    found = offset_of(snapshot, tp)
    value = NONE if found is None else found
    if owner is not None and owner.stat.czxid < written.zxid:
        member = snapshot.registrations.get(snapshot.registered_owner(tp) or "")
        if member is not None and subscription_kind(member.znode.data) == "zkgroup":
            return "stands" if value >= change.after else "pending"
        return "pending" if is_untouched else "overwritten"
    if is_untouched:
        is_wanted = owner is None and tp.topic in expected_ownership(snapshot).topics
        return "pending" if is_wanted else "stands"
    is_next = stat is not None and stat.version == written.version + 1
    if owner is not None and stat is not None and is_next and stat.mzxid >= owner.stat.czxid:
        return "stands"  # the only write since, and it is the owner's
    has_passed = change.before is not None and change.after < change.before <= value
    return "overwritten" if value < change.after or has_passed else "stands"


def wait_until_standing(
    ensemble: Ensemble, plan: OffsetPlan, applied: Applied, longest_s: float
) -> tuple[OffsetStanding, ...]:
    """Reads until it is known of each written offset whether it stands, or the time is over; in order.

    What has been decided for a partition is not asked again: its owner goes on from there.
    """
    topics = sorted({change.topic_partition.topic for change in applied.done})
    found: dict[TopicPartition, OffsetStanding] = {}

    def read() -> bool:
        snapshot = snapshot_or_empty(ensemble, plan.group, topics)
        for change in applied.done:
            tp = change.topic_partition
            if tp not in found or found[tp].standing == "pending":
                owner = snapshot.owners.get(tp)
                found[tp] = OffsetStanding(
                    topic_partition=tp,
                    standing=judge(change, applied.written[tp], snapshot),
                    offset=offset_of(snapshot, tp),
                    owner=owner.text if owner else None,
                )
        return all(one.standing != "pending" for one in found.values())

    ensemble.read_until(read, bool, longest_s, POLL_S)
    return tuple(found.values())
