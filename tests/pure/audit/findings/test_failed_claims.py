"""Members that run into owners of others."""

from __future__ import annotations

from tests.worlds.audit_log import START_MS, AuditLog, owner
from zkgroup.audit.findings.sessions import failed_claims
from zkgroup.zkfiles.records import Operation, TransactionType

A, TOOL = 0xA, 0xC
NODE_EXISTS, NO_NODE, NOT_TRIED = -110, -101, -2


def joined() -> AuditLog:
    log = AuditLog()
    log.come("g", "g_a", A)
    return log


def refused(log: AuditLog, session: int, error: int, cxid: int) -> int:
    """A single request that failed."""
    return log.write(TransactionType.ERROR, session, Operation(TransactionType.ERROR, error=error), cxid=cxid)


def test_ten_refusals_within_a_minute_are_found() -> None:
    """From the first to the last of them, over windows that overlap."""
    log = joined()
    zxids = []
    for _ in range(14):
        zxids.append(log.fail(A))
        log.wait(6_000)
    log.wait(60_000)
    log.fail(A)

    (found,) = log.find(failed_claims)

    assert (found.severity, found.group, found.session) == ("warning", "g", A)
    assert (found.from_zxid, found.to_zxid) == (zxids[0], zxids[-1])
    assert (found.from_ms, found.to_ms) == (START_MS, START_MS + 13 * 6_000)
    assert found.detail == (
        "14 requests of member g_a (session 0xa) failed in 78.0 s because the znode existed"
    )


def test_nine_a_minute_are_not() -> None:
    """Four attempts of a JVM member on two partitions are eight."""
    log = joined()
    for _ in range(30):
        log.fail(A)
        log.wait(7_000)

    assert log.find(failed_claims) == []
    assert len(log.find(failed_claims, per_minute=9)) == 1


def test_a_failed_transaction_is_one_refusal() -> None:
    """However many of its operations were not tried; its cause decides."""
    log = joined()
    create = log.creation(owner("g", ("t", 0)), "g_a-0", ephemeral=True)
    first = Operation(TransactionType.ERROR, error=NODE_EXISTS)
    rest = Operation(TransactionType.ERROR, error=NOT_TRIED)
    for _ in range(5):
        log.multi(A, create, first, rest, rest)
        log.multi(A, create, Operation(TransactionType.ERROR, error=-103), rest)

    assert log.find(failed_claims) == []
    (found,) = log.find(failed_claims, per_minute=5)
    assert found.detail.startswith("5 requests")


def test_parents_that_a_jvm_client_makes_are_no_claims() -> None:
    """A missing node, then the parent that is there already: the first commit of each partition looks so."""
    log = joined()
    for number in range(20):
        refused(log, A, NO_NODE, cxid=3 * number)
        refused(log, A, NODE_EXISTS, cxid=3 * number + 1)
        log.commit("g", ("t", number), 0, A)

    assert log.find(failed_claims) == []


def test_a_refusal_behind_an_older_missing_node_counts() -> None:
    """Only the very next request is the parent."""
    log = joined()
    for number in range(10):
        refused(log, A, NO_NODE, cxid=4 * number)
        refused(log, A, NODE_EXISTS, cxid=4 * number + 2)

    assert len(log.find(failed_claims)) == 1


def test_only_members_claim() -> None:
    """A broker or a tool may fail for reasons of its own."""
    log = joined()
    for _ in range(20):
        log.fail(TOOL)

    assert log.find(failed_claims) == []
