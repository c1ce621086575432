"""Freezing a group: what is refused, what is written, and what every read of the group shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.coordinated_groups import CoordinatedGroups, stored_member
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin.change import UndoRecorder
from zkgroup.admin.freezes import (
    freeze_group,
    freeze_group_change,
    plan_freeze,
    plan_unfreeze,
    unfreeze_group,
)
from zkgroup.admin.offsets.changes import delete_offsets_change, set_offsets_change
from zkgroup.admin.undo import undo_change
from zkgroup.admin.undo_records import UndoFolder, UndoRecord
from zkgroup.errors import ConfigError, ConflictError, NotFoundError, RefusedError
from zkgroup.groups.check import CheckLimits, check_groups
from zkgroup.groups.descriptions import FreezeDescription, GroupState, ProblemKind
from zkgroup.groups.membership import LiveGroup, LiveMember
from zkgroup.groups.reads import GroupChange, describe, list_groups, preview, verify
from zkgroup.model import StaticSubscription, TopicPartition
from zkgroup.model.requests import Delete, SetData
from zkgroup.znodes.consumers import FEATURES, FEATURES_KEY, Registration
from zkgroup.znodes.coordinated_groups import SlotOwner
from zkgroup.znodes.group_records import Freeze

FOR_MS = 600_000


@pytest.fixture
def group(world: MemoryGroups) -> MemoryGroups:
    world.topic("orders", 4)
    for name in "ab":
        join(world, name)
    world.own_as_planned("g")
    return world


def join(world: MemoryGroups, name: str) -> None:
    """A member of this version."""
    world.member("g", name, {"orders": 1}, {"zkgroup": "1", FEATURES_KEY: " ".join(FEATURES)})


def freeze(world: MemoryGroups, *, takeover: bool = False) -> int:
    """Freezes the group; the end."""
    plan = plan_freeze(world.ensemble, "g", reason="deploy", for_ms=FOR_MS, allow_takeover=takeover)
    return freeze_group(world.ensemble, plan, "me")


def test_every_read_shows_the_freeze_and_its_end(group: MemoryGroups) -> None:
    """State, reason, end and user; what has no owner is a problem of its own kind; what is owned is none."""
    until_ms = freeze(group)
    join(group, "c")
    group.leave("g", "a")
    found = describe(group.ensemble, "g")
    _, (row,), _ = list_groups(group.ensemble)

    assert until_ms == group.ensemble.clock.wall_ms() + FOR_MS
    assert found.frozen == row.frozen == FreezeDescription(reason="deploy", until_ms=until_ms, by="me")
    assert found.state is row.state is GroupState.FROZEN
    problems = verify(group.ensemble, "g").problems
    assert {(each.kind, each.partition) for each in problems} == {
        (ProblemKind.FROZEN, 0),
        (ProblemKind.FROZEN, 1),
    }
    assert "frozen until" in problems[0].detail
    assert "by me: deploy" in problems[0].detail
    _, (check,) = check_groups(group.ensemble, ["g"], CheckLimits())
    assert [each.partition for each in check.reasons] == [0, 1]
    assert any(
        "nothing moves before the end" in note for note in preview(group.ensemble, "g", GroupChange()).notes
    )


def test_a_group_whose_members_have_left_is_frozen_until_the_end(group: MemoryGroups) -> None:
    """Then it is empty: without members nobody deletes the marker."""
    freeze(group)
    group.leave("g", "a")
    group.leave("g", "b")
    states = [describe(group.ensemble, "g").state]
    group.clock.advance(FOR_MS)

    assert [*states, describe(group.ensemble, "g").state] == [GroupState.FROZEN, GroupState.EMPTY]


def test_a_frozen_group_that_is_owned_has_converged(group: MemoryGroups) -> None:
    """Owners that the assignment would move are no problem until the end."""
    freeze(group)
    join(group, "0")
    found = verify(group.ensemble, "g")

    assert found.converged
    assert found.frozen is not None


def test_offsets_of_a_frozen_group_are_set_and_not_deleted(group: MemoryGroups) -> None:
    """Past bug: a partition whose offset was deleted had no owner until the end, whoever came back."""
    freeze(group)
    for name in "ab":
        group.leave("g", name)
    with pytest.raises(RefusedError, match="`zkgroup group unfreeze g --execute` ends it"):
        delete_offsets_change(group.ensemble, "g", {"orders": [0]})

    values = {TopicPartition("orders", 0): 7}
    assert set_offsets_change(group.ensemble, "g", values).is_effective


def test_unfreeze_ends_this_freeze_alone(group: MemoryGroups) -> None:
    """Of two operators one is refused; a group that is not frozen is not found."""
    freeze(group)
    mine = plan_unfreeze(group.ensemble, "g")
    unfreeze_group(group.ensemble, plan_unfreeze(group.ensemble, "g"))
    freeze(group)

    with pytest.raises(ConflictError, match="owners"):
        unfreeze_group(group.ensemble, mine)
    unfreeze_group(group.ensemble, plan_unfreeze(group.ensemble, "g"))
    with pytest.raises(NotFoundError, match="g is not frozen"):
        plan_unfreeze(group.ensemble, "g")
    assert verify(group.ensemble, "g").frozen is None


def refusal(world: MemoryGroups, name: str = "g", *, takeover: bool = False) -> str:
    try:
        plan = plan_freeze(world.ensemble, name, reason="r", for_ms=1000, allow_takeover=takeover)
        freeze_group(world.ensemble, plan, "me")
    except (RefusedError, NotFoundError) as error:
        return str(error)
    raise AssertionError(f"{name} is frozen")


def test_a_partition_without_an_owner_refuses_a_freeze(group: MemoryGroups) -> None:
    """It would stay without one; with a takeover somebody claims it. A release just now is a lost race."""
    early = plan_freeze(group.ensemble, "g", reason="r", for_ms=1000)
    group.write(Delete(owner := "/consumers/g/owners/orders/3", -1))

    assert "found none of orders-3" in refusal(group)
    with pytest.raises(ConflictError, match=f"{owner}: has just been released"):
        freeze_group(group.ensemble, early, "me")
    freeze(group, takeover=True)
    assert "frozen until" in refusal(group, takeover=True)


def test_members_that_know_no_freeze_are_named(group: MemoryGroups) -> None:
    """A JVM member refuses a freeze; one that joins later is the reason why it does not hold."""
    jvm = Registration.of(StaticSubscription({"orders": 1}), 1)
    freeze(group)
    group.raw_member("g", "jvm", jvm.encode())
    assert "g_jvm: does not know freezes" in "".join(
        each.detail for each in verify(group.ensemble, "g").problems
    )

    unfreeze_group(group.ensemble, plan_unfreeze(group.ensemble, "g"))
    assert "g_jvm would not obey" in refusal(group)


def test_nothing_to_keep_is_refused(group: MemoryGroups) -> None:
    """A group without members or that does not exist, a freeze without a reason or a time, or with one that
    nobody could read."""
    group.commit("left", "orders", 0, 1)
    assert "found none" in refusal(group, "left")
    assert "there is no group" in refusal(group, "nobody")
    for reason, for_ms in ((" ", 1000), ("r" * 1001, 1000), ("r", 0), ("r", 2**63)):
        with pytest.raises(ConfigError):
            plan_freeze(group.ensemble, "g", reason=reason, for_ms=for_ms)
    with pytest.raises(TypeError):
        plan_freeze(group.ensemble, "g", reason="r", for_ms=60e3)  # type: ignore[arg-type]


def test_a_marker_that_cannot_be_read_is_reported_and_removed(group: MemoryGroups) -> None:
    """Members take it for a freeze without end."""
    freeze(group)
    group.write(SetData(Freeze.path("g"), b"?", -1))
    (problem,) = verify(group.ensemble, "g").problems

    assert problem.kind is ProblemKind.FROZEN
    assert "`zkgroup group unfreeze g --execute` deletes it" in problem.detail
    unfreeze_group(group.ensemble, plan_unfreeze(group.ensemble, "g"))
    assert verify(group.ensemble, "g").converged


@pytest.fixture
def coordinated(world: MemoryGroups) -> CoordinatedGroups:
    """A stable group of Kafka's protocol, and its coordinator."""
    world.topic("orders", 2)
    groups = CoordinatedGroups(world)
    groups.broker(1)
    groups.lead(1)
    tps = [TopicPartition("orders", number) for number in range(2)]
    groups.store("g", stored_member("ada", tps[0]), stored_member("bea", tps[1]))
    return groups


