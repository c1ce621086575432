"""The verdict on lag: Burrow's own cases, and what the window of a series of reads keeps."""

from collections.abc import Sequence

import pytest

from zkgroup.groups.lag_verdict import READS, Commit, LagVerdict, LagWindow, lag_verdict

OK, WARN, STOP, STALL, REWIND = LagVerdict

Window = tuple[list[float], list[int | None], list[int], int, int, LagVerdict]

BURROW: dict[str, Window] = {
    "0: no lag somewhere": ([1, 2, 3, 4, 5], [0, 50, 100, 150, 200], [5200], 200, 600, OK),
    "1: silent as long as the window": ([1, 2, 3, 4, 5], [0, 50, 100, 150, 200], [5200], 200, 900, OK),
    "2: silent, once without lag": ([1, 2, 3, 4, 5], [0, 50, 100, 150, 200], [5200], 200, 1000, STOP),
    "3: silent, always with lag": ([1, 2, 3, 4, 5], [50, 100, 150, 200, 250], [5250], 250, 1000, STOP),
    "4: the same offset, once without lag": ([1] * 5, [0, 50, 100, 150, 200], [1200], 200, 600, OK),
    "5: the same offset, always with lag": ([1] * 5, [100, 150, 200, 250, 300], [1300], 300, 600, STALL),
    "6: the same offset and the same lag": ([1] * 5, [100] * 5, [1100], 100, 600, STALL),
    "7: rewound and recovered": ([1, 2, 3, 2, 4], [100, 150, 200, 1250, 300], [4300], 300, 600, OK),
    "8: silent, and no lag now": ([1, 2, 3, 4, 5], [50, 100, 150, 200, 250], [5250], 0, 1000, OK),
    "9: silent, lag of new records only": ([1, 2, 3], [0, 0, 0], [3931, 3700, 3100], 931, 1000, STOP),
    "10: silent, no lag at a recent log end": ([1, 2, 3], [0, 0, 0], [3001, 3000, 3000], 1, 1000, OK),
    "11: some lags are not known": ([1, 1.5, 2, 2.5, 3], [0, None, 50, None, 100], [3100], 100, 600, OK),
    "15: rewound and not recovered": (
        [1, 2, 3, 2, 2.5],
        [100, 150, 200, 1250, 300],
        [4300],
        300,
        600,
        REWIND,
    ),
    "slower than its producer": ([1, 2, 3, 4, 5], [50, 100, 100, 150, 200], [5200], 200, 600, WARN),
}
"""Thousands of offsets, their lags, log ends, lag now, time now. Commits are at 100 s, 200 s and so on."""


@pytest.mark.parametrize("name", BURROW)
def test_windows_are_judged_as_by_burrow(name: str) -> None:
    """Burrow's cases 0 to 11 and 15, and a consumer that only falls behind."""
    offsets, lags, ends, lag, now_s, expected = BURROW[name]
    commits = [
        Commit(int(thousands * 1000), number * 100_000, lag_then)
        for number, (thousands, lag_then) in enumerate(zip(offsets, lags, strict=True), 1)
    ]
    assert lag_verdict(commits, ends, lag, now_ms=now_s * 1000) is expected


Read = tuple[int | None, int | None, int | None]
"""Offset, time of the commit in seconds, log end."""


def _verdicts(reads: Sequence[Read]) -> list[LagVerdict | None]:
    """The verdicts on reads that are 15 s apart, the first at 1000 s."""
    window = LagWindow()
    return [
        window.read(offset, None if at is None else at * 1000, end, now_ms=(1000 + 15 * number) * 1000)
        for number, (offset, at, end) in enumerate(reads)
    ]


def test_one_read_knows_only_that_there_is_no_lag() -> None:
    """An old commit alone is no verdict; nor is one without a log end or an offset."""
    assert _verdicts([(7, 999, 7)]) == [OK]
    assert _verdicts([(7, 10, 8)]) == [None]
    assert _verdicts([(7, 10, None)]) == _verdicts([(None, None, 7)]) == [None]


def test_a_consumer_that_is_gone_has_stopped_after_ten_reads() -> None:
    """Its only commit is older than the window."""
    assert _verdicts([(7, 10, 8)] * (READS + 1)) == [None] * (READS - 1) + [STOP, STOP]


def test_a_claim_is_no_commit_and_its_time_is_that_of_the_read() -> None:
    """The claim of a partition writes its offset znode, which hides the time of the last commit."""
    assert _verdicts([(7, None, 8)] * READS) == [None] * (READS - 1) + [STOP]
    moved: list[Read] = [(7 + number, None, 20 + number) for number in range(READS)]
    assert _verdicts(moved)[-1] is WARN


def test_a_decrease_of_the_offset_is_certain_at_once_and_ends_when_it_is_made_up_for() -> None:
    """It needs no complete window."""
    reads: list[Read] = [(90, 999, 100), (5, 1010, 110), (80, 1025, 120), (90, 1040, 130)]
    assert _verdicts(reads) == [None, REWIND, REWIND, None]


def test_a_consumer_that_keeps_up_with_a_busy_topic_is_ok_though_each_read_finds_lag() -> None:
    """It commits some seconds before each read: the lag at a commit is that of the log end known by then."""
    reads: list[Read] = [(100 * n - 30, 1000 + 15 * n - 5, 100 * n) for n in range(1, READS + 3)]
    assert _verdicts(reads)[-3:] == [OK] * 3


def test_a_log_end_that_is_not_known_is_no_verdict_and_loses_no_commit() -> None:
    """The leader is away for three reads of a slow consumer."""
    slow: list[Read] = [(10 * n, 1000 + 15 * n, 100 * n) for n in range(1, READS + 1)]
    away: list[Read] = [(10 * n, 1000 + 15 * n, None) for n in range(READS + 1, READS + 4)]
    back: list[Read] = [(10 * n, 1000 + 15 * n, 100 * n) for n in range(READS + 4, READS + 6)]
    assert _verdicts(slow + away + back)[-6:] == [WARN, None, None, None, WARN, WARN]


def test_offsets_that_were_deleted_begin_a_window() -> None:
    """A lower offset after them is no rewind."""
    reads: list[Read] = [(90, 999, 100), (None, None, 100), (5, 1030, 100)]
    assert _verdicts(reads) == [None, None, None]
