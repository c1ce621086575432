"""The leader of `MemoryZooKeeper`: the present tree, the sessions, and the log of every transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from zkgroup.history import Change as HistoryChange
from zkgroup.history import ServerTransaction, TransactionRefusal
from zkgroup.model import Znode, ZnodeStat
from zkgroup.model.ports import Clock
from zkgroup.model.requests import Create, Delete, MultiDone, MultiRefused, Operation, SetData
from zkgroup.testing.memory_zookeeper.tree import (
    SUPERUSER,
    AclSet,
    AnyOperation,
    Change,
    Checked,
    CreatedNode,
    Credentials,
    DataSet,
    DataTree,
    Deleted,
    Entries,
    SetAcl,
    parent_of,
    prepare,
)

TransactionKind = Literal["write", "create_session", "close_session"]
_FIRST_SESSION_ID = 0x1000_0000_0000_0001


@dataclass(frozen=True, slots=True)
class LoggedTransaction:
    """One entry of the write log. Every write gets one, accepted or not."""

    zxid: int
    time_ms: int
    """Wall time of the server."""
    session_id: int
    """0 for writes of the test itself."""
    client: str
    kind: TransactionKind
    operations: tuple[AnyOperation, ...]
    """As requested. Empty for sessions."""
    changes: tuple[Change, ...]
    """As applied; the end of a session is the deletion of its ephemerals. Empty when refused."""
    stats: tuple[ZnodeStat | None, ...]
    """The Stat after each change; None for a deletion."""
    refused: MultiRefused | None = None
    acls: Mapping[str, Entries] | None = None
    """ACLs of the changed znodes and their parents, where they are not open; None where all are."""


@dataclass(slots=True)
class ServerSession:
    """A session on the server."""

    session_id: int
    timeout_ms: int
    client: str
    heard_ms: int
    """Time of the last sign of its client, by the server's clock."""
    alive: bool = True


