"""Subscriptions and assignments as Kafka's clients send them, and bytes that are neither."""

from __future__ import annotations

import pytest

from zkgroup.assignment.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    decode_assignment,
    decode_subscription,
    subscribed_topics,
)
from zkgroup.errors import CorruptFrameError
from zkgroup.model import TopicPartition

T = ("t",)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(
            "0000 00000001 0001 74 00000000",
            ConsumerSubscription(version=0, topics=T, user_data=b""),
            id="kafka-python",
        ),
        pytest.param(
            "0003 00000001 0001 74 00000000 00000000 ffffffff 0000",
            ConsumerSubscription(version=3, topics=T, user_data=b"", rack=""),
            id="librdkafka",
        ),
        pytest.param(
            "0001 00000001 0001 74 ffffffff 00000000",
            ConsumerSubscription(version=1, topics=T),
            id="java-2.8.2",
        ),
        pytest.param(
            "0003 00000001 0001 74 00000004 00000002"
            "00000001 0001 74 00000002 00000000 00000003 00000005 ffff",
            ConsumerSubscription(
                version=3,
                topics=T,
                user_data=b"\0\0\0\2",
                owned=(TopicPartition("t", 0), TopicPartition("t", 3)),
                generation=5,
            ),
            id="java-3.9.1-cooperative",
        ),
        pytest.param(
            "0009 00000001 0001 74 ffffffff 00000000 00000001 ffff beef",
            ConsumerSubscription(version=9, topics=T, generation=1),
            id="a-later-version",
        ),
    ],
)
def test_subscriptions_of_clients(data: str, expected: ConsumerSubscription) -> None:
    """Checklist: the layouts of versions 0 to 3; what a later one adds is ignored."""
    assert decode_subscription(bytes.fromhex(data)) == expected
    assert subscribed_topics(bytes.fromhex(data)) == T


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(
            "0000 00000001 0001 74 00000004 00000000 00000001 00000002 00000003 00000000",
            ConsumerAssignment(
                version=0, partitions=tuple(TopicPartition("t", n) for n in range(4)), user_data=b""
            ),
            id="kafka-python",
        ),
        pytest.param("0001 00000000 ffffffff", ConsumerAssignment(version=1, partitions=()), id="java-empty"),
        pytest.param("", ConsumerAssignment(version=0, partitions=()), id="no-bytes"),
    ],
)
def test_assignments_of_leaders(data: str, expected: ConsumerAssignment) -> None:
    """A share, an empty share, and none."""
    assert decode_assignment(bytes.fromhex(data)) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("", "2 bytes"),
        ("ffff 00000000 ffffffff", "a version from 0 on"),
        ("0000 7fffffff 0001 74", "a number of items"),
        ("0000 00000001 ffff", "a text"),
        ("0000 00000001 0001 ff ffffffff", "UTF-8"),
        ("0000 00000001 0001 74 00000009", "9 bytes"),
    ],
)
def test_bytes_that_are_no_subscription(data: str, expected: str) -> None:
    """Each names what was expected; a count that cannot be is refused before anything is read."""
    with pytest.raises(CorruptFrameError, match=f"consumer protocol subscription.*expected {expected}"):
        decode_subscription(bytes.fromhex(data))


def test_topics_are_known_where_the_rest_cannot_be_read() -> None:
    """As Kafka's coordinator reads them: the prefix that every version has."""
    assert subscribed_topics(bytes.fromhex("0001 00000001 0001 74 7fffffff")) == T
