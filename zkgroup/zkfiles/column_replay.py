"""The records of a server alone for a replay, out of columns.

They are given in columns, many at a time, where the taker wants them so. Where it does not, sets of the data
of one znode are given as plain values, which takes a fifth of the time of a Transaction; all others as
Transactions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles.batches import Batch
from zkgroup.zkfiles.columns import log_columns
from zkgroup.zkfiles.operations import DIGEST_VERSION
from zkgroup.zkfiles.records import CREATES, DataSet, Operation, Transaction, TransactionType, TreeDigest
from zkgroup.zkfiles.servers import Server
from zkgroup.zkfiles.zxids import follows, hole_between

if TYPE_CHECKING:
    from zkgroup.zkfiles.stretches import Codes, Stretch

_COLUMNS: Final = (
    *("zxid", "sub", "session", "cxid", "time", "type", "op", "path", "data", "version", "ephemeral"),
    *("ttl_ms", "timeout_ms", "error", "parent_cversion", "acl", "applied", "digest"),
)
_STRETCH_ROWS: Final = 1 << 18
"""That many are given at a time: a znode that changes is looked up and written back once for all of them."""
_SETS_AT_A_TIME: Final = 512
_SET: Final = int(TransactionType.SET_DATA)
_CLOSE_SESSION: Final = int(TransactionType.CLOSE_SESSION)
_CREATE_SESSION: Final = int(TransactionType.CREATE_SESSION)
_UNSIGNED: Final = 2**64 - 1


class Sees(Protocol):
    """Takes all records in order, some of them many at a time."""

    def see(self, transaction: Transaction) -> None: ...

    def see_sets(self, sets: Sequence[DataSet]) -> bool:
        """Sets of data that follow each other without a hole. False, with nothing done, where they have to be
        given to `see` one by one."""
        ...

    def takes_stretch(self, first: int, last: int) -> bool:
        """Whether `see_stretch` is to be tried for records from one zxid to another."""
        ...

    def see_stretch(self, rows: Stretch, paths: Codes) -> bool:
        """Records of any kind that follow each other. False, with nothing done, as above."""
        ...


class NotPlainError(Exception):
    """The logs are damaged, overlap or lack something: the exact reader has to read them."""


def replay(server: Server, taker: Sees, after: int = 0, to_zxid: int | None = None) -> None:
    """Gives all records in order, or those behind one zxid and up to another.

    Raises NotPlainError, after some were given: also where the last one is not `to_zxid`, though the logs go
    further.
    """
    logs = server.files.logs_within(after + 1, None if to_zxid is None else to_zxid + 1)
    stretches = _Stretches(taker, after)
    try:
        for log in logs:
            for batch in log_columns(
                log.path, columns=_COLUMNS, from_zxid=after + 1 if after else None, to_zxid=to_zxid
            ):
                stretches.add(batch)
        stretches.give()
    except (DamagedFileError, NotZooKeeperFileError) as error:
        raise NotPlainError(str(error)) from error
    finally:
        stretches.settle()
    if to_zxid is not None and stretches.last == to_zxid:
        return
    if not logs or stretches.last != server.last_logged(logs[-1]):
        raise NotPlainError("a record without an operation, or a damage")


class _Stretches:
    """Brings batches together, and gives as many at a time as the taker wants."""

    def __init__(self, taker: Sees, after: int) -> None:
        self.last = after
        """The last zxid that was given, or the one behind which they begin."""
        self._taker = taker
        self._batches: list[Batch] = []
        self._rows = 0
        try:
            from zkgroup.zkfiles.replay_ways import path_codes
        except ImportError:
            self._paths = None
        else:
            self._paths = path_codes()

    def add(self, batch: Batch) -> None:
        self._batches.append(batch)
        self._rows += batch.rows
        if self._rows >= _STRETCH_ROWS or self._paths is None:
            self.give()

    def give(self) -> None:
        """All that was added."""
        batches, self._batches, self._rows = self._batches, [], 0
        if batches:
            self._give(batches)

    def settle(self) -> None:
        """Brings the taker's tree to what was given in columns."""
        if self._paths is not None:
            self._paths.settle()

    def _give(self, batches: Sequence[Batch]) -> None:
        """Where all are refused, each half is tried; a batch alone is given record by record."""
        if self._is_taken(batches):
            return
        if len(batches) == 1:
            self.settle()
            self.last = _replay_batch(_Rows(batches[0]), self.last, self._taker)
            return
        half = len(batches) // 2
        self._give(batches[:half])
        self._give(batches[half:])

    def _is_taken(self, batches: Sequence[Batch]) -> bool:
        if self._paths is None:
            return False
        first, last = batches[0]["zxid"][0], batches[-1]["zxid"][-1]
        if (self.last and not follows(first, self.last)) or not self._taker.takes_stretch(first, last):
            return False
        from zkgroup.zkfiles.stretches import OddRowsError, stretch_of

        try:
            rows = stretch_of(batches, self._paths)
        except OddRowsError:
            return False
        if not rows.is_without_holes or not self._taker.see_stretch(rows, self._paths):
            return False
        self.last = last
        return True


