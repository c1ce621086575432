"""From records to rows: multis, closes, failures, seeds, chroots."""

from __future__ import annotations

import pytest

from tests.worlds.audit_folders import HEALTHY, INCIDENTS, folder, source
from tests.worlds.audit_log import START_MS, AuditLog
from tests.worlds.record_by_record import events_of
from tests.worlds.screened_findings import events_in
from zkgroup.audit.events import Event
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.records import Operation, StoredStat, StoredZnode, Transaction, TransactionType

MULTI, CREATE, SET = TransactionType.MULTI, TransactionType.CREATE, TransactionType.SET_DATA


def _places(events: list[Event]) -> list[tuple[int, int, str, str]]:
    return [(event.zxid, event.sub, event.op, event.path) for event in events]


def test_a_multi_is_opened_in_its_order_and_a_single_operation_stands_alone() -> None:
    """Operations of a multi are rows 0, 1, 2 of its zxid; a single operation is row -1."""
    log = AuditLog()
    log.create("/a", "1", 7)
    log.multi(
        7, log.setting("/a", "2"), Operation(TransactionType.CHECK, "/a", version=2), log.deletion("/a")
    )

    first, *others = log.events()

    assert first == Event(1, -1, START_MS, 7, 1, "create", "/a", b"1", 0)
    assert _places(others) == [(2, 0, "set", "/a"), (2, 1, "check", "/a"), (2, 2, "delete", "/a")]
    assert [event.version for event in others] == [1, 2, None]
    assert all(event.applied for event in others)


def test_a_multi_that_failed_has_its_rows_but_changes_nothing() -> None:
    """Its ephemerals never were: the close takes nothing with it."""
    log = AuditLog()
    log.multi(
        7,
        log.creation("/a", "1", ephemeral=True),
        Operation(TransactionType.ERROR, error=-110),
        Operation(TransactionType.ERROR, error=-2),
    )
    log.close(7)

    created, refused, _, closed = log.events()

    assert (created.op, created.path, created.applied) == ("create", "/a", False)
    assert (refused.op, refused.path, refused.error, refused.applied) == ("error", "", -110, False)
    assert (closed.op, closed.cxid) == ("closeSession", 9)


def test_a_single_request_that_failed_has_a_session_and_a_code_only() -> None:
    """A refused request is one row with session and error code, without a path, and not applied."""
    log = AuditLog()
    log.fail(7, -101)

    (row,) = log.events()

    assert (row.op, row.session, row.path, row.error, row.applied) == ("error", 7, "", -101, False)


def test_before_3_6_the_ephemerals_of_a_close_are_made_up_by_path() -> None:
    """A close without a list gets a synthetic deletion, by path, of each ephemeral still the session's."""
    log = AuditLog()
    for path in ("/b", "/a", "/c", "/d"):
        log.create(path, "", 7, ephemeral=True)
    log.create("/other", "", 8, ephemeral=True)
    log.create("/lasting", "", 7)
    log.delete("/d", 8)
    zxid = log.expire(7)

    rows = [event for event in log.events() if event.zxid == zxid]

    assert _places(rows) == [
        (zxid, -1, "closeSession", ""),
        (zxid, 0, "delete", "/a"),
        (zxid, 1, "delete", "/b"),
        (zxid, 2, "delete", "/c"),
    ]
    assert [(row.synthetic, row.cxid, row.session) for row in rows[1:]] == [(True, 0, 7)] * 3


def test_from_3_6_on_the_record_lists_them_and_what_it_lacks_goes_too() -> None:
    """In the order of the record, as a server deletes them (DataTree.killSession of 3.6)."""
    log = AuditLog()
    for path in ("/a", "/b", "/c"):
        log.create(path, "", 7, ephemeral=True)
    log.write(TransactionType.CLOSE_SESSION, 7, closed_paths=("/c", "/a"))

    rows = log.events()[4:]

    assert [(row.sub, row.path, row.synthetic) for row in rows] == [
        (0, "/c", False),
        (1, "/a", False),
        (2, "/b", True),
    ]


