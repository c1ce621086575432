"""The fixture `kafka_cluster` of these tests: on a busy machine no lease ends, and no follower falls behind.

A killed broker loses its session at once, as ever. Tests of sessions that expire, and of followers that fall
behind, make clusters of their own with the fixture `kafka_cluster_factory`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from zkgroup.broker.settings import BrokerSettings
    from zkgroup.testing import KafkaCluster


def unhurried() -> BrokerSettings:
    """The settings of a `KafkaCluster`, with times that no test waits for."""
    from zkgroup.testing.kafka_cluster.cluster import FAST

    return replace(FAST, session_timeout_ms=3_600_000, replica_lag_time_max_ms=3_600_000)


@pytest.fixture
def kafka_cluster(kafka_cluster_factory: Callable[..., KafkaCluster]) -> KafkaCluster:
    """Three brokers without topics."""
    return kafka_cluster_factory(settings=unhurried())
