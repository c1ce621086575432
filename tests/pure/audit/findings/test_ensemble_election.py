"""Elections of ZooKeeper's own leader."""

from __future__ import annotations

from pathlib import Path

from tests.worlds.audit_folders import calm, look, places
from zkgroup.audit.findings.files import ensemble_election

EPOCH = 1 << 32


def test_a_new_epoch_is_reported_with_the_time_without_a_write(tmp_path: Path) -> None:
    """A new epoch is a row from the last record of the old one to its own first, with the time between."""
    world = calm(EPOCH | 1)
    last, last_ms = world.zxid, world.ms
    world.clock_steps(6_000)
    world.new_epoch()
    first = world.create("/c")
    world.log(tmp_path)

    (found,) = look(ensemble_election, tmp_path)

    assert (found.severity, found.from_zxid, found.to_zxid) == ("info", last, first)
    assert (found.from_ms, found.to_ms) == (last_ms, world.ms)
    assert found.detail == "epoch 1 -> 2, no write for 7.0 s"


def test_epochs_in_which_nothing_was_written_are_counted(tmp_path: Path) -> None:
    """From epoch 1 to 4 is one row, which says that 2 epochs between them left no record."""
    world = calm(EPOCH | 1)
    world.new_epoch()
    world.skip(2 * EPOCH)
    world.create("/c")
    world.log(tmp_path)

    assert [each.detail for each in look(ensemble_election, tmp_path)] == [
        "epoch 1 -> 4, no write for 1.0 s; 2 epochs between them without a write"
    ]


def test_two_servers_give_one_finding(tmp_path: Path) -> None:
    """The same election in the logs of two servers is one row."""
    world = calm(EPOCH | 1)
    last = world.zxid
    world.new_epoch()
    first = world.create("/c")
    for name in ("one", "two"):
        world.log(tmp_path / name)

    assert places(look(ensemble_election, tmp_path / "one", tmp_path / "two")) == [("info", last, first)]
