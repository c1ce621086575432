"""Brokers of Kafka 0.8.2.2 with a zkgroup controller (recipes 14 and 15)."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.long.interop.led import OURS, Led, loaded_cluster
from tests.long.interop.servers import RealZooKeeper
from tests.long.interop.toolbox import Toolbox
from tests.waiting import eventually


@pytest.fixture(scope="module")
def led(
    real_zookeeper: RealZooKeeper, box: Toolbox, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Led]:
    """For the tests that leave the zkgroup controller active, and all brokers running."""
    with loaded_cluster(real_zookeeper, box, tmp_path_factory.mktemp("led"), "/led", (1, 2, 3)) as world:
        yield world


def test_topics_are_led_through_a_lost_broker_and_its_return(led: Led) -> None:
    """Topics are created by Kafka's tool, written and read."""
    led.create("orders", 4, 2)
    eventually(lambda: led.in_sync("orders", 4, 2), what="all partitions are led")
    rows = led.described("orders")
    assert [leader for _, leader, _, _ in rows] == [replicas[0] for _, _, replicas, _ in rows]
    assert all(isr == sorted(replicas) for _, _, replicas, isr in rows)
    led.produce("orders", 4, 25, "first")
    assert len(led.consume("orders", 4, 100)) == 100

    led.crash(1)
    eventually(
        lambda: led.leaders("orders", 4),
        lambda leaders: not {1, None}.intersection(leaders),
        what="the others lead everything",
    )
    led.wait_listed(2, 3)
    led.produce("orders", 4, 25, "second")

    led.start_broker(1).wait_ready()
    eventually(lambda: led.in_sync("orders", 4, 2), what="broker 1 is in sync again")
    led.wait_listed(1, 2, 3)
    led.produce("orders", 4, 25, "third")
    assert len(led.consume("orders", 4, 300)) == 300
    assert (led.controller, led.epoch) == (OURS, 1)


def test_the_real_tools_move_elect_and_delete(led: Led) -> None:
    """Kafka's tools request, and zkgroup's controller executes it."""
    words = ("--create", "--topic", "moved", "--replica-assignment", "1:2,2:3,3:1")
    led.tool("TopicCommand", *words)
    eventually(lambda: led.in_sync("moved", 3, 2), what="all partitions are led")
    led.produce("moved", 3, 20, "first")

    targets = {0: [3, 2], 1: [1, 3], 2: [2, 1]}
    entries = [{"topic": "moved", "partition": p, "replicas": to} for p, to in targets.items()]
    file = led.folder / "moves.json"
    file.write_text(json.dumps({"version": 1, "partitions": entries}))
    tool_words = ("ReassignPartitionsCommand", "--reassignment-json-file", str(file))
    assert "Successfully started" in led.tool(*tool_words, "--execute")
    eventually(lambda: led.json("/admin/reassign_partitions") is None, what="the moves are done")
    assert led.tool(*tool_words, "--verify").count("completed successfully") == 3
    assert led.json("/brokers/topics/moved")["partitions"] == {str(p): to for p, to in targets.items()}
    eventually(lambda: led.in_sync("moved", 3, 2), what="the targets are in sync")
    led.produce("moved", 3, 20, "second")
    assert len(led.consume("moved", 3, 120)) == 120

    led.crash(3)
    eventually(lambda: 3 not in led.leaders("moved", 3), what="broker 3 leads nothing")
    led.start_broker(3).wait_ready()
    eventually(lambda: led.in_sync("moved", 3, 2), what="broker 3 is in sync again")
    assert led.leaders("moved", 3)[0] == 2
    led.tool("PreferredReplicaLeaderElectionCommand")
    eventually(lambda: led.leaders("moved", 3) == [3, 1, 2], what="every preferred replica leads")
    eventually(lambda: led.json("/admin/preferred_replica_election") is None, what="the request is gone")

    led.tool("TopicCommand", "--delete", "--topic", "moved")
    eventually(lambda: not led.tree.exists(f"{led.chroot}/brokers/topics/moved"), what="the topic is gone")
    marked = f"{led.chroot}/admin/delete_topics"
    eventually(lambda: led.tree.get_children(marked) == [], what="the marker is gone")
    eventually(lambda: not any(led.folder.glob("b*/logs/moved-*")), what="the files are gone")
    assert (led.controller, led.epoch) == (OURS, 1)


