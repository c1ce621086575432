"""The readers that are written out as source give what the readers of single fields give."""

from __future__ import annotations

import random

import pytest

from zkgroup.errors import CorruptFrameError
from zkgroup.wire.codec import codec_of
from zkgroup.wire.groups import OffsetCommitRequest, OffsetToCommit, TopicToCommit
from zkgroup.wire.messages import ITEMS_MAX, encode
from zkgroup.wire.primitives import limit_items


def read(frame: bytes, version: int, *, is_counted: bool) -> object:
    """What a request is read as, or what is wrong with it; the items are counted field by field."""
    limit_items(ITEMS_MAX)
    values: list[object] = []
    try:
        end = codec_of(OffsetCommitRequest, version, is_counted=is_counted).read(frame, 0, values)
    except CorruptFrameError as error:
        return str(error)
    return values[0], end


def commit(version: int) -> bytes:
    partitions = tuple(
        OffsetToCommit(partition=number, offset=number * 7, metadata=metadata)
        for number, metadata in enumerate((None, "", "é" * 100))
    )
    instance = "instance" if version >= 7 else None
    request = OffsetCommitRequest(
        group="payments",
        generation=3 if version else -1,
        member_id="m" if version else "",
        group_instance_id=instance,
        topics=(TopicToCommit(topic="t", partitions=partitions), TopicToCommit(topic="u", partitions=())),
    )
    return encode(request, version)


@pytest.mark.parametrize("version", OffsetCommitRequest.VERSIONS)
def test_a_whole_request_is_read_alike(version: int) -> None:
    """Both readers make the same request of it, to its end."""
    frame = commit(version)

    found = read(frame, version, is_counted=False)

    assert found == read(frame, version, is_counted=True)
    assert isinstance(found, tuple)
    assert found[1] == len(frame)


@pytest.mark.parametrize("version", OffsetCommitRequest.VERSIONS)
def test_a_request_that_ends_early_is_refused_alike(version: int) -> None:
    """Wherever it ends, both readers name the same field."""
    frame = commit(version)

    for size in range(len(frame)):
        cut = frame[:size]
        assert read(cut, version, is_counted=False) == read(cut, version, is_counted=True)


@pytest.mark.parametrize("version", OffsetCommitRequest.VERSIONS)
def test_a_request_with_a_wrong_byte_is_read_or_refused_alike(version: int) -> None:
    """Lengths, counts and texts that are wrong have the same consequence in both readers."""
    frame, chosen = commit(version), random.Random(version)

    for _ in range(500):
        wrong = bytearray(frame)
        wrong[chosen.randrange(len(frame))] = chosen.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF))
        assert read(bytes(wrong), version, is_counted=False) == read(bytes(wrong), version, is_counted=True)
