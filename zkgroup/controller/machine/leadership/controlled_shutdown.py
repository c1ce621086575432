"""Brokers that are to stop hand over what they lead. Source: controller.md 5.9.

(kafka/controller/KafkaController.scala, ControlledShutdown, @0.8.2.2; in batches as from 1.1 on, recipients
as from 2.1 on, KAFKA-7482.) The answer does not wait for the brokers that are told: it says what is written.
"""

from __future__ import annotations

from collections.abc import Collection

from zkgroup.controller.machine.active import ActiveController
from zkgroup.controller.machine.context import LeaderIsrAndControllerEpoch
from zkgroup.controller.machine.leadership import selectors
from zkgroup.controller.machine.leadership.leader_election import elect, remove_from_isr
from zkgroup.controller.machine.leadership.selectors import Choice, NoChoice, NotNeeded
from zkgroup.controller.machine.leadership.shutdown_requests import ShutdownRequest
from zkgroup.controller.machine.state_machines import Replica, ReplicaPhase
from zkgroup.model import TopicPartition
from zkgroup.runtime.procedures import Procedure
from zkgroup.wire.messages import ErrorCode


def on_shutdown_requests(active: ActiveController, subject: str = "") -> Procedure[None]:
    """Relieves all brokers that have asked, together, and answers them.

    Who asked stays in `ActiveController.shutdowns` until it is answered, so nobody is forgotten where an
    answer of ZooKeeper is missing.
    """
    asked = list(active.shutdowns)
    known = {each.broker for each in asked if _is_there(active, each)}
    if known:
        yield from _hand_over(active, known)
    for each in asked:
        if each.broker in known and _is_there(active, each):
            remaining = tuple(sorted(_led(active, each.broker)))
            active.core.note("shutdown.answered", broker=each.broker, remaining=len(remaining))
            active.shutdowns.answer(each, ErrorCode.NONE, remaining)
        else:
            active.shutdowns.answer(each, ErrorCode.BROKER_NOT_AVAILABLE)


def _is_there(active: ActiveController, asked: ShutdownRequest) -> bool:
    """Whether it is still the start that has asked. Another one does not stop, and must not be spared."""
    found = active.context.brokers.get(asked.broker)
    if found is None or asked.broker not in active.context.reachable:
        return False
    return asked.incarnation == found.epoch


def _hand_over(active: ActiveController, brokers: Collection[int]) -> Procedure[None]:
    """Others lead what the brokers led; what they followed they stop, and leave its ISR."""
    context = active.context
    context.shutting_down.update(brokers)
    led = [each for broker in sorted(brokers) for each in _led(active, broker)]
    followed = [
        Replica(each, broker)
        for broker in sorted(brokers)
        for each in context.on_broker(broker)
        if _moves(active, each) and (standing := context.standing(each)) and standing.leader != broker
    ]

    def select(
        topic_partition: TopicPartition, standing: LeaderIsrAndControllerEpoch
    ) -> Choice | NoChoice | NotNeeded:
        if standing.leader not in context.shutting_down:
            return NotNeeded(standing.leader)
        return selectors.controlled_shutdown(
            context.replicas(topic_partition),
            standing.isr,
            context.candidates(topic_partition, context.reachable),
            context.shutting_down,
            active.pending_deletes.of(context, topic_partition),
        )

    batch = active.requests.batch()
    yield from elect(active, led, select, batch)
    yield from remove_from_isr(active, followed, batch)
    stopped = active.context.replica_phases.move(followed, ReplicaPhase.OFFLINE).done
    for (topic_partition, broker), before in stopped.items():
        if before is not ReplicaPhase.OFFLINE:
            batch.stop_replica([broker], topic_partition, delete=False)
    active.requests.send(batch)


def _led(active: ActiveController, broker: int) -> list[TopicPartition]:
    """What it leads and another one could lead."""
    return [each for each in active.context.led_by(broker) if _moves(active, each)]


def _moves(active: ActiveController, topic_partition: TopicPartition) -> bool:
    """Partitions with one replica are left alone, and so are topics that are being deleted."""
    context = active.context
    return len(context.replicas(topic_partition)) > 1 and not context.is_going(topic_partition)
