"""Deletions, preferred leaders and controlled shutdowns under a controller on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.real.controller.server_controllers import RunningController, ServerControllers
from tests.waiting import becomes, eventually
from tests.worlds.clients import opener
from tests.worlds.controller_clusters import tp
from zkgroup.controller.machine.events import ShutdownAnswered, ShutdownAsked
from zkgroup.controller.machine.settings import ControllerSettings
from zkgroup.model.requests import Create, CreateMissing, CreateMissingDone, SetData
from zkgroup.testing.conformance import Target
from zkgroup.wire.control import StopReplicaRequest
from zkgroup.znodes.admin_requests import (
    PreferredElection,
    TopicDeletion,
    UncleanElection,
    UncleanElectionDone,
    delete_topics_path,
)
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.config import TopicConfig, topic_configs_path

TWO = {0: (1, 2), 1: (2, 3)}
MANY = 1000


@contextmanager
def opened(zk_server: Any, **settings: Any) -> Iterator[ServerControllers]:
    """Brokers 1, 2 and 3 and topics `t` and `u`; no controller yet."""
    with Target(opener(zk_server.address)) as target:
        received = ControllerSettings(auto_rebalance=False, **settings)
        country = ServerControllers(zk_server.address, target.connect(20_000), received)
        paths = ("/admin", delete_topics_path(), "/config", topic_configs_path())
        country.witness.ask(CreateMissing(paths), CreateMissingDone)
        try:
            country.start_broker(1, 2, 3)
            make(country, "t", TWO, {"retention.ms": "5"})
            make(country, "u", {0: (1, 2, 3)}, {"retention.ms": "6"})
            yield country
        finally:
            country.close()


@pytest.fixture
def country(zk_server: Any) -> Iterator[ServerControllers]:
    """As `opened`, with Kafka's defaults."""
    with opened(zk_server) as country:
        yield country


def make(
    country: ServerControllers, name: str, lists: dict[int, tuple[int, ...]], config: dict[str, str]
) -> None:
    """A topic with its configuration, in one transaction."""
    country.write(
        Create(TopicConfig.path(name), TopicConfig(config).encode()),
        Create(Topic.path(name), Topic(lists).encode()),
    )


def mark(country: ServerControllers, name: str) -> None:
    country.write(Create(TopicDeletion.path(name), b""))


def await_gone(country: ServerControllers, name: str) -> None:
    """Topic, configuration and marker."""
    paths = (Topic.path(name), TopicConfig.path(name), TopicDeletion.path(name))
    eventually(lambda: all(country.find(path) is None for path in paths))


def await_led(country: ServerControllers) -> RunningController:
    """A controller under which all of `t` and `u` is led."""
    controller = country.new_controller()
    country.await_state(tp(0), leader=1)
    country.await_state(tp(1), leader=2)
    country.await_state(tp(0, "u"), leader=1)
    eventually(lambda: all(tp(0) in host.metadata for host in country.hosts.values()))
    return controller


def version_and_data(country: ServerControllers, path: str) -> tuple[int, bytes | None]:
    znode = country.find(path)
    assert znode is not None, path
    return znode.stat.version, znode.data


def test_a_topic_goes_and_what_is_made_after_it_stays(country: ServerControllers) -> None:
    """Topic, configuration, marker, logs; the next of its name keeps its own (K21)."""
    await_led(country)
    kept = [version_and_data(country, path) for path in (Topic.path("u"), TopicConfig.path("u"))]
    mark(country, "t")
    await_gone(country, "t")
    assert all(each.topic == "u" for host in country.hosts.values() for each in (*host.logs, *host.metadata))
    make(country, "t", {0: (3,)}, {"retention.ms": "7"})
    country.await_state(tp(0), leader=3)

    assert TopicConfig.decode("", version_and_data(country, TopicConfig.path("t"))[1]).overrides == {
        "retention.ms": "7"
    }
    assert [version_and_data(country, path) for path in (Topic.path("u"), TopicConfig.path("u"))] == kept


def test_a_deletion_waits_for_a_dead_broker(country: ServerControllers) -> None:
    """Pending, hidden from clients meanwhile, and completed when the broker is back."""
    controller = await_led(country)
    country.stop_broker(3)
    becomes(lambda: country.live_lists(1)[-1], {1, 2})
    mark(country, "t")
    eventually(lambda: not any(each.topic == "t" for each in tuple(country.hosts[2].logs)))
    eventually(controller.at_rest)
    assert country.find(Topic.path("t")) is not None
    assert country.find(TopicDeletion.path("t")) is not None
    assert all(each.topic == "u" for id_ in (1, 2) for each in tuple(country.hosts[id_].metadata))
    country.start_broker(3)

    await_gone(country, "t")
    assert all(each.topic == "u" for each in tuple(country.hosts[3].logs))


