"""Kafka's checkpoint files as text: the format that is written, and the texts that are ignored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkgroup.broker.log.checkpoints import (
    CheckpointError,
    MetaProperties,
    decode_high_watermark,
    decode_leader_epochs,
    decode_meta_properties,
    decode_offsets,
    encode_high_watermark,
    encode_leader_epochs,
    encode_meta_properties,
    encode_offsets,
)
from zkgroup.broker.log.leader_epochs import EpochStart, LeaderEpochs
from zkgroup.model import TopicPartition


def test_offsets_are_written_as_kafka_writes_them() -> None:
    """Version, number of entries, and a line for each."""
    offsets = {TopicPartition("b", 0): 5, TopicPartition("a-1", 12): 0}

    assert encode_offsets(offsets) == b"0\n2\na-1 12 0\nb 0 5\n"
    assert decode_offsets(encode_offsets(offsets)) == offsets
    assert decode_offsets(encode_offsets({})) == {}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n1\n",
        b"0\n1\na 0 5",
        b"0\n2\na 0 5\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 x\n",
        b"0\n1\na -1 5\n",
        "0\n1\na 0 ٣\n".encode(),
    ],
)
def test_damaged_offsets_are_not_believed(data: bytes) -> None:
    """Cut short, of another version, with another number of entries, or no numbers."""
    with pytest.raises(CheckpointError):
        decode_offsets(data)


def test_leader_epochs_are_written_as_kafka_writes_them() -> None:
    """A line for each epoch with its start offset."""
    epochs = LeaderEpochs((EpochStart(0, 0), EpochStart(3, 40)))

    assert encode_leader_epochs(epochs) == b"0\n2\n0 0\n3 40\n"
    assert decode_leader_epochs(b"0\n2\n0 0\n3 40\n") == epochs
    assert decode_leader_epochs(b"0\n0\n") == ()


@pytest.mark.parametrize(
    "data", [b"0\n2\n3 0\n0 40\n", b"0\n2\n0 40\n3 40\n", b"0\n1\n0 0 0\n", b"0\n1\n0 0", b"nonsense\n\n\n"]
)
def test_leader_epochs_that_do_not_ascend_are_not_believed(data: bytes) -> None:
    """Neither are those that are cut short."""
    with pytest.raises(CheckpointError):
        decode_leader_epochs(data)


@given(st.none() | st.integers(0, (1 << 63) - 1))
def test_a_high_watermark_has_always_the_same_length(offset: int | None) -> None:
    """So one write replaces it."""
    assert len(encode_high_watermark(offset)) == 20
    assert decode_high_watermark(encode_high_watermark(offset)) == offset


@pytest.mark.parametrize("data", [b"", b"5\n", b"0000000000000000005", b"x" * 20, b"-000000000000000001\n"])
def test_a_damaged_high_watermark_is_none(data: bytes) -> None:
    """A replica without one does not lead."""
    assert decode_high_watermark(data) is None


@pytest.mark.parametrize("meta", [MetaProperties(3, "Xy_1", "abc"), MetaProperties(0, None, None)])
def test_meta_properties(meta: MetaProperties) -> None:
    """As Kafka's `Properties` writes them."""
    data = encode_meta_properties(meta)

    assert b"\nbroker.id=%d\nversion=0\n" % meta.broker_id in data
    assert decode_meta_properties(data) == meta
    assert decode_meta_properties(b"#Tue\n\n! x\ncluster.id = a\\=b\nversion=0\nbroker.id=7\n") == (
        7,
        "a=b",
        None,
    )


@pytest.mark.parametrize(
    "data", [b"", b"version=1\nnode.id=1\n", b"version=0\n", b"version=0\nbroker.id=x\n"]
)
def test_meta_properties_of_another_form_are_refused(data: bytes) -> None:
    """Version 1 is KRaft's."""
    with pytest.raises(CheckpointError):
        decode_meta_properties(data)
