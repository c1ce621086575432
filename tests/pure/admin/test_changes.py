"""Changes: previewed, recorded before they are written, applied, waited for, undone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.memory_cluster import MemoryCluster, move
from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.stores import LosingStore
from zkgroup.admin.change import AdminChange, UndoRecorder, as_they_are, default_undo_folder, undo_record
from zkgroup.admin.cluster.brokers import forget_broker_change, plan_forgetting
from zkgroup.admin.configs import alter_config_change, plan_config
from zkgroup.admin.elections import elect_preferred_change, plan_preferred
from zkgroup.admin.files import parse_reassignment
from zkgroup.admin.groups import delete_group_change, nudge_group_change, plan_deletion, plan_nudge
from zkgroup.admin.offsets.changes import set_offsets_change
from zkgroup.admin.reassign.cancellation import (
    cancel_reassignments_change,
    plan_cancel,
    remove_unreadable_request_change,
)
from zkgroup.admin.reassign.execution import reassign_change
from zkgroup.admin.reassign.submission import plan_reassignment
from zkgroup.admin.topics.alteration import AddedPartitions, alter_topic_change, plan_alteration
from zkgroup.admin.topics.creation import create_topic_change, plan_topic
from zkgroup.admin.topics.deletion import delete_topic_change, plan_topic_deletion
from zkgroup.admin.undo import executions, undo_change
from zkgroup.admin.undo_records import UndoFolder
from zkgroup.admin.users import plan_user, user_change
from zkgroup.errors import ConfigError, ConflictError, OutcomeUnknownError, RefusedError
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.config import ConfigEntity

ORDERS_0 = TopicPartition("orders", 0)


@pytest.fixture
def told() -> list[str]:
    """The messages of the recorder."""
    return []


@pytest.fixture
def recorder(tmp_path: Path, told: list[str]) -> UndoRecorder:
    """Records in an empty folder."""
    folder = UndoFolder(tmp_path / "undo")
    return UndoRecorder(folder, zookeeper="zk:2181", user="olga", command="typed", report=told.append)


@pytest.fixture
def idle(world: MemoryGroups) -> MemoryGroups:
    """A group without members and two offsets."""
    world.topic("orders", 3)
    world.server.put("/consumers/g/ids")
    world.commit("g", "orders", 0, 10)
    world.commit("g", "orders", 1, 20)
    return world


def _data(world: MemoryGroups) -> dict[str, bytes | None]:
    """Every znode but the audit of offsets and config notifications, which an undo adds to."""
    beside = ("/zkgroup", "/config/changes", "/consumers/g/owners", "/consumers/g/zkgroup")
    return {path: one.data or b"" for path, one in world.server.tree().items() if not path.startswith(beside)}


CHANGES: dict[str, Callable[[MemoryGroups], AdminChange[Any, Any, Any]]] = {
    "offsets set": lambda world: set_offsets_change(world.ensemble, "g", {ORDERS_0: 5}),
    "group delete": lambda world: delete_group_change(world.ensemble, plan_deletion(world.ensemble, "g")),
    "topic create": lambda world: create_topic_change(
        world.ensemble, plan_topic(world.ensemble, "payments", partitions=2)
    ),
    "topic delete": lambda world: delete_topic_change(
        world.ensemble, plan_topic_deletion(world.ensemble, "orders")
    ),
    "config alter": lambda world: alter_config_change(
        world.ensemble, plan_config(world.ensemble, ConfigEntity.topic("orders"), {"retention.ms": "9"})
    ),
    "topic alter": lambda world: alter_topic_change(
        world.ensemble, plan_alteration(world.ensemble, "orders", AddedPartitions(), {"retention.ms": "9"})
    ),
    "user add": lambda world: user_change(
        world.ensemble, plan_user(world.ensemble, "alice", "SCRAM-SHA-256", "secret"), "add"
    ),
    "quota": lambda world: alter_config_change(
        world.ensemble,
        plan_config(
            world.ensemble, ConfigEntity.user_client("olga", None), {"producer_byte_rate": "100"}, format="v2"
        ),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_preview_writes_nothing(idle: MemoryGroups, name: str) -> None:
    """Making a change and its preview leave every znode as it is."""
    before = idle.server.tree()

    preview = CHANGES[name](idle).preview()

    assert not preview.executed
    assert preview.undo_id is None
    assert idle.server.tree() == before


@pytest.mark.parametrize("name", CHANGES)
def test_an_undone_change_leaves_things_as_they_were(
    idle: MemoryGroups, recorder: UndoRecorder, name: str
) -> None:
    """The record that `apply` saves is enough to undo the change, whatever kind it is."""
    before = _data(idle)

    result = CHANGES[name](idle).apply(recorder)
    assert result.executed
    assert _data(idle) != before
    assert result.undo_id is not None
    undo = undo_change(idle.ensemble, recorder.folder.load(result.undo_id)).apply(recorder)

    assert undo.executed
    after = _data(idle)
    made = {path: data for path, data in after.items() if path not in before}
    assert {path: after.get(path) for path in before} == before
    assert not any(made.values()), "only empty parents stay"


def test_the_hint_is_reported_and_names_the_record(
    idle: MemoryGroups, recorder: UndoRecorder, told: list[str]
) -> None:
    """The result and the report have the command that undoes the change; the record says who made it."""
    result = set_offsets_change(idle.ensemble, "g", {ORDERS_0: 5}).apply(recorder)

    assert result.undo_hint == f"to undo: zkgroup -z zk:2181 undo {result.undo_id} --execute"
    assert told == [result.undo_hint]
    record = recorder.folder.load(result.undo_id or "")
    assert (record.command, record.zookeeper, record.group) == ("typed", "zk:2181", "g")
    assert record.offsets == {ORDERS_0: (10, 5)}


def test_a_change_of_nothing_is_not_recorded(idle: MemoryGroups, recorder: UndoRecorder) -> None:
    """A change without effect is neither written nor recorded."""
    before = idle.server.tree()

    result = set_offsets_change(idle.ensemble, "g", {ORDERS_0: 10}).apply(recorder)

    assert not result.executed
    assert idle.server.tree() == before
    assert recorder.folder.ids() == []


def test_a_refused_change_leaves_no_record(
    idle: MemoryGroups, recorder: UndoRecorder, told: list[str]
) -> None:
    """The group gets a member between plan and write: nothing is written, so there is nothing to undo."""
    change = set_offsets_change(idle.ensemble, "g", {ORDERS_0: 5})
    idle.member("g", "late", {"orders": 1})

    with pytest.raises(RefusedError, match="g_late"):
        change.apply(recorder)

    assert recorder.folder.ids() == []
    assert told == []
    assert idle.offset("g", "orders", 0) == "10"


def test_a_change_without_an_answer_keeps_its_record(
    idle: MemoryGroups, recorder: UndoRecorder, told: list[str]
) -> None:
    """The outcome is unknown: the record stays, and the error carries the command that undoes it."""
    store = LosingStore(idle.server.client("losing"), applied=True)
    change = create_topic_change(
        idle.operator(store), plan_topic(idle.operator(store), "payments", partitions=1)
    )

    with pytest.raises(OutcomeUnknownError) as caught:
        change.apply(recorder)

    (undo_id,) = recorder.folder.ids()
    assert undo_id in caught.value.__notes__[0]
    assert told == caught.value.__notes__


def test_a_record_that_cannot_be_saved_stops_the_change(idle: MemoryGroups, tmp_path: Path) -> None:
    """The folder is a file: offsets stay as they are; a topic, which a plain command deletes, is created."""
    (tmp_path / "undo").write_text("in the way")
    told: list[str] = []
    recorder = UndoRecorder(UndoFolder(tmp_path / "undo"), zookeeper="zk:2181", report=told.append)

    with pytest.raises(ConfigError, match="nothing was changed"):
        set_offsets_change(idle.ensemble, "g", {ORDERS_0: 5}).apply(recorder)
    assert idle.offset("g", "orders", 0) == "10"

    result = create_topic_change(idle.ensemble, plan_topic(idle.ensemble, "payments", partitions=1)).apply(
        recorder
    )
    assert (result.executed, result.undo_id) == (True, None)
    assert "topic delete payments --execute" in told[0]


def test_an_undo_of_what_has_changed_since_is_refused(idle: MemoryGroups, recorder: UndoRecorder) -> None:
    """Offsets and topics that something else has changed are undone only by force."""
    result = set_offsets_change(idle.ensemble, "g", {ORDERS_0: 5}).apply(recorder)
    record = recorder.folder.load(result.undo_id or "")
    idle.commit("g", "orders", 0, 7)

    with pytest.raises(ConflictError, match="moved since"):
        undo_change(idle.ensemble, record)
    undo_change(idle.ensemble, record, force=True).apply(recorder)
    assert idle.offset("g", "orders", 0) == "10"


def test_a_change_that_cannot_be_undone_says_why(idle: MemoryGroups, recorder: UndoRecorder) -> None:
    """The record of new partitions has the old number, and the undo is refused with the reason."""
    change = alter_topic_change(
        idle.ensemble, plan_alteration(idle.ensemble, "orders", AddedPartitions(partitions=5))
    )

    result = change.apply(recorder)

    assert (result.undo_hint, result.no_undo) == (None, "partitions cannot be taken away")
    with pytest.raises(RefusedError, match="partitions cannot be taken away"):
        undo_change(idle.ensemble, recorder.folder.load(result.undo_id or ""))


def test_a_change_without_a_record(idle: MemoryGroups, recorder: UndoRecorder) -> None:
    """A nudge changes nothing that could be put back: applied, with no record."""
    idle.member("g", "a", {"orders": 1})

    result = nudge_group_change(idle.ensemble, plan_nudge(idle.ensemble, "g")).apply(recorder)

    assert result.executed
    assert result.plan.members == ("g_a",)
    assert recorder.folder.ids() == []


def test_a_reassignment_has_a_rollback_file(world: MemoryGroups, recorder: UndoRecorder) -> None:
    """The lists as they were are in a file of Kafka's form, and an undo moves replicas back by it."""
    cluster = MemoryCluster(world)
    cluster.topic("orders", (1, 2), (2, 1))

    result = reassign_change(
        world.ensemble, plan_reassignment(world.ensemble, [move("orders", 0, 3, 1)])
    ).apply(recorder)

    file = Path(result.rollback_file or "")
    (former,) = parse_reassignment(str(file), file.read_text())
    assert (former.topic_partition, former.replicas) == (ORDERS_0, (1, 2))
    assert "once it has ended" in (result.undo_hint or "")
    (execution,) = executions(recorder.folder, "zk:2181")
    assert execution.before == {ORDERS_0: (1, 2)}
    assert list(executions(recorder.folder, "other:2181")) == []
    world.server.remove(Reassignment.path())
    world.server.put(Topic.path("orders"), Topic({0: (3, 1), 1: (2, 1)}).encode())
    undo_change(world.ensemble, recorder.folder.load(result.undo_id or "")).apply(recorder)
    request = world.server.find(Reassignment.path())
    assert request is not None
    assert Reassignment.decode(request.path, request.data).targets == {ORDERS_0: (1, 2)}


