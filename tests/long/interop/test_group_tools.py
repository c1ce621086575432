"""kafka-consumer-groups and kafka-verifiable-consumer at zkgroup brokers."""

from __future__ import annotations

import gc
import json
import logging
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.long.clients.group_readers import KafkaPythonReader
from tests.long.interop.conftest import fetched
from tests.long.interop.deliveries import Deliveries, Line
from tests.long.interop.jars import tools_jars
from tests.long.interop.processes import Process
from tests.long.interop.served_tools import RELEASES, ServedTools
from tests.long.interop.toolbox import Toolbox
from tests.long.interop.tooled import OurBrokers
from tests.waiting import becomes, eventually
from tests.worlds.kafka_clients import CLIENTS, KafkaRecord
from zkgroup.admin.files import SavedOffset, kafka_csv, parse_offsets
from zkgroup.model import TopicPartition

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

MORNING_MS = 1_600_000_000_000
"""Time of the first five records of a partition, 2020-09-13T12:26:40 UTC; the others are a day later."""
DAY_MS = 86_400_000


@pytest.fixture(autouse=True)
def _collected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """kafka-python 3.0 leaves sockets of refused connections to the collector, and its logs keep them."""
    caplog.set_level(logging.CRITICAL, "kafka")
    yield
    gc.collect()


@pytest.fixture(params=RELEASES)
def group_tools(
    request: pytest.FixtureRequest, group_brokers: OurBrokers, box: Toolbox, tmp_path: Path
) -> ServedTools:
    fetched(str(request.param))
    return ServedTools(box, str(request.param), group_brokers, tmp_path)


def filled(tools: ServedTools, name: str) -> str:
    """A topic of two partitions with ten records each."""
    topic = tools.name(name)
    tools.cluster.create(topic, (1, 2, 3), (2, 3, 1))
    for partition in range(2):
        send(tools, topic, partition, 10)
    return topic


def send(tools: ServedTools, topic: str, partition: int, count: int) -> None:
    records = [
        KafkaRecord(b"%d" % number, timestamp_ms=MORNING_MS + (0 if number < 5 else DAY_MS))
        for number in range(count)
    ]
    CLIENTS["confluent-kafka"].send(tools.bootstrap, TopicPartition(topic, partition), records)


def rows(text: str) -> list[dict[str, str]]:
    """The rows of a table, by the heads of its columns; a bracket belongs to the word before it."""
    lines = [re.sub(r" +\((\w+)\)", r"(\1)", line).split() for line in text.splitlines()]
    tables = [number for number, line in enumerate(lines) if line[:1] == ["GROUP"]]
    found = []
    for number in tables:
        for line in lines[number + 1 :]:
            if len(line) != len(lines[number]) or line[0] == "GROUP":
                break
            found.append(dict(zip(lines[number], line, strict=True)))
    return found


def numbers(text: str, column: str) -> dict[int, str]:
    """A column of a table by partition."""
    return {int(row["PARTITION"]): row[column] for row in rows(text)}


def new_offsets(text: str, topic: str) -> dict[int, int]:
    """Partitions and offsets of a reset; 3.9.1 prints the whole table as one line."""
    return {int(partition): int(offset) for partition, offset in re.findall(rf"{topic} +(\d+) +(\d+)", text)}


def read_to_the_end(tools: ServedTools, group: str, topic: str) -> None:
    """A member reads and commits everything, and leaves."""
    with KafkaPythonReader(tools.bootstrap, group, [topic]):
        becomes(lambda: tools.cluster.committed(group, topic), {0: 10, 1: 10})


