"""The live view of `zkgroup demo coordinator`, drawn for terminals of several sizes."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from zkgroup.demo.coordinator.view import (
    CoordinatedGroupRow,
    CoordinatingBrokerRow,
    CoordinatorView,
    GroupMemberRow,
    render,
)
from zkgroup.demo.progress import ProgressEvent

VIEW = CoordinatorView(
    elapsed_s=45.6,
    zookeeper="127.0.0.1:2181",
    headline="confluent-kafka is paused past its session",
    brokers=[
        CoordinatingBrokerRow(1, 100_001, "serving", leads=8, slots=25, coordinates=True, controls=True),
        CoordinatingBrokerRow(2, 100_002, "serving", leads=4, slots=25, coordinates=False, controls=False),
        CoordinatingBrokerRow(3, 100_003, "killed", leads=0, slots=0, coordinates=False, controls=False),
    ],
    group=CoordinatedGroupRow("demo", "PreparingRebalance", 2.5, 101, 1),
    members=[
        GroupMemberRow("kafka-python", 200_001, "killed", None, 2_631, 0, (), gone=True),
        GroupMemberRow("confluent-kafka", 200_002, "paused", 0.4, 2_013, 701, (4, 5, 6, 7), gone=False),
        GroupMemberRow("aiokafka", 200_003, "running", 5.9, 4_832, 32, (0, 1, 2, 3), gone=False),
        GroupMemberRow("java", 200_004, "running", 5.8, 4_891, 17, (8, 9, 10, 11), gone=False),
    ],
    produced=15_143,
    committed=14_393,
    total=20_000,
    events=[ProgressEvent(number, f"thing {number}") for number in range(20)],
)


def drawn(view: CoordinatorView, width: int = 100, height: int = 40) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=False)
    console.print(render(view, width, height))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_view_shows_phase_generation_members_and_lag() -> None:
    """Who coordinates, what the group waits for, when each session ends, and what each member lags."""
    lines = drawn(VIEW)
    rows = [line.split() for line in lines]

    assert ["1", "100001", "serving", "8", "25", "coordinator,", "controller"] in rows
    assert any(
        line.startswith(
            "group demo   PreparingRebalance, ends in 2.5 s   coordinator: broker 1   generation 101"
        )
        for line in lines
    )
    assert ["confluent-kafka", "200002", "paused", "0.4", "s", "2,013", "701", "4", "5", "6", "7"] in rows
    assert ["kafka-python", "200001", "killed", "2,631"] in rows
    assert any("produced 15,143" in line and line.endswith("lag 750") for line in lines)


def test_view_of_a_coordinator_that_does_not_answer() -> None:
    """The last known generation is shown."""
    lines = drawn(replace(VIEW, group=CoordinatedGroupRow("demo", None, None, 2, 3)))

    assert any(
        "the coordinator does not answer   coordinator: broker 3   generation 2" in one for one in lines
    )


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 36), (200, 25)])
def test_view_fits_a_terminal(width: int, height: int) -> None:
    """Brokers, six members, the time and the newest events fit any terminal from 80x24 on."""
    members = [
        *VIEW.members,
        *(replace(VIEW.members[2], name=f"{name} (ZooKeeper)") for name in ("ada", "ben")),
    ]
    lines = drawn(replace(VIEW, members=members), width, height)

    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert lines[0].endswith("45.6 s")
    assert lines[-1].endswith("thing 19")
