"""L1 to L4: what the checker finds after the deadline for convergence."""

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
def test_l1_a_partition_without_owner(server: bool) -> None:
    """Every partition of a subscribed topic has an owner in time."""
    world = good_history()
    world.release("b", 2)

    assert broken(at_rest(world, server=server)) == {"L1"}


def test_l2_an_owner_that_is_no_member() -> None:
    """Also for partitions that no member subscribes to or that do not exist."""
    world = good_history()
    world.write(0, Change("create", Owner.path("g", tp(9)), b"g_b-0", 0, 2))
    world.write(0, Change("delete", Owner.path("g", tp(3))))
    world.write(0, Change("create", Owner.path("g", tp(3)), b"g_x-0", 0, 50))

    report = at_rest(world)

    assert [(v.invariant, v.topic_partition) for v in report.violations] == [("L2", tp(3)), ("L2", tp(9))]


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_l3_a_wrong_share(server: bool) -> None:
    """A member that joined gets nothing, and the other members own everything."""
    world = good_history()
    world.register("c", 3)
    world.rebalance("c", ["b", "c"], mine=[])

    report = at_rest(world, server=server)

    assert broken(report) == {"L3"}
    assert {violation.topic_partition for violation in report.violations} == {tp(2), tp(3)}


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_l4_a_change_after_the_deadline(server: bool) -> None:
    """A new assignment, or a change of owner, after the deadline."""
    world = good_history()
    quiet_from_ms = world.ms
    world.ms += 1_000
    world.rebalance("b", ["b"])
    world.release("b", 2)
    world.claim("b", 2)

    report = world.check(server=server, quiet_from_ms=quiet_from_ms, recovery_ms=50, ended_members=["g_a"])

    assert broken(report) == {"L4"}


def test_liveness_is_not_decided_without_the_time_of_the_last_fault() -> None:
    """A history alone does not show when the last intended change was made."""
    world = good_history()
    world.release("b", 2)

    report = world.check()

    assert report.violations == ()
    assert not AT_REST & report.decided


def test_a_restarted_member_owns_only_what_it_claims_again() -> None:
    """L1 from records alone: partitions of the former session have no owner, though no end is recorded."""
    world = good_history()
    world.end_session("b", 0, 1, 2, 3, recorded=False)
    world.register("b", 9)
    world.rebalance("b", ["b"])
    world.claim("b", 0, 1, 3)

    report = at_rest(world, server=False)

    assert [(v.invariant, v.topic_partition) for v in report.violations] == [("L1", tp(2))]


@pytest.mark.parametrize("server", [True, False], ids=["server log", "records alone"])
def test_l3_does_not_apply_to_a_sticky_group(server: bool) -> None:
    """L3 is for range only; L1 and L2 apply to every group."""
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