def test_a_group_is_listed_and_described_with_and_without_members(group_tools: ServedTools) -> None:
    """Offsets and lag, members with their partitions, the state, states and all groups."""
    tools, topic = group_tools, filled(group_tools, "described")
    group, of = tools.name("readers"), ("--describe", "--group", tools.name("readers"))
    with KafkaPythonReader(tools.bootstrap, group, [topic]) as member:
        becomes(lambda: tools.cluster.committed(group, topic), {0: 10, 1: 10})
        becomes(lambda: len(member.assigned), 2)
        offsets = eventually(lambda: tools.run("groups", *of).text, lambda text: len(rows(text)) == 2)
        members = tools.run("groups", *of, "--members", "--verbose").text
        (state,) = rows(tools.run("groups", *of, "--state").text)
        everything = rows(tools.run("groups", "--describe", "--all-groups").text)
        listed = tools.run("groups", "--list").text.split()
        stable = tools.run("groups", "--list", "--state", "Stable").text
        states = tools.run("groups", "--list", "--state").text

    for column, value in {"TOPIC": topic, "CURRENT-OFFSET": "10", "LOG-END-OFFSET": "10", "LAG": "0"}.items():
        assert numbers(offsets, column) == {0: value, 1: value}
    (owner,) = {row["CONSUMER-ID"] for row in rows(offsets)}
    assert {(row["HOST"], row["CLIENT-ID"]) for row in rows(offsets)} == {
        ("/127.0.0.1", owner.rpartition("-" + owner[-36:])[0])
    }
    assert owner in members
    assert "(0,1)" in members  # 3.9.1 prints no topic
    (coordinator,) = (row for row in state if row.startswith("COORDINATOR"))
    assert re.fullmatch(r"127\.0\.0\.1:\d+\([123]\)", state[coordinator])
    assert (state["ASSIGNMENT-STRATEGY"], state["STATE"], state["#MEMBERS"]) == ("range", "Stable", "1")
    assert [row["PARTITION"] for row in everything if row["GROUP"] == group] == ["0", "1"]
    assert group in listed
    assert re.search(rf"^{group}\s+Stable", stable, re.M)
    assert re.search(rf"^{group}\s+Stable", states, re.M)

    send(tools, topic, 0, 5)
    empty = tools.run("groups", *of).text
    assert "has no active members" in empty
    assert numbers(empty, "LAG") == {0: "5", 1: "0"}
    assert {row["CONSUMER-ID"] for row in rows(empty)} == {"-"}
    assert "has no active members" in tools.run("groups", *of, "--members").text
    assert re.search(rf"^{group}\s+Empty", tools.run("groups", "--list", "--state").text, re.M)
    assert group not in tools.run("groups", "--list", "--state", "Stable").text
    assert "does not exist" in tools.refused("groups", "--describe", "--group", "nobody")


def test_offsets_of_a_group_are_reset(group_tools: ServedTools) -> None:
    """By each way that the tool has, while the group is empty; never while it has members."""
    tools, topic = group_tools, filled(group_tools, "reset")
    group = tools.name("resetters")
    reset = ("--reset-offsets", "--group", group, "--topic", topic)
    with KafkaPythonReader(tools.bootstrap, group, [topic]):
        becomes(lambda: tools.cluster.committed(group, topic), {0: 10, 1: 10})
        refused = tools.refused("groups", *reset, "--to-earliest", "--execute")
        assert "current state is Stable" in refused, refused
        assert tools.cluster.committed(group, topic) == {0: 10, 1: 10}

    planned = tools.run("groups", *reset, "--to-earliest", "--dry-run").text
    assert new_offsets(planned, topic) == {0: 0, 1: 0}, planned
    assert tools.cluster.committed(group, topic) == {0: 10, 1: 10}
    exported = tools.run("groups", *reset, "--to-current", "--export", "--dry-run").text
    csv = "\n".join(line for line in exported.splitlines() if line.count(",") in (2, 3))
    read = parse_offsets("exported", csv, group=group)
    assert {one.topic_partition.partition: one.offset for one in read} == {0: 10, 1: 10}
    ours = [SavedOffset(group, TopicPartition(topic, number), number + 1) for number in range(2)]
    from_file = tools.folder / "offsets.csv"
    from_file.write_text(kafka_csv(ours))
    for ways, expected in (
        (("--to-earliest",), [0, 0]),
        (("--to-latest",), [10, 10]),
        (("--to-offset", "4"), [4, 4]),
        (("--shift-by", "2"), [6, 6]),
        (("--shift-by", "-100"), [0, 0]),
        (("--to-datetime", "2020-09-13T20:00:00.000"), [5, 5]),
        (("--by-duration", "PT1H"), [10, 10]),
    ):
        printed = tools.run("groups", *reset, *ways, "--execute").text
        assert new_offsets(printed, topic) == dict(enumerate(expected)), ways
        assert tools.cluster.committed(group, topic) == dict(enumerate(expected)), ways
    part = ("--reset-offsets", "--group", group, "--topic", f"{topic}:1")
    tools.run("groups", *part, "--to-offset", "7", "--execute")
    assert tools.cluster.committed(group, topic) == {0: 10, 1: 7}
    file = ("--reset-offsets", "--group", group, "--from-file", str(from_file))
    tools.run("groups", *file, "--execute")
    assert tools.cluster.committed(group, topic) == {0: 1, 1: 2}
    other = tools.name("other-resetters")
    from_file.write_text(kafka_csv([*ours, SavedOffset(other, TopicPartition(topic, 0), 5)]))
    tools.run("groups", *file, "--group", other, "--execute")
    assert tools.cluster.committed(other, topic) == {0: 5}
    assert tools.cluster.committed(group, topic) == {0: 1, 1: 2}

    with KafkaPythonReader(tools.bootstrap, group, [topic]) as member:
        becomes(lambda: tools.cluster.committed(group, topic), {0: 10, 1: 10})
    assert len(member.records) == 9 + 8


