"""Lag, and offsets by time, at brokers of Kafka 0.8.2.2 of which one is dead."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.long.interop.servers import VERSION, RealBroker, RealZooKeeper
from tests.long.interop.toolbox import Toolbox
from tests.waiting import becomes, eventually
from tests.worlds.other_clients import kazoo_on
from tests.worlds.shell import Shell
from zkgroup import Admin, KafkaSource, TopicPartition
from zkgroup.znodes.brokers import BrokerRegistration

CHROOT, TOPIC, GROUP, RECORDS = "/old-brokers", "orders", "billing", 12
THERE, DEAD = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
MORNING_S = 1_600_000_000
"""When the first segment was last written, 2020-09-13T12:26:40 UTC; each of the others an hour later."""
HOUR_S = 3_600
COOKBOOK = Path(__file__).parents[3] / "docs" / "cookbook.md"


@dataclass
class OldCluster:
    """Broker 1 leads partition 0, in segments of a few records; broker 2, which led partition 1, is dead."""

    shell: Shell
    broker: RealBroker
    segments: list[int]
    """The first offset of each."""

    @property
    def address(self) -> str:
        return str(self.shell.environment["ZKGROUP_ZOOKEEPER"])

    def brokers(self) -> dict[int, BrokerRegistration]:
        return {1: BrokerRegistration("127.0.0.1", self.broker.port)}

    def partitions(self, topic: str) -> tuple[int, ...]:
        return (0, 1)


@pytest.fixture(scope="module")
def cluster(real_zookeeper: RealZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldCluster]:
    folder = tmp_path_factory.mktemp("old-brokers")
    shell = Shell(folder, real_zookeeper.address + CHROOT)
    with kazoo_on(real_zookeeper.address) as tree:
        tree.create(CHROOT)
        brokers = [
            RealBroker(real_zookeeper, folder / f"b{number}", number, CHROOT, log_segment_bytes=100)
            for number in (1, 2)
        ]
        try:
            for broker in brokers:
                broker.wait_ready()
            yield _filled(OldCluster(shell, brokers[0], []), brokers[1], tree)
        finally:
            for broker in brokers:
                broker.stop()


def _filled(cluster: OldCluster, dying: RealBroker, tree: KazooClient) -> OldCluster:
    shell, registration = cluster.shell, f"{CHROOT}/brokers/ids/2"
    assert shell.run("topic", "create", TOPIC, "--replica-assignment", "1,2").code == 0
    with cluster.broker.producer() as producer:
        eventually(lambda: len(producer.partitions_for(TOPIC)) == 2, what="both partitions have a leader")
        for number in range(RECORDS):
            producer.send(TOPIC, 0, f"record-{number:04}")
    session = tree.get(registration)[1].ephemeralOwner
    dying.stop()
    cluster.broker.zookeeper.end_session(session)
    eventually(lambda: tree.exists(registration) is None, what="broker 2 is gone")
    files = sorted(Path(cluster.broker.process.log.parent, "logs", str(THERE)).glob("*.log"))
    for number, file in enumerate(files):
        os.utime(file, (MORNING_S + number * HOUR_S,) * 2)
        cluster.segments.append(int(file.stem))
    assert len(files) > 3
    values = [f"{TOPIC}:0={RECORDS - 2}", f"{TOPIC}:1=0"]
    assert shell.run("offsets", "set", GROUP, *values, "--execute").code == 0
    return cluster


@pytest.mark.parametrize("by_address", [False, True])
def test_a_partition_without_a_leader_has_no_lag_and_the_others_have(
    cluster: OldCluster, by_address: bool
) -> None:
    """Past bug: no group was printed at all, and the one broker was blamed."""
    shell = cluster.shell
    source = ("--source", f"kafka:{cluster.broker.address}" if by_address else "kafka")

    listed = shell.run("group", "list", *source, "--format", "json")
    described = shell.json("group", "describe", GROUP, *source)
    shown = shell.json("offsets", "show", GROUP, *source)

    assert listed.code == 0
    assert [(one["group"], one["lag"]) for one in listed.document["groups"]] == [(GROUP, 2)]
    assert listed.err.startswith(f"note: the end of {DEAD} is not known: ")
    for rows in (described["partitions"], shown["offsets"]):
        assert [(row["log_end_offset"], row["lag"]) for row in rows] == [(RECORDS, 2), (None, None)]


def test_where_no_lag_is_shown_a_note_says_how(cluster: OldCluster) -> None:
    """Brokers of Kafka are asked only by the option."""
    for words in (("group", "list"), ("group", "describe", GROUP), ("offsets", "show", GROUP)):
        ran = cluster.shell.run(*words)
        assert (ran.code, ran.err.count("`--source kafka`")) == (0, 1)
        assert cluster.shell.run(*words, "--source", "none").err == ""


def test_the_cookbooks_reset_to_a_time_is_that_of_kafkas_own_tool(cluster: OldCluster, box: Toolbox) -> None:
    """Between two writes of segments, before all of them, and now; in a program as well."""
    (command,) = re.findall(r"`zkgroup (offsets reset .* --source kafka)`", COOKBOOK.read_text())
    words = shlex.split(command.replace(" new ", f" {GROUP} "))
    middle_s = MORNING_S + HOUR_S * 3 // 2
    for time_s, segment in ((middle_s, 1), (MORNING_S - 1, 0), (MORNING_S + 24 * HOUR_S, -1)):
        moment = datetime.fromtimestamp(time_s, UTC)
        words[words.index("--to") + 1] = moment.isoformat()
        ran = cluster.shell.run(*words, "--topic", f"{TOPIC}:0", "--format", "json")
        (change,) = ran.document["changes"]
        printed = box.run(VERSION, "kafka.tools.GetOffsetShell", *_asking(cluster, time_s)).text

        assert change["after"] == cluster.segments[segment], ran
        assert f"{TOPIC}:0:{'' if time_s < MORNING_S else change['after']}\n" in printed
        assert "segments of earlier ones come again" in ran.err
    with Admin(cluster.address) as admin:
        plan = admin.reset_offsets(GROUP, datetime.fromtimestamp(middle_s, UTC), [THERE], dry_run=True).plan
    assert [change.after for change in plan.changes] == [cluster.segments[1]]
    ran = cluster.shell.run(*words)
    assert (ran.code, f"--topic {TOPIC}:0" in ran.err) == (5, True)
    assert cluster.shell.run(*words, "--topic", f"{TOPIC}:0", "--execute").code == 0


def _asking(cluster: OldCluster, time_s: int) -> tuple[str, ...]:
    words = ("--broker-list", cluster.broker.address, "--topic", TOPIC, "--partitions", "0", "--offsets", "1")
    return (*words, "--time", str(time_s * 1000))


def test_a_source_reads_what_has_a_leader(cluster: OldCluster) -> None:
    """Ends, bounds and offsets by time of the other partition; one without a leader is absent."""
    source = KafkaSource()
    source.open(cluster)
    try:
        assert becomes(lambda: source.log_ends([THERE, DEAD]), {THERE: RECORDS})
        middle_ms = (MORNING_S + HOUR_S * 3 // 2) * 1000
        assert source.offsets_at([THERE, DEAD], middle_ms) == {THERE: cluster.segments[1]}
        assert set(source.bounds_of([THERE, DEAD], 10.0)) == {THERE, DEAD}
    finally:
        source.close()
