"""The checker: a good history passes, and each broken rule is caught by the invariant that forbids it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.history_world import TOPIC, World, good_world, tp
from zkgroup.errors import ConfigError
from zkgroup.history import Change, CheckOptions, Figures, Record, Recording, check_history
from zkgroup.history.report import Report
from zkgroup.znodes.consumers import Offset, Owner, Registration

SERVER = {"S1", "S2", "S3", "S4", "S22"}
RECORDS = {"S1", "S2", "S3", "S4", "S7", "S8", "S9", "S10"}
AT_REST = {"L1", "L2", "L3", "L4"}


def broken(report: Report) -> set[str]:
    return {violation.invariant for violation in report.violations}


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_a_good_history_holds(server: bool) -> None:
    """Nothing is held against members that keep the rules, and everything that can be decided is."""
    world = good_world()

    report = world.check(server=server, quiet_from_ms=world.ms, recovery_ms=100, ended_members=["g_a"])

    assert report.violations == ()
    assert report.holds
    assert report.decided == (SERVER | RECORDS | AT_REST if server else RECORDS | AT_REST)


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_the_figures_say_what_happened(server: bool) -> None:
    """Deliveries, commits, claims, changes of owner and refusals are counted alike from either side."""
    figures = good_world().check(server=server).figures

    assert (figures.deliveries, figures.rebalances) == (6, 4)
    assert (figures.commits, figures.claims, figures.ownership_changes) == (12, 8, 4)
    assert (figures.refused_commits, figures.refused_stale_commits) == (1, 1)
    assert (figures.foreign_writes, figures.reasserted, figures.unknown_outcomes) == (0, 0, 0)


def test_a_run_in_which_too_little_happened_does_not_count() -> None:
    """Shortfalls name each figure that is below what was asked for."""
    report = good_world().check()

    assert report.shortfalls({"commits": 12, "deliveries": 6}) == ()
    assert report.shortfalls({"commits": 500, "deliveries": 6}) == ("commits: 12 of 500",)


def test_nothing_is_decided_from_nothing() -> None:
    """An empty history holds vacuously, and says that it decided nothing."""
    assert check_history([]).decided == frozenset()


def test_too_many_unknown_outcomes_are_inconclusive() -> None:
    """Beyond a share of 20 % no verdict is given, although no rule was broken."""
    world = World()
    world.register("a", 1)
    world.claim("a", 0)
    world.commit("a", 0, 1, told="info")

    report = world.check()

    assert report.violations == ()
    assert report.figures.unknown_share == 0.5
    assert not report.holds


def test_damaged_files_are_inconclusive() -> None:
    """A broken line in the middle of a file means that anything may be missing."""
    report = check_history(Recording(tuple(good_world().records), torn=1, broken=("xyz",)))

    assert report.violations == ()
    assert report.damage == ("not a record: 'xyz'",)
    assert not report.holds


def test_several_groups_need_a_choice() -> None:
    """A log of two groups is checked for the one that is named."""
    world = good_world()
    other = Registration.path("h", "h_a")
    world.write(7, Change("create", other, b"{}", 0, 7))

    with pytest.raises(ConfigError, match="g, h"):
        world.check()
    assert world.check(group="g").holds


# --- one broken rule each -------------------------------------------------------------------------


def owner_check_removed(world: World) -> None:
    """A commit by a member whose session ended, and nobody has claimed since."""
    world.register("z", 9)
    world.claim("z", 3, told=False)
    world.end_session("z", 3, told=False)
    world.commit("z", 3, 50)


def offset_version_check_removed(world: World) -> None:
    """A stale member goes on committing with the owner znode of its successor standing."""
    stale = world.tokens[tp(2)]
    world.release("b", 2)
    world.register("c", 3)
    world.claim("c", 2)
    world.commit("b", 2, 40, token=stale)


def claim_without_bump(world: World) -> None:
    """The fence does not move, so two claims cannot be told apart."""
    world.release("b", 2)
    world.register("c", 3)
    world.claim("c", 2, bump=False)


def claim_without_registration(world: World) -> None:
    """A retried claim arrives in a new session in which nobody registered."""
    world.release("b", 2)
    world.sessions["c"] = 77
    world.claim("c", 2, session=77)


def claim_that_is_not_ephemeral(world: World) -> None:
    """The owner znode would outlive everything."""
    world.release("b", 2)
    world.register("c", 3)
    world.claim("c", 2, ephemeral_owner=0)


def registration_deleted_before_owners(world: World) -> None:
    """A member on a shared client leaves in the wrong order."""
    world.write(2, Change("delete", Registration.path("g", "g_b")))


def neighbour_on_a_shared_client_commits(world: World) -> None:
    """The session owns, but another member of it."""
    world.register("n", 2)
    world.write(2, world.guard("n"), world._offset(2, 60))


def offset_goes_back(world: World) -> None:
    """A member commits less than it did before, without a seek, reset or foreign write."""
    world.commit("b", 2, 1)


def member_deletes_the_offset(world: World) -> None:
    """The fence would start again at 0."""
    world.write(2, world.guard("b"), Change("delete", Offset.path("g", tp(2))))


def member_writes_no_number(world: World) -> None:
    """Every JVM member of the group would stop."""
    world.write(2, world.guard("b"), Change("set", Offset.path("g", tp(2)), b"", 99))


def delivery_without_lease(world: World) -> None:
    """SUSPENDED for longer than the lease, and delivering on."""
    world.ms += 10_000
    world.deliver("b", 2, 2)


def delivery_after_lease_renewed_by_a_read(world: World) -> None:
    """A lease that is longer than what the server knows: nothing was sent that would allow it."""
    world.ms += 3_500
    world.deliver("b", 2, 2)


def delivery_after_the_end(world: World) -> None:
    """Release first, stop delivering later."""
    stale = world.tokens[tp(2)]
    world.release("b", 2)
    world.deliver("b", 2, 2, token=stale)


def delivery_before_the_claim(world: World) -> None:
    """Delivered under a token that was never granted."""
    world.deliver("b", 2, 2, token=4711)


def delivery_of_both_owners(world: World) -> None:
    """The old owner starts another record after the new one began (it believes in its lease)."""
    stale = world.tokens[tp(2)]
    world.end_session("b", 0, 1, 2, 3, told=False)
    world.register("c", 3)
    world.claim("c", 2)
    world.deliver("c", 2, 2)
    world.ms += 5
    world.deliver("b", 2, 3, token=stale)


def delivery_from_an_old_position(world: World) -> None:
    """The offset read before the claim, while the predecessor committed on."""
    world.release("b", 2)
    world.register("c", 3)
    world.claim("c", 2)
    world.deliver("c", 2, 1)


def range_sorted_by_number(world: World) -> None:
    """One member computes another assignment from the same view."""
    world.rebalance("a", ["b"], mine=[], result="0123456789abcdef")


def share_of_somebody_else(world: World) -> None:
    """The result is right, the member holds something else."""
    world.register("c", 3)
    world.rebalance("c", ["b", "c"], mine=[0])


def digest_that_forgets_the_threads(world: World) -> None:
    """Two different views have the same hash."""
    world.rebalance("b", ["b"], members={"g_b": {TOPIC: 2}})


def leaked_claim(world: World) -> None:
    """A claim whose reply was lost and that nobody looks after."""
    world.release("b", 2)
    world.claim("b", 2, told=False)
    world.ms += 60_000
    world.write(2, world.guard("b"))


def released_only_on_paper(world: World) -> None:
    """The member gave the partition up, its znode stays."""
    world.note("b", "own.end", topic=TOPIC, partition=2, token=world.tokens[tp(2)], reason="rebalance")
    world.ms += 60_000
    world.write(2, world.guard("b"))


BOTH = {"server", "records"}
CATALOGUE: list[tuple[Callable[[World], None], str, set[str]]] = [
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
    (delivery_without_lease, "S7", BOTH),
    (delivery_after_lease_renewed_by_a_read, "S7", BOTH),
    (delivery_after_the_end, "S7", BOTH),
    (delivery_before_the_claim, "S7", BOTH),
    (delivery_of_both_owners, "S8", BOTH),
    (delivery_from_an_old_position, "S9", BOTH),
    (range_sorted_by_number, "S10", BOTH),
    (share_of_somebody_else, "S10", BOTH),
    (digest_that_forgets_the_threads, "S10", BOTH),
    (leaked_claim, "S22", {"server"}),
    (released_only_on_paper, "S22", {"server"}),
]


@pytest.mark.parametrize(
    ("mutation", "invariant", "source"),
    [(m, i, source) for m, i, sources in CATALOGUE for source in sorted(sources)],
    ids=lambda value: getattr(value, "__name__", None) or str(value),
)
def test_each_broken_rule_is_caught_by_its_invariant(
    mutation: Callable[[World], None], invariant: str, source: str
) -> None:
    """The catalogue of seeded faults: exactly the invariants that name the rule are violated."""
    world = good_world()
    assert world.check(server=source == "server").violations == ()

    mutation(world)
    report = world.check(server=source == "server")

    assert broken(report) == set(invariant.split())
    assert not report.holds
    assert all(str(violation).startswith(violation.invariant) for violation in report.violations)


def test_the_catalogue_covers_every_invariant_of_safety() -> None:
    """There is a seeded fault for each of S1-S4, S7-S10 and S22."""
    assert {name for _, names, _ in CATALOGUE for name in names.split()} == SERVER | RECORDS


# --- what is allowed ------------------------------------------------------------------------------


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_an_application_may_seek_back(server: bool) -> None:
    """A commit that was asked for as a rewind is no violation."""
    world = good_world()
    world.commit("b", 2, 0, rewind=True)

    assert world.check(server=server).violations == ()


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_an_operators_reset_is_obeyed(server: bool) -> None:
    """With the marker beside it the offset may go back, and the owner goes on from there."""
    world = good_world()
    world.stranger_sets(2, 0, marker=True)
    world.note("b", "reset.obeyed", topic=TOPIC, partition=2, offset=0, mzxid=world.zxid)
    world.deliver("b", 2, 0)
    world.commit("b", 2, 1)

    report = world.check(server=server)

    assert report.violations == ()
    assert (report.figures.resets_obeyed, report.figures.foreign_writes) == (1, 1)


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_a_foreign_write_may_be_overwritten_with_the_own_position(server: bool) -> None:
    """Reasserting is counted, not held against the member; so is the foreign write."""
    world = good_world()
    world.stranger_sets(2, 70)
    world.note("b", "foreign_write", topic=TOPIC, partition=2, offset=70, version=0, policy="reassert")
    world.commit("b", 2, 2)

    report = world.check(server=server)

    assert report.violations == ()
    assert report.figures.foreign_writes == 1
    assert report.figures.reasserted == (1 if server else 0)


def test_a_jvm_member_is_counted_not_judged() -> None:
    """Its claims do not bump, its commits are not fenced; its writes have a figure of their own."""
    world = good_world()
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
def test_a_lost_reply_that_is_adopted_is_a_claim(server: bool) -> None:
    """The token read back is the zxid of the claim; commits with it are in order."""
    world = good_world()
    world.release("b", 2)
    zxid = world.claim("b", 2, told=False)
    world.note("b", "claim.info", id=zxid, reason="lost")
    world.note(
        "b", "own.begin", topic=TOPIC, partition=2, token=zxid, offset=2, version=world.versions[tp(2)]
    )
    world.commit("b", 2, 3)

    assert world.check(server=server).violations == ()


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_a_move_between_threads_of_a_member_is_one_transaction(server: bool) -> None:
    """Delete, create and bump in one multi: the release and the new claim share their zxid."""
    world = good_world()
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
    world.commit("b", 2, 3)

    assert world.check(server=server).violations == ()


def test_a_killed_writers_last_commit_is_unexplained_not_wrong() -> None:
    """From records alone a version that nobody acknowledges is counted as a foreign write."""
    world = good_world()
    world.commit("b", 2, 5)
    world.records.pop()
    world.end_session("b", 0, 1, 2, 3, told=False)
    world.register("c", 3)
    world.claim("c", 2)

    report = world.check(server=False)

    assert report.violations == ()
    assert report.figures.foreign_writes == 1


def test_records_in_flight_may_overlap_and_are_counted() -> None:
    """A record begun before the successor's first may end after it: bounded, not forbidden."""
    world = good_world()
    stale = world.tokens[tp(2)]
    world.deliver("b", 2, 2, ended=False)
    world.end_session("b", 0, 1, 2, 3, told=False)
    world.register("c", 3)
    world.claim("c", 2)
    world.deliver("c", 2, 2)
    world.note("b", "deliver.end", topic=TOPIC, partition=2, offset=2, token=stale)

    report = world.check()

    assert report.violations == ()
    assert report.figures.in_flight_overlaps == 1


