"""The undo of a recorded change: offsets, groups and topics, but not over later changes."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.worlds.acls import READ_ONLY
from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.stores import MeddledStore, before_nth
from zkgroup.admin.groups import delete_group, plan_deletion
from zkgroup.admin.offsets.planning import OffsetPlan, plan_values
from zkgroup.admin.offsets.writes import apply_plan, missing_parents
from zkgroup.admin.topics.deletion import DELETES_AT_ONCE, delete_topic, plan_topic_deletion
from zkgroup.admin.undo import (
    ZNODES_AT_ONCE,
    check_untouched,
    plan_restoration,
    plan_undo,
    restore_znodes,
)
from zkgroup.admin.undo_records import (
    ChangeRecord,
    UndoFolder,
    UndoRecord,
)
from zkgroup.errors import (
    AccessDeniedError,
    ConflictError,
    PartlyDoneError,
    RefusedError,
)
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.reader import read_snapshot, snapshot_or_empty
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Multi
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.consumers import Offset
from zkgroup.znodes.controller import ControllerRegistration

TP = TopicPartition("orders", 0)
ACT = ChangeRecord(undo_id="u", command="c", user="x")


def _record(undo_id: str = "20260101-000000-abcd", **fields: object) -> UndoRecord:
    return UndoRecord(
        undo_id=undo_id,
        time_ms=1,
        command="zkgroup offsets set g orders:0=42 --execute",
        zookeeper="host:2181",
        **fields,  # type: ignore[arg-type]
    )


def test_what_was_changed_since_is_not_undone(world: MemoryGroups) -> None:
    """Other bytes than the change left, or none, are a conflict; null and empty are the same to it."""
    world.server.put("/a", b"left")
    world.server.put("/b")
    record = _record(left=(("/a", b"left"), ("/b", b"")))
    check_untouched(world.ensemble, record)

    world.server.put("/a", b"more")
    with pytest.raises(ConflictError, match=r"/a: has changed since .*--force"):
        check_untouched(world.ensemble, record)
    world.server.remove("/a")
    with pytest.raises(ConflictError, match="/a: has changed since"):
        check_untouched(world.ensemble, record)


@pytest.mark.parametrize(
    ("now", "made_anew", "is_left"),
    [
        (Topic({0: (1, 2)}), False, True),
        (Topic({0: (1, 2)}, version=3, topic_id="A" * 22), False, True),
        (Topic({0: (1, 2)}), True, False),
        (Topic({0: (2, 1)}), False, False),
        (Topic({0: (1, 2), 1: (2, 1)}), False, False),
        (Topic({0: (1, 2)}, version=2, adding={0: (2,)}), False, False),
    ],
)
def test_only_the_topic_that_was_made_is_taken_back(
    world: MemoryGroups, now: Topic, made_anew: bool, is_left: bool
) -> None:
    """By its czxid and its replicas; a controller of 2.8 adds an id, which is no change."""
    path, left = Topic.path("orders"), Topic({0: (1, 2)}).encode()
    world.server.put(path, left)
    made = world.server.find(path)
    assert made is not None
    record = _record(left=((path, left),), made_at=made.stat.czxid)
    if made_anew:
        world.server.remove(path)
    world.server.put(path, now.encode())

    with nullcontext() if is_left else pytest.raises(ConflictError, match=f"{path}: has changed since"):
        check_untouched(world.ensemble, record)


@pytest.mark.parametrize(
    ("replicas", "running", "told"),
    [
        ({0: (2, 3)}, False, None),
        ({0: (3, 2)}, False, r"orders-0 is on \[3, 2\].*asked for \[2, 3\]"),
        ({1: (2, 3)}, False, r"orders-0 is on \[\]"),
        (None, False, r"orders-0 is on \[\]"),
        ({0: (3, 2)}, True, None),
    ],
)
def test_what_was_moved_elsewhere_since_is_not_moved_back(
    world: MemoryGroups, replicas: dict[int, tuple[int, ...]] | None, running: bool, told: str | None
) -> None:
    """By the topic, once nothing is being moved; what runs refuses by itself."""
    if replicas is not None:
        world.server.put(Topic.path("orders"), Topic(replicas).encode())
    if running:
        world.server.put(Reassignment.path(), b"{}")
    record = _record(rollback_file="/r", targets={TP: (2, 3)})

    with pytest.raises(ConflictError, match=told) if told else nullcontext():
        check_untouched(world.ensemble, record)


def test_offsets_are_put_back(world: MemoryGroups) -> None:
    """An offset of -1 is -1 again."""
    world.topic("orders", 2)
    world.server.put("/consumers/g/ids")
    world.commit("g", "orders", 0, 42)
    world.commit("g", "orders", 1, 7)
    record = _record(group="g", offsets={TP: (10, 42), TopicPartition("orders", 1): (-1, 7)})

    apply_plan(
        world.ensemble, plan_undo(world.ensemble, record), ChangeRecord(undo_id="u", command="c", user="x")
    )

    assert [world.offset("g", "orders", n) for n in (0, 1)] == ["10", "-1"]


def _seeded(world: MemoryGroups, group: str = "g", offset: int = 42) -> UndoRecord:
    """The record of an act that gave partition 0 of `orders` an offset."""
    plan = plan_values(snapshot_or_empty(world.ensemble, group, ["orders"]), {TP: offset})
    record = _record(**_saved(plan), parents=missing_parents(world.ensemble, plan))
    apply_plan(world.ensemble, plan, ACT, force=True, parents=record.parents)
    return record


def _undo(world: MemoryGroups, record: UndoRecord, *, force: bool = False) -> UndoRecord:
    """The record of the undo, which is an act too."""
    plan = plan_undo(world.ensemble, record, force=force)
    undone = _record(**_saved(plan), parents=missing_parents(world.ensemble, plan))
    apply_plan(world.ensemble, plan, ACT, force=force, parents=undone.parents)
    return undone


def _below(world: MemoryGroups, group: str = "g") -> dict[str, bytes | None]:
    return {
        path: znode.data
        for path, znode in world.server.tree().items()
        if f"{path}/".startswith(f"/consumers/{group}/")
    }


def test_what_the_act_made_is_deleted_again(world: MemoryGroups) -> None:
    """Past bug: -1 was left behind, and the group. The undo of the undo makes all of it again."""
    world.topic("orders", 1)
    before = _below(world)
    record = _seeded(world)
    made = _below(world)

    undone = _undo(world, record)
    assert before == _below(world) == {}
    assert plan_undo(world.ensemble, record).effective == ()
    again = _undo(world, undone)
    assert _below(world) == made
    _undo(world, again)

    assert _below(world) == {}


def test_an_offset_made_in_a_group_goes_without_the_group(world: MemoryGroups) -> None:
    """With the topic's parent, if the change created it; znodes of other clients stay."""
    world.topic("orders", 2)
    world.server.put("/consumers/g/ids")
    record = _seeded(world)
    assert "/consumers/g/offsets/orders" in record.parents
    with_parent = _undo(world, record)
    assert [path for path in _below(world) if "offsets" in path] == ["/consumers/g/offsets"]
    _undo(world, with_parent)
    world.commit("g", "orders", 1, 7)

    _undo(world, record)

    assert [path for path in _below(world) if "orders" in path] == [
        "/consumers/g/offsets/orders",
        "/consumers/g/offsets/orders/1",
    ]


