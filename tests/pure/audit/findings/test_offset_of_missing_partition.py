"""Offsets of partitions that do not exist."""

from __future__ import annotations

from tests.worlds.audit_log import AuditLog, offset
from zkgroup.audit.findings.offsets import offset_of_missing_partition

A = 0xA


def test_offsets_of_topics_that_are_gone_are_found() -> None:
    """Since the topic went, or since the offset was made, whatever came later."""
    log = AuditLog()
    log.topic("t", 2)
    log.topic("u", 1)
    log.commit("g", ("t", 0), 5, A)
    log.commit("g", ("t", 1), 5, A)
    never = log.commit("g", ("never", 0), 5, A)
    beyond = log.commit("g", ("u", 1), 8, A)
    gone = log.delete("/brokers/topics/t")

    found = log.find(offset_of_missing_partition)

    assert {each.severity for each in found} == {"warning"}
    assert [(each.topic, each.partition, each.from_zxid, each.to_zxid) for each in found] == [
        ("never", 0, never, None),
        ("u", 1, beyond, None),
        ("t", 0, gone, None),
        ("t", 1, gone, None),
    ]
    assert [each.detail.split(";")[0] for each in found] == [
        "no such topic",
        "the topic has 1 partition",
        "the topic is gone",
        "the topic is gone",
    ]


def test_offsets_of_partitions_that_exist_are_none() -> None:
    """Whether the topic came first, grew, or was made again; and an offset that went with its topic."""
    log = AuditLog()
    log.commit("g", ("t", 1), 5, A)
    log.topic("t", 1)
    log.topic("t", 2)
    log.topic("u", 1)
    log.commit("g", ("u", 0), 5, A)
    log.delete("/brokers/topics/u")
    log.delete(offset("g", ("u", 0)))

    assert log.find(offset_of_missing_partition) == []


def test_what_cannot_be_known_is_not_said() -> None:
    """An unreadable topic, and a log whose beginning is not there."""
    unreadable = AuditLog()
    unreadable.create("/brokers/topics/t", "not JSON")
    unreadable.commit("g", ("t", 0), 5, A)
    partial = AuditLog(zxid=500)
    partial.commit("g", ("t", 0), 5, A)

    assert unreadable.find(offset_of_missing_partition) == []
    assert partial.find(offset_of_missing_partition) == []


def test_an_owner_of_a_missing_partition_is_no_offset() -> None:
    """That is another finding."""
    log = AuditLog()
    log.claim("g", ("never", 0), "g_a-0", A)

    assert log.find(offset_of_missing_partition) == []
