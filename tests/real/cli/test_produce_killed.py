"""A leader is killed while lines are under way to it: what was acknowledged is where it was said to be."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path

from tests.waiting import PATIENCE_S
from tests.worlds.replica_managers import lines_on_disk
from tests.worlds.sessions import end_session_of
from tests.worlds.shell import Shell
from zkgroup.admin.cluster.brokers import ClusterReader, read_states
from zkgroup.groups.ensemble import Ensemble
from zkgroup.lines.producer import LineProducer
from zkgroup.lines.producing import Delivery, Outcome, ProducerSettings
from zkgroup.model import TopicPartition
from zkgroup.testing.plugin import Tree
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.clock import SystemClock

QUICK = (
    *("--set", "zookeeper.session.timeout.ms=60s", "--set", "replica.lag.time.max.ms=60s"),
    *("--set", "replica.fetch.wait.max.ms=50ms", "--set", "replica.fetch.backoff.ms=20ms"),
    *("--set", "controlled.shutdown.retry.backoff.ms=50ms"),
)
PARTITIONS = [TopicPartition("t", 0), TopicPartition("u", 0), TopicPartition("u", 1)]
KILL_AT, COUNT = 200, 600


def test_acknowledged_lines_are_at_their_offsets_after_a_leader_was_killed(
    shell: Shell, tmp_path: Path, zk_server: Tree, witness: Blocking
) -> None:
    """Each line is reported once; in the log once, or twice where its acknowledgement says so."""
    deliveries: list[Delivery] = []
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
        settings = ProducerSettings(delivery_timeout_ms=patience_ms, batch_lines=7, buffered_bytes=500)
        with LineProducer(ClusterReader(ensemble).brokers, settings, deliveries.append) as producer:
            for number in range(COUNT):
                if number == KILL_AT:
                    brokers[1].stop(signal.SIGKILL)
                    end_session_of(witness, BrokerRegistration.path(1), zk_server.server(0).port)
                producer.append(PARTITIONS[number % 3], b"%d" % number)
        states = read_states(ensemble, PARTITIONS)
        assert [brokers[number].stop() for number in (2, 3)] == [0, 0]

    assert sorted(number for one in deliveries for number in one.numbers) == [*range(COUNT)]
    assert {one.outcome for one in deliveries} == {Outcome.ACKNOWLEDGED}
    assert max(one.leader_epoch for one in deliveries) > 0, "the leader has changed"
    for tp, state in states.items():
        assert state is not None
        assert state.leader in (2, 3)
        log = lines_on_disk(tmp_path / f"b{state.leader}", tp)
        for one in deliveries:
            for i, number in enumerate(one.numbers if one.topic_partition == tp else ()):
                assert log[one.base_offset + i] == b"%d" % number
                assert log.count(b"%d" % number) == 1 or one.may_be_repeated
