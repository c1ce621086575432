"""`EffectOrderChecker` raises at each wrong order of a member's effects."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.group.step_checks import EffectOrderChecker, EffectOrderError
from zkgroup.consumer.machine.events import Assign, EndLease, ExtendLease, Lose, Revoke, Revoked
from zkgroup.model import LeaseGrant, TopicPartition
from zkgroup.model.requests import Create, Delete, Multi, MultiDone, Operation, ReadDone, SetData
from zkgroup.runtime.events import Answered, Submit

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)
GRANT = LeaseGrant(topic_partition=ONE, thread=0, token=7, offset=None)


def ask(*operations: Operation) -> Submit:
    return Submit(1, Multi(operations), 1)


def claim(tp: TopicPartition) -> Submit:
    return ask(Create(f"/consumers/g/owners/{tp.topic}/{tp.partition}", b"g_a-0", ephemeral=True))


def release(tp: TopicPartition) -> Submit:
    return ask(Delete(f"/consumers/g/owners/{tp.topic}/{tp.partition}", 1))


def owner_of_one() -> EffectOrderChecker:
    """The checker of a member that owns one partition."""
    rules = EffectOrderChecker("g")
    rules.effect(claim(ONE))
    rules.effect(Assign((GRANT,)))
    return rules


def test_nothing_is_assigned_without_a_claim() -> None:
    """`Assign` of a partition without a claim is refused."""
    with pytest.raises(EffectOrderError, match="without a claim"):
        EffectOrderChecker("g").effect(Assign((GRANT,)))


def test_a_release_waits_for_the_callback() -> None:
    """A partition is not released while it is delivered and until its callback has returned."""
    rules = owner_of_one()
    with pytest.raises(EffectOrderError, match="application returned"):
        rules.effect(release(ONE))
    rules.effect(Revoke(3, (ONE,), 1000, "rebalance"))
    with pytest.raises(EffectOrderError, match="application returned"):
        rules.effect(release(ONE))
    rules.event(Revoked(3, {}))
    rules.effect(release(ONE))


def test_a_claim_waits_for_the_releases_of_its_rebalance() -> None:
    """A rebalance releases all revoked partitions before it claims new ones."""
    rules = owner_of_one()
    rules.effect(Revoke(3, (ONE,), 1000, "rebalance"))
    rules.event(Revoked(3, {}))
    with pytest.raises(EffectOrderError, match="before the release"):
        rules.effect(claim(TWO))
    rules.effect(EndLease((ONE,)))
    rules.effect(claim(TWO))


def test_a_token_is_assigned_once() -> None:
    """A lost partition is assigned again only with a greater token: applications compare tokens."""
    rules = owner_of_one()
    rules.effect(Lose((ONE,), "not_registered"))
    rules.effect(claim(ONE))
    with pytest.raises(EffectOrderError, match="assigned before"):
        rules.effect(Assign((GRANT,)))
    rules.effect(claim(ONE))
    rules.effect(Assign((replace(GRANT, token=8),)))


def test_a_lost_partition_is_not_committed() -> None:
    """After `Lose` no offset of the partition is written."""
    rules = owner_of_one()
    write = ask(SetData("/consumers/g/offsets/t/0", b"5", 2))
    rules.effect(write)
    rules.effect(Lose((ONE,), "session_lost"))
    with pytest.raises(EffectOrderError, match="a lost partition"):
        rules.effect(write)


def test_only_an_accepted_write_extends_the_lease() -> None:
    """Reads extend nothing, and one write extends the lease once."""
    rules = EffectOrderChecker("g")
    rules.effect(claim(ONE))
    rules.event(Answered(2, ReadDone(None)))
    with pytest.raises(EffectOrderError, match="acknowledged"):
        rules.effect(ExtendLease(1000))
    rules.event(Answered(1, MultiDone((), 9)))
    rules.effect(ExtendLease(1000))
    with pytest.raises(EffectOrderError, match="acknowledged"):
        rules.effect(ExtendLease(2000))


def test_a_member_that_registers_again_owns_nothing() -> None:
    """Partitions of an ended session are lost before the next registration (recipes 9)."""
    rules = owner_of_one()
    path = "/consumers/g/ids/g_a"
    rules.effect(ask(Delete(path, 0), Create(path, b"", ephemeral=True)))
    with pytest.raises(EffectOrderError, match="registers again"):
        rules.effect(ask(Create(path, b"", ephemeral=True)))
    rules.effect(Lose((ONE,), "session_lost"))
    rules.effect(ask(Create(path, b"", ephemeral=True)))
