"""`LineReader` and brokers with lines, over loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

import pytest

from tests.waiting import PATIENCE_S
from tests.worlds.line_brokers import LineBrokers
from zkgroup.errors import OffsetOutOfRangeError, SourceUnavailableError, StoreUnavailableError
from zkgroup.lines.fetching import FetchedLine
from zkgroup.lines.producer import LineProducer
from zkgroup.lines.producing import Acks, ProducerSettings
from zkgroup.lines.reader import LineReader
from zkgroup.model import TopicPartition
from zkgroup.testing.clock import FakeClock
from zkgroup.wire.replica_host import FetchLinesRequest
from zkgroup.znodes.brokers import BrokerRegistration

ORDERS, CLICKS = TopicPartition("orders", 0), TopicPartition("clicks", 3)


@pytest.fixture
def brokers() -> Iterator[LineBrokers]:
    with LineBrokers(3, clock=FakeClock()) as made:
        made.lead(ORDERS, 1)
        made.lead(CLICKS, 2)
        yield made


@pytest.fixture
def reader(brokers: LineBrokers) -> Iterator[LineReader]:
    made = LineReader(brokers.registrations, clock=brokers.clock)
    yield made
    made.close()


def append(brokers: LineBrokers, *lines: bytes, tp: TopicPartition = ORDERS, acks: Acks = Acks.ALL) -> None:
    with LineProducer(brokers.registrations, ProducerSettings(acks=acks), clock=brokers.clock) as producer:
        for line in lines:
            producer.append(tp, line)


def read(reader: LineReader, positions: Mapping[TopicPartition, int], count: int) -> list[FetchedLine]:
    """So many lines, whatever the calls that they take."""
    found: list[FetchedLine] = []
    now = dict(positions)
    while len(found) < count:
        lines = reader.read(now, 100, PATIENCE_S)
        assert lines, reader.trouble
        found += lines
        for tp, offset, _ in lines:
            assert offset == now[tp]
            now[tp] += 1
    return found


def reads_nothing(reader: LineReader, positions: Mapping[TopicPartition, int]) -> bool:
    """Whether a leader is asked; no line comes either way."""
    try:
        assert reader.read(positions, 10, 0.2) == []
    except SourceUnavailableError:
        return False
    return True


def wait_at_leader(reader: LineReader, positions: Mapping[TopicPartition, int]) -> None:
    """Returns when leaders are asked for lines that are not there yet."""
    while not reads_nothing(reader, positions):
        pass


def test_lines_of_two_leaders_come_at_their_offsets(brokers: LineBrokers, reader: LineReader) -> None:
    """From any offset on, whole batches or parts of them, empty lines and any bytes too."""
    append(brokers, b"a", b"", b"\xff\x00\r")
    append(brokers, b"x", tp=CLICKS)

    assert sorted(read(reader, {ORDERS: 1, CLICKS: 0}, 3)) == [
        (CLICKS, 0, b"x"),
        (ORDERS, 1, b""),
        (ORDERS, 2, b"\xff\x00\r"),
    ]


def test_few_lines_at_a_time_and_back_again(
    brokers: LineBrokers, reader: LineReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came is kept for the next call; another position is another question, after the one under way."""
    monkeypatch.setattr("zkgroup.lines.reader.LONG_POLL_MS", 300)
    append(brokers, b"a", b"b", b"c")

    assert reader.read({ORDERS: 0}, 2, PATIENCE_S) == [(ORDERS, 0, b"a"), (ORDERS, 1, b"b")]
    assert reader.read({ORDERS: 2}, 2, PATIENCE_S) == [(ORDERS, 2, b"c")]
    assert reader.read({ORDERS: 1}, 2, PATIENCE_S) == [(ORDERS, 1, b"b"), (ORDERS, 2, b"c")]


