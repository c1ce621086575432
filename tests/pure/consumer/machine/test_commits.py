"""Commits: fenced, reported by partition, and their handling of an offset that another client wrote."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.worlds.stepped_group import GROUP, Member, SteppedGroup, effects_of, multis, reads, tp, writes_to
from zkgroup.consumer.machine import events as ev
from zkgroup.consumer.machine.events import FinishCommit, Lose, MemberState, SeekTo
from zkgroup.errors import CommitUnknownError, LeaseLostError, NotOwnerError, OffsetConflictError
from zkgroup.model.requests import Check, Create, Delete, Operation, SetData
from zkgroup.znodes.consumers import Offset, Owner, Registration
from zkgroup.znodes.group_records import Reset


def commits(actor: Member) -> list[tuple[Operation, ...]]:
    """The transactions that set offsets and change no owner."""
    return [
        ops
        for ops in multis(actor.asked)
        if any(isinstance(o, SetData) and "/offsets/" in o.path for o in ops)
        and not any(isinstance(o, (Create, Delete)) for o in ops)
    ]


def last(actor: Member) -> FinishCommit:
    return effects_of(actor, FinishCommit)[-1]


def reset(stage: SteppedGroup, number: int, value: int) -> None:
    """What `offsets reset --force` writes (recipes 6)."""
    marker = Reset.path(GROUP, tp(number))
    gone = [Delete(marker, -1)] if stage.server.find(marker) else []
    made = Create(marker, Reset(value, stage.clock.wall_ms(), "operator").encode())
    stage.foreign_write(SetData(Offset.path(GROUP, tp(number)), str(value).encode(), -1), *gone, made)


@pytest.fixture
def stage() -> SteppedGroup:
    return SteppedGroup(topics={"t": 3}, verify_interval_ms=600_000)


@pytest.fixture
def member(stage: SteppedGroup) -> Member:
    actor = stage.join("a")
    stage.commit(actor, {tp(n): 10 for n in range(3)})
    actor.asked.clear()
    return actor


def test_batch_is_one_transaction_with_all_its_checks(stage: SteppedGroup, member: Member) -> None:
    """The registration, and for each partition the owner and the offset under its fence (recipes 6)."""
    stage.commit(member, {tp(0): 11, tp(1): 12})

    assert commits(member) == [
        (
            Check(Registration.path(GROUP, "g_a"), 0),
            Check(Owner.path(GROUP, tp(0)), 1),
            SetData(Offset.path(GROUP, tp(0)), b"11", 1),
            Check(Owner.path(GROUP, tp(1)), 1),
            SetData(Offset.path(GROUP, tp(1)), b"12", 1),
        )
    ]
    assert last(member).committed == {tp(0): 11, tp(1): 12}


def test_unchanged_values_are_not_written(stage: SteppedGroup, member: Member) -> None:
    """They count as committed; nothing is sent."""
    stage.commit(member, {tp(0): 10})

    assert last(member).committed == {tp(0): 10}
    assert commits(member) == []


def test_offset_does_not_go_back_without_a_seek(stage: SteppedGroup, member: Member) -> None:
    """It is committed up to there already; with a seek it is written."""
    stage.commit(member, {tp(0): 7})
    assert (last(member).committed, last(member).stored) == ({tp(0): 7}, {tp(0): 10})
    assert commits(member) == []

    stage.commit(member, {tp(0): 7}, seeks={tp(0): 1})
    assert stage.offset(0).data == b"7"


def test_partition_that_is_not_owned_is_refused_and_the_others_are_not(
    stage: SteppedGroup, member: Member
) -> None:
    """What could be committed is, whatever happens to the others."""
    stage.commit(member, {tp(0): 11, tp(9): 1})

    assert last(member).committed == {tp(0): 11}
    assert isinstance(last(member).refused[tp(9)], NotOwnerError)


def test_commit_fails_without_effect_where_the_owner_is_gone(stage: SteppedGroup, member: Member) -> None:
    """The rest of the batch is sent once more; the partition is lost, and claimed again."""
    stage.foreign_write(Delete(Owner.path(GROUP, tp(0)), -1))
    stage.commit(member, {tp(0): 11, tp(1): 12})

    assert last(member).committed == {tp(1): 12}
    assert isinstance(last(member).refused[tp(0)], NotOwnerError)
    assert effects_of(member, Lose)[0].partitions == (tp(0),)
    stage.run(500)
    assert member.machine.grants()[tp(0)].offset == 10


def test_commit_fails_without_effect_where_a_jvm_member_owns(stage: SteppedGroup, member: Member) -> None:
    """A JVM claim has data version 0, so the check of version 1 never passes."""
    stage.client("jvm")
    stage.drain()
    session = stage.client("jvm").session
    assert session is not None
    path = Owner.path(GROUP, tp(0))
    stage.foreign_write(Delete(path, -1))
    stage.server.write(Create(path, b"g_j-0", ephemeral=True), session_id=session.session_id)
    stage.commit(member, {tp(0): 11})

    assert isinstance(last(member).refused[tp(0)], NotOwnerError)
    assert stage.offset(0).data == b"10"


def test_equal_text_claimed_by_another_session_is_not_mine(stage: SteppedGroup, member: Member) -> None:
    """An owner znode that was created again is not the member's claim (recipes 1)."""
    path = Owner.path(GROUP, tp(0))
    stage.foreign_write(Delete(path, -1))
    stage.client("other")
    stage.drain()
    session = stage.client("other").session
    assert session is not None
    stage.server.write(
        Create(path, b"g_a-0", ephemeral=True), SetData(path, b"g_a-0", 0), session_id=session.session_id
    )
    stage.foreign_write(SetData(Offset.path(GROUP, tp(0)), b"10", -1))
    stage.commit(member, {tp(0): 11})

    assert isinstance(last(member).refused[tp(0)], NotOwnerError)
    assert stage.offset(0).data == b"10"


