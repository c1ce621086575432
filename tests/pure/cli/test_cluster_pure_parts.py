"""Sizes, settings in Kafka's syntax, progress: text from values."""

from __future__ import annotations

from dataclasses import replace

import pytest
from zkgroup_cli.commands.config import split_settings
from zkgroup_cli.reassignments import progress, progress_text
from zkgroup_cli.units import parse_size, size

from zkgroup.admin.reassign.progress import ReassignmentProgress


@pytest.mark.parametrize(
    ("text", "count"),
    [("500kB", 500_000), ("10MB", 10**7), ("1.5gib", 1_610_612_736), ("7b", 7)],
)
def test_sizes_have_units(text: str, count: int) -> None:
    """kB is 1000 bytes, KiB 1024, whatever the case of the letters."""
    assert parse_size(text) == count


@pytest.mark.parametrize(("text", "message"), [("10", "10MB"), ("ten", "for example"), ("-1MB", "no size")])
def test_other_sizes_are_refused_with_a_hint(text: str, message: str) -> None:
    """A bare number would be a guess."""
    with pytest.raises(ValueError, match=message):
        parse_size(text)


def test_sizes_are_shown_in_their_largest_unit() -> None:
    """As people read them."""
    assert [size(count) for count in (0, 999, 1500, 5 * 10**7, 3 * 10**12)] == [
        "0 B", "999 B", "1.5 kB", "50.0 MB", "3.0 TB"
    ]  # fmt: skip


def test_settings_are_split_outside_of_brackets() -> None:
    """`a=[x,y],b=1`: two settings."""
    assert list(split_settings("a=[x,y],b=1,c=")) == ["a=[x,y]", "b=1", "c="]


def test_progress_has_rate_and_time_left() -> None:
    """Once something was done between two reads; not at the end."""
    assert progress_text(ReassignmentProgress(done=0, total=1, elapsed_ms=5000)) == "0 of 1 partition done"
    halfway = ReassignmentProgress(done=3, total=12, elapsed_ms=120_000)
    assert progress_text(halfway) == "3 of 12 partitions done, 1.5 a minute, 6m left"
    slow = ReassignmentProgress(done=1, total=12, elapsed_ms=3_600_000)
    assert progress_text(slow).endswith("11h00m left")
    quick = ReassignmentProgress(done=11, total=12, elapsed_ms=11_000)
    assert progress_text(quick).endswith("1s left")
    assert progress_text(ReassignmentProgress(done=12, total=12, elapsed_ms=9)) == "12 of 12 partitions done"
    sized = ReassignmentProgress(done=3, total=12, elapsed_ms=60_000, bytes_left=4_200_000_000)
    assert progress_text(sized) == "3 of 12 partitions done, 4.2 GB left"
    told = progress_text(replace(sized, bytes_done=2_100_000_000))
    assert told == "3 of 12 partitions done, 4.2 GB left at 35.0 MB/s, 2m left"


def test_without_a_terminal_a_line_comes_at_each_change(capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, so that data on stdout stays data."""
    with progress() as show:
        for done in (0, 0, 1, 1):
            show(ReassignmentProgress(done=done, total=2, elapsed_ms=0))

    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == ("", ["0 of 2 partitions done", "1 of 2 partitions done"])
