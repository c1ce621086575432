"""`BrokerSource` below the sync and aio APIs: zkgroup brokers on loopback, whose leaders the test sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from tests.waiting import PATIENCE_S, becomes
from tests.wired.consumer.records import places, polled
from tests.worlds.memory_groups import hold
from tests.worlds.public_apis import Api, MemberWorld, orders
from tests.worlds.record_brokers import RecordBrokers
from zkgroup.clients.addresses import address_of
from zkgroup.clients.producer import DeliveryReport, NewRecord, RecordProducer
from zkgroup.errors import ConfigError, SourceUnavailableError, StableTimeoutError
from zkgroup.model import TopicPartition
from zkgroup.sources import BrokerSource, KafkaSource
from zkgroup.sources.port import Bounds
from zkgroup.znodes.brokers import BrokerRegistration


@pytest.fixture
def brokers() -> Iterator[RecordBrokers]:
    with RecordBrokers(2) as made:
        for tp in orders(0, 1, 2, 3):
            made.lead(tp, 1 + tp.partition % 2)
        yield made


def register(world: MemberWorld, brokers: RecordBrokers) -> None:
    for number, registration in brokers.registrations().items():
        hold(world.server, BrokerRegistration.path(number), registration.encode())


def append(brokers: RecordBrokers, partitions: list[TopicPartition], *records: bytes | NewRecord) -> None:
    """Produces the same records to each of these partitions."""
    delivered: list[DeliveryReport] = []
    producer = RecordProducer(Registered(brokers), "orders", delivered.append)
    try:
        for tp in partitions:
            for record in records:
                made = record if isinstance(record, NewRecord) else NewRecord(record)
                producer.send(replace(made, partition=tp.partition))
        producer.flush()
    finally:
        producer.close()


def test_a_consumer_reads_records_and_waits_for_more(
    api: Api, world: MemberWorld, brokers: RecordBrokers
) -> None:
    """From every leader, at their offsets, with all that a record has."""
    register(world, brokers)
    append(brokers, orders(0, 1, 2, 3), b"a", b"b")
    whole = NewRecord(b"c", b"key", (("h", b"1"), ("h", b"\xff")), 1_767_225_600_123)
    with api.consumer(client=world.client("a"), source=BrokerSource()) as consumer:
        assert places(polled(consumer, 8)) == [(p, n) for p in range(4) for n in range(2)]
        append(brokers, orders(3), whole)
        (record,) = polled(consumer, 1)
    assert (record.partition, record.offset, record.value, record.key) == (3, 2, b"c", b"key")
    assert (record.timestamp_ms, record.headers) == (1_767_225_600_123, (("h", b"1"), ("h", b"\xff")))


def test_a_consumer_continues_at_the_next_leader(
    api: Api, world: MemberWorld, brokers: RecordBrokers
) -> None:
    """Its position stays; nothing is read twice."""
    register(world, brokers)
    append(brokers, orders(0), b"a")
    with api.consumer(client=world.client("a"), source=BrokerSource()) as consumer:
        assert places(polled(consumer, 1)) == [(0, 0)]
        brokers.stop(1)
        for tp in orders(0, 1, 2, 3):
            brokers.lead(tp, 2, epoch=1, isr=(2,))
        append(brokers, orders(0), b"b")
        assert places(polled(consumer, 1)) == [(0, 1)]


def test_nothing_is_claimed_while_no_broker_is_registered(
    api: Api, world: MemberWorld, brokers: RecordBrokers
) -> None:
    """The wait says why: `waiting_for_brokers`."""
    with api.consumer(client=world.client("a"), source=BrokerSource()) as consumer:
        with pytest.raises(StableTimeoutError, match="waiting_for_brokers"):
            consumer.wait_until_assigned(timeout_s=2.0)
        assert world.owners() == {}
        append(brokers, orders(0), b"a")
        register(world, brokers)
        assert places(polled(consumer, 1)) == [(0, 0)]


def test_records_that_are_gone_are_the_reset_policys(
    api: Api, world: MemberWorld, brokers: RecordBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    """A replica outside the ISR was elected: by default its records are read from the first on."""
    register(world, brokers)
    brokers.held.add(2)
    brokers.lead(orders(0)[0], 1, epoch=1, isr=(1,))
    append(brokers, orders(0), b"a", b"b")
    with api.consumer(client=world.client("a"), source=BrokerSource()) as consumer:
        assert len(polled(consumer, 2)) == 2
        brokers.stop(1)
        brokers.lead(orders(0)[0], 2, epoch=2, isr=(2,))
        append(brokers, orders(0), b"x")
        (record,) = polled(consumer, 1)
    assert (record.offset, record.value) == (0, b"x")
    assert "orders-0: offset 2 is out of range: the reset policy 'earliest' decides" in caplog.text


def test_a_source_serves_one_consumer(api: Api, world: MemberWorld, brokers: RecordBrokers) -> None:
    """The second one is refused, until the first is closed."""
    register(world, brokers)
    source = BrokerSource()
    with api.consumer(client=world.client("a"), source=source) as first:
        first.wait_until_assigned(PATIENCE_S)
        with pytest.raises(ConfigError, match="used by a consumer of group g already"):
            api.consumer(client=world.client("b"), source=source).start()
    append(brokers, orders(0), b"a")
    with api.consumer(client=world.client("c"), source=source) as again:
        assert places(polled(again, 1)) == [(0, 0)]


def test_bounds_need_a_leader(brokers: RecordBrokers) -> None:
    """From the first record to the high watermark; without a leader in time there is an error."""
    first, second = orders(0, 1)
    append(brokers, [first], b"a")
    source = BrokerSource()
    source.open(Registered(brokers))
    try:
        assert source.bounds(first) == Bounds(0, 1)
        brokers.lead(first, -1, epoch=1, isr=(1, 2))
        found = source.bounds_of([first, second], 2.0)
        assert isinstance(found[first], SourceUnavailableError)
        assert found[second] == Bounds(0, 0)
    finally:
        source.close()


def test_bounds_are_the_next_leaders_after_an_election(brokers: RecordBrokers) -> None:
    """kafka-python asks the old leader until its metadata are read again, which it does not do by itself."""
    (tp,) = orders(0)
    source = BrokerSource()
    source.open(Registered(brokers))
    try:
        assert source.bounds(tp) == Bounds(0, 0)
        brokers.lead(tp, 2, epoch=1)
        append(brokers, [tp], b"a")
        becomes(lambda: source.bounds_of([tp], 2.0)[tp], Bounds(0, 1))
        assert source.log_ends([tp]) == {tp: 1}
    finally:
        source.close()


def test_a_leader_that_does_not_have_a_partition_yet_is_an_error_of_this_partition(
    brokers: RecordBrokers,
) -> None:
    """Metadata may name a broker that answers 3: kafka-python raises KeyError for all partitions."""
    here, there = orders(1, 4)
    source = KafkaSource(str(address_of(brokers.registration(2))))
    source.open(Registered(brokers))
    try:
        brokers.lead(there, 1, told=(2,))
        found = source.bounds_of([here, there], 2.0)
        assert found[here] == Bounds(0, 0)
        assert isinstance(found[there], SourceUnavailableError)

        brokers.lead(there, 2, epoch=1)
        becomes(lambda: source.bounds_of([there], 2.0)[there], Bounds(0, 0))
    finally:
        source.close()


class Registered:
    """A `Cluster` out of the brokers themselves."""

    def __init__(self, brokers: RecordBrokers) -> None:
        self._brokers = brokers

    def brokers(self) -> Mapping[int, BrokerRegistration]:
        return self._brokers.registrations()

    def partitions(self, topic: str) -> tuple[int, ...]:
        return (0, 1, 2, 3)
