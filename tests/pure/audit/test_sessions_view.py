"""One row a session, as people ask for them."""

from __future__ import annotations

import pytest

from tests.worlds.audit_log import START_MS, AuditLog
from tests.worlds.record_by_record import events_of
from tests.worlds.screened_findings import rows_of_events
from zkgroup.audit.answers.reading import session_views
from zkgroup.audit.answers.sessions import SessionRow
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.source import SeenTree
from zkgroup.zkfiles.records import Operation, TransactionType
from zkgroup.zkfiles.tree import Tree

A, B, C = 0x100_0000_0000_000A, 0x200_0000_0000_000B, -0x5F00_0000_0000_0005


def rows_of(events: list[Event]) -> list[SessionRow]:
    seen = SeenTree(Tree(digests=False), 0, None, True, False, "")
    return session_views(rows_of_events(lambda: events, seen))[1]


@pytest.mark.parametrize("with_lists", [True, False])
def test_a_session_is_listed_from_its_start_to_its_end(with_lists: bool) -> None:
    """What it was, what it wrote, how silent it was, and what went with it."""
    log = AuditLog(with_lists=with_lists)
    opened = log.open(A, timeout_ms=6_000)
    log.join("g", "g_a", A)
    log.claim("g", ("t", 0), "g_a-0", A)
    log.claim("g", ("t", 1), "g_a-0", A)
    log.release("g", ("t", 0), A)
    log.fail(A)
    log.multi(A, log.creation("/x"), log.creation("/y"))
    log.wait(7_000)
    ended = log.expire(A)

    (row,) = rows_of(log.events())

    assert row == SessionRow(
        session=A,
        server=1,
        timeout_ms=6_000,
        from_zxid=opened,
        from_ms=START_MS,
        to_zxid=ended,
        to_ms=START_MS + 7_000,
        ended="expired",
        writes=6,
        silence_ms=7_000,
        ephemerals=2,
        created=3,
        members=(("g", "g_a"),),
        brokers=(),
        was_controller=False,
    )


def test_closed_open_and_older_sessions() -> None:
    """Those from before the log come first; an open one has what it has at the end."""
    log = AuditLog(zxid=100)
    log.seed("/brokers/ids/7", "{}", zxid=5, session=C)
    log.seed("/controller", "{}", zxid=6, session=C)
    log.open(A)
    log.close(A)
    log.open(B)
    log.claim("g", ("t", 0), "g_b-0", B)
    log.claim("g", ("t", 1), "g_b-0", B)
    log.wait(1_000)
    log.delete("/consumers/g/owners/t/1", 0xD)
    events = list(events_of(log.transactions, log.seeds, sessions={C: 9_000}))

    older, stranger, closed, living = rows_of(events)

    assert (older.session, older.server, older.timeout_ms) == (C, 0xA0, 9_000)
    assert (older.from_zxid, older.from_ms, older.ended) == (None, None, "open")
    assert (older.writes, older.silence_ms, older.ephemerals, older.created) == (0, None, 2, 2)
    assert (older.brokers, older.was_controller) == (("7",), True)
    assert (stranger.session, stranger.writes, stranger.from_zxid) == (0xD, 1, None)
    assert (closed.session, closed.ended, closed.ephemerals, closed.writes) == (A, "closed", 0, 0)
    assert (living.session, living.ended, living.ephemerals, living.created) == (B, "open", 1, 2)
    assert living.silence_ms == 1_000


def test_only_ephemerals_that_stand_are_a_sessions() -> None:
    """Not what is persistent, nor what a refused multi would have made; one that it failed to drop stays."""
    log = AuditLog()
    log.come("g", "g_a", A)
    log.create("/persistent", "", A)
    failed = Operation(TransactionType.ERROR, error=-103)
    log.multi(A, log.creation("/never", ephemeral=True), failed)
    log.multi(A, log.deletion("/consumers/g/ids/g_a"), failed)

    (row,) = rows_of(log.events())

    assert (row.ended, row.created, row.ephemerals) == ("open", 1, 1)
