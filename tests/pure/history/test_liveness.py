"""Once the group had time to settle: what is still wrong then."""

from __future__ import annotations

import pytest

from tests.worlds.group_history import AT_REST, GroupHistory, broken, good_history, tp
from zkgroup.history import Change
from zkgroup.history.report import Report
from zkgroup.model import StaticSubscription
from zkgroup.znodes.consumers import Owner, Registration


def at_rest(world: GroupHistory, *, server: bool = True) -> Report:
    return world.check(server=server, quiet_from_ms=world.ms, recovery_ms=50, ended_members=["g_a"])


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_a_partition_without_owner_is_found(server: bool) -> None:
    """L1: everything that somebody wants is owned in time."""
    world = good_history()
    world.release("b", 2)

    assert broken(at_rest(world, server=server)) == {"L1"}


def test_an_owner_that_is_no_member_is_found() -> None:
    """L2: also for partitions that nobody wants or that do not exist."""
    world = good_history()
    world.write(0, Change("create", Owner.path("g", tp(9)), b"g_b-0", 0, 2))
    world.write(0, Change("delete", Owner.path("g", tp(3))))
    world.write(0, Change("create", Owner.path("g", tp(3)), b"g_x-0", 0, 50))

    report = at_rest(world)

    assert [(v.invariant, v.topic_partition) for v in report.violations] == [("L2", tp(3)), ("L2", tp(9))]


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_a_wrong_share_is_found(server: bool) -> None:
    """L3: a member that joined gets nothing, and the others are content."""
    world = good_history()
    world.register("c", 3)
    world.rebalance("c", ["b", "c"], mine=[])

    report = at_rest(world, server=server)

    assert broken(report) == {"L3"}
    assert {violation.topic_partition for violation in report.violations} == {tp(2), tp(3)}


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_a_group_that_does_not_come_to_rest_is_found(server: bool) -> None:
    """L4: a plan, or a change of owner, after the time to settle."""
    world = good_history()
    quiet_from_ms = world.ms
    world.ms += 1_000
    world.rebalance("b", ["b"])
    world.release("b", 2)
    world.claim("b", 2)

    report = world.check(server=server, quiet_from_ms=quiet_from_ms, recovery_ms=50, ended_members=["g_a"])

    assert broken(report) == {"L4"}


def test_liveness_stays_open_unless_the_caller_says_when_it_was_quiet() -> None:
    """Nobody can say from a history alone that nothing was meant to change any more."""
    world = good_history()
    world.release("b", 2)

    report = world.check()

    assert report.violations == ()
    assert not AT_REST & report.decided


def test_a_killed_member_that_is_back_holds_what_it_claims_anew() -> None:
    """L1 from records alone: what was held in the former session is nobody's, although no end is recorded."""
    world = good_history()
    world.end_session("b", 0, 1, 2, 3, told=False)
    world.register("b", 9)
    world.rebalance("b", ["b"])
    world.claim("b", 0, 1, 3)

    report = at_rest(world, server=False)

    assert [(v.invariant, v.topic_partition) for v in report.violations] == [("L1", tp(2))]


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_shares_of_a_sticky_group_are_not_judged_as_those_of_range(server: bool) -> None:
    """L3 is for range; that all is owned, by members, is asked of every group."""
    world = GroupHistory()
    for name, session in (("a", 1), ("b", 2)):
        extensions = {"zkgroup": "1", "strategy": "sticky"}
        registration = Registration.of(StaticSubscription({"t": 1}), 1, extensions)
        path = Registration.path("g", f"g_{name}")
        zxid = world.write(session, Change("create", path, registration.encode(), 0, session))
        world.sessions[name] = session
        world.note(name, "registered", czxid=zxid)
    world.rebalance("a", ["a", "b"], mine=[1, 2], strategy="sticky", result="0000")
    world.claim("a", 1, 2)
    world.claim("b", 0)

    report = world.check(server=server, quiet_from_ms=world.ms, recovery_ms=50)

    assert [(v.invariant, v.topic_partition) for v in report.violations] == [("L1", tp(3))]