def test_a_real_broker_stops_under_our_controller(led: Led) -> None:
    """Before it stops it leads nothing and is in no ISR, and its log has no errors."""
    led.create("clicks", 6, 2)
    eventually(lambda: led.in_sync("clicks", 6, 2), what="all partitions are led")
    led.produce("clicks", 6, 10, "first")
    stopping = led.brokers[2]
    stopping.process.signal(signal.SIGTERM)
    stopping.process.wait()
    assert {*led.leaders("clicks", 6)} <= {1, 3}
    eventually(
        lambda: all(
            isr and 2 not in isr for isr in (led.state("clicks", number)["isr"] for number in range(6))
        ),
        what="broker 2 is in no ISR: a leader of 0.8.2.2 may take it back by a fetch that was under way",
    )
    led.wait_listed(1, 3)
    assert "controlled shutdown" not in stopping.process.log.read_text(errors="replace").lower()
    led.produce("clicks", 6, 10, "second")
    assert len(led.consume("clicks", 6, 120)) == 120

    led.start_broker(2).wait_ready()
    eventually(lambda: led.in_sync("clicks", 6, 2), what="broker 2 is in sync again")


def test_rule_goes_to_a_real_broker_and_comes_back(
    real_zookeeper: RealZooKeeper, box: Toolbox, tmp_path: Path
) -> None:
    """zkgroup's is killed, Kafka's takes over, zkgroup's takes over again."""
    with loaded_cluster(real_zookeeper, box, tmp_path, "/taken-over", (1, 2)) as led:
        _goes_to_a_real_broker(led)
        _comes_back(led)


def _goes_to_a_real_broker(led: Led) -> None:
    led.create("events", 3, 2)
    eventually(lambda: led.in_sync("events", 3, 2), what="all partitions are led")
    led.crash_controller()
    eventually(lambda: led.controller in (1, 2), what="a real broker is elected")
    eventually(lambda: led.epoch != 1, what="it has raised the epoch, which it does after its election")
    assert led.epoch == 2
    led.create("theirs", 2, 2)
    eventually(lambda: led.in_sync("theirs", 2, 2), what="a real controller leads a new topic")
    assert {led.state("theirs", number)["controller_epoch"] for number in (0, 1)} == {2}
    led.produce("events", 3, 10, "under-theirs")


def _comes_back(led: Led) -> None:
    ours = led.start_controller()
    eventually(
        lambda: led.tree.exists(f"{led.chroot}/zkgroup/controllers/{OURS}"),
        what="zkgroup's controller is a standby",
    )
    assert not led.tree.exists(f"{led.chroot}/brokers/ids/{OURS}")
    active = led.controller
    assert active is not None
    (other,) = {1, 2} - {active}
    led.brokers[other].process.end()
    eventually(
        lambda: all(led.state("events", number)["isr"] == [active] for number in range(3)),
        what="the one that lives is alone in every ISR, which its controller does after the other has gone",
    )
    led.crash(active)
    event = ours.wait_elected()
    assert (led.controller, event["epoch"], event["partitions"]) == (OURS, 3, 5)
    eventually(lambda: led.leaders("events", 3) == [-1, -1, -1], what="no live replica can lead")
    assert {tuple(led.state("events", number)["isr"]) for number in range(3)} == {(active,)}

    for number in (other, active):
        led.start_broker(number)
    for broker in led.brokers.values():
        broker.wait_ready()
    eventually(lambda: led.in_sync("events", 3, 2), what="events are in sync")
    eventually(lambda: led.in_sync("theirs", 2, 2), what="theirs are in sync")
    epochs = {led.state(topic, 0)["controller_epoch"] for topic in ("events", "theirs")}
    assert epochs == {3}
    led.produce("events", 3, 10, "under-ours-again")
    assert len(led.consume("events", 3, 60)) == 60
    assert (led.controller, led.epoch) == (OURS, 3)


def test_an_unreadable_registration_changes_nothing(led: Led) -> None:
    """Kafka brokers would elect each other hundreds of times; zkgroup's controller skips it (recipes 13)."""
    text = b'{"jmx_port":-1,"timestamp":1396019241689,"host":"h","version":1,"port":9092}'
    led.tree.create(f"{led.chroot}/brokers/ids/9", text, ephemeral=True)
    led.tree.create(f"{led.chroot}/brokers/ids/8", b"{", ephemeral=True)
    words = ("--create", "--topic", "quiet", "--replica-assignment", "1:2,2:3")
    led.tool("TopicCommand", *words)
    eventually(lambda: led.in_sync("quiet", 2, 2), what="all partitions are led")
    assert (led.controller, led.epoch) == (OURS, 1)
    assert [event["event"] for event in led.controllers[0].events.all()] == ["waiting", "controller"]
    led.tree.delete(f"{led.chroot}/brokers/ids/8")
    led.tree.delete(f"{led.chroot}/brokers/ids/9")
    log = led.controllers[0].process.log
    eventually(lambda: "/brokers/ids/8" in log.read_text(errors="replace"), what="it is named")
    led.wait_listed(1, 2, 3)
    led.produce("quiet", 2, 5, "first")
    assert len(led.consume("quiet", 2, 10)) == 10