def test_gaps_are_allowed_where_the_caller_says_so() -> None:
    """Compacted topics start above the position, never below it."""
    world = good_world()
    world.release("b", 2)
    world.claim("b", 2)
    world.deliver("b", 2, 9)

    assert broken(world.check()) == {"S9"}
    assert world.check(gaps_allowed=True).violations == ()


# --- once the group had time to settle ------------------------------------------------------------


def at_rest(world: World, *, server: bool = True) -> Report:
    return world.check(server=server, quiet_from_ms=world.ms, recovery_ms=50, ended_members=["g_a"])


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_a_partition_without_owner_is_found(server: bool) -> None:
    """L1: everything that somebody wants is owned in time."""
    world = good_world()
    world.release("b", 2)

    assert broken(at_rest(world, server=server)) == {"L1"}


def test_an_owner_that_is_no_member_is_found() -> None:
    """L2: also for partitions that nobody wants or that do not exist."""
    world = good_world()
    world.write(0, Change("create", Owner.path("g", tp(9)), b"g_b-0", 0, 2))
    world.write(0, Change("delete", Owner.path("g", tp(3))))
    world.write(0, Change("create", Owner.path("g", tp(3)), b"g_x-0", 0, 50))

    report = at_rest(world)

    assert [(v.invariant, v.topic_partition) for v in report.violations] == [("L2", tp(3)), ("L2", tp(9))]


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_a_wrong_share_is_found(server: bool) -> None:
    """L3: a member that joined gets nothing, and the others are content."""
    world = good_world()
    world.register("c", 3)
    world.rebalance("c", ["b", "c"], mine=[])

    report = at_rest(world, server=server)

    assert broken(report) == {"L3"}
    assert {violation.topic_partition for violation in report.violations} == {tp(2), tp(3)}


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_a_group_that_does_not_come_to_rest_is_found(server: bool) -> None:
    """L4: a plan, or a change of owner, after the time to settle."""
    world = good_world()
    quiet_from_ms = world.ms
    world.ms += 1_000
    world.rebalance("b", ["b"])
    world.release("b", 2)
    world.claim("b", 2)

    report = world.check(server=server, quiet_from_ms=quiet_from_ms, recovery_ms=50, ended_members=["g_a"])

    assert broken(report) == {"L4"}


def test_liveness_stays_open_unless_the_caller_says_when_it_was_quiet() -> None:
    """Nobody can say from a history alone that nothing was meant to change any more."""
    world = good_world()
    world.release("b", 2)

    report = world.check()

    assert report.violations == ()
    assert not AT_REST & report.decided


def test_figures_of_a_batch_add_up() -> None:
    """Counts are added, the greatest overlap is kept."""
    total = Figures(commits=2, overlap_ms_max=5) + Figures(commits=3, overlap_ms_max=1)

    assert (total.commits, total.overlap_ms_max) == (5, 5)


def test_sessions_that_only_the_caller_knows_are_held_to_the_rules() -> None:
    """A session that never registered nor recorded anything is a stranger's unless named as a member's."""
    world = good_world()
    world.write(42, world._offset(2, 99))

    assert world.check().violations == ()
    assert broken(check_history(world.records, world.transactions, CheckOptions(member_sessions=[42]))) == {
        "S2"
    }


def test_records_may_come_in_any_order() -> None:
    """They are put in the order of time, those of one member in the order it wrote them."""
    world = good_world()
    turned: list[Record] = world.records[::-1]

    assert check_history(turned, world.transactions[::-1]).violations == ()
