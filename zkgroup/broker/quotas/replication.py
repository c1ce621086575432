"""The replication throttle of reassignments. Pure.

Source: throttled reassignments (controller.md 4.6; KIP-73), kafka/server/ReplicationQuotaManager.scala@2.8.2.
A broker has one throttle for bytes that it fetches as a follower, one for those it sends to slow followers.
"""

from __future__ import annotations

from collections.abc import Mapping

from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition
from zkgroup.znodes.config import ConfigEntity
from zkgroup.znodes.config_settings import FOLLOWER_RATE, FOLLOWER_REPLICAS, parse_throttled_replicas


class ReplicationQuota:
    """The throttled partitions of one broker, and the bytes a second that they may use together."""

    def __init__(
        self, broker: int, rate_name: str = FOLLOWER_RATE, replicas_name: str = FOLLOWER_REPLICAS
    ) -> None:
        """`rate_name` and `replicas_name` are the settings of a broker and of a topic."""
        self._broker = broker
        self._rate_name, self._replicas_name = rate_name, replicas_name
        self._rates: dict[ConfigEntity, int] = {}
        self._replicas: dict[str, frozenset[tuple[int, int]] | None] = {}
        self._free_at = 0.0
        self._level: set[TopicPartition] = set()

    def configured(self, entity: ConfigEntity, overrides: Mapping[str, str]) -> None:
        """Sets the present settings of a topic or broker. Raises ConfigError for an invalid value."""
        self._free_at = 0.0
        if entity.kind == "brokers":
            self._rates.pop(entity, None)
            if (text := overrides.get(self._rate_name)) is not None:
                self._rates[entity] = _rate(entity, self._rate_name, text)
        elif entity.kind == "topics":
            self._replicas.pop(entity.name, None)
            if (text := overrides.get(self._replicas_name)) is not None:
                self._replicas[entity.name] = parse_throttled_replicas(text)

    @property
    def rate(self) -> int | None:
        """Bytes a second; None without a throttle. This broker's setting precedes that of all brokers."""
        return self._rates.get(ConfigEntity.broker(self._broker), self._rates.get(ConfigEntity.broker(None)))

    def holds(self, tp: TopicPartition) -> bool:
        """Returns whether the partition is throttled now."""
        if self.rate is None or tp.topic not in self._replicas or tp in self._level:
            return False
        replicas = self._replicas[tp.topic]
        return replicas is None or (tp.partition, self._broker) in replicas

    def free_at(self, tp: TopicPartition) -> float:
        """The earliest time of the next fetch of this partition, in seconds of the clock of `took`."""
        return self._free_at if self.holds(tp) else 0.0

    def catches_up(self, tp: TopicPartition, is_level: bool) -> None:
        """Sets whether the last fetch reached the leader's log end: as in Kafka, such a replica is exempt."""
        (self._level.add if is_level else self._level.discard)(tp)

    def begins(self, tp: TopicPartition, size: int, now: float) -> float:
        """Reserves the time that a fetch of at most `size` bytes takes; other fetches wait for its end.

        Without it each connection would fetch a whole response at the same time, above the rate. Returns the
        reserved time in seconds, for `ended`.
        """
        if not self.holds(tp) or not (rate := self.rate):
            return 0.0
        before, self._free_at = self._free_at, max(self._free_at, now) + size / rate
        return self._free_at - max(before, now)

    def ended(self, kept_free: float) -> None:
        """Frees the time that `begins` reserved; `took` has counted the bytes that were received."""
        self._free_at -= kept_free

    def took(self, tp: TopicPartition, size: int, now: float) -> None:
        """Counts `size` received bytes of a partition."""
        if self.holds(tp) and (rate := self.rate):
            self._free_at = max(self._free_at, now) + size / rate


def _rate(entity: ConfigEntity, name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"{entity}: {name}: expected bytes a second, found {text!r}")
    return int(text)
