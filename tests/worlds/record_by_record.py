"""What columns tell, row by row: rows of a history, sessions, groups, and the checks of all records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from zkgroup.audit.answers.partitions import GroupPartition, SessionRow, by_beginning, session_row
from zkgroup.audit.findings.files import KEPT, RecordChecks, Step
from zkgroup.audit.inputs.events import SINGLE, Event, Lifetime, Op, is_of_groups, seed_of
from zkgroup.audit.inputs.facts import Facts, SessionLife
from zkgroup.audit.inputs.opening import Folders
from zkgroup.audit.inputs.source import PointInTime, Source
from zkgroup.history.transactions import gone_with
from zkgroup.model import TopicPartition
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.records import (
    CREATES,
    DELETES,
    SETS,
    Ephemerals,
    Operation,
    StoredZnode,
    Transaction,
    TransactionType,
    epoch_of,
    hole_between,
    inside_path,
    lifetime_of,
)
from zkgroup.znodes.paths import path_kind

_Note = TypeVar("_Note")


def checks_of(history: History) -> RecordChecks:
    """Those of all records."""
    checks = RecordChecks()
    for transaction in history.transactions():
        _see(checks, transaction)
    return checks


def _see(checks: RecordChecks, transaction: Transaction) -> None:
    zxid, ms = transaction.zxid, transaction.time_ms
    if transaction.digest is not None:
        if checks.first_digest is None:
            checks.first_digest = zxid
    elif transaction.type != TransactionType.ERROR:
        checks.without_digest += 1
    if checks.last is None:
        checks.first = zxid, ms
    else:
        step = Step(*checks.last, zxid, ms)
        if epoch_of(zxid) != epoch_of(step.from_zxid):
            _keep(checks.elections, step)
        if ms < step.from_ms:
            _keep(checks.steps_back, step)
        hole = hole_between(step.from_zxid, zxid)
        if hole is not None:
            _keep(checks.holes, (hole, step))
    checks.last = zxid, ms


def _keep(notes: list[_Note], note: _Note) -> None:
    if len(notes) < KEPT:
        notes.append(note)


def exact_rows(
    source: Source, start: PointInTime | None = None, end: PointInTime | None = None
) -> list[Event]:
    """The rows of folders, with the notes of what is missing."""
    assert isinstance(source, Folders)
    rows = source.rows(start, end)
    tree, last = rows.seen.tree, rows.seen.zxid
    stored = [one for path in tree.paths() if (one := tree.stored(path)) is not None]
    records = list(source.history.transactions(last + 1, rows.to_zxid))
    for record in records:
        hole = hole_between(last, record.zxid)
        if hole is not None:
            source._holes[hole] = None
        last = record.zxid
    events = list(events_of(records, stored, source.chroot, tree.sessions))
    source._note_chroot(is_empty=not any(event.path for event in events))
    return events


_OPS: Final[Mapping[int, Op]] = {
    **dict.fromkeys(CREATES, "create"),
    **dict.fromkeys(DELETES, "delete"),
    **dict.fromkeys(SETS, "set"),
    TransactionType.SET_ACL: "setACL",
    TransactionType.CHECK: "check",
    TransactionType.ERROR: "error",
}
_LIFETIMES: Final[Mapping[int, Lifetime]] = {
    TransactionType.CREATE_CONTAINER: "container",
    TransactionType.CREATE_TTL: "ttl",
}


def events_of(
    transactions: Iterable[Transaction],
    seeds: Iterable[StoredZnode] = (),
    chroot: str = "",
    sessions: Mapping[int, int] | None = None,
) -> Iterator[Event]:
    """The rows of a history, by zxid and place.

    Args:
        transactions: by zxid, none of them in the seeds already: a snapshot that was taken while writes went
            on holds later ones too, so the seeds have to be those of a tree at one zxid.
        seeds: what stood before the first transaction.
        chroot: the path that clients have as their root, without a slash at its end. Rows of other paths are
            left out, those without a path stay.
        sessions: the sessions of that snapshot with their timeouts, in milliseconds.
    """
    opening = _Opening(chroot)
    yield from opening.seeds(seeds, sessions or {})
    for transaction in transactions:
        yield from opening.rows(transaction)


class _Opening:
    """Opens multis and closes; keeps in mind only the ephemerals."""

    def __init__(self, chroot: str) -> None:
        self._chroot = chroot
        self._ephemerals = Ephemerals()

    def seeds(self, znodes: Iterable[StoredZnode], sessions: Mapping[int, int]) -> Iterator[Event]:
        for session, timeout_ms in sorted(sessions.items()):
            yield Event(0, SINGLE, 0, session, 0, "createSession", "", timeout_ms=timeout_ms, seed=True)
        for znode in sorted(znodes, key=lambda each: (each.stat.czxid, each.path)):
            owner = znode.stat.ephemeral_owner
            if lifetime_of(owner) == "session":
                self._ephemerals.created(znode.path, owner)
            path = inside_path(znode.path, self._chroot)
            if path is not None and path != "/":
                yield seed_of(znode, path)

    def rows(self, transaction: Transaction) -> Iterator[Event]:
        match transaction.type:
            case TransactionType.CREATE_SESSION:
                yield self._of_session(transaction, "createSession")
            case TransactionType.CLOSE_SESSION:
                yield self._of_session(transaction, "closeSession")
                yield from self._closed(transaction)
            case TransactionType.MULTI:
                for sub, operation in enumerate(transaction.operations):
                    yield from self._operation(transaction, sub, operation)
            case _:
                for operation in transaction.operations:
                    yield from self._operation(transaction, SINGLE, operation)

    def _operation(self, transaction: Transaction, sub: int, operation: Operation) -> Iterator[Event]:
        op = _OPS.get(operation.type)
        if op is None:
            return  # of a later server; the tree reader says so
        lifetime: Lifetime | None = "session" if operation.is_ephemeral else _LIFETIMES.get(operation.type)
        applied = transaction.is_applied
        whole = operation.path or ""
        if applied and op == "create" and lifetime == "session":
            self._ephemerals.created(whole, transaction.session)
        elif applied and op == "delete":
            self._ephemerals.deleted(whole)
        path = inside_path(whole, self._chroot)
        if path is not None:
            yield Event(
                transaction.zxid,
                sub,
                transaction.time_ms,
                transaction.session,
                transaction.cxid,
                op,
                path,
                operation.data,
                0 if op == "create" else operation.version,
                lifetime,
                error=operation.error,
                applied=applied,
                acl=operation.acl,
            )

    def _closed(self, transaction: Transaction) -> Iterator[Event]:
        """The ephemerals that go: those in the record first, as the servers do it, then any others."""
        named = len(transaction.closed_paths or ())
        for sub, each in enumerate(gone_with(self._ephemerals, transaction)):
            path = inside_path(each, self._chroot)
            if path is not None:
                yield Event(
                    transaction.zxid,
                    sub,
                    transaction.time_ms,
                    transaction.session,
                    transaction.cxid,
                    "delete",
                    path,
                    synthetic=sub >= named,
                )

    def _of_session(self, transaction: Transaction, op: Op) -> Event:
        return Event(
            transaction.zxid,
            SINGLE,
            transaction.time_ms,
            transaction.session,
            transaction.cxid,
            op,
            "",
            timeout_ms=transaction.timeout_ms,
        )


@dataclass(slots=True)
class SessionCounts:
    writes: int = 0
    last_ms: int | None = None
    created: int = 0
    lost: int = 0


class SessionRows:
    """Sees all rows of a history, in order."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._counts: dict[int, SessionCounts] = {}
        self._last: dict[int, int] = {}
        """Of each session the last zxid."""
        self._owners: dict[str, int] = {}
        """Of each ephemeral that lives, its session."""

    def see(self, event: Event) -> None:
        if event.session:
            counts = self._counts.setdefault(event.session, SessionCounts())
            is_next = self._last.get(event.session) != event.zxid
            _count(event, counts, self._facts.sessions.get(event.session), is_next)
            if not event.seed:
                self._last[event.session] = event.zxid
        if event.applied and event.op == "create" and event.ephemeral == "session":
            self._owners[event.path] = event.session
        elif event.applied and event.op == "delete":
            self._owners.pop(event.path, None)

    def rows(self) -> list[SessionRow]:
        """By the zxid of the creation; those from before come first."""
        living = Counter(self._owners.values())
        return by_beginning(
            self._row(life, living[session]) for session, life in self._facts.sessions.items()
        )

    def _row(self, life: SessionLife, living: int) -> SessionRow:
        counts = self._counts.get(life.session, SessionCounts())
        return session_row(
            life,
            self._facts,
            writes=counts.writes,
            last_ms=counts.last_ms,
            created=counts.created,
            ephemerals=living if life.to_zxid is None else counts.lost,
        )


