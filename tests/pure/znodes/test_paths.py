"""The kind of znode of a path."""

from __future__ import annotations

import pytest

from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import broker_ids_path, topics_path
from zkgroup.znodes.consumers import group_path, ids_path, owner_path
from zkgroup.znodes.paths import PathKind, path_kind


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (f"{ids_path('g')}/g_host", PathKind("member", "g", member="g_host")),
        (owner_path("g", TopicPartition("t", 3)), PathKind("owner", "g", "t", 3)),
        ("/consumers/g/offsets/t/12", PathKind("offset", "g", "t", 12)),
        ("/consumers/g/offsets/t/x", PathKind("group", "g")),
        (group_path("g"), PathKind("group", "g")),
        (f"{broker_ids_path()}/7", PathKind("broker", "7")),
        (f"{topics_path()}/t", PathKind("topic", "t", "t")),
        (f"{topics_path()}/t/partitions/0/state", PathKind("partition_state", "t", "t", 0)),
        (f"{topics_path()}/t/partitions/٣/state", PathKind("topic", "t", "t")),
        ("/controller", PathKind("controller")),
        ("/controller_epoch", PathKind("controller_epoch")),
        ("/admin/delete_topics/t", PathKind("admin", "t")),
        ("/config/topics/t", PathKind("config", "t")),
        ("/brokers", PathKind("other")),
        ("/", PathKind("other")),
        ("", PathKind("other")),
        ("/zookeeper/quota", PathKind("other")),
    ],
)
def test_a_path_has_its_kind(path: str, place: PathKind) -> None:
    """Each shape of Kafka's tree is known; anything else is `other`."""
    assert path_kind(path) == place
