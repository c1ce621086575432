"""Leases as threads of the application see them."""

from __future__ import annotations

import pytest

from zkgroup.consumer.lease import Lease, LeaseTable
from zkgroup.errors import LeaseLostError
from zkgroup.model import LeaseGrant, TopicPartition
from zkgroup.testing.clock import FakeClock

ORDERS_3 = TopicPartition("orders", 3)
T0 = 1_000_000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(now_ms=T0)


@pytest.fixture
def lease_table(clock: FakeClock) -> LeaseTable:
    lease_table = LeaseTable(clock)
    lease_table.extend(T0 + 4000)
    return lease_table


def granted(lease_table: LeaseTable, token: int = 7) -> Lease:
    grant = LeaseGrant(topic_partition=ORDERS_3, thread=1, token=token, offset=42)
    lease_table.grant([grant])
    return Lease(grant, lease_table)


def test_a_lease_has_the_granted_values(lease_table: LeaseTable) -> None:
    """Partition, thread, token and the position written with the claim."""
    lease = granted(lease_table)

    assert (lease.topic_partition, lease.topic, lease.partition) == (ORDERS_3, "orders", 3)
    assert (lease.thread, lease.token, lease.offset) == (1, 7, 42)
    assert repr(lease) == "Lease(orders-3, thread=1, token=7, valid=True)"


def test_it_is_valid_until_its_deadline_and_not_at_it(lease_table: LeaseTable, clock: FakeClock) -> None:
    """The last millisecond belongs to the next owner."""
    lease = granted(lease_table)
    clock.advance(3999)
    last = (lease.is_valid, lease.remaining_ms)

    clock.advance(1)

    assert last == (True, 1)
    assert (lease.is_valid, lease.remaining_ms) == (False, 0)
    with pytest.raises(LeaseLostError, match="orders-3"):
        lease.check()


def test_a_pause_ends_with_the_same_token(lease_table: LeaseTable, clock: FakeClock) -> None:
    """Back in the same session the lease goes on."""
    lease = granted(lease_table)
    clock.advance(5000)
    paused = lease.is_valid

    lease_table.extend(T0 + 9000)

    assert (paused, lease.is_valid, lease.remaining_ms) == (False, True, 4000)


def test_a_lease_of_an_earlier_claim_never_comes_back(lease_table: LeaseTable) -> None:
    """Its partition may be this member's again: under another token."""
    old = granted(lease_table, token=7)
    lease_table.end([ORDERS_3])
    ended = old.is_valid
    new = granted(lease_table, token=8)

    assert (ended, old.is_valid, new.is_valid) == (False, False, True)


def test_a_partition_being_revoked_may_commit_but_not_deliver(
    lease_table: LeaseTable, clock: FakeClock
) -> None:
    """on_revoked is still the owner."""
    lease = granted(lease_table)
    lease_table.stop([ORDERS_3])
    holdings = lease_table.current

    assert lease.is_valid
    assert holdings.may_commit(ORDERS_3, 7, clock.now_ms())
    assert not holdings.may_deliver(ORDERS_3, 7, clock.now_ms())


def test_the_guard_raises_when_the_lease_ran_out_meanwhile(lease_table: LeaseTable, clock: FakeClock) -> None:
    """Also when it is valid again at the end: part of the work was done without it."""
    lease = granted(lease_table)
    with lease.guard():
        lease_table.extend(T0 + 5000)
    with pytest.raises(LeaseLostError, match="has ended"), lease.guard():
        clock.advance(5000)
    with pytest.raises(LeaseLostError, match="has ended"), lease.guard():
        pytest.fail("not entered")
    lease_table.extend(T0 + 9000)

    def outage() -> None:
        with lease.guard():
            clock.advance(4000)
            lease_table.extend(T0 + 20_000)

    with pytest.raises(LeaseLostError, match="not valid during the whole guard"):
        outage()


def test_the_guard_lets_errors_of_the_body_through(lease_table: LeaseTable, clock: FakeClock) -> None:
    """What went wrong first is what is raised."""
    lease = granted(lease_table)

    def failing() -> None:
        with lease.guard():
            clock.advance(5000)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        failing()
