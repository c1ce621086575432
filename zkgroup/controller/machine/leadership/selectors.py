"""Selects the leader of a partition, and its ISR. Source: state machines (controller.md 3.1, 3.3, 3.4).

(kafka/controller/PartitionLeaderSelector.scala@0.8.2.2, kafka/controller/Election.scala@2.8.2.)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from zkgroup.controller.machine.context import Brokers, ControllerContext, LeaderIsrAndControllerEpoch
from zkgroup.controller.machine.pending_deletes import PendingDeletes
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import NO_LEADER

UNCLEAN_SETTING: Final = "unclean.leader.election.enable"

_NO_BROKERS: Final[frozenset[int]] = frozenset()


class PartitionElection(NamedTuple):
    """A partition as elections see it."""

    replicas: Brokers
    leader: int
    isr: Brokers
    """Of a slot every live replica is in sync, as its log is empty."""
    live: Collection[int]
    """Live brokers whose replica of the partition is online; those that are shutting down are not live."""
    deleting: Collection[int] = _NO_BROKERS
    """Brokers that may still delete their replica (reassignment, recipes 17): never elected, sent nothing."""

    @property
    def live_replicas(self) -> Brokers:
        """Replicas that may lead, in sync or not."""
        return tuple(each for each in self.replicas if each in self.live and each not in self.deleting)


def election_of(
    context: ControllerContext,
    pending_deletes: PendingDeletes,
    topic_partition: TopicPartition,
    leadership: LeaderIsrAndControllerEpoch,
) -> PartitionElection:
    """The election of a partition in this state. What is in a slot's ISR beside its live replicas stays."""
    replicas, isr = context.replicas(topic_partition), leadership.isr
    deleting = pending_deletes.of(context, topic_partition)
    if context.is_slots(topic_partition.topic):
        online = context.with_online_replica(topic_partition, context.live_or_shutting_down)
        isr = tuple(each for each in replicas if each in online and each not in deleting) or isr
    live = context.with_online_replica(topic_partition, context.live)
    return PartitionElection(replicas, leadership.leader, isr, live, deleting)


class Choice(NamedTuple):
    """A leader, the ISR to write with it, and the brokers that get LeaderAndIsr."""

    leader: int
    isr: Brokers
    recipients: Brokers
    """Brokers that get LeaderAndIsr, in the order of the replica list."""
    unclean: bool = False
    """The leader was not in sync: acknowledged records may be lost."""


class NoChoice(NamedTuple):
    """No broker can lead; final for this attempt."""

    reason: str


class NotNeeded(NamedTuple):
    """It is already so: nothing is written."""

    leader: int


def initialise(
    replicas: Brokers, live: Collection[int], deleting: Collection[int] = _NO_BROKERS
) -> Choice | NoChoice:
    """The first state, leader epoch 0: the first live replica leads, all live ones are in sync."""
    live_replicas = tuple(each for each in replicas if each in live and each not in deleting)
    if not live_replicas:
        return NoChoice(_none_lives(replicas))
    return Choice(live_replicas[0], live_replicas, live_replicas)


def offline(now: PartitionElection, *, unclean: bool = False) -> Choice | NoChoice:
    """For a partition without a living leader: replica order, in-sync ones first.

    An ISR that a controller of Kafka has emptied (emptied ISR, K39) names no broker that is surely in sync.
    With one replica in all there is no other who could know more, so it is elected; with several it takes an
    operator's unclean election (leading Kafka brokers, recipes 15).
    """
    live_replicas = now.live_replicas
    if in_sync := [each for each in live_replicas if each in now.isr]:
        return Choice(in_sync[0], tuple(each for each in now.isr if each in now.live), live_replicas)
    if not now.isr and len(now.replicas) == 1 and live_replicas:
        return Choice(live_replicas[0], live_replicas, live_replicas)
    if not live_replicas:
        return NoChoice(_none_lives(now.replicas))
    if unclean:
        return Choice(live_replicas[0], live_replicas[:1], live_replicas, unclean=True)
    if not now.isr:
        return NoChoice("the ISR is empty; only an unclean election can choose among several replicas")
    return NoChoice(f"no in-sync replica of {_list(now.isr)} is live, and unclean election is off")


