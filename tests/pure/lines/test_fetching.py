"""What answers of leaders mean to a reader."""

from __future__ import annotations

import pytest

from zkgroup.lines.fetching import Fetching, Verdict
from zkgroup.model import TopicPartition
from zkgroup.wire.replica_host import EpochEnd, FetchLinesResponse, records_of

TP, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
ABC = records_of([b"a", b"b", b"c"], timestamp_ms=1, base_offset=4, leader_epoch=2)


def answer(
    records: bytes = b"", high_watermark: int = 100, diverging: EpochEnd | None = None
) -> FetchLinesResponse:
    return FetchLinesResponse(0, high_watermark, 100, diverging, records)


def asking(offset: int) -> Fetching:
    fetching = Fetching(1000)
    fetching.want({TP: offset})
    assert fetching.ready() == [TP]
    fetching.request(TP, 2, 10)
    assert fetching.ready() == []
    return fetching


@pytest.mark.parametrize(
    ("offset", "high_watermark", "lines"),
    [
        (4, 100, [(4, b"a"), (5, b"b"), (6, b"c")]),
        (6, 100, [(6, b"c")]),
        (5, 6, [(5, b"b")]),
        (5, 5, []),
        (6, 4, []),
    ],
)
def test_lines_from_the_position_up_to_the_high_watermark(
    offset: int, high_watermark: int, lines: list[tuple[int, bytes]]
) -> None:
    """A batch may begin before the one and end behind the other."""
    fetching = asking(offset)
    verdict = fetching.answered(TP, answer(ABC, high_watermark=high_watermark))

    assert verdict is (Verdict.LINES if lines else Verdict.NOTHING)
    assert [line[1:] for line in fetching.take(10)] == lines


def test_the_next_question_tells_the_epoch_of_the_last_line() -> None:
    """So a log that parts from what was read is noticed; a position from elsewhere tells none."""
    fetching = asking(4)
    fetching.answered(TP, answer(ABC))
    fetching.take(10)
    fetching.want({TP: 7})
    request = fetching.request(TP, 3, 10)
    assert (request.offset, request.last_fetched_epoch, request.leader_epoch) == (7, 2, 3)

    assert fetching.answered(TP, answer(diverging=EpochEnd(1, 5))) is Verdict.OUT_OF_RANGE
    fetching.forget(TP)
    fetching.want({TP: 7})
    assert fetching.request(TP, 3, 10).last_fetched_epoch == -1


def test_an_answer_to_a_former_position_is_dropped() -> None:
    """The position was changed while it was under way."""
    fetching = asking(4)
    fetching.want({TP: 5})
    assert fetching.ready() == []

    assert fetching.answered(TP, answer(ABC)) is Verdict.NOTHING
    assert (fetching.take(10), fetching.ready()) == ([], [TP])


def test_out_of_range_is_believed_the_second_time() -> None:
    """Once from a leader that was looked for anew; an answer in between takes it back."""
    fetching = asking(4)
    out = FetchLinesResponse(1, -1, -1)
    assert fetching.answered(TP, out) is Verdict.DOUBT
    assert "offset 4 is out of range" in fetching.trouble(TP)
    fetching.request(TP, 2, 10)
    assert fetching.answered(TP, answer()) is Verdict.NOTHING
    for verdict in (Verdict.DOUBT, Verdict.OUT_OF_RANGE):
        fetching.request(TP, 2, 10)
        assert fetching.answered(TP, out) is verdict


@pytest.mark.parametrize(
    "records",
    [
        ABC[:-2] + bytes([ABC[-2] ^ 1]) + ABC[-1:],
        ABC[:-1],
        records_of([b"x"], timestamp_ms=1, base_offset=9, leader_epoch=2),
        records_of([b"x"], timestamp_ms=1, base_offset=3, leader_epoch=2),
    ],
    ids=["checksum", "cut short", "behind", "before"],
)
def test_what_does_not_fit_is_not_taken(records: bytes) -> None:
    """Damaged, or not at the position: the leader is doubted, and asked again."""
    fetching = asking(4)

    assert fetching.answered(TP, answer(records)) is Verdict.DOUBT
    assert (fetching.take(10), fetching.ready()) == ([], [TP])


@pytest.mark.parametrize("error", [3, 6, 74, 75, 42])
def test_errors_are_doubts(error: int) -> None:
    """Whatever they are: leaders are looked for again."""
    assert asking(4).answered(TP, FetchLinesResponse(error, -1, -1)) is Verdict.DOUBT


def test_who_waits_longest_is_asked_first() -> None:
    """Where partitions share connections, none is forgotten."""
    fetching = Fetching(1000)
    fetching.want({TP: 0, OTHER: 0})
    fetching.request(TP, 0, 0)
    fetching.answered(TP, answer())

    assert fetching.ready() == [OTHER, TP]
    fetching.request(OTHER, 0, 0)
    assert (fetching.ready(), fetching.under_way) == ([TP], 1)
    fetching.unanswered(OTHER)
    assert fetching.ready() == [TP, OTHER]
