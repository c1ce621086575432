"""A leader is killed while lines are under way to it: what was acknowledged is where it was said to be."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.worlds.processes import Process
from tests.worlds.shell import Shell
from zkgroup.admin.brokers import Cluster, read_states
from zkgroup.admin.ensemble import Ensemble
from zkgroup.consumer.sources.files import FileSource
from zkgroup.lines.producer import LineProducer
from zkgroup.lines.producing import Delivery, Outcome, ProducerSettings
from zkgroup.model import TopicPartition
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.clock import SystemClock

pytestmark = pytest.mark.timeout(300)

QUICK = ("--set", "zookeeper.session.timeout.ms=4s", "--set", "replica.lag.time.max.ms=10s")
PARTITIONS = [TopicPartition("t", number) for number in range(3)]
KILL_AT, COUNT = 200, 600


def test_acknowledged_lines_are_at_their_offsets_after_a_leader_was_killed(
    shell: Shell, tmp_path: Path
) -> None:
    """Each line is told of once; in the log once, or twice where its acknowledgement says so."""
    environment = {**os.environ, **{name: text for name, text in shell.environment.items() if text}}
    told: list[Delivery] = []
    with ExitStack() as stack:
        brokers = {
            number: stack.enter_context(
                Process(
                    *("broker", "run", "--id", str(number), "--format", "ndjson"),
                    *("--data", str(tmp_path / f"b{number}"), *QUICK),
                    env=environment,
                )
            )
            for number in (1, 2, 3)
        }
        for broker in brokers.values():
            broker.until(lambda event: event["event"] == "registered")
        lists = ("--replica-assignment", "1:2:3,2:3:1,3:1:2")
        assert shell.run("topic", "create", "t", "--partitions", "3", *lists).code == 0
        patient = ClientSettings(session_timeout_ms=30_000)
        client = stack.enter_context(ZooKeeperClient(environment["ZKGROUP_ZOOKEEPER"], patient))
        ensemble = Ensemble(stack.enter_context(Blocking(client)), SystemClock())
        settings = ProducerSettings(delivery_timeout_ms=60_000, batch_lines=7, buffered_bytes=500)
        with LineProducer(Cluster(ensemble).brokers, settings, told.append) as producer:
            for number in range(COUNT):
                if number == KILL_AT:
                    brokers[1].stop(signal.SIGKILL)
                producer.append(PARTITIONS[number % 3], b"%d" % number)
        states = read_states(ensemble, PARTITIONS)
        assert [brokers[number].stop() for number in (2, 3)] == [0, 0]

    assert sorted(number for one in told for number in one.numbers) == [*range(COUNT)]
    assert {one.outcome for one in told} == {Outcome.ACKNOWLEDGED}
    assert max(one.leader_epoch for one in told) > 0, "the leader has changed"
    for tp, state in states.items():
        assert state is not None
        assert state.leader in (2, 3)
        log = [one.value for one in FileSource(tmp_path / f"b{state.leader}").read(tp, 0, 10 * COUNT)]
        for one in told:
            for i, number in enumerate(one.numbers if one.topic_partition == tp else ()):
                assert log[one.base_offset + i] == b"%d" % number
                assert log.count(b"%d" % number) == 1 or one.may_be_repeated
