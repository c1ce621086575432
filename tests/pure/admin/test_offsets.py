"""Offsets written by an operator: guarded, marked, recorded, and never against the will of a living group."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.stores import LosingStore, MeddledStore, before_nth
from zkgroup.admin.offsets.planning import (
    Absolute,
    AtTime,
    Earliest,
    Latest,
    OffsetPlan,
    SegmentOffset,
    Shift,
    Target,
    parse_target,
    partitions_to_reset,
    plan_removal,
    plan_reset,
    plan_values,
)
from zkgroup.admin.offsets.writes import LIVE_TRIES, PARTITIONS_AT_ONCE, apply_plan
from zkgroup.admin.undo_records import ChangeRecord
from zkgroup.errors import (
    ConfigError,
    ConflictError,
    CorruptZnodeError,
    NotFoundError,
    PartlyDoneError,
    RefusedError,
)
from zkgroup.groups.reader import read_snapshot, snapshot_or_empty, snapshot_to_change
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Check, Create, Delete, Multi, Request, SetData
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import Offset
from zkgroup.znodes.group_records import AuditRecord, Reset

ACT = ChangeRecord(undo_id="20260101-000000-abcd", command="zkgroup offsets set g ...", user="olga")


def _tp(partition: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, partition)


def _plan(world: MemoryGroups, values: dict[int, int], group: str = "g") -> OffsetPlan:
    snapshot = snapshot_or_empty(world.ensemble, group, ["orders"])
    return plan_values(snapshot, {_tp(number): value for number, value in values.items()})


@pytest.fixture
def idle(world: MemoryGroups) -> MemoryGroups:
    """A group without members and two offsets."""
    world.topic("orders", 3)
    world.server.put("/consumers/g/ids")
    world.commit("g", "orders", 0, 10)
    world.commit("g", "orders", 1, 20)
    return world


@pytest.fixture
def living(idle: MemoryGroups) -> MemoryGroups:
    """The same with a member that owns everything."""
    idle.member("g", "a", {"orders": 1})
    idle.own_as_planned("g")
    return idle


class Log:
    """Positions of a log that holds 5..100 of every partition."""

    def earliest(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | str]:
        return dict.fromkeys(partitions, 5)

    def latest(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | str]:
        return dict.fromkeys(partitions, 100)

    def at_time(
        self, partitions: Sequence[TopicPartition], time_ms: int
    ) -> Mapping[TopicPartition, int | SegmentOffset | str]:
        return dict.fromkeys(partitions, time_ms // 1000)


def test_offsets_of_an_idle_group_are_written_with_guard_and_record(idle: MemoryGroups) -> None:
    """One transaction, from delete and create of `ids` to the audit record (recipes 8, 18 and 22)."""
    for name in ("owners", "resets"):
        idle.server.put(f"/consumers/g/{name}")
    applied = apply_plan(idle.ensemble, _plan(idle, {0: 42, 2: 7}), ACT)

    last = idle.server.log[-1].operations
    audit = idle.server.find(AuditRecord.path("g"))
    assert [idle.offset("g", "orders", n) for n in (0, 1, 2)] == ["42", "20", "7"]
    assert len(applied.done) == 2
    assert last[:2] == (Delete("/consumers/g/ids", 0), Create("/consumers/g/ids", None))
    assert last[2:4] == (Create("/consumers/g/protocol", None), Delete("/consumers/g/protocol", 0))
    assert last[4] == Check(Topic.path("orders"), -1)
    assert last[5:7] == (
        SetData(Offset.path("g", _tp(0)), b"42", 0),
        Create(Offset.path("g", _tp(2)), b"7"),
    )
    assert audit is not None
    assert AuditRecord.decode(audit.path, audit.data).user == "olga"
    assert json.loads(audit.data or b"")["command"] == ACT.command


def test_a_member_that_joins_meanwhile_stops_the_act(idle: MemoryGroups) -> None:
    """The guard refuses in the very transaction, and the error names who has come (recipes 8)."""
    plan = _plan(idle, {0: 42})
    idle.member("g", "late", {"orders": 1})

    with pytest.raises(RefusedError, match="g_late"):
        apply_plan(idle.ensemble, plan, ACT)

    assert idle.offset("g", "orders", 0) == "10"


def test_an_offset_that_moved_since_the_plan_is_a_conflict(idle: MemoryGroups) -> None:
    """Nothing is overwritten that the plan did not show."""
    plan = _plan(idle, {0: 42, 1: 43})
    idle.commit("g", "orders", 1, 21)

    with pytest.raises(ConflictError, match="/consumers/g/offsets/orders/1"):
        apply_plan(idle.ensemble, plan, ACT)

    assert [idle.offset("g", "orders", n) for n in (0, 1)] == ["10", "21"]


def test_a_topic_that_is_deleted_meanwhile_gets_no_offsets(idle: MemoryGroups) -> None:
    """It existed in the preview; the transaction checks again, unless a missing topic is allowed."""
    plan = _plan(idle, {0: 42})
    idle.server.remove(Topic.path("orders"))

    with pytest.raises(NotFoundError, match="/brokers/topics/orders: expected the topic"):
        apply_plan(idle.ensemble, plan, ACT)
    refused = idle.offset("g", "orders", 0)
    apply_plan(idle.ensemble, replace(plan, topics=frozenset()), ACT)

    assert (refused, idle.offset("g", "orders", 0)) == ("10", "42")


def test_a_topic_that_is_deleted_below_members_gets_no_offsets(living: MemoryGroups) -> None:
    """The same for offsets that owners would have to apply."""
    plan = _plan(living, {0: 42})
    living.server.remove(Topic.path("orders"))

    with pytest.raises(NotFoundError, match="/brokers/topics/orders: expected the topic"):
        apply_plan(living.ensemble, plan, ACT, force=True)

    assert living.offset("g", "orders", 0) == "10"


def test_a_plan_without_effect_writes_nothing(idle: MemoryGroups) -> None:
    """Values that are there already are left alone, version and all."""
    before = len(idle.server.log)

    applied = apply_plan(idle.ensemble, _plan(idle, {0: 10, 1: 20}), ACT)

    assert (applied.done, len(idle.server.log)) == ([], before)


def test_a_new_group_is_made_with_what_kafkas_tools_expect(idle: MemoryGroups) -> None:
    """An import may be a group's first act: `ids`, `owners` and `offsets` exist afterwards."""
    apply_plan(idle.ensemble, _plan(idle, {0: 42}, "new"), ACT)

    assert idle.offset("new", "orders", 0) == "42"
    assert {"/consumers/new/ids", "/consumers/new/owners", "/consumers/new/offsets"} <= set(
        idle.server.tree()
    )


