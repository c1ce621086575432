"""Metadata in pieces, and requests by name."""

from __future__ import annotations

import pytest

from zkgroup.wire.control import BrokerEndPoint
from zkgroup.wire.messages import decode_rest, encode
from zkgroup.wire.metadata import (
    PIECE,
    MetadataRequest,
    MetadataResponse,
    PartitionMetadata,
    RequestedTopic,
    TopicMetadata,
    body_in_pieces,
)


@pytest.mark.parametrize("version", MetadataResponse.VERSIONS)
@pytest.mark.parametrize("count", [0, 1, 300])
def test_pieces_are_the_body(version: int, count: int) -> None:
    """In every version; a piece ends with the topic that fills it."""
    partition = PartitionMetadata(0, 1, 2, (2, 3), (2,), leader_epoch=7, offline=(3,))
    topics = tuple(TopicMetadata(0, f"t{number}", (partition,) * 10) for number in range(count))
    response = MetadataResponse((BrokerEndPoint(2, "h", 9092, "r"),), topics, cluster_id="c", controller_id=2)

    pieces = list(body_in_pieces(response, version))

    assert b"".join(pieces) == encode(response, version)
    assert len(pieces) == 1 + count * 10 // PIECE


def test_topics_are_asked_for_by_name() -> None:
    """All of them in version 0 by an empty array, later by null."""
    assert MetadataRequest.of("a", "b").names == ("a", "b")
    assert encode(MetadataRequest.of(), 0) == bytes(4)
    assert MetadataRequest(None).names == ()
    everything = decode_rest(MetadataRequest, 1, b"\xff\xff\xff\xff", 0)
    assert everything == MetadataRequest(None)
    assert MetadataRequest((RequestedTopic(None, topic_id=b"\1" * 16),)).names == ()