def test_topics_are_deleted_without_a_broker_that_comes_back(led: Led) -> None:
    """The broker's old data is deleted before it becomes a replica of a new topic of that name (K20)."""
    placed = {"gone": "3:1:2,1:3:2", "alone": "3", "left": "3:2", "kept": "3:1"}
    for topic, assignment in placed.items():
        led.run("topic", "create", topic, "--replica-assignment", assignment)
    eventually(lambda: all(led.is_whole(topic) for topic in placed), what="all replicas are in sync")
    for topic, assignment in placed.items():
        led.produce(topic, assignment.count(",") + 1, 20, "old")

    kept = led.folder / "b3" / "logs" / "replication-offset-checkpoint"
    eventually(
        lambda: kept.exists() and "gone 1 20" in kept.read_text(),
        what="no old line is cut as one above the high watermark",
    )
    led.crash(3)
    led.run("topic", "delete", "gone", "--execute")
    led.run(*_way_out(led, "gone"))
    for topic in ("alone", "left"):
        led.run("topic", "delete", topic, "--without-broker", "3", "--execute")
    deleted = [f"{led.chroot}/brokers/topics/{topic}" for topic in ("gone", "alone", "left")]
    eventually(lambda: not any(map(led.tree.exists, deleted)), what="the topics are gone")
    strays = f"{led.chroot}/zkgroup/strays"
    data, _ = led.tree.get(f"{strays}/3")
    assert sorted(each["topic"] for each in json.loads(data)["topics"]) == ["alone", "gone", "left"]

    for topic in ("gone", "alone"):
        led.run("topic", "create", topic, "--replica-assignment", placed[topic])
    eventually(lambda: led.leaders("gone", 2) == [1, 1], what="the new topic is led without broker 3")
    led.produce("gone", 2, 5, "new")
    led.produce("kept", 1, 5, "new")
    assert b"old" in (led.lines(3, "gone", 0) or b"")

    led.start_broker(3).wait_ready()
    there = ("gone", "alone", "kept")
    eventually(lambda: all(led.is_whole(topic) for topic in there), what="broker 3 is in sync")
    eventually(lambda: led.tree.get_children(strays) == [], what="the records are gone")
    assert led.lines(3, "left", 0) is None
    led.run("elect", "preferred", "--topic", "gone", "--topic", "alone", "--execute", "--wait")
    assert [led.leaders("gone", 2), led.leaders("alone", 1)] == [[3, 1], [3]]
    led.produce("gone", 2, 5, "newer")
    led.produce("alone", 1, 5, "newer")
    assert len(led.consume("kept", 1, 25)) == 25
    for topic, count, brokers, partitions in (("gone", 20, (1, 2, 3), 2), ("alone", 5, (3,), 1)):
        assert all(line.startswith("new") for line in led.consume(topic, partitions, count))
        for number in range(partitions):
            lines = _same_lines(led, topic, number, brokers)
            assert b"newer" in (lines or b"")
            assert b"old" not in (lines or b"")
    assert (led.controller, led.epoch) == (OURS, 1)


def _same_lines(led: Led, topic: str, partition: int, brokers: tuple[int, ...]) -> bytes | None:
    """The lines of all these replicas; one that was out of sync gets its lines a moment later."""

    def alike() -> list[bytes | None]:
        found = {led.lines(broker, topic, partition) for broker in brokers}
        return [*found] if len(found) == 1 else []

    (lines,) = eventually(alike, what=f"{topic}-{partition} is the same on {brokers}")
    return lines


def _way_out(led: Led, topic: str) -> list[str]:
    """The command that ends the deletion, as the controller prints it."""

    def told() -> str:
        (row,) = json.loads(led.run("topic", "describe", topic, "--format", "json"))["topics"]
        detail = str(row["deletion"]["detail"])
        return detail if detail.startswith("waits for broker 3 ") else ""

    told_of = eventually(told, what="the deletion waits for broker 3 alone")
    assert f"deletion of {topic}: {told_of}" in led.run("status")
    return told_of.partition("if lost: zkgroup ")[2].split()
