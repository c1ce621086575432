"""The fixture `kafka_cluster` of these tests: no lease ends because a machine is busy.

A killed broker loses its session at once, as ever. Tests of sessions that expire make clusters of their own
with the fixture `kafka_cluster_factory`.
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
    """The settings of a `KafkaCluster`, but for its sessions.

    A follower leaves the ISR soon all the same: acks=all waits for one that was killed as the controller,
    until the leader has noticed.
    """
    from zkgroup.testing.kafka_cluster.cluster import FAST

    return replace(FAST, session_timeout_ms=3_600_000)


@pytest.fixture
def kafka_cluster(kafka_cluster_factory: Callable[..., KafkaCluster]) -> KafkaCluster:
    """Three brokers without topics."""
    return kafka_cluster_factory(settings=unhurried())