def test_a_group_that_was_used_since_stays(world: MemoryGroups) -> None:
    """Only its offset is deleted: a member that joined since has created more znodes below the group."""
    world.topic("orders", 1)
    record = _seeded(world)
    world.server.put("/consumers/g/owners/orders")

    _undo(world, record)

    assert {"/consumers/g/ids", "/consumers/g/owners", "/consumers/g/offsets"} <= set(_below(world))
    assert world.offset("g", "orders", 0) is None


def test_a_made_offset_that_was_written_since_is_a_conflict(world: MemoryGroups) -> None:
    """By its version: the same value may be another client's commit. Force deletes it nevertheless."""
    world.topic("orders", 1)
    record = _seeded(world)
    world.commit("g", "orders", 0, 42)

    with pytest.raises(ConflictError, match="orders-0 is at 42 as it was left, but was written since"):
        plan_undo(world.ensemble, record)
    _undo(world, record, force=True)

    assert world.offset("g", "orders", 0) is None


def test_a_made_offset_is_not_deleted_below_members(world: MemoryGroups) -> None:
    """It becomes -1 again, with a note: the version of an owner's offset is its fence."""
    world.topic("orders", 1)
    record = _seeded(world)
    world.member("g", "a", {"orders": 1})

    plan = plan_undo(world.ensemble, record)
    apply_plan(world.ensemble, plan, ACT, force=True)

    assert plan.notes == ("g has members, so the created offsets stay, as -1: orders-0",)
    assert world.offset("g", "orders", 0) == "-1"