def test_a_path_that_was_made_again_goes_with_its_new_session_only() -> None:
    """A path that session 7 deleted and session 8 made again goes with the close of 8, not of 7."""
    log = AuditLog()
    log.create("/a", "", 7, ephemeral=True)
    log.delete("/a", 7)
    log.create("/a", "", 8, ephemeral=True)
    log.close(7)
    last = log.close(8)

    assert [event.zxid for event in log.events() if event.synthetic] == [last]


def test_seeds_come_first_by_czxid_and_close_with_their_session() -> None:
    """Seeds come before the log by czxid, and an ephemeral among them goes when its session closes."""
    log = AuditLog(zxid=100)
    log.seed("/late", "2", zxid=9, session=7)
    log.seed("/early", "1", zxid=3, ms=5, mtime_ms=8, version=4)
    closed = log.close(7)

    early, late, close, gone = log.events()

    assert (early.zxid, early.path, early.time_ms, early.mtime_ms, early.version) == (3, "/early", 5, 8, 4)
    assert (late.path, late.session, late.ephemeral, late.seed) == ("/late", 7, "session", True)
    assert (close.op, gone.zxid, gone.path, gone.synthetic) == ("closeSession", closed, "/late", True)


def test_containers_and_times_to_live_have_no_session() -> None:
    """Container and TTL znodes are kinds of their own, and no ephemerals of a session."""
    stat = StoredStat(1, 1, 0, 0, 0, 0, 0, -(1 << 63), 1)
    seeds = [StoredZnode("/container", b"", None, stat)]
    records = [
        Transaction(
            5, 7, 1, 0, TransactionType.CREATE_TTL, (Operation(TransactionType.CREATE_TTL, "/t", b""),)
        )
    ]

    container, ttl = events_of(records, seeds)

    assert (container.ephemeral, container.session) == ("container", 0)
    assert (ttl.ephemeral, ttl.op, ttl.session) == ("ttl", "create", 7)


def test_the_sessions_of_a_snapshot_come_before_everything() -> None:
    """Sessions of a snapshot are rows at zxid 0, by their number, with their timeouts."""
    first, second = events_of([], [], sessions={9: 6000, 4: 30000})

    assert (first.op, first.zxid, first.session, first.timeout_ms, first.seed) == (
        "createSession",
        0,
        4,
        30000,
        True,
    )
    assert second.session == 9


def test_a_chroot_is_stripped_and_what_is_outside_left_out() -> None:
    """Rows without a path stay: nobody knows what they were about."""
    log = AuditLog()
    log.create("/ch", "", 7)
    log.create("/ch/a", "1", 7, ephemeral=True)
    log.create("/chroot", "", 7, ephemeral=True)
    log.fail(7)
    log.close(7)

    rows = list(events_of(log.transactions, (), "/ch"))

    assert [(row.op, row.path) for row in rows] == [
        ("create", "/"),
        ("create", "/a"),
        ("error", ""),
        ("closeSession", ""),
        ("delete", "/a"),
    ]


def test_records_of_a_type_that_is_not_known_are_passed_over() -> None:
    """A record of type 99, which no server writes, gives no row and no error."""
    assert list(events_of([Transaction(1, 7, 1, 0, 99, (Operation(99, "/a"),))])) == []


@pytest.mark.parametrize("name", [*HEALTHY, INCIDENTS])
def test_rows_of_real_servers_rise_and_make_the_tree_that_they_serve(name: str) -> None:
    """Replayed one by one, creations and deletions leave exactly the paths of the last tree."""
    events = events_in(source(name).rows())
    paths: set[str] = set()
    for event in events:
        if event.applied and event.op == "create":
            assert event.path not in paths
            paths.add(event.path)
        elif event.applied and event.op == "delete":
            paths.remove(event.path)

    assert [(event.zxid, event.sub) for event in events] == sorted((each.zxid, each.sub) for each in events)
    served = {each for each in History(folder(name)).tree_at().tree.paths() if each != "/"}
    # Of the servers' own subtree a history that begins with nothing does not know the dialect.
    assert {each for each in paths ^ served if not each.startswith("/zookeeper/")} == set()
