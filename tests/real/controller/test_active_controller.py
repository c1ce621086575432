"""What an active controller does with brokers, topics and states, on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.real.controller.server_controllers import ServerControllers
from tests.waiting import becomes, eventually
from tests.worlds.clients import opener
from tests.worlds.controller_clusters import tp
from zkgroup.admin.topics import creation
from zkgroup.errors import ConflictError, OperationRefusedError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model.requests import Create, CreateMissing, CreateMissingDone, Multi, ReadMany, Request, SetData
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.testing.conformance import Target
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.controller import ControllerRegistration, ControllerStatus
from zkgroup.znodes.notifications import IsrChange, isr_changes_path
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.client import SystemClock


@pytest.fixture
def country(zk_chaos_server: ChaosZooKeeper) -> Iterator[ServerControllers]:
    """Brokers 1, 2 and 3; no controller yet."""
    chaos = zk_chaos_server
    with Target(opener(chaos.direct_address)) as target:
        country = ServerControllers(chaos.address, target.connect(20_000))
        try:
            country.start_broker(1, 2, 3)
            yield country
        finally:
            country.close()


def writes_state(request: Request, number: int) -> bool:
    """Whether it is a transaction that sets or makes the state of this partition of `t`."""
    path = PartitionState.path(tp(number))
    return isinstance(request, Multi) and any(
        isinstance(each, (SetData, Create)) and each.path == path for each in request.operations
    )


def test_a_new_topic_has_a_state_for_each_partition(country: ServerControllers) -> None:
    """Also the parent that the tool lists; every broker can say who leads."""
    country.new_controller()
    country.make_topic("t", {0: (1, 2), 1: (3, 1)})
    assert country.await_state(tp(0), leader=1) == PartitionState(1, 0, (1, 2), 1)
    assert country.await_state(tp(1), leader=3) == PartitionState(3, 0, (3, 1), 1)
    assert country.find(Topic.partitions_path("t")) is not None
    eventually(lambda: all(h.metadata == {tp(0): 1, tp(1): 3} for h in country.hosts.values()))


def test_a_topic_that_exists_is_not_made_again(
    zk_chaos_server: ChaosZooKeeper, country: ServerControllers
) -> None:
    """Neither its configuration nor its replica lists change, also in a race."""
    client = ZooKeeperClient(zk_chaos_server.direct_address, ClientSettings())
    with closing(client), Blocking(client) as zk:
        zk.wait_connected()
        ensemble = Ensemble(zk, SystemClock())
        country.new_controller()
        new = creation.plan_topic(
            ensemble, "t", partitions=None, replica_assignment=[[1, 2]], configs={"retention.ms": "1"}
        )
        again = creation.plan_topic(
            ensemble, "t", partitions=None, replica_assignment=[[3], [3]], configs={"retention.ms": "2"}
        )
        creation.create_topic(ensemble, new)
        with pytest.raises(ConflictError):
            creation.create_topic(ensemble, again)
        with pytest.raises(OperationRefusedError):
            zk.multi(
                Create(TopicConfig.path("t"), TopicConfig(again.configs).encode()),
                Create(Topic.path("t"), Topic(again.assignment).encode()),
            )
    country.await_state(tp(0), leader=1)

    topic, config = country.find(Topic.path("t")), country.find(TopicConfig.path("t"))
    assert topic is not None
    assert config is not None
    assert Topic.decode(topic.path, topic.data).partitions == {0: (1, 2)}
    assert TopicConfig.decode(config.path, config.data).overrides == {"retention.ms": "1"}


def test_growth_leaves_the_old_partitions_as_they_are(country: ServerControllers) -> None:
    """Also where the tool wrote all lists from an old reading (recipes 15)."""
    controller = country.new_controller()
    country.make_topic("t", {0: (1, 2)})
    country.await_state(tp(0), leader=1)
    eventually(controller.at_rest)
    country.write(SetData(Topic.path("t"), Topic({0: (3, 1), 1: (2, 3)}).encode(), 0))
    country.await_state(tp(1), leader=2)
    lists = {0: (1, 2), 1: (2, 3)}
    eventually(
        lambda: (
            (znode := country.find(Topic.path("t"))) is not None
            and Topic.decode(znode.path, znode.data).partitions == lists
        )
    )

    assert country.state(tp(0)) == PartitionState(1, 0, (1, 2), 1)


@pytest.mark.parametrize("moment", ["brokers", "topics", "states"])
def test_a_topic_made_while_it_loads_is_not_lost(country: ServerControllers, moment: str) -> None:
    """All watches are armed before anything is read."""
    country.make_topic("t", {0: (1, 2)})
    made: list[str] = []
    paths = {
        "brokers": BrokerRegistration.path(1),
        "topics": Topic.path("t"),
        "states": PartitionState.path(tp(0)),
    }

    def before(request: Request) -> None:
        named = request.paths if isinstance(request, ReadMany) else (getattr(request, "path", None),)
        if paths[moment] in named and not made:
            made.append(moment)
            country.make_topic("late", {0: (2, 3)})

    country.new_controller(before=before)
    country.await_state(tp(0, "late"), leader=2)

    assert made == [moment]
    becomes(lambda: country.hosts[1].metadata.get(tp(0, "late")), 2)


def test_a_state_that_is_there_already_fails_its_partition_alone(country: ServerControllers) -> None:
    """It comes between reading and writing; the others are made all the same."""
    theirs = PartitionState(2, 3, (2,), 1)
    done: list[bool] = []

    def before(request: Request) -> None:
        if writes_state(request, 1) and not done:
            done.append(True)
            parents = (Topic.partitions_path("t"), Topic.partition_path(tp(1)))
            country.witness.ask(CreateMissing(parents), CreateMissingDone)
            country.write(Create(PartitionState.path(tp(1)), theirs.encode()))

    controller = country.new_controller(before=before)
    country.make_topic("t", {0: (1, 2), 1: (1, 2), 2: (1, 2)})
    country.await_state(tp(0), leader=1)
    country.await_state(tp(2), leader=1)
    eventually(lambda: controller.notes("state.exists"))

    assert country.state(tp(1)) == theirs
    becomes(lambda: country.hosts[3].metadata, {tp(0): 1, tp(1): 2, tp(2): 1})


def test_only_the_conflicting_partition_is_decided_again(country: ServerControllers) -> None:
    """A leader changes its ISR just before the elections are written."""
    done: list[bool] = []

    def before(request: Request) -> None:
        if writes_state(request, 1) and not done and country.state(tp(1)) is not None:
            done.append(True)
            country.set_isr(tp(1), (1, 3))

    country.make_topic("t", dict.fromkeys(range(5), (1, 2, 3)))
    country.new_controller(before=before)
    country.await_state(tp(4), leader=1)
    becomes(lambda: len(country.roles(1)), 5)
    country.stop_broker(1)
    changed = country.await_state(tp(1), leader=3)
    country.await_state(tp(4), leader=2)

    assert done == [True]
    assert changed == PartitionState(3, 1, (3,), 1)
    versions = [country.witness.stat(PartitionState.path(tp(number))).version for number in range(5)]
    assert versions == [1, 2, 1, 1, 1]
    becomes(lambda: country.roles(3).get(tp(1)), (3, 1, 2))


def test_a_bounced_broker_is_sent_its_roles(country: ServerControllers) -> None:
    """Gone and back within one watch; its czxid gives it away (K7)."""
    country.make_topic("t", {0: (1, 2), 1: (1,)})
    controller = country.new_controller()
    becomes(lambda: len(country.roles(1)), 2)
    eventually(controller.at_rest)
    country.forget_words()
    country.bounce(1)
    country.await_state(tp(0), leader=2)

    becomes(lambda: country.roles(1), {tp(0): (2, 1, 1), tp(1): (1, 2, 2)})
    assert country.state(tp(1)) == PartitionState(1, 2, (1,), 1)


def test_brokers_that_lead_nothing_are_announced_to_all(country: ServerControllers) -> None:
    """Every broker's live list changes (K27)."""
    country.make_topic("t", {0: (1, 2)})
    controller = country.new_controller()
    eventually(controller.at_rest)
    country.start_broker(4)
    eventually(lambda: all(country.live_lists(id_)[-1] == {1, 2, 3, 4} for id_ in (1, 2, 3)))
    becomes(lambda: country.hosts[4].metadata, {tp(0): 1})
    country.stop_broker(4)
    eventually(lambda: all(country.live_lists(id_)[-1] == {1, 2, 3} for id_ in (1, 2, 3)))

    assert country.state(tp(0)) == PartitionState(1, 0, (1, 2), 1)


