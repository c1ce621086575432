"""Follows which session has which ephemerals: before 3.6 the record of its end does not say what goes with
it."""

from __future__ import annotations

from typing import Final

from zkgroup.zkfiles.records import CREATES, DELETES, Transaction, TransactionType

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
