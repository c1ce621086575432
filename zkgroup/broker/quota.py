"""How fast the replicas of a reassignment may be fetched and given. Pure.

Source: controller.md 4.6; KIP-73, kafka/server/ReplicationQuotaManager.scala@2.8.2. A broker has one throttle
for what it takes as a follower, and one for what it gives as a leader to followers that lag.
"""

from __future__ import annotations

from collections.abc import Mapping

from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition
from zkgroup.znodes.config import ConfigEntity
from zkgroup.znodes.config_settings import FOLLOWER_RATE, FOLLOWER_REPLICAS, parse_throttled_replicas


class ReplicationQuota:
    """Which fetches of one broker are slowed down, and how much."""

    def __init__(
        self, broker: int, rate_name: str = FOLLOWER_RATE, replicas_name: str = FOLLOWER_REPLICAS
    ) -> None:
        """The names of its settings: of brokers, and of topics."""
        self._broker = broker
        self._rate_name, self._replicas_name = rate_name, replicas_name
        self._rates: dict[ConfigEntity, int] = {}
        self._replicas: dict[str, frozenset[tuple[int, int]] | None] = {}
        self._free_at = 0.0
        self._level: set[TopicPartition] = set()

    def configured(self, entity: ConfigEntity, overrides: Mapping[str, str]) -> None:
        """Takes in the settings of a topic or broker as they are now. Raises ConfigError for what is none."""
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
        """Bytes a second; None without a bound. The broker's own setting wins over that of all brokers."""
        return self._rates.get(ConfigEntity.broker(self._broker), self._rates.get(ConfigEntity.broker(None)))

    def holds(self, tp: TopicPartition) -> bool:
        """Whether the bound is for this partition now."""
        if self.rate is None or tp.topic not in self._replicas or tp in self._level:
            return False
        replicas = self._replicas[tp.topic]
        return replicas is None or (tp.partition, self._broker) in replicas

    def free_at(self, tp: TopicPartition) -> float:
        """When this partition may be fetched next, in seconds of the clock of `took`."""
        return self._free_at if self.holds(tp) else 0.0

    def catches_up(self, tp: TopicPartition, is_level: bool) -> None:
        """Whether the last fetch was level with the leader: what keeps up is not slowed down, as in Kafka."""
        (self._level.add if is_level else self._level.discard)(tp)

    def begins(self, tp: TopicPartition, size: int, now: float) -> float:
        """A fetch of so many bytes at most is under way: others wait for as long as these would take.

        So connections take turns; each would take a whole answer at once, beyond any bound. The result is
        for `ended`, in seconds.
        """
        if not self.holds(tp) or not (rate := self.rate):
            return 0.0
        before, self._free_at = self._free_at, max(self._free_at, now) + size / rate
        return self._free_at - max(before, now)

    def ended(self, kept_free: float) -> None:
        """That fetch is over, however it ended; `took` says what it took."""
        self._free_at -= kept_free

    def took(self, tp: TopicPartition, size: int, now: float) -> None:
        """So many bytes of it have come."""
        if self.holds(tp) and (rate := self.rate):
            self._free_at = max(self._free_at, now) + size / rate


def _rate(entity: ConfigEntity, name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"{entity}: {name}: expected bytes a second, found {text!r}")
    return int(text)
