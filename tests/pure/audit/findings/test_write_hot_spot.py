"""Where the writes go."""

from __future__ import annotations

from tests.worlds.audit_log import START_MS, AuditLog, offset
from zkgroup.audit.findings.load import write_hot_spot
from zkgroup.zkfiles.records import Operation, TransactionType

A, B = 0xA, 0xB
T0 = ("t", 0)


def at_full_minute() -> AuditLog:
    log = AuditLog()
    log.wait(-(START_MS % 60_000))
    return log


def test_the_busiest_minute_of_a_subtree_is_reported() -> None:
    """Its operations, bytes and who wrote most of them."""
    log = at_full_minute()
    log.join("g", "g_a", A)
    log.commit("g", T0, 10, B)
    log.wait(60_000)
    first = log.commit("g", T0, 11, B)
    for number in range(12, 20):
        last = log.commit("g", T0, number, A)
    log.wait(60_000)
    log.commit("g", T0, 20, A)

    (found,) = log.find(write_hot_spot, per_minute=5)

    assert (found.severity, found.group, found.session) == ("info", "g", A)
    assert (found.from_zxid, found.to_zxid) == (first, last)
    assert found.detail == (
        "/consumers/g/offsets: 9 operations, 18 bytes in the busiest minute, 8 of them by member g_a"
        " (session 0xa); 1 minute like it; biggest transaction 1"
    )


def test_operations_of_one_transaction_are_counted_together() -> None:
    """A multi of many is one record for the servers, and many changes."""
    log = at_full_minute()
    log.multi(A, *(log.creation(offset("g", ("t", number)), "0") for number in range(30)))

    (found,) = log.find(write_hot_spot, per_minute=30)

    assert found.detail.endswith("biggest transaction 30")


def test_refused_requests_are_a_place_of_their_own() -> None:
    """A failed multi is one, and none of its operations is a write."""
    log = at_full_minute()
    error = Operation(TransactionType.ERROR, error=-103)
    for _ in range(4):
        log.fail(A)
        log.multi(A, log.setting(offset("g", T0), "1"), error, error, error)

    (found,) = log.find(write_hot_spot, per_minute=5)

    assert found.detail.startswith("refused requests: 8 operations")
    assert found.group is None
    assert log.find(write_hot_spot, per_minute=9) == []


def test_refused_requests_are_reported_with_their_share() -> None:
    """Of the transactions between the first and the last of them; across an election nobody can tell."""
    log = at_full_minute()
    log.fail(A)
    log.commit("g", T0, 1, A)
    log.commit("g", T0, 2, A)
    log.fail(A)

    assert log.find(write_hot_spot, per_minute=2)[-1].detail.endswith("minute like it; biggest transaction 1")
    assert log.find(write_hot_spot, per_minute=2)[0].detail == (
        "refused requests: 2 operations, 0 bytes in the busiest minute, 2 of them by session 0xa;"
        " 1 minute like it; 50% of all transactions in that time"
    )
    log.zxid = 1 << 32
    log.fail(A)
    assert log.find(write_hot_spot, per_minute=3)[0].detail.endswith("1 minute like it")


def test_calm_subtrees_and_snapshots_are_not() -> None:
    """By default ten a second, in each subtree by itself; what was there was not written now."""
    log = at_full_minute()
    for number in range(700):
        log.seed(offset("g", ("t", number)), "3", zxid=1)
    for number in range(599):
        log.commit("g", T0, number, A)
        log.commit("h", T0, number, A)

    assert log.find(write_hot_spot) == []
    log.commit("g", T0, 600, A)
    assert [each.group for each in log.find(write_hot_spot)] == ["g"]
