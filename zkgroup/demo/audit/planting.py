"""The writes that the audit has to find: a client that is not a member overwrites offsets of two owners.

Neither write loses a record, whatever happens to the owners meanwhile. The commit names only what the owner
has processed by its own file; the rewind names less than what is committed. Each is one transaction with a
check of owner and offset as they were read, so its meaning and the owner of its partition are known, however
slow the machine is. zkgroup's owners notice it at their next commit and go on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from zkgroup.demo.flight_data import TOPIC, Processed, last_of
from zkgroup.demo.group.scenario import NAMES, DemoGroup
from zkgroup.demo.processes import connected
from zkgroup.errors import OperationRefusedError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Check, SetData, Znode
from zkgroup.znodes.consumers import Offset, Owner

READ_EVERY_S = 0.05
"""The owner commits twice a second: an attempt between two commits succeeds."""


class HeldOffset(NamedTuple):
    """A partition of one owner, as it was read; the versions of both znodes guard what is written."""

    partition: int
    owner: Znode
    offset: Znode
    committed: int


class Target(NamedTuple):
    """What is to be written."""

    held: HeldOffset
    after: int


@dataclass(frozen=True, slots=True)
class Planted:
    """A write that is there to be found."""

    partition: int
    owner: str
    """Name of the member that owned the partition."""
    session: int
    """Of the client that wrote."""
    zxid: int
    before: int
    after: int

    @property
    def findings(self) -> tuple[str, ...]:
        """What the audit has to call it."""
        return ("offset_regression", "zombie_commit") if self.after < self.before else ("zombie_commit",)


def late_commit(held: Sequence[HeldOffset], last: Processed | None) -> Target | None:
    """A zombie's: up to the last record that the owner has processed, where that is not committed.

    None also where it was processed under another ownership than the one that was read.
    """
    for one in held:
        if (
            last is not None
            and (one.partition, one.owner.stat.czxid) == (last.partition, last.token)
            and one.committed <= last.offset
        ):
            return Target(one, last.offset + 1)
    return None


def rewind(held: Sequence[HeldOffset], ends: Sequence[int]) -> Target | None:
    """Half of what is committed, where something is left: so the owner commits again, and notices.

    `ends` are those of all partitions.
    """
    for one in held:
        if 2 <= one.committed < ends[one.partition]:
            return Target(one, one.committed // 2)
    return None


def held_by(
    member: str, group: str, partitions: Sequence[int], found: Mapping[str, Znode | None]
) -> list[HeldOffset]:
    """Those of the partitions that a member owns, out of owner and offset znodes by path."""
    held = []
    for partition in partitions:
        tp = TopicPartition(TOPIC, partition)
        owner, offset = found[Owner.path(group, tp)], found[Offset.path(group, tp)]
        if owner is None or offset is None or Owner.decode(owner.path, owner.data).member != member:
            continue
        held.append(HeldOffset(partition, owner, offset, Offset.decode(offset.path, offset.data).value))
    return held


@dataclass(kw_only=True)
class PlantedGroup(DemoGroup):
    """The group's demo, with a stranger among its first three members."""

    command: str = "zkgroup demo audit"
    planted: list[Planted] = field(default_factory=list)

    def interlude(self) -> None:
        """Both writes, under the two members that are not killed."""
        self.until("a tenth of the records is committed", lambda: self.done_share() > 0.1)
        self.headline = "a stranger writes offsets"
        zombie = self.members[0]
        ends = [len(lines) for lines in self.dealt]
        with connected(self.zookeeper, self.options.connection, self.options.answer_timeout_s) as stranger:
            self._plant(
                stranger, NAMES[0], "commits for", lambda held: late_commit(held, last_of(zombie.output))
            )
            self._plant(stranger, NAMES[2], "rewinds", lambda held: rewind(held, ends))
        self.headline = "the owners notice it at their next commits"

    @property
    def moved(self) -> frozenset[int]:
        """Those that were written to."""
        return frozenset(one.partition for one in self.planted)

    def _plant(
        self,
        stranger: Ensemble,
        name: str,
        verb: str,
        choose: Callable[[Sequence[HeldOffset]], Target | None],
    ) -> None:
        """Returns once one partition of this owner is written to.

        Raises `StableTimeoutError` where none ever is in the state for it.
        """
        before = len(self.planted)
        self.until(
            f"a partition of {name} is written to by a stranger",
            lambda: self._is_written(stranger, name, choose),
            READ_EVERY_S,
        )
        (one,) = self.planted[before:]
        self.tell(
            f"a stranger {verb} partition {one.partition} of {one.owner}: {one.before} -> {one.after}"
            f" (zxid {one.zxid:#x})",
            "bad",
        )

    def _is_written(
        self, stranger: Ensemble, name: str, choose: Callable[[Sequence[HeldOffset]], Target | None]
    ) -> bool:
        """One attempt; False where no partition is in the state for it, or it was changed meanwhile."""
        mine = sorted(number for number, owner in self.seen.owners.items() if owner == name)
        tps = [TopicPartition(TOPIC, number) for number in mine]
        paths = [kind.path(self.group, tp) for tp in tps for kind in (Owner, Offset)]
        session = stranger.zk.wait_connected().session_id
        held = held_by(f"{self.group}_{name}", self.group, mine, stranger.zk.read_many(paths))
        target = choose(held)
        if target is None:
            return False
        (partition, owner, offset, before), after = target
        try:
            done = stranger.zk.multi(
                Check(owner.path, owner.stat.version),
                SetData(offset.path, Offset(after).encode(), offset.stat.version),
            )
        except OperationRefusedError:
            return False
        stat = done.stats[1]
        assert stat is not None, "a write tells the new Stat"
        self.planted.append(Planted(partition, name, session, stat.mzxid, before, after))
        return True
