"""Log ends for lag: one that is not known is a note, and takes neither the others nor the command away."""

from __future__ import annotations

from collections.abc import Sequence

import click
import pytest
from zkgroup_cli.app import shared
from zkgroup_cli.sources import NOTES, log_ends, open_source

from tests.worlds.acls import UNREADABLE
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.errors import ConfigError
from zkgroup.groups.reads import known_ends
from zkgroup.model import TopicPartition
from zkgroup.security.client import BrokerAccess
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, broker_ids_path

TP = TopicPartition("orders", 0)
OURS = {"zkgroup": {"role": "data"}}


def lead(world: MemoryGroups, tp: TopicPartition, leader: int) -> None:
    state = PartitionState(leader=leader, leader_epoch=0, isr=(1,), controller_epoch=1)
    world.server.put(PartitionState.path(tp), state.encode())


@pytest.fixture
def world() -> MemoryGroups:
    """A zkgroup broker at an address without a listener leads `TP`."""
    world = MemoryGroups()
    ours = BrokerRegistration("127.0.0.1", 1, timestamp_ms=1, extensions=OURS)
    world.hold(BrokerRegistration.path(1), ours.encode())
    world.topic("orders", 1)
    lead(world, TP, 1)
    return world


@pytest.mark.parametrize(
    ("hidden", "note"),
    [
        (broker_ids_path(), "note: the ends of logs are not known: "),
        (BrokerRegistration.path(1), "note: the ends of logs are not known: "),
        (PartitionState.path(TP), f"note: the end of {TP} is not known: "),
    ],
)
def test_what_an_access_list_hides_is_a_note(
    world: MemoryGroups, capsys: pytest.CaptureFixture[str], hidden: str, note: str
) -> None:
    """Past bug: it ended `group describe`, which had asked for no log end."""
    world.server.set_acl(hidden, UNREADABLE)

    with log_ends(None, world.ensemble) as ends:
        found = known_ends(ends, [TP])

    message = capsys.readouterr().err
    assert found == {}
    assert message.startswith(note)
    assert hidden in message


@pytest.mark.parametrize("spec", [None, "kafka", "brokers"])
def test_each_reason_is_a_note_and_the_list_of_them_is_bounded(
    world: MemoryGroups, capsys: pytest.CaptureFixture[str], spec: str | None
) -> None:
    """Past bug: one partition without a leader ended the command; or had no note."""
    partitions = [TopicPartition("orders", number) for number in range(NOTES + 4)]
    for tp in partitions[1:]:
        lead(world, tp, -1 if tp.partition < 3 else tp.partition)  # brokers that are not registered

    with log_ends(spec, world.ensemble) as ends:
        for _ in range(2):  # as with --window: the second read has no other notes
            assert known_ends(ends, partitions) == {}

    notes = capsys.readouterr().err.splitlines()
    assert notes[0].startswith("note: the end of orders-0 is not known: 127.0.0.1:1: ")
    assert "note: the end of orders-3 is not known: its leader, broker 3, is not registered" in notes
    assert "no broker leads it" in notes[1]
    assert len(notes) == NOTES + 1
    assert notes[-1] == "note: the ends of 3 more partitions are not known, for other reasons"


def test_brokers_of_kafka_are_asked_by_option(
    world: MemoryGroups, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside brokers of zkgroup, a note on their partitions says so; alone, a note for people does."""
    world.hold(BrokerRegistration.path(2), BrokerRegistration("127.0.0.1", 1, timestamp_ms=1).encode())
    lead(world, TP, 2)

    def notes(partitions: Sequence[TopicPartition], output_format: str) -> str:
        with click.Context(click.Command("list")), log_ends(None, world.ensemble) as ends:
            shared().format = output_format
            assert known_ends(ends, partitions) == {}
        return capsys.readouterr().err

    assert "its leader, broker 2, is one of Kafka, which `--source kafka` asks" in notes([TP], "json")
    world.server.remove(BrokerRegistration.path(1))
    assert notes([TP], "table").startswith("note: the lag is not shown: `--source kafka` asks the registered")
    assert notes([TP], "json") == notes([], "table") == ""
    world.server.remove(BrokerRegistration.path(2))
    assert "no broker is registered: `--source files:DIR` or `kafka:HOST:PORT`" in notes([TP], "table")


def test_without_a_broker_no_partition_is_said_to_be_missing(
    world: MemoryGroups, capsys: pytest.CaptureFixture[str]
) -> None:
    """The topic is there, and nothing can say where its logs end; beside a broker, nobody has led it."""

    def notes() -> str:
        with log_ends("kafka", world.ensemble) as ends:
            assert known_ends(ends, [TP]) == {}
        return capsys.readouterr().err

    world.server.remove(PartitionState.path(TP))
    assert "there is no such partition, or no broker has led it yet" in notes()
    world.server.remove(BrokerRegistration.path(1))
    assert "orders-0 is not known: /brokers/ids: expected a broker to ask, found none" in notes()


@pytest.mark.parametrize(
    "spec", ["kafka:", "kafka:host:99999", "kafka:http://host:9092", "kafka:host:9092,", "kafkas"]
)
def test_an_address_that_cannot_be_is_refused(world: MemoryGroups, spec: str) -> None:
    """Before anything is asked."""
    with pytest.raises((click.UsageError, ConfigError)), log_ends(spec, world.ensemble):
        pass


def test_kafka_without_an_address_is_the_registered_brokers() -> None:
    """For `consume`; with one, these; else those of `--bootstrap-server`."""
    access = BrokerAccess(bootstrap=(("c", 3),))
    cases = (("kafka", ()), ("kafka:a:1,b:2", (("a", 1), ("b", 2))), ("brokers", ()))
    for spec, bootstrap in cases:
        assert vars(open_source(spec))["_access"].bootstrap == bootstrap
        assert vars(open_source(spec, access))["_access"].bootstrap == (bootstrap or (("c", 3),))
