"""Brokers that are to stop hand over what they lead. Source: controller.md 5.9.

(kafka/controller/KafkaController.scala, ControlledShutdown, @0.8.2.2; in batches as from 1.1 on, recipients
as from 2.1 on, KAFKA-7482.) The answer does not wait for the brokers that are told: it says what is written.
"""

from __future__ import annotations

from collections.abc import Collection

from zkgroup.controller.machine import selectors
from zkgroup.controller.machine.effects import ShutdownAnswered
from zkgroup.controller.machine.leading import elect, remove_from_isr
from zkgroup.controller.machine.picture import Standing
from zkgroup.controller.machine.reign import Reign
from zkgroup.controller.machine.rule_books import Stopping
from zkgroup.controller.machine.selectors import Choice, NoChoice, NotNeeded
from zkgroup.controller.machine.transitions import Replica, ReplicaPhase
from zkgroup.machinery.procedures import Procedure
from zkgroup.model import TopicPartition
from zkgroup.wire.error_codes import ErrorCode


def look(reign: Reign, subject: str = "") -> Procedure[None]:
    """Relieves all brokers that have asked, together, and answers them.

    Who asked stays in `Reign.shutdowns` until it is answered, so nobody is forgotten where an answer of
    ZooKeeper is missing.
    """
    asked = list(reign.shutdowns)
    known = {each.broker for each in asked if _is_there(reign, each)}
    if known:
        yield from _relieve(reign, known)
    for each in asked:
        reign.shutdowns.remove(each)
        if each.broker in known and _is_there(reign, each):
            remaining = tuple(sorted(_led(reign, each.broker)))
            reign.core.note("shutdown.answered", broker=each.broker, remaining=len(remaining))
            reign.core.emit(ShutdownAnswered(each.request_id, ErrorCode.NONE, remaining))
        else:
            reign.core.emit(ShutdownAnswered(each.request_id, ErrorCode.BROKER_NOT_AVAILABLE))


def _is_there(reign: Reign, asked: Stopping) -> bool:
    """Whether it is still the start that has asked. Another one does not stop, and must not be spared."""
    found = reign.picture.brokers.get(asked.broker)
    if found is None or asked.broker not in reign.picture.reachable:
        return False
    return asked.incarnation == found.epoch


def _relieve(reign: Reign, brokers: Collection[int]) -> Procedure[None]:
    """Others lead what the brokers led; what they followed they stop, and leave its ISR."""
    picture = reign.picture
    picture.shutting_down.update(brokers)
    led = [each for broker in sorted(brokers) for each in _led(reign, broker)]
    followed = [
        Replica(each, broker)
        for broker in sorted(brokers)
        for each in picture.on_broker(broker)
        if _moves(reign, each) and (standing := picture.standing(each)) and standing.leader != broker
    ]

    def select(topic_partition: TopicPartition, standing: Standing) -> Choice | NoChoice | NotNeeded:
        if standing.leader not in picture.shutting_down:
            return NotNeeded(standing.leader)
        return selectors.controlled_shutdown(
            picture.replicas(topic_partition),
            standing.isr,
            picture.candidates(topic_partition, picture.reachable),
            picture.shutting_down,
            reign.holding.of(picture, topic_partition),
        )

    batch = reign.batch()
    yield from elect(reign, led, select, batch)
    yield from remove_from_isr(reign, followed, batch)
    stopped = reign.replicas.move(followed, ReplicaPhase.OFFLINE).done
    for (topic_partition, broker), before in stopped.items():
        if before is not ReplicaPhase.OFFLINE:
            batch.stop_replica([broker], topic_partition, delete=False)
    reign.tell(batch)


def _led(reign: Reign, broker: int) -> list[TopicPartition]:
    """What it leads and another one could lead."""
    return [each for each in reign.picture.led_by(broker) if _moves(reign, each)]


def _moves(reign: Reign, topic_partition: TopicPartition) -> bool:
    """Partitions with one replica are left alone, and so are topics that are being deleted."""
    picture = reign.picture
    return len(picture.replicas(topic_partition)) > 1 and not picture.is_going(topic_partition)
