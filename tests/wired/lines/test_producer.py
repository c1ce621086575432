"""`LineProducer` and brokers with lines, over loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.worlds.line_brokers import LineBrokers
from zkgroup.errors import ConfigError, LinesNotAppendedError
from zkgroup.lines.producer import LineProducer
from zkgroup.lines.producing import Acks, Delivery, Outcome, ProducerSettings
from zkgroup.model import TopicPartition
from zkgroup.testing.clock import FakeClock
from zkgroup.wire.replica_host import AppendLinesRequest

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def brokers() -> Iterator[LineBrokers]:
    with LineBrokers(3, clock=FakeClock()) as made:
        made.lead(ORDERS, 1)
        yield made


class Told:
    """Records deliveries, and checks that each line is reported once."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []

    def __call__(self, delivery: Delivery) -> None:
        numbers = [number for one in self.deliveries for number in one.numbers]
        assert not set(numbers) & set(delivery.numbers)
        self.deliveries.append(delivery)

    @property
    def offsets(self) -> dict[int, int]:
        """Number of each acknowledged line to its offset."""
        return {
            number: one.base_offset + i
            for one in self.deliveries
            if one.outcome is Outcome.ACKNOWLEDGED
            for i, number in enumerate(one.numbers)
        }


@pytest.mark.parametrize("acks", list(Acks))
def test_lines_are_in_the_log(brokers: LineBrokers, acks: Acks) -> None:
    """With every acks; offsets are reported except with acks=0."""
    told = Told()
    with LineProducer(
        brokers.registrations, ProducerSettings(acks=acks), told, clock=brokers.clock
    ) as producer:
        for line in (b"a", b"", b"\xff\x00\r"):
            producer.append(ORDERS, line)

    assert brokers.lines(1, ORDERS) == [b"a", b"", b"\xff\x00\r"]
    assert told.offsets == ({} if acks is Acks.NONE else {0: 0, 1: 1, 2: 2})
    assert not any(one.may_be_repeated for one in told.deliveries)
    if acks is Acks.ALL:
        assert brokers.watermark(1, ORDERS) == 3


def test_the_leader_changes(brokers: LineBrokers) -> None:
    """Before and while lines wait; the next leader takes them behind those that it has."""
    told = Told()
    with LineProducer(brokers.registrations, on_delivery=told, clock=brokers.clock) as producer:
        producer.append(ORDERS, b"one")
        producer.flush()
        brokers.lead(ORDERS, 2, epoch=1)
        producer.append(ORDERS, b"two")
        producer.flush()
        brokers.stop(2)
        brokers.lead(ORDERS, 3, epoch=2, isr=(1, 3))
        producer.append(ORDERS, b"three")

    assert brokers.lines(3, ORDERS) == [b"one", b"two", b"three"]
    assert told.offsets == {0: 0, 1: 1, 2: 2}
    assert [one.leader_epoch for one in told.deliveries] == [0, 1, 2]


def test_a_lost_answer_is_told(brokers: LineBrokers) -> None:
    """The line goes again, is acknowledged once, and may be there twice: at least once."""
    told = Told()
    brokers.lost_answers.add(1)
    with LineProducer(brokers.registrations, on_delivery=told, clock=brokers.clock) as producer:
        producer.append(ORDERS, b"a")

    assert brokers.lines(1, ORDERS) == [b"a", b"a"]
    assert told.offsets == {0: 1}
    assert [one.may_be_repeated for one in told.deliveries] == [True]


def test_with_acks_0_nothing_goes_again(brokers: LineBrokers) -> None:
    """Sent lines are reported as sent, whatever their outcome."""
    told = Told()
    brokers.lost_answers.add(1)
    settings = ProducerSettings(acks=Acks.NONE)
    with LineProducer(brokers.registrations, settings, told, clock=brokers.clock) as producer:
        producer.append(ORDERS, b"a")
        producer.flush()
        producer.append(ORDERS, b"b")

    assert brokers.lines(1, ORDERS) == [b"a", b"b"]
    assert [one.outcome for one in told.deliveries] == [Outcome.SENT, Outcome.SENT]


def test_a_deposed_leader_that_does_not_know_it_acknowledges_nothing_to_all(brokers: LineBrokers) -> None:
    """Its follower follows another leader, so the line is not replicated; it is sent to the next leader."""
    told = Told()
    with LineProducer(
        brokers.registrations,
        ProducerSettings(request_timeout_ms=2000),
        on_delivery=told,
        clock=brokers.clock,
    ) as producer:
        producer.append(ORDERS, b"one")
        producer.flush()
        brokers.lead(ORDERS, 2, epoch=1, told=(2, 3))
        producer.append(ORDERS, b"two")
        while not brokers.requests(1, AppendLinesRequest)[1:]:
            producer.work(0.1)
        brokers.lead(ORDERS, 2, epoch=1)
        producer.flush()

    assert brokers.lines(2, ORDERS) == [b"one", b"two"]
    assert told.offsets == {0: 0, 1: 1}


def test_no_leader_in_time(brokers: LineBrokers) -> None:
    """The lines have failed, are surely not there, and nothing more is taken."""
    told = Told()
    brokers.lead(ORDERS, -1, epoch=1, isr=(1,))
    producer = LineProducer(
        brokers.registrations, ProducerSettings(delivery_timeout_ms=2000), told, clock=brokers.clock
    )
    producer.append(ORDERS, b"a")

    with pytest.raises(LinesNotAppendedError, match=r"orders-0: 1 lines .*no leader; they are not in"):
        producer.flush()
    with pytest.raises(LinesNotAppendedError):
        producer.append(ORDERS, b"b")
    producer.close()
    assert [(one.outcome, one.numbers) for one in told.deliveries] == [(Outcome.FAILED, (0,))]


def test_lines_on_their_way_fail_when_it_is_closed(brokers: LineBrokers) -> None:
    """A follower in the ISR does not fetch, so the outcome of the lines is unknown."""
    told = Told()
    brokers.held.update({2, 3})
    producer = LineProducer(brokers.registrations, on_delivery=told, clock=brokers.clock)
    producer.append(ORDERS, b"a")
    while not brokers.requests(1, AppendLinesRequest):
        producer.work(0.1)
    producer.append(ORDERS, b"b")
    producer.close()
    producer.close()

    failed = [(one.outcome, one.numbers, one.may_be_repeated) for one in told.deliveries]
    assert failed == [(Outcome.FAILED, (0,), True), (Outcome.FAILED, (1,), False)]
    with pytest.raises(ConfigError, match="closed"):
        producer.append(ORDERS, b"c")


def test_a_line_with_a_newline_is_refused(brokers: LineBrokers) -> None:
    """Before anything of it is taken."""
    with LineProducer(brokers.registrations, clock=brokers.clock) as producer:
        with pytest.raises(ConfigError, match="line 0: expected no newline in it, found one at byte 1"):
            producer.append(ORDERS, b"a\nb")
        producer.append(ORDERS, b"c")

    assert brokers.lines(1, ORDERS) == [b"c"]


def test_what_is_held_is_bounded(brokers: LineBrokers) -> None:
    """`append` waits for acknowledgements while the buffer is full."""
    told = Told()
    settings = ProducerSettings(buffered_bytes=100, batch_bytes=50)
    with LineProducer(brokers.registrations, settings, told, clock=brokers.clock) as producer:
        for number in range(200):
            producer.append(ORDERS, b"%9d" % number)
            assert producer.held_bytes <= 100

    assert brokers.lines(1, ORDERS) == [b"%9d" % number for number in range(200)]
    assert max(len(one.numbers) for one in told.deliveries) == 5