def _replay_batch(rows: _Rows, last: int, taker: Sees) -> int:
    zxids = rows.zxid
    for is_sets, start, end in rows.runs():
        if last and (zxids[start] <= last or hole_between(last, zxids[start]) is not None):
            raise NotPlainError(f"zxid {zxids[start]:#x} behind {last:#x}")
        last = zxids[end - 1]
        if is_sets and last - zxids[start] == end - start - 1 and taker.see_sets(rows.sets(start, end)):
            continue
        for row in range(start, end) if is_sets else (start,):
            if is_sets and row > start and zxids[row] != zxids[row - 1] + 1:
                raise NotPlainError(f"zxid {zxids[row]:#x} behind {zxids[row - 1]:#x}")
            taker.see(rows.transaction(row, row + 1 if is_sets else end))
    return last


class _Rows:
    """The columns of a batch as lists."""

    def __init__(self, batch: Batch) -> None:
        def column(name: str) -> Sequence[Any]:
            return batch[name]

        self.zxid, self.sub, self.session, self.cxid = map(column, ("zxid", "sub", "session", "cxid"))
        self.time, self.type, self.path, self.data = map(column, ("time", "type", "path", "data"))
        self.version, self.digest, self.op = map(column, ("version", "digest", "op"))
        self._batch = batch
        self._others: dict[str, Sequence[Any]] = {}

    def runs(self) -> Iterator[tuple[bool, int, int]]:
        """The rows in pieces: sets of data in a row (at most some), or those of one other transaction."""
        zxids, size = self.zxid, len(self.zxid)
        is_set = [
            kind == _SET and sub < 0 and digest is not None and path != "/"
            for kind, sub, digest, path in zip(self.type, self.sub, self.digest, self.path, strict=True)
        ]
        start = 0
        while start < size:
            end = start + 1
            if is_set[start]:
                while end < size and is_set[end] and end - start < _SETS_AT_A_TIME:
                    end += 1
            else:
                while end < size and zxids[end] == zxids[start]:
                    end += 1
            yield is_set[start], start, end
            start = end

    def sets(self, start: int, end: int) -> Sequence[DataSet]:
        columns = (self.zxid, self.time, self.path, self.data, self.version)
        digests = [digest & _UNSIGNED for digest in self.digest[start:end]]
        return list(map(DataSet._make, zip(*(column[start:end] for column in columns), digests, strict=True)))

    def _other(self, name: str, row: int) -> Any:
        """A value of a column that few rows have."""
        values = self._others.get(name)
        if values is None:
            values = self._others[name] = self._batch[name]
        return values[row]

    def transaction(self, start: int, end: int) -> Transaction:
        """The transaction of some rows. Raises NotPlainError for a type that no version knows."""
        kind = self.type[start]
        if None in self.op[start:end]:
            raise NotPlainError(f"an operation of type {kind}")
        timeout_ms, closed, operations = None, None, tuple[Operation, ...]()
        if kind == _CREATE_SESSION:
            timeout_ms = self._other("timeout_ms", start)
        elif kind == _CLOSE_SESSION:
            closed = tuple(self.path[start + 1 : end]) or None
        else:
            operations = tuple(map(self._operation, range(start, end)))
            kind = kind if self.sub[start] < 0 else int(TransactionType.MULTI)
        digest = self.digest[start]
        return Transaction(
            zxid=self.zxid[start],
            session=self.session[start],
            cxid=self.cxid[start],
            time_ms=self.time[start],
            type=kind,
            operations=operations,
            timeout_ms=timeout_ms,
            closed_paths=closed,
            digest=None if digest is None else TreeDigest(DIGEST_VERSION, digest & _UNSIGNED),
        )

    def _operation(self, row: int) -> Operation:
        kind = self.type[row]
        is_create = kind in CREATES
        return Operation(
            kind,
            self.path[row],
            self.data[row],
            self._other("acl", row),
            self.version[row],
            is_create and self._other("ephemeral", row) == "session",
            self._other("parent_cversion", row) if is_create else None,
            self._other("ttl_ms", row) if is_create else None,
            self._other("error", row),
        )
