"""Packed files give the same bytes as plain ones, bounded; only regular files are opened, just to read."""

from __future__ import annotations

import gzip
import os
import random
import struct
import tracemalloc
import zlib
from pathlib import Path

import pytest

from tests.worlds import zkfiles_writer as writer
from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles.files import FileBytes

PLAIN = bytes(range(256)) * 40 + b"abc" * 5000 + bytes(70_000)


def read(path: Path, most: int = 1000) -> bytes:
    with FileBytes(path) as file:
        pieces = []
        while piece := file.read(most):
            assert len(piece) <= most
            pieces.append(piece)
        return b"".join(pieces)


PACKED = {
    "gzip": gzip.compress(PLAIN),
    "gzip, stored": gzip.compress(PLAIN, 0),
    "gzip, several members": b"".join(
        gzip.compress(PLAIN[at : at + 999]) for at in range(0, len(PLAIN), 999)
    ),
    "gzip, an empty member": gzip.compress(b"") + gzip.compress(PLAIN) + gzip.compress(b""),
    "gzip, zeros behind": gzip.compress(PLAIN) + bytes(512),
    "snappy": writer.snappy_stream(PLAIN),
    "snappy, small blocks": writer.snappy_stream(PLAIN, 100),
    "snappy, joined streams": writer.snappy_stream(PLAIN[:50]) + writer.snappy_stream(PLAIN[50:]),
    "plain": PLAIN,
}


@pytest.mark.parametrize("most", [1, 7, 1000, 1 << 20])
@pytest.mark.parametrize("kind", PACKED)
def test_every_packing_gives_the_plain_bytes(kind: str, most: int, tmp_path: Path) -> None:
    """However much is asked for at a time."""
    path = tmp_path / "file"
    plain = PLAIN
    raw = PACKED[kind]
    if most == 1:  # byte by byte of a shorter one
        plain = PLAIN[:2000]
        raw = {"g": gzip.compress(plain), "s": writer.snappy_stream(plain, 64), "p": plain}[kind[0]]
    path.write_bytes(raw)
    assert read(path, most) == plain


@pytest.mark.parametrize("kind", [kind for kind in PACKED if kind != "gzip, zeros behind"])
def test_skipping(kind: str, tmp_path: Path) -> None:
    """Leaves out as many plain bytes, and stops at the end."""
    path = tmp_path / "file"
    path.write_bytes(PACKED[kind])
    for count in (0, 1, 5000, 80_000, len(PLAIN), len(PLAIN) + 5):
        with FileBytes(path) as file:
            file.skip(count)
            assert file.read(10) == PLAIN[count : count + 10]


def test_the_first_bytes_decide_the_compression_not_the_name(tmp_path: Path) -> None:
    """Copies are renamed, and unpacked under their old names."""
    for name, kind in (("a.gz", "plain"), ("b", "gzip"), ("c.gz", "snappy")):
        path = tmp_path / name
        path.write_bytes(PACKED[kind])
        with FileBytes(path) as file:
            assert file.compression == {"plain": None, "gzip": "gz", "snappy": "snappy"}[kind]
            assert file.size == len(PACKED[kind])


@pytest.mark.parametrize("kind", ["gzip", "gzip, several members", "snappy", "snappy, small blocks"])
def test_cut_off_anywhere_is_damage_and_what_is_before_is_right(kind: str, tmp_path: Path) -> None:
    """The offset of the error is where the plain bytes end."""
    raw = PACKED[kind]
    path = tmp_path / "file"
    cuts = [*range(24, min(len(raw), 200)), *range(200, len(raw), 997)]
    damaged_at = []
    for cut in cuts:
        path.write_bytes(raw[:cut])
        plain, offset = _read_until_damage(path)
        assert PLAIN.startswith(plain)
        if offset is not None:
            damaged_at.append(cut)
            assert offset == len(plain)
    # Ends of members and blocks are ends as well as others.
    assert len(damaged_at) > len(cuts) * 9 // 10


