"""How often groups commit."""

from __future__ import annotations

from tests.worlds.audit_log import START_MS, AuditLog
from zkgroup.audit.findings.offsets import commit_rate

A, B = 0xA, 0xB
T0, T1 = ("t", 0), ("t", 1)


def test_commits_of_a_group_are_counted() -> None:
    """Claims are none; a repeated offset is one that says nothing new."""
    log = AuditLog()
    log.wait(-(START_MS % 60_000))
    log.claim_ours("g", T0, "g_a-0", A)
    log.claim_ours("g", T1, "g_b-0", B)
    first = log.commit("g", T0, 1, A)
    log.commit("g", T0, 1, A)
    log.commit("g", T1, 1, B)
    log.wait(80_000)
    last = log.commit("g", T1, 2, B)

    (found,) = log.find(commit_rate)

    assert (found.severity, found.group) == ("info", "g")
    assert (found.from_zxid, found.to_zxid) == (first, last)
    assert found.detail == (
        "4 commits by 2 sessions, 0.05/s, 25 % of them repeat the offset; at most 3 in one minute"
    )


def test_each_group_by_itself_and_none_without_commits() -> None:
    """Offsets of a snapshot were committed before."""
    log = AuditLog(zxid=100)
    log.seed("/consumers/old/offsets/t/0", "3", zxid=4)
    log.claim_ours("idle", T0, "idle_a-0", A)
    log.commit("one", T0, 1, A)
    log.commit("two", T0, 1, A)

    assert [each.group for each in log.find(commit_rate)] == ["one", "two"]
