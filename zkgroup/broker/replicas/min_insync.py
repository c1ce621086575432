"""`min.insync.replicas`: the number of replicas that must be in sync for an append with acks=all. Pure.

As in Kafka, the error is 19 if too few replicas are in sync before the append, and nothing is appended. It is
20 if too few are in sync when the high watermark has passed the records: they are in the log, and may be lost
with their leader (kafka/cluster/Partition.scala@0.8.2.2, `appendMessagesToLeader` and
`checkEnoughReplicasReachOffset`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition
from zkgroup.znodes.config import ConfigEntity
from zkgroup.znodes.config_settings import MIN_INSYNC_REPLICAS


class MinInsync:
    """The setting by topic and broker, and the ISR size of each partition that this broker leads.

    It is read on the thread of the replicas and changed on the event loop; each access is to one entry.
    """

    def __init__(self, broker: int, default: int) -> None:
        """`default` applies without a setting of the topic, this broker or all brokers."""
        self._default = default
        self._dynamic = ConfigEntity.broker(broker), ConfigEntity.broker(None)
        self._topics: dict[str, int] = {}
        self._brokers: dict[ConfigEntity, int] = {}
        self._stored: dict[TopicPartition, tuple[int, int]] = {}
        """Partition to leader epoch and size of the ISR in ZooKeeper."""

    def configured(self, entity: ConfigEntity, overrides: Mapping[str, str]) -> None:
        """Sets the present settings of a topic or broker. Raises ConfigError for an invalid value."""
        text = overrides.get(MIN_INSYNC_REPLICAS)
        is_number = text is not None and text.isascii() and text.isdigit() and int(text) > 0
        number = int(text) if text is not None and is_number else None
        if entity.kind == "topics":
            _set(self._topics, entity.name, number)
        elif entity.kind == "brokers":
            _set(self._brokers, entity, number)
        if text is not None and not is_number:
            where = f"{entity.config_path}: {MIN_INSYNC_REPLICAS}"
            raise ConfigError(f"{where}: expected a number from 1 on, found {text!r}")

    def wanted(self, topic: str) -> int:
        """The setting of the topic, else of this broker, else of all brokers, else the default."""
        dynamic = (self._brokers.get(each) for each in self._dynamic)
        found = (self._topics.get(topic), *dynamic, self._default)
        return next(number for number in found if number is not None)

    def led(self, tp: TopicPartition, leader_epoch: int, isr: Collection[int]) -> None:
        """Sets the ISR at the start of a leader epoch."""
        self._stored[tp] = leader_epoch, len(isr)

    def isr_changed(self, tp: TopicPartition, leader_epoch: int, isr: Collection[int]) -> None:
        """Sets the present ISR; ignored for another leader epoch."""
        known = self._stored.get(tp)
        if known is not None and known[0] == leader_epoch:
            self._stored[tp] = leader_epoch, len(isr)

    def stored(self, tp: TopicPartition) -> int | None:
        """The size of the ISR in ZooKeeper; None if this broker does not lead."""
        stored = self._stored.get(tp)
        return None if stored is None else stored[1]

    def left(self, tp: TopicPartition) -> None:
        """Removes a partition that this broker does not lead any more."""
        self._stored.pop(tp, None)

    def lacks(self, tp: TopicPartition, counted: int) -> bool:
        """Returns whether too few replicas are in sync.

        `counted` is the size of the maximal ISR, which can already be lower than the ISR known here. A
        replica that is only proposed is in the maximal ISR, but does not count here.
        """
        stored = self.stored(tp)
        return stored is not None and min(stored, counted) < self.wanted(tp.topic)


def _set(numbers: dict[Any, int], key: object, number: int | None) -> None:
    if number is None:
        numbers.pop(key, None)
    else:
        numbers[key] = number
