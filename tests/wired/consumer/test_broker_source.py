"""`BrokerSource` below the sync and aio APIs: zkgroup brokers on loopback, whose leaders the test sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import pytest

from tests.waiting import PATIENCE_S
from tests.worlds.faces import Face, MemberWorld, orders
from tests.worlds.line_brokers import LineBrokers
from tests.worlds.records import places, polled
from zkgroup.consumer.sources import BrokerSource
from zkgroup.errors import ConfigError, SourceUnavailableError, StableTimeoutError
from zkgroup.lines.producer import LineProducer
from zkgroup.model import TopicPartition
from zkgroup.testing.clock import FakeClock
from zkgroup.znodes.brokers import BrokerRegistration


class Counts:
    """A `MetricsSink` that keeps counters."""

    def __init__(self) -> None:
        self.counted: Counter[tuple[str, str]] = Counter()

    def count(self, name: str, labels: Mapping[str, str], amount: float = 1.0) -> None:
        self.counted[name, labels.get("outcome", "")] += int(amount)

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None: ...

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None: ...


@pytest.fixture
def brokers() -> Iterator[LineBrokers]:
    with LineBrokers(2) as made:
        for tp in orders(0, 1, 2, 3):
            made.lead(tp, 1 + tp.partition % 2)
        yield made


def register(world: MemberWorld, brokers: LineBrokers) -> None:
    for number, registration in brokers.registrations().items():
        world.server.put(BrokerRegistration.path(number), registration.encode())


def append(brokers: LineBrokers, partitions: list[TopicPartition], *lines: bytes) -> None:
    with LineProducer(brokers.registrations) as producer:
        for tp in partitions:
            for line in lines:
                producer.append(tp, line)


def test_a_consumer_reads_lines_and_waits_for_more(
    face: Face, world: MemberWorld, brokers: LineBrokers
) -> None:
    """From every leader, at their offsets; answers are counted."""
    register(world, brokers)
    append(brokers, orders(0, 1, 2, 3), b"a", b"b")
    metrics = Counts()
    with face.consumer(client=world.client("a"), source=BrokerSource(metrics=metrics)) as consumer:
        assert places(polled(consumer, 8)) == [(p, n) for p in range(4) for n in range(2)]
        append(brokers, orders(3), b"c")
        (record,) = polled(consumer, 1)
        assert (record.partition, record.offset, record.value, record.key) == (3, 2, b"c", None)
    assert metrics.counted["zkgroup_lines_fetch_total", "lines"] >= 5


def test_a_consumer_goes_on_at_the_next_leader(face: Face, world: MemberWorld, brokers: LineBrokers) -> None:
    """Its position stays; nothing is read twice."""
    register(world, brokers)
    append(brokers, orders(0), b"a")
    with face.consumer(client=world.client("a"), source=BrokerSource()) as consumer:
        assert places(polled(consumer, 1)) == [(0, 0)]
        brokers.stop(1)
        for tp in orders(0, 1, 2, 3):
            brokers.lead(tp, 2, epoch=1, isr=(2,))
        append(brokers, orders(0), b"b")
        assert places(polled(consumer, 1)) == [(0, 1)]


def test_nothing_is_claimed_while_no_broker_is_registered(
    face: Face, world: MemberWorld, brokers: LineBrokers
) -> None:
    """The wait says why: `waiting_for_brokers`."""
    with face.consumer(client=world.client("a"), source=BrokerSource()) as consumer:
        with pytest.raises(StableTimeoutError, match="waiting_for_brokers"):
            consumer.wait_until_assigned(timeout_s=2.0)
        assert world.owners() == {}
        append(brokers, orders(0), b"a")
        register(world, brokers)
        assert places(polled(consumer, 1)) == [(0, 0)]


def test_lines_that_are_gone_are_the_reset_policys(
    face: Face, world: MemberWorld, brokers: LineBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    """A replica outside the ISR was elected: by default its lines are read from the first on."""
    register(world, brokers)
    brokers.held.add(2)
    brokers.lead(orders(0)[0], 1, epoch=1, isr=(1,))
    append(brokers, orders(0), b"a", b"b")
    with face.consumer(client=world.client("a"), source=BrokerSource()) as consumer:
        assert len(polled(consumer, 2)) == 2
        brokers.stop(1)
        brokers.lead(orders(0)[0], 2, epoch=2, isr=(2,))
        append(brokers, orders(0), b"x")
        (record,) = polled(consumer, 1)
    assert (record.offset, record.value) == (0, b"x")
    assert "orders-0: offset 2 is out of range: the reset policy 'earliest' decides" in caplog.text


def test_a_source_serves_one_consumer(face: Face, world: MemberWorld, brokers: LineBrokers) -> None:
    """The second one is refused, until the first is closed."""
    register(world, brokers)
    source = BrokerSource()
    with face.consumer(client=world.client("a"), source=source) as first:
        first.wait_until_assigned(PATIENCE_S)
        with pytest.raises(ConfigError, match="used by a consumer of group g already"):
            face.consumer(client=world.client("b"), source=source).start()
    append(brokers, orders(0), b"a")
    with face.consumer(client=world.client("c"), source=source) as again:
        assert places(polled(again, 1)) == [(0, 0)]


def test_bounds_need_a_leader() -> None:
    """From 0 to the high watermark; without a leader in time it is said why."""
    tp, clock = orders(0)[0], FakeClock()
    source = BrokerSource(clock=clock)
    with pytest.raises(ConfigError, match="after `open`"):
        source.bounds(tp)
    with LineBrokers(2, clock=clock) as brokers:
        brokers.lead(tp, 1)
        with LineProducer(brokers.registrations, clock=clock) as producer:
            producer.append(tp, b"a")
        source.open(Registered(brokers))
        assert source.bounds(tp) == (0, 1)
        brokers.lead(tp, -1, epoch=1, isr=(1, 2))
        source.close()
        source.open(Registered(brokers))
        with pytest.raises(SourceUnavailableError, match="end of orders-0 is unknown: orders-0: it has no"):
            source.bounds(tp)
        source.close()


class Registered:
    """A `Cluster` out of the brokers themselves."""

    def __init__(self, brokers: LineBrokers) -> None:
        self._brokers = brokers

    def brokers(self) -> Mapping[int, BrokerRegistration]:
        return self._brokers.registrations()

    def partitions(self, topic: str) -> tuple[int, ...]:
        return (0, 1, 2, 3)
