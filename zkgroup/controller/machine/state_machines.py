"""The states of partitions and replicas, and the allowed transitions (state machines, controller.md 3.1,
3.2).

(kafka/controller/PartitionStateMachine.scala and ReplicaStateMachine.scala@0.8.2.2, mended as in 2.0.)

Almost all partitions and replicas of a cluster are online, so the tables keep the others only.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

from zkgroup.model import TopicPartition


class PartitionPhase(Enum):
    NON_EXISTENT = "non-existent"
    NEW = "new"
    """It has replicas, and no state yet."""
    ONLINE = "online"
    """It has a leader that was live when it was last read."""
    OFFLINE = "offline"


class ReplicaPhase(Enum):
    NON_EXISTENT = "non-existent"
    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"
    DELETION_STARTED = "deletion started"
    DELETION_SUCCESSFUL = "deletion successful"
    DELETION_INELIGIBLE = "deletion ineligible"
    """It cannot be deleted now: its broker is down, or said no."""


class PartitionAndReplica(NamedTuple):
    """One replica of one partition."""

    topic_partition: TopicPartition
    broker: int

    def __str__(self) -> str:
        return f"{self.topic_partition} on broker {self.broker}"


_P, _R = PartitionPhase, ReplicaPhase

PARTITIONS: Final[Mapping[PartitionPhase, frozenset[PartitionPhase]]] = {
    _P.NEW: frozenset({_P.NON_EXISTENT}),
    _P.ONLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.OFFLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.NON_EXISTENT: frozenset({_P.OFFLINE}),
}
"""Phase to those that it may follow."""

REPLICAS: Final[Mapping[ReplicaPhase, frozenset[ReplicaPhase]]] = {
    _R.NEW: frozenset({_R.NON_EXISTENT}),
    _R.ONLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.OFFLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.DELETION_STARTED: frozenset({_R.OFFLINE}),
    _R.DELETION_SUCCESSFUL: frozenset({_R.DELETION_STARTED}),
    # Later releases allow it from offline too: deletion marks the replicas of dead brokers directly.
    _R.DELETION_INELIGIBLE: frozenset({_R.DELETION_STARTED, _R.OFFLINE}),
    _R.NON_EXISTENT: frozenset({_R.DELETION_SUCCESSFUL}),
}
"""Phase to those that it may follow."""

ItemT = TypeVar("ItemT", bound=Hashable)
PhaseT = TypeVar("PhaseT", bound=Enum)


class Moved(NamedTuple, Generic[ItemT, PhaseT]):
    done: Mapping[ItemT, PhaseT]
    """Each item that has moved, with the phase it came from."""
    illegal: tuple[str, ...]
    """The transitions that were refused; these items are as they were."""


class PhaseTable(Generic[ItemT, PhaseT]):
    """The phases of all items of one kind; those that are not mentioned are in `usual`."""

    def __init__(self, transitions: Mapping[PhaseT, frozenset[PhaseT]], usual: PhaseT) -> None:
        self._transitions = transitions
        self._usual = usual
        self._known: dict[ItemT, PhaseT] = {}
        """Only what is not in `usual`."""

    def begin(self, item: ItemT, phase: PhaseT) -> None:
        """Enters a phase, whatever it follows: one that was found at the start, or that of a new item."""
        self._store(item, phase)

    def phase(self, item: ItemT) -> PhaseT:
        """Of an item that exists; the caller knows which do."""
        return self._known.get(item, self._usual)

    def move(self, items: Iterable[ItemT], after: PhaseT) -> Moved[ItemT, PhaseT]:
        """Moves each item for which it is allowed. The others stay as they are and are named."""
        done: dict[ItemT, PhaseT] = {}
        illegal: list[str] = []
        for item in items:
            before = self.phase(item)
            if before in self._transitions[after]:
                done[item] = before
                self._store(item, after)
            else:
                illegal.append(f"{item} cannot become {after.value}: it is {before.value}")
        return Moved(done, tuple(illegal))

    def forget(self, items: Iterable[ItemT]) -> None:
        """The items exist no more and are not asked for again."""
        if self._known:
            for item in items:
                self._known.pop(item, None)

    def unusual(self, phases: Collection[PhaseT]) -> Iterator[ItemT]:
        """Items in one of these phases, of which none is the usual one; in the order they got there."""
        assert self._usual not in phases
        return (item for item, phase in self._known.items() if phase in phases)

    def _store(self, item: ItemT, phase: PhaseT) -> None:
        self._known.pop(item, None)
        if phase is not self._usual:
            self._known[item] = phase


def partition_at_start(leader: int | None, live: Collection[int]) -> PartitionPhase:
    """Returns what a new controller makes of a partition; `leader` is None where it has no state."""
    if leader is None:
        return PartitionPhase.NEW
    return PartitionPhase.ONLINE if leader in live else PartitionPhase.OFFLINE
