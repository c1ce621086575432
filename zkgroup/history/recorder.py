"""Sinks for recorded histories: `HistoryFile` for processes, `MemoryHistory` for tests; reads files too."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from zkgroup.errors import ConfigError
from zkgroup.history.records import HistoryRecord, Recording, parse
from zkgroup.model.ports import Clock

log = logging.getLogger("zkgroup.history")


class MemoryHistory:
    """A HistorySink that keeps its records in a list, which several members may share (simulation)."""

    def __init__(
        self, member: str, clock: Clock, records: list[HistoryRecord] | None = None, pid: int = 0
    ) -> None:
        """Records one member.

        Args:
            member: the full id of the member, `<group>_<consumer id>`.
            clock: the clock of the records' times.
            records: the list to append to; by default a new one.
            pid: the process id in the records.
        """
        self.records: list[HistoryRecord] = [] if records is None else records
        self._stamp = _Stamp(member, clock, pid)

    def belongs_to(self, member: str, clock: Clock) -> None:
        """Raises ConfigError where the records are another member's."""
        self._stamp.check(member)

    def record(self, kind: str, fields: Mapping[str, object]) -> None:
        """Appends a record of this kind, with the common fields added."""
        self.records.append(self._stamp.next(kind, fields))


class HistoryFile:
    """A HistorySink that appends to a file: one `write` a line on an O_APPEND descriptor, no buffer.

    So a SIGKILL tears at most the last line, and several processes may share one file. Thread-safe. A
    line that cannot be written (disk full) is counted, and nothing is recorded after it: a history with a
    gap would lead to false violations, and a member must not fail because of its history.

    It records one member, the first that gets it as `history`. A program that calls `record` itself names the
    member (its full id, `<group>_<consumer id>`, as in the znodes) and the clock.
    """

    def __init__(self, path: str | Path, member: str | None = None, clock: Clock | None = None) -> None:
        """Opens or creates the file.

        Args:
            path: the file, to which records are appended.
            member: the full id of the member that it records; by default the first that gets it as `history`.
            clock: the clock of the records' times; required with `member`, and only then.

        Raises:
            OSError: the file cannot be opened.
            ConfigError: a member without a clock, or a clock without a member.
        """
        if (member is None) != (clock is None):
            raise ConfigError("HistoryFile: give both a member and its clock, or none of them")
        self._lock = threading.Lock()
        self._stamp = _Stamp(member, clock, os.getpid()) if member is not None and clock is not None else None
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self.lost = 0
        """Records that could not be written."""

    def belongs_to(self, member: str, clock: Clock) -> None:
        """Binds the history to a member that starts. Raises ConfigError where it has another member."""
        with self._lock:
            if self._stamp is None:
                self._stamp = _Stamp(member, clock, os.getpid())
            self._stamp.check(member)

    def record(self, kind: str, fields: Mapping[str, object]) -> None:
        """Appends a record of this kind. Raises ConfigError if no member is known yet."""
        with self._lock:
            if self._stamp is None:
                raise ConfigError("HistoryFile: no member records here yet: name one, or give it to one")
            if self._file is None:
                self.lost += 1
                return
            line = f"{self._stamp.next(kind, fields).line()}\n".encode("utf-8", "replace")
            try:
                written = os.write(self._file, line)
            except OSError as error:
                written, reason = 0, str(error)
            else:
                reason = f"{written} of {len(line)} bytes written"
            if written < len(line):
                log.warning("the history cannot be written and stops here: %s", reason)
                self.lost += 1
                self._close()

    def close(self) -> None:
        """Closes the file; idempotent. Records that come later are counted as lost."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_files(paths: Iterable[str | Path]) -> Recording:
    """Reads recorded files. Raises OSError."""
    return parse(Path(path).read_bytes() for path in paths)


class _Stamp:
    """Adds the common fields. The session is that of the member's last registration."""

    def __init__(self, member: str, clock: Clock, pid: int) -> None:
        self._member = member
        self._clock = clock
        self._pid = pid
        self._seq = 0
        self._session: int | None = None

    def check(self, member: str) -> None:
        """Raises ConfigError for another member: for the checker its commits would have no cause."""
        if member != self._member:
            raise ConfigError(
                f"history: expected the records of {self._member}, found the member {member}; "
                "give each member a HistoryFile of its own, which finds the name by itself"
            )

    def next(self, kind: str, fields: Mapping[str, object]) -> HistoryRecord:
        session = fields.get("session")
        if kind == "registered" and isinstance(session, int):
            self._session = session
        self._seq += 1
        own = {key: value for key, value in fields.items() if key != "session"}
        if kind != "registered" and session is not None:
            own["other_session"] = session  # the session of a stale registration, not of the member
        ts = self._clock.now_ms() * 1_000_000
        return HistoryRecord(ts, self._seq, self._pid, self._member, self._session, kind, own)
