"""From a path back to what it is of."""

from __future__ import annotations

import pytest

from zkgroup.model import TopicPartition
from zkgroup.znodes.broker_paths import broker_ids_path, topics_path
from zkgroup.znodes.consumer_paths import group_path, ids_path, owner_path
from zkgroup.znodes.places import Place, place_of


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (f"{ids_path('g')}/g_host", Place("member", "g", member="g_host")),
        (owner_path("g", TopicPartition("t", 3)), Place("owner", "g", "t", 3)),
        ("/consumers/g/offsets/t/12", Place("offset", "g", "t", 12)),
        ("/consumers/g/offsets/t/x", Place("group", "g")),
        (group_path("g"), Place("group", "g")),
        (f"{broker_ids_path()}/7", Place("broker", "7")),
        (f"{topics_path()}/t", Place("topic", "t", "t")),
        (f"{topics_path()}/t/partitions/0/state", Place("partition_state", "t", "t", 0)),
        (f"{topics_path()}/t/partitions/٣/state", Place("topic", "t", "t")),
        ("/controller", Place("controller")),
        ("/controller_epoch", Place("controller_epoch")),
        ("/admin/delete_topics/t", Place("admin", "t")),
        ("/config/topics/t", Place("config", "t")),
        ("/brokers", Place("other")),
        ("/", Place("other")),
        ("", Place("other")),
        ("/zookeeper/quota", Place("other")),
    ],
)
def test_a_path_tells_what_it_is_of(path: str, place: Place) -> None:
    """Each shape of Kafka's tree is known; anything else is `other`."""
    assert place_of(path) == place
