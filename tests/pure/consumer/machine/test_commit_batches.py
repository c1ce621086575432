"""Commits that wait are written together: how many there are costs no requests and ends no member."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.worlds.stepped_group import GROUP, Member, SteppedGroup, effects_of, multis, tp, writes_to
from zkgroup.consumer.machine.events import CommitRequested, FinishCommit, MemberState, SeekTo
from zkgroup.errors import OffsetConflictError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, SetData
from zkgroup.znodes.consumers import Offset, Owner
from zkgroup.znodes.group_records import Reset


@pytest.fixture
def stage() -> SteppedGroup:
    return SteppedGroup(topics={"t": 3}, verify_interval_ms=600_000)


@pytest.fixture
def member(stage: SteppedGroup) -> Member:
    actor = stage.join("a")
    stage.commit(actor, {tp(0): 10})
    actor.asked.clear()
    return actor


def ask(member: Member, value: int, seek: int = 0, partition: TopicPartition | None = None) -> int:
    """Orders a commit as the application does; the stage has not taken it yet."""
    partition = partition or tp(0)
    request = member.application.commit({partition: value})
    seeks = {partition: seek} if seek else {}
    event = CommitRequested(request.commit_id, request.positions, seeks, request.last_seek_id)
    member.post(event)
    return request.commit_id


def outcomes(member: Member, commits: Iterable[int]) -> list[FinishCommit]:
    by_id = {effect.commit_id: effect for effect in effects_of(member, FinishCommit)}
    return [by_id[commit] for commit in commits]


def values(member: Member, number: int = 0) -> list[bytes]:
    """What was written to the offset of a partition, transaction by transaction."""
    path = Offset.path(GROUP, tp(number))
    return [o.data for ops in multis(member.asked) for o in ops if isinstance(o, SetData) and o.path == path]


@pytest.mark.parametrize("spread", [0, 7919])
def test_ten_thousand_commits_that_wait_are_one_transaction(
    stage: SteppedGroup, member: Member, spread: int
) -> None:
    """As many as the API lets wait: of one offset, and of 10,000 in any order. All count as committed."""
    count = 10_000
    stage.server.suspend("client-a")
    stage.drain()
    commits = [ask(member, 11 + n * spread % count) for n in range(count)]
    stage.drain()
    stage.server.resume("client-a")
    stage.run(500)

    assert member.state is MemberState.STABLE
    told_of = outcomes(member, commits)
    assert [effect.committed for effect in told_of] == [
        {tp(0): 11 + n * spread % count} for n in range(count)
    ]
    highest = 11 + (count - 1 if spread else 0)
    assert all(effect.stored == {tp(0): highest} for effect in told_of)
    assert values(member) == [b"%d" % highest]


def test_what_waits_goes_into_the_next_transaction(stage: SteppedGroup, member: Member) -> None:
    """One is on its way, two hundred of different partitions wait: one more transaction for all of them."""
    stage = SteppedGroup(topics={"t": 200}, verify_interval_ms=600_000)
    member = stage.join("a")
    member.asked.clear()
    for number in range(200):
        ask(member, 1, partition=tp(number))
        member.run()
    stage.drain()

    written = [ops for ops in multis(member.asked) if any("/offsets/" in o.path for o in ops)]
    assert [sum(isinstance(o, SetData) for o in ops) for ops in written] == [1, 199]


def test_lower_than_ones_own_commit_counts_as_committed(stage: SteppedGroup, member: Member) -> None:
    """Tasks that each commit their own record end in any order: nothing is written backwards."""
    commits = []
    for value in (14, 12, 13):
        commits.append(ask(member, value))
        stage.drain()

    assert [effect.committed for effect in outcomes(member, commits)] == [{tp(0): n} for n in (14, 12, 13)]
    assert [effect.stored for effect in outcomes(member, commits)] == [{tp(0): 14}] * 3
    assert values(member) == [b"14"]


def test_a_commit_below_a_foreign_offset_is_refused(stage: SteppedGroup, member: Member) -> None:
    """The claim found 10, which another claim had written; 9 is not part of it."""
    stage.foreign_write(Delete(Owner.path(GROUP, tp(0)), -1))
    stage.commit(member, {tp(0): 11})
    stage.run(500)
    commit = ask(member, 9)
    stage.drain()

    (effect,) = outcomes(member, [commit])
    assert isinstance(effect.refused[tp(0)], OffsetConflictError)
    assert stage.offset(0).data == b"10"


def test_a_seek_is_written_and_what_follows_it_goes_forward_again(
    stage: SteppedGroup, member: Member
) -> None:
    """The first position after the seek goes back, whatever order the tasks end in after it."""
    seen = []
    for value, seek in ((20, 0), (6, 1), (4, 1), (5, 1), (8, 1), (3, 2)):
        commit = ask(member, value, seek)
        stage.drain()
        (effect,) = outcomes(member, [commit])
        seen.append((effect.committed, effect.stored))

    stands = (20, 6, 6, 6, 8, 3)
    asked = (20, 6, 4, 5, 8, 3)
    assert seen == [({tp(0): a}, {tp(0): s}) for a, s in zip(asked, stands, strict=True)]
    assert values(member) == [b"20", b"6", b"8", b"3"]


def test_a_seek_among_those_that_wait_decides_where_they_lead(stage: SteppedGroup, member: Member) -> None:
    """Asked for before it: committed with it, and not written. After it: forward from there."""
    stage.server.suspend("client-a")
    stage.drain()
    commits = [ask(member, value, seek) for value, seek in ((30, 0), (4, 1), (6, 1), (5, 1))]
    stage.drain()
    stage.server.resume("client-a")
    stage.run(500)

    assert [effect.refused for effect in outcomes(member, commits)] == [{}] * 4
    assert values(member) == [b"6"]


def test_a_position_already_committed_is_followed_by_a_later_seek(
    stage: SteppedGroup, member: Member
) -> None:
    """Offset 10 is in ZooKeeper when the two are sent together, but no longer when the result arrives."""
    stage.server.suspend("client-a")
    stage.drain()
    commits = [ask(member, 10), ask(member, 4, 1)]
    stage.drain()
    stage.server.resume("client-a")
    stage.run(500)

    assert [effect.committed for effect in outcomes(member, commits)] == [{tp(0): 10}, {tp(0): 4}]
    assert [effect.stored for effect in outcomes(member, commits)] == [{tp(0): 4}] * 2
    assert values(member) == [b"4"]


def test_a_position_of_before_a_seek_does_not_undo_it(stage: SteppedGroup, member: Member) -> None:
    """Taken by one task before another one sought, asked for after that: in a later write, and in one."""
    commits = [ask(member, 4, 1)]
    stage.drain()
    commits.append(ask(member, 30))
    stage.drain()
    commits += [ask(member, 6, 2), ask(member, 40, 1)]
    stage.drain()
    stage.server.suspend("client-a")
    stage.drain()
    commits += [ask(member, 2, 3), ask(member, 50, 2), ask(member, 3, 3)]
    stage.drain()
    stage.server.resume("client-a")
    stage.run(500)

    assert [effect.stored for effect in outcomes(member, commits)] == [
        {tp(0): n} for n in (4, 4, 6, 6, 3, 3, 3)
    ]
    assert values(member) == [b"4", b"6", b"3"]


def test_after_a_move_positions_count_without_a_seek(stage: SteppedGroup, member: Member) -> None:
    """The seek was before it: positions after an offset of another client are committed."""
    commits = [ask(member, 4, 1)]
    stage.drain()
    marker = Create(Reset.path(GROUP, tp(0)), Reset(3, stage.clock.wall_ms(), "operator").encode())
    stage.foreign_write(SetData(Offset.path(GROUP, tp(0)), b"3", -1), marker)
    stage.run(500)
    commits.append(ask(member, 5))
    stage.drain()

    assert [effect.stored for effect in outcomes(member, commits)] == [{tp(0): 4}, {tp(0): 5}]
    assert stage.offset(0).data == b"5"


def test_a_seek_to_where_the_offset_stands_is_not_written(stage: SteppedGroup, member: Member) -> None:
    """Later positions of that seek go forward only."""
    commits = [ask(member, 10, 1), ask(member, 9, 1)]
    stage.drain()

    assert [effect.stored for effect in outcomes(member, commits)] == [{tp(0): 10}] * 2
    assert values(member) == []


def test_a_seek_without_an_answer_is_read_back(stage: SteppedGroup, member: Member) -> None:
    """Only the answer was lost; what follows counts from the position that was sought (recipes 10)."""
    stage.when("client-a", writes_to("/offsets/", SetData), fault="lost_reply")
    commits = [ask(member, 3, 1)]
    stage.drain()
    stage.run(1000)
    commits.append(ask(member, 2, 1))
    stage.drain()

    assert [effect.stored for effect in outcomes(member, commits)] == [{tp(0): 3}] * 2
    assert values(member) == [b"3"]


def test_a_reset_voids_the_committed_position_without_a_callback(stage: SteppedGroup, member: Member) -> None:
    """Recipes 6: 10 is in ZooKeeper, but the batch is answered after the reset was applied."""
    member.client.child_watches.clear()  # the commit finds it first
    marker = Create(Reset.path(GROUP, tp(0)), Reset(3, stage.clock.wall_ms(), "operator").encode())
    stage.foreign_write(SetData(Offset.path(GROUP, tp(0)), b"3", -1), marker)
    stage.server.suspend("client-a")
    stage.drain()
    commits = [ask(member, 10), ask(member, 12)]
    stage.drain()
    member.client.child_watches.clear()
    stage.server.resume("client-a")
    stage.run(500)

    assert [type(e.refused[tp(0)]) for e in outcomes(member, commits)] == [OffsetConflictError] * 2
    assert [move.offset for move in effects_of(member, SeekTo)] == [3]
    assert stage.offset(0).data == b"3"