def test_a_running_reassignment_is_sent_back(world: MemoryGroups, recorder: UndoRecorder) -> None:
    """A cancel is recorded with the lists that it leaves: undoing it asks for the move again."""
    cluster = MemoryCluster(world, brokers=4)
    cluster.ours()
    cluster.topic("orders", (1, 2))
    applied = reassign_change(
        world.ensemble, plan_reassignment(world.ensemble, [move("orders", 0, 3, 2)])
    ).apply(recorder)
    assert applied.rollback_file is not None

    past = list(executions(recorder.folder, "zk:2181"))
    result = cancel_reassignments_change(world.ensemble, plan_cancel(world.ensemble, executions=past)).apply(
        recorder, wait_s=0
    )

    assert result.outcome is not None
    request = world.server.find(Reassignment.path())
    assert request is not None
    assert Reassignment.decode(request.path, request.data).targets == {ORDERS_0: (1, 2)}
    assert recorder.folder.load(result.undo_id or "").undo_command[0] == "reassign"


def test_a_request_that_cannot_be_read_is_removed_and_put_back(
    world: MemoryGroups, recorder: UndoRecorder
) -> None:
    """Its bytes are in the record."""
    assert remove_unreadable_request_change(world.ensemble) is None
    world.server.put(Reassignment.path(), b"garbage{")
    change = remove_unreadable_request_change(world.ensemble)
    assert change is not None

    result = change.apply(recorder)
    assert world.server.find(Reassignment.path()) is None
    undo_change(world.ensemble, recorder.folder.load(result.undo_id or "")).apply(recorder)

    found = world.server.find(Reassignment.path())
    assert found is not None
    assert found.data == b"garbage{"


