"""OffsetDelete: which offsets a group can lose (KIP-496)."""

from __future__ import annotations

import struct

import pytest

from tests.worlds.coordinators import PARTITION, Coordinator
from zkgroup.coordinator.effects import DeleteOffsets, RemoveOffsetsResult
from zkgroup.coordinator.events import SlotLoading, Stopped
from zkgroup.coordinator.group import Protocols
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode

OTHER = TopicPartition("other", 0)


def metadata(*topics: str) -> bytes:
    """A subscription in the bytes of Kafka's clients."""
    names = b"".join(struct.pack(">h", len(one.encode())) + one.encode() for one in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def protocols(*topics: str) -> Protocols:
    return (("range", metadata(*topics)),)


def test_an_unknown_group_has_no_offsets_to_delete() -> None:
    """The error is 69."""
    coordinator = Coordinator()

    assert coordinator.delete_offsets() == RemoveOffsetsResult(ErrorCode.GROUP_ID_NOT_FOUND)


def test_a_deleted_group_has_none() -> None:
    """Also while its deletion is being written."""
    coordinator = Coordinator()
    coordinator.leave(*coordinator.stable())
    coordinator.stores = False
    coordinator.delete()

    assert coordinator.delete_offsets() == RemoveOffsetsResult(ErrorCode.GROUP_ID_NOT_FOUND)


def test_an_empty_group_loses_every_offset() -> None:
    """No member needs them."""
    coordinator = Coordinator()
    coordinator.leave(*coordinator.stable(protocols=protocols("t")))

    found = coordinator.delete_offsets(PARTITION, OTHER)

    assert isinstance(found, DeleteOffsets)
    assert (found.partitions, found.subscribed) == ((PARTITION, OTHER), ())


@pytest.mark.parametrize("state", ["Stable", "CompletingRebalance", "PreparingRebalance"])
def test_a_group_with_members_keeps_what_they_subscribe_to(state: str) -> None:
    """In each state: the offsets of other topics are deleted."""
    coordinator = Coordinator()
    if state == "CompletingRebalance":
        coordinator.completing(protocols=protocols("t"))
    else:
        coordinator.stable(protocols=protocols("t"))
    if state == "PreparingRebalance":
        coordinator.send_join(protocols=protocols("t"))
    assert coordinator.state == state

    found = coordinator.delete_offsets(PARTITION, OTHER)

    assert isinstance(found, DeleteOffsets)
    assert (found.partitions, found.subscribed) == ((OTHER,), (PARTITION,))


def test_a_subscription_that_cannot_be_read_keeps_all_offsets() -> None:
    """It may name any topic."""
    coordinator = Coordinator()
    coordinator.stable(protocols=(("range", b"\0"),))

    found = coordinator.delete_offsets(PARTITION, OTHER)

    assert isinstance(found, DeleteOffsets)
    assert (found.partitions, found.subscribed) == ((), (PARTITION, OTHER))


def test_members_of_another_kind_keep_all_offsets() -> None:
    """Of Connect workers, say, whose metadata name no topics."""
    coordinator = Coordinator()
    coordinator.stable(protocol_type="connect", protocols=protocols("t"))

    assert coordinator.delete_offsets(OTHER) == RemoveOffsetsResult(ErrorCode.NON_EMPTY_GROUP)


def test_the_checks_of_all_requests_come_first() -> None:
    """24 for an invalid id, also for the empty one; 14 while the slot is loading; 15 after the end."""
    coordinator = Coordinator()

    for group in ("", ".", "a/b"):
        refused = RemoveOffsetsResult(ErrorCode.INVALID_GROUP_ID)
        assert coordinator.delete_offsets(group=group) == refused

    coordinator.do(SlotLoading(0, 1))
    assert coordinator.delete_offsets() == RemoveOffsetsResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    coordinator.do(Stopped())
    assert coordinator.delete_offsets() == RemoveOffsetsResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)
