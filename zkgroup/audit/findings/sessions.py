"""Findings about sessions: their ends, sessions that load the servers, and znodes that no session holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from zkgroup.audit.findings import rules
from zkgroup.audit.findings.rules import Bounds, Finding, FullWindow, KeyRows, Rule, Screen, Severity
from zkgroup.audit.inputs import events
from zkgroup.audit.inputs.facts import Facts, client, members_of, only_group, server_of
from zkgroup.model.text import counted, duration_text, hex_session
from zkgroup.znodes.paths import Kind, path_kind
from zkgroup.znodes.sessions import effect_without_session, lacks_session

if TYPE_CHECKING:
    from zkgroup.audit.findings.tables import ScreenTables, Selection

_NO_NODE: Final = -101
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000


def _sessions(op: int, *, are_without: bool = False) -> Screen:
    """Keeps the sessions that have such a row, or have none; most of their commits are left out."""

    def screen(tables: ScreenTables, bounds: Bounds) -> Selection:
        rows = tables.sessions
        have_one = rows.keys_with(tables.columns.op[rows.rows] == op)
        return rows.of_keys(~have_one if are_without else have_one)

    return screen


def _of_full_window(name: str, session: int, full: FullWindow, detail: str, facts: Facts) -> Finding:
    place = (only_group(facts, session), None, None)
    return Finding.between(name, "warning", full.first, full.last, detail, place, session)


@Rule(
    question="Which sessions expired, and which closed and took ephemerals with them?",
    act="An expiry: the process died, was paused (garbage collection, a stopped machine) or was cut off for"
    " as long as its timeout. Silence well above the timeout is normal for a session that only reads.",
    keys=events.BY_SESSION,
    screen=_sessions(events.CLOSE_SESSION),
)
def session_end(rows: KeyRows, key: events.Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """The ends of sessions that had ephemerals, or that expired.

    A warning where a session expired and its member registered again: the member had been paused, cut off or
    killed, and until then did not know that it owned nothing.
    """
    session = int(key[0])
    life = facts.sessions.get(session)
    end_zxid, timeout_ms = (None, None) if life is None else (life.to_zxid, life.timeout_ms)
    last: events.Event | None = None  # the last row of the session itself
    close: events.Event | None = None
    lost = 0
    for event in rows:
        if event.op == "closeSession":
            close = event
        elif event.zxid == end_zxid:
            lost += event.op == "delete"
        elif not event.seed:
            last = event
    if close is None or (close.cxid and not lost):
        return
    silence = " without a write in this history"
    if last is not None:
        timeout = f" (timeout {duration_text(timeout_ms)})" if timeout_ms is not None else ""
        silence = f" {duration_text(close.time_ms - last.time_ms)} after its last write{timeout}"
    detail = (
        f"{client(facts, session)} {'closed' if close.cxid else 'expired'}{silence};"
        f" {counted(lost, 'ephemeral')} went with it"
    )
    back_ms = None if close.cxid else _back_after_ms(facts, close)
    if back_ms is not None:
        detail += f"; the member registered again {duration_text(back_ms)} later"
    severity: Severity = "info" if back_ms is None else "warning"
    yield Finding.at("session_end", severity, close, detail, (only_group(facts, session), None, None))


def _back_after_ms(facts: Facts, close: events.Event) -> int | None:
    """The time from the end of a session to a new registration of a member of it; None where none came."""
    times = []
    for lives in facts.members.values():
        paths = {life.path for life in lives if life.session == close.session}
        times += [life.from_ms for life in lives if life.path in paths and life.from_zxid > close.zxid]
    return max(min(times) - close.time_ms, 0) if times else None


@Rule(
    question="Which sessions are kept alive for days without an ephemeral and without a write?",
    needs=("tree", "log"),
    act="A client that only reads has such a session and is fine. Many of them are clients that open sessions"
    " and never close them: `zkgroup session` names the address of each.",
    keys=events.BY_SESSION,
    bounds={"idle_ms": 3 * 86_400_000},
    screen=_sessions(events.CLOSE_SESSION, are_without=True),
)
def session_leak(rows: KeyRows, key: events.Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Sessions that live without writing anything.

    Each is reported with the server that issued it, and how many sessions of that server live: a leak is
    often one client's, and a client stays with a server.
    """
    ephemerals: set[str] = set()
    last: events.Event | None = None
    is_over = False
    for event in rows:
        if event.op == "closeSession":
            is_over = True
        elif event.op == "create" and event.ephemeral == "session" and event.applied:
            ephemerals.add(event.path)
        elif event.op == "delete" and event.applied:
            ephemerals.discard(event.path)
        if not event.seed:
            last = event
    if is_over or ephemerals or not facts.has_log:
        return
    zxid, since_ms = (facts.start_zxid, facts.start_ms) if last is None else (last.zxid, last.time_ms)
    idle_ms = facts.end_ms - since_ms
    if idle_ms <= bounds["idle_ms"]:
        return
    session = int(key[0])
    server = server_of(session)
    of_server = counted(facts.open_by_server.get(server, 0), "open session")
    detail = (
        f"session {hex_session(session)}, issued by server {server} ({of_server} of it),"
        f" has no ephemeral and wrote nothing for {duration_text(idle_ms)}"
        f"{' at least' if last is None else ''}"
    )
    yield Finding("session_leak", "warning", session=session, from_zxid=zxid, from_ms=since_ms, detail=detail)


