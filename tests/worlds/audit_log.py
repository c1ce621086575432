"""Transaction logs built record by record, for the tests of findings.

`Log` writes records as a server would, by zxid, and opens them as the audit does. Each method that writes
returns the zxid; only `wait` advances the clock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Self

from tests.worlds.plain_findings import find
from tests.worlds.record_by_record import events_of
from zkgroup.audit.findings.rules import Finding, Rule
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.facts import Facts, facts_of
from zkgroup.zkfiles.records import Acl, Operation, StoredStat, StoredZnode, Transaction, TransactionType

START_MS = 1_700_000_000_000
Partition = tuple[str, int]


class AuditLog:
    """The records of one server, in order."""

    def __init__(self, zxid: int = 1, *, with_lists: bool = False) -> None:
        self.zxid = zxid - 1
        self.ms = START_MS
        self.transactions: list[Transaction] = []
        self.seeds: list[StoredZnode] = []
        self._sessions: dict[int, int] = {}
        self._with_lists = with_lists
        """Whether a closeSession lists the deleted ephemerals, as from 3.6 on."""
        self._ephemerals: dict[str, int] = {}
        self._versions: dict[str, int] = {}

    def wait(self, ms: int) -> None:
        """Advances the clock; negative for a step back."""
        self.ms += ms

    def passes(self, ms: int) -> Self:
        """Advances the clock, up to a record without effect."""
        self.wait(ms)
        self.create(f"/passed-{self.zxid}")
        return self

    def events(self) -> list[Event]:
        return list(events_of(self.transactions, self.seeds, sessions=self._sessions))

    def facts(self) -> Facts:
        return facts_of(self.events())

    def find(self, rule: Rule, **bounds: float) -> list[Finding]:
        """Findings of a rule; bounds by their own name."""
        return find([rule], self.events, {f"{rule.name}.{name}": value for name, value in bounds.items()})

    def write(self, type_: int, session: int = 0, *operations: Operation, **more: object) -> int:
        """Any record at the next zxid."""
        self.zxid += 1
        fields: dict[str, object] = {"cxid": 1, **more}
        self.transactions.append(
            Transaction(self.zxid, session, time_ms=self.ms, type=type_, operations=operations, **fields)  # type: ignore[arg-type]
        )
        if self.transactions[-1].is_applied:
            for operation in operations:
                self._follow(operation, session)
        return self.zxid

    def open(self, session: int, timeout_ms: int = 6000) -> int:
        return self.write(TransactionType.CREATE_SESSION, session, timeout_ms=timeout_ms)

    def close(self, session: int, *, expired: bool = False, paths: Sequence[str] = ()) -> int:
        """The end of a session and of its ephemerals; `paths`: the order in which its record lists them."""
        gone = sorted(path for path, owner in self._ephemerals.items() if owner == session)
        for path in gone:
            del self._ephemerals[path], self._versions[path]
        return self.write(
            TransactionType.CLOSE_SESSION,
            session,
            cxid=0 if expired else 9,
            closed_paths=tuple(paths or gone) if self._with_lists or paths else None,
        )

    def expire(self, session: int) -> int:
        return self.close(session, expired=True)

    def create(
        self,
        path: str,
        data: bytes | str | None = b"",
        session: int = 0,
        *,
        ephemeral: bool = False,
        acl: Acl | None = None,
    ) -> int:
        operation = self.creation(path, data, ephemeral=ephemeral)._replace(acl=acl)
        return self.write(TransactionType.CREATE, session, operation)

    def set(self, path: str, data: bytes | str | None, session: int = 0) -> int:
        return self.write(TransactionType.SET_DATA, session, self.setting(path, data))

    def set_acl(self, path: str, acl: Acl, session: int = 0) -> int:
        operation = Operation(TransactionType.SET_ACL, path, acl=acl, version=1)
        return self.write(TransactionType.SET_ACL, session, operation)

    def delete(self, path: str, session: int = 0) -> int:
        return self.write(TransactionType.DELETE, session, self.deletion(path))

    def multi(self, session: int, *operations: Operation) -> int:
        return self.write(TransactionType.MULTI, session, *operations)

    def fail(self, session: int, error: int = -110, *, cxid: int = 1) -> int:
        """A single request that was refused."""
        refusal = Operation(TransactionType.ERROR, error=error)
        return self.write(TransactionType.ERROR, session, refusal, cxid=cxid)

    def creation(self, path: str, data: bytes | str | None = b"", *, ephemeral: bool = False) -> Operation:
        return Operation(TransactionType.CREATE, path, _bytes(data), is_ephemeral=ephemeral)

    def setting(self, path: str, data: bytes | str | None) -> Operation:
        version = self._versions.get(path, 0) + 1
        return Operation(TransactionType.SET_DATA, path, _bytes(data), version=version)

    def deletion(self, path: str) -> Operation:
        return Operation(TransactionType.DELETE, path)

    def seed(
        self,
        path: str,
        data: bytes | str | None = b"",
        *,
        zxid: int = 1,
        ms: int | None = None,
        session: int = 0,
        mtime_ms: int | None = None,
        version: int = 0,
        acl: Acl | None = None,
    ) -> None:
        """A znode of the snapshot that the history starts from."""
        ctime = START_MS if ms is None else ms
        mtime = ctime if mtime_ms is None else mtime_ms
        stat = StoredStat(zxid, zxid, ctime, mtime, version, 0, 0, session, zxid)
        self.seeds.append(StoredZnode(path, _bytes(data), acl, stat))
        self._versions[path] = version
        if session:
            self._ephemerals[path] = session

    def seed_session(self, session: int, timeout_ms: int = 6000) -> None:
        """A session of that snapshot."""
        self._sessions[session] = timeout_ms

    def _follow(self, operation: Operation, session: int) -> None:
        path = operation.path or ""
        if operation.type == TransactionType.CREATE:
            self._versions[path] = 0
            if operation.is_ephemeral:
                self._ephemerals[path] = session
        elif operation.type == TransactionType.DELETE:
            self._ephemerals.pop(path, None)
            self._versions.pop(path, None)
        elif operation.type == TransactionType.SET_DATA:
            self._versions[path] = operation.version or 0

    def topic(self, topic: str, partitions: int | Mapping[int, Sequence[int]], session: int = 0) -> int:
        """Creates a topic, or writes its replicas again; all on broker 1 where only a number is given."""
        replicas = dict.fromkeys(range(partitions), (1,)) if isinstance(partitions, int) else partitions
        text = json.dumps({"version": 1, "partitions": {str(n): list(r) for n, r in replicas.items()}})
        path = f"/brokers/topics/{topic}"
        return self.set(path, text, session) if path in self._versions else self.create(path, text, session)

    def join(
        self,
        group: str,
        member: str,
        session: int,
        wants: Mapping[str, int] | None = None,
        **extensions: str,
    ) -> int:
        """Registers a member: of the JVM, or of zkgroup with `zkgroup="1"`."""
        return self.create(
            f"/consumers/{group}/ids/{member}", registration(wants, **extensions), session, ephemeral=True
        )

    def come(
        self, group: str, member: str, session: int, wants: Mapping[str, int] | None = None, **extensions: str
    ) -> int:
        """Opens the session and registers in it; the zxid of the registration."""
        self.open(session)
        return self.join(group, member, session, wants, **extensions)

    def leave(self, group: str, member: str, session: int) -> int:
        """Deletes the registration; the session stays."""
        return self.delete(f"/consumers/{group}/ids/{member}", session)

    def claim(self, group: str, partition: Partition, thread: str, session: int) -> int:
        """A claim of a JVM member: the owner alone."""
        return self.create(owner(group, partition), thread, session, ephemeral=True)

    def claim_ours(self, group: str, partition: Partition, thread: str, session: int, value: int = 0) -> int:
        """A claim of a zkgroup member: the owner, set once, and the offset in one multi."""
        path, stored = owner(group, partition), offset(group, partition)
        bump = self.setting(stored, str(value)) if stored in self._versions else self.creation(stored, "-1")
        return self.multi(
            session,
            self.creation(path, thread, ephemeral=True),
            Operation(TransactionType.SET_DATA, path, thread.encode(), version=1),
            bump,
        )

    def release(self, group: str, partition: Partition, session: int) -> int:
        return self.delete(owner(group, partition), session)

    def commit(self, group: str, partition: Partition, value: int, session: int) -> int:
        path = offset(group, partition)
        if path in self._versions:
            return self.set(path, str(value), session)
        return self.create(path, str(value), session)


def registration(wants: Mapping[str, int] | None = None, **extensions: str) -> str:
    """The text of a static registration, by default for one thread of topic t."""
    subscription = {"t": 1} if wants is None else dict(wants)
    fields = {"version": 1, "subscription": subscription, "pattern": "static", "timestamp": "1"}
    return json.dumps({**fields, **extensions})


def owner(group: str, partition: Partition) -> str:
    return f"/consumers/{group}/owners/{partition[0]}/{partition[1]}"


def offset(group: str, partition: Partition) -> str:
    return f"/consumers/{group}/offsets/{partition[0]}/{partition[1]}"


def _bytes(data: bytes | str | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data
