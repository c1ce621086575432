"""From the records of a log and the znodes of a snapshot to rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from zkgroup.audit.events import SINGLE, Event, Lifetime, Op
from zkgroup.zkfiles.ephemerals import Ephemerals
from zkgroup.zkfiles.lifetimes import lifetime_of
from zkgroup.zkfiles.records import (
    CREATES,
    DELETES,
    SETS,
    Operation,
    StoredZnode,
    Transaction,
    TransactionType,
)

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
        self._below = f"{chroot}/"
        self._ephemerals = Ephemerals()

    def seeds(self, znodes: Iterable[StoredZnode], sessions: Mapping[int, int]) -> Iterator[Event]:
        for session, timeout_ms in sorted(sessions.items()):
            yield Event(0, SINGLE, 0, session, 0, "createSession", "", timeout_ms=timeout_ms, seed=True)
        for znode in sorted(znodes, key=lambda each: (each.stat.czxid, each.path)):
            stat = znode.stat
            lifetime = lifetime_of(stat.ephemeral_owner)
            session = stat.ephemeral_owner if lifetime == "session" else 0
            if session:
                self._ephemerals.created(znode.path, session)
            path = self._inside(znode.path)
            if path is not None and path != "/":
                yield Event(
                    stat.czxid,
                    SINGLE,
                    stat.ctime,
                    session,
                    0,
                    "create",
                    path,
                    znode.data,
                    stat.version,
                    lifetime,
                    seed=True,
                    acl=znode.acl,
                    mtime_ms=stat.mtime,
                )

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
        path = self._inside(whole)
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
        for sub, each in enumerate(self._ephemerals.closed(transaction)):
            path = self._inside(each)
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

    def _inside(self, path: str) -> str | None:
        """The path as clients of the chroot see it; None outside, and the empty one stays."""
        if not self._chroot or not path:
            return path
        if path.startswith(self._below):
            return path[len(self._chroot) :]
        return "/" if path == self._chroot else None
