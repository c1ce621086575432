"""A log that is inspected by the kernel has the health that it has record by record."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.server_history import ServerHistory
from tests.worlds.zkfiles_tables import needs_kernel
from zkgroup.zkfiles.logs import FileHealth, inspect_log

pytestmark = needs_kernel


def long_log(folder: Path) -> Path:
    world = ServerHistory()
    world.create("/a")
    for number in range(200):
        world.set("/a", b"%d" % number)
        world.multi(world.change("/a", b"x"), world.creation(f"/a/{number}"))
    return world.log(folder)


def exactly(log: Path, monkeypatch: pytest.MonkeyPatch) -> FileHealth:
    """The health record by record, which is that by the kernel."""
    quick = inspect_log(log)
    monkeypatch.setenv("ZKGROUP_KERNEL", "off")
    assert inspect_log(log) == quick
    monkeypatch.delenv("ZKGROUP_KERNEL")
    return quick


def test_a_whole_log_is_inspected_by_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is that of an inspection record by record."""
    exact = exactly(long_log(tmp_path), monkeypatch)
    assert (exact.records, exact.last_zxid, exact.is_exact) == (401, 401, True)


@pytest.mark.parametrize("name", ["log.1", "log.7"])
def test_a_log_that_is_being_written_has_the_same_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Its last record is not whole; one that was renamed says so."""
    log = tmp_path / name
    log.write_bytes(long_log(tmp_path / "whole").read_bytes().rstrip(b"\0")[:-20])
    exact = exactly(log, monkeypatch)
    assert not exact.is_exact
    assert ("the name says" in exact.detail) == (name != "log.1")


def test_damage_and_disorder_are_inspected_record_by_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong byte, and records that go back: only the exact inspection reports both."""
    log = long_log(tmp_path)
    raw = log.read_bytes()
    log.write_bytes(raw[:9000] + bytes([raw[9000] ^ 1]) + raw[9001:])
    exact = exactly(log, monkeypatch)
    assert not exact.is_healthy

    log.write_bytes(raw.rstrip(b"\0") + raw[16:])
    exact = exactly(log, monkeypatch)
    assert "behind" in exact.detail