@pytest.mark.parametrize(("policy", "written", "moves"), [("adopt", b"20", [20]), ("reassert", b"11", [])])
def test_foreign_write_is_treated_by_policy_and_counted(
    policy: str, written: bytes, moves: list[int]
) -> None:
    """Without effect first, then adopted (a possible skip) or written over (recipes 6)."""
    stage = SteppedGroup(topics={"t": 1}, on_foreign_commit=policy)
    member = stage.join("a")
    stage.commit(member, {tp(0): 10})
    stage.foreign_write(SetData(Offset.path(GROUP, tp(0)), b"20", -1))
    stage.commit(member, {tp(0): 11})

    assert stage.offset(0).data == written
    assert [move.offset for move in effects_of(member, SeekTo)] == moves
    assert [note.fields["policy"] for note in stage.notes("foreign_write")] == [policy]
    assert (tp(0) in last(member).committed) is (policy == "reassert")


@pytest.mark.parametrize(("jvm", "policy"), [(True, "reassert"), (False, "adopt")])
def test_default_policy_depends_on_the_registered_members(jvm: bool, policy: str) -> None:
    """Recipes 6: `reassert` while a member without zkgroup's key is registered, `adopt` in zkgroup groups."""
    stage = SteppedGroup(topics={"t": 1})
    member = stage.join("a")
    if jvm:
        text = b'{"version":1,"subscription":{"u":1},"pattern":"static","timestamp":"1"}'
        stage.foreign_write(Create(Registration.path(GROUP, "g_j"), text))
        stage.run(500)
    stage.foreign_write(SetData(Offset.path(GROUP, tp(0)), b"20", -1))
    stage.commit(member, {tp(0): 11})

    assert [note.fields["policy"] for note in stage.notes("foreign_write")] == [policy]


def test_lost_reply_of_a_commit_is_read_back_as_applied(stage: SteppedGroup, member: Member) -> None:
    """Version fence + 1 with my value is my own write; nothing is written twice (recipes 10)."""
    stage.when("client-a", writes_to("/offsets/", SetData), fault="lost_reply")
    stage.commit(member, {tp(0): 11})
    stage.run(1000)

    assert last(member).committed == {tp(0): 11}
    assert stage.offset(0).stat.version == 2


