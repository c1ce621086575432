"""Frames out of a stream of bytes, however it is cut."""

from __future__ import annotations

import tracemalloc

import pytest

from zkgroup.errors import CorruptFrameError
from zkgroup.wire.messages import REQUEST_BYTES_MAX, FrameSplitter, framed


def drained(splitter: FrameSplitter) -> list[bytes]:
    frames = []
    while (frame := splitter.next_frame()) is not None:
        frames.append(frame)
    return frames


def test_frames_come_out_in_order_byte_by_byte() -> None:
    """None until a frame is whole; an empty frame is a frame."""
    splitter = FrameSplitter()
    found = []
    for byte in framed(b"one") + framed(b"") + framed(b"three"):
        splitter.feed(bytes([byte]))
        found += drained(splitter)

    assert found == [b"one", b"", b"three"]
    splitter.finish()


def test_several_frames_in_one_chunk_are_given_one_at_a_time() -> None:
    """Who answers in order takes the next when he is ready for it."""
    splitter = FrameSplitter()
    splitter.feed(framed(b"one") + framed(b"two") + b"\0\0")

    assert splitter.next_frame() == b"one"
    assert drained(splitter) == [b"two"]
    splitter.feed(b"\0\1x")
    assert drained(splitter) == [b"x"]


@pytest.mark.parametrize("size", [-1, 11, 2**31 - 1, -(2**31)])
def test_a_size_beyond_the_limit_is_refused_for_good(size: int) -> None:
    """After the frames before it, as soon as the size is there, and however often one asks."""
    splitter = FrameSplitter(max_bytes=10)
    splitter.feed(framed(bytes(10)) + size.to_bytes(4, "big", signed=True))

    assert splitter.next_frame() == bytes(10)
    for _ in range(2):
        with pytest.raises(CorruptFrameError) as raised:
            splitter.next_frame()
        assert (raised.value.offset, raised.value.expected, raised.value.found) == (
            0,
            "0 to 10 bytes",
            str(size),
        )


def test_an_announced_size_takes_no_memory() -> None:
    """A size within the limit is believed, and nothing is set aside for it."""
    splitter = FrameSplitter()
    tracemalloc.start()
    try:
        splitter.feed(REQUEST_BYTES_MAX.to_bytes(4, "big"))
        assert splitter.next_frame() is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < REQUEST_BYTES_MAX // 100  # threads of other tests may allocate meanwhile


@pytest.mark.parametrize(("data", "offset"), [(b"\0\0", 0), (b"\0\0\0\5ab", 2)])
def test_a_stream_that_ends_within_a_frame_says_so(data: bytes, offset: int) -> None:
    """The end of a connection is no fault between frames, and one within a frame."""
    splitter = FrameSplitter()
    splitter.finish()
    splitter.feed(data)

    assert splitter.next_frame() is None
    with pytest.raises(CorruptFrameError, match="end of the stream") as raised:
        splitter.finish()
    assert raised.value.offset == offset
