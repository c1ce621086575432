"""The fuzz targets: what each does with any bytes, and what must hold for all of them.

A reader may report a file as damaged or as no file of ZooKeeper's; any other exception is a finding.
Checksums would keep a fuzzer out of all code behind them, so inputs without a header get correct ones.
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Final

import pytest

from tests.worlds import zkfiles_writer as writer
from tests.worlds.golden_data import FOLDER
from tests.worlds.zkfiles_tables import WAYS, Row, log_rows, rows_of, use_way
from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles.columns import log_columns
from zkgroup.zkfiles.exports import ExportHeader, ExportReader, exported, inspect_export, write_export
from zkgroup.zkfiles.files import MAX_BLOCK_BYTES, SnappyError, decompressed, list_files
from zkgroup.zkfiles.logs import LogReader, inspect_log
from zkgroup.zkfiles.records import Transaction, TransactionType
from zkgroup.zkfiles.snapshots import inspect_snapshot, likely_end, open_snapshot
from zkgroup.zkfiles.tree import Tree

Target = Callable[[bytes], None]

_KNOWN: Final = frozenset(map(int, TransactionType))
_SEPARATOR: Final = b"BB"
"""Between the entries of a log of the fuzzer's."""


@contextmanager
def _file(name: str, raw: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="zkgroup-fuzz-") as folder:
        path = Path(folder, name)
        path.write_bytes(raw)
        yield path


def log(data: bytes) -> None:
    """Reads a whole log if it begins with a header, else entries, which get correct lengths and checksums."""
    if data.startswith((b"ZKLG", b"\x1f\x8b", b"\x82SNAPPY")):
        raw = data
    else:
        raw = writer.LOG_HEADER + b"".join(map(writer.record, data.split(_SEPARATOR)))
    with _file("log.1", raw) as path:
        tree = Tree()
        whole: list[Transaction] = []
        try:
            for transaction in LogReader(path):
                whole.append(transaction)
                tree.apply(transaction)
        except (DamagedFileError, NotZooKeeperFileError):
            is_good = False
        else:
            is_good = True
        health = inspect_log(path)
        assert health.is_healthy == is_good, health
        skipped: list[Transaction] = []
        try:
            skipped = list(LogReader(path, resync=True))
        except NotZooKeeperFileError:
            assert not is_good
        assert skipped[: len(whole)] == whole
        if is_good and all(one.type in _KNOWN for each in whole for one in (each, *each.operations)):
            _compare_columns(path, list(log_rows(whole, path)))


def _compare_columns(path: Path, expected: list[Row]) -> None:
    """In each way in which they are made."""
    for way in WAYS:
        with pytest.MonkeyPatch.context() as patch:
            use_way(way, patch)
            assert rows_of(log_columns(path)) == expected


def snapshot(data: bytes) -> None:
    """Reads a whole snapshot if it begins with a header, else bytes that get a correct checksum."""
    is_whole = data.startswith((b"ZKSN", b"\x1f\x8b", b"\x82SNAPPY"))
    raw = data if is_whole else writer.sealed(b"ZKSN" + data)
    with _file("snapshot.1", raw) as path:
        try:
            reader = open_snapshot(path)
            tree = Tree.from_znodes(reader.znodes(), zxid=reader.zxid, sessions=reader.sessions)
            assert len(tree) >= 0
            assert reader.end_zxid is None or reader.end_zxid >= reader.zxid
        except (DamagedFileError, NotZooKeeperFileError):
            likely_end(path)
            return
        likely = likely_end(path)
        assert likely is None or likely == reader.end._replace(digest=None)
        inspect_snapshot(path)


def snappy(data: bytes) -> None:
    """Decodes one raw block, which must not allocate without bound."""
    with suppress(SnappyError):
        assert len(decompressed(data)) <= MAX_BLOCK_BYTES


def export(data: bytes) -> None:
    """Reads a packed export, else its lines, which are packed first."""
    raw = data if data.startswith(b"\x1f\x8b") else gzip.compress(data, 1, mtime=0)
    with _file("tree.export.gz", raw) as path:
        try:
            found = [each.stored() for each in ExportReader(path).exported()]
        except (DamagedFileError, NotZooKeeperFileError):
            found = []
        try:
            assert inspect_export(path).records >= len(found)
        except NotZooKeeperFileError:
            assert not found


TARGETS: Final[Mapping[str, Target]] = {"log": log, "snapshot": snapshot, "snappy": snappy, "export": export}


def seeds(name: str) -> Iterator[bytes]:
    """The first inputs of a fuzzer: small files of real servers, whole and without what the target adds."""
    servers = [FOLDER / "zookeeper" / "3.5.9" / "server-1", FOLDER / "zookeeper" / "3.8.4" / "server-3"]
    for server in servers:
        files = list_files(server / "version-2")
        if name == "log":
            for file in islice(files.logs, 1):
                plain = gzip.decompress(file.path.read_bytes())
                yield plain[:2_000]
                entries = islice(LogReader(file.path), 60)
                yield _SEPARATOR.join(writer.entry(each) for each in entries)
        elif name == "snapshot":
            packed = files.snapshots[1].path.read_bytes()
            yield packed
            if files.snapshots[1].compression == "gz":
                plain = gzip.decompress(packed)
                yield plain
                yield plain[4:-13]
        elif name == "snappy":
            yield writer.snappy_literals(b"znode" * 20)
            yield b"\x14\x10abcde\x32\x05\x00"
    if name == "export":
        yield from _exports(list_files(servers[0] / "version-2").snapshots[1].path)


def _exports(source: Path) -> Iterator[bytes]:
    """The lines of a small export, whole and without the last one."""
    header = ExportHeader(
        time_ms=1, source="files", chroot="/c", zxid_before=1, zxid_after=9, changed=("/a",)
    )
    with _file("unused", b"") as path:
        target = path.with_name("tree.export.gz")
        write_export(
            target, header, (exported(each, 0) for each in islice(open_snapshot(source).znodes(), 12))
        )
        lines = gzip.decompress(target.read_bytes())
    yield lines
    yield lines[: lines.rindex(b"{")]
