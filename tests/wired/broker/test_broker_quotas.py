"""The throttles of a broker: lagging replicas are fetched, and served, at a limited rate."""

from __future__ import annotations

from tests.worlds.running_brokers import QUICK, T0, MemoryBrokers
from zkgroup.model.requests import Create
from zkgroup.znodes.config import BrokerConfig, ConfigEntity
from zkgroup.znodes.config_settings import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from zkgroup.znodes.notifications import ConfigChange


def _configured(world: MemoryBrokers, entity: ConfigEntity, **overrides: str) -> None:
    """Writes a configuration and its notification."""
    names = {
        "rate": FOLLOWER_RATE,
        "replicas": FOLLOWER_REPLICAS,
        "giving": LEADER_RATE,
        "given": LEADER_REPLICAS,
    }
    told = {names[name]: value for name, value in overrides.items()}
    world.server.put(entity.config_path, BrokerConfig(told).encode())
    data = ConfigChange(entity, "v2").encode()
    world.server.write(Create(ConfigChange.prefix(), data, sequential=True))


def test_a_throttled_replica_is_fetched_at_its_rate_until_it_is_level(world: MemoryBrokers) -> None:
    """Kafka's names in `/config`, applied by notification, and taken off by another."""
    world.add(1, 2)
    world.running.lead(world.zk, T0, 1, (1, 2), isr=(1,))
    world.becomes(lambda: world.isr(), (1, 2))
    _configured(world, ConfigEntity.topic("t"), replicas="0:2")
    _configured(world, ConfigEntity.broker(2), rate="1")
    world.becomes(lambda: len(world.running.told[2].of("config")), 2)
    for _ in range(3):
        assert world.running.append(1, T0, b"x" * 1000).error == 0  # it keeps up: no throttle
    world.running.brokers[2].close()
    world.becomes(lambda: world.isr(), (1,))
    for _ in range(3):
        assert world.running.append(1, T0, b"x" * 1000).error == 0

    world.running.add(world.server.client("again"), 2, settings=QUICK)
    world.running.lead(world.zk, T0, 1, (1, 2), isr=(1,), leader_epoch=1)
    world.becomes(lambda: world.running.view(2, T0).log_end_offset, 1)  # the next one is due in 1000 s
    _configured(world, ConfigEntity.broker(2))
    world.becomes(lambda: world.isr(), (1, 2))
    assert world.running.view(2, T0).log_end_offset == 6


def test_a_throttled_leader_gives_at_its_rate_to_who_lags(world: MemoryBrokers) -> None:
    """KIP-73: the newcomer waits for the leader's bound; who is in sync gets every record at once."""
    world.add(1, 2, 3)
    world.running.lead(world.zk, T0, 1, (1, 2), isr=(1, 2))
    _configured(world, ConfigEntity.topic("t"), given="0:1,0:2")
    _configured(world, ConfigEntity.broker(1), giving="1")
    world.becomes(lambda: len(world.running.told[1].of("config")), 2)
    for _ in range(3):
        assert world.running.append(1, T0, b"x" * 1_000_000).error == 0  # acks=all: 2 has them too

    world.running.lead(world.zk, T0, 1, (1, 2, 3), isr=(1, 2), leader_epoch=1)
    world.becomes(lambda: world.running.view(3, T0).log_end_offset, 1)  # the next one is due in a million s
    assert world.running.append(1, T0, b"x").error == 0
    assert world.running.view(3, T0).log_end_offset == 1
    _configured(world, ConfigEntity.broker(1))
    world.becomes(lambda: world.isr(), (1, 2, 3))
    assert world.running.view(3, T0).log_end_offset == 4