def test_a_refusal_leaves_nothing_of_a_new_group(idle: MemoryGroups) -> None:
    """Past bug: the parents were created before the transaction that was then refused."""
    plan = _plan(idle, {0: 42}, "new")
    join = before_nth(Multi, 1, lambda: idle.member("new", "late", {"orders": 1}))

    with pytest.raises((ConflictError, RefusedError), match="/consumers/new"):
        apply_plan(idle.operator(MeddledStore(idle.server.client(), join)), plan, ACT)

    assert [path for path in idle.server.tree() if path.startswith("/consumers/new")] == [
        "/consumers/new",
        "/consumers/new/ids",
        "/consumers/new/ids/new_late",
    ]


def test_offsets_are_deleted_with_what_held_them(idle: MemoryGroups) -> None:
    """Named partitions, or a topic with all its offsets; a topic without offsets leaves the group."""
    idle.commit("g", "gone", 3, b"rubbish")
    snapshot = read_snapshot(idle.ensemble, "g")

    one = apply_plan(idle.ensemble, plan_removal(snapshot, [("orders", (1,))]), ACT)
    assert [idle.offset("g", "orders", number) for number in (0, 1)] == ["10", None]
    snapshot = read_snapshot(idle.ensemble, "g")
    rest = apply_plan(idle.ensemble, plan_removal(snapshot, [("orders", ()), ("gone", (3,))]), ACT)

    assert (len(one.done), len(rest.done)) == (1, 2)
    assert [path for path in idle.server.tree() if path.startswith("/consumers/g/")] == [
        "/consumers/g/ids",
        "/consumers/g/offsets",
    ]


