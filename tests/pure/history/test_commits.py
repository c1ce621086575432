"""S5 and S6: allowed reports of commits, and histories in which they are not decided."""

from __future__ import annotations

import pytest

from tests.worlds.group_history import TOPIC, GroupHistory, broken, good_history, tp
from zkgroup.history import CheckOptions, HistoryRecord, check_history
from zkgroup.history.group.commit_invariants import OffsetSet

EITHER = pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])


def forget(world: GroupHistory, kind: str) -> HistoryRecord:
    """Removes the last record of a kind, as if the process was killed before it wrote it."""
    assert world.records[-1].kind == kind
    return world.records.pop()


def not_written(world: GroupHistory, outcome: str, *, behind: int = 0) -> None:
    """A commit of b that the log does not have, with the outcome that b got; it may have an older fence."""
    row = {"topic": TOPIC, "partition": 2}
    fence = world.versions[tp(2)] - behind
    invoked = {**row, "offset": 3, "fence": fence, "token": world.tokens[tp(2)]}
    world.note("b", "commit.invoke", id=1, offsets=[invoked])
    world.note("b", f"commit.{outcome}", id=1, partitions=[row], reason="x")


def test_a_commit_without_a_response_may_be_applied() -> None:
    """`info` means unknown: here the response was lost."""
    world = good_history()
    world.deliver("b", 2, 2)
    world.commit("b", 2, 3, outcome="info")
    world.work("b", 2, 3)

    assert world.check().violations == ()


@pytest.mark.parametrize("outcome", ["info", "fail"], ids=["no answer", "refused"])
def test_a_commit_that_was_not_written_may_be_sent_again(outcome: str) -> None:
    """`info` means unknown: here the request was lost. Of a refused commit only the second is in the log."""
    world = good_history()
    world.deliver("b", 2, 2)
    not_written(world, outcome)
    world.commit("b", 2, 3)

    assert world.check().violations == ()


def test_a_foreign_writer_may_write_the_value_that_was_refused() -> None:
    """The writer has no session, or a session without a registration."""
    world = good_history()
    world.sessions["b"] = 0
    world.note("b", "state", before="a", after="b", reason="x")
    world.sessions["b"] = 2
    world.deliver("b", 2, 2)
    world.write(0, world._offset(2, 3))
    not_written(world, "fail", behind=1)

    assert world.check().violations == ()


@pytest.mark.parametrize("written", [True, False])
def test_a_member_killed_in_the_middle_of_a_commit_recorded_no_outcome(written: bool) -> None:
    """The commit may or may not be in the log."""
    world = good_history()
    world.work("b", 2, 2)
    forget(world, "commit.ok")
    if not written:
        world.transactions.pop()
        world.versions[tp(2)] -= 1
        world.values[tp(2)] = 2
    world.end_session("b", 0, 1, 2, 3, recorded=False)
    world.register("c", 3)
    world.claim("c", 2)
    world.deliver("c", 2, world.values[tp(2)])

    assert world.check().violations == ()


def test_writes_after_the_end_of_a_recording_are_no_violation() -> None:
    """The disk is full: later writes of the member are in the log alone."""
    world = good_history()
    recorded = list(world.records)
    world.work("b", 2, 2)

    report = check_history(recorded, world.transactions)

    assert report.violations == ()
    assert report.decided >= {"S5", "S6"}


def test_without_the_servers_log_s6_is_not_decided() -> None:
    """Reported outcomes cannot be compared with anything."""
    world = good_history()
    world.deliver("b", 2, 2)
    world.commit("b", 2, 3, outcome="fail")

    assert "S6" not in world.check(server=False).decided
    assert world.check(server=False).violations == ()
    assert broken(world.check()) == {"S6"}


def test_a_reported_commit_that_the_log_lacks_is_named_with_its_zxid() -> None:
    """The violation has the partition, the value and the zxid."""
    world = good_history()
    world.work("b", 2, 2)
    lost = world.transactions.pop()

    (violation,) = [each for each in world.check().violations if each.invariant == "S6"]

    assert (violation.topic_partition, violation.zxid) == (tp(2), lost.zxid)
    assert "3 reported as committed" in violation.detail


@EITHER
def test_the_reset_policy_chooses_where_a_group_starts(server: bool) -> None:
    """Nothing is committed yet: the member commits the start before the first record."""
    world = GroupHistory()
    world.register("a", 1)
    world.claim("a", 0)
    world.commit("a", 0, 70)
    world.work("a", 0, 70)

    report = world.check(server=server)

    assert report.violations == ()
    assert "S5" in report.decided


@EITHER
@pytest.mark.parametrize("recorded", [True, False])
def test_a_start_by_the_reset_policy_may_be_committed_after_a_seek(recorded: bool, server: bool) -> None:
    """Past bug: after an immediate seek the start position counted as progress."""
    world = GroupHistory()
    world.register("a", 1)
    world.claim("a", 0)
    place = {"topic": TOPIC, "partition": 0, "token": world.tokens[tp(0)]}
    if recorded:
        world.note("a", "start", offset=70, **place)
    world.note("a", "seek", offset=69, **place)
    world.commit("a", 0, 70)
    world.work("a", 0, 70)

    assert broken(world.check(server=server)) == (set() if recorded else {"S5"})


