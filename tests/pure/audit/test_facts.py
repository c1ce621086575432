"""The facts of a history."""

from __future__ import annotations

import json

from tests.worlds.audit_log import START_MS, AuditLog, registration
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.facts import (
    DataChange,
    Facts,
    Life,
    Requested,
    SessionLife,
    facts_of,
    is_fact_path,
)
from zkgroup.zkfiles.records import Operation, TransactionType


def test_the_ends_of_a_history_are_its_first_record_and_its_latest_time() -> None:
    """The clock can step back, and seeds are from before."""
    log = AuditLog(zxid=50)
    log.seed("/a", zxid=3, ms=START_MS - 500)
    log.create("/b")
    log.wait(2_000)
    log.create("/c")
    log.wait(-1_000)
    log.create("/d")

    facts = log.facts()

    assert (facts.start_zxid, facts.start_ms) == (50, START_MS)
    assert (facts.end_zxid, facts.end_ms) == (52, START_MS + 2_000)
    assert facts.has_log


def test_a_snapshot_alone_ends_with_its_latest_write() -> None:
    """Without a log the history is whole, and ends at the latest zxid and write of the snapshot."""
    log = AuditLog()
    log.seed("/a", zxid=3, ms=100, mtime_ms=900)
    log.seed("/b", zxid=7, ms=500)

    facts = log.facts()

    assert (facts.has_log, facts.is_whole, facts.end_zxid, facts.end_ms) == (False, True, 7, 900)


def test_what_stood_before_is_known_from_seeds_or_from_the_first_record_ever() -> None:
    """Whole is what has seeds or starts at the first zxid of epoch 0 or 1; epoch 2 had one before it."""

    def whole(zxid: int, *, seeded: bool = False) -> bool:
        log = AuditLog(zxid=zxid)
        if seeded:
            log.seed("/a")
        log.create("/b")
        return log.facts().is_whole

    assert [whole(1), whole((1 << 32) + 1), whole(2), whole((2 << 32) + 1)] == [True, True, False, False]
    assert whole(2, seeded=True)


def test_lives_and_contents_of_what_findings_ask_for_are_kept() -> None:
    """Lives of controller, brokers and members, and writes of epoch and topics, are kept to the zxid."""
    log = AuditLog()
    log.open(1)
    log.create("/controller", "c1", 1, ephemeral=True)
    log.create("/controller_epoch", "1", 1)
    log.set("/controller_epoch", "2", 1)
    log.create("/brokers/ids/4", "b", 1, ephemeral=True)
    log.topic("t", 1)
    log.delete("/brokers/topics/t", 5)
    log.join("g", "g_a", 1)
    log.create("/brokers/topics/t/partitions", "")
    log.expire(1)

    facts = log.facts()

    assert facts.controllers == (Life("/controller", 1, b"c1", 2, START_MS, 10, START_MS, 1),)
    assert [(change.zxid, change.data) for change in facts.controller_epochs] == [(3, b"1"), (4, b"2")]
    assert [(life.from_zxid, life.to_zxid, life.ended_by) for life in facts.brokers["4"]] == [(5, 10, 1)]
    assert facts.topics["t"][-1] == DataChange(7, START_MS, 5, None)
    assert [life.data for life in facts.members["g"]] == [registration().encode()]
    assert set(facts.topics) == {"t"}


def test_moves_are_kept_as_long_as_they_are_asked_for() -> None:
    """Controllers write what is left of a request; one that cannot be read asks for nothing."""
    path = "/admin/reassign_partitions"
    log = AuditLog()

    def entries(*partitions: int) -> str:
        moves = [{"topic": "t", "partition": number, "replicas": [2]} for number in partitions]
        return json.dumps({"version": 1, "partitions": moves})

    asked = log.create(path, entries(0, 1))
    one_done = log.set(path, entries(1, 2))
    torn = log.set(path, "{")
    again = log.set(path, entries(2))
    log.delete(path)
    last = log.create(path, entries(5))

    assert log.facts().moves == {
        "t": (
            Requested(0, asked, one_done),
            Requested(1, asked, torn),
            Requested(2, one_done, torn),
            Requested(2, again, again + 1),
            Requested(5, last),
        )
    }


def test_lives_of_one_path_follow_each_other() -> None:
    """Two members that register twice each have four lives, in the order of their beginnings."""
    log = AuditLog()
    for session in (1, 2):
        log.join("g", "g_a", session)
        log.join("g", "g_b", session)
        log.leave("g", "g_a", session)
        log.close(session)

    lives = [(life.path[-1], life.from_zxid, life.to_zxid) for life in log.facts().members["g"]]

    assert lives == [("a", 1, 3), ("b", 2, 4), ("a", 5, 7), ("b", 6, 8)]


def test_what_failed_is_no_fact() -> None:
    """Of a refused request nothing is kept but that its session was there; of a multi neither."""
    log = AuditLog()
    log.fail(1)
    registered = log.creation("/consumers/g/ids/g_a", registration(), ephemeral=True)
    marked = log.creation("/consumers/g/resets/t-0", "{}")
    log.multi(1, registered, marked, Operation(TransactionType.ERROR, error=-103))

    facts = log.facts()

    assert facts.sessions == {1: SessionLife(1, None, None, None)}
    assert (facts.members, facts.operator_acts) == ({}, {})
    assert [event.path for event in log.events() if is_fact(event)] == []


def test_nothing_at_all_has_no_log() -> None:
    """No rows give facts that have no log and are not whole."""
    assert facts_of(()) == Facts(has_log=False, is_whole=False)


def is_fact(event: Event) -> bool:
    """Whether a row changes anything but the ends of the history and the mere existence of its session."""
    is_of_session = event.op in ("createSession", "closeSession")
    return is_of_session or (event.applied and is_fact_path(event.path))
