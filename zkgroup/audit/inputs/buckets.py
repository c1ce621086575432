"""Buckets: all rows of a group are in one, and all rows of no group in another.

So every key of a rule has its rows in one bucket, but for those of `findings.buckets.SPANNING`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from tempfile import TemporaryFile, gettempdir
from typing import Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zkgroup.audit.inputs.events import CLOSE_SESSION, CREATE, CREATE_SESSION, DELETE, ERROR, OF_SESSION
from zkgroup.audit.inputs.rows import (
    AS_CODES,
    Columns,
    Flags,
    Numbers,
    columns_of,
    columns_of_rows,
    fact_rows,
    groups_of_paths,
    stable_order,
    table_of,
)
from zkgroup.audit.inputs.stored_files import parquet_of
from zkgroup.errors import ConfigError

CLUSTER: Final = "cluster"
"""The bucket of what belongs to no group: brokers, topics, controllers, sessions, refused requests."""
_FEWEST: Final = 4
_MOST: Final = 256
_BYTES: Final = 64 << 20
"""Of logs, in one bucket."""


def bucket_of_group(group: str, count: int) -> str:
    """The bucket of a group, of this many."""
    return str(crc32(group.encode("utf-8", "surrogatepass")) % count)


def names_of(count: int) -> list[str]:
    """All buckets, of this many for groups."""
    return [CLUSTER, *map(str, range(count))]


def numbers_of(paths: Any, count: int, chroot: str = "") -> Numbers:
    """For each path that servers have, of a pyarrow array, the number of its bucket in `names_of`.

    A path is of a group where it is at or below `/consumers/<group>` as clients see it.
    """
    groups, codes = groups_of_paths(paths, chroot)
    return np.array([*(int(bucket_of_group(group, count)) + 1 for group in groups), 0], np.int64)[codes]


def count_for(size: int) -> int:
    """The number of buckets that groups get where the logs have so many bytes at first."""
    return max(_FEWEST, min(_MOST, -(-size // _BYTES)))


def by_code(table: Any, codes: Numbers) -> Iterator[tuple[int, Any]]:
    """The rows of each code as a pyarrow.Table, in their order."""
    order = stable_order(codes)
    ordered, codes = table.take(pa.array(order)), codes[order]
    starts = np.flatnonzero(np.append([True], codes[1:] != codes[:-1])[: len(codes)]).tolist()
    for start, end in pairwise([*starts, len(codes)]):
        yield int(codes[start]), ordered.slice(start, end - start)


_NODE_EXISTS: Final = -110


def known_rows(columns: Columns) -> Numbers:
    """The rows of a part that make its facts, or that a rule about sessions cannot do without.

    Parts follow each other in time. Rules about sessions ask for the rows of ephemerals, what a session wrote
    last, requests that failed because a znode was there, and the row of the session before each of these.
    """
    matters: Flags = np.zeros(len(columns), np.bool_)
    matters[fact_rows(columns)] = True
    op = columns.op
    makes = (op == CREATE) & (columns.ephemeral == OF_SESSION)
    matters |= columns.applied & (makes | (op == DELETE))
    matters |= (op == CREATE_SESSION) | (op == CLOSE_SESSION)
    sessions = pa.array(columns.session).dictionary_encode().indices.to_numpy()
    order = stable_order(sessions)
    session = sessions[order]
    is_next = np.append([False], session[1:] == session[:-1])[: len(order)]
    errors: Numbers = columns.error.fill_null(0).to_numpy(zero_copy_only=False)
    contended = ((op == ERROR) & (errors == _NODE_EXISTS))[order]
    matters[order[contended]] = True
    matters[order[np.flatnonzero(contended & is_next) - 1]] = True
    is_closing = np.isin(columns.zxid, columns.zxid[op == CLOSE_SESSION])[order]
    for some in (order, order[~is_closing]):
        session = sessions[some]
        matters[some[np.append(session[1:] != session[:-1], True)[: len(some)]]] = True
    return np.flatnonzero(matters)


class TemporaryTables:
    """Tables by name, in a file without a name: it goes with the process, however that ends.

    What `add` takes at a time is one piece of Parquet. The file is where `TMPDIR` says.
    """

    def __init__(self) -> None:
        self._file = TemporaryFile(prefix="zkgroup-")  # noqa: SIM115
        self._pieces: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        """For each name where its pieces begin, and their sizes."""
        self.size = 0
        """Bytes of all."""

    def add(self, name: str, table: Any) -> None:
        """Rows behind those that were added to that name. Raises ConfigError where the disk has no room."""
        content = parquet_of(table)
        try:
            self._file.seek(self.size)
            self._file.write(content)
            self._file.flush()
        except OSError as error:
            raise ConfigError(
                f"{gettempdir()}: cannot keep the rows of a long history there: {error.strerror}; "
                "TMPDIR names another folder"
            ) from error
        self._pieces[name].append((self.size, len(content)))
        self.size += len(content)

    def read(self, name: str, codes: Sequence[str] = ()) -> list[Any]:
        """The tables that were added to a name, in order, as pyarrow.Tables. Raises ConfigError.

        Args:
            codes: columns that come as codes of their different values.
        """
        found = []
        for at, size in self._pieces[name]:
            self._file.seek(at)
            content = self._file.read(size)
            if len(content) < size:
                raise ConfigError(f"{gettempdir()}: the rows of a long history that were kept there are gone")
            with pq.ParquetFile(pa.BufferReader(content), read_dictionary=list(codes)) as file:
                found.append(file.read(use_threads=False))
        return found

    def close(self) -> None:
        """Gives the file back."""
        with suppress(OSError):  # what found no room is not needed any more
            self._file.close()


class TemporaryBuckets(TemporaryTables):
    """The rows of a history by bucket."""

    def __init__(self, count: int) -> None:
        """Of `count` buckets for groups, and one more."""
        super().__init__()
        self.names: Final = names_of(count)

    def add_rows(self, columns: Columns) -> None:
        """Rows behind those that were added before. Raises ConfigError where the disk has no room."""
        codes = numbers_of(pa.array(columns.paths, pa.string()), len(self.names) - 1)[columns.path]
        for number, rows in by_code(table_of(columns), codes):
            self.add(self.names[number], rows)

    def columns(self, name: str) -> Columns:
        """The rows of a bucket, in the order in which they were added. Raises ConfigError."""
        tables = self.read(name, AS_CODES)
        return columns_of_rows(pa.concat_tables(tables)) if tables else columns_of(())