def sessions_of(events: Iterable[Event], facts: Facts) -> list[SessionRow]:
    """Every session of a history, by the zxid of its creation; those from before come first."""
    rows = SessionRows(facts)
    for event in events:
        rows.see(event)
    return rows.rows()


def _count(event: Event, counts: SessionCounts, life: SessionLife | None, is_next: bool) -> None:
    if life is not None and event.zxid == life.to_zxid:
        counts.lost += event.op == "delete"
        return
    if event.op == "create" and event.ephemeral == "session" and event.applied:
        counts.created += 1
    if event.seed:
        return
    counts.last_ms = event.time_ms
    if event.op != "createSession" and is_next:
        counts.writes += 1


def rows_by_partition(events: Iterable[Event]) -> dict[GroupPartition, list[Event]]:
    """The rows of owners and offsets by partition, both in order."""
    found = defaultdict[GroupPartition, list[Event]](list)
    for event in events:
        place = path_kind(event.path)
        if place.kind in ("owner", "offset"):
            found[GroupPartition(place.name, TopicPartition(place.topic, place.partition))].append(event)
    return dict(sorted(found.items()))


def groups_of(events: Iterable[Event]) -> set[str]:
    """The names of all groups that were."""
    return {place.name for event in events if is_of_groups(place := path_kind(event.path))}


