"""Histories that look wrong and are allowed: no invariant is violated."""

from __future__ import annotations

import pytest

from tests.worlds.group_history import TOPIC, broken, good_history, tp
from zkgroup.history import Change
from zkgroup.znodes.consumers import Offset, Owner, Registration


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_an_application_may_seek_back(server: bool) -> None:
    """A commit after the application's seek back is no violation."""
    world = good_history()
    world.commit("b", 2, 0, rewind=True)

    assert world.check(server=server).violations == ()


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_an_operators_reset_is_applied(server: bool) -> None:
    """With a reset marker the offset may go back, and the owner goes on from there."""
    world = good_history()
    world.foreign_set(2, 0, marker=True)
    world.note("b", "reset.applied", topic=TOPIC, partition=2, offset=0, mzxid=world.zxid)
    world.work("b", 2, 0)

    report = world.check(server=server)

    assert report.violations == ()
    assert (report.figures.resets_applied, report.figures.foreign_writes) == (1, 1)


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_a_foreign_write_may_be_overwritten_with_the_own_position(server: bool) -> None:
    """Reasserting and the foreign write are counted, and are no violation."""
    world = good_history()
    world.foreign_set(2, 70)
    world.note("b", "foreign_write", topic=TOPIC, partition=2, offset=70, version=0, policy="reassert")
    world.commit("b", 2, 2)

    report = world.check(server=server)

    assert report.violations == ()
    assert report.figures.foreign_writes == 1
    assert report.figures.reasserted == (1 if server else 0)


def test_writes_of_a_jvm_member_are_counted_and_no_violation() -> None:
    """Its claims do not write the offset and its commits are not fenced; its writes have their own figure."""
    world = good_history()
    world.register("j", 5, is_jvm=True)
    world.release("b", 3)
    owner = Owner("g_j-0").encode()
    world.write(5, Change("create", Owner.path("g", tp(3)), owner, 0, 5))
    world.write(5, world._offset(3, 0))
    world.write(5, world._offset(2, 0))

    report = world.check()

    assert report.violations == ()
    assert report.figures.foreign_member_writes == 2


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_a_claim_recognised_after_a_lost_response_is_a_claim(server: bool) -> None:
    """The token read back is the zxid of the claim; commits with it are in order."""
    world = good_history()
    world.release("b", 2)
    zxid = world.claim("b", 2, recorded=False)
    world.note("b", "claim.info", id=zxid, reason="lost")
    world.note(
        "b", "own.begin", topic=TOPIC, partition=2, token=zxid, offset=2, version=world.versions[tp(2)]
    )
    world.deliver("b", 2, 2, token=zxid)
    world.commit("b", 2, 3)

    assert world.check(server=server).violations == ()


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_a_handover_between_threads_of_a_member_is_one_transaction(server: bool) -> None:
    """Delete, create and bump in one multi: the release and the new claim share their zxid."""
    world = good_history()
    old, path = world.tokens[tp(2)], Owner.path("g", tp(2))
    changes = [
        Change("delete", path),
        Change("create", path, b"g_b-1", 0, 2),
        Change("set", path, b"g_b-1", 1),
    ]
    zxid = world.write(2, world.guard("b"), *changes, world._offset(2, 2))
    row = {"topic": TOPIC, "partition": 2, "version": world.versions[tp(2)], "offset": 2}
    world.note("b", "own.end", topic=TOPIC, partition=2, token=old, reason="move")
    world.note("b", "release.ok", id=1, zxid=zxid, partitions=[{**row, "token": old}])
    world.note("b", "own.begin", **row, token=zxid)
    world.tokens[tp(2)] = zxid
    world.work("b", 2, 2)

    assert world.check(server=server).violations == ()


def test_a_killed_members_last_commit_is_unexplained_and_no_violation() -> None:
    """From records alone, a version that no record acknowledges counts as a foreign write."""
    world = good_history()
    world.commit("b", 2, 5)
    world.records.pop()
    world.end_session("b", 0, 1, 2, 3, recorded=False)
    world.register("c", 3)
    world.claim("c", 2)

    report = world.check(server=False)

    assert report.violations == ()
    assert report.figures.foreign_writes == 1


def test_records_in_flight_may_overlap_and_are_counted() -> None:
    """A record begun before the successor's first may end after it, within a bound."""
    world = good_history()
    stale = world.tokens[tp(2)]
    world.deliver("b", 2, 2, ended=False)
    world.end_session("b", 0, 1, 2, 3, recorded=False)
    world.register("c", 3)
    world.claim("c", 2)
    world.deliver("c", 2, 2)
    world.note("b", "deliver.end", topic=TOPIC, partition=2, offset=2, token=stale)

    report = world.check()

    assert report.violations == ()
    assert report.figures.in_flight_overlaps == 1


def test_gaps_are_allowed_where_the_caller_says_so() -> None:
    """Compacted topics start above the position, never below it."""
    world = good_history()
    world.release("b", 2)
    world.claim("b", 2)
    world.deliver("b", 2, 9)

    assert broken(world.check()) == {"S9"}
    assert world.check(gaps_allowed=True).violations == ()

    below = good_history()
    below.release("b", 2)
    below.claim("b", 2)
    below.deliver("b", 2, 1)

    assert broken(below.check(gaps_allowed=True)) == {"S9"}


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
@pytest.mark.parametrize("kind", ["reset.applied", "foreign_write", "seek"])
def test_a_claim_may_begin_elsewhere_after_its_member_recorded_why(kind: str, server: bool) -> None:
    """Between the claim and its first record the member recorded a seek, a reset or a foreign write."""
    world = good_history()
    world.release("b", 2)
    world.claim("b", 2)
    world.note("b", kind, topic=TOPIC, partition=2, offset=0)
    world.deliver("b", 2, 0)

    assert world.check(server=server).violations == ()


@pytest.mark.parametrize(
    ("member", "partition", "before_the_claim"), [("c", 2, False), ("b", 3, False), ("b", 2, True)]
)
def test_a_seek_of_another_member_or_partition_explains_nothing(
    member: str, partition: int, before_the_claim: bool
) -> None:
    """Another member's reset, another partition's, and one from before the claim explain no other start."""
    world = good_history()
    world.release("b", 2)
    if before_the_claim:
        world.note(member, "reset.applied", topic=TOPIC, partition=partition, offset=0)
        world.ms += 1
    world.claim("b", 2)
    if not before_the_claim:
        world.note(member, "reset.applied", topic=TOPIC, partition=partition, offset=0)
    world.deliver("b", 2, 0)

    assert broken(world.check()) == {"S9"}


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_an_offset_znode_recreated_by_a_foreign_writer_starts_again(server: bool) -> None:
    """Versions and values of the deleted znode do not count; the foreign writer broke the fence."""
    world = good_history()
    world.write(999, Change("delete", Offset.path("g", tp(2))))
    world.versions.pop(tp(2))
    world.write(999, world._offset(2, 0))
    world.note("b", "own.end", topic=TOPIC, partition=2, token=world.tokens[tp(2)], reason="fence_broken")
    world.write(2, world.guard("b"), Change("delete", Owner.path("g", tp(2))))
    world.claim("b", 2)
    world.work("b", 2, 0)

    assert world.check(server=server).violations == ()


def test_a_registration_that_a_foreign_writer_set_belongs_to_its_session() -> None:
    """The data of a registration names no session: the member that owns by it goes on."""
    world = good_history()
    path = Registration.path("g", "g_b")
    world.write(999, Change("set", path, b"{}", 1))
    world.release("b", 2)
    world.claim("b", 2)

    assert world.check().violations == ()