@pytest.mark.parametrize("wanted", [("orders", (2,)), ("orders", (0, 9)), ("nothing", ())])
def test_only_offsets_that_are_there_are_deleted(
    idle: MemoryGroups, wanted: tuple[str, tuple[int, ...]]
) -> None:
    """One of several that is not there is a typo: nothing is planned."""
    with pytest.raises(NotFoundError, match=f"/consumers/g/offsets/{wanted[0]}: g has no offset of"):
        plan_removal(read_snapshot(idle.ensemble, "g"), [wanted])


def test_no_offset_is_deleted_below_members(living: MemoryGroups) -> None:
    """The fence of an owner is the version of its offset: not even force deletes it; nor a late join."""
    plan = plan_removal(read_snapshot(living.ensemble, "g"), [("orders", ())])

    with pytest.raises(RefusedError, match="g_a"):
        apply_plan(living.ensemble, plan, ACT, force=True)
    with pytest.raises(RefusedError, match="g_a"):
        apply_plan(living.ensemble, replace(plan, members=()), ACT)

    assert living.offset("g", "orders", 0) == "10"


def test_a_commit_since_the_plan_stops_a_deletion(idle: MemoryGroups) -> None:
    """Each offset is deleted at the version that was shown."""
    plan = plan_removal(read_snapshot(idle.ensemble, "g"), [("orders", ())])
    idle.commit("g", "orders", 1, 21)

    with pytest.raises(ConflictError, match="/consumers/g/offsets/orders/1"):
        apply_plan(idle.ensemble, plan, ACT)

    assert [idle.offset("g", "orders", number) for number in (0, 1)] == ["10", "21"]


def test_a_lost_answer_is_resolved_by_the_record(idle: MemoryGroups) -> None:
    """Applied or not is read back; the record is written by this transaction alone (recipes 10)."""
    plan = _plan(idle, {0: 42})
    client = idle.server.client("lossy")
    store = LosingStore(client, applied=True)

    applied = apply_plan(idle.operator(store), plan, ACT)

    assert (idle.offset("g", "orders", 0), len(applied.done)) == ("42", 1)


def test_a_lost_request_is_reported_as_unknown(idle: MemoryGroups) -> None:
    """A change that was not applied is not reported as done, and has no record."""
    plan = _plan(idle, {0: 42})
    store = LosingStore(idle.server.client("lossy"), applied=False)

    with pytest.raises(Exception, match="may or may not"):
        apply_plan(idle.operator(store), plan, ACT)

    assert idle.offset("g", "orders", 0) == "10"


def test_many_offsets_go_in_several_transactions_and_a_stop_in_between_is_partly_done(
    world: MemoryGroups,
) -> None:
    """Exit code 4: the first transaction holds, the second was refused, and the error says both."""
    count = PARTITIONS_AT_ONCE + 1
    world.topic("orders", count)
    world.server.put("/consumers/g/ids")
    world.server.put("/consumers/g/offsets/orders")
    plan = _plan(world, dict.fromkeys(range(count), 1))
    late = before_nth(Multi, 2, lambda: world.member("g", "late", {"orders": 1}))
    store = MeddledStore(world.server.client(), late)

    with pytest.raises(PartlyDoneError, match=f"{PARTITIONS_AT_ONCE} of {count}"):
        apply_plan(world.operator(store), plan, ACT)

    assert world.offset("g", "orders", 0) == "1"
    assert world.offset("g", "orders", count - 1) is None


def test_transactions_of_long_names_stay_below_a_mebibyte(world: MemoryGroups) -> None:
    """Each with the parents and the checks of its own topics alone; ZooKeeper would refuse a larger one."""
    group, topics = "g" * 240, [f"{number:03}".rjust(240, "t") for number in range(800)]
    for topic in topics:
        world.topic(topic, 1)
    plan = plan_values(
        snapshot_or_empty(world.ensemble, group, topics), {_tp(0, topic): 7 for topic in topics}
    )
    apply_plan(world.ensemble, plan, ACT)

    assert {world.offset(group, topic, 0) for topic in topics} == {"7"}