def test_a_line_that_comes_later_ends_the_wait(brokers: LineBrokers, reader: LineReader) -> None:
    """The question stays with the leader: one question, and the line as soon as it is there."""
    wait_at_leader(reader, {ORDERS: 0})
    append(brokers, b"a")

    assert reader.read({ORDERS: 0}, 10, PATIENCE_S) == [(ORDERS, 0, b"a")]
    asked = [one for one in brokers.requests(1, FetchLinesRequest) if one.max_wait_ms]
    assert [one.leader_epoch for one in asked if one.offset == 0] == [0]


def test_lines_above_the_high_watermark_are_not_given(brokers: LineBrokers, reader: LineReader) -> None:
    """They come when the follower that was behind has them."""
    brokers.held.update({2, 3})
    append(brokers, b"a", acks=Acks.LEADER)
    wait_at_leader(reader, {ORDERS: 0})
    assert reader.ends([ORDERS], PATIENCE_S) == {ORDERS: 0}

    brokers.held.clear()
    brokers.lead(ORDERS, 1)

    assert reader.read({ORDERS: 0}, 10, PATIENCE_S) == [(ORDERS, 0, b"a")]
    assert reader.ends([ORDERS, CLICKS], PATIENCE_S) == {ORDERS: 1, CLICKS: 0}


def test_leaders_change_while_it_waits(brokers: LineBrokers, reader: LineReader) -> None:
    """By decision and by death; the reader goes on where it was."""
    append(brokers, b"a")
    assert read(reader, {ORDERS: 0}, 1) == [(ORDERS, 0, b"a")]
    wait_at_leader(reader, {ORDERS: 1})

    brokers.lead(ORDERS, 2, epoch=1)
    append(brokers, b"b")
    assert read(reader, {ORDERS: 1}, 1) == [(ORDERS, 1, b"b")]

    brokers.stop(2)
    brokers.lead(ORDERS, 3, epoch=2, isr=(1, 3))
    append(brokers, b"c")
    assert read(reader, {ORDERS: 2}, 1) == [(ORDERS, 2, b"c")]


def test_lines_that_were_read_are_gone(brokers: LineBrokers, reader: LineReader) -> None:
    """A replica outside the ISR was elected, and has other lines at these offsets: that is noticed."""
    brokers.lead(ORDERS, 1, epoch=1, isr=(1,))
    brokers.held.update({2, 3})
    append(brokers, b"a", b"b")
    assert read(reader, {ORDERS: 0}, 2) == [(ORDERS, 0, b"a"), (ORDERS, 1, b"b")]

    brokers.stop(1)
    brokers.lead(ORDERS, 2, epoch=2, isr=(2,))
    append(brokers, b"x", b"y", b"z")

    with pytest.raises(OffsetOutOfRangeError, match="orders-0: offset 2 is out of range"):
        read(reader, {ORDERS: 2}, 1)
    assert [line for *_, line in read(reader, {ORDERS: 0}, 3)] == [b"x", b"y", b"z"]


def test_an_offset_behind_the_log_is_out_of_range(brokers: LineBrokers, reader: LineReader) -> None:
    """Once a leader that was found again reports it too."""
    append(brokers, b"a")

    with pytest.raises(OffsetOutOfRangeError):
        read(reader, {ORDERS: 7}, 1)
    assert read(reader, {ORDERS: 0}, 1) == [(ORDERS, 0, b"a")]


def test_a_leader_of_former_times_is_not_believed(brokers: LineBrokers) -> None:
    """It does not know of its successor, and brokers with old metadata name it; its epoch shows it."""
    brokers.lead(ORDERS, 2, epoch=1, isr=(2, 3), told=(2, 3))
    only = {2: brokers.registration(2)}
    reader = LineReader(lambda: only, clock=brokers.clock)
    with LineProducer(lambda: only, clock=brokers.clock) as producer:
        producer.append(ORDERS, b"a")
    assert read(reader, {ORDERS: 0}, 1) == [(ORDERS, 0, b"a")]

    brokers.stop(2)
    while not brokers.requests(1, FetchLinesRequest):
        assert not reads_nothing(reader, {ORDERS: 1})
    assert not reads_nothing(reader, {ORDERS: 1})
    assert {one.max_bytes for one in brokers.requests(1, FetchLinesRequest)} == {0}, "only its epoch is asked"

    brokers.lead(ORDERS, 3, epoch=2, isr=(3,))
    append(brokers, b"b")
    assert read(reader, {ORDERS: 1}, 1) == [(ORDERS, 1, b"b")]
    reader.close()