def test_a_freeze_of_kafkas_protocol_sets_the_slot(
    coordinated: CoordinatedGroups, world: MemoryGroups
) -> None:
    """So does its end: the coordinator loads the group again, and finds what there is."""
    path = SlotOwner.path(coordinated.slot("g"))
    before = world.server.find(path)
    until_ms = freeze(world)
    frozen = world.server.find(path)
    found = describe(world.ensemble, "g")
    unfreeze_group(world.ensemble, plan_unfreeze(world.ensemble, "g"))
    after = world.server.find(path)

    assert before is not None
    assert frozen is not None
    assert after is not None
    assert [each.stat.version - before.stat.version for each in (frozen, after)] == [1, 2]
    assert before.data == frozen.data == after.data
    assert found.state is GroupState.FROZEN
    assert found.frozen == FreezeDescription(reason="deploy", until_ms=until_ms, by="me")
    assert verify(world.ensemble, "g").frozen is None


def test_what_a_coordinator_cannot_freeze_is_refused(
    coordinated: CoordinatedGroups, world: MemoryGroups
) -> None:
    """A takeover, which nothing recommends, and a group whose coordinator does not say that it is stable."""
    assert "each assignment is made for all" in refusal(world, takeover=True)
    coordinated.store("unowned", stored_member("ada", TopicPartition("orders", 0)))
    assert "found none of orders-1" in (text := refusal(world, "unowned"))
    assert "--allow-takeover" not in text

    rebalancing = LiveGroup(state="PreparingRebalance", protocol_type="consumer", protocol="range")
    for live, what in (({"g": rebalancing}, "found PreparingRebalance"), ({}, "found no answer")):
        plan = plan_freeze(world.ensemble, "g", reason="r", for_ms=1, live=lambda leaders, live=live: live)
        assert what in str(plan.refusal)