def test_lost_request_of_a_commit_is_sent_again(stage: SteppedGroup, member: Member) -> None:
    """Read back after an acknowledged write; the fence is unchanged, so it was not applied (recipes 10)."""
    stage.when("client-a", writes_to("/offsets/", SetData), fault="lost_request")
    stage.commit(member, {tp(0): 11})
    stage.run(1000)

    assert last(member).committed == {tp(0): 11}
    assert len(commits(member)) == 2


def test_read_back_of_an_unknown_outcome_follows_an_acknowledged_write(
    stage: SteppedGroup, member: Member
) -> None:
    """Before that, an old request may still be in flight and a read proves nothing (recipes 10)."""
    stage.when("client-a", writes_to("/offsets/", SetData), fault="late")
    stage.commit(member, {tp(0): 11})
    stage.run(1000)
    after = member.asked[next(i for i, r in enumerate(member.asked) if writes_to("/offsets/")(r)) + 1 :]

    probe = next(i for i, r in enumerate(after) if writes_to("/ids/g_a", Check)(r))
    read = next(i for i, r in enumerate(after) if reads("/offsets/")(r))
    assert probe < read
    assert last(member).committed == {tp(0): 11}
    assert stage.offset(0).stat.version == 2


def test_refused_commit_reads_offsets_before_owners(stage: SteppedGroup, member: Member) -> None:
    """In the other order a successor's fence could be taken for the member's (recipes 6)."""
    stage.foreign_write(SetData(Offset.path(GROUP, tp(0)), b"20", -1))
    stage.commit(member, {tp(0): 11})
    read = [str(r) for r in member.asked if "ReadMany" in str(r)]

    assert "/offsets/" in read[0]
    assert "/owners/" in read[1]
    assert "/resets/" in read[1]


def test_idle_owner_applies_a_reset(stage: SteppedGroup, member: Member) -> None:
    """By the child watch on `resets`; the marker's offset, the version just read as fence (recipes 6)."""
    reset(stage, 1, 3)
    stage.run(200)

    assert [(m.topic_partition, m.offset, m.reason) for m in effects_of(member, SeekTo)] == [
        (tp(1), 3, "reset")
    ]
    stage.commit(member, {tp(1): 4})
    assert stage.offset(1).data == b"4"


def test_second_reset_with_the_same_value_is_applied_again(stage: SteppedGroup, member: Member) -> None:
    """The marker is deleted and created, so the watch fires and its mzxid is new (recipes 6)."""
    reset(stage, 1, 3)
    stage.run(200)
    stage.commit(member, {tp(1): 8})
    reset(stage, 1, 3)
    stage.run(200)

    assert [m.offset for m in effects_of(member, SeekTo)] == [3, 3]


def test_reset_comes_before_any_other_reading_of_a_refusal(stage: SteppedGroup, member: Member) -> None:
    """Also if a foreign writer wrote the offset later; a comparison of offsets misses it (recipes 6)."""
    actor_watches = member.client.child_watches
    actor_watches.clear()  # the commit finds it first
    reset(stage, 0, 2)
    stage.foreign_write(SetData(Offset.path(GROUP, tp(0)), b"99", -1))
    stage.commit(member, {tp(0): 11})

    assert isinstance(last(member).refused[tp(0)], OffsetConflictError)
    assert [m.offset for m in effects_of(member, SeekTo)] == [2]
    assert stage.offset(0).data == b"2"


def before_each_commit(stage: SteppedGroup, *acts: Callable[[], object]) -> None:
    """One of these just before each transaction of the member that sets offsets, in this order."""

    def act() -> None:
        acts[0]()
        if acts[1:]:
            before_each_commit(stage, *acts[1:])

    stage.when("client-a", writes_to("/offsets/", SetData), act)


