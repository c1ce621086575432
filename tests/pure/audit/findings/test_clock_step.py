"""Clocks that go back."""

from __future__ import annotations

from pathlib import Path

from tests.worlds.audit_folders import calm, look, places
from zkgroup.audit.findings.files import clock_step


def test_a_step_back_is_a_warning_with_its_size(tmp_path: Path) -> None:
    """A record earlier than the one before is a warning: by how much, within an epoch or at an election."""
    world = calm(1 << 32 | 1)
    world.clock_steps(-6_000)
    within = world.create("/c")
    world.new_epoch()
    world.clock_steps(-1_500)
    across = world.create("/d")
    world.log(tmp_path)

    found = look(clock_step, tmp_path)

    assert places(found) == [("warning", within, within), ("warning", across, across)]
    assert [each.detail for each in found] == [
        "the leader's clock went back by 5.0 s within epoch 1",
        "the leader's clock went back by 500 ms at the election of epoch 2",
    ]
    assert places(look(clock_step, tmp_path, least_ms=1_000)) == [("warning", within, within)]


def test_steps_forward_and_records_of_one_millisecond_are_none(tmp_path: Path) -> None:
    """An hour forward, and two records of the same millisecond, are no clock that went back."""
    world = calm()
    world.clock_steps(3_600_000)
    world.create("/c")
    world.clock_steps(-1_000)
    world.create("/d")
    world.log(tmp_path)

    assert look(clock_step, tmp_path) == []