@EITHER
@pytest.mark.parametrize("target", [0, 50])
def test_records_that_an_application_skips_by_a_seek_count_as_processed(target: int, server: bool) -> None:
    """Seeks forward and back count; so does a commit of the position before the seek that comes after it."""
    world = good_history()
    world.deliver("b", 2, 2)
    world.note("b", "seek", topic=TOPIC, partition=2, offset=target, token=world.tokens[tp(2)])
    world.commit("b", 2, 3)
    world.deliver("b", 2, target)
    world.commit("b", 2, target + 1, rewind=True)

    assert world.check(server=server).violations == ()


@EITHER
def test_records_after_the_target_of_a_seek_must_be_processed(server: bool) -> None:
    """Records from the new position on must be processed before they are committed."""
    world = good_history()
    world.note("b", "seek", topic=TOPIC, partition=2, offset=50, token=world.tokens[tp(2)])
    world.deliver("b", 2, 50)
    world.commit("b", 2, 52)

    report = world.check(server=server)

    assert broken(report) == {"S5"}
    assert "51 was not processed" in report.violations[0].detail


@EITHER
def test_records_that_an_operator_skips_by_a_reset_count_as_processed(server: bool) -> None:
    """A marked reset forward, which the owner applied."""
    world = good_history()
    world.foreign_set(2, 40, marker=True)
    world.note("b", "reset.applied", topic=TOPIC, partition=2, offset=40, mzxid=world.zxid)
    world.work("b", 2, 40)

    assert world.check(server=server).violations == ()


@pytest.mark.parametrize("policy", ["adopt", "reassert"])
def test_a_foreign_write_changes_the_position_only_if_adopted(policy: str) -> None:
    """A member that keeps its own position has to have processed what it commits."""
    world = good_history()
    world.foreign_set(2, 40)
    world.note("b", "foreign_write", topic=TOPIC, partition=2, offset=40, version=9, policy=policy)
    world.commit("b", 2, 40)

    assert broken(world.check(server=False)) == (set() if policy == "adopt" else {"S5"})


@EITHER
def test_a_record_whose_end_was_torn_is_processed_by_the_successor(server: bool) -> None:
    """At least once: a record that a killed process had not finished counts as not delivered."""
    world = good_history()
    world.deliver("b", 2, 2)
    forget(world, "deliver.end")
    world.end_session("b", 0, 1, 2, 3, recorded=False)
    world.register("c", 3)
    world.claim("c", 2)
    world.work("c", 2, 2)

    assert world.check(server=server).violations == ()


def test_a_committed_record_without_an_end_is_a_violation() -> None:
    """The end of a record is written before any commit covers it: a commit without it came too early."""
    world = good_history()
    world.deliver("b", 2, 2)
    forget(world, "deliver.end")
    world.commit("b", 2, 3)

    assert broken(world.check()) == {"S5"}


@pytest.mark.parametrize("written", [True, False])
def test_a_commit_without_a_response_counts_if_the_log_has_it(written: bool) -> None:
    """S5 applies to a commit without a response where the log has it."""
    world = good_history()
    world.deliver("b", 2, 2, ended=False)
    world.commit("b", 2, 3, outcome="info")
    if not written:
        world.transactions.pop()

    assert broken(world.check()) == ({"S5"} if written else set())


def test_with_gaps_only_started_records_must_be_finished() -> None:
    """In compacted topics the offsets in between may have no record."""
    world = good_history()
    world.deliver("b", 2, 2)
    world.work("b", 2, 7)

    assert broken(world.check()) == {"S5"}
    assert world.check(gaps_allowed=True).violations == ()

    world.deliver("b", 2, 9, ended=False)
    world.commit("b", 2, 10)
    assert broken(world.check(gaps_allowed=True)) == {"S5"}


def test_progress_of_members_without_deliveries_counts_as_processed() -> None:
    """Commits of a member without recorded deliveries, and of a JVM member, are taken as processed."""
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


def test_s5_is_not_decided_where_the_application_chooses_offsets() -> None:
    """It is not decided either where no member recorded a delivery."""
    world = good_history()
    world.commit("b", 2, 30)
    silent = [record for record in world.records if not record.kind.startswith("deliver.")]

    assert broken(world.check()) == {"S5"}
    assert world.check(offsets_given=True).violations == ()
    assert "S5" not in world.check(offsets_given=True).decided
    assert "S5" not in check_history(silent, world.transactions, CheckOptions()).decided


def test_an_offset_from_before_the_log_is_a_start() -> None:
    """What was committed before the beginning of the log is not checked."""
    world = GroupHistory()
    world.versions[tp(0)], world.values[tp(0)] = 4, 500
    world.register("a", 1)
    world.claim("a", 0)
    world.work("a", 0, 500)
    assert world.check().violations == ()


def test_adjacent_runs_are_merged() -> None:
    """Runs merge in any order; `first_missing` returns the first number in none."""
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
