"""Raw snappy blocks."""

from __future__ import annotations

import random

import pytest

from tests.worlds import zkfiles_writer as writer
from zkgroup.zkfiles.files import MAX_BLOCK_BYTES, SnappyError, decompressed

SAMPLES = {
    "text": b"the quick brown fox jumps over the lazy dog, the quick brown fox jumps again " * 40,
    "zeros": bytes(100_000),
    "nothing repeats": random.Random(1).randbytes(70_000),
    "short": b"a",
    "paths": b"".join(b"/consumers/group/offsets/topic/%d" % number for number in range(3000)),
}


@pytest.mark.parametrize(
    ("block", "plain"),
    [
        (b"\x00", b""),
        (b"\x03\x08abc", b"abc"),
        (b"\x08\x08abc\x05\x03", b"abcabcab"),
        (b"\x07\x08abc\x01\x03", b"abcabca"),
        (b"\x05\x00a\x01\x01", b"aaaaa"),
        (b"\x06\x04ab\x0e\x02\x00", b"ababab"),
        (b"\x06\x04ab\x0f\x02\x00\x00\x00", b"ababab"),
        (b"\x05\xf0\x04abcde", b"abcde"),
        (b"\x05\xf4\x04\x00abcde", b"abcde"),
        (b"\x05\xf8\x04\x00\x00abcde", b"abcde"),
        (b"\x05\xfc\x04\x00\x00\x00abcde", b"abcde"),
    ],
)
def test_elements_by_hand(block: bytes, plain: bytes) -> None:
    """format_description.txt: literals of each length, copies of each kind, and those that overlap."""
    assert decompressed(block) == plain


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"\x80\x80\x80\x80\x80",
        b"\x03\x08ab",
        b"\x03\x08abc\x00d",
        b"\x04\x08abc",
        b"\x08\x08abc\x01\x04",
        b"\x08\x08abc\x01\x00",
        b"\x08\x08abc\x01",
        b"\x08\x08abc\x02\x01",
        b"\x08\x08abc\x03\x01\x00\x00",
        b"\x05\xf0",
        b"\x05\xfc\xff\xff\xff\xffa",
        b"\x04\x00a\x3d\x01",
        writer.varint(MAX_BLOCK_BYTES + 1) + b"\x00a",
    ],
)
def test_what_is_no_block(block: bytes) -> None:
    """Cut off, too long, copied from before the start."""
    with pytest.raises(SnappyError):
        decompressed(block)


@pytest.mark.parametrize("name", SAMPLES)
def test_what_the_real_library_packs_is_unpacked(name: str) -> None:
    """Google's, by way of pyarrow."""
    pyarrow = pytest.importorskip("pyarrow")
    plain = SAMPLES[name]
    block: bytes = pyarrow.Codec("snappy").compress(plain, asbytes=True)
    assert decompressed(block) == plain


def test_damaged_blocks_are_refused_or_of_the_length_that_they_say() -> None:
    """Nothing else is raised."""
    pyarrow = pytest.importorskip("pyarrow")
    block: bytes = pyarrow.Codec("snappy").compress(SAMPLES["text"][:400], asbytes=True)
    chosen = random.Random(2)
    for _ in range(2000):
        damaged = bytearray(block)
        for _ in range(chosen.randrange(1, 4)):
            damaged[chosen.randrange(2, len(damaged))] = chosen.randrange(256)
        try:
            assert len(decompressed(bytes(damaged))) == 400
        except SnappyError:
            continue