def test_offsets_that_moved_since_are_a_conflict(world: MemoryGroups) -> None:
    """A member has committed since: only force writes the old value."""
    world.server.put("/consumers/g/ids")
    world.commit("g", "orders", 0, 50)
    record = _record(group="g", offsets={TP: (10, 42)})

    with pytest.raises(ConflictError, match="orders-0 is at 50, was left at 42"):
        plan_undo(world.ensemble, record)
    assert [change.after for change in plan_undo(world.ensemble, record, force=True).changes] == [10]


def test_a_deleted_group_comes_back_with_its_offsets(world: MemoryGroups) -> None:
    """The undo of a deletion creates the group anew."""
    world.topic("orders", 1)
    world.server.put("/consumers/g/ids")
    world.commit("g", "orders", 0, 42)
    plan = plan_deletion(world.ensemble, "g")
    record = _record(group="g", offsets={tp: (offset, -1) for tp, offset in plan.offsets})
    delete_group(world.ensemble, plan)

    apply_plan(
        world.ensemble, plan_undo(world.ensemble, record), ChangeRecord(undo_id="u", command="c", user="x")
    )

    assert world.offset("g", "orders", 0) == "42"


@pytest.mark.parametrize("original", [b"rubbish", b"\xff", b"", b"007", b"-5"])
def test_offsets_come_back_byte_for_byte(world: MemoryGroups, tmp_path: Path, original: bytes) -> None:
    """Past bug: the undo of a change over an unreadable offset wrote -1. It can be undone as well."""
    world.topic("orders", 1)
    world.server.put("/consumers/g/ids")
    world.commit("g", "orders", 0, original)
    folder, act = UndoFolder(tmp_path), ChangeRecord(undo_id="u", command="c", user="x")
    plan = plan_values(read_snapshot(world.ensemble, "g"), {TP: 42})
    first = _record("20260101-000000-aaaa", **_saved(plan))
    folder.save(first)
    apply_plan(world.ensemble, plan, act)
    assert world.offset("g", "orders", 0) == "42"

    back = plan_undo(world.ensemble, folder.load(first.undo_id))
    apply_plan(world.ensemble, back, act)

    assert _bytes(world) == original
    assert plan_undo(world.ensemble, first).effective == ()
    apply_plan(world.ensemble, plan_undo(world.ensemble, _record(**_saved(back))), act)
    assert _bytes(world) == b"42"


def test_the_plan_says_which_bytes_are_no_offset(world: MemoryGroups) -> None:
    """Before anything is written; an offset that is only written oddly is not worth a word."""
    world.topic("orders", 2)
    world.commit("g", "orders", 0, b"rubbish")
    world.commit("g", "orders", 1, b"007")
    snapshot = read_snapshot(world.ensemble, "g")

    (note,) = plan_values(snapshot, {TP: 42, TopicPartition("orders", 1): 8}).notes

    assert note.startswith("orders-0 holds b'rubbish', which is no offset")


