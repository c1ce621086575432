"""Where two logs part: the marks of leader epochs, as numbers."""

from __future__ import annotations

import pytest

from zkgroup.broker.log.leader_epochs import EpochStart, LeaderEpochs
from zkgroup.wire.records import EpochEnd

MARKS = LeaderEpochs((EpochStart(1, 0), EpochStart(3, 4), EpochStart(6, 9)))
"""Of a log that ends at 12."""


@pytest.mark.parametrize(
    ("leader_epoch", "expected"),
    [
        (-1, EpochEnd(-1, 0)),
        (0, EpochEnd(0, 0)),
        (1, EpochEnd(1, 4)),
        (2, EpochEnd(1, 4)),
        (3, EpochEnd(3, 9)),
        (5, EpochEnd(3, 9)),
        (6, EpochEnd(6, 12)),
        (9, EpochEnd(6, 12)),
    ],
)
def test_end_of_an_epoch(leader_epoch: int, expected: EpochEnd) -> None:
    """The end of the latest epoch that is not later; an epoch before the first ends where that starts."""
    assert MARKS.end_of(leader_epoch, 12) == expected


@pytest.mark.parametrize(("offset", "expected"), [(0, -1), (1, 1), (4, 1), (5, 3), (9, 3), (10, 6), (12, 6)])
def test_epoch_of_the_record_before(offset: int, expected: int) -> None:
    """An epoch that begins at the offset has no part in the record before it."""
    assert MARKS.epoch_before(offset) == expected


@pytest.mark.parametrize(
    ("last_fetched_epoch", "offset", "expected"),
    [
        (-1, 0, None),
        (1, 4, None),
        (1, 2, None),
        (1, 5, EpochEnd(1, 4)),
        (2, 5, EpochEnd(1, 4)),
        (2, 3, EpochEnd(1, 4)),
        (6, 12, None),
        (6, 13, EpochEnd(6, 12)),
        (0, 1, EpochEnd(0, 0)),
        (-1, 1, None),
    ],
)
def test_what_diverges(last_fetched_epoch: int, offset: int, expected: EpochEnd | None) -> None:
    """The epoch is not there, or ends below the offset; a log without records does not diverge."""
    assert MARKS.diverging(12, last_fetched_epoch, offset) == expected


@pytest.mark.parametrize(
    ("diverging", "expected"),
    [
        (EpochEnd(3, 7), 7),
        (EpochEnd(3, 20), 9),
        (EpochEnd(5, 20), 9),
        (EpochEnd(0, 3), 0),
        (EpochEnd(-1, 0), 0),
    ],
)
def test_where_a_follower_cuts(diverging: EpochEnd, expected: int) -> None:
    """The smaller of the follower's own end of the epoch and the leader's."""
    assert MARKS.cut_point(12, diverging) == expected


def test_a_log_whose_first_records_are_deleted_agrees_with_one_that_ends_where_it_starts() -> None:
    """The epoch of the record before is not known any more; with a record more the other log diverges."""
    marks = MARKS.drop_before(6)

    assert marks == (EpochStart(3, 6), EpochStart(6, 9))
    assert (marks.end_of(1, 12), marks.end_of(-1, 12)) == (EpochEnd(1, 6), EpochEnd(-1, 0))
    assert marks.diverging(12, 1, 6) is None
    assert marks.diverging(12, 1, 7) == EpochEnd(1, 6)


def test_an_epoch_without_records_is_forgotten() -> None:
    """At the next one, and by a cut; the same again changes nothing, an earlier one is refused."""
    waiting = MARKS.begin(7, 12)

    assert waiting.last == 7
    assert waiting.begin(8, 12) == (*MARKS, EpochStart(8, 12))
    assert waiting.begin(7, 15) is waiting
    assert waiting.cut(12) == MARKS
    with pytest.raises(ValueError, match="epoch 6 cannot follow epoch 7"):
        waiting.begin(6, 12)
