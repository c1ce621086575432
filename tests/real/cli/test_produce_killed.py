"""A leader is killed while records are in flight to it: what was acknowledged is where it was reported."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path

from tests.waiting import PATIENCE_S
from tests.worlds.other_clients import end_session_of
from tests.worlds.replica_managers import records_on_disk
from tests.worlds.shell import Shell
from zkgroup.admin.cluster.brokers import ClusterReader, read_states
from zkgroup.clients.producer import DeliveryReport, NewRecord, Outcome, ProducerSettings, RecordProducer
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import TopicPartition
from zkgroup.testing.plugin import ServerTree
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.client import SystemClock

QUICK = (
    *("--set", "zookeeper.session.timeout.ms=60s", "--set", "replica.lag.time.max.ms=60s"),
    *("--set", "replica.fetch.wait.max.ms=50ms", "--set", "replica.fetch.backoff.ms=20ms"),
    *("--set", "controlled.shutdown.retry.backoff.ms=50ms"),
)
PARTITIONS = [TopicPartition("t", 0), TopicPartition("u", 0), TopicPartition("u", 1)]
KILL_AT, COUNT = 200, 600


def test_acknowledged_records_are_at_their_offsets_after_a_leader_was_killed(
    shell: Shell, tmp_path: Path, zk_server: ServerTree, witness: Blocking
) -> None:
    """Each record is reported once, and is in the log once, since the producer is idempotent."""
    deliveries: dict[str, list[DeliveryReport]] = {"t": [], "u": []}
    values: dict[str, list[bytes]] = {"t": [], "u": []}
    with ExitStack() as stack:
        brokers = {
            number: stack.enter_context(
                shell.start(
                    *("broker", "run", "--id", str(number)), *("--data", str(tmp_path / f"b{number}"), *QUICK)
                )
            )
            for number in (1, 2, 3)
        }
        for broker in brokers.values():
            broker.until_event("registered")
        # the killed one does not fetch: until it has left an ISR, after the lag, acks=all waits for it
        for topic, lists in {"t": "1:2:3", "u": "2:3,3:2"}.items():
            assert shell.run("topic", "create", topic, "--replica-assignment", lists).code == 0
        ensemble = Ensemble(witness, SystemClock())
        patience_ms = round(1000 * PATIENCE_S)
        settings = ProducerSettings(delivery_timeout_ms=patience_ms, buffer_memory=60)
        cluster = ClusterReader(ensemble)
        producers = {
            topic: RecordProducer(cluster, topic, deliveries[topic].append, settings) for topic in values
        }
        for producer in producers.values():
            stack.callback(producer.close)
        for number in range(COUNT):
            if number == KILL_AT:
                brokers[1].stop(signal.SIGKILL)
                end_session_of(witness, BrokerRegistration.path(1), zk_server.server(0).port)
            tp = PARTITIONS[number % 3]
            values[tp.topic].append(b"%d" % number)
            producers[tp.topic].send(NewRecord(b"%d" % number, partition=tp.partition))
        for producer in producers.values():
            producer.flush()
        states = read_states(ensemble, PARTITIONS)
        assert [brokers[number].stop() for number in (2, 3)] == [0, 0]

    for topic, found in deliveries.items():
        assert sorted(one.number for one in found) == [*range(len(values[topic]))]
        assert {one.outcome for one in found} == {Outcome.ACKNOWLEDGED}
    for tp, state in states.items():
        assert state is not None
        assert state.leader in (2, 3)
        log = records_on_disk(tmp_path / f"b{state.leader}", tp)
        of_it = [one for one in deliveries[tp.topic] if one.partition == tp.partition]
        assert {one.offset: values[tp.topic][one.number] for one in of_it} == dict(enumerate(log))
    led = states[PARTITIONS[0]]
    assert led is not None
    assert led.leader_epoch > 0, "the leader has changed"