def test_many_partitions_share_connections(brokers: LineBrokers) -> None:
    """More than there may be connections: each is asked for in turn, and none is forgotten."""
    partitions = [TopicPartition("many", number) for number in range(12)]
    for tp in partitions:
        brokers.lead(tp, 1 + tp.partition % 3, replicas=(1, 2, 3))
    reader = LineReader(brokers.registrations, connections_max=2, clock=brokers.clock)
    wait_at_leader(reader, dict.fromkeys(partitions, 0))
    for tp in partitions:
        append(brokers, str(tp).encode(), tp=tp)

    found = read(reader, dict.fromkeys(partitions, 0), len(partitions))

    assert sorted(found) == [(tp, 0, str(tp).encode()) for tp in partitions]
    reader.close()


def test_waking_ends_the_wait(brokers: LineBrokers) -> None:
    """From another thread, or before the wait begins. On the system's clock, or the wait would be over."""
    reader = LineReader(brokers.registrations)
    reader.wake()
    assert reader.read({ORDERS: 0}, 10, 1000.0) == []
    ringer = threading.Timer(0.05, reader.wake)
    ringer.start()
    assert reader.read({ORDERS: 0}, 10, 1000.0) == []
    ringer.join()
    reader.close()


def test_nobody_to_ask(brokers: LineBrokers) -> None:
    """No zkgroup broker, brokers that are gone, and no ZooKeeper: each has its message."""

    def away() -> Mapping[int, BrokerRegistration]:
        raise StoreUnavailableError("away")

    kafka = {1: BrokerRegistration(host="127.0.0.1", port=1)}
    gone = {
        1: BrokerRegistration(host="127.0.0.1", port=1, version=4, extensions={"zkgroup": {"role": "data"}})
    }
    for registered, error, told in [
        (lambda: kafka, SourceUnavailableError, "no zkgroup broker is registered"),
        (lambda: gone, SourceUnavailableError, "127.0.0.1:1: Connection refused"),
        (away, StoreUnavailableError, "away"),
    ]:
        reader = LineReader(registered, clock=brokers.clock)
        with pytest.raises(error, match=told):
            reader.read({ORDERS: 0}, 10, 0.2)
        reader.close()


def test_topics_that_brokers_do_not_know(brokers: LineBrokers, reader: LineReader) -> None:
    """The others are read all the same; alone it is said."""
    append(brokers, b"a")
    missing = TopicPartition("missing", 0)

    assert read(reader, {ORDERS: 0, missing: 0}, 1) == [(ORDERS, 0, b"a")]
    with pytest.raises(SourceUnavailableError, match="topic missing: brokers do not know it"):
        reader.read({missing: 0}, 10, 0.3)
    assert reader.ends([ORDERS, missing], 0.5) == {ORDERS: 1}


def test_ends_need_not_wait_for_what_a_broker_does_not_know(brokers: LineBrokers, reader: LineReader) -> None:
    """A topic, or a partition of a topic that is known; each call asks anew."""
    append(brokers, b"a")
    missing, beyond = TopicPartition("missing", 0), TopicPartition("orders", 7)

    for _ in range(2):
        assert reader.ends([ORDERS, missing, beyond], 1000.0, await_unknown=False) == {ORDERS: 1}
    brokers.lead(missing, 1)
    assert reader.ends([missing], 1000.0, await_unknown=False) == {missing: 0}
