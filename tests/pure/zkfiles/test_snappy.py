"""Raw snappy blocks, by the decoder of our own and by pyarrow's."""

from __future__ import annotations

import builtins
import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.worlds import zkfiles_writer as writer
from zkgroup.zkfiles.snappy import MAX_BLOCK_BYTES, SnappyError, decompressed, fastest

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
    assert fastest()(block) == plain


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
    """Cut off, too long, copied from before the start: both decoders refuse it."""
    for decoder in (decompressed, fastest()):
        with pytest.raises(SnappyError):
            decoder(block)


@pytest.mark.parametrize("name", SAMPLES)
def test_what_the_real_library_packs_is_unpacked(name: str) -> None:
    """Google's, by way of pyarrow."""
    pyarrow = pytest.importorskip("pyarrow")
    plain = SAMPLES[name]
    block: bytes = pyarrow.Codec("snappy").compress(plain, asbytes=True)
    assert decompressed(block) == plain
    assert fastest()(block) == plain


def test_both_decoders_agree_on_damaged_blocks() -> None:
    """Where one of them refuses, the other one does; else they give the same."""
    pyarrow = pytest.importorskip("pyarrow")
    block: bytes = pyarrow.Codec("snappy").compress(SAMPLES["text"][:400], asbytes=True)
    chosen = random.Random(2)
    for _ in range(2000):
        damaged = bytearray(block)
        for _ in range(chosen.randrange(1, 4)):
            damaged[chosen.randrange(len(damaged))] = chosen.randrange(256)
        assert _outcome(decompressed, bytes(damaged)) == _outcome(fastest(), bytes(damaged))


def _outcome(decoder: Callable[[bytes], bytes], block: bytes) -> bytes | None:
    try:
        return decoder(block)
    except SnappyError:
        return None


def test_without_pyarrow_our_own_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The core install reads every snapshot."""
    real = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> ModuleType:
        if name == "pyarrow":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    assert fastest() is decompressed
