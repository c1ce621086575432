"""The transaction logs of real servers, as the checkers read them.

Format: FileTxnLog.java and zookeeper.jute@3.9 (TxnHeader, CreateTxn, SetDataTxn, DeleteTxn, CheckVersionTxn,
MultiTxn). Every server of an ensemble has a log of its own; what a deposed one had written and nobody else
had stays in its log for ever, and a server that was given a snapshot lacks what it stands for. So a
transaction counts where most servers have it: that is what an acknowledgement rests on, and nothing that most
of them have is ever undone.

Of a refused transaction the log has the operations before the one that was refused, and of that one the code
alone: the path of a refusal is empty.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from zkgroup.errors import ConfigError
from zkgroup.history.transactions import Change, Refusal, ServerTransaction

MAGIC: Final = b"ZKLG"
_HEADER = struct.Struct(">4siq")
_RECORD = struct.Struct(">qi")
_TRANSACTION = struct.Struct(">qiqqi")
_END: Final = b"B"

_CREATES: Final = {1: True, 15: True, 19: False, 21: False}
"""create, create2, createContainer, createTTL; whether it can be ephemeral."""
_DELETES: Final = (2, 20)
_SET, _CHECK, _MULTI, _ERROR, _OPEN, _CLOSE = 5, 13, 14, -1, -10, -11
_CODES: Final = {
    0: "Ok",
    -2: "RuntimeInconsistency",
    -101: "NoNode",
    -103: "BadVersion",
    -108: "NoChildrenForEphemerals",
    -110: "NodeExists",
    -111: "NotEmpty",
    -112: "SessionExpired",
}


class _Jute:
    """Reads the few types that these records are made of."""

    def __init__(self, raw: bytes, at: int = 0) -> None:
        self._raw, self._at = raw, at

    def number(self, form: str = ">i") -> int:
        (value,) = struct.unpack_from(form, self._raw, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def buffer(self) -> bytes | None:
        size = self.number()
        if size < 0:
            return None
        value = self._raw[self._at : self._at + size]
        self._at += size
        return value

    def text(self) -> str:
        return (self.buffer() or b"").decode()

    def skip_acls(self) -> None:
        for _ in range(max(self.number(), 0)):
            self.number()
            self.buffer()
            self.buffer()


def read_transactions(folders: Sequence[Path], chroot: str = "") -> tuple[ServerTransaction, ...]:
    """What the servers with these folders (each holds `log.*`) have accepted and refused, by zxid.

    With a `chroot` everything outside is left out, and paths are those that its clients see. The end of a
    session takes its ephemerals away. Raises ConfigError where a file is no transaction log.
    """
    found: dict[int, bytes] = {}
    logs: Counter[int] = Counter()
    for folder in folders:
        mine: dict[int, bytes] = {}
        for record in _records(folder):
            mine[_TRANSACTION.unpack_from(record)[2]] = record
        logs.update(mine.keys())
        found.update((zxid, record) for zxid, record in mine.items() if zxid not in found)
    most = len(folders) // 2 + 1
    return tuple(_replay((found[zxid] for zxid in sorted(found) if logs[zxid] >= most), chroot))


def _records(folder: Path) -> Iterator[bytes]:
    """The records of one server, file by file; each file is filled with zeros ahead of its end."""
    for path in sorted(folder.glob("log.*"), key=lambda each: int(each.name[4:], 16)):
        raw, at = path.read_bytes(), _HEADER.size
        if not raw.startswith(MAGIC):
            if not raw.strip(b"\0"):
                continue  # killed before its first record
            raise ConfigError(f"{path}: expected a transaction log, found {raw[:4]!r}")
        while at + _RECORD.size < len(raw):
            checksum, size = _RECORD.unpack_from(raw, at)
            at += _RECORD.size
            record = raw[at : at + size]
            if size <= 0 or zlib.adler32(record) != checksum or raw[at + size : at + size + 1] != _END:
                break  # the end; or the last record of a server that was killed
            yield record
            at += size + 1


def _replay(records: Iterator[bytes], chroot: str) -> Iterator[ServerTransaction]:
    ephemerals: defaultdict[int, list[str]] = defaultdict(list)
    for record in records:
        transaction = _decoded(record)
        if transaction.kind == "close_session":
            gone = [Change("delete", path) for path in ephemerals.pop(transaction.session, ())]
            transaction = _with(transaction, gone)
        elif transaction.refusal is None:
            for change in transaction.changes:
                _follow(ephemerals, change)
        if (inside := _inside(transaction, chroot)) is not None:
            yield inside


def _follow(ephemerals: Mapping[int, list[str]], change: Change) -> None:
    if change.action == "create" and change.ephemeral_owner:
        ephemerals[change.ephemeral_owner].append(change.path)
    elif change.action == "delete":
        for paths in ephemerals.values():
            if change.path in paths:
                paths.remove(change.path)


def _inside(transaction: ServerTransaction, chroot: str) -> ServerTransaction | None:
    """The part that is about the chroot; None where there is none. What a refusal is about is not known."""
    prefix = f"{chroot}/"
    changes = [
        Change(each.action, each.path[len(chroot) :], each.data, each.version, each.ephemeral_owner)
        for each in transaction.changes
        if each.path.startswith(prefix)
    ]
    if not changes and transaction.kind != "create_session" and transaction.refusal is None:
        return None
    return _with(transaction, changes, transaction.refusal)


def _with(
    transaction: ServerTransaction, changes: Sequence[Change], refusal: Refusal | None = None
) -> ServerTransaction:
    zxid, at_ms, session, kind = transaction.zxid, transaction.at_ms, transaction.session, transaction.kind
    return ServerTransaction(zxid, at_ms, session, tuple(changes), kind, refusal)


def _decoded(record: bytes) -> ServerTransaction:
    session, _, zxid, at_ms, kind = _TRANSACTION.unpack_from(record)
    jute = _Jute(record, _TRANSACTION.size)
    if kind == _OPEN:
        return ServerTransaction(zxid, at_ms, session, (), "create_session")
    if kind == _CLOSE:
        return ServerTransaction(zxid, at_ms, session, (), "close_session")
    if kind != _MULTI:
        change, refusal = _operation(kind, jute, session)
        return ServerTransaction(zxid, at_ms, session, () if change is None else (change,), "write", refusal)
    operations = [
        _operation(jute.number(), _Jute(jute.buffer() or b""), session) for _ in range(jute.number())
    ]
    changes = tuple(change for change, _ in operations if change is not None)
    refusals = [refusal for _, refusal in operations if refusal is not None]
    # The operations before the one that was refused are there as they were asked for.
    why = next((each for each in refusals if each.code not in ("Ok", "RuntimeInconsistency")), None)
    return ServerTransaction(
        zxid, at_ms, session, changes, "write", why or (refusals[0] if refusals else None)
    )


def _operation(kind: int, jute: _Jute, session: int) -> tuple[Change | None, Refusal | None]:
    if kind in _CREATES:
        path, data = jute.text(), jute.buffer()
        jute.skip_acls()
        is_ephemeral = _CREATES[kind] and bool(jute.number(">?"))
        return Change("create", path, data, 0, session if is_ephemeral else 0), None
    if kind in _DELETES:
        return Change("delete", jute.text()), None
    if kind == _SET:
        return Change("set", jute.text(), jute.buffer(), jute.number()), None
    if kind == _CHECK:
        return Change("check", jute.text()), None
    if kind == _ERROR:
        code = jute.number()
        return None, Refusal("", _CODES.get(code, str(code)))
    return None, None
