"""The files of a server are read while it writes them, and after it was killed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import eventually, joined
from tests.worlds.other_clients import kazoo_on
from zkgroup.zkfiles.files import ServerFile, list_files
from zkgroup.zkfiles.logs import Hop, LogReader, has_hop, inspect_log, last_record
from zkgroup.zkfiles.records import Transaction, TransactionType
from zkgroup.zkfiles.snapshots import inspect_snapshot
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

WRITES = 500


@pytest.fixture
def zookeeper() -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(fsync=False) as started:
        yield started


def _write(address: str, looks: list[int]) -> None:
    """Data of all sizes, so that records end at any place of a page; five times it waits for a look."""
    with kazoo_on(address) as client:
        client.create("/a")
        for number in range(WRITES):
            client.set("/a", b"B\0\0\0\0" * (number * 37 % 900))
            if number % (WRITES // 5) == 0:
                seen = len(looks)
                eventually(lambda seen=seen: len(looks) > seen)


def _newest(folder: Path) -> ServerFile:
    return list_files(folder).logs[-1]


def test_a_log_is_read_while_its_server_writes(zookeeper: EmbeddedZooKeeper) -> None:
    """Each look finds what the one before found, and more; nothing is ever taken for damage."""
    server = zookeeper.server(0)
    looks: list[int] = []
    writer = threading.Thread(target=_write, args=(server.address, looks))
    writer.start()
    known: Hop | None = None
    try:
        while writer.is_alive():
            if not (server.folder / "version-2").is_dir() or not list(server.folder.glob("version-2/log.*")):
                continue
            log = _newest(server.folder).path
            reader = LogReader(log)
            zxids = [each.zxid for each in reader]
            assert zxids == list(range(1, len(zxids) + 1))
            looks.append(len(zxids))
            assert inspect_log(log).is_healthy
            if known is not None:
                assert has_hop(log, known)
            known = last_record(log, known)
    finally:
        joined(writer)
    assert looks == sorted(looks)
    assert len(set(looks)) > 3
    server.kill()
    log = _newest(server.folder).path
    health = inspect_log(log)
    assert health.is_healthy
    found: list[Transaction] = list(LogReader(log))
    assert sum(each.type == TransactionType.SET_DATA for each in found) == WRITES
    assert [each.zxid for each in found] == list(range(1, len(found) + 1))
    assert all(each.digest is not None for each in found if each.type != TransactionType.ERROR)
    assert last_record(log, known) == last_record(log)


def test_the_snapshot_of_a_start_is_whole(zk_server_process: EmbeddedZooKeeper) -> None:
    """Nothing is written while a server starts, so it is exact too."""
    server = zk_server_process.server(0)
    first = list_files(server.folder).snapshots[0]
    health = inspect_snapshot(first.path)
    assert health.is_healthy
    assert health.is_exact
