"""From the end of a session to the next claims."""

from __future__ import annotations

import pytest

from tests.worlds.audit_log import START_MS, AuditLog, owner
from zkgroup.audit.findings.rebalances import handover_time
from zkgroup.zkfiles.records import TransactionType

A, B = 0xA, 0xB
T0, T1 = ("t", 0), ("t", 1)


def two_members(*, with_lists: bool = True) -> AuditLog:
    """a owns both partitions; b is a member."""
    log = AuditLog(with_lists=with_lists)
    for session in (A, B):
        log.open(session)
    log.join("g", "g_a", A)
    log.join("g", "g_b", B)
    log.claim("g", T0, "g_a-0", A)
    log.claim("g", T1, "g_a-0", A)
    return log


@pytest.mark.parametrize("with_lists", [True, False])
def test_the_time_goes_to_the_last_partitions_first_next_claim(with_lists: bool) -> None:
    """Later claims of the same partition are other hand-overs."""
    log = two_members(with_lists=with_lists)
    log.wait(6_000)
    ended = log.expire(A)
    log.wait(300)
    log.claim("g", T0, "g_b-0", B)
    log.release("g", T0, B)
    log.wait(200)
    claimed = log.claim("g", T1, "g_b-0", B)
    log.wait(5_000)
    log.claim("g", T0, "g_b-0", B)

    (found,) = log.find(handover_time)

    assert (found.severity, found.group, found.session) == ("info", "g", A)
    assert (found.from_zxid, found.to_zxid) == (ended, claimed)
    assert (found.from_ms, found.to_ms) == (START_MS + 6_000, START_MS + 6_500)
    assert found.detail == (
        "member g_a (session 0xa) expired after 6.0 s of silence with 2 partitions;"
        " the last was claimed again 500 ms later"
    )


def test_an_unclaimed_partition_counts_while_others_are_owned() -> None:
    """To the end of the history, or until the last of those who could have taken over left."""
    log = two_members()
    ended = log.close(A)
    log.wait(1_000)
    log.claim("g", T1, "g_b-0", B)

    (found,) = log.find(handover_time)

    assert (found.from_zxid, found.to_zxid, found.to_ms) == (ended, None, None)
    assert found.detail.endswith("with 2 partitions; the last was claimed again 1.0 s later, 1 never")
    left = log.close(B)
    (found,) = (each for each in log.find(handover_time) if each.session == A)
    assert (found.from_zxid, found.to_zxid, found.to_ms) == (ended, left, START_MS + 1_000)


def test_a_group_that_stops_hands_nothing_over() -> None:
    """Its members close one after another; ten seconds by default are a rebalance that does not come."""
    log = two_members()
    log.close(A)
    log.wait(10_000)
    log.close(B)

    assert log.find(handover_time) == []
    (found,) = log.find(handover_time, patience_ms=9_999)
    assert found.detail.endswith("; none of them was claimed again in 10.0 s")


def test_a_group_without_another_member_hands_nothing_over() -> None:
    """The last one out; and who comes a day later takes nothing over."""
    log = two_members()
    log.close(B)
    log.close(A)
    log.wait(86_400_000)
    log.come("g", "g_d", 0xD)
    log.claim("g", T0, "g_d-0", 0xD)

    assert log.find(handover_time) == []


def test_a_release_is_no_end_of_a_session() -> None:
    """A rebalance is another finding, and so is an end that took no partition."""
    log = two_members()
    log.release("g", T0, A)
    log.claim("g", T0, "g_b-0", B)
    log.release("g", T1, A)
    log.close(A)
    log.claim("g", T1, "g_b-0", B)

    assert log.find(handover_time) == []


def test_members_that_left_before_or_came_after_are_no_heirs() -> None:
    """Neither one that unregistered while its session lived on, nor one that joins in the end."""
    log = two_members()
    log.leave("g", "g_b", B)
    log.close(A)
    log.wait(20_000)
    log.join("g", "g_b", B)

    assert log.find(handover_time) == []


def test_the_last_heir_decides_how_long_it_lasts() -> None:
    """Of those that outlived the session the one that stayed longest, be it to the end."""
    log = two_members()
    log.come("g", "g_c", 0xC)
    log.wait(1_000)
    ended = log.close(A)
    log.wait(15_000)
    log.leave("g", "g_c", 0xC)
    log.passes(1_000)

    (found,) = log.find(handover_time)
    assert (found.from_zxid, found.to_zxid, found.to_ms) == (ended, None, None)
    assert found.detail.endswith("none of them was claimed again in 16.0 s")
    left = log.leave("g", "g_b", B)
    log.wait(60_000)
    log.create("/much-later")
    (found,) = log.find(handover_time)
    assert (found.to_zxid, found.to_ms) == (left, START_MS + 17_000)


def test_a_member_that_goes_with_the_session_is_no_heir() -> None:
    """Whatever the close lists first; a server of 3.6 or later lists what goes in no order."""
    log = two_members()
    log.leave("g", "g_b", B)
    paths = (owner("g", T0), "/consumers/g/ids/g_a", owner("g", T1))
    log.write(TransactionType.CLOSE_SESSION, A, closed_paths=paths)
    log.wait(20_000)
    log.claim("g", T0, "g_b-0", B)

    assert log.find(handover_time) == []
