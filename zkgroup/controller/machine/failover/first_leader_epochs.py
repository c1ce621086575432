"""The first term of a partition, told to those that may never have heard of it. Source: ADR 0018.

A controller that dies between the first state and the first LeaderAndIsr, and takes the leader with it,
leaves replicas that know nothing of the partition. Elected, they could not be told from emptied ones, and
would refuse to lead for good (storage error 56). So they hear of the first term before another is decided.

A broker is told so only where it cannot have been emptied: it is in the ISR of a state that nobody has
written since it was made, and its registration is older than that, so its process has not been restarted.
Then the high watermark has waited for it all the time: what it has not got was never acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping

from zkgroup.controller.machine.active import ActiveController
from zkgroup.controller.machine.context import Brokers, ControllerContext, LeaderIsrAndControllerEpoch
from zkgroup.model import TopicPartition


def unannounced(active: ActiveController) -> dict[TopicPartition, Brokers]:
    """Partitions to be elected only when these brokers of theirs were told of the first term.

    To be called once, when everything is loaded and nothing is told or decided yet.
    """
    context, reachable = active.context, active.context.reachable
    told: dict[TopicPartition, Brokers] = {}
    others: dict[TopicPartition, frozenset[int]] = {}
    for each, zxid in context.first_states.items():
        standing = context.standing(each)
        if standing is None or not _may_be_unannounced(active, each, standing):
            continue
        live = reachable.intersection(context.replicas(each))
        never_away = {one for one in live if one in standing.isr and _is_older(context, one, zxid)}
        if never_away:
            told[each], others[each] = tuple(sorted(never_away)), live - never_away
    context.first_states.clear()
    # The first LeaderAndIsr names all that a broker has: it must not say the first term to the others.
    while True:
        brokers = frozenset(one for each in told.values() for one in each)
        wrong = [each for each in told if others[each] & brokers]
        if not wrong:
            return told
        for each in wrong:
            del told[each]


def announce(active: ActiveController, partitions: Mapping[TopicPartition, Brokers]) -> None:
    """The states as they are, to these brokers: what is decided next reaches them after it."""
    batch = active.requests.batch()
    for each, brokers in partitions.items():
        batch.leader_and_isr(brokers, each)
    active.requests.send(batch)
    active.core.note("first_terms.told", partitions=len(partitions))


def _may_be_unannounced(
    active: ActiveController, each: TopicPartition, standing: LeaderIsrAndControllerEpoch
) -> bool:
    """Its state is still the first one, of a controller of ours, and nothing else is under way with it."""
    return (
        (standing.leader_epoch, standing.version) == (0, 0)
        and standing.controller_epoch > active.foreign_epoch
        and not active.context.is_going(each)
    )


def _is_older(context: ControllerContext, broker: int, zxid: int) -> bool:
    """Whether this broker of ours was registered before that, and is still."""
    found = context.brokers[broker]
    return found.epoch < zxid and found.registration.is_zkgroup