def test_a_changed_isr_is_sent_to_all_and_its_notification_deleted(country: ServerControllers) -> None:
    """Also one that no one can read."""
    country.make_topic("t", {0: (1, 2)})
    controller = country.new_controller()
    eventually(controller.at_rest)
    country.set_isr(tp(0), (1,))
    country.write(
        Create(IsrChange.prefix(), b"?", sequential=True),
        Create(IsrChange.prefix(), IsrChange((tp(0),)).encode(), sequential=True),
    )
    eventually(lambda: all(country.isrs(id_, tp(0))[-1] == (1,) for id_ in (1, 2, 3)))
    eventually(lambda: not country.children(isr_changes_path()))


def test_notifications_left_over_are_deleted(country: ServerControllers) -> None:
    """Those that came while no one was active."""
    country.write(
        Create(IsrChange.prefix(), b"?", sequential=True),
        Create(IsrChange.prefix(), IsrChange((tp(0),)).encode(), sequential=True),
    )
    country.new_controller()

    eventually(lambda: not country.children(isr_changes_path()))


def test_malformed_znodes_stop_nothing_and_are_named(country: ServerControllers) -> None:
    """recipes 13, controller.md 1.4: one of each kind at once; what can be read is served."""
    country.make_topic("t", {0: (1, 2)})
    country.make_topic("u", {0: (1, 2)})
    country.write(
        Create(BrokerRegistration.path(9), b'{"version":'),
        Create("/brokers/ids/nobody", b""),
        Create(Topic.path("broken"), b'{"version":1}'),
        Create("/admin", b""),
        Create("/admin/reassign_partitions", b"[]"),
        Create(Topic.partitions_path("u"), b""),
        Create(Topic.partition_path(tp(0, "u")), b""),
        Create(PartitionState.path(tp(0, "u")), b"null"),
        Create(IsrChange.prefix(), b"{", sequential=True),
    )
    country.new_controller()
    country.await_state(tp(0), leader=1)
    named: list[set[str]] = []

    def is_shown() -> bool:
        znode = country.find(ControllerStatus.path())
        if znode is not None:
            named.append(set(ControllerStatus.decode(znode.path, znode.data).unreadable))
        return bool(named) and named[-1] == {
            BrokerRegistration.path(9),
            "/brokers/ids/nobody",
            Topic.path("broken"),
            "/admin/reassign_partitions",
            PartitionState.path(tp(0, "u")),
        }

    eventually(is_shown)


