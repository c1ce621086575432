"""Follows a server's transaction log while it is written: every change with its time, without requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from zkgroup.errors import NotZooKeeperFileError
from zkgroup.history.transactions import gone_with
from zkgroup.zkfiles.files import ServerFile, list_files
from zkgroup.zkfiles.logs import LogReader
from zkgroup.zkfiles.records import CREATES, DELETES, Ephemerals, Operation, Transaction, TransactionType

KINDS: Final[Mapping[int, str]] = {
    **dict.fromkeys(CREATES, "create"),
    **dict.fromkeys(DELETES, "delete"),
    TransactionType.SET_DATA: "set",
}
SESSION_KINDS: Final[Mapping[int, str]] = {
    TransactionType.CREATE_SESSION: "open session",
    TransactionType.CLOSE_SESSION: "close session",
}
ERROR_NAMES: Final = {
    -101: "NoNode",
    -103: "BadVersion",
    -110: "NodeExists",
    -111: "NotEmpty",
    -112: "SessionExpired",
}


class Change(NamedTuple):
    """One znode created, set or deleted."""

    ms: int
    zxid: int
    kind: str
    path: str
    data: bytes | None


class TransactionLog:
    """The log files of one server, in order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: ServerFile | None = None
        self._at = 0

    def poll(self) -> list[Transaction]:
        """The records appended since the last call."""
        found: list[Transaction] = []
        while self._file is not None or self._open_next():
            appended = self._appended()
            found += appended
            if not appended and not self._open_next():
                break
        return found

    def _open_next(self) -> bool:
        try:
            logs = list_files(self._folder).logs
        except NotZooKeeperFileError:
            return False  # the server has not begun
        later = next((log for log in logs if self._file is None or log.zxid > self._file.zxid), None)
        if later is None:
            return False
        self._file, self._at = later, 0
        return True

    def _appended(self) -> list[Transaction]:
        """Whole records from here on; the file is filled with zeros ahead of its end."""
        assert self._file is not None
        reader = LogReader(self._file.path, from_offset=self._at)
        found = list(reader)
        assert reader.end is not None
        self._at = reader.end.offset
        return found


class LogSource:
    """Changes, and counts of writes by kind."""

    def __init__(self, folder: Path) -> None:
        self.writes: Counter[str] = Counter()
        self._log = TransactionLog(folder)
        self._ephemerals = Ephemerals()

    def poll(self) -> list[Change]:
        changes: list[Change] = []
        for transaction in self._log.poll():
            self._count(transaction)
            changes += [
                Change(transaction.time_ms, transaction.zxid, "delete", path, None)
                for path in gone_with(self._ephemerals, transaction)
            ]
            changes += [
                Change(transaction.time_ms, transaction.zxid, kind, each.path or "", each.data)
                for each in transaction.operations
                if (kind := KINDS.get(each.type)) is not None and transaction.is_applied
            ]
        return changes

    def _count(self, transaction: Transaction) -> None:
        if transaction.type == TransactionType.MULTI:
            self.writes["multi" if transaction.is_applied else "multi failed"] += 1
        elif transaction.type in SESSION_KINDS:
            self.writes[SESSION_KINDS[transaction.type]] += 1
        else:
            self.writes.update(filter(None, map(_counted_as, transaction.operations)))


def _counted_as(operation: Operation) -> str | None:
    if operation.type == TransactionType.ERROR:
        return f"failed {ERROR_NAMES.get(operation.error or 0, operation.error)}"
    return KINDS.get(operation.type)
