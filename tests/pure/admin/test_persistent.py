"""A tree that was restored from a backup: persistent znodes where sessions belong, and their removal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin.change import UndoRecorder
from zkgroup.admin.cluster.brokers import describe_broker, list_brokers, plan_forgetting
from zkgroup.admin.cluster.controller import (
    describe_controller,
    plan_resignation,
    read_controller_info,
    resign_controller_change,
)
from zkgroup.admin.groups import plan_deletion, plan_nudge
from zkgroup.admin.offsets.changes import set_offsets_change
from zkgroup.admin.persistent import plan_removal, remove, remove_persistent_change
from zkgroup.admin.status import diagnose, read_status
from zkgroup.admin.topics.creation import plan_topic
from zkgroup.admin.topics.deletion import delete_topic_change, plan_topic_deletion
from zkgroup.admin.undo import undo_change
from zkgroup.admin.undo_records import UndoFolder
from zkgroup.errors import ConflictError, NotFoundError, PartlyDoneError, PersistentZnodeError, RefusedError
from zkgroup.model import StaticSubscription, TopicPartition
from zkgroup.model.requests import Delete
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.znodes.consumers import Owner, Registration
from zkgroup.znodes.controller import (
    ControllerRegistration,
    ControllerStatus,
    StandbyController,
    standby_controllers_path,
)
from zkgroup.znodes.group_records import View

BROKER = BrokerRegistration("h", 9092, 1, 0).encode()
RESTORED = {
    BrokerRegistration.path(7): BROKER,
    Registration.path("g", "g_a"): Registration.of(StaticSubscription({"orders": 1}), 1).encode(),
    **{Owner.path("g", TopicPartition("orders", number)): b"g_a-0" for number in range(10)},
    View.path("g", "g_a"): View(1, "i", "r").encode(),
    ControllerRegistration.path(): ControllerRegistration(7, 1).encode(),
    ControllerStatus.path(): ControllerStatus(7, 3, 1, 5).encode(),
    StandbyController.path(9): StandbyController("h", 9092, 1).encode(),
}


@pytest.fixture
def restored(world: MemoryGroups) -> MemoryGroups:
    """Topic `orders`, a living member of another group, and what a restore has made persistent."""
    world.topic("orders", 10)
    world.member("other", "a", {"orders": 1})
    world.own_as_planned("other")
    for path, data in RESTORED.items():
        world.server.put(path, data)
    world.pass_time(60)
    return world


def test_status_and_doctor_name_all_by_path(restored: MemoryGroups) -> None:
    """Each parent is one error, with the first few names, and the command that removes them."""
    status = read_status(restored.ensemble)
    findings = diagnose(status, wanted_timeout_ms=10_000)
    found = [one for one in findings if one.next == "zkgroup doctor --fix"]

    assert status.persistent == tuple(sorted(RESTORED))
    assert (status.brokers.data, status.controller) == ((), None)
    assert {one.severity for one in found} == {"error"}
    assert not [one for one in findings if one.subject == "group g"]
    assert [one.subject for one in found] == [
        "/brokers/ids/7",
        "/consumers/g/ids/g_a",
        "/consumers/g/owners/orders/0, 1, 2, 3, 4, 5, 6, 7 and 2 more",
        "/consumers/g/views/g_a",
        "/controller",
        "/zkgroup/controller/status",
        "/zkgroup/controllers/9",
    ]


def test_a_broker_or_controller_that_no_session_holds_is_none(restored: MemoryGroups) -> None:
    """No replica is placed on it, nothing is asked of it, nobody is told to stop it."""
    ensemble = restored.ensemble
    _, rows, errors = list_brokers(ensemble)

    assert (rows, [error.path for error in errors]) == ((), [BrokerRegistration.path(7)])
    assert read_controller_info(ensemble).kind is None
    for read in (
        lambda: describe_broker(ensemble, 7),
        lambda: describe_controller(ensemble),
    ):
        with pytest.raises(PersistentZnodeError, match="zkgroup doctor --fix"):
            read()
    with pytest.raises(NotFoundError, match=r"^/controller: .*zkgroup doctor --fix"):
        resign_controller_change(ensemble, plan_resignation(ensemble))
    with pytest.raises(RefusedError, match=r"/brokers/ids/7: .*zkgroup doctor --fix"):
        plan_topic(ensemble, "new", partitions=1)
    with pytest.raises(PersistentZnodeError, match=r"^/brokers/ids/7: .*zkgroup doctor --fix"):
        plan_forgetting(ensemble, 7)


def test_a_member_that_no_session_holds_is_told_to_nobody_as_one_to_stop(restored: MemoryGroups) -> None:
    """Whoever is refused because of it reads how to remove it; a nudge of nobody is none."""
    refusal = plan_deletion(restored.ensemble, "g").refusal

    assert refusal is not None
    assert "zkgroup doctor --fix" in str(refusal)
    with pytest.raises(
        RefusedError, match=r"found g_a of g, .*; /consumers/g/ids/g_a: .*zkgroup doctor --fix"
    ):
        delete_topic_change(restored.ensemble, plan_topic_deletion(restored.ensemble, "orders"))
    with pytest.raises(PersistentZnodeError, match=r"^/consumers/g/ids/g_a: "):
        plan_nudge(restored.ensemble, "g")

    restored.member("g", "b", {"orders": 1})
    assert plan_nudge(restored.ensemble, "g").members == ("g_b",)


def test_a_member_that_no_session_holds_obeys_no_change_of_offsets(restored: MemoryGroups) -> None:
    """It owns nothing. Without --force it is in the way, and the refusal says how to remove it."""
    restored.commit("g", "orders", 0, 5)
    ensemble, tp = restored.ensemble, TopicPartition("orders", 0)

    with pytest.raises(RefusedError, match=r"found g_a; .*zkgroup doctor --fix"):
        set_offsets_change(ensemble, "g", {tp: 3})
    forced = set_offsets_change(ensemble, "g", {tp: 3}, force=True)

    assert [(one.member, one.partitions) for one in forced.plan.members] == [("g_a", 0)]
    assert "zkgroup doctor --fix" in forced.notes[-1]


def test_exactly_those_are_removed_and_come_back_as_they_were(restored: MemoryGroups, tmp_path: Path) -> None:
    """The members and owners of sessions stay; the undo record has path and data of each."""
    before = {path: restored.server.find(path) for path in restored.server.tree()}
    recorder = UndoRecorder(UndoFolder(tmp_path), zookeeper="zk")
    change = remove_persistent_change(restored.ensemble, plan_removal(restored.ensemble))

    assert change.preview().executed is False
    assert set(restored.server.tree()) == set(before)
    done = change.apply(recorder)
    assert done.written == len(RESTORED)
    assert set(before) - set(restored.server.tree()) == set(RESTORED)
    assert not remove_persistent_change(restored.ensemble, plan_removal(restored.ensemble)).is_effective

    assert done.undo_id is not None
    back = undo_change(restored.ensemble, recorder.folder.load(done.undo_id)).apply(recorder)
    after = {path: restored.server.find(path) for path in RESTORED}
    assert {path: znode and znode.data for path, znode in after.items()} == RESTORED
    assert {znode and znode.stat.ephemeral_owner for znode in after.values()} == {0}

    assert back.undo_id is not None
    undo_change(restored.ensemble, recorder.folder.load(back.undo_id)).apply(recorder)
    assert set(before) - set(restored.server.tree()) == set(RESTORED)


def test_what_a_session_holds_by_now_stays(restored: MemoryGroups) -> None:
    """The path, data and version are those that were read; only the server knows better."""
    plan = plan_removal(restored.ensemble)
    restored.write(Delete(BrokerRegistration.path(7), 0))
    restored.hold(BrokerRegistration.path(7), BROKER)

    with pytest.raises(ConflictError, match="/brokers/ids/7: expected a persistent znode"):
        remove(restored.ensemble, plan)

    assert set(RESTORED) <= set(restored.server.tree())


def test_what_was_written_since_stays(restored: MemoryGroups) -> None:
    """A tool that still writes: the operator reads again."""
    plan = plan_removal(restored.ensemble)
    restored.server.put(Registration.path("g", "g_a"), b"x")

    with pytest.raises(ConflictError, match="/consumers/g/ids/g_a: changed since it was read"):
        remove(restored.ensemble, plan)


def test_a_conflict_after_the_first_transaction_says_how_far_it_came(world: MemoryGroups) -> None:
    """Too many for one transaction; znodes of the last one have changed."""
    paths = [Registration.path("g", f"g_{number:03}") for number in range(400)]
    for path in paths:
        world.server.put(path, b"x")
    plan = plan_removal(world.ensemble)
    world.server.put(paths[-1], b"y")

    with pytest.raises(PartlyDoneError, match="333 of 400 persistent znodes are removed"):
        remove(world.ensemble, plan)

    assert plan_removal(world.ensemble).znodes[0].path == paths[333]


def test_a_standby_controller_of_a_session_is_left(world: MemoryGroups) -> None:
    """So are a broker and a controller that live."""
    MemoryCluster(world)
    world.hold(StandbyController.path(9), StandbyController("h", 9092, 1).encode())

    assert plan_removal(world.ensemble).znodes == ()
    assert world.server.find(standby_controllers_path()) is not None