@Rule(
    question="Which members kept running into owner znodes of others?",
    act="The log does not say which znode it was. `audit owners` shows who held the group's partitions then:"
    " an owner of another group that stays, or members that do not agree about the assignment.",
    keys=events.BY_SESSION,
    bounds={"per_minute": 10},
    screen=_sessions(events.ERROR),
)
def failed_claims(rows: KeyRows, key: events.Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Members that fail again and again to create owner znodes, because other owners have them."""
    session = int(key[0])
    for full in rules.full_windows(_contentions(rows), int(bounds["per_minute"]), _MINUTE_MS):
        if members_of(facts, session):
            lasted = duration_text(full.last.time_ms - full.first.time_ms)
            detail = f"{full.times} requests of {client(facts, session)} failed in {lasted}"
            yield _of_full_window(
                "failed_claims", session, full, f"{detail} because the znode existed", facts
            )


def _contentions(rows: KeyRows) -> Iterator[events.Event]:
    """Yields requests that failed because a znode existed, if that is not a parent.

    A create below a missing parent fails, and a JVM client then creates the parents one by one, those
    that exist too: a refusal right behind a missing node is such a parent. Of a failed multi the first
    specific error is the cause; those after it only mean that they were not tried.
    """
    before: events.Event | None = None
    for event in rows:
        if event.op == "error" and event.error == events.NODE_EXISTS and not _is_parent(event, before):
            yield event
        before = event


def _is_parent(event: events.Event, before: events.Event | None) -> bool:
    if event.sub != events.SINGLE or before is None:
        return False
    return before.error == _NO_NODE and before.sub == events.SINGLE and before.cxid + 1 == event.cxid


@Rule(
    question="Which sessions create and delete ephemerals all the time, and which that had some lived for"
    " less than a minute?",
    act="Each of these is a write for every server, and most fire watches. Look for rebalances that do not"
    " end (rebalance_storm) and for clients that open a session for each thing they do.",
    keys=events.BY_SESSION,
    bounds={"per_hour": 3_600, "short_ms": 60_000},
    screen=lambda tables, bounds: tables.sessions,
)
def ephemeral_churn(rows: KeyRows, key: events.Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Sessions that create and delete ephemerals all the time, or live for moments only."""
    session = int(key[0])
    changes = list(_own_ephemerals(rows))
    for full in rules.full_windows(changes, int(bounds["per_hour"]), _HOUR_MS):
        lasted = duration_text(full.last.time_ms - full.first.time_ms)
        detail = f"{client(facts, session)} created and deleted ephemerals {full.times} times in {lasted}"
        yield _of_full_window("ephemeral_churn", session, full, detail, facts)
    created = sum(event.op == "create" for event in changes)
    life = facts.sessions.get(session)
    if not created or life is None or life.from_ms is None or life.to_ms is None:
        return
    if life.to_ms - life.from_ms < bounds["short_ms"]:
        detail = (
            f"{client(facts, session)} lived for {duration_text(life.to_ms - life.from_ms)} and made"
            f" {counted(created, 'ephemeral')}"
        )
        place = (only_group(facts, session), None, None)
        yield Finding.during("ephemeral_churn", "info", life, detail, place, session)


def _own_ephemerals(rows: KeyRows) -> Iterator[events.Event]:
    mine: set[str] = set()  # those that other sessions delete stay in it
    for event in rows:
        if event.seed or not event.applied:
            continue
        if event.op == "create" and event.ephemeral == "session":
            mine.add(event.path)
            yield event
        elif event.op == "delete" and event.path in mine:
            mine.discard(event.path)
            yield event


_KINDS: Final[frozenset[Kind]] = frozenset(("member", "owner", "group", "broker", "controller", "other"))


def _of_session(event: events.Event) -> events.Key | None:
    if not event.applied or event.op not in ("create", "delete") or path_kind(event.path).kind not in _KINDS:
        return None
    return None if effect_without_session(event.path) is None else (event.path,)


BY_SESSION_ZNODE: Final = events.Keys("session_znode", _of_session, _KINDS)
"""The creates and deletes of each znode that belongs to a session; key: its path."""


@Rule(
    severity="error",
    question="Is there a persistent znode where sessions belong?",
    needs=("tree",),
    act="Every client takes what it says for alive, and it never ends by itself: it came with a backup that"
    " was restored, or another tool wrote it. `zkgroup doctor --fix` shows what it would remove, and"
    " with `--execute` removes exactly such znodes; live brokers and members then make their own.",
    keys=BY_SESSION_ZNODE,
    screen=lambda tables, bounds: tables.made_persistent(BY_SESSION_ZNODE),
)
def persistent_znode(rows: KeyRows, key: events.Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A znode that belongs to a session but is persistent: its `ephemeralOwner` is 0.

    So are `/controller`, `/brokers/ids/<id>`, registrations, owners and views of a group, and what zkgroup's
    controllers register, in a tree that was restored from a backup. A row for each such znode, from its
    create to its delete. `/controller` of a migration to KRaft is rightly persistent, and one that is
    deleted in the transaction of its create is not reported: `group nudge` and `broker forget` make such.
    """
    made: events.Event | None = None
    for event in rows:
        if made is not None and made.zxid != event.zxid:
            yield _persistent(made, event)
        is_one = event.op == "create" and event.ephemeral != "session"
        made = event if is_one and lacks_session(event.path, 0, event.data) else None
    if made is not None:
        yield _persistent(made, None)


def _persistent(made: events.Event, end: events.Event | None) -> Finding:
    detail, place = persistent_text(made.path), rules.place_of(made.path)
    return Finding.between("persistent_znode", "error", made, end, detail, place)


def persistent_text(path: str) -> str:
    """What a znode that should be ephemeral does, in words."""
    return f"{path} is persistent, so it ends with no session: {effect_without_session(path)}"