def test_clients_that_left_a_frozen_group_leave_what_is_frozen(
    coordinated: CoordinatedGroups, world: MemoryGroups
) -> None:
    """What no member has is a problem of this kind; that the store has other members is none."""
    freeze(world)
    bea = stored_member("bea", TopicPartition("orders", 1))
    live = LiveGroup(
        state="Stable",
        protocol_type="consumer",
        protocol="range",
        members=(
            LiveMember(
                member_id="bea",
                instance_id=None,
                client_id="client",
                host="/127.0.0.1",
                metadata=bea.protocols[0][1],
                assignment=bea.assignment,
            ),
        ),
        generation=1,
    )
    problems = verify(world.ensemble, "g", live=lambda leaders: {"g": live}).problems

    assert [(each.kind, each.partition) for each in problems] == [(ProblemKind.FROZEN, 0)]


def test_undo_of_a_freeze_ends_it_and_no_later_one(group: MemoryGroups, tmp_path: Path) -> None:
    """By the command in its record. A later freeze may be that of somebody else, who has said the same."""
    recorder = UndoRecorder(UndoFolder(tmp_path), zookeeper="memory", user="me")

    def freeze() -> UndoRecord:
        plan = plan_freeze(group.ensemble, "g", reason="r", for_ms=FOR_MS)
        undo_id = freeze_group_change(group.ensemble, plan).apply(recorder).undo_id
        assert undo_id is not None
        return recorder.folder.load(undo_id)

    def undo(record: UndoRecord) -> None:
        undo_change(group.ensemble, record).apply(recorder)

    first = freeze()
    assert first.group is None  # else `undo --wait` took it for a record of offsets, and waited for nothing
    undo(first)
    assert verify(group.ensemble, "g").frozen is None
    second = freeze()
    with pytest.raises(ConflictError, match=f"has changed since {first.undo_id}"):
        undo(first)
    assert verify(group.ensemble, "g").frozen is not None
    undo(second)
    assert verify(group.ensemble, "g").frozen is None
