"""A frozen group keeps its generation until its slot is loaded again (recipes 26)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.worlds.coordinators import RANGE, SETTINGS, TIMEOUT_MS, Coordinator
from tests.worlds.stepped_stores import member, record
from zkgroup.coordinator.effects import WriteGroup
from zkgroup.coordinator.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from zkgroup.model.error_codes import ErrorCode

NONE = ErrorCode.NONE
STORED = record(
    "g",
    generation=3,
    members=[replace(member(name, name.encode()), session_timeout_ms=TIMEOUT_MS) for name in ("m1", "m2")],
)


@pytest.fixture
def coordinator() -> Coordinator:
    made = Coordinator()
    made.load(replace(STORED, is_frozen=True), epoch=1)
    return made


def test_members_that_join_wait_and_those_that_end_start_nothing(coordinator: Coordinator) -> None:
    """The generation stays; the end of the freeze loads the slot again, and clients join anew."""
    parked = coordinator.send_join()
    assert coordinator.leave("m1")[0] is NONE
    for _ in range(4):
        coordinator.advance(TIMEOUT_MS // 2)
        assert coordinator.beat("m2", 3) is NONE
    assert coordinator.commit("m2", 3) is NONE
    assert coordinator.error(parked) is None
    assert coordinator.state == "Stable"

    coordinator.load(STORED, epoch=2)
    assert coordinator.error(parked) is not NONE
    joins = [coordinator.send_join(), coordinator.send_join("m2")]
    coordinator.advance(2 * TIMEOUT_MS)  # m1 is in the stored group, and does not come
    assert [coordinator.joined(number).generation for number in joins] == [101, 101]


def test_a_leader_that_joins_again_gets_the_generation_it_has(coordinator: Coordinator) -> None:
    """What it then assigns is not taken: the sync is answered with what is stored."""
    join = coordinator.joined(coordinator.send_join("m1", protocols=(("range", b"r"),)))
    sync = coordinator.synced(coordinator.send_sync("m1", join.generation, {"m1": b"other", "m2": b""}))

    assert (join.generation, join.leader, join.member_id) == (3, "m1", "m1")
    assert sync.assignment == b"m1"
    assert coordinator.join("m1", protocols=(("range", b"another subscription"),)) is None


def test_a_static_member_that_comes_back_is_stored_without_those_that_wait() -> None:
    """Past bug: new static members were stored without an assignment, so that they joined a stable group when
    the freeze was over, and nothing was ever assigned to them."""
    static = [replace(each, group_instance_id=each.member_id) for each in STORED.members]
    coordinator = Coordinator()
    coordinator.load(replace(STORED, members=tuple(static), is_frozen=True), epoch=1)
    waiting = coordinator.send_join(instance="m3")
    waiting_again = coordinator.send_join(instance="m3")
    back = coordinator.joined(coordinator.send_join(instance="m2"))

    assert coordinator.error(waiting) is ErrorCode.FENCED_INSTANCE_ID
    assert coordinator.error(waiting_again) is None
    assert back.generation == 3
    (written,) = coordinator.written
    assert isinstance(written, WriteGroup)
    assert [each.group_instance_id for each in written.record.members] == ["m1", "m2"]


def test_a_static_member_that_comes_back_is_stored_with_those_that_have_left() -> None:
    """Past bug: without them nobody expired when the freeze was over, and nobody got their partitions."""
    m1, m2 = STORED.members
    coordinator = Coordinator()
    coordinator.load(
        replace(STORED, members=(m1, replace(m2, group_instance_id="m2")), is_frozen=True), epoch=1
    )
    coordinator.leave("m1")
    back = coordinator.joined(coordinator.send_join(instance="m2"))
    (written,) = coordinator.written
    assert isinstance(written, WriteGroup)
    assert {each.member_id: each.assignment for each in written.record.members} == {
        back.member_id: b"m2",
        "m1": b"m1",
    }

    coordinator.load(written.record, epoch=2)
    for _ in range(3):
        coordinator.advance(TIMEOUT_MS // 2)
        beat = coordinator.beat(back.member_id, 3)
    assert beat is ErrorCode.REBALANCE_IN_PROGRESS


def test_who_left_a_generation_is_not_in_the_next_one() -> None:
    """A group that was empty when it was frozen rebalances until it is stable."""
    coordinator = Coordinator()
    coordinator.load(replace(STORED, members=(), is_frozen=True), epoch=1)
    joins = [coordinator.send_join(), coordinator.send_join()]
    coordinator.advance(SETTINGS.group_initial_rebalance_delay_ms)
    stays, leaves = (coordinator.joined(number) for number in joins)
    coordinator.leave(leaves.member_id)
    again = coordinator.joined(coordinator.send_join(stays.member_id))
    coordinator.send_sync(stays.member_id, again.generation, {stays.member_id: b"all"})

    *_, written = coordinator.written
    assert isinstance(written, WriteGroup)
    assert [each.member_id for each in written.record.members] == [stays.member_id]


def test_a_new_member_is_not_taken_for_one_of_the_generation(coordinator: Coordinator) -> None:
    """It waits for as long as Kafka lets a new member wait, also if its client asks again."""
    first = coordinator.send_join(protocols=RANGE)
    name = next(each.member_id for each in coordinator.describe().members if each.member_id[0] == "c")
    again = coordinator.send_join(name, protocols=RANGE)
    assert (coordinator.error(first), coordinator.error(again)) == (None, None)
    assert first in coordinator.dropped

    coordinator.advance(NEW_MEMBER_JOIN_TIMEOUT_MS + SETTINGS.group_initial_rebalance_delay_ms)
    assert coordinator.error(again) is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.state == "Stable"
