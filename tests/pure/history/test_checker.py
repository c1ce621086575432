"""The report of the group checker: violations, decided invariants, and histories that prove nothing."""

from __future__ import annotations

import pytest

from tests.worlds.group_history import AT_REST, RECORDS, SERVER, TOPIC, GroupHistory, broken, good_history
from zkgroup.errors import ConfigError
from zkgroup.history import Change, CheckOptions, HistoryRecord, Recording, check_history
from zkgroup.model import TopicPartition
from zkgroup.znodes.consumers import Owner, Registration


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_a_good_history_holds(server: bool) -> None:
    """Members that follow the protocol violate nothing, and every decidable invariant is decided."""
    world = good_history()

    report = world.check(server=server, quiet_from_ms=world.ms, recovery_ms=100, ended_members=["g_a"])

    assert report.violations == ()
    assert report.holds
    assert report.decided == (SERVER | RECORDS | AT_REST if server else RECORDS | AT_REST)


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_the_figures_count_what_happened(server: bool) -> None:
    """Records and the server's log give equal counts of deliveries, commits, claims and changes of owner."""
    world = good_history()

    figures = world.check(server=server).figures

    assert (figures.records, figures.operations) == (len(world.records), 16)
    assert (figures.deliveries, figures.rebalances) == (6, 4)
    assert (figures.commits, figures.claims, figures.ownership_changes) == (12, 8, 4)
    assert (figures.refused_commits, figures.refused_stale_commits) == (1, 1)
    assert (figures.foreign_writes, figures.reasserted, figures.unknown_outcomes) == (0, 0, 0)


def test_a_handover_between_threads_is_a_commit_and_a_claim() -> None:
    """Its offset write before the new owner is the commit; after it, it would belong to the claim."""
    world = GroupHistory()
    world.register("a", 1, threads=2)
    world.claim("a", 0)
    owner = Owner.path("g", TopicPartition(TOPIC, 0))
    text = Owner("g_a-1").encode()
    world.write(
        1,
        world.guard("a"),
        Change("check", owner),
        world._offset(0, 5),
        Change("delete", owner),
        Change("create", owner, text, 0, 1),
        Change("set", owner, text, 1),
    )

    figures = check_history([], world.transactions).figures

    assert (figures.claims, figures.commits) == (2, 1)


def test_a_run_with_too_few_events_has_shortfalls() -> None:
    """Shortfalls name each figure below its least value."""
    report = good_history().check()

    assert report.shortfalls({"commits": 12, "deliveries": 6}) == ()
    assert report.shortfalls({"commits": 500, "deliveries": 6}) == ("commits: 12 of 500",)


def test_an_empty_history_decides_nothing() -> None:
    """An empty history has no violation, and no invariant is decided."""
    assert check_history([]).decided == frozenset()


def test_a_servers_log_alone_decides_what_it_can() -> None:
    """It decides nothing about deliveries and about the members' own records."""
    world = good_history()
    options = CheckOptions(quiet_from_ms=world.ms, recovery_ms=50)

    report = check_history([], world.transactions, options)

    assert report.violations == ()
    assert report.decided == {"S1", "S2", "S3", "S4"} | AT_REST


def test_too_many_unknown_outcomes_prove_nothing() -> None:
    """Above a share of 20 % the report does not hold, although no invariant is violated."""
    world = GroupHistory()
    world.register("a", 1)
    world.claim("a", 0)
    world.commit("a", 0, 1, outcome="info")

    report = world.check()

    assert report.violations == ()
    assert report.figures.unknown_share == 0.5
    assert not report.holds


def test_damaged_files_prove_nothing() -> None:
    """After an unreadable line in the middle of a file anything may be missing."""
    report = check_history(Recording(tuple(good_history().records), torn=1, broken=("xyz",)))

    assert report.violations == ()
    assert report.damage == ("not a record: 'xyz'",)
    assert not report.holds


def test_a_log_of_several_groups_needs_the_name_of_one() -> None:
    """A log of two groups is checked for the named one."""
    world = good_history()
    other = Registration.path("h", "h_a")
    world.write(7, Change("create", other, b"{}", 0, 7))

    with pytest.raises(ConfigError, match="g, h"):
        world.check()
    assert world.check(group="g").holds


def test_member_sessions_named_by_the_caller_are_checked() -> None:
    """A session without registration and records is a foreign writer's unless the caller names it."""
    world = good_history()
    world.write(42, world._offset(2, 99))

    assert world.check().violations == ()
    assert broken(check_history(world.records, world.transactions, CheckOptions(member_sessions=[42]))) == {
        "S2"
    }


def test_records_may_come_in_any_order() -> None:
    """The checker sorts them by time, those of one member in the order of writing."""
    world = good_history()
    turned: list[HistoryRecord] = world.records[::-1]

    assert check_history(turned, world.transactions[::-1]).violations == ()
