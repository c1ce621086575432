"""The lives of znodes in a history, and which session has which ephemerals.

Before 3.6 the record of a session's end does not say what goes with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from zkgroup.zkfiles.lifetimes import Lifetime, lifetime_of, owner_of
from zkgroup.zkfiles.records import CREATES, DELETES, Operation, StoredZnode, Transaction, TransactionType

_CLOSE_SESSION: Final = int(TransactionType.CLOSE_SESSION)


class Ephemerals:
    """Kept up to date by telling it what happens, in the order of zxids."""

    def __init__(self) -> None:
        self._paths: dict[int, set[str]] = {}
        self._sessions: dict[str, int] = {}

    def created(self, path: str, session: int) -> None:
        """An ephemeral of that session stands there from now on."""
        self.deleted(path)
        self._sessions[path] = session
        self._paths.setdefault(session, set()).add(path)

    def deleted(self, path: str) -> None:
        """Nothing stands there any more; a path of no ephemeral is passed over."""
        session = self._sessions.pop(path, None)
        if session is not None:
            self._paths[session].discard(path)

    def closed(self, transaction: Transaction) -> tuple[str, ...]:
        """The paths that go with a closeSession: those in its record first, then what else is its, sorted."""
        named = transaction.closed_paths or ()
        for path in named:
            self.deleted(path)
        return (*named, *self.ended(transaction.session))

    def ended(self, session: int) -> list[str]:
        """Returns what a session still has when it ends, sorted; it has nothing then."""
        left = sorted(self._paths.pop(session, ()))
        for path in left:
            del self._sessions[path]
        return left

    def follow(self, transaction: Transaction) -> tuple[str, ...]:
        """Takes in a whole transaction; the paths that go where it is a closeSession, else none."""
        if transaction.type == _CLOSE_SESSION:
            return self.closed(transaction)
        if transaction.is_applied:
            for operation in transaction.operations:
                if operation.path is None:
                    continue
                if operation.type in CREATES and operation.is_ephemeral:
                    self.created(operation.path, transaction.session)
                elif operation.type in DELETES:
                    self.deleted(operation.path)
        return ()


Ending = Literal["release", "session_end", "deleted_by_other", "server", "unknown", "open"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ZnodeLife:
    """One existence of a path, from its create to its delete."""

    path: str
    from_zxid: int | None
    """None where the create is not in the files, and no snapshot shows the znode."""
    from_ms: int | None = None
    """The leader's clock, since 1970."""
    creator: int | None = None
    """The session that created it; None where the files begin later. An ephemeral's creator is its owner."""
    owner: int = 0
    """The ephemeralOwner as it is stored; 0 for a persistent znode."""
    data: bytes | None = None
    """Holds what it was created with; where the files begin later, what the snapshot has."""
    to_zxid: int | None = None
    """None while it lives, and so are the others about its end."""
    to_ms: int | None = None
    ended_by: Ending = "open"
    """`release`: deleted by the session that owns it, or, of a persistent one, that created it.
    `session_end`: went with its owner. `server`: a container or a time to live ran out.
    `unknown`: it was created anew, and the record of its end is missing."""
    ender: int | None = None
    """The session that deleted it, or that ended."""
    is_synthetic: bool = False
    """True if no record names the end: an ephemeral that went with its session, before 3.6."""

    @property
    def lifetime(self) -> Lifetime | None:
        """Returns what ends it; None for a persistent znode."""
        return lifetime_of(self.owner)


def lives_of(
    path: str,
    transactions: Iterable[Transaction],
    seed: StoredZnode | None = None,
    first_zxid: int | None = None,
) -> Iterator[ZnodeLife]:
    """The lives in order, the one that lasts to the end last.

    `seed` is the znode in the earliest snapshot, which may be later than `first_zxid`, the first of the
    transactions: one that was created since then is among the transactions too.
    """
    living: ZnodeLife | None = None
    if seed is not None and (first_zxid is None or seed.stat.czxid < first_zxid):
        owner = seed.stat.ephemeral_owner
        living = ZnodeLife(
            path=path,
            from_zxid=seed.stat.czxid,
            from_ms=seed.stat.ctime,
            creator=owner if lifetime_of(owner) == "session" else None,
            owner=owner,
            data=seed.data,
        )
    for transaction in transactions:
        if transaction.type == TransactionType.CLOSE_SESSION:
            ended = _closed(living, path, transaction)
            if ended is not None:
                yield ended
                living = None
        elif transaction.is_applied:
            for operation in transaction.operations:
                if operation.path != path:
                    continue
                if operation.type in CREATES:
                    if living is not None:
                        yield replace(living, ended_by="unknown")
                    living = _born(operation, transaction)
                elif operation.type in DELETES:
                    yield _deleted(living or ZnodeLife(path=path, from_zxid=None), operation, transaction)
                    living = None
    if living is not None:
        yield living


def _born(operation: Operation, transaction: Transaction) -> ZnodeLife:
    return ZnodeLife(
        path=operation.path or "/",
        from_zxid=transaction.zxid,
        from_ms=transaction.time_ms,
        creator=transaction.session,
        owner=owner_of(operation, transaction.session),
        data=operation.data,
    )


def _deleted(life: ZnodeLife, operation: Operation, transaction: Transaction) -> ZnodeLife:
    ended_by: Ending = "deleted_by_other"
    if operation.type == TransactionType.DELETE_CONTAINER:
        ended_by = "server"
    elif life.creator == transaction.session:
        ended_by = "release"
    return _ended(life, transaction, ended_by)


def _closed(life: ZnodeLife | None, path: str, transaction: Transaction) -> ZnodeLife | None:
    """The life that a closeSession ends: by its list, or before 3.6 because the owner is gone."""
    listed = path in (transaction.closed_paths or ())
    if life is None:
        return _ended(ZnodeLife(path=path, from_zxid=None), transaction, "session_end") if listed else None
    if not listed and (life.lifetime != "session" or life.owner != transaction.session):
        return None
    return replace(_ended(life, transaction, "session_end"), is_synthetic=not listed)


def _ended(life: ZnodeLife, transaction: Transaction, ended_by: Ending) -> ZnodeLife:
    return replace(
        life,
        to_zxid=transaction.zxid,
        to_ms=transaction.time_ms,
        ended_by=ended_by,
        ender=transaction.session,
    )
