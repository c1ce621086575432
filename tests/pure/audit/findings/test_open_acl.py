"""Who may change what."""

from __future__ import annotations

from tests.worlds.audit_log import AuditLog
from zkgroup.audit.findings.load import open_acl
from zkgroup.zkfiles.records import Acl, AclEntry, Operation, StoredStat, StoredZnode, TransactionType

OPEN: Acl = (AclEntry(31, "world", "anyone"),)
READABLE: Acl = (AclEntry(1, "world", "anyone"), AclEntry(31, "sasl", "kafka"))
A = 0xA


def create(log: AuditLog, path: str, acl: Acl) -> int:
    return log.write(TransactionType.CREATE, A, Operation(TransactionType.CREATE, path, b"", acl))


def set_acl(log: AuditLog, path: str, acl: Acl, session: int) -> int:
    return log.write(
        TransactionType.SET_ACL, session, Operation(TransactionType.SET_ACL, path, acl=acl, version=1)
    )


def seed(log: AuditLog, path: str, acl: Acl | None) -> None:
    log.seeds.append(StoredZnode(path, b"", acl, StoredStat(5, 5, 0, 0, 0, 0, 0, 0, 5)))


def test_a_tree_that_is_open_everywhere_is_one_row() -> None:
    """As every tree of 0.8.2.2 is."""
    log = AuditLog()
    for path in ("/brokers", "/brokers/ids", "/consumers", "/elsewhere"):
        create(log, path, OPEN)

    (found,) = log.find(open_acl)

    assert (found.severity, found.from_zxid, found.to_zxid) == ("info", 1, None)
    assert found.detail == (
        "any client may change 3 of 3 znodes below /brokers and /consumers; 0 changes of ACLs by 0 sessions"
    )


def test_a_tree_that_is_half_closed_is_warned_of() -> None:
    """Somebody meant to close it; reading may stay open."""
    log = AuditLog()
    create(log, "/brokers", READABLE)
    create(log, "/brokers/ids", READABLE)
    create(log, "/consumers", OPEN)

    (found,) = log.find(open_acl)

    assert found.severity == "warning"
    assert (
        "any client may change 1 of 3 znodes below /brokers and /consumers, such as /consumers;"
        in found.detail
    )


def test_a_closed_tree_is_not() -> None:
    """Nor one that was closed later, apart from that it was."""
    closed = AuditLog()
    create(closed, "/brokers", READABLE)
    create(closed, "/elsewhere", OPEN)
    later = AuditLog()
    create(later, "/brokers", OPEN)
    create(later, "/consumers", OPEN)
    set_acl(later, "/brokers", READABLE, 0xB)
    set_acl(later, "/elsewhere", READABLE, 0xC)
    later.delete("/consumers")

    assert closed.find(open_acl) == []
    (found,) = later.find(open_acl)
    assert found.severity == "info"
    assert found.detail.startswith("any client may change 0 of 1")
    assert found.detail.endswith("2 changes of ACLs by 2 sessions")


def test_an_acl_that_the_snapshot_lacks_is_warned_of() -> None:
    """A known defect of servers; where no ACL at all is known, they were not read."""
    lacking = AuditLog(zxid=100)
    seed(lacking, "/brokers", OPEN)
    seed(lacking, "/consumers", None)
    unread = AuditLog(zxid=100)
    seed(unread, "/brokers", None)
    seed(unread, "/consumers", None)

    (found,) = lacking.find(open_acl)

    assert found.severity == "warning"
    assert "1 have an ACL that the snapshot lacks (ZOOKEEPER-4689), such as /consumers;" in found.detail
    assert found.detail.endswith("changes of ACLs are in logs only")
    assert unread.find(open_acl) == []
