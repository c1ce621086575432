"""A log that is inspected by the kernel has the health that it has record by record."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.server_history import ServerHistory
from tests.worlds.zkfiles_tables import counted_reads, needs_kernel
from zkgroup.audit.answers.inspection import health_of
from zkgroup.zkfiles import log_health, servers
from zkgroup.zkfiles.health import FileHealth
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.log_health import inspect_log

pytestmark = needs_kernel


def long_log(folder: Path) -> Path:
    world = ServerHistory()
    world.create("/a")
    for number in range(200):
        world.set("/a", b"%d" % number)
        world.multi(world.change("/a", b"x"), world.creation(f"/a/{number}"))
    return world.log(folder)


def both(log: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[FileHealth | None, FileHealth]:
    """By the kernel, where it can tell, and by what a replay saw, which is the same; and record by record."""
    monkeypatch.setattr(log_health, "QUICK_BYTES", 0)
    monkeypatch.setattr(servers, "QUICK_BYTES", 0)
    seen = log_health._quickly_seen(log)
    quick = None if seen is None else inspect_log(log)
    history = History(log.parent)
    history.verify()
    replayed = history.ensemble.servers[0].seen_logs.get(log)
    assert quick == (None if replayed is None else inspect_log(log, replayed))
    monkeypatch.setattr(log_health, "QUICK_BYTES", 1 << 62)
    return quick, inspect_log(log)


def test_a_whole_log_is_inspected_by_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is that of an inspection record by record."""
    quick, exact = both(long_log(tmp_path), monkeypatch)
    assert quick == exact
    assert (exact.records, exact.last_zxid, exact.is_exact) == (401, 401, True)


def test_logs_that_were_replayed_are_not_read_for_their_health(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of what was verified, of a file that is not read again."""
    monkeypatch.setattr(servers, "QUICK_BYTES", 0)
    log = long_log(tmp_path / "version-2")
    history = History(tmp_path)
    history.verify()
    with counted_reads() as read:
        (health,) = health_of([tmp_path], history)
    assert read[log.name] < log.stat().st_size / 2
    assert [health] == list(health_of([tmp_path]))


@pytest.mark.parametrize("name", ["log.1", "log.7"])
def test_a_log_that_is_being_written_has_the_same_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Its last record is not whole; one that was renamed says so."""
    log = tmp_path / name
    log.write_bytes(long_log(tmp_path / "whole").read_bytes().rstrip(b"\0")[:-20])
    quick, exact = both(log, monkeypatch)
    assert quick == exact
    assert not exact.is_exact
    assert ("the name says" in exact.detail) == (name != "log.1")


def test_damage_and_disorder_are_inspected_record_by_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong byte, and records that go back: only the exact inspection reports both."""
    log = long_log(tmp_path)
    raw = log.read_bytes()
    log.write_bytes(raw[:9000] + bytes([raw[9000] ^ 1]) + raw[9001:])
    quick, exact = both(log, monkeypatch)
    assert (quick, exact.is_healthy) == (None, False)

    log.write_bytes(raw.rstrip(b"\0") + raw[16:])
    quick, exact = both(log, monkeypatch)
    assert quick is None
    assert "behind" in exact.detail
