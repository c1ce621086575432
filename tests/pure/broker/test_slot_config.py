"""The replicas of slots, which lack no records."""

from __future__ import annotations

import pytest

from tests.worlds.replica_managers import in_memory
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, "orders"])
def test_a_replica_of_a_slot_leads_without_files(topic: str) -> None:
    """Its log is empty; a replica of another topic may have lost records (56)."""
    host, tp = in_memory(1), TopicPartition(topic, 0)
    may_lead = topic == OFFSETS_TOPIC

    error = host.become_leader(tp, 3, (1, 2), {1})

    assert error == (ErrorCode.NONE if may_lead else ErrorCode.KAFKA_STORAGE_ERROR)


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, "orders"])
def test_a_follower_of_a_slot_leads_before_it_has_fetched(topic: str) -> None:
    """It cannot catch up with anything."""
    host, tp = in_memory(1), TopicPartition(topic, 0)
    assert host.become_follower(tp, 3) is ErrorCode.NONE

    error = host.become_leader(tp, 4, (1, 2), {1, 2})

    assert (error is ErrorCode.NONE) == (topic == OFFSETS_TOPIC)
