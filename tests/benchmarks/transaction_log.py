"""Follows a server's transaction log while it is written: every change, with its time, at no request.

Format: FileTxnLog.java and zookeeper.jute@3.9 (TxnHeader, CreateTxn, SetDataTxn, DeleteTxn, MultiTxn).
"""

from __future__ import annotations

import os
import struct
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

DELETE, SET, MULTI, ERROR, OPEN, CLOSE = 2, 5, 14, -1, -10, -11
CREATES = (1, 15, 19, 21)
MAKES_EPHEMERAL = (1, 15)
DELETES = (DELETE, 20)
ERROR_NAMES = {
    -101: "NoNode",
    -103: "BadVersion",
    -110: "NodeExists",
    -111: "NotEmpty",
    -112: "SessionExpired",
    0: "rolled back",
    -2: "rolled back",
}
HEADER_BYTES = 16
CHUNK = 1 << 18


class Change(NamedTuple):
    """One znode created, set or deleted."""

    ms: int
    zxid: int
    kind: str
    path: str
    data: bytes | None


class Part(NamedTuple):
    """One operation of a transaction: "create", "set", "delete", or "error" with its name in `path`."""

    kind: str
    path: str
    data: bytes | None = None
    owner: int = 0


class Transaction(NamedTuple):
    ms: int
    zxid: int
    session: int
    kind: int
    parts: list[Part]


class Jute:
    """Reads the few Jute types that transaction records are made of."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.at = raw, 0

    def _take(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self.raw, self.at)
        self.at += struct.calcsize(form)
        return int(value)

    def int32(self) -> int:
        return self._take(">i")

    def int64(self) -> int:
        return self._take(">q")

    def flag(self) -> bool:
        return bool(self._take(">?"))

    def buffer(self) -> bytes | None:
        size = self.int32()
        if size < 0:
            return None
        value = self.raw[self.at : self.at + size]
        self.at += size
        return value

    def text(self) -> str:
        return (self.buffer() or b"").decode()

    def skip_acls(self) -> None:
        for _ in range(max(self.int32(), 0)):
            self.int32()
            self.buffer()
            self.buffer()


def _parts(kind: int, body: bytes, session: int) -> list[Part]:
    jute = Jute(body)
    if kind in CREATES:
        path, data = jute.text(), jute.buffer()
        jute.skip_acls()
        owner = session if kind in MAKES_EPHEMERAL and jute.flag() else 0
        return [Part("create", path, data, owner)]
    if kind in DELETES:
        return [Part("delete", jute.text())]
    if kind == SET:
        return [Part("set", jute.text(), jute.buffer())]
    if kind == MULTI:
        return [
            part for _ in range(jute.int32()) for part in _parts(jute.int32(), jute.buffer() or b"", session)
        ]
    if kind == ERROR:
        code = jute.int32()
        return [Part("error", ERROR_NAMES.get(code, str(code)))]
    return []


def _transaction(record: bytes) -> Transaction:
    jute = Jute(record)
    session, _, zxid, ms, kind = jute.int64(), jute.int32(), jute.int64(), jute.int64(), jute.int32()
    return Transaction(ms, zxid, session, kind, _parts(kind, record[jute.at :], session))


class TransactionLog:
    """The log files of one server, in order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: int | None = None
        self._name: str | None = None
        self._at = 0

    def poll(self) -> list[Transaction]:
        """What has been appended since."""
        found: list[Transaction] = []
        while self._file is not None or self._open_next():
            records = self._records()
            found += map(_transaction, records)
            if not records and not self._open_next():
                break
        return found

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open_next(self) -> bool:
        names = sorted((p.name for p in self._folder.glob("log.*")), key=lambda name: int(name[4:], 16))
        later = names if self._name is None else names[names.index(self._name) + 1 :]
        if not later:
            return False
        self.close()
        self._name, self._at = later[0], HEADER_BYTES
        self._file = os.open(self._folder / self._name, os.O_RDONLY)
        return True

    def _records(self) -> list[bytes]:
        """Complete records from here on; the file is filled with zeros ahead of its end."""
        assert self._file is not None
        raw, at, records = os.pread(self._file, CHUNK, self._at), 0, []
        while at + 12 <= len(raw):
            (size,) = struct.unpack_from(">i", raw, at + 8)
            end = at + 12 + size
            if size <= 0:
                break
            if end >= len(raw):  # a large record, or one that is being written
                if at or len(raw) < CHUNK:
                    break
                raw = os.pread(self._file, size + 13, self._at)
                if len(raw) < size + 13:
                    break
            if raw[end : end + 1] != b"B":
                break
            records.append(raw[at + 12 : end])
            at = end + 1
        self._at += at
        return records


class LogSource:
    """Changes, and counts of writes by kind."""

    def __init__(self, folder: Path) -> None:
        self.writes: Counter[str] = Counter()
        self._log = TransactionLog(folder)
        self._ephemerals: defaultdict[int, set[str]] = defaultdict(set)

    def poll(self) -> list[Change]:
        changes: list[Change] = []
        for transaction in self._log.poll():
            self._count(transaction)
            changes += [
                Change(transaction.ms, transaction.zxid, part.kind, part.path, part.data)
                for part in self._with_session_end(transaction)
                if part.kind != "error"
            ]
        return changes

    def close(self) -> None:
        self._log.close()

    def _with_session_end(self, transaction: Transaction) -> list[Part]:
        if transaction.kind == CLOSE:
            return [Part("delete", path) for path in sorted(self._ephemerals.pop(transaction.session, ()))]
        for part in transaction.parts:
            if part.owner:
                self._ephemerals[part.owner].add(part.path)
            elif part.kind == "delete":
                for paths in self._ephemerals.values():
                    paths.discard(part.path)
        return transaction.parts

    def _count(self, transaction: Transaction) -> None:
        if transaction.kind == MULTI:
            failed = any(part.kind == "error" for part in transaction.parts)
            self.writes["multi failed" if failed else "multi"] += 1
            return
        names = {OPEN: "open session", CLOSE: "close session"}
        if transaction.kind in names:
            self.writes[names[transaction.kind]] += 1
        for part in transaction.parts:
            self.writes[f"failed {part.path}" if part.kind == "error" else part.kind] += 1