def _read_until_damage(path: Path) -> tuple[bytes, int | None]:
    plain = bytearray()
    try:
        with FileBytes(path) as file:
            while piece := file.read(4096):
                plain += piece
    except DamagedFileError as error:
        return bytes(plain), error.offset
    return bytes(plain), None


@pytest.mark.parametrize("kind", ["gzip", "snappy"])
def test_flipped_bits_give_damage_or_other_bytes_and_no_other_error(kind: str, tmp_path: Path) -> None:
    """gzip has a checksum of its own; snappy's is that of the file inside."""
    path = tmp_path / "file"
    raw = PACKED[kind]
    chosen = random.Random(5)
    for _ in range(300):
        bit = chosen.randrange(8 * 3, 8 * min(len(raw), 3000))
        damaged = bytearray(raw)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        _, offset = _read_until_damage(path)
        # gzip's header holds a time, flags and a system that nothing depends on.
        assert offset is not None or kind == "snappy" or bit // 8 < 10


def test_garbage_behind_a_gzip_member_is_damage(tmp_path: Path) -> None:
    """As `gzip` itself has it; only zeros may follow."""
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(PLAIN) + b"garbage")
    with pytest.raises(DamagedFileError, match="gzip"):
        read(path)


def test_a_gzip_bomb_is_inflated_no_further_than_it_is_read(tmp_path: Path) -> None:
    """Not by reading a little, nor by skipping a lot."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    path = tmp_path / "file"
    path.write_bytes(b"".join(packer.compress(bytes(1 << 20)) for _ in range(64)) + packer.flush())
    tracemalloc.start()
    try:
        with FileBytes(path) as file:
            assert len(file.read(1000)) <= 1000
            file.skip(32 << 20)
            assert file.read(10) == bytes(10)
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        (struct.pack(">i", -1), "at most"),
        (struct.pack(">i", 2**31 - 1), "at most"),
        (struct.pack(">i", 3) + b"\xff\xff\xff", "without its length"),
        (writer.buffer(writer.varint(2**31) + b"\0"), "are believed"),
        (writer.buffer(writer.varint(5) + b"\0a"), "a snappy block"),
        (b"\0\0", "4 bytes"),
    ],
)
def test_hostile_snappy_streams(blocks: bytes, expected: str, tmp_path: Path) -> None:
    """Lengths that are not there are refused before anything is made."""
    path = tmp_path / "file"
    path.write_bytes(b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + blocks)
    with pytest.raises(DamagedFileError, match=expected):
        read(path)


def test_links_folders_pipes_and_missing_files_are_no_files(tmp_path: Path) -> None:
    """A pipe does not hold the reader up either."""
    real = tmp_path / "real"
    real.write_bytes(b"x")
    link = tmp_path / "link"
    link.symlink_to(real)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, words in (
        (link, "a link, which is not followed"),
        (tmp_path, "no regular file"),
        (pipe, "no regular file"),
        (tmp_path / "missing", "expected a snapshot or log, found nothing"),
        (Path("nul\0"), "null byte"),
    ):
        with pytest.raises(NotZooKeeperFileError, match=words) as caught:
            FileBytes(path)
        assert caught.value.path == str(path)


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by rights, for root may read everything."""

    def refusing(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "file"
    path.write_bytes(b"x")
    monkeypatch.setattr("zkgroup.zkfiles.files.os.open", refusing)
    with pytest.raises(NotZooKeeperFileError, match="Permission denied"):
        FileBytes(path)


def test_a_disk_that_fails_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its own words, and where that was."""
    path = tmp_path / "file"
    path.write_bytes(PLAIN)
    with FileBytes(path) as file:
        file.read(100)

        def failing(*_: object) -> bytes:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr("zkgroup.zkfiles.files.os.pread", failing)
        with pytest.raises(DamagedFileError, match="Input/output error") as caught:
            file.read(100)
        monkeypatch.undo()
    assert caught.value.offset == 100
