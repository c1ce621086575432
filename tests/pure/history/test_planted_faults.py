"""Each violation of a safety invariant is found under the name of that invariant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.worlds.group_history import RECORDS, SERVER, TOPIC, GroupHistory, broken, good_history, tp
from zkgroup.history import Change
from zkgroup.znodes.consumers import Offset, Registration


def owner_check_removed(world: GroupHistory) -> None:
    """A commit by a member whose session ended, before another member claims."""
    world.register("z", 9)
    world.claim("z", 3, recorded=False)
    world.end_session("z", 3, recorded=False)
    world.commit("z", 3, 50)


def offset_version_check_removed(world: GroupHistory) -> None:
    """A stale member commits while its successor's owner znode exists."""
    stale = world.tokens[tp(2)]
    world.release("b", 2)
    world.register("c", 3)
    world.claim("c", 2)
    world.commit("b", 2, 2, token=stale)


def claim_without_bump(world: GroupHistory) -> None:
    """The offset version does not advance, so two claims have the same fence."""
    world.release("b", 2)
    world.register("c", 3)
    world.claim("c", 2, bump=False)


def claim_without_registration(world: GroupHistory) -> None:
    """A retried claim arrives in a new session without a registration."""
    world.release("b", 2)
    world.sessions["c"] = 77
    world.claim("c", 2, session=77)


def claim_that_is_not_ephemeral(world: GroupHistory) -> None:
    """The owner znode would outlive its session."""
    world.release("b", 2)
    world.register("c", 3)
    world.claim("c", 2, ephemeral_owner=0)


def registration_deleted_before_owners(world: GroupHistory) -> None:
    """A member on a shared client leaves in the wrong order."""
    world.write(2, Change("delete", Registration.path("g", "g_b")))


def neighbour_on_a_shared_client_commits(world: GroupHistory) -> None:
    """Another member of the same session owns the partition."""
    world.register("n", 2)
    world.write(2, world.guard("n"), world._offset(2, 60))


def offset_goes_back(world: GroupHistory) -> None:
    """A member commits less than it did before, without a seek, reset or foreign write."""
    world.commit("b", 2, 1)


def member_deletes_the_offset(world: GroupHistory) -> None:
    """The fence would start again at 0."""
    world.write(2, world.guard("b"), Change("delete", Offset.path("g", tp(2))))


def member_writes_no_number(world: GroupHistory) -> None:
    """Every JVM member of the group would stop."""
    world.write(2, world.guard("b"), Change("set", Offset.path("g", tp(2)), b"", 99))


def commit_before_it_is_processed(world: GroupHistory) -> None:
    """Delivered, and committed while the application still works on it."""
    world.deliver("b", 2, 2, ended=False)
    world.commit("b", 2, 3)


def release_of_what_is_not_processed(world: GroupHistory) -> None:
    """The position to be fetched next goes back with the partition, instead of the processed one."""
    world.deliver("b", 2, 2, ended=False)
    world.release("b", 2, value=3)


def claim_that_skips_records(world: GroupHistory) -> None:
    """The claim writes another position than its predecessor's, and later owners go on from there."""
    world.release("b", 2)
    world.register("c", 3)
    world.values[tp(2)] = 9
    world.claim("c", 2)
    world.work("c", 2, 9)


def commit_that_is_not_written(world: GroupHistory) -> None:
    """A lost response is reported as success."""
    row = _invoked(world, 2, 2)
    world.note("b", "commit.ok", id=1, zxid=world.zxid + 1, offsets=[{**row, "version": row["fence"] + 1}])
    world.write(2, world.guard("b"))


def commit_of_another_value(world: GroupHistory) -> None:
    """The requested value is reported, and an older one was sent."""
    world.deliver("b", 2, 2)
    row = _invoked(world, 2, 3)
    zxid = world.write(2, world.guard("b"), world._offset(2, 2))
    world.note("b", "commit.ok", id=1, zxid=zxid, offsets=[{**row, "version": world.versions[tp(2)]}])


def applied_commit_reported_as_refused(world: GroupHistory) -> None:
    """A broken connection is reported as a refusal."""
    world.deliver("b", 2, 2)
    world.commit("b", 2, 3, outcome="fail")


def commit_sent_twice(world: GroupHistory) -> None:
    """Without a response the client sends it again, without the fence, and it is applied twice."""
    world.deliver("b", 2, 2)
    world.commit("b", 2, 3, outcome="info")
    world.write(2, world.guard("b"), world._offset(2, 3))
    world.work("b", 2, 3)


def commit_with_two_outcomes(world: GroupHistory) -> None:
    """The outcome is reported as unknown first and as done later."""
    world.work("b", 2, 2)
    done = world.records[-1]
    world.note("b", "commit.info", id=done.fields["id"], partitions=[], reason="x")


def _invoked(world: GroupHistory, number: int, value: int) -> dict[str, Any]:
    row = {"topic": TOPIC, "partition": number, "offset": value, "token": world.tokens[tp(number)]}
    row["fence"] = world.versions[tp(number)]
    world.note("b", "commit.invoke", id=1, offsets=[row])
    return row


def delivery_without_lease(world: GroupHistory) -> None:
    """The member is SUSPENDED for longer than its lease and still delivers."""
    world.ms += 10_000
    world.deliver("b", 2, 2)


