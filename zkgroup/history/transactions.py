"""Transactions that a ZooKeeper server accepted or refused, as plain values, and a reader of real logs.

In simulation they come from the memory server's log (`zkgroup.testing.memory_zookeeper.leader`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeVar

from zkgroup.errors import CorruptZnodeError, DamagedFileError, NotFoundError, NotZooKeeperFileError
from zkgroup.zkfiles.jute import OVERWRITTEN
from zkgroup.zkfiles.records import (
    CREATES,
    DELETES,
    SETS,
    Ephemerals,
    Operation,
    Transaction,
    TransactionType,
    hole_between,
)
from zkgroup.zkfiles.servers import EnsembleFiles

Action = Literal["create", "set", "delete", "check"]
ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class Change:
    """One operation of a transaction, with its outcome."""

    action: Action
    """`create`, `set`, `delete`, or `check` of a version."""
    path: str
    """The path of the znode, relative to the chroot."""
    data: bytes | None = None
    """Of a create or set."""
    version: int | None = None
    """The data version after a create or set."""
    ephemeral_owner: int = 0
    """Of a create: the session that an ephemeral belongs to, 0 for a persistent znode."""


@dataclass(frozen=True, slots=True)
class TransactionRefusal:
    """The refusal of a transaction: the path and ZooKeeper's code."""

    path: str
    """The path of the znode; empty if it is not known, as in logs of real servers."""
    code: str
    """ZooKeeper's name, as `BadVersion`."""


@dataclass(frozen=True, slots=True)
class ServerTransaction:
    """One entry of a server's log. Refused writes use up a zxid, too."""

    zxid: int
    """The zxid."""
    at_ms: int
    """On the members' clock where that is known (simulation), else the server's. Never used for order."""
    session: int
    """0 where a test wrote without a session."""
    changes: tuple[Change, ...]
    """As applied, in order (the end of a session deletes its ephemerals); as requested, when refused."""
    kind: Literal["write", "create_session", "close_session"] = "write"
    """A write, or the start or the end of a session."""
    refusal: TransactionRefusal | None = None
    """The refusal; None for an accepted one."""


def decoded(decode: Callable[[str, bytes | None], ValueT], change: Change) -> ValueT | None:
    """The decoded value that a change has written, or None where it is not readable."""
    try:
        return decode(change.path, change.data)
    except CorruptZnodeError:
        return None


_ACTIONS: Final[Mapping[int, Action]] = {
    **dict.fromkeys(CREATES, "create"),
    **dict.fromkeys(DELETES, "delete"),
    **dict.fromkeys(SETS, "set"),
    TransactionType.CHECK: "check",
}
_RUNTIME_INCONSISTENCY: Final = -2
"""Of the operations behind the one that was refused."""
_CODES: Final = {
    OVERWRITTEN: "Ok",
    _RUNTIME_INCONSISTENCY: "RuntimeInconsistency",
    -101: "NoNode",
    -103: "BadVersion",
    -108: "NoChildrenForEphemerals",
    -110: "NodeExists",
    -111: "NotEmpty",
    -112: "SessionExpired",
}


def read_transactions(folders: Sequence[Path], chroot: str = "") -> tuple[ServerTransaction, ...]:
    """The transactions in the logs of these servers' folders (each holds `log.*`), by zxid.

    The folders of all voting servers are needed. With a `chroot` everything outside is left out, and paths
    are relative to it. The end of a session deletes its ephemerals. Raises ConfigError where a folder or a
    file is not ZooKeeper's, or the folders are of different ensembles. A log with gaps proves nothing: raises
    DamagedFileError, or NotFoundError where no damage explains the gap.
    """
    ensemble = EnsembleFiles(folders, voters=len(folders))
    found = tuple(_seen(_without_holes(ensemble), chroot))
    _require_logs(ensemble)
    return found


