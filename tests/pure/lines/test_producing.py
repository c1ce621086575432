"""What becomes of lines, answer by answer."""

from __future__ import annotations

import pytest

from zkgroup.errors import ConfigError
from zkgroup.lines.producing import LINE_BYTES_MAX, Acks, Delivery, Outcome, ProducerSettings, Producing
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.replica_host import AppendLinesRequest, AppendLinesResponse

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


def with_lines(*lines: bytes, **settings: object) -> Producing:
    producing = Producing(ProducerSettings(**settings))  # type: ignore[arg-type]
    for number, line in enumerate(lines):
        producing.add(TP, number, line, now_ms=0)
    return producing


def ok(offset: int) -> AppendLinesResponse:
    return AppendLinesResponse(ErrorCode.NONE, offset, offset)


def refused(error: int, offset: int = -1) -> AppendLinesResponse:
    return AppendLinesResponse(error, offset, -1)


def test_one_batch_of_a_partition_is_under_way() -> None:
    """Lines that come meanwhile are the next one; others partitions are not in its way."""
    producing = with_lines(b"a", b"b")
    assert producing.request(TP, 3) == AppendLinesRequest("orders", 0, 3, -1, (b"a", b"b"))
    producing.add(TP, 2, b"c", now_ms=0)
    producing.add(OTHER, 3, b"d", now_ms=0)
    assert [*producing.ready()] == [OTHER]

    assert producing.answered(TP, ok(7), now_ms=1) == ""
    assert producing.take_deliveries() == [Delivery(TP, Outcome.ACKNOWLEDGED, (0, 1), 7, 3)]
    assert producing.take_deliveries() == []
    assert [*producing.ready()] == [TP, OTHER]
    assert producing.request(TP, 3).lines == (b"c",)


@pytest.mark.parametrize(("limit", "sizes"), [({"batch_lines": 2}, [2, 2, 1]), ({"batch_bytes": 6}, [3, 2])])
def test_batches_have_their_limits(limit: dict[str, int], sizes: list[int]) -> None:
    """By lines and by bytes with their newlines."""
    producing = with_lines(*[b"x"] * 5, **limit)
    found = []
    while not producing.is_idle:
        found.append(len(producing.request(TP, 0).lines))
        producing.answered(TP, ok(0), now_ms=0)

    assert found == sizes
    assert producing.held_bytes == 0


def test_a_line_above_the_limit_goes_alone() -> None:
    """It is not refused for the size of batches."""
    assert with_lines(b"x" * 100, b"y", batch_bytes=10).request(TP, 0).lines == (b"x" * 100,)


@pytest.mark.parametrize(("error", "offset"), [(3, -1), (6, -1), (6, 0), (74, -1), (75, -1)])
def test_another_leader_gets_the_same_batch(error: int, offset: int) -> None:
    """Only 6 with an offset leaves open whether the lines were appended."""
    producing = with_lines(b"a")
    producing.request(TP, 1)
    assert "orders-0: its leader answers" in producing.answered(TP, refused(error, offset), now_ms=5)
    producing.add(TP, 1, b"b", now_ms=5)

    assert producing.request(TP, 2) == AppendLinesRequest("orders", 0, 2, -1, (b"a",))
    producing.answered(TP, ok(4), now_ms=6)
    assert producing.take_deliveries() == [
        Delivery(TP, Outcome.ACKNOWLEDGED, (0,), 4, 2, may_be_repeated=offset == 0)
    ]


@pytest.mark.parametrize("sent", [True, False])
def test_a_lost_answer(sent: bool) -> None:
    """It goes again; that it may be there twice is told where the broker may have got it."""
    producing = with_lines(b"a")
    producing.request(TP, 0)
    producing.unanswered(TP, sent, "broken", now_ms=1)
    producing.request(TP, 0)
    producing.answered(TP, ok(1), now_ms=2)

    (delivery,) = producing.take_deliveries()
    assert (delivery.outcome, delivery.may_be_repeated) == (Outcome.ACKNOWLEDGED, sent)


