"""The live view of `zkgroup demo group`, drawn for terminals of several sizes."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from zkgroup.demo.group.view import GroupView, MemberRow, OwnedPartitionRow, render
from zkgroup.demo.progress import ProgressEvent
from zkgroup.demo.screen import LiveScreen

VIEW = GroupView(
    elapsed_s=12.3,
    zookeeper="127.0.0.1:2181",
    headline="ben is dead",
    members=[
        MemberRow("ada", 101, "stable", (0, 1, 2, 3), 1234, gone=False),
        MemberRow("ben", 102, "killed", (), 900, gone=True),
    ],
    partitions=[
        OwnedPartitionRow(partition=0, owner="ada", token=17, offset=40, end=100),
        OwnedPartitionRow(partition=1, owner=None, token=None, offset=0, end=2_000),
    ],
    events=[ProgressEvent(number, f"thing {number}") for number in range(20)],
)

WHOLE = GroupView(
    elapsed_s=1,
    zookeeper="127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183/a/long/chroot",
    headline="ben is dead; its session lives for 4 s more",
    members=[
        MemberRow(name, 100_000, "stable", (0, 1, 2, 3), 12_345, gone=False)
        for name in ("ada", "ben", "cleo", "dan")
    ],
    partitions=[
        OwnedPartitionRow(partition=number, owner="ada", token=4294967330, offset=10, end=2_000)
        for number in range(12)
    ],
    events=VIEW.events,
)


def drawn(view: GroupView, width: int = 100, height: int = 40) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=False)
    console.print(render(view, width, height))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def row(lines: list[str], start: str) -> list[str]:
    return next(line.split() for line in lines if line.split()[:1] == [start])


def test_view_names_members_with_state_records_and_partitions() -> None:
    """Each process is a row, the dead one too."""
    lines = drawn(VIEW)

    assert row(lines, "ada") == ["ada", "101", "stable", "1,234", "0", "1", "2", "3"]
    assert row(lines, "ben") == ["ben", "102", "killed", "900"]


def test_view_shows_owner_offset_and_lag_of_each_partition() -> None:
    """Partitions are rows with owner, token, offset and lag; one without owner says so."""
    lines = drawn(VIEW)

    assert row(lines, "0")[:5] == ["0", "ada", "17", "40", "60"]
    assert row(lines, "1")[:4] == ["1", "none", "0", "2,000"]
    assert any(line.split()[:2] == ["40", "2,060"] for line in lines)


def test_view_says_which_demo_it_is() -> None:
    """The group of another demo is shown under that one's command."""
    assert drawn(VIEW)[0].startswith("zkgroup demo  ben is dead")
    other = replace(VIEW, command="zkgroup demo audit")
    assert drawn(other)[0].startswith("zkgroup demo audit  ben is dead")


def test_view_ends_with_the_newest_events() -> None:
    """Only the newest lines are shown, so that the screen does not scroll."""
    lines = drawn(VIEW)

    assert lines[-1].endswith("thing 19")
    assert not any(line.endswith("thing 7") for line in lines)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 36), (120, 40), (200, 25)])
def test_view_of_a_whole_demo_fits_a_terminal(width: int, height: int) -> None:
    """Four members, twelve partitions and the newest events fit any terminal from 80x24 on."""
    lines = drawn(WHOLE, width, height)

    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert [line for line in lines if line.startswith("dan")] != []
    assert sum(line.count("ada ") for line in lines) >= 12
    assert any("thing 19" in line for line in lines)


def test_low_terminal_shows_partitions_in_two_columns() -> None:
    """Each half has its header, and the total stands below."""
    lines = drawn(WHOLE, 80, 24)

    assert any(line.split().count("partition") == 2 for line in lines)
    assert any("120 of 24,000 committed" in line for line in lines)


def test_partition_without_owner_is_no_alarm_when_all_have_left() -> None:
    """A partition without owner is red while members run, and dim after all have left."""
    left = GroupView(1, "z", "leaving", [MemberRow("ada", 1, "left", (), 1, gone=True)], VIEW.partitions, ())

    assert "1;31mnone" in colored(VIEW)
    assert "2mnone" in colored(left)


def colored(view: GroupView) -> str:
    file = io.StringIO()
    Console(file=file, force_terminal=True, color_system="standard", width=100, _environ={}).print(
        render(view)
    )
    return file.getvalue()


def test_live_screen_leaves_the_terminal_as_it_was() -> None:
    """Views are drawn on the alternate screen; afterwards the events follow what was there before."""
    file = io.StringIO()

    with LiveScreen(
        Console(file=file, width=100, height=40, force_terminal=True, color_system=None), render
    ) as screen:
        screen.on_event(VIEW.events[0])
        screen.show(VIEW)
        screen.show(VIEW)

    during, after = file.getvalue().split("\x1b[?1049l")
    assert during.count("zkgroup demo") >= 2
    assert after.strip().endswith("thing 0")


def test_before_the_first_view_the_screen_shows_the_events() -> None:
    """A server takes seconds to start on a slow machine; the screen is not empty meanwhile."""
    file = io.StringIO()

    with LiveScreen(
        Console(file=file, width=100, height=40, force_terminal=True, color_system=None), render
    ) as screen:
        screen.on_event(VIEW.events[0])
        assert "thing 0" in file.getvalue()
        screen.show(VIEW)
        drawn = file.getvalue()
        screen.on_event(VIEW.events[1])
        assert file.getvalue() == drawn
