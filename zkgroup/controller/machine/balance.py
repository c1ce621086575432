"""Which preferred replicas shall lead again. Source: controller.md 5.8.

(kafka/controller/KafkaController.scala, checkAndTriggerPartitionRebalance, @0.8.2.2; batches as KAFKA-7299.)
"""

from __future__ import annotations

from typing import Final

from zkgroup.controller.machine.holding import Holding
from zkgroup.controller.machine.picture import Picture
from zkgroup.model import TopicPartition

PERCENTAGE: Final = 10
"""Kafka's `leader.imbalance.per.broker.percentage`."""


def preferred_elections_due(
    picture: Picture, holding: Holding, percentage: int = PERCENTAGE
) -> tuple[TopicPartition, ...]:
    """Partitions to be led by their first replica, as one batch by topic and number; often none.

    A broker counts as out of balance when more than `percentage` of the partitions that prefer it are led by
    others. None while any reassignment is open. Left out is what an election would refuse: a preferred
    replica that is not live or not in sync, and topics that are being deleted.
    """
    if picture.moves:
        return ()
    preferring: dict[int, int] = {}
    elsewhere: dict[int, list[TopicPartition]] = {}
    for topic_partition in picture.partitions():
        replicas = picture.replicas(topic_partition)
        if not replicas or picture.is_going(topic_partition) or picture.is_unhosted(topic_partition):
            continue
        preferring[replicas[0]] = preferring.get(replicas[0], 0) + 1
        standing = picture.standing(topic_partition)
        if standing and standing.leader != replicas[0]:
            elsewhere.setdefault(replicas[0], []).append(topic_partition)
    live = picture.live
    return tuple(
        sorted(
            topic_partition
            for broker, led_by_others in elsewhere.items()
            if broker in live and len(led_by_others) * 100 > percentage * preferring[broker]
            for topic_partition in led_by_others
            if _can_lead(picture, holding, topic_partition, broker)
        )
    )


def _can_lead(picture: Picture, holding: Holding, topic_partition: TopicPartition, broker: int) -> bool:
    standing = picture.standing(topic_partition)
    return (
        standing is not None
        and broker in standing.isr
        and broker not in picture.unfit.get(topic_partition, ())
        and broker not in holding.of(picture, topic_partition)
    )