@pytest.mark.parametrize(("error", "unsure"), [(87, False), (-1, True), (56, True)])
def test_errors_that_are_final(error: int, unsure: bool) -> None:
    """The batch fails, and the lines behind it, unsent."""
    producing = with_lines(b"a", b"b", batch_lines=1)
    producing.request(TP, 0)
    producing.answered(TP, refused(error), now_ms=1)

    first, behind = producing.take_deliveries()
    assert (first.outcome, first.numbers, first.may_be_repeated) == (Outcome.FAILED, (0,), unsure)
    assert (behind.outcome, behind.numbers, behind.may_be_repeated) == (Outcome.FAILED, (1,), False)
    assert "lines before them failed" in behind.reason
    assert (producing.is_idle, producing.held_bytes) == (True, 0)


def test_lines_in_turn_for_too_long_are_given_up() -> None:
    """Counted for each batch from when it comes into turn; not while its answer may still come."""
    producing = with_lines(b"a", b"b", batch_lines=1, delivery_timeout_ms=100)
    assert producing.deadline_ms() == 100
    producing.request(TP, 0)
    producing.expire(now_ms=1000)
    assert producing.take_deliveries() == []
    producing.answered(TP, ok(0), now_ms=1000)
    producing.expire(now_ms=1099)
    assert len(producing.take_deliveries()) == 1

    producing.trouble(TP, "no leader")
    producing.expire(now_ms=1100)
    (late,) = producing.take_deliveries()
    assert (late.numbers, late.may_be_repeated) == ((1,), False)
    assert late.reason == "not acknowledged within 100 ms; last: no leader"


def test_acks_0_is_told_as_sent() -> None:
    """Whatever is answered, or is not; what surely was not sent goes again."""
    producing = with_lines(b"a", b"b", b"c", batch_lines=1, acks=Acks.NONE)
    assert producing.request(TP, 0).acks == 1
    producing.answered(TP, refused(6), now_ms=1)
    producing.request(TP, 0)
    producing.unanswered(TP, True, "broken", now_ms=1)
    producing.request(TP, 0)
    producing.unanswered(TP, False, "refused", now_ms=1)

    assert [one.numbers for one in producing.take_deliveries()] == [(0,), (1,)]
    assert producing.request(TP, 0).lines == (b"c",)


@pytest.mark.parametrize("line", [b"a\nb", b"\n", b"x" * (LINE_BYTES_MAX + 1)])
def test_what_is_no_line_is_not_taken(line: bytes) -> None:
    """Nothing is held of it."""
    producing = with_lines()
    with pytest.raises(ConfigError, match="line 4: expected"):
        producing.add(TP, 4, line, now_ms=0)
    assert (producing.is_idle, producing.held_bytes) == (True, 0)


def test_an_answer_is_not_waited_for_beyond_the_time_to_give_up() -> None:
    """A leader that holds its answer for long makes nobody late; one that comes in time is waited for."""
    producing = with_lines(b"a", delivery_timeout_ms=1000, request_timeout_ms=400)
    producing.request(TP, 3)
    assert [producing.patience_ms(TP, now_ms) for now_ms in (0, 600, 900, 1000)] == [400, 400, 100, 1]

    producing.unanswered(TP, True, "no answer", now_ms=1000)
    (given_up,) = producing.take_deliveries()
    assert (given_up.outcome, given_up.may_be_repeated) == (Outcome.FAILED, True)


@pytest.mark.parametrize("name", ["delivery_timeout_ms", "batch_lines", "buffered_bytes"])
def test_settings_are_checked(name: str) -> None:
    """Named in the error."""
    with pytest.raises(ConfigError, match=f"{name}: expected at least 1, found 0"):
        ProducerSettings(**{name: 0})  # type: ignore[arg-type]