def _require_logs(ensemble: EnsembleFiles) -> None:
    """Raises where a folder has no log: reading passes over other files."""
    for server in ensemble.servers:
        for damage in server.damages.values():
            if damage.offset == 0:
                raise NotZooKeeperFileError(str(damage.path), damage.expected, damage.found)


def _without_holes(ensemble: EnsembleFiles) -> Iterator[Transaction]:
    before: int | None = None
    for transaction in ensemble.transactions(certain_only=True):
        hole = None if before is None else hole_between(before, transaction.zxid)
        if hole is not None:
            _require_logs(ensemble)
            for damage in sorted(each for server in ensemble.servers for each in server.damages.values()):
                raise DamagedFileError(str(damage.path), damage.offset, damage.expected, damage.found)
            folders = ", ".join(str(server.folder) for server in ensemble.servers)
            missing = f"zxids {hole.first_missing:#x} to {hole.last_missing:#x}"
            raise NotFoundError(
                f"{folders}: {missing} are in no log: is a file, or a server's folder, missing?"
            )
        before = transaction.zxid
        yield transaction


def _seen(transactions: Iterable[Transaction], chroot: str) -> Iterator[ServerTransaction]:
    ephemerals = Ephemerals()
    for transaction in transactions:
        gone = gone_with(ephemerals, transaction)
        if (inside := _inside(transaction, gone, chroot)) is not None:
            yield inside


def gone_with(ephemerals: Ephemerals, transaction: Transaction) -> tuple[str, ...]:
    """The paths that go with a closeSession: those in its record, then the others of the session, sorted."""
    if transaction.type == TransactionType.CLOSE_SESSION:
        named = transaction.closed_paths or ()
        for path in named:
            ephemerals.deleted(path)
        return (*named, *ephemerals.ended(transaction.session))
    for operation in transaction.operations if transaction.is_applied else ():
        if operation.path is not None and operation.type in CREATES and operation.is_ephemeral:
            ephemerals.created(operation.path, transaction.session)
        elif operation.path is not None and operation.type in DELETES:
            ephemerals.deleted(operation.path)
    return ()


def _inside(transaction: Transaction, gone: Iterable[str], chroot: str) -> ServerTransaction | None:
    """The part inside the chroot, or None. The log does not say which paths a refusal concerns."""
    zxid, at_ms, session = transaction.zxid, transaction.time_ms, transaction.session
    if transaction.type == TransactionType.CREATE_SESSION:
        return ServerTransaction(zxid, at_ms, session, (), "create_session")
    below = f"{chroot}/"
    if transaction.type == TransactionType.CLOSE_SESSION:
        ends = tuple(Change("delete", path[len(chroot) :]) for path in gone if path.startswith(below))
        return ServerTransaction(zxid, at_ms, session, ends, "close_session") if ends else None
    changes = tuple(
        _change(operation, _ACTIONS[operation.type], operation.path[len(chroot) :], session)
        for operation in transaction.operations
        if operation.type in _ACTIONS and operation.path is not None and operation.path.startswith(below)
    )
    refusal = _refusal(transaction.operations)
    if not changes and refusal is None:
        return None
    return ServerTransaction(zxid, at_ms, session, changes, "write", refusal)


def _change(operation: Operation, action: Action, path: str, session: int) -> Change:
    match action:
        case "create":
            return Change(action, path, operation.data, 0, session if operation.is_ephemeral else 0)
        case "set":
            return Change(action, path, operation.data, operation.version)
        case _:
            return Change(action, path)


def _refusal(operations: Sequence[Operation]) -> TransactionRefusal | None:
    """The refusal, or None; of a multi the code of the operation that failed, not of the others."""
    codes = [each.error or OVERWRITTEN for each in operations if each.type == TransactionType.ERROR]
    if not codes:
        return None
    code = next((each for each in codes if each not in (OVERWRITTEN, _RUNTIME_INCONSISTENCY)), codes[0])
    return TransactionRefusal("", _CODES.get(code, str(code)))
