"""The judge of the group tests: it accepts what a group promises, and names each breach."""

from __future__ import annotations

import itertools

import pytest

from tests.long.interop.deliveries import Deliveries, Line

_at = itertools.count()


def line(member: str, event: str, **fields: object) -> Line:
    return {"member": member, "event": event, "at": next(_at), **fields}


def assigned(member: str, *partitions: int) -> Line:
    return line(member, "assigned", partitions=list(partitions))


def revoked(member: str, *partitions: int) -> Line:
    return line(member, "revoked", partitions=list(partitions))


def read(member: str, partition: int, first: int, last: int) -> Line:
    return line(member, "read", partition=partition, first=first, last=last)


def committed(member: str, **offsets: int) -> Line:
    return line(member, "committed", offsets={name.removeprefix("p"): end for name, end in offsets.items()})


def test_records_are_covered_and_those_not_committed_are_repeated() -> None:
    """A partition moves with two records that its first owner has not committed."""
    first = [assigned("a", 0, 1), read("a", 0, 0, 4), committed("a", p0=5), read("a", 0, 5, 6)]
    second = [revoked("a", 0, 1), assigned("a", 1), assigned("b", 0), read("b", 0, 5, 9)]
    found = Deliveries(reversed([*first, *second]))

    assert not found.breaches
    assert (found.owned("a"), found.owned("b")) == ({1}, {0})
    assert found.repeated() == {(0, 5), (0, 6)}
    assert found.missing({0: 10, 1: 1}) == {(1, 0)}
    assert found.invented({0: 9}) == {(0, 9)}
    assert found.committed == {0: 5}


def test_what_a_member_had_when_it_was_killed_is_known() -> None:
    """Its partitions, and the records of them that it has not committed; not those of its earlier ones."""
    earlier = [assigned("a", 0), read("a", 0, 0, 4), revoked("a", 0)]
    lines = [assigned("a", 1, 2), read("a", 1, 0, 4), committed("a", p1=3), read("a", 2, 0, 0)]
    assert not Deliveries(earlier).uncommitted("a")

    found = Deliveries([*earlier, *lines, line("a", "killed")])
    assert found.left_with == {"a": {1, 2}}
    assert found.uncommitted("a") == {(1, 3), (1, 4), (2, 0)}
    assert not found.owned("a")


def test_what_is_assigned_while_a_member_closes_is_free_when_it_is_closed() -> None:
    """It never said that this was revoked."""
    closing = [assigned("a", 0), line("a", "closing"), assigned("a", 0, 1), line("a", "closed")]
    assert not Deliveries([*closing, assigned("b", 0, 1)]).breaches


@pytest.mark.parametrize("event", ["stopped", "stalled", "killed"])
def test_a_member_that_is_away_may_read_what_it_had_fetched(event: str) -> None:
    """Its partitions may be another member's meanwhile; once assigned again, it is checked as before."""
    before = [assigned("a", 0), read("a", 0, 0, 0), line("a", event)]
    meanwhile = [assigned("b", 0), read("b", 0, 0, 2), committed("b", p0=3), read("a", 0, 1, 1)]
    assert not Deliveries([*before, *meanwhile]).breaches

    again = [revoked("b", 0), assigned("a", 0), read("a", 0, 2, 2)]
    assert len(Deliveries([*before, *meanwhile, *again]).breaches) == 1
    set_back = [revoked("b", 0), assigned("a", 0), committed("a", p0=2), read("a", 0, 2, 2)]
    assert not Deliveries([*before, *meanwhile, *set_back]).breaches


@pytest.mark.parametrize(
    "lines",
    [
        [read("a", 0, 0, 0)],
        [assigned("a", 0), revoked("a", 0), read("a", 0, 0, 0)],
        [assigned("a", 0), line("a", "closing"), read("a", 0, 0, 0)],
        [assigned("a", 0), read("a", 0, 0, 1), read("a", 0, 3, 3)],
        [assigned("a", 0), read("a", 0, 0, 1), read("a", 0, 1, 1)],
        [assigned("a", 0), committed("a", p0=5), revoked("a", 0), assigned("b", 0), read("b", 0, 4, 5)],
        [assigned("a", 0), assigned("b", 0)],
        [assigned("a", 0), line("a", "stopped"), assigned("b", 0), committed("a", p0=1)],
        [line("a", "failed", error="it broke")],
    ],
    ids=["never", "revoked", "closing", "gap", "twice", "committed", "two owners", "stale commit", "failed"],
)
def test_a_breach_is_named(lines: list[Line]) -> None:
    """Each of these histories has exactly one."""
    (breach,) = Deliveries(lines).breaches
    assert str(lines[-1]) in breach
