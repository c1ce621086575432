"""How far replicas are, as their own brokers report it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.worlds.certificates import Authority
from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.record_brokers import RecordBrokers
from zkgroup.admin.offsets.positions import bootstrap_positions
from zkgroup.clients.addresses import BrokerAddress, addresses_of
from zkgroup.clients.leaders import read_leaders
from zkgroup.clients.log_ends import (
    FailedReplicaReport,
    LogEnd,
    TimeOffset,
    failed_replicas,
    read_end_offsets,
    read_log_ends,
    read_start_offsets,
    read_time_offsets,
)
from zkgroup.clients.producer import NewRecord, ProducerSettings, RecordProducer
from zkgroup.errors import BrokerAuthenticationError, SourceUnavailableError
from zkgroup.model import TopicPartition
from zkgroup.runtime.http_server import HttpServer
from zkgroup.security.client import ClientSecurity
from zkgroup.security.tls import TlsSettings, server_context
from zkgroup.wire.records import OBSERVER_REPLICA, FetchRequest, ListOffsetsRequest
from zkgroup.znodes.brokers import BrokerRegistration, Endpoint

TP = TopicPartition("orders", 0)
NEVER_MS = 2**62
"""A time after every record."""
SHORT_MS = 300
"""Until a broker that never answers is given up."""


class Registered:
    """The cluster of these brokers, for a producer."""

    def __init__(self, brokers: RecordBrokers) -> None:
        self.brokers = brokers.registrations

    def partitions(self, topic: str) -> tuple[int, ...]:
        return (0,)


def produce(brokers: RecordBrokers, *values: bytes) -> None:
    producer = RecordProducer(Registered(brokers), "orders", lambda _: None, ProducerSettings(acks="1"))
    try:
        for value in values:
            producer.send(NewRecord(value))
        producer.flush()
    finally:
        producer.close()


def test_each_replica_reports_its_own_end_and_watermark() -> None:
    """A follower that fetches nothing stays behind, and the watermark with it; the end of readers too."""
    with RecordBrokers(2) as brokers:
        brokers.held.add(2)
        brokers.lead(TP, 1)
        produce(brokers, b"a", b"b")

        found = read_log_ends(addresses_of(brokers.registrations()), [(TP, 1), (TP, 2)])
        ends = read_end_offsets(addresses_of(brokers.registrations()), {TP: 1})

    assert found[TP, 1] == LogEnd(broker=1, log_end_offset=2, high_watermark=0)
    assert found[TP, 2] == LogEnd(broker=2, log_end_offset=0, high_watermark=0)
    assert ends == {TP: 0}


def test_all_replicas_of_a_broker_are_one_request() -> None:
    """Of each kind; a partition that is not there has its reason."""
    places = [TopicPartition(topic, number) for topic in ("a", "b") for number in range(20)]
    with RecordBrokers(1) as brokers:
        for tp in places[:-1]:
            brokers.lead(tp, 1)

        found = read_log_ends(addresses_of(brokers.registrations()), [(tp, 1) for tp in places])
        asked = [*brokers.requests(1, ListOffsetsRequest), *brokers.requests(1, FetchRequest)]

    assert [found[tp, 1].log_end_offset for tp in places] == [0] * (len(places) - 1) + [None]
    assert found[places[-1], 1].reason == "its broker answers 3 (unknown topic or partition)"
    assert [one.replica_id for one in asked] == [OBSERVER_REPLICA] * 2


def test_a_broker_that_cannot_be_asked_has_a_reason_and_the_others_answer() -> None:
    """Gone, without a plain listener, closed, silent, or registered with an address that cannot be."""
    places = [TopicPartition("orders", number) for number in range(3)]
    with (
        RecordBrokers(1) as brokers,
        socket.create_server(("127.0.0.1", 0)) as silent,
        socket.create_server(("127.0.0.1", 0)) as gone,
    ):
        brokers.lead(TP, 1)
        mute, closed = (Endpoint("PLAINTEXT", *one.getsockname(), "PLAINTEXT") for one in (silent, gone))
        gone.close()
        secured = BrokerRegistration(None, -1, 4, endpoints=("SSL://h:9093",))
        registered = {
            **brokers.registrations(),
            2: secured,
            3: BrokerRegistration.of([mute], 1, extensions={"zkgroup": {"role": "data"}}),
            5: BrokerRegistration.of([closed], 1),
            6: BrokerRegistration("no..name", 9092),
            7: BrokerRegistration("127.0.0.1", 65536),
        }
        wanted = [(TP, 1), (TP, 2), *((TP, number) for number in range(4, 8)), *((tp, 3) for tp in places)]

        addresses = addresses_of(registered)
        found = read_log_ends(addresses, wanted, timeout_ms=SHORT_MS)
        ends = read_end_offsets(addresses, {TP: 5, places[1]: 4}, timeout_ms=SHORT_MS)

    assert (found[TP, 1].log_end_offset, found[TP, 1].answered) == (0, True)
    assert str(found[TP, 2].reason).startswith("its broker has no plain listener (--command-config")
    assert found[TP, 4].reason == "its broker is not registered"
    assert f"{closed.host}:{closed.port}: " in (found[TP, 5].reason or "")
    assert all("no address of a broker: " in (found[TP, number].reason or "") for number in (6, 7))
    assert {found[tp, 3].reason for tp in places} == {f"{mute.host}:{mute.port}: no answer within 300 ms"}
    assert not any(end.answered for (_, broker), end in found.items() if broker != 1)
    assert ends[places[1]] == "its leader, broker 4, is not registered"
    assert str(ends[TP]).startswith(f"{closed.host}:{closed.port}: ")


def test_the_brokers_themselves_say_who_leads_and_where_logs_are_at_a_time() -> None:
    """The first that answers; a partition without a leader, or that is not there, has its reason."""
    places = [TopicPartition("orders", number) for number in range(2)]
    with (
        RecordBrokers(2) as brokers,
        socket.create_server(("127.0.0.1", 0)) as gone,
        socket.create_server(("127.0.0.1", 0)) as mute,
    ):
        away, silent = (BrokerAddress(*one.getsockname()) for one in (gone, mute))
        gone.close()
        for tp in places:
            brokers.lead(tp, 1)
        produce(brokers, b"a", b"b")
        brokers.lead(places[1], -1, epoch=1, isr=(1, 2))
        answering = brokers.registration(2)
        assert answering.host is not None
        bootstrap = [silent, away, BrokerAddress(answering.host, answering.port)]
        wanted = [*places, TopicPartition("others", 0)]

        registered, leaders = read_leaders(bootstrap, wanted, NEVER_MS)
        starts, ends = read_start_offsets(registered, leaders), read_end_offsets(registered, leaders)
        times = [read_time_offsets(registered, leaders, time_ms)[TP] for time_ms in (0, NEVER_MS)]
        with pytest.raises(SourceUnavailableError, match=f"{away.host}:{away.port}: "):
            read_leaders([away], wanted, SHORT_MS)

    reasons = {places[1]: "no broker leads it", wanted[2]: "the brokers have no such partition"}
    assert starts == {TP: 0, **reasons}
    assert ends == {TP: 2, **reasons}
    assert times == [TimeOffset(0), TimeOffset(2)]


def test_a_broker_that_is_named_by_its_address_is_asked_as_it_is_registered() -> None:
    """One of zkgroup beside one of Kafka 0.8, which does not negotiate versions as the others do."""
    world = MemoryGroups()
    with RecordBrokers(1) as brokers:
        brokers.lead(TP, 1)
        ours = brokers.registration(1)
        old = BrokerRegistration("127.0.0.1", 1, timestamp_ms=1)
        for number, one in enumerate((ours, old), 1):
            world.hold(BrokerRegistration.path(number), one.encode())

        found = bootstrap_positions(world.ensemble, f"{ours.host}:{ours.port}").latest([TP])

    assert found == {TP: 0}


def test_a_broker_reports_why_its_replicas_have_failed() -> None:
    """With the time; a broker that works reports none."""
    with RecordBrokers(2) as brokers:
        brokers.lead(TP, 1)
        brokers.stop(2)
        brokers.lose(2)
        brokers.held.add(2)
        brokers.lead(TP, 1, epoch=1)
        brokers.start(2)
        brokers.lead(TP, 2, epoch=2)

        found = read_log_ends(addresses_of(brokers.registrations()), [(TP, 1), (TP, 2)])

    assert failed_replicas({(TP, 1): found[TP, 1]}) == ()
    end = found[TP, 2]
    assert end.failed_since_ms is not None
    assert end.reason is not None
    assert end.reason.startswith("cannot lead in epoch 2: ")
    assert failed_replicas(found) == (FailedReplicaReport("orders", 0, end.failed_since_ms, end.reason),)


@pytest.mark.parametrize("answered", [True, False])
def test_failed_replicas_of_a_silent_broker_are_unknown(answered: bool) -> None:
    """Not none."""
    end = LogEnd(broker=1, reason="?", answered=answered)
    assert failed_replicas({(TP, 1): end}) == (() if answered else None)
    assert failed_replicas({}) == ()


def test_a_broker_that_is_not_to_be_trusted_costs_only_its_own_answers(tmp_path: Path) -> None:
    """Where certificates are asked for; else it ends the question. The others' certificates are told."""
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    key_store = stranger.key_store("server")
    key_store.chmod(0o600)
    context = server_context(TlsSettings(key_store=str(key_store)))
    security = ClientSecurity(protocol="SSL", tls=TlsSettings(trust_store=str(authority.trust_store)))
    server = HttpServer(("127.0.0.1", 0), {}, tls=context)
    server.start()
    other = TopicPartition("orders", 1)
    try:
        with RecordBrokers(1) as brokers:
            brokers.lead(TP, 1)
            untrusted = BrokerAddress(*server.address, security=security)
            addresses = {**addresses_of(brokers.registrations()), 2: untrusted}
            certificates: dict[int, float] = {}
            ends = read_end_offsets(addresses, {TP: 1, other: 2}, certificates=certificates)
            with pytest.raises(BrokerAuthenticationError, match="certificate is refused"):
                read_end_offsets(addresses, {TP: 1, other: 2})
    finally:
        server.close()

    assert (ends[TP], certificates) == (0, {})
    assert "the broker's certificate is refused: " in str(ends[other])