def test_offsets_and_groups_are_deleted(group_tools: ServedTools) -> None:
    """Nothing that members use; afterwards the next member begins anew."""
    tools, topic = group_tools, filled(group_tools, "deleted")
    group = tools.name("deleters")
    offsets = ("--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    whole = ("--delete", "--group", group)
    with KafkaPythonReader(tools.bootstrap, group, [topic]):
        becomes(lambda: tools.cluster.committed(group, topic), {0: 10, 1: 10})
        subscribed = tools.refused("groups", *offsets)
        members = tools.refused("groups", *whole)
        assert "subscribed to" in subscribed, subscribed
        assert "not empty" in members, members
        assert tools.cluster.committed(group, topic) == {0: 10, 1: 10}

    deleted = tools.run("groups", *offsets).text
    assert "Successful" in deleted, deleted
    assert tools.cluster.committed(group, topic) == {1: 10}
    gone = tools.run("groups", *whole).text
    assert "was successful" in gone, gone
    assert group not in tools.run("groups", "--list").text.split()
    assert tools.cluster.committed(group, topic) == {}
    assert re.search(r"does not exist|GroupIdNotFound", tools.refused("groups", *whole))
    read_to_the_end(tools, group, topic)
    assert group in tools.run("groups", "--list").text.split()


class VerifiableConsumer:
    """kafka-verifiable-consumer in a JVM of its own, and what it prints as lines for `Deliveries`."""

    def __init__(self, tools: ServedTools, name: str, group: str, topic: str) -> None:
        words = ("--topic", topic, "--group-id", group, "--reset-policy", "earliest")
        self.name = name
        self._output = tools.folder / f"{name}.lines"
        command = [
            "-Dreal.kafka.log=DEBUG" if word == "-Dreal.kafka.log=WARN" else word
            for word in tools.command("verifiable consumer", *words)
        ]  # what it asks again and again is not a warning
        self.process = Process(command, tools.folder / f"{name}.log", output=self._output)

    def events(self) -> list[Line]:
        complete, _, _ = self._output.read_text(encoding="utf-8").rpartition("\n")
        return [json.loads(line) for line in complete.splitlines() if line.startswith("{")]

    def lines(self) -> list[Line]:
        """Its clock has milliseconds: an assignment is at their end, so that it is after a revocation."""
        found: list[Line] = []
        at = 0
        for event in self.events():
            at = max(at + 1, int(event["timestamp"]) * 1000 + (999 if "assigned" in event["name"] else 0))
            found += [{"member": self.name, "at": at, **one} for one in _as_lines(event)]
        return found

    def end(self) -> list[str]:
        """Sends SIGTERM; the names of all its events, once it has ended."""
        self.process.signal(signal.SIGTERM)
        self.process.wait()
        return [event["name"] for event in self.events()]


def _as_lines(event: Line) -> Iterator[Line]:
    name = event["name"]
    if name in ("partitions_assigned", "partitions_revoked"):
        partitions = [one["partition"] for one in event["partitions"]]
        yield {"event": name.removeprefix("partitions_"), "partitions": partitions}
    elif name == "records_consumed":
        for one in event["partitions"]:
            yield {
                "event": "read",
                "partition": one["partition"],
                "first": one["minOffset"],
                "last": one["maxOffset"],
            }
    elif name == "offsets_committed" and event["success"]:
        offsets = {str(one["partition"]): one["offset"] for one in event["offsets"]}
        yield {"event": "committed", "offsets": offsets}


def test_verifiable_consumers_share_a_topic_and_one_takes_over(group_tools: ServedTools) -> None:
    """kafka-verifiable-consumer: two of them, of which one ends and its partition goes to the other."""
    fetched(group_tools.release, tools_jars)
    tools, topic = group_tools, filled(group_tools, "verified")
    group = tools.name("verifiers")
    consumers = [VerifiableConsumer(tools, name, group, topic) for name in ("first", "second")]

    def found() -> Deliveries:
        return Deliveries(line for one in consumers for line in one.lines())

    def owned() -> set[frozenset[int]]:
        deliveries = found()
        return {deliveries.owned(one.name) for one in consumers}

    def told() -> str:
        logs = [f"{one.name}:\n{one.process.tail(60)}" for one in consumers]
        return "\n".join(["each partition's ten records are committed", *logs])

    try:
        becomes(owned, {frozenset({0}), frozenset({1})})
        becomes(lambda: found().committed, {0: 10, 1: 10}, what=told)
        send(tools, topic, 0, 5)
        send(tools, topic, 1, 5)
        becomes(lambda: found().committed, {0: 15, 1: 15})
        ended = consumers[0].end()
        becomes(lambda: found().owned("second"), {0, 1})
        send(tools, topic, 0, 5)
        send(tools, topic, 1, 5)
        becomes(lambda: found().committed, {0: 20, 1: 20})
        ended_last = consumers[1].end()
    finally:
        for one in consumers:
            if one.process.running:
                one.process.kill()
            one.process.end()

    assert not found().breaches
    assert not found().missing({0: 20, 1: 20})
    assert not found().repeated()
    for names in (ended, ended_last):
        assert (names[0], names[-1]) == ("startup_complete", "shutdown_complete")
    assert tools.cluster.committed(group, topic) == {0: 20, 1: 20}