def test_other_unreadable_bytes_than_were_there_are_a_conflict(world: MemoryGroups) -> None:
    """They were written since: they are not taken for the bytes before the change."""
    world.server.put("/consumers/g/ids")
    world.commit("g", "orders", 0, b"other")
    record = _record(group="g", offsets={TP: (-1, 42)}, originals={TP: b"rubbish"})

    with pytest.raises(ConflictError, match="orders-0 is at b'other', was left at 42"):
        plan_undo(world.ensemble, record)
    assert [change.data for change in plan_undo(world.ensemble, record, force=True).effective] == [b"rubbish"]


def test_owners_are_not_given_bytes_that_are_no_offset(world: MemoryGroups) -> None:
    """An owner applies only offsets, so the undo refuses beforehand."""
    world.topic("orders", 1)
    world.member("g", "a", {"orders": 1})
    world.own_as_planned("g")
    world.commit("g", "orders", 0, 42)
    record = _record(group="g", offsets={TP: (-1, 42)}, originals={TP: b"rubbish"})

    with pytest.raises(RefusedError, match=r"offsets/orders/0: held b'rubbish' before.*stop them first"):
        plan_undo(world.ensemble, record, force=True)


def test_a_deleted_group_comes_back_with_its_unreadable_offsets(world: MemoryGroups) -> None:
    """The bytes are in the undo file although they are no committed offset."""
    world.topic("orders", 2)
    world.server.put("/consumers/g/ids")
    world.commit("g", "orders", 0, b"rubbish")
    world.commit("g", "orders", 1, b"007")
    plan = plan_deletion(world.ensemble, "g")
    assert plan.offsets == ((TopicPartition("orders", 1), 7),)
    delete_group(world.ensemble, plan)
    before = dict.fromkeys(plan.originals, (-1, -1)) | {tp: (offset, -1) for tp, offset in plan.offsets}
    record = _record(group="g", offsets=before, originals=plan.originals)

    apply_plan(
        world.ensemble, plan_undo(world.ensemble, record), ChangeRecord(undo_id="u", command="c", user="x")
    )

    assert [world.offset("g", "orders", number) for number in (0, 1)] == ["rubbish", "007"]


def _saved(plan: OffsetPlan) -> dict[str, object]:
    """The content of the record of such a plan."""
    (change,) = plan.effective
    before = -1 if change.before is None else change.before
    originals = {} if change.original is None else {TP: change.original}
    created = frozenset({TP} if change.version is None else ())
    values = {TP: (before, change.after)}
    return {"group": plan.group, "offsets": values, "created": created, "originals": originals}


def _bytes(world: MemoryGroups) -> bytes | None:
    found = world.server.find(Offset.path("g", TP))
    return found.data if found else None


def test_a_deleted_topic_comes_back_as_it_was(world: MemoryGroups) -> None:
    """Parents first, null and empty data kept apart; a second run finds nothing to do."""
    world.topic("orders", 1)
    world.server.put("/brokers/topics/orders/partitions/0/state", b"{}")
    before = {path: znode.data for path, znode in world.server.tree().items()}
    plan = plan_topic_deletion(world.ensemble, "orders")
    record = _record(znodes=tuple((znode.path, znode.data) for znode in plan.znodes))
    delete_topic(world.ensemble, plan)

    restoration = plan_restoration(world.ensemble, record)
    restore_znodes(world.ensemble, restoration)

    assert {path: znode.data for path, znode in world.server.tree().items()} == before
    assert restoration.missing == record.znodes
    assert plan_restoration(world.ensemble, record).missing == ()


def test_what_comes_up_between_plan_and_act_is_a_conflict(world: MemoryGroups) -> None:
    """The transaction fails as a whole; after the first of several it is partly done."""
    world.topic("orders", 1)
    plan = plan_restoration(
        world.ensemble,
        _record(
            znodes=(*((f"/brokers/{number:04}", b"") for number in range(ZNODES_AT_ONCE)), ("/late", b""))
        ),
    )
    world.server.put("/late", b"somebody's")

    with pytest.raises(PartlyDoneError, match=f"{ZNODES_AT_ONCE} of {ZNODES_AT_ONCE + 1} .*/late"):
        restore_znodes(world.ensemble, plan)
    with pytest.raises(ConflictError, match="/brokers/0000"):
        restore_znodes(world.ensemble, plan)


