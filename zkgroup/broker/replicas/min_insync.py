"""How many replicas have to be in sync before lines with acks=all are taken: `min.insync.replicas`. Pure.

As in Kafka, with too few before the lines are appended it is error 19, and nothing is appended; with fewer by
the time that all in sync have them it is error 20: the lines are there, and may be lost with their leader
(kafka/cluster/Partition.scala@0.8.2.2, `appendMessagesToLeader` and `checkEnoughReplicasReachOffset`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition
from zkgroup.znodes.config import ConfigEntity
from zkgroup.znodes.config_settings import MIN_INSYNC_REPLICAS


class MinInsync:
    """What is asked for, topic by topic, and how many are in sync, partition by partition that is led.

    Read on the thread of the replicas, changed on the loop: each read and each change is of one entry.
    """

    def __init__(self, broker: int, default: int) -> None:
        """default: of topics without a setting of their own; the broker's dynamic settings come before it."""
        self._default = default
        self._dynamic = ConfigEntity.broker(broker), ConfigEntity.broker(None)
        self._topics: dict[str, int] = {}
        self._brokers: dict[ConfigEntity, int] = {}
        self._stored: dict[TopicPartition, tuple[int, int]] = {}
        """Partition to the leader epoch, and to the size of the ISR that stands in ZooKeeper."""

    def configured(self, entity: ConfigEntity, overrides: Mapping[str, str]) -> None:
        """Takes in the settings of a topic or broker as they are now. Raises ConfigError for what is none."""
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
        """By the topic's setting, the broker's own, that of all brokers, or the default."""
        dynamic = (self._brokers.get(each) for each in self._dynamic)
        found = (self._topics.get(topic), *dynamic, self._default)
        return next(number for number in found if number is not None)

    def led(self, tp: TopicPartition, leader_epoch: int, isr: Collection[int]) -> None:
        """A term begins with this ISR."""
        self._stored[tp] = leader_epoch, len(isr)

    def isr_changed(self, tp: TopicPartition, leader_epoch: int, isr: Collection[int]) -> None:
        """The ISR as it stands now; of another term it is no news."""
        known = self._stored.get(tp)
        if known is not None and known[0] == leader_epoch:
            self._stored[tp] = leader_epoch, len(isr)

    def stored(self, tp: TopicPartition) -> int | None:
        """The size of the ISR that stands in ZooKeeper; None where this broker does not lead."""
        stored = self._stored.get(tp)
        return None if stored is None else stored[1]

    def left(self, tp: TopicPartition) -> None:
        """It is led here no more."""
        self._stored.pop(tp, None)

    def lacks(self, tp: TopicPartition, counted: int) -> bool:
        """Whether too few are in sync.

        `counted` are those that the high watermark waits for: as soon as one fewer, while the news of it is
        still on its way here. A member that is only proposed counts for the high watermark and not for this.
        """
        stored = self.stored(tp)
        return stored is not None and min(stored, counted) < self.wanted(tp.topic)


def _set(numbers: dict[Any, int], key: object, number: int | None) -> None:
    if number is None:
        numbers.pop(key, None)
    else:
        numbers[key] = number