def rows_from(events: Iterable[Event], from_zxid: int) -> Iterator[Event]:
    """The rows from a transaction on, behind what stood before it."""
    seeds: dict[str | int, Event] = {}
    later = []
    for event in events:
        if event.zxid >= from_zxid and not event.seed:
            later.append(event)
        elif event.op in ("createSession", "closeSession"):
            _put(seeds, event.session, event)
        elif event.applied and event.path not in ("", "/"):
            _put(seeds, event.path, event)
    yield from sorted(seeds.values(), key=lambda seed: (seed.zxid, seed.path, seed.session))
    yield from later


def _put(seeds: dict[str | int, Event], key: str | int, event: Event) -> None:
    """What stands there behind a row, as a seed."""
    before = seeds.get(key)
    match event.op:
        case "createSession":
            seeds[key] = event._replace(zxid=0, sub=SINGLE, time_ms=0, cxid=0, seed=True)
        case "create":
            owner = event.session if event.ephemeral == "session" else 0
            mtime_ms = event.time_ms if event.mtime_ms is None else event.mtime_ms
            seeds[key] = event._replace(sub=SINGLE, session=owner, cxid=0, seed=True, mtime_ms=mtime_ms)
        case "set" if before is not None:
            seeds[key] = before._replace(data=event.data, version=event.version, mtime_ms=event.time_ms)
        case "setACL" if before is not None:
            seeds[key] = before._replace(acl=event.acl)
        case "delete" | "closeSession":
            seeds.pop(key, None)