@pytest.mark.parametrize(("allowed", "error"), [(0, AccessDeniedError), (1, PartlyDoneError)])
def test_a_change_made_in_part_is_never_reported_as_refused(
    world: MemoryGroups, allowed: int, error: type[Exception]
) -> None:
    """Past bug: by an ACL at the second of several transactions; the record would have gone with it."""
    count = max(ZNODES_AT_ONCE, DELETES_AT_ONCE) + 1
    missing = tuple((f"/brokers/{number:05}", b"") for number in range(count))
    world.server.put("/brokers")
    plan = plan_restoration(world.ensemble, _record(znodes=missing))
    world.topic("orders", count)
    for number in range(count):
        world.server.put(f"/brokers/topics/orders/partitions/{number}")
    deletion = plan_topic_deletion(world.ensemble, "orders")

    client = world.server.client("refused")

    def protecting(path: str) -> Ensemble:
        """Denies writes below this path after the first `allowed` transactions."""
        protect = before_nth(Multi, allowed + 1, lambda: world.server.set_acl(path, READ_ONLY))
        return world.operator(MeddledStore(client, protect))

    with pytest.raises(error):
        delete_topic(protecting("/brokers/topics/orders/partitions"), deletion)
    with pytest.raises(error):
        restore_znodes(protecting("/brokers"), plan)


@pytest.mark.parametrize(
    ("paths", "command"),
    [
        ((Topic.path("orders"), TopicConfig.path("orders")), ("topic", "delete", "orders")),
        ((Reassignment.path(),), ("reassign", "cancel")),
        ((TopicConfig.path("orders"),), ()),
        ((f"{Topic.path('orders')}/partitions",), ()),
    ],
)
def test_what_came_back_goes_by_the_command_for_it_or_not_at_all(
    world: MemoryGroups, paths: tuple[str, ...], command: tuple[str, ...]
) -> None:
    """Past bug: the way back from anything but a topic was to cancel the moves that ran just then."""
    plan = plan_restoration(world.ensemble, _record(znodes=tuple((path, b"{}") for path in paths)))

    assert plan.undo_command == command
    assert (plan.no_undo is None) == bool(command)


def test_a_topic_made_anew_meanwhile_is_left_alone(world: MemoryGroups) -> None:
    """A topic with other data belongs to another client."""
    world.topic("orders", 1)
    plan = plan_topic_deletion(world.ensemble, "orders")
    record = _record(znodes=tuple((znode.path, znode.data) for znode in plan.znodes))
    world.topic("orders", 5)

    with pytest.raises(ConflictError, match="/brokers/topics/orders"):
        plan_restoration(world.ensemble, record)


def test_a_topic_that_was_led_does_not_come_back_beside_a_controller(world: MemoryGroups) -> None:
    """Kafka's controller fails at partition states it has not made; the next command is named.

    Without a controller, or for a topic that never had a leader, the znodes come back.
    """
    led = (
        ("/brokers/topics/orders", Topic({0: (1, 2), 1: (2, 1)}).encode()),
        ("/brokers/topics/orders/partitions", None),
        ("/brokers/topics/orders/partitions/0", None),
        ("/brokers/topics/orders/partitions/0/state", b"{}"),
    )
    world.hold(ControllerRegistration.path(), ControllerRegistration(7, 1).encode())

    with pytest.raises(RefusedError, match="topic create orders --replica-assignment 1:2,2:1`"):
        plan_restoration(world.ensemble, _record(znodes=led))

    assert len(plan_restoration(world.ensemble, _record(znodes=led[:1])).missing) == 1
    world.server.remove(ControllerRegistration.path())
    assert len(plan_restoration(world.ensemble, _record(znodes=led)).missing) == 4
