"""Records and znodes with which no server starts by default: the limit is that of ZooKeeper 3.9.5."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds import zkfiles_writer as writer
from tests.worlds.server_history import ServerHistory
from zkgroup.audit.findings.files import oversized_transaction
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.opening import open_source
from zkgroup.zkfiles.files import MAX_LOADED_BYTES
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.logs import inspect_log
from zkgroup.zkfiles.snapshots import inspect_snapshot

LIMIT = 2 * 1_048_575
"""`Unreasonable length` is thrown above it (jute.maxbuffer and as much again), for a multi as a whole."""


def _history(size: int, *, parts: int = 1) -> ServerHistory:
    """Three records, of which the second is a create, or a multi of so many, of this many bytes."""
    world = ServerHistory()
    world.create("/a")

    def write(data: int) -> ServerHistory:
        made = ServerHistory()
        made.create("/a")
        pieces = [data // parts + (number < data % parts) for number in range(parts)]
        if parts == 1:
            made.create("/big", b"b" * data)
        else:
            made.multi(
                *(
                    made.creation(f"/n{number:02}", b"b" * piece, number=number + 1)
                    for number, piece in enumerate(pieces)
                )
            )
        made.set("/a", b"1")
        return made

    front = len(writer.entry(write(0).transactions[1]))
    return write(size - front)


@pytest.mark.parametrize("parts", [1, 40])
@pytest.mark.parametrize("servers", [1, 2])
def test_a_transaction_that_no_server_loads_is_named(tmp_path: Path, parts: int, servers: int) -> None:
    """With its size and the settings; one byte less is good. Whole logs, and what audits read of them."""
    assert MAX_LOADED_BYTES == LIMIT
    for size, expected in ((LIMIT, []), (LIMIT + 1, [(2, LIMIT + 1)])):
        folders = [tmp_path / str(size) / str(server) for server in range(servers)]
        for folder in folders:
            log = _history(size, parts=parts).log(folder)
        history = History(*folders)

        health = inspect_log(log)
        found = list(oversized_transaction.find(history, Facts(), {}))

        assert health.is_healthy
        assert [(one.zxid, one.size) for one in health.oversized] == expected
        assert [(one.severity, one.from_zxid) for one in found] == [("error", zxid) for zxid, _ in expected]
        for text in (health.detail, *(one.detail for one in found)):
            if expected:
                assert "2,097,151 bytes" in text
                assert "jute.maxbuffer" in text


def test_reading_rows_as_columns_is_enough(tmp_path: Path) -> None:
    """The sizes are seen in the pass that makes them: nothing is read once more for them."""
    _history(LIMIT + 1).log(tmp_path)
    source = open_source([tmp_path])
    assert len(list(source.rows().parts(1000))) == 2

    assert source.history is not None
    (server,) = source.history.ensemble.servers
    assert [one.zxid for of_log in server.oversized.values() for one in of_log.values()] == [2]


@pytest.mark.parametrize(("size", "number"), [(LIMIT, 0), (LIMIT + 1, 1)])
def test_a_znode_of_a_snapshot_that_no_server_loads_is_named(tmp_path: Path, size: int, number: int) -> None:
    """By its data: a server reads each field on its own there."""
    world = ServerHistory()
    world.create("/big", b"b" * size)

    health = inspect_snapshot(world.snapshot(tmp_path, 1))

    assert (health.is_healthy, len(health.oversized)) == (True, number)
    assert ("jute.maxbuffer" in health.detail) is bool(number)