def test_a_living_group_is_refused_without_force(living: MemoryGroups) -> None:
    """A group with members keeps its offsets unless forced."""
    with pytest.raises(RefusedError, match="g_a"):
        apply_plan(living.ensemble, _plan(living, {0: 42}), ACT)


def test_force_writes_offset_and_marker_in_one_transaction(living: MemoryGroups) -> None:
    """The marker is created with the offset, so that the owner applies it (recipes 6)."""
    apply_plan(living.ensemble, _plan(living, {0: 42}), ACT, force=True)

    marker = living.server.find(Reset.path("g", _tp(0)))
    offset = living.server.find(Offset.path("g", _tp(0)))
    assert marker is not None
    assert offset is not None
    assert (offset.data, Reset.decode(marker.path, marker.data).offset) == (b"42", 42)
    assert marker.stat.czxid == offset.stat.mzxid
    assert living.server.find(AuditRecord.path("g")) is None


def test_a_second_reset_replaces_the_marker(living: MemoryGroups) -> None:
    """Deleted and created, so that the child watch fires and the marker's mzxid is new (recipes 6)."""
    apply_plan(living.ensemble, _plan(living, {0: 42}), ACT, force=True)
    first = living.server.find(Reset.path("g", _tp(0)))
    apply_plan(living.ensemble, _plan(living, {0: 43}), ACT, force=True)
    second = living.server.find(Reset.path("g", _tp(0)))

    operations = living.server.log[-1].operations
    assert first is not None
    assert second is not None
    assert second.stat.czxid > first.stat.mzxid
    assert [type(operation) for operation in operations] == [SetData, Delete, Create]


def test_a_race_with_a_committing_owner_is_run_again(living: MemoryGroups) -> None:
    """The owner's commit makes the first try fail; the second carries the version just read."""
    plan = _plan(living, {0: 42})
    commit = before_nth(Multi, 1, lambda: living.commit("g", "orders", 0, 11))
    store = MeddledStore(living.server.client(), commit)

    apply_plan(living.operator(store), plan, ACT, force=True)

    assert living.offset("g", "orders", 0) == "42"


def test_an_owner_that_always_wins_is_a_conflict_in_the_end(living: MemoryGroups) -> None:
    """The number of races is bounded."""
    plan = _plan(living, {0: 42})
    tries = 0

    def commit(request: Request) -> None:
        nonlocal tries
        if isinstance(request, Multi):
            tries += 1
            living.commit("g", "orders", 0, 100 + tries)

    with pytest.raises(ConflictError, match="commits faster"):
        apply_plan(living.operator(MeddledStore(living.server.client(), commit)), plan, ACT, force=True)

    assert tries == LIVE_TRIES


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (Absolute(50), [50, 50]),
        (Shift(5), [15, 25]),
        (Shift(-15), [5, 5]),
        (Earliest(), [5, 5]),
        (Latest(), [100, 100]),
        (Absolute(1000), [100, 100]),
        (AtTime(60_000), [60, 60]),
    ],
)
def test_targets_stay_within_the_log(idle: MemoryGroups, target: Target, expected: list[int]) -> None:
    """With a source every target is kept between the first and the next record."""
    plan = plan_reset(read_snapshot(idle.ensemble, "g"), target, [_tp(0), _tp(1)], Log())

    assert [change.after for change in plan.changes] == expected


def test_targets_that_need_records_need_a_source(idle: MemoryGroups) -> None:
    """Earliest, latest and times are refused without a source; numbers and shifts are not."""
    snapshot = read_snapshot(idle.ensemble, "g")

    for target in (Earliest(), Latest(), AtTime(0)):
        with pytest.raises(ConfigError, match="--source"):
            plan_reset(snapshot, target, [_tp(0)])
    assert [change.after for change in plan_reset(snapshot, Shift(-50), [_tp(0)]).changes] == [0]


