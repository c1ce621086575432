"""Moves between the threads of one member whose answers get lost (recipes 5 and 7)."""

from __future__ import annotations

from collections.abc import Callable

from tests.worlds.stepped_group import (
    GROUP,
    Member,
    SteppedGroup,
    claims,
    is_stable,
    multis,
    reads,
    tp,
    writes_to,
)
from zkgroup.consumer.machine import events as ev
from zkgroup.model.requests import Check, Create, Delete, Operation
from zkgroup.testing.memory_zookeeper import Fault
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import Offset, Owner

MOVED = tp(2)
"""Of the second thread's while there are three partitions, of the first one's when there are five."""
OWNER = Owner.path(GROUP, MOVED)


def moving_stage(
    fault: Fault,
    at_the_move: Callable[[SteppedGroup, Member], None] = lambda stage, member: None,
    before_the_read_back: Callable[[SteppedGroup], None] = lambda stage: None,
) -> tuple[SteppedGroup, Member]:
    """A member of two threads, three partitions that become five, and a fault for the move's transaction.

    `at_the_move` happens just before that, `before_the_read_back` before the offset of the partition is read.
    """
    stage = SteppedGroup(topics={"t": 3})
    member = stage.join("a", {"t": 2})
    assert member.machine.grants()[MOVED].thread == 1
    stage.commit(member, {MOVED: 7})
    member.asked.clear()

    def read_back() -> None:
        before_the_read_back(stage)
        stage.server.catch_up("client-a")

    def lose() -> Fault:
        at_the_move(stage, member)
        stage.when("client-a", reads("/offsets/t/2"), read_back)
        return fault

    stage.when("client-a", writes_to(OWNER, Delete), lose)
    stage.topic("t", 5)
    stage.run(3000)
    return stage, member


def given_up(stage: SteppedGroup, member: Member) -> None:
    """The application does not want the partition any more; the plan does not name it until the next one."""
    member.post(ev.HandBackRequested(frozenset({MOVED})))


def ends(member: Member) -> list[tuple[Operation, ...]]:
    """The transactions that end the claim."""
    return [
        ops for ops in multis(member.asked) if any(isinstance(o, Delete) and o.path == OWNER for o in ops)
    ]


def test_move_that_was_applied_without_an_answer_is_taken_over() -> None:
    """It is found under another token, of the thread that it was for: neither sent nor claimed again."""
    stage, member = moving_stage("lost_reply")
    held, owner = member.machine.grants()[MOVED], stage.owner(2)

    assert is_stable(member)
    assert owner is not None
    assert (held.thread, held.token, held.offset) == (0, owner.stat.czxid, 7)
    assert len(ends(member)) == 1
    assert [ops for ops in claims(member) if Create(OWNER, b"g_a-0", ephemeral=True) in ops] == ends(member)
    stage.commit(member, {MOVED: 8})
    assert stage.offset(2).data == b"8"


def test_move_that_was_not_applied_is_sent_again() -> None:
    """The claim is unchanged."""
    stage, member = moving_stage("lost_request")

    assert is_stable(member)
    assert stage.owners()[2] == "a-0"
    assert len(ends(member)) == 2


def test_move_that_is_planned_no_more_is_sent_again_as_a_release() -> None:
    """It rests on nothing then: neither on the topic, which has changed meanwhile, nor on a plan."""

    def meanwhile(stage: SteppedGroup, member: Member) -> None:
        given_up(stage, member)
        stage.server.put(Topic.path("t"), Topic(dict.fromkeys(range(5), (0, 1))).encode())

    _, member = moving_stage("lost_request", meanwhile)
    assert len(ends(member)) == 2
    release = ends(member)[1]

    assert [o for o in release if isinstance(o, Create)] == []
    assert [o for o in release if isinstance(o, Check) and o.path == Topic.path("t")] == []


def test_move_that_was_applied_and_is_planned_no_more_is_released() -> None:
    """Nothing of it is left: the owner znode goes, and the offset is as it was committed."""
    stage, member = moving_stage("lost_reply", given_up)

    assert 2 not in stage.owners()
    assert MOVED not in member.machine.grants()
    assert stage.offset(2).data == b"7"


def test_move_that_cannot_be_taken_over_is_released_where_it_stands() -> None:
    """Its offset znode was deleted meanwhile, so no version fences it, and it is no longer assigned."""
    stage, member = moving_stage(
        "lost_reply", given_up, lambda stage: stage.foreign_write(Delete(Offset.path(GROUP, MOVED), -1))
    )

    assert 2 not in stage.owners()
    assert MOVED not in member.machine.grants()


def test_partition_that_is_handed_back_and_comes_to_another_thread_has_been_handed_back() -> None:
    """A later assignment gives it to this member again, in the transaction that releases it.

    A caller that waits for the end of the former claim does not wait for the new one.
    """
    stage = SteppedGroup(topics={"t": 3})
    member = stage.join("a", {"t": 2})
    token = member.machine.grants()[MOVED].token
    stage.hangs.add("a")
    future = member.engine.hand_back([MOVED])
    stage.drain()
    stage.topic("t", 5)
    stage.run(1000)
    before = (future.done(), member.machine.grants()[MOVED].token)
    stage.hangs.clear()
    stage.run(1000)

    assert before == (False, token)
    assert member.machine.grants()[MOVED].token > token
    assert len(ends(member)) == 1
    assert future.done()


def test_move_that_was_planned_from_an_older_snapshot_is_a_plain_release() -> None:
    """Past bug: it was sent with the topics' new versions and without the plan's, so nothing fenced it.

    What goes to a joiner comes back before it is given up. Then the topic grows, and the connection is lost
    while the plan for that is read, so the release comes first.
    """
    stage = SteppedGroup(
        topics={"t": 2},
        partition_assignment_strategy="sticky",
        revoke_timeout_ms=60_000,
        require_brokers=False,
    )
    member = stage.join("a")
    stage.hangs.add("a")
    stage.join("b").post(ev.CloseRequested(True, stage.clock.now_ms() + 5000))
    stage.run(1000)
    member.asked.clear()

    def lose_the_plan() -> None:
        stage.server.cut("client-a")
        stage.hangs.clear()

    stage.when("client-a", reads("/plan"), lose_the_plan)
    stage.topic("t", 4)
    stage.run(3000)
    released = [ops for ops in multis(member.asked) if any(isinstance(o, Delete) for o in ops)]

    assert [o for ops in released for o in ops if isinstance(o, Create)] == []
    assert len(released) == 1
    assert is_stable(member)
    assert stage.owners() == dict.fromkeys(range(4), "a-0")
