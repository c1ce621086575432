"""A zkgroup controller is asked not to wait for lost brokers (K20)."""

from __future__ import annotations

import pytest

from tests.worlds.memory_cluster import MemoryCluster, move
from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.stores import LosingStore
from zkgroup.admin.topics.deletion import TopicDeletionPlan, delete_topic, plan_topic_deletion
from zkgroup.errors import ConflictError, OutcomeUnknownError, RefusedError
from zkgroup.model import Znode
from zkgroup.model.requests import Delete
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import BrokerRegistration, Topic

MARKER = TopicDeletion.path("orders")


@pytest.fixture
def cluster(world: MemoryGroups) -> MemoryCluster:
    """Brokers 1 to 3, a controller of zkgroup; `orders` has replicas on 4 and 5 too, which are lost."""
    found = MemoryCluster(world)
    found.ours()
    found.topic("orders", (1, 4), (2, 5))
    return found


def _plan(world: MemoryGroups, *without: int) -> TopicDeletionPlan:
    return plan_topic_deletion(world.ensemble, "orders", without)


def _marker(world: MemoryGroups) -> Znode:
    found = world.server.find(MARKER)
    assert found is not None
    return found


def _asked(world: MemoryGroups) -> tuple[int, ...]:
    """Whom the request names."""
    return TopicDeletion.decode(MARKER, _marker(world).data).without_brokers


def test_the_request_names_the_brokers(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """Once each, and the topic is left to the controller (K20)."""
    plan = _plan(world, 5, 4, 5)
    delete_topic(world.ensemble, plan)

    assert plan.without == (4, 5)
    assert _asked(world) == (4, 5)
    assert world.server.find(Topic.path("orders")) is not None


def test_what_remains_is_said_before(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """The directories of the lost broker, a process that still runs, and the next Kafka controller (K20)."""
    plan = _plan(world, 4)

    (waits,) = [note for note in plan.notes if "not registered" in note]
    assert waits.startswith("broker 5 is not registered")
    assert "if it is lost, name it: --without-broker" in waits
    (left,) = [note for note in plan.notes if "is not waited for" in note]
    assert left.startswith("broker 4 is not waited for: its replicas of orders stay on its disk")
    (runs,) = [note for note in plan.notes if "process" in note]
    assert runs.startswith("be sure that the process of broker 4 has ended")
    (foreign,) = [note for note in plan.notes if "a Kafka controller does not" in note]
    assert "remove its folders of orders first" in foreign
    assert not [note for note in _plan(world).notes if "not waited for" in note]


def test_a_request_that_waits_is_made_again(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """As a new znode: controllers watch the list of requests. Those named before stay named."""
    delete_topic(world.ensemble, _plan(world))
    first = _marker(world)
    delete_topic(world.ensemble, _plan(world, 4))
    second = _marker(world)
    delete_topic(world.ensemble, _plan(world, 5))

    assert first.data == b""
    assert first.stat.czxid < second.stat.czxid < _marker(world).stat.czxid
    assert _asked(world) == (4, 5)
    with pytest.raises(ConflictError, match="already not to wait for broker 4"):
        _plan(world, 4)


def test_a_second_request_shows_what_the_first_waits_for(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """The way out is there."""
    delete_topic(world.ensemble, _plan(world))

    with pytest.raises(ConflictError, match="zkgroup topic describe orders"):
        delete_topic(world.ensemble, _plan(world))


def test_a_broker_that_is_there_is_refused(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """It restarts faster than its operator types; so is one whose registration cannot be read."""
    with pytest.raises(RefusedError, match=r"/brokers/ids/1: expected a broker that is lost"):
        _plan(world, 1)
    world.hold(BrokerRegistration.path(4), b"{")
    with pytest.raises(RefusedError, match=r"/brokers/ids/4: expected a broker that is lost"):
        _plan(world, 4)


def test_a_broker_without_a_replica_is_refused(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """A wrong number is noticed, with the right ones."""
    with pytest.raises(RefusedError, match="expected a replica on broker 9, found them on 1, 2, 4, 5"):
        _plan(world, 4, 9)


def test_a_controller_of_kafka_is_not_asked(world: MemoryGroups) -> None:
    """It would wait nevertheless; an empty broker with that id ends the wait."""
    MemoryCluster(world).topic("orders", (1, 4))

    with pytest.raises(RefusedError, match=r"found one of Kafka, .* start broker 4, or an empty one"):
        _plan(world, 4)
    assert world.server.find(MARKER) is None


def test_without_a_controller_no_broker_is_waited_for(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """The znodes are removed at once, so the option has no meaning."""
    cluster.no_controller()

    with pytest.raises(RefusedError, match="found none: no broker is waited for"):
        _plan(world, 4)


@pytest.mark.parametrize("data", [None, b"{"])
def test_a_topic_with_unreadable_replica_lists_is_refused(
    world: MemoryGroups, cluster: MemoryCluster, data: bytes | None
) -> None:
    """Gone or corrupt: the brokers with replicas are unknown."""
    if data is None:
        world.server.remove(Topic.path("orders"))
    else:
        world.server.put(Topic.path("orders"), data)

    with pytest.raises(RefusedError, match="expected the replicas of a topic"):
        _plan(world, 4)


def test_a_deletion_that_ends_meanwhile_is_a_conflict(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """The lost broker was back after all: no new request is left behind."""
    delete_topic(world.ensemble, _plan(world))
    plan = _plan(world, 4)
    world.write(Delete(MARKER, 0))

    with pytest.raises(ConflictError, match="changed since it was read"):
        delete_topic(world.ensemble, plan)
    assert world.server.find(MARKER) is None


@pytest.mark.parametrize("applied", [True, False])
def test_after_a_lost_answer_the_request_is_read_back(
    world: MemoryGroups, cluster: MemoryCluster, applied: bool
) -> None:
    """The brokers that the request names show whether it is the lost one."""
    delete_topic(world.ensemble, _plan(world))
    plan = _plan(world, 4)
    operator = world.operator(LosingStore(world.server.client("lossy"), applied=applied))

    if applied:
        delete_topic(operator, plan)
    else:
        with pytest.raises(OutcomeUnknownError):
            delete_topic(operator, plan)
    assert _asked(world) == ((4,) if applied else ())


def test_a_move_is_still_waited_for(world: MemoryGroups, cluster: MemoryCluster) -> None:
    """It is said that the deletion begins after it."""
    cluster.request(move("orders", 0, 1, 2))

    assert any("are being moved" in note for note in _plan(world, 4).notes)
