"""Selects the leader of a partition, and its ISR. Source: state machines (controller.md 3.1, 3.3, 3.4).

(kafka/controller/PartitionLeaderSelector.scala@0.8.2.2, kafka/controller/Election.scala@2.8.2.)

Held replicas, those that a late StopReplica may still delete (reassignment, recipes 17), are never elected
and sent nothing. `live` are brokers that may be elected; brokers that are shutting down are not among them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from zkgroup.controller.machine.context import Brokers, LeaderIsrAndControllerEpoch
from zkgroup.znodes.brokers import NO_LEADER

UNCLEAN_SETTING: Final = "unclean.leader.election.enable"

_NO_BROKERS: Final[frozenset[int]] = frozenset()


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
    able = tuple(each for each in replicas if each in live and each not in deleting)
    if not able:
        return NoChoice(_none_lives(replicas))
    return Choice(able[0], able, able)


def offline(
    replicas: Brokers,
    isr: Brokers,
    live: Collection[int],
    *,
    unclean: bool = False,
    deleting: Collection[int] = _NO_BROKERS,
) -> Choice | NoChoice:
    """For a partition without a living leader: replica order, in-sync ones first.

    An ISR that a controller of Kafka has emptied (emptied ISR, K39) names no broker that is surely in sync.
    With one replica in all there is no other who could know more, so it is elected; with several it takes an
    operator's unclean election (leading Kafka brokers, recipes 15).
    """
    able = tuple(each for each in replicas if each in live and each not in deleting)
    recipients = _recipients(replicas, live, deleting)
    if in_sync := [each for each in able if each in isr]:
        return Choice(in_sync[0], tuple(each for each in isr if each in live), recipients)
    if not isr and len(replicas) == 1 and able:
        return Choice(able[0], able, recipients)
    if not able:
        return NoChoice(_none_lives(replicas))
    if unclean:
        return Choice(able[0], able[:1], recipients, unclean=True)
    if not isr:
        return NoChoice("the ISR is empty; only an unclean election can choose among several replicas")
    return NoChoice(f"no in-sync replica of {_list(isr)} is live, and unclean election is off")


def started_again(
    replicas: Brokers,
    leadership: LeaderIsrAndControllerEpoch,
    live: Collection[int],
    deleting: Collection[int] = _NO_BROKERS,
) -> Choice | NoChoice:
    """For a leader that has restarted since it was elected: it leads in a new leader epoch if it can, else
    others.

    It may have lost the end of its log. In the same leader epoch it could give these offsets to other
    records, which followers that still have the lost ones would not see (replica-host.md rule 1, KIP-101).
    """
    if (
        leadership.leader in live
        and leadership.leader in leadership.isr
        and leadership.leader not in deleting
    ):
        return Choice(leadership.leader, leadership.isr, _recipients(replicas, live, deleting))
    return offline(replicas, leadership.isr, live, deleting=deleting)


def reassigned(
    target: Brokers, isr: Brokers, live: Collection[int], deleting: Collection[int] = _NO_BROKERS
) -> Choice | NoChoice:
    """At the end of a move: the first of the target that is live and in sync; the ISR stays as it is."""
    for each in target:
        if each in live and each in isr and each not in deleting:
            return Choice(each, isr, _recipients(target, target, deleting))
    return NoChoice(f"no replica of the target {_list(target)} is live and in sync")


def preferred(
    replicas: Brokers,
    leadership: LeaderIsrAndControllerEpoch,
    live: Collection[int],
    deleting: Collection[int] = _NO_BROKERS,
) -> Choice | NoChoice | NotNeeded:
    """The first replica, if it is live and in sync; the ISR stays as it is, no data is copied."""
    if not replicas:
        return NoChoice("the replica list is empty")
    first = replicas[0]
    if leadership.leader == first:
        return NotNeeded(first)
    if first not in live or first in deleting:
        return NoChoice(f"the preferred replica {first} is not live")
    if first not in leadership.isr:
        return NoChoice(f"the preferred replica {first} is not in sync; in sync are {_list(leadership.isr)}")
    return Choice(first, leadership.isr, _recipients(replicas, replicas, deleting))


def controlled_shutdown(
    replicas: Brokers,
    isr: Brokers,
    live: Collection[int],
    shutting_down: Collection[int],
    deleting: Collection[int] = _NO_BROKERS,
) -> Choice | NoChoice:
    """Before brokers stop: the first other in-sync replica, in replica order as from 1.1 on.

    The brokers that stop get it too, as in 0.8.2.2 and from 2.1 on (KAFKA-7482).
    """
    staying = {each for each in live if each not in shutting_down}
    for each in replicas:
        if each in staying and each in isr and each not in deleting:
            remaining = tuple(member for member in isr if member not in shutting_down)
            return Choice(each, remaining, _recipients(replicas, {*live, *shutting_down}, deleting))
    return NoChoice(f"no in-sync replica of {_list(isr)} stays")


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
    """Says whether a topic may elect a leader that is not in sync: its own word, else the broker's setting.

    Kafka refuses words other than true and false when they are set; one that got there all the same counts as
    false, the answer that loses nothing.
    """
    word = overrides.get(UNCLEAN_SETTING)
    return broker_setting if word is None else word.strip().lower() == "true"


def _recipients(replicas: Brokers, listening: Collection[int], deleting: Collection[int]) -> Brokers:
    return tuple(each for each in replicas if each in listening and each not in deleting)


def _none_lives(replicas: Brokers) -> str:
    return f"no replica of {_list(replicas)} is live" if replicas else "it has no replicas"


def _list(brokers: Brokers) -> str:
    return ", ".join(map(str, brokers)) or "none"
