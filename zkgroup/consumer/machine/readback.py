"""What a partition's znodes say about a claim or a commit of ours (recipes.md 1, 5, 6, 7, 10).

Always read in two ordered requests, the **offset first, then the owner** (and the reset marker with it):
in the other order a successor's fence could be taken for ours. `judge` decides from what was read; it is
the model's `settle_commit`, one partition at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from zkgroup.consumer.machine.ownership import Held
from zkgroup.consumer.machine.paths import Paths
from zkgroup.errors import CorruptZnodeError
from zkgroup.machinery.procedures import Procedure, read_many
from zkgroup.model import TopicPartition, Znode
from zkgroup.znodes.consumers import Offset, Owner, Reset


class Seen(NamedTuple):
    """The znodes of one partition, in the order they were read."""

    offset: Znode | None
    owner: Znode | None
    marker: Znode | None


@dataclass(frozen=True, slots=True)
class Identity:
    """Who "mine" is: recipes.md 1."""

    member: str
    session_id: int

    def thread_of(self, owner: Znode | None) -> int | None:
        """The thread that an owner znode of this very member and session names; None for anybody else's."""
        if owner is None or owner.stat.ephemeral_owner != self.session_id:
            return None
        try:
            decoded = Owner.decode(owner.path, owner.data)
        except CorruptZnodeError:
            return None
        return decoded.thread if decoded.member == self.member else None

    def holds(self, held: Held, owner: Znode | None) -> bool:
        """This znode is the claim that `held` stands for: session, text and token."""
        return self.thread_of(owner) is not None and owner is not None and owner.stat.czxid == held.token


def read_back(paths: Paths, partitions: Iterable[TopicPartition]) -> Procedure[Mapping[TopicPartition, Seen]]:
    """Two pipelined, ordered bulk reads: offsets, then owners and markers."""
    tps = tuple(partitions)
    markers = [paths.marker(tp) for tp in tps]
    offsets, rest = yield from read_many(paths.offsets(tps), [*paths.owners(tps), *markers])
    owners, found = rest[: len(tps)], rest[len(tps) :]
    return {tp: Seen(*seen) for tp, *seen in zip(tps, offsets, owners, found, strict=True)}


class Verdict(Enum):
    """What became of a held partition, and of a value that was to be written to it."""

    STANDS = "stands"
    """As the claim left it: nothing was written, by anybody."""
    APPLIED = "applied"
    """The value is written: only the answer was lost."""
    RESET = "reset"
    """An operator's marker is newer than the last write of ours: obey it before anything else."""
    FOREIGN = "foreign"
    """Somebody else wrote the offset."""
    NOT_MINE = "not_mine"
    """The owner znode is gone or somebody else's."""
    FENCE_BROKEN = "fence_broken"
    """The offset znode was deleted (and perhaps made again): its versions mean nothing."""


def judge(held: Held, intended: int | None, seen: Seen, mine: Identity) -> Verdict:
    """The order matters: ownership before everything, a reset before every other reading of a version."""
    if not mine.holds(held, seen.owner):
        return Verdict.NOT_MINE
    if seen.offset is None or seen.offset.stat.czxid != held.life:
        return Verdict.FENCE_BROKEN
    if seen.marker is not None and seen.marker.stat.mzxid > held.last:
        return Verdict.RESET
    version = seen.offset.stat.version
    if version == held.fence:
        return Verdict.STANDS
    if intended is not None and version == held.fence + 1 and offset_value(seen.offset) == intended:
        return Verdict.APPLIED
    return Verdict.FOREIGN


def adopted(tp: TopicPartition, thread: int, seen: Seen, registered_zxid: int | None) -> Held | None:
    """A claim of ours as read back: the fence is *that* offset's, read before "the owner is mine" [M].

    None for a claim that must not be taken over as it stands (docs/adr/0014):
    one that an earlier registration made, whose token the application may have had already; and one whose
    offset znode is gone, unreadable, or younger than the claim, which is then not fenced by its version.
    """
    if seen.owner is None or seen.offset is None:
        return None
    token, value, stat = seen.owner.stat.czxid, offset_value(seen.offset), seen.offset.stat
    is_of_this_registration = registered_zxid is not None and token > registered_zxid
    if value is None or not is_of_this_registration or stat.czxid > token:
        return None
    return Held(tp, thread, token, value, fence=stat.version, life=stat.czxid, last=token)


def offset_value(znode: Znode) -> int | None:
    """The number in an offset znode, or None where there is none that can be read."""
    try:
        return Offset.decode(znode.path, znode.data).value
    except CorruptZnodeError:
        return None


def marker_offset(znode: Znode) -> int | None:
    """Where a reset marker points, or None where it cannot be read."""
    try:
        return Reset.decode(znode.path, znode.data).offset
    except CorruptZnodeError:
        return None
