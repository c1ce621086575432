"""`read_transactions` on transaction logs made byte by byte, and on those of a ZooKeeper server."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from zkgroup.errors import ConfigError, DamagedFileError, NotFoundError
from zkgroup.history import Change, ServerTransaction, TransactionRefusal
from zkgroup.history.transactions import read_transactions

HEADER = struct.pack(">4siq", b"ZKLG", 2, 0)
CREATE, DELETE, SET, CHECK, MULTI, ERROR, OPEN, CLOSE = 1, 2, 5, 13, 14, -1, -10, -11


def text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


def create(path: str, *, ephemeral: bool = False) -> bytes:
    acls = struct.pack(">ii", 1, 31) + text("world") + text("anyone")
    return text(path) + text("x") + acls + struct.pack(">?i", ephemeral, 1)


def check(path: str) -> bytes:
    return text(path) + struct.pack(">i", 1)


def multi(*parts: tuple[int, bytes]) -> bytes:
    whole = struct.pack(">i", len(parts))
    return whole + b"".join(struct.pack(">ii", kind, len(body)) + body for kind, body in parts)


def record(zxid: int, kind: int, body: bytes = b"", session: int = 7) -> bytes:
    whole = struct.pack(">qiqqi", session, 1, zxid, 1_000 + zxid, kind) + body
    return struct.pack(">qi", zlib.adler32(whole), len(whole)) + whole + b"B"


def server(folder: Path, *records: bytes, name: str = "log.1", end: bytes = bytes(64)) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(HEADER + b"".join(records) + end)
    return folder


def test_every_kind_of_transaction_is_read(tmp_path: Path) -> None:
    """Every kind of operation is read; the end of a session deletes its ephemerals."""
    error = struct.pack(">i", -103)
    folder = server(
        tmp_path / "one",
        record(1, OPEN, struct.pack(">i", 4_000)),
        record(2, CREATE, create("/c/e", ephemeral=True)),
        record(3, CREATE, create("/c/f", ephemeral=True)),
        record(
            4, MULTI, multi((CHECK, check("/c/e")), (SET, text("/c/e") + text("y") + struct.pack(">i", 1)))
        ),
        record(5, MULTI, multi((CHECK, check("/c/e")), (ERROR, error), (ERROR, struct.pack(">i", -2)))),
        record(6, ERROR, error),
        record(7, DELETE, text("/c/f")),
        record(8, CLOSE),
    )

    assert read_transactions([folder], "/c") == (
        ServerTransaction(1, 1_001, 7, (), "create_session"),
        ServerTransaction(2, 1_002, 7, (Change("create", "/e", b"x", 0, 7),)),
        ServerTransaction(3, 1_003, 7, (Change("create", "/f", b"x", 0, 7),)),
        ServerTransaction(4, 1_004, 7, (Change("check", "/e"), Change("set", "/e", b"y", 1))),
        ServerTransaction(
            5, 1_005, 7, (Change("check", "/e"),), "write", TransactionRefusal("", "BadVersion")
        ),
        ServerTransaction(6, 1_006, 7, (), "write", TransactionRefusal("", "BadVersion")),
        ServerTransaction(7, 1_007, 7, (Change("delete", "/f"),)),
        ServerTransaction(8, 1_008, 7, (Change("delete", "/e"),), "close_session"),
    )


def test_a_transaction_on_most_servers_counts(tmp_path: Path) -> None:
    """The tail of a former leader's log does not count; a gap that a snapshot covers does not matter."""
    first, second, third = (0x1_0000_0001, 0x1_0000_0002, 0x2_0000_0001)
    records = {zxid: record(zxid, DELETE, text(f"/{zxid}")) for zxid in (first, second, third)}
    folders = [
        server(tmp_path / "deposed", records[first], records[second]),
        server(tmp_path / "leads", records[first], records[third]),
        server(tmp_path / "caught up", records[third]),
    ]

    assert [each.zxid for each in read_transactions(folders)] == [first, third]


def test_a_last_transaction_on_one_server_only_is_left_out(tmp_path: Path) -> None:
    """No client got its response; a single server has everything it acknowledged."""
    first, second = (record(0x1_0000_0000 + count, DELETE, text("/a")) for count in (1, 2))
    folders = [
        server(tmp_path / "leads", first, second),
        server(tmp_path / "follows", first),
        server(tmp_path / "follows too", first),
    ]

    assert [each.zxid for each in read_transactions(folders)] == [0x1_0000_0001]
    assert [each.zxid for each in read_transactions(folders[:1])] == [0x1_0000_0001, 0x1_0000_0002]


def test_paths_outside_the_chroot_are_left_out(tmp_path: Path) -> None:
    """A chroot whose name starts with the same letters is left out, too."""
    folder = server(tmp_path / "one", record(1, DELETE, text("/c/a")), record(2, DELETE, text("/cc/a")))

    assert [each.changes for each in read_transactions([folder], "/c")] == [(Change("delete", "/a"),)]


@pytest.mark.parametrize("torn", [b"", b"\0\0\0", record(9, DELETE, text("/9"))[:-4] + b"xxxx"])
def test_a_torn_record_is_the_end_of_its_file(tmp_path: Path, torn: bytes) -> None:
    """The server was killed while it wrote, and went on in its next file."""
    folder = server(tmp_path / "one", record(1, DELETE, text("/1")), end=torn)
    server(folder, record(2, DELETE, text("/2")), name="log.2")
    (folder / "log.3").write_bytes(b"")

    assert [each.zxid for each in read_transactions([folder])] == [1, 2]


def test_a_log_with_a_gap_is_an_error(tmp_path: Path) -> None:
    """A missing transaction would lead to false violations or hide real ones."""
    records = [record(zxid, DELETE, text(f"/{zxid}")) for zxid in range(1, 5)]
    whole, gap = server(tmp_path / "whole", *records), server(tmp_path / "gap", records[0], *records[2:])
    broken = server(tmp_path / "broken", records[0], records[1][:-2] + b"?B", *records[2:])

    with pytest.raises(NotFoundError, match=r"zxids 0x2 to 0x2 are in no log"):
        read_transactions([gap])
    with pytest.raises(DamagedFileError) as caught:
        read_transactions([broken])
    assert (caught.value.path, caught.value.offset) == (str(broken / "log.1"), 16 + len(records[0]))
    for other in (gap, broken):
        assert [each.zxid for each in read_transactions([whole, other])] == [1, 2, 3, 4]
    assert [each.zxid for each in read_transactions([server(tmp_path / "purged", *records[2:])])] == [3, 4]


def test_a_file_that_is_no_log_is_an_error(tmp_path: Path) -> None:
    """The error names the file."""
    (tmp_path / "log.1").write_bytes(b"hello, this is text")

    with pytest.raises(ConfigError, match="expected a transaction log"):
        read_transactions([tmp_path])