@pytest.mark.parametrize("policy", ["adopt", "reassert"])
def test_partitions_without_foreign_writes_are_committed_whatever_happens_to_others(policy: str) -> None:
    """A tool resets one partition after the other, each just before the batch is sent again (recipes 6)."""
    stage = SteppedGroup(topics={"t": 4}, verify_interval_ms=600_000, on_foreign_commit=policy)
    member = stage.join("a")
    member.asked.clear()
    before_each_commit(stage, lambda: reset(stage, 0, 2), lambda: reset(stage, 1, 2))
    stage.commit(member, {tp(n): 11 for n in range(4)})

    assert last(member).committed == {tp(2): 11, tp(3): 11}
    assert {type(error) for error in last(member).refused.values()} == {OffsetConflictError}
    assert [stage.offset(n).data for n in range(4)] == [b"2", b"2", b"11", b"11"]
    sizes = [sum(isinstance(o, SetData) for o in ops) for ops in commits(member)]
    assert sizes == [4, 3, 1, 1]


def test_partition_with_constant_foreign_writes_delays_no_other() -> None:
    """It is refused, the other one is committed; what the member knows is written in the end (recipes 6)."""
    stage = SteppedGroup(topics={"t": 2}, verify_interval_ms=600_000, on_foreign_commit="reassert")
    member = stage.join("a")
    stage.commit(member, {tp(0): 10, tp(1): 10})
    write = SetData(Offset.path(GROUP, tp(0)), b"99", -1)
    before_each_commit(stage, *[lambda: stage.foreign_write(write)] * 2)
    stage.commit(member, {tp(0): 11, tp(1): 12})

    effect = last(member)
    assert (effect.committed, isinstance(effect.refused[tp(0)], OffsetConflictError)) == ({tp(1): 12}, True)
    assert [stage.offset(n).data for n in range(2)] == [b"10", b"12"]


def test_applied_reset_is_written_although_others_write_over_it_each_time() -> None:
    """All sends of one batch conflict; the next batch is sent without a new commit (recipes 6)."""
    stage = SteppedGroup(topics={"t": 2}, verify_interval_ms=600_000, on_foreign_commit="reassert")
    member = stage.join("a")
    member.client.child_watches.clear()  # the commit finds it first
    write = SetData(Offset.path(GROUP, tp(0)), b"99", -1)
    reset(stage, 0, 2)
    before_each_commit(stage, *[lambda: stage.foreign_write(write)] * 4)
    stage.commit(member, {tp(0): 11})
    stage.run(500)

    assert stage.offset(0).data == b"2"


def test_position_from_before_a_reset_is_void(stage: SteppedGroup, member: Member) -> None:
    """A commit that the application asked for before it heard of the reset is refused (recipes 6)."""
    stage.commit(member, {tp(1): 12})
    before = ev.CommitRequested(99, {tp(1): 15}, last_seek_id=member.application.last_seek_id)
    reset(stage, 1, 3)
    stage.run(200)
    member.post(before)
    stage.drain()

    assert isinstance(last(member).refused[tp(1)], OffsetConflictError)
    assert stage.offset(1).data == b"3"


def test_applied_reset_is_written_after_the_end_of_a_lease(stage: SteppedGroup, member: Member) -> None:
    """Another client overwrites it, and the lease ends before the member writes it again (recipes 6)."""
    member.client.child_watches.clear()  # the commit finds it first
    reset(stage, 0, 2)
    stage.foreign_write(SetData(Offset.path(GROUP, tp(0)), b"99", -1))
    stage.when("client-a", writes_to("/offsets/", SetData))
    stage.when("client-a", reads("/owners/"), lambda: stage.when("client-a", writes_to("/offsets/"), cut))

    def cut() -> None:
        member.client.child_watches.clear()
        stage.server.suspend("client-a")

    stage.commit(member, {tp(0): 11, tp(1): 12})
    before = stage.offset(0).data
    stage.run(4900)
    state = member.state
    stage.server.resume("client-a")
    stage.run(1000)

    assert (before, state) == (b"99", MemberState.SUSPENDED)
    assert stage.offset(0).data == b"2"
    assert member.machine.grants().keys() == {tp(0), tp(1), tp(2)}


def test_old_marker_means_nothing_to_a_later_claim(stage: SteppedGroup, member: Member) -> None:
    """A claim is newer than the marker; only markers after my last write are orders (recipes 6)."""
    reset(stage, 0, 3)
    stage.run(200)
    second = stage.join("0")
    reset_before = len(effects_of(second, SeekTo))
    stage.commit(second, {tp(0): 9})

    assert reset_before == 0
    assert stage.offset(0).data == b"9"


