"""S5 and S6: what looks like an untruth about commits and is none, and what they do not allow to decide."""

from __future__ import annotations

import pytest

from tests.worlds.group_history import TOPIC, GroupHistory, broken, good_history, tp
from zkgroup.history import CheckOptions, Record, check_history
from zkgroup.history.group.commit_invariants import OffsetSet

EITHER = pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])


def forget(world: GroupHistory, kind: str) -> Record:
    """Takes away the last record, as of a process that was killed before it had written it."""
    assert world.records[-1].kind == kind
    return world.records.pop()


def not_written(world: GroupHistory, told: str, *, behind: int = 0) -> None:
    """A commit of b that is not in the server's log, by what b was told; it may know an older fence."""
    row = {"topic": TOPIC, "partition": 2}
    fence = world.versions[tp(2)] - behind
    invoked = {**row, "offset": 3, "fence": fence, "token": world.tokens[tp(2)]}
    world.note("b", "commit.invoke", id=1, offsets=[invoked])
    world.note("b", f"commit.{told}", id=1, partitions=[row], reason="x")


# --- S6 -------------------------------------------------------------------------------------------


def test_a_commit_without_an_answer_may_be_written() -> None:
    """`info` may be either: here the reply was lost."""
    world = good_history()
    world.deliver("b", 2, 2)
    world.commit("b", 2, 3, told="info")
    world.work("b", 2, 3)

    assert world.check().violations == ()


@pytest.mark.parametrize("told", ["info", "fail"], ids=["no answer", "refused"])
def test_a_commit_that_was_not_written_may_be_sent_again(told: str) -> None:
    """`info` may be either, here the request was lost; of a refused one only the second is in the log."""
    world = good_history()
    world.deliver("b", 2, 2)
    not_written(world, told)
    world.commit("b", 2, 3)

    assert world.check().violations == ()


def test_a_stranger_may_write_the_very_value_that_was_refused() -> None:
    """A test's own hand writes in no session, and so does who has not registered yet."""
    world = good_history()
    world.sessions["b"] = 0
    world.note("b", "state", before="a", after="b", reason="x")
    world.sessions["b"] = 2
    world.deliver("b", 2, 2)
    world.write(0, world._offset(2, 3))
    not_written(world, "fail", behind=1)

    assert world.check().violations == ()


@pytest.mark.parametrize("written", [True, False])
def test_a_member_killed_in_the_middle_of_a_commit_has_told_nothing(written: bool) -> None:
    """Whether the server had it or not."""
    world = good_history()
    world.work("b", 2, 2)
    forget(world, "commit.ok")
    if not written:
        world.transactions.pop()
        world.versions[tp(2)] -= 1
        world.values[tp(2)] = 2
    world.end_session("b", 0, 1, 2, 3, told=False)
    world.register("c", 3)
    world.claim("c", 2)
    world.deliver("c", 2, world.values[tp(2)])

    assert world.check().violations == ()


def test_a_recording_that_ended_accuses_nobody() -> None:
    """The disk is full: what the member wrote afterwards is in the log alone."""
    world = good_history()
    recorded = list(world.records)
    world.work("b", 2, 2)

    report = check_history(recorded, world.transactions)

    assert report.violations == ()
    assert report.decided >= {"S5", "S6"}


def test_without_the_servers_log_nothing_is_said_of_what_was_told() -> None:
    """A member's word alone cannot be compared with anything."""
    world = good_history()
    world.deliver("b", 2, 2)
    world.commit("b", 2, 3, told="fail")

    assert "S6" not in world.check(server=False).decided
    assert world.check(server=False).violations == ()
    assert broken(world.check()) == {"S6"}


def test_a_commit_that_is_told_and_missing_names_its_zxid() -> None:
    """Partition, value and zxid lead to the place in the log."""
    world = good_history()
    world.work("b", 2, 2)
    lost = world.transactions.pop()

    (violation,) = [each for each in world.check().violations if each.invariant == "S6"]

    assert (violation.topic_partition, violation.zxid) == (tp(2), lost.zxid)
    assert "3 reported as committed" in violation.detail


# --- S5 -------------------------------------------------------------------------------------------


@EITHER
def test_the_reset_policy_chooses_where_a_group_starts(server: bool) -> None:
    """Nothing is committed yet: the start is, before the first record."""
    world = GroupHistory()
    world.register("a", 1)
    world.claim("a", 0)
    world.commit("a", 0, 70)
    world.work("a", 0, 70)

    report = world.check(server=server)

    assert report.violations == ()
    assert "S5" in report.decided


@EITHER
@pytest.mark.parametrize("told", [True, False])
def test_a_start_of_the_reset_policys_may_be_committed_after_a_seek(told: bool, server: bool) -> None:
    """Past bug: where the application sought at once, the start on its way was taken for progress."""
    world = GroupHistory()
    world.register("a", 1)
    world.claim("a", 0)
    place = {"topic": TOPIC, "partition": 0, "token": world.tokens[tp(0)]}
    if told:
        world.note("a", "start", offset=70, **place)
    world.note("a", "seek", offset=69, **place)
    world.commit("a", 0, 70)
    world.work("a", 0, 70)

    assert broken(world.check(server=server)) == (set() if told else {"S5"})


