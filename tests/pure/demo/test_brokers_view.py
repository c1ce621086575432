"""The live view of `zkgroup demo brokers`, drawn for terminals of several sizes."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from zkgroup.demo.brokers.view import BrokerRow, ClusterView, LedPartitionRow, render
from zkgroup.demo.progress import ProgressEvent

VIEW = ClusterView(
    elapsed_s=45.6,
    zookeeper="127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183",
    headline="broker 2 is dead; its session lives for 4 s more",
    brokers=[
        BrokerRow(1, 100_001, "serving", 3, leads=12, in_sync=24, hosts=24),
        BrokerRow(2, 100_002, "killed", None, leads=0, in_sync=0, hosts=24),
        BrokerRow(3, 100_003, "serving", None, leads=11, in_sync=24, hosts=24),
        BrokerRow(4, 100_004, "serving", None, leads=0, in_sync=0, hosts=24),
    ],
    partitions=[
        LedPartitionRow(
            partition=number,
            leader=None if number == 7 else 3,
            leader_epoch=12,
            isr=(1, 3),
            replicas=(4, 3, 1, 2),
            high_watermark=1_234 + number,
        )
        for number in range(24)
    ],
    acknowledged=12_345,
    consumed=12_000,
    total=20_000,
    open_moves=13,
    events=[ProgressEvent(number, f"thing {number}") for number in range(20)],
)


def drawn(view: ClusterView, width: int = 100, height: int = 40) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=False)
    console.print(render(view, width, height))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_view_names_brokers_with_what_they_do() -> None:
    """Process, state, leaderships, replicas in sync of those it has, and who is controller in which epoch."""
    rows = [line.split() for line in drawn(VIEW)]

    assert ["1", "100001", "serving", "12", "24", "24", "controller,", "epoch", "3"] in rows
    assert ["2", "100002", "killed", "0", "0", "24"] in rows


def test_view_shows_leader_epoch_isr_and_high_watermark_of_each_partition() -> None:
    """Replicas that are not in sync stand in brackets; a partition without leader says so."""
    cells = " ".join(drawn(VIEW)).split()

    for number in range(24):
        leader = "none" if number == 7 else "3@12"
        at = next(i for i in range(len(cells)) if cells[i : i + 2] == [str(number), leader])
        assert cells[at + 2 : at + 4] == ["13(24)", f"{1_234 + number:,}"]


def test_view_shows_the_progress_of_records_and_reassignments() -> None:
    """Acknowledged, consumed, and moves that are open."""
    text = "\n".join(drawn(VIEW))

    assert "acknowledged 12,345" in text
    assert "consumed 12,000" in text
    assert "moving 13" in text


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 36), (120, 40), (200, 25)])
def test_view_fits_a_terminal(width: int, height: int) -> None:
    """Four brokers, 24 partitions and the newest events fit any terminal from 80x24 on."""
    lines = drawn(VIEW, width, height)

    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert lines[-1].endswith("thing 19")


def test_view_before_there_is_a_topic() -> None:
    """Brokers start before there is a partition to show."""
    empty = ClusterView(1, "z", "starting", VIEW.brokers, (), 0, 0, 0, 0, ())

    assert any("zkgroup demo brokers" in line for line in drawn(empty))