def test_growth_of_a_topic_that_is_being_deleted_is_undone(country: ServerControllers) -> None:
    """Written by a tool while the deletion waits; it completes all the same (K23)."""
    await_led(country)
    country.stop_broker(3)
    becomes(lambda: country.live_lists(1)[-1], {1, 2})
    mark(country, "t")
    eventually(lambda: not any(each.topic == "t" for each in tuple(country.hosts[2].logs)))
    version, _ = version_and_data(country, Topic.path("t"))
    country.write(SetData(Topic.path("t"), Topic({**TWO, 2: (1, 3)}).encode(), version))
    becomes(lambda: lists(country, "t"), TWO)
    assert country.find(PartitionState.path(tp(2))) is None
    country.start_broker(3)

    await_gone(country, "t")


def lists(country: ServerControllers, name: str) -> object:
    return Topic.decode("", version_and_data(country, Topic.path(name))[1]).partitions


def test_deletion_disabled_leaves_the_topic_and_no_marker(zk_server: Any) -> None:
    """Now, and after a failover with a marker (K19)."""
    with opened(zk_server, delete_topics=False) as country:
        controller = await_led(country)
        mark(country, "t")
        becomes(lambda: country.find(TopicDeletion.path("t")), None)
        country.controllers.remove(controller)
        controller.close()
        mark(country, "t")
        successor = country.new_controller(101)
        becomes(lambda: country.find(TopicDeletion.path("t")), None)
        eventually(successor.at_rest)

        assert lists(country, "t") == TWO
        assert all(host.metadata[tp(0)] == 1 for host in country.hosts.values())
        assert not any(
            isinstance(each, StopReplicaRequest) for host in country.hosts.values() for each in host.requests
        )


def test_a_marker_of_an_unknown_topic_disappears(country: ServerControllers) -> None:
    """At once, and no one is notified of it."""
    await_led(country)
    mark(country, "nobody")
    becomes(lambda: country.find(TopicDeletion.path("nobody")), None)

    assert lists(country, "t") == TWO


def test_preferred_leaders_lead_again_and_no_request_stays(country: ServerControllers) -> None:
    """One that fails and one that is unknown beside one that can be elected (K18)."""
    controller = await_led(country)
    country.stop_broker(1)
    country.await_state(tp(0), leader=2)
    country.start_broker(1)
    becomes(lambda: country.live_lists(2)[-1], {1, 2, 3})
    eventually(controller.at_rest)
    country.await_state(tp(0, "u"), leader=2)
    country.set_isr(tp(0), (2, 1))
    asked = PreferredElection((tp(0), tp(0, "u"), tp(5), tp(0, "nobody")))
    country.write(Create(PreferredElection.path(), asked.encode()))
    becomes(lambda: country.find(PreferredElection.path()), None)

    assert country.await_state(tp(0), leader=1).isr == (2, 1)
    assert country.await_state(tp(0, "u"), leader=2).isr == (2, 3)
    country.set_isr(tp(0, "u"), (2, 3, 1))
    country.write(Create(PreferredElection.path(), PreferredElection((tp(0, "u"),)).encode()))
    country.await_state(tp(0, "u"), leader=1)
    becomes(lambda: country.find(PreferredElection.path()), None)


def test_a_thousand_leaderships_are_handed_over(country: ServerControllers) -> None:
    """None remains, single replicas are left alone, asking again changes nothing."""
    make(country, "many", dict.fromkeys(range(MANY), (1, 2)), {})
    make(country, "single", {0: (1,)}, {})
    controller = await_led(country)
    country.await_state(tp(MANY - 1, "many"), leader=1)
    alone = country.await_state(tp(0, "single"), leader=1)
    eventually(controller.at_rest)
    assert ask(controller, 1) == ShutdownAnswered(1, 0, ())
    states = [country.state(tp(number, "many")) for number in range(0, MANY, 50)]
    assert {(state.leader, state.isr) for state in states if state} == {(2, (2,))}
    assert country.state(tp(0, "single")) == alone
    assert ask(controller, 2) == ShutdownAnswered(2, 0, ())

    assert [country.state(tp(number, "many")) for number in range(0, MANY, 50)] == states


def ask(controller: RunningController, request_id: int) -> ShutdownAnswered:
    """Broker 1 wants to stop."""
    controller.loop.post(ShutdownAsked(request_id, 1))

    def found() -> list[ShutdownAnswered]:
        answers = [each for each in tuple(controller.effects) if isinstance(each, ShutdownAnswered)]
        return [each for each in answers if each.request_id == request_id]

    eventually(lambda: found())
    return found()[0]


def test_an_operators_request_elects_a_live_replica(country: ServerControllers) -> None:
    """No replica in sync is live; the record informs the tool, and the request is gone (recipes 15)."""
    await_led(country)
    country.set_isr(tp(0), (1,))
    country.stop_broker(1)
    country.await_state(tp(0), leader=-1)
    country.write(Create(UncleanElection.path(), UncleanElection((tp(0),), 5, "ada").encode()))
    state = country.await_state(tp(0), leader=2)
    becomes(lambda: country.find(UncleanElection.path()), None)

    assert state.isr == (2,)
    (name,) = country.children("/zkgroup/controller/elected")
    _, data = version_and_data(country, UncleanElectionDone.path(int(name)))
    (verdict,) = UncleanElectionDone.decode("", data).partitions
    assert (verdict.topic_partition, verdict.verdict, verdict.leader) == (tp(0), "unclean", 2)