@EITHER
@pytest.mark.parametrize("target", [0, 50])
def test_what_an_application_passes_over_by_a_seek_is_excused(target: int, server: bool) -> None:
    """Forward and back; also a commit of the position from before the seek, which comes after it."""
    world = good_history()
    world.deliver("b", 2, 2)
    world.note("b", "seek", topic=TOPIC, partition=2, offset=target, token=world.tokens[tp(2)])
    world.commit("b", 2, 3)
    world.deliver("b", 2, target)
    world.commit("b", 2, target + 1, rewind=True)

    assert world.check(server=server).violations == ()


@EITHER
def test_a_seek_excuses_nothing_behind_it(server: bool) -> None:
    """What follows the new position is processed before it is committed, as ever."""
    world = good_history()
    world.note("b", "seek", topic=TOPIC, partition=2, offset=50, token=world.tokens[tp(2)])
    world.deliver("b", 2, 50)
    world.commit("b", 2, 52)

    report = world.check(server=server)

    assert broken(report) == {"S5"}
    assert "51 was not processed" in report.violations[0].detail


@EITHER
def test_what_an_operator_passes_over_is_excused(server: bool) -> None:
    """A marked reset forward, obeyed by the owner."""
    world = good_history()
    world.stranger_sets(2, 40, marker=True)
    world.note("b", "reset.obeyed", topic=TOPIC, partition=2, offset=40, mzxid=world.zxid)
    world.work("b", 2, 40)

    assert world.check(server=server).violations == ()


@pytest.mark.parametrize("policy", ["adopt", "reassert"])
def test_a_foreign_write_moves_only_who_adopts_it(policy: str) -> None:
    """Who goes on with its own position has to have processed what it commits."""
    world = good_history()
    world.stranger_sets(2, 40)
    world.note("b", "foreign_write", topic=TOPIC, partition=2, offset=40, version=9, policy=policy)
    world.commit("b", 2, 40)

    assert broken(world.check(server=False)) == (set() if policy == "adopt" else {"S5"})


@EITHER
def test_a_record_whose_end_was_torn_is_processed_by_the_successor(server: bool) -> None:
    """At least once: what a killed process had in its hands counts as not delivered."""
    world = good_history()
    world.deliver("b", 2, 2)
    forget(world, "deliver.end")
    world.end_session("b", 0, 1, 2, 3, told=False)
    world.register("c", 3)
    world.claim("c", 2)
    world.work("c", 2, 2)

    assert world.check(server=server).violations == ()


def test_a_torn_end_under_a_commit_is_a_violation() -> None:
    """The end is written before any commit can cover it: a commit without it came too early."""
    world = good_history()
    world.deliver("b", 2, 2)
    forget(world, "deliver.end")
    world.commit("b", 2, 3)

    assert broken(world.check()) == {"S5"}


@pytest.mark.parametrize("written", [True, False])
def test_what_counts_is_what_was_written(written: bool) -> None:
    """A commit without an answer is judged where the log has it."""
    world = good_history()
    world.deliver("b", 2, 2, ended=False)
    world.commit("b", 2, 3, told="info")
    if not written:
        world.transactions.pop()

    assert broken(world.check()) == ({"S5"} if written else set())


def test_offsets_with_gaps_need_an_end_of_what_was_begun() -> None:
    """Compacted topics: of the offsets in between nobody knows."""
    world = good_history()
    world.deliver("b", 2, 2)
    world.work("b", 2, 7)

    assert broken(world.check()) == {"S5"}
    assert world.check(gaps_allowed=True).violations == ()

    world.deliver("b", 2, 9, ended=False)
    world.commit("b", 2, 10)
    assert broken(world.check(gaps_allowed=True)) == {"S5"}


def test_the_progress_of_others_is_not_ours_to_judge() -> None:
    """A member without recorded deliveries, and a member of the JVM, have processed what they say."""
    world = good_history()
    world.release("b", 2, 3)
    world.register("n", 5)
    world.claim("n", 2)
    world.commit("n", 2, 30)
    world.release("n", 2)
    world.register("j", 6, is_jvm=True)
    world.write(6, world._offset(2, 60))
    world.claim("b", 2)
    world.work("b", 2, 60)

    assert world.check().violations == ()


def test_offsets_of_the_applications_own_choice_leave_it_open() -> None:
    """And so does a history in which nobody recorded a delivery."""
    world = good_history()
    world.commit("b", 2, 30)
    silent = [record for record in world.records if not record.kind.startswith("deliver.")]

    assert broken(world.check()) == {"S5"}
    assert world.check(offsets_given=True).violations == ()
    assert "S5" not in world.check(offsets_given=True).decided
    assert "S5" not in check_history(silent, world.transactions, CheckOptions()).decided


def test_an_offset_that_was_there_before_is_where_it_starts() -> None:
    """Of what was committed before the log begins nothing is known."""
    world = GroupHistory()
    world.versions[tp(0)], world.values[tp(0)] = 4, 500
    world.register("a", 1)
    world.claim("a", 0)
    world.work("a", 0, 500)
    assert world.check().violations == ()


# --- runs of offsets --------------------------------------------------------------------------------


def test_runs_grow_together() -> None:
    """In whatever order they come; missing is the first that is in none."""
    offsets = OffsetSet()
    for start, end in ((10, 20), (30, 40), (20, 25), (5, 6), (6, 6)):
        offsets.add(start, end)
    offsets.add(4)

    assert offsets.first_missing(10, 25) is None
    assert offsets.first_missing(10, 26) == 25
    assert offsets.first_missing(4, 40) == 6
    assert offsets.first_missing(0, 3) == 0
    assert offsets.first_missing(7, 7) is None

    offsets.add(6, 30)
    assert offsets.first_missing(4, 40) is None
