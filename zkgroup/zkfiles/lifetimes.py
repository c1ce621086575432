"""The end of a znode by its ephemeralOwner: with a session, as a container, after a time to live, or never.

Source: EphemeralType.java@3.9. Whether a server took owners from 0xff00... on for times to live depends on a
setting that no file holds (`extendedTypesEnabled`). A session id of server 255 has parts of a clock in the 16
bits below the top byte, a time to live has zeros there, so these distinguish them.

Before 3.6 the record of a session's end does not say what goes with it: `Ephemerals` does.
"""

from __future__ import annotations

from typing import Final, Literal

from zkgroup.zkfiles.records import CREATES, DELETES, Operation, Transaction, TransactionType

Lifetime = Literal["session", "container", "ttl"]

CONTAINER_OWNER: Final = -(2**63)
_TTL_BASE: Final = -(2**56)
"""0xff00000000000000 as a signed number: what a time to live is added to."""
_TTL_BITS: Final = 2**40
_CREATE_CONTAINER: Final = int(TransactionType.CREATE_CONTAINER)
_CLOSE_SESSION: Final = int(TransactionType.CLOSE_SESSION)


def lifetime_of(owner: int) -> Lifetime | None:
    """The lifetime of a znode with this ephemeralOwner (signed); None for a persistent one."""
    if owner == 0:
        return None
    if owner == CONTAINER_OWNER:
        return "container"
    return "ttl" if _TTL_BASE <= owner < _TTL_BASE + _TTL_BITS else "session"


def owner_of(create: Operation, session: int) -> int:
    """The ephemeralOwner of the znode that a create by this session makes."""
    if create.type == _CREATE_CONTAINER:
        return CONTAINER_OWNER
    if create.ttl_ms is not None:
        return _TTL_BASE + create.ttl_ms
    return session if create.is_ephemeral else 0


class Ephemerals:
    """Kept up to date by telling it what happens, in the order of zxids."""

    def __init__(self) -> None:
        self._paths: dict[int, set[str]] = {}
        self.sessions: dict[str, int] = {}
        """By path, the session of each that there is."""

    def created(self, path: str, session: int) -> None:
        """An ephemeral of that session stands there from now on."""
        self.deleted(path)
        self.sessions[path] = session
        self._paths.setdefault(session, set()).add(path)

    def deleted(self, path: str) -> None:
        """Nothing stands there any more; a path of no ephemeral is passed over."""
        session = self.sessions.pop(path, None)
        if session is not None:
            self._paths[session].discard(path)

    def ended(self, session: int) -> list[str]:
        """The paths that a session still has when it ends, sorted; it has nothing then."""
        left = sorted(self._paths.pop(session, ()))
        for path in left:
            del self.sessions[path]
        return left

    def follow(self, transaction: Transaction) -> tuple[str, ...]:
        """Takes in a whole transaction; the paths that go with it where it is a closeSession, else none.

        Those in its record come first, then what else is the session's, sorted.
        """
        if transaction.type == _CLOSE_SESSION:
            named = transaction.closed_paths or ()
            for path in named:
                self.deleted(path)
            return (*named, *self.ended(transaction.session))
        if transaction.is_applied:
            for operation in transaction.operations:
                if operation.path is None:
                    continue
                if operation.type in CREATES and operation.is_ephemeral:
                    self.created(operation.path, transaction.session)
                elif operation.type in DELETES:
                    self.deleted(operation.path)
        return ()
