"""Properties of lines on their way to a log and back, for any answers, losses and cuts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.worlds.line_brokers import LineBrokers
from zkgroup.lines.fetching import Fetching, Verdict
from zkgroup.lines.input_lines import LineSplitter
from zkgroup.lines.producer import LineProducer
from zkgroup.lines.producing import Acks, Delivery, Outcome, ProducerSettings, Producing
from zkgroup.lines.reader import LineReader
from zkgroup.model import TopicPartition
from zkgroup.wire.replica_host import AppendLinesResponse, FetchLinesResponse, records_of

TP = TopicPartition("orders", 0)
LINES = st.lists(st.binary(max_size=12).map(lambda data: data.replace(b"\n", b"")), max_size=30)
FATES = ("acknowledged", "lost", "gone", "unsent", "moved", "moved_after", "older", "late")


@given(
    st.lists(st.sampled_from(FATES), max_size=40),
    st.integers(1, 30),
    st.integers(1, 4),
    st.sampled_from([Acks.ALL, Acks.LEADER]),
)
def test_acknowledged_lines_are_at_their_offsets(
    fates: list[str], count: int, batch_lines: int, acks: Acks
) -> None:
    """Each line has one delivery report, in order; a duplicate is reported, a missing line has failed."""
    limits = ProducerSettings(acks=acks, batch_lines=batch_lines, delivery_timeout_ms=1000)
    producing, log, now_ms = Producing(limits), list[int](), 0
    for number in range(count):
        producing.add(TP, number, b"%d" % number, now_ms)
    script = iter(fates)
    while not producing.is_idle:
        fate = next(script, "acknowledged")
        now_ms += 1
        if fate == "late":
            now_ms += 2000
            producing.expire(now_ms)
            continue
        numbers = [int(line) for line in producing.request(TP, 1).lines]
        offset = len(log)
        if fate in ("acknowledged", "lost", "moved_after"):
            log += numbers
        match fate:
            case "acknowledged":
                producing.answered(TP, AppendLinesResponse(0, offset, 0), now_ms)
            case "moved" | "moved_after":
                where = offset if fate == "moved_after" else -1
                producing.answered(TP, AppendLinesResponse(6, where, -1), now_ms)
            case "older":
                producing.answered(TP, AppendLinesResponse(74, -1, -1), now_ms)
            case _:
                producing.unanswered(TP, fate != "unsent", fate, now_ms)

    check_guarantees(producing.take_deliveries(), log, count)
    assert producing.held_bytes == 0


def check_guarantees(deliveries: list[Delivery], log: list[int], count: int) -> None:
    """Checks what a producer guarantees."""
    told = [number for one in deliveries for number in one.numbers]
    assert sorted(told) == [*range(count)]
    assert told == sorted(told)
    places = [
        (one.base_offset + i, number)
        for one in deliveries
        if one.outcome is Outcome.ACKNOWLEDGED
        for i, number in enumerate(one.numbers)
    ]
    assert places == sorted(places)
    assert all(log[offset] == number for offset, number in places)
    for one in deliveries:
        for number in one.numbers:
            sure = not one.may_be_repeated
            assert not sure or log.count(number) == (one.outcome is Outcome.ACKNOWLEDGED)


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_a_stream_is_split_at_newlines_only(data: bytes, cuts: list[int]) -> None:
    """The stream may arrive in any pieces; the last line needs no newline."""
    splitter, lines, bounds = LineSplitter("file"), list[bytes](), sorted({0, *cuts, len(data)})
    for start, end in itertools.pairwise(bounds):
        lines += splitter.feed(data[start:end])
    lines += splitter.finish()

    assert b"".join(line + b"\n" for line in lines) == (
        data if data.endswith(b"\n") or not data else data + b"\n"
    )
    assert splitter.number == len(lines)


@given(
    st.lists(
        st.lists(st.binary(max_size=5).map(lambda data: data.replace(b"\n", b"")), min_size=1), max_size=8
    ),
    st.data(),
)
def test_a_reader_gets_every_line_below_the_high_watermark_once(
    batches: list[list[bytes]], data: st.DataObject
) -> None:
    """Lines come in order from any position on, for answers of any size."""
    lines, log = [line for batch in batches for line in batch], []
    for number, batch in enumerate(batches):
        base_offset = sum(map(len, batches[:number]))
        records = records_of(batch, timestamp_ms=1, base_offset=base_offset, leader_epoch=number // 2)
        log.append((base_offset + len(batch), records))
    watermark = data.draw(st.integers(0, len(lines)))
    start = position = data.draw(st.integers(0, watermark))
    fetching, read = Fetching(100), list[bytes]()
    while position < watermark:
        fetching.want({TP: position})
        request = fetching.request(TP, 9, 0)
        from_here = [records for end_offset, records in log if end_offset > request.offset]
        some = b"".join(from_here[: data.draw(st.integers(1, 3))])
        assert fetching.answered(TP, FetchLinesResponse(0, watermark, len(lines), records=some)) in (
            Verdict.LINES,
            Verdict.NOTHING,
        )
        while taken := fetching.take(data.draw(st.integers(1, 4))):
            assert [line.offset for line in taken] == [*range(position, position + len(taken))]
            position += len(taken)
            read += [line.line for line in taken]

    assert read == lines[start:watermark]


@pytest.fixture(scope="module")
def brokers() -> Iterator[LineBrokers]:
    with LineBrokers(2) as made:
        yield made


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(LINES, st.integers(1, 64))
def test_any_bytes_come_back(brokers: LineBrokers, lines: list[bytes], batch_bytes: int) -> None:
    """Any bytes come back over real connections, replicated, at the offsets that were reported."""
    tp = TopicPartition(f"t{len(brokers.topics)}", 0)
    brokers.lead(tp, 1)
    offsets: dict[int, int] = {}

    def told(delivery: Delivery) -> None:
        for i, number in enumerate(delivery.numbers):
            offsets[number] = delivery.base_offset + i

    with LineProducer(brokers.registrations, ProducerSettings(batch_bytes=batch_bytes), told) as producer:
        for line in lines:
            producer.append(tp, line)
    reader = LineReader(brokers.registrations)
    read: dict[int, bytes] = {}
    while len(read) < len(lines):
        read |= {offset: line for _, offset, line in reader.read({tp: len(read)}, 10, 20.0)}
    reader.close()

    assert [read[offsets[number]] for number in range(len(lines))] == lines
    assert brokers.lines(1, tp) == brokers.lines(2, tp) == lines