def test_broken_fence_gives_the_claim_up_and_makes_it_anew(stage: SteppedGroup, member: Member) -> None:
    """Another life of the offset znode; versions of the old one mean nothing any more (recipes 6)."""
    path = Offset.path(GROUP, tp(0))
    token = member.machine.grants()[tp(0)].token
    stage.foreign_write(Delete(path, -1), Create(path, b"10"))
    stage.commit(member, {tp(0): 11})
    stage.run(500)

    assert isinstance(last(member).refused[tp(0)], NotOwnerError)
    assert len(stage.notes("fence_broken")) == 1
    assert member.machine.grants()[tp(0)].token > token


def test_commit_without_a_lease_is_refused_at_once(stage: SteppedGroup, member: Member) -> None:
    """No commit outside the lease (recipes 9)."""
    stage.server.suspend("client-a")
    stage.run(5000)
    stage.commit(member, {tp(0): 11})

    assert isinstance(last(member).refused[tp(0)], LeaseLostError)


def test_commit_while_suspended_waits_for_the_lease_to_end(stage: SteppedGroup, member: Member) -> None:
    """Nothing is sent while suspended; at the lease's end unsent commits are reported (recipes 10)."""
    stage.server.suspend("client-a")
    stage.drain()
    sent = len(member.asked)
    stage.commit(member, {tp(0): 11})
    assert effects_of(member, FinishCommit)[-1].commit_id != member.application.last_commit_id
    assert len(member.asked) == sent

    stage.run(5000)
    assert isinstance(last(member).refused[tp(0)], LeaseLostError)


def test_commit_while_suspended_is_written_after_a_short_break(stage: SteppedGroup, member: Member) -> None:
    """A break shorter than the lease costs nothing but time."""
    stage.server.suspend("client-a")
    stage.drain()
    stage.commit(member, {tp(0): 11})
    stage.server.resume("client-a")
    stage.run(500)

    assert last(member).committed == {tp(0): 11}


def test_commit_without_an_answer_at_the_end_of_the_session_is_unknown(
    stage: SteppedGroup, member: Member
) -> None:
    """The commit is reported neither as committed nor as refused."""
    stage.when("client-a", writes_to("/offsets/", SetData), lambda: stage.server.suspend("client-a"))
    stage.commit(member, {tp(0): 11})
    stage.run(20_000)

    assert isinstance(last(member).refused[tp(0)], CommitUnknownError)


def test_stale_commit_of_an_earlier_claim_is_void(stage: SteppedGroup, member: Member) -> None:
    """A partition can be lost and claimed again while a commit is on its way to the machine (recipes 6)."""
    old = ev.CommitRequested(98, {tp(0): 50}, last_seek_id=member.application.last_seek_id)
    stage.foreign_write(Delete(Owner.path(GROUP, tp(0)), -1))
    stage.commit(member, {tp(0): 11})
    stage.run(500)
    assert tp(0) in member.machine.grants()
    member.post(old)
    stage.drain()

    assert last(member).committed == {}
    assert stage.offset(0).data == b"10"


def test_commit_that_waits_while_its_claim_is_lost_is_void(stage: SteppedGroup, member: Member) -> None:
    """The partition is claimed anew between two commits that were asked for at once (recipes 6)."""
    token = member.machine.grants()[tp(0)].token
    stage.foreign_write(Delete(Owner.path(GROUP, tp(0)), -1))
    for value in (11, 12):
        request = member.application.commit({tp(0): value})
        member.post(request)
    stage.run(500)

    assert member.machine.grants()[tp(0)].token > token
    assert [commit.committed for commit in effects_of(member, FinishCommit)[-2:]] == [{}, {}]
    assert stage.offset(0).data == b"10"


def test_thousand_partitions_are_one_packet() -> None:
    """Speed (issue, 4): a fenced commit of 1,000 partitions is one transaction."""
    stage = SteppedGroup(topics={"t": 1000})
    member = stage.join("a")
    member.asked.clear()
    stage.commit(member, {tp(n): n + 1 for n in range(1000)})

    assert len(commits(member)) == 1
    assert len(last(member).committed) == 1000
