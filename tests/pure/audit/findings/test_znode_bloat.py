"""Znodes and lists that are too large."""

from __future__ import annotations

from tests.worlds.audit_log import AuditLog
from zkgroup.audit.findings.load import znode_bloat

BOUND = 524_288


def test_a_large_znode_is_found_where_it_was_written() -> None:
    """By a create, a set, or in the snapshot."""
    log = AuditLog(zxid=100)
    log.seed("/config/old", b"x" * BOUND, zxid=7)
    log.create("/config/new")
    zxid = log.set("/config/new", b"x" * (BOUND + 1))

    old, new = log.find(znode_bloat)

    assert (old.severity, old.from_zxid, old.to_zxid) == ("warning", 7, None)
    assert old.detail == f"/config/old holds {BOUND} bytes"
    assert (new.from_zxid, new.detail) == (zxid, f"/config/new holds {BOUND + 1} bytes")


def test_what_shrank_or_went_is_not() -> None:
    """It is the end that counts."""
    log = AuditLog()
    for path in ("/config/shrunk", "/config/gone", "/config/below"):
        log.create(path, b"x" * (BOUND - (path == "/config/below")))
    log.set("/config/shrunk", b"")
    log.delete("/config/gone")

    assert log.find(znode_bloat) == []


def test_a_wide_parent_is_found() -> None:
    """Each name costs its bytes and four; children of children are of another list."""
    log = AuditLog()
    for number in range(10):
        log.create(f"/brokers/topics/topic-{number}", "{}")
        log.create(f"/brokers/topics/topic-{number}/partitions")

    (found,) = log.find(znode_bloat, list_bytes=10 * 11)

    assert (found.severity, found.detail) == (
        "warning",
        "/brokers/topics has 10 children, a list of 110 bytes",
    )
    log.delete("/brokers/topics/topic-3")
    assert log.find(znode_bloat, list_bytes=10 * 11) == []


def test_large_subtrees_are_reported() -> None:
    """With count and bytes, the largest znode and the widest parent, by the first name of the path."""
    log = AuditLog()
    for number in range(5):
        log.create(f"/consumers/{number}", "four")
    log.set("/consumers/3", "more")
    log.set("/consumers/4", "most of all")
    log.create("/brokers/1", "other")

    (found,) = log.find(znode_bloat, znodes=5)

    assert found.severity == "info"
    assert found.detail == (
        "/consumers: 5 znodes with 27 bytes of data; the largest is /consumers/4 with 11;"
        " the widest is /consumers with 5 children"
    )
    assert log.find(znode_bloat, znodes=6) == []
    assert log.find(znode_bloat) == []


def test_subtrees_are_as_deep_as_is_asked_for() -> None:
    """With `depth` 2 each group is one by itself; a parent above is of none of them."""
    log = AuditLog()
    for group in "gh":
        log.create(f"/consumers/{group}")
        for number in range(3 if group == "g" else 2):
            log.create(f"/consumers/{group}/{number}", "x")

    (found,) = log.find(znode_bloat, znodes=4, depth=2)

    assert found.detail == (
        "/consumers/g: 4 znodes with 3 bytes of data; the largest is /consumers/g/0 with 1;"
        " the widest is /consumers/g with 3 children"
    )
    assert [each.detail.partition(":")[0] for each in log.find(znode_bloat, znodes=1, depth=2)] == [
        "/consumers/g",
        "/consumers/h",
    ]