def test_a_short_disconnection_loses_no_change(
    zk_chaos_server: ChaosZooKeeper, country: ServerControllers
) -> None:
    """No resignation; what happened meanwhile is read when the connection is back."""
    country.make_topic("t", {0: (1, 2)})
    controller = country.new_controller()
    eventually(controller.at_rest)
    zk_chaos_server.cut(refuse=True)
    country.make_topic("new", {0: (2, 3)})
    country.stop_broker(1)
    zk_chaos_server.heal()
    country.await_state(tp(0, "new"), leader=2)
    country.await_state(tp(0), leader=2)

    assert len(controller.elections) == 1


def test_the_next_controller_serves_what_the_last_one_left(country: ServerControllers) -> None:
    """Nothing of the first rule is needed, nothing of it survives."""
    country.make_topic("t", {0: (1, 2)})
    first = country.new_controller()
    eventually(first.at_rest)
    second = country.new_elector(101)
    found = country.find(ControllerRegistration.path())
    assert found is not None
    country.write(SetData("/controller_epoch", b"7", 1))
    eventually(lambda: first.notes("controller.loaded")[1:] or second.notes("controller.loaded"))
    country.make_topic("u", {0: (2, 3)})

    assert country.await_state(tp(0, "u"), leader=2).controller_epoch == 8
    eventually(lambda: (state := country.state(tp(0))) is not None and state.controller_epoch == 8)
    resigned = [each for each in (first, second) if each.machine.active is None]
    assert len(resigned) == 1