class Leaderless(Log):
    """The same, but partition 1 has no leader, and times are known by segment."""

    def earliest(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | str]:
        return {tp: 5 if tp.partition != 1 else "no broker leads it" for tp in partitions}

    def latest(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | str]:
        return {tp: 100 if tp.partition != 1 else "no broker leads it" for tp in partitions}

    def at_time(
        self, partitions: Sequence[TopicPartition], time_ms: int
    ) -> Mapping[TopicPartition, int | SegmentOffset | str]:
        return {tp: SegmentOffset(60) if tp.partition != 1 else "no broker leads it" for tp in partitions}


def test_a_partition_without_a_leader_is_named_with_the_way_to_reset_the_others(idle: MemoryGroups) -> None:
    """All or nothing; and an offset that needs no log is written, with a note that it is not checked."""
    snapshot, log = read_snapshot(idle.ensemble, "g"), Leaderless()
    three = [_tp(0), _tp(1), _tp(2)]

    for target in (Earliest(), Latest(), AtTime(0)):
        with pytest.raises(NotFoundError, match=r"orders-1 .*no broker leads it.* --topic orders:0,2"):
            plan_reset(snapshot, target, three, log)
    plan = plan_reset(snapshot, Absolute(200), three, log)

    assert [change.after for change in plan.changes] == [100, 200, 100]
    assert "orders-1: 200 may be outside the log, which is not known: no broker leads it" in plan.notes


def test_a_time_by_segment_is_noted_once(idle: MemoryGroups) -> None:
    """Kafka before 0.10.1 does not know the times of records: a note says how exact the offsets are."""
    plan = plan_reset(read_snapshot(idle.ensemble, "g"), AtTime(0), [_tp(0), _tp(2)], Leaderless())

    assert [change.after for change in plan.changes] == [60, 60]
    (note,) = plan.notes
    assert note.startswith("orders-0 and 1 more: ")
    assert "No later record is left out, and up to two segments of earlier ones come again" in note


def test_a_shift_below_0_is_noted(idle: MemoryGroups) -> None:
    """Past bug: without a source 0 was used without a note; an offset that stays above 0 has none."""
    snapshot = read_snapshot(idle.ensemble, "g")

    plan = plan_reset(snapshot, Shift(-15), [_tp(0), _tp(1)])

    assert [change.after for change in plan.changes] == [0, 5]
    assert plan.notes == ("orders-0: -5 is below 0: 0 is used",)
    assert plan_reset(snapshot, Shift(-15), [_tp(0)], Log()).notes == (
        "orders-0: -5 is outside the log: 5 is used",
    )


def test_a_shift_leaves_out_what_was_never_committed(idle: MemoryGroups) -> None:
    """There is nothing to shift, which is said."""
    plan = plan_reset(read_snapshot(idle.ensemble, "g"), Shift(1), [_tp(0), _tp(2)])

    assert [change.topic_partition for change in plan.changes] == [_tp(0)]
    assert "orders-2" in plan.notes[0]


def test_partitions_are_picked_by_topic_and_number(idle: MemoryGroups) -> None:
    """Without topics all that have an offset; a topic means all its partitions; unknown ones are errors."""
    idle.topic("clicks", 1)
    snapshot = read_snapshot(idle.ensemble, "g", ["clicks", "nothing"])

    assert partitions_to_reset(snapshot) == (_tp(0), _tp(1))
    assert partitions_to_reset(snapshot, [("orders", ())]) == (_tp(0), _tp(1), _tp(2))
    assert partitions_to_reset(snapshot, [("orders", (2,)), ("clicks", ())]) == (_tp(0, "clicks"), _tp(2))
    with pytest.raises(NotFoundError, match="there is no topic nothing, and g has no offset of it"):
        partitions_to_reset(snapshot, [("nothing", ())])