class QuorumLeader:
    """Orders all writes. Not thread-safe; `MemoryZooKeeper` guards it."""

    def __init__(
        self,
        clock: Clock,
        epoch: int,
        on_commit: Callable[[LoggedTransaction], None],
        log_limit: int | None = None,
    ) -> None:
        """`log_limit`: the log has the last transactions, from so many up to twice that; None: all."""
        self.clock = clock
        self.tree = DataTree()
        self.tree.zxid = epoch << 32
        self.log: list[LoggedTransaction] = []
        self.sessions: dict[int, ServerSession] = {}
        self._on_commit = on_commit
        self._log_limit = log_limit

    def transact(
        self,
        operations: tuple[AnyOperation, ...],
        session_id: int = 0,
        client: str = "",
        asker: Credentials = SUPERUSER,
    ) -> MultiDone | MultiRefused:
        """Runs one transaction and logs it. A refused one uses up a zxid too, as in ZooKeeper."""
        prepared = prepare(self.tree, operations, session_id, asker)
        if isinstance(prepared, MultiRefused):
            self._commit(session_id, client, "write", operations, (), prepared)
            return prepared
        changes = prepared.changes
        stats = self._commit(session_id, client, "write", operations, changes, acls=prepared.acls)
        stats = tuple(
            [
                stat if isinstance(operation, (SetData, SetAcl)) else None
                for operation, stat in zip(operations, stats, strict=True)
            ]
        )
        created = tuple([change.path for change in changes if isinstance(change, CreatedNode)])
        return MultiDone(stats, self.tree.zxid, created)

    def _commit(
        self,
        session_id: int,
        client: str,
        kind: TransactionKind,
        operations: tuple[AnyOperation, ...] = (),
        changes: tuple[Change, ...] = (),
        refused: MultiRefused | None = None,
        acls: Mapping[str, Entries] | None = None,
    ) -> tuple[ZnodeStat | None, ...]:
        tree, time_ms = self.tree, self.clock.wall_ms()
        tree.zxid += 1
        zxid = tree.zxid
        stats = tuple([tree.applied(change, zxid, time_ms) for change in changes])
        entry = LoggedTransaction(
            zxid, time_ms, session_id, client, kind, operations, changes, stats, refused, acls
        )
        self.log.append(entry)
        if self._log_limit is not None and len(self.log) > 2 * self._log_limit:
            del self.log[: -self._log_limit]
        self._on_commit(entry)
        return stats

    def create_session(self, client: str, timeout_ms: int) -> ServerSession:
        session_id = _FIRST_SESSION_ID + len(self.sessions)
        session = ServerSession(session_id, timeout_ms, client, self.clock.now_ms())
        self.sessions[session_id] = session
        self._commit(session_id, client, "create_session")
        return session

    def end_session(self, session: ServerSession) -> None:
        """Ends a session, and deletes its ephemerals in one transaction. No effect when it has ended."""
        if session.alive:
            session.alive = False
            paths = self.tree.ephemerals.get(session.session_id, {})
            deletions = tuple([Deleted(path) for path in paths])
            touched = {*paths, *map(parent_of, paths)}
            acls = {path: acl for path, acl in self.tree.acls.items() if path in touched}
            self._commit(session.session_id, session.client, "close_session", changes=deletions, acls=acls)

    def put(self, path: str, data: bytes | None) -> None:
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts)):
            parent = "/" + "/".join(parts[:depth])
            if parent not in self.tree.nodes:
                self.transact((Create(parent, None),))
        exists = path in self.tree.nodes
        self.transact((SetData(path, data or b"", -1) if exists else Create(path, data),))

    def remove(self, path: str) -> None:
        below = [known for known in self.tree.nodes if known == path or known.startswith(path + "/")]
        for victim in sorted(below, reverse=True):
            self.transact((Delete(victim, -1),))

    def znodes(self) -> dict[str, Znode]:
        """Everything but /zookeeper, sorted by path."""
        return {
            path: Znode(path, node.data, node.stat())
            for path, node in sorted(self.tree.nodes.items())
            if path.split("/")[1] != "zookeeper"
        }


def server_transactions(log: Iterable[LoggedTransaction], clock: Clock) -> tuple[ServerTransaction, ...]:
    """Translates a log. Its wall times become times of the members' clock, by the present difference."""
    ahead_ms = clock.wall_ms() - clock.now_ms()
    return tuple(_translate(entry, entry.time_ms - ahead_ms) for entry in log)


def _translate(entry: LoggedTransaction, at_ms: int) -> ServerTransaction:
    if entry.refused is None:
        applied = zip(entry.changes, entry.stats, strict=True)
        changes = tuple([_applied(c, stat) for c, stat in applied if not isinstance(c, AclSet)])
        return ServerTransaction(entry.zxid, at_ms, entry.session_id, changes, entry.kind)
    refusal = TransactionRefusal(entry.operations[entry.refused.index].path, entry.refused.code.value)
    asked = tuple([_asked(each) for each in entry.operations if not isinstance(each, SetAcl)])
    return ServerTransaction(entry.zxid, at_ms, entry.session_id, asked, entry.kind, refusal)


def _applied(change: CreatedNode | DataSet | Deleted | Checked, stat: ZnodeStat | None) -> HistoryChange:
    match change:
        case CreatedNode(path, data, owner):
            return HistoryChange("create", path, data, 0, owner)
        case DataSet(path, data):
            return HistoryChange("set", path, data, stat.version if stat is not None else None)
        case Deleted(path):
            return HistoryChange("delete", path)
        case Checked(path):
            return HistoryChange("check", path)


def _asked(operation: Operation) -> HistoryChange:
    match operation:
        case Create(path, data):
            return HistoryChange("create", path, data)
        case SetData(path, data):
            return HistoryChange("set", path, data)
        case Delete(path):
            return HistoryChange("delete", path)
        case _:
            return HistoryChange("check", operation.path)
