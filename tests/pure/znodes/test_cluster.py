"""Cluster id, generated broker ids, the data of later versions, and the parents that a broker creates."""

from __future__ import annotations

import pytest

from tests.worlds import golden_data
from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.znodes.cluster import (
    BrokerSequence,
    ClusterId,
    FinalizedFeatures,
    ProducerIdBlock,
    common_parents,
    later_parents,
)


def test_a_cluster_id_is_22_characters_of_base64url() -> None:
    """From 16 random bytes, as in Kafka; its version is text."""
    made = ClusterId.of(bytes(range(240, 256)))

    assert made.encode() == b'{"version":"1","id":"8PHy8_T19vf4-fr7_P3-_w"}'
    assert ClusterId.decode("/x", made.encode()) == made
    for wrong in ("", "a" * 21, "a" * 23, "a" * 21 + "+"):
        with pytest.raises(ConfigError, match="22 characters"):
            ClusterId(wrong).encode()
    for data in (None, b"", b"{}", b'{"id":5}', b'"x"'):
        with pytest.raises(CorruptZnodeError):
            ClusterId.decode("/x", data)


def test_generated_broker_ids_start_above_those_that_people_give() -> None:
    """The first set of the znode answers version 1."""
    assert BrokerSequence.broker(1) == 1001
    assert BrokerSequence.broker(7, reserved_max=5) == 12
    for version in (0, -1, 2**31 - 1000):
        with pytest.raises(ConfigError, match="generated broker id"):
            BrokerSequence.broker(version)
    for data in (None, b"", b"x"):
        assert BrokerSequence.decode("/x", data).encode() == b""


def test_finalized_features_of_both_versions_are_read() -> None:
    """2.7 to 3.2 write two bounds, later ones the upper."""
    first = b'{"features":{"f":{"min_version_level":1,"max_version_level":3}},"version":1,"status":1}'
    second = b'{"features":{"f":{"max_version_level":3}},"version":2,"status":0}'

    assert FinalizedFeatures.decode("/x", first) == FinalizedFeatures(True, {"f": 3})
    assert FinalizedFeatures.decode("/x", second) == FinalizedFeatures(False, {"f": 3})
    for data in (None, b"{}", b'{"features":{}}', b'{"status":1}', b'{"features":{"f":3},"status":1}'):
        with pytest.raises(CorruptZnodeError):
            FinalizedFeatures.decode("/x", data)


def test_a_block_of_producer_ids_is_read() -> None:
    """Its bounds are texts, since they grow beyond 32 bits."""
    block = b'{"version":1,"broker":3,"block_start":"9000000000","block_end":"9000000999"}'

    assert ProducerIdBlock.decode("/x", block) == ProducerIdBlock(3, 9_000_000_000, 9_000_000_999)
    assert ProducerIdBlock(3, 9_000_000_000, 9_000_000_999).encode() == block
    for data in (
        None,
        b'{"broker":3,"block_start":0,"block_end":"9"}',
        b'{"broker":3,"block_start":"9","block_end":"0"}',
        b'{"block_start":"0","block_end":"9"}',
    ):
        with pytest.raises(CorruptZnodeError):
            ProducerIdBlock.decode("/x", data)


def test_a_block_of_producer_ids_follows_the_latest_one() -> None:
    """1,000 ids each, as in Kafka, until they are used up."""
    first = ProducerIdBlock.after(None, 1)
    assert (first, ProducerIdBlock.after(first, 2)) == (
        ProducerIdBlock(1, 0, 999),
        ProducerIdBlock(2, 1000, 1999),
    )
    last = ProducerIdBlock(1, 0, 2**63 - 1001)
    assert ProducerIdBlock.after(last, 1).last == 2**63 - 1
    with pytest.raises(ConfigError, match="producer ids"):
        ProducerIdBlock.after(ProducerIdBlock(1, 0, 2**63 - 1000), 1)


def test_where_they_are() -> None:
    """Each has one place."""
    assert [ClusterId.path(), BrokerSequence.path(), FinalizedFeatures.path(), ProducerIdBlock.path()] == [
        "/cluster/id",
        "/brokers/seqid",
        "/feature",
        "/latest_producer_id_block",
    ]


def test_the_parents_are_those_that_real_brokers_made() -> None:
    """Of 0.8.2.2 on an empty ZooKeeper, and of 1.1.1; each path comes after its parent."""
    first = {
        znode.path
        for znode in golden_data.trees("kafka-0.8.2.2")
        if "01-first-broker" in znode.file and not znode.data
    }
    later = {write.path for write in golden_data.writes("kafka-1.1.1") if write.data is None}

    assert set(common_parents()) == first - {"/"}
    assert set(later_parents()) <= later
    order = [*common_parents(), *later_parents()]
    assert len(set(order)) == len(order)
    for number, path in enumerate(order):
        parent = path.rpartition("/")[0]
        assert not parent or parent in order[:number]