def started_again(now: PartitionElection) -> Choice | NoChoice:
    """For a leader that has restarted since it was elected: it leads in a new leader epoch if it can, else
    others.

    It may have lost the end of its log. In the same leader epoch it could give these offsets to other
    records, which followers that still have the lost ones would not see (replica-host.md rule 1, KIP-101).
    """
    if now.leader in now.live and now.leader in now.isr and now.leader not in now.deleting:
        return Choice(now.leader, now.isr, now.live_replicas)
    return offline(now)


def reassigned(
    target: Brokers, isr: Brokers, live: Collection[int], deleting: Collection[int] = _NO_BROKERS
) -> Choice | NoChoice:
    """At the end of a move: the first of the target that is live and in sync; the ISR stays as it is."""
    for each in target:
        if each in live and each in isr and each not in deleting:
            return Choice(each, isr, _recipients(target, deleting))
    return NoChoice(f"no replica of the target {_list(target)} is live and in sync")


def preferred(now: PartitionElection) -> Choice | NoChoice | NotNeeded:
    """The first replica, if it is live and in sync; the ISR stays as it is, no data is copied."""
    if not now.replicas:
        return NoChoice("the replica list is empty")
    first = now.replicas[0]
    if now.leader == first:
        return NotNeeded(first)
    if first not in now.live or first in now.deleting:
        return NoChoice(f"the preferred replica {first} is not live")
    if first not in now.isr:
        return NoChoice(f"the preferred replica {first} is not in sync; in sync are {_list(now.isr)}")
    return Choice(first, now.isr, _recipients(now.replicas, now.deleting))


def controlled_shutdown(now: PartitionElection, shutting_down: Collection[int]) -> Choice | NoChoice:
    """Before brokers stop: the first other in-sync replica, in replica order as from 1.1 on.

    The brokers that stop get it too, as in 0.8.2.2 and from 2.1 on (KAFKA-7482).
    """
    for each in now.live_replicas:
        if each in now.isr and each not in shutting_down:
            remaining = tuple(member for member in now.isr if member not in shutting_down)
            told = tuple(one for one in now.replicas if one in now.live or one in shutting_down)
            return Choice(each, remaining, _recipients(told, now.deleting))
    return NoChoice(f"no in-sync replica of {_list(now.isr)} stays")


def without_replica(
    leadership: LeaderIsrAndControllerEpoch, replica: int, replicas: Brokers
) -> tuple[int, Brokers] | None:
    """Leader and ISR once a replica has gone offline, or None where nothing needs to be written (3.4).

    The last member of the replica list stays in the ISR, alone: of those who may lead, only it is known to
    have everything. A leader that has not received a shorter list adds others. A leader that is not on the
    list, because a tool has written an old list over it while no controller was active, leads no more then.
    """
    if replica not in leadership.isr and leadership.leader != replica:
        return None
    leader = NO_LEADER if leadership.leader == replica else leadership.leader
    isr = tuple(each for each in leadership.isr if each != replica)
    if not any(each in replicas for each in isr):
        if replica in leadership.isr and replica in replicas:
            leader, isr = NO_LEADER, (replica,)
        else:
            isr = leadership.isr
    return None if (leader, isr) == (leadership.leader, leadership.isr) else (leader, isr)


def unclean_allowed(overrides: Mapping[str, str], broker_setting: bool) -> bool:
    """Returns whether a topic may elect a leader that is not in sync: its own word, else the setting.

    Kafka refuses words other than true and false when they are set; one that got there all the same counts as
    false, the answer that loses nothing.
    """
    word = overrides.get(UNCLEAN_SETTING)
    return broker_setting if word is None else word.strip().lower() == "true"


def _recipients(replicas: Brokers, deleting: Collection[int]) -> Brokers:
    return tuple(each for each in replicas if each not in deleting)


def _none_lives(replicas: Brokers) -> str:
    return f"no replica of {_list(replicas)} is live" if replicas else "it has no replicas"


def _list(brokers: Brokers) -> str:
    return ", ".join(map(str, brokers)) or "none"