def test_what_does_not_exist_is_refused_unless_allowed(idle: MemoryGroups) -> None:
    """A mistyped topic or partition writes nothing; if allowed, the plan names the missing ones."""
    idle.commit("g", "gone", 0, 3)
    snapshot = snapshot_to_change(idle.ensemble, "g", ["orders", "ordres"])
    values = {_tp(0): 1, _tp(0, "ordres"): 2, _tp(3): 3, _tp(9): 4}
    told = "there is no topic ordres; orders has no partition 3, 9"

    with pytest.raises(
        NotFoundError, match=f"/brokers/topics/orders: {told.partition('; ')[2]}.*--allow-missing"
    ):
        plan_values(snapshot, {tp: value for tp, value in values.items() if tp.topic == "orders"})
    with pytest.raises(NotFoundError, match="there is no topic ordres"):
        plan_values(snapshot, values)
    for partitions in ([_tp(0), _tp(3)], partitions_to_reset(snapshot)):
        with pytest.raises(NotFoundError, match="nothing was changed"):
            plan_reset(snapshot, Absolute(5), partitions)
        assert plan_reset(snapshot, Absolute(5), partitions, allow_missing=True).effective
    allowed = plan_values(snapshot, values, allow_missing=True)
    assert [change.after for change in allowed.effective] == [1, 3, 4, 2]
    assert [note.partition(": ")[0] for note in allowed.notes] == told.split("; ")[::-1]


def test_a_topic_that_cannot_be_read_is_not_called_missing(idle: MemoryGroups) -> None:
    """Its partitions are not known, and the error says why."""
    idle.server.put(Topic.path("odd"), b"{")
    snapshot = snapshot_to_change(idle.ensemble, "g", ["odd"])

    with pytest.raises(CorruptZnodeError, match="/brokers/topics/odd"):
        plan_values(snapshot, {_tp(0, "odd"): 1})
    with pytest.raises(CorruptZnodeError, match="/brokers/topics/odd"):
        partitions_to_reset(snapshot, [("odd", ())])
    assert plan_values(snapshot, {_tp(0, "odd"): 1}, allow_missing=True).effective


@pytest.mark.parametrize(("group", "topic"), [("g/h", "orders"), ("..", "orders"), ("g", "a b"), ("g", "..")])
def test_illegal_names_are_refused_before_anything_is_planned(
    idle: MemoryGroups, group: str, topic: str
) -> None:
    """A name that Kafka could not have is no place for offsets."""
    with pytest.raises(ConfigError, match="expected"):
        snapshot_to_change(idle.ensemble, group, [topic])


def test_a_new_group_has_at_most_255_bytes(idle: MemoryGroups) -> None:
    """One of ZooKeeper consumers that is there may have more: their name is not limited."""
    longest, too_long = "g" * 255, "g" * 256
    snapshot = snapshot_to_change(idle.ensemble, longest, ["orders"])
    assert not snapshot.exists
    for allow_missing in (False, True):
        with pytest.raises(ConfigError, match="at most 255 bytes, found 256"):
            snapshot_to_change(idle.ensemble, too_long, ["orders"], allow_missing=allow_missing)

    idle.commit(too_long, "orders", 0, 1)

    assert snapshot_to_change(idle.ensemble, too_long, ["orders"]).exists


def test_a_group_that_does_not_exist_yet_can_be_seeded(idle: MemoryGroups) -> None:
    """Of topics that exist; the plan says that the group is new."""
    snapshot = snapshot_to_change(idle.ensemble, "new", ["orders"])

    for plan in (plan_values(snapshot, {_tp(0): 7}), plan_reset(snapshot, Absolute(7), [_tp(0)])):
        assert plan.notes == ("there is no group 'new' yet: this creates it",)
    apply_plan(idle.ensemble, plan_values(snapshot, {_tp(0): 7}), ACT)

    assert idle.offset("new", "orders", 0) == "7"
    assert plan_values(snapshot_to_change(idle.ensemble, "new", ["orders"]), {_tp(0): 8}).notes == ()


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", Earliest()),
        ("latest", Latest()),
        ("7", Absolute(7)),
        ("+7", Shift(7)),
        ("-7", Shift(-7)),
        ("2026-01-01T00:00:00Z", None),
        ("", None),
    ],
)
def test_the_form_of_a_target_decides_its_kind(text: str, target: Target | None) -> None:
    """A sign means a shift, digits an offset, words the ends; anything else may be a time."""
    assert parse_target(text) == target