def delivery_after_lease_renewed_by_a_read(world: GroupHistory) -> None:
    """The lease is extended without a write that the server acknowledged."""
    world.ms += 3_500
    world.deliver("b", 2, 2)


def delivery_after_the_end(world: GroupHistory) -> None:
    """The member releases first and stops delivering later."""
    stale = world.tokens[tp(2)]
    world.release("b", 2)
    world.deliver("b", 2, 2, token=stale)


def delivery_before_the_claim(world: GroupHistory) -> None:
    """A record is delivered under a token that no claim has."""
    world.deliver("b", 2, 2, token=4711)


def delivery_of_both_owners(world: GroupHistory) -> None:
    """The old owner starts another record after the new one began, within its own lease."""
    stale = world.tokens[tp(2)]
    world.end_session("b", 0, 1, 2, 3, recorded=False)
    world.register("c", 3)
    world.claim("c", 2)
    world.deliver("c", 2, 2)
    world.ms += 5
    world.deliver("b", 2, 3, token=stale)


def delivery_from_an_old_position(world: GroupHistory) -> None:
    """The start position was read before the claim, and the predecessor committed after that."""
    world.release("b", 2)
    world.register("c", 3)
    world.claim("c", 2)
    world.deliver("c", 2, 1)


def range_sorted_by_number(world: GroupHistory) -> None:
    """One member computes another assignment from the same view."""
    world.rebalance("a", ["b"], mine=[], result="0123456789abcdef")


def share_of_another_member(world: GroupHistory) -> None:
    """The assignment is right, but the member owns another share."""
    world.register("c", 3)
    world.rebalance("c", ["b", "c"], mine=[0])


def digest_that_forgets_the_threads(world: GroupHistory) -> None:
    """Two different views have the same hash."""
    world.rebalance("b", ["b"], members={"g_b": {TOPIC: 2}})


def orphaned_claim(world: GroupHistory) -> None:
    """A claim whose response was lost, and which no member releases."""
    world.release("b", 2)
    world.claim("b", 2, recorded=False)
    world.ms += 60_000
    world.write(2, world.guard("b"))


def recorded_release_without_delete(world: GroupHistory) -> None:
    """The member recorded a release, but its owner znode still exists."""
    world.note("b", "own.end", topic=TOPIC, partition=2, token=world.tokens[tp(2)], reason="rebalance")
    world.ms += 60_000
    world.write(2, world.guard("b"))


BOTH = {"server", "records"}
CATALOGUE: list[tuple[Callable[[GroupHistory], None], str, set[str]]] = [
    (owner_check_removed, "S2", {"server"}),
    (offset_version_check_removed, "S2", BOTH),
    (claim_without_bump, "S3", BOTH),
    (claim_without_registration, "S1", BOTH),
    (claim_that_is_not_ephemeral, "S1 S2", {"server"}),
    (registration_deleted_before_owners, "S1", {"server"}),
    (neighbour_on_a_shared_client_commits, "S2", {"server"}),
    (offset_goes_back, "S4", BOTH),
    (member_deletes_the_offset, "S2", {"server"}),
    (member_writes_no_number, "S4", {"server"}),
    (commit_before_it_is_processed, "S5", BOTH),
    (release_of_what_is_not_processed, "S5", BOTH),
    (claim_that_skips_records, "S5", {"server"}),
    (commit_that_is_not_written, "S6", {"server"}),
    (commit_of_another_value, "S6", {"server"}),
    (applied_commit_reported_as_refused, "S6", {"server"}),
    (commit_sent_twice, "S6", {"server"}),
    (commit_with_two_outcomes, "S6", {"server"}),
    (delivery_without_lease, "S7", BOTH),
    (delivery_after_lease_renewed_by_a_read, "S7", BOTH),
    (delivery_after_the_end, "S7", BOTH),
    (delivery_before_the_claim, "S7", BOTH),
    (delivery_of_both_owners, "S8", BOTH),
    (delivery_from_an_old_position, "S9", BOTH),
    (range_sorted_by_number, "S10", BOTH),
    (share_of_another_member, "S10", BOTH),
    (digest_that_forgets_the_threads, "S10", BOTH),
    (orphaned_claim, "S22", {"server"}),
    (recorded_release_without_delete, "S22", {"server"}),
]


@pytest.mark.parametrize(
    ("mutation", "invariant", "source"),
    [(m, i, source) for m, i, sources in CATALOGUE for source in sorted(sources)],
    ids=lambda value: getattr(value, "__name__", None) or str(value),
)
def test_each_violation_is_found_by_its_invariant(
    mutation: Callable[[GroupHistory], None], invariant: str, source: str
) -> None:
    """Each planted fault violates exactly the invariants that it should."""
    world = good_history()
    assert world.check(server=source == "server").violations == ()

    mutation(world)
    report = world.check(server=source == "server")

    assert broken(report) == set(invariant.split())
    assert not report.holds
    assert all(str(violation).startswith(violation.invariant) for violation in report.violations)


def test_planted_faults_cover_every_safety_invariant() -> None:
    """There is a planted fault for each of S1-S10 and S22."""
    assert {name for _, names, _ in CATALOGUE for name in names.split()} == SERVER | RECORDS
