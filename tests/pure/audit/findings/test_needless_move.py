"""Partitions that a rebalance took from a thread for nothing."""

from __future__ import annotations

from tests.pure.audit.groups import OURS, T, alone, shared
from tests.worlds.audit_log import AuditLog
from zkgroup.audit.findings.rebalances import needless_move


def test_jvm_members_release_everything_which_is_said_but_no_fault() -> None:
    """JVM members let everything go in each rebalance: what the same thread takes back is info."""
    log = shared()

    (found,) = log.find(needless_move)

    assert (found.severity, found.group, found.to_zxid) == ("info", "g", log.zxid)
    assert found.detail == "2 released and claimed again by the same thread"


def test_zkgroup_members_keep_partitions_so_it_is_a_warning() -> None:
    """Members of ours let go only of what they must give: with sticky or range, more is a warning."""
    assert [found.severity for found in shared(**OURS).find(needless_move)] == ["warning"]
    assert [found.severity for found in shared(zkgroup="1", strategy="range").find(needless_move)] == [
        "warning"
    ]


def _swap(**extensions: str) -> AuditLog:
    """b joins and gets two; a gives those, and takes nothing back."""
    log = alone(**extensions)
    log.wait(10_000)
    log.come("g", "g_b", 2, **extensions)
    for partition in T[2:]:
        log.release("g", partition, 1)
        log.claim("g", partition, "g_b-0", 2)
    return log


def test_moves_beyond_the_least_are_a_warning_where_sticky_was_promised() -> None:
    """Three moves where one would do are a warning under sticky, info otherwise; the least is no finding."""
    for extensions, severity in ((OURS, "warning"), ({}, "info")):
        log = _swap(**extensions)
        assert log.find(needless_move) == []
        log.wait(10_000)
        log.come("g", "g_c", 3, **extensions)
        for partition, thread, session in ((T[0], "g_c-0", 3), (T[1], "g_b-0", 2), (T[2], "g_a-0", 1)):
            log.release("g", partition, 1 if partition[1] < 2 else 2)
            log.claim("g", partition, thread, session)

        (found,) = log.find(needless_move)

        assert (found.severity, found.detail) == (severity, "3 moved where 1 would have done")


def test_a_move_between_threads_of_one_member_is_not_taken_for_one_that_came_back() -> None:
    """From thread 0 of a member to its thread 1 is a move, and not taken back by the same thread."""
    log = alone()
    log.wait(10_000)
    log.release("g", T[0], 1)
    log.claim("g", T[0], "g_a-1", 1)

    assert [found.detail for found in log.find(needless_move)] == ["1 moved where 0 would have done"]
