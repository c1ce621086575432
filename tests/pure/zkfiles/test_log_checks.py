"""A log that is inspected by the kernel has the health that it has record by record."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.server_history import ServerHistory
from tests.worlds.zkfiles_tables import counted_reads, needs_kernel
from zkgroup.audit.answers.inspection import health_of
from zkgroup.zkfiles import servers
from zkgroup.zkfiles.health import FileHealth, inspect_log
from zkgroup.zkfiles.history import History

pytestmark = needs_kernel


def long_log(folder: Path) -> Path:
    world = ServerHistory()
    world.create("/a")
    for number in range(200):
        world.set("/a", b"%d" % number)
        world.multi(world.change("/a", b"x"), world.creation(f"/a/{number}"))
    return world.log(folder)


def exactly(log: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[FileHealth, bool]:
    """The health record by record, which is that by the kernel; and whether a replay saw the same."""
    quick = inspect_log(log)
    monkeypatch.setattr(servers, "QUICK_BYTES", 0)
    history = History(log.parent)
    history.verify()
    replayed = history.ensemble.servers[0].seen_logs.get(log)
    assert replayed is None or inspect_log(log, replayed) == quick
    monkeypatch.setenv("ZKGROUP_KERNEL", "off")
    assert inspect_log(log) == quick
    monkeypatch.delenv("ZKGROUP_KERNEL")
    return quick, replayed is not None


def test_a_whole_log_is_inspected_by_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is that of an inspection record by record."""
    exact, is_seen = exactly(long_log(tmp_path), monkeypatch)
    assert is_seen
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
    exact, is_seen = exactly(log, monkeypatch)
    assert is_seen
    assert not exact.is_exact
    assert ("the name says" in exact.detail) == (name != "log.1")


def test_damage_and_disorder_are_inspected_record_by_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong byte, and records that go back: only the exact inspection reports both."""
    log = long_log(tmp_path)
    raw = log.read_bytes()
    log.write_bytes(raw[:9000] + bytes([raw[9000] ^ 1]) + raw[9001:])
    exact, is_seen = exactly(log, monkeypatch)
    assert (is_seen, exact.is_healthy) == (False, False)

    log.write_bytes(raw.rstrip(b"\0") + raw[16:])
    exact, is_seen = exactly(log, monkeypatch)
    assert not is_seen
    assert "behind" in exact.detail