def test_an_election_is_waited_for(world: MemoryGroups, recorder: UndoRecorder) -> None:
    """No controller takes the request: the wait ends with that, and there is no record."""
    cluster = MemoryCluster(world)
    cluster.topic("orders", (1, 2))
    cluster.state("orders", 0, leader=2, isr=(1, 2))

    result = elect_preferred_change(world.ensemble, plan_preferred(world.ensemble)).apply(recorder, wait_s=1)

    assert (result.executed, result.outcome, result.undo_id) == (True, False, None)
    assert recorder.folder.ids() == []


def test_a_broker_that_is_registered_is_not_forgotten(world: MemoryGroups) -> None:
    """The refusal comes before anything is shown."""
    MemoryCluster(world)

    with pytest.raises(RefusedError):
        forget_broker_change(world.ensemble, plan_forgetting(world.ensemble, 1))


def test_an_unknown_command_of_a_record_is_an_error(world: MemoryGroups) -> None:
    """A record of a later release is refused, not guessed at."""
    with pytest.raises(ConfigError, match="no change is known"):
        undo_change(world.ensemble, undo_record(undo_command=("broker", "explode")))


def test_the_default_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The same folder as the command line's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    assert default_undo_folder().path == tmp_path / "zkgroup" / "undo"
    assert as_they_are(None) == ()
