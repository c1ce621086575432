"""How far replicas are, asked of their own brokers."""

from __future__ import annotations

import socket
from dataclasses import astuple

from tests.worlds.line_brokers import LineBrokers
from zkgroup.lines.failed_replicas import read_failed_replicas
from zkgroup.lines.log_ends import CONNECTIONS, LogEnd, read_log_ends
from zkgroup.lines.producer import LineProducer
from zkgroup.lines.producing import Acks, ProducerSettings
from zkgroup.model import TopicPartition
from zkgroup.testing.clock import FakeClock
from zkgroup.wire.replica_host import OBSERVER, FetchLinesRequest
from zkgroup.znodes.brokers import BrokerRegistration, Endpoint

TP = TopicPartition("orders", 0)


def test_each_replica_tells_its_own_end_and_watermark() -> None:
    """A follower that fetches nothing stays behind, and the watermark with it."""
    with LineBrokers(2) as brokers:
        brokers.held.add(2)
        brokers.lead(TP, 1)
        with LineProducer(brokers.registrations, ProducerSettings(acks=Acks.LEADER)) as producer:
            producer.append(TP, b"a")
            producer.append(TP, b"b")
            producer.flush()

        found = read_log_ends(brokers.registrations(), [(TP, 1), (TP, 2)])

    assert found[TP, 1] == LogEnd(broker=1, log_end_offset=2, high_watermark=0)
    assert found[TP, 2] == LogEnd(broker=2, log_end_offset=0, high_watermark=0)


def test_more_replicas_than_connections_are_all_asked_for() -> None:
    """One question each; a partition that is not there has its reason."""
    places = [TopicPartition("orders", number) for number in range(3 * CONNECTIONS)]
    with LineBrokers(1) as brokers:
        for tp in places[:-1]:
            brokers.lead(tp, 1)

        found = read_log_ends(brokers.registrations(), [(tp, 1) for tp in places])
        asked = [one for one in brokers.requests(1, FetchLinesRequest) if one.replica_id == OBSERVER]

    assert [found[tp, 1].log_end_offset for tp in places] == [0] * (len(places) - 1) + [None]
    assert found[places[-1], 1].reason == "its broker answers 3 (unknown topic or partition)"
    assert len(asked) == len(places)


def test_who_cannot_be_asked_has_a_reason_and_the_others_are_told() -> None:
    """Gone, Kafka's, or silent: a broker that says nothing is waited for once, not for each replica."""
    places = [TopicPartition("orders", number) for number in range(3 * CONNECTIONS)]
    kafka = BrokerRegistration.of([Endpoint("PLAINTEXT", "127.0.0.1", 1, "PLAINTEXT")], 1)
    with LineBrokers(1, clock=FakeClock()) as brokers, socket.create_server(("127.0.0.1", 0)) as silent:
        brokers.lead(TP, 1)
        mute = Endpoint("PLAINTEXT", *silent.getsockname(), "PLAINTEXT")
        ours = BrokerRegistration.of([mute], 1, extensions={"zkgroup": {"role": "data"}})
        registered = {**brokers.registrations(), 2: kafka, 3: ours}
        wanted = [(TP, 1), (TP, 2), (TP, 4), *((tp, 3) for tp in places)]

        found = read_log_ends(registered, wanted, timeout_ms=2000, clock=brokers.clock)

    assert found[TP, 1].log_end_offset == 0
    assert found[TP, 2].reason == "its broker is Kafka's"
    assert found[TP, 4].reason == "its broker is not registered"
    assert {found[tp, 3].reason for tp in places} == {f"{mute.host}:{mute.port}: no answer in time"}


def test_a_broker_tells_why_its_replicas_have_failed() -> None:
    """With the time; a working broker reports none, and a Kafka or silent broker is unknown."""
    kafka = BrokerRegistration.of([Endpoint("PLAINTEXT", "127.0.0.1", 1, "PLAINTEXT")], 1)
    with LineBrokers(2, clock=FakeClock()) as brokers, socket.create_server(("127.0.0.1", 0)) as silent:
        brokers.lead(TP, 1)
        brokers.stop(2)
        brokers.lose(2)
        brokers.held.add(2)
        brokers.lead(TP, 1, epoch=1)
        brokers.start(2)
        brokers.lead(TP, 2, epoch=2)
        mute = Endpoint("PLAINTEXT", *silent.getsockname(), "PLAINTEXT")
        ours = BrokerRegistration.of([mute], 1, extensions={"zkgroup": {"role": "data"}})
        registered = {**brokers.registrations(), 3: kafka, 4: ours}

        told = {
            broker: read_failed_replicas(registered, broker, timeout_ms=2000, clock=brokers.clock)
            for broker in (1, 2, 3, 4, 5)
        }

    assert (told[1], told[3], told[4], told[5]) == ((), None, None, None)
    assert told[2] is not None
    ((topic, partition, since_ms, reason),) = map(astuple, told[2])
    assert (topic, partition) == TP
    assert since_ms > 0
    assert reason.startswith("cannot lead in epoch 2: ")
