"""The Parquet files of `audit run`: which there are, by batch, and reading them; no Spark.

    OUTPUT/operations/batch=N/ensemble=E/day=D/bucket=B/*.parquet    operations as the logs have them
    OUTPUT/facts/batch=N/ensemble=E/*.parquet                        the rows of facts and of sessions
    OUTPUT/seeds/batch=N/ensemble=E/bucket=B/*.parquet               the tree before the first operation
    OUTPUT/states/batch=N/ensemble=E/bucket=B/*.parquet              the tree at a later zxid
    OUTPUT/batches/N.json                                            names, sizes and zxids of these files

A file of operations has rows of one log in the order of zxid and place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from zkgroup.errors import ConfigError

OPERATIONS: Final = "operations"
FACTS: Final = "facts"
SEEDS: Final = "seeds"
STATES: Final = "states"
FOLDER: Final = "batches"
_AS_CODES: Final = ("op", "path", "parent", "ephemeral", "file")
"""Columns with few different values."""
_IN_ORDER: Final = ("zxid", "time", "time_ms", "log")
"""By their bounds readers pass over files; bounds of all columns would cost a third of the writing."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file, and what is in it."""

    name: str
    """Below the output folder, with / between the parts."""
    table: str
    ensemble: str
    bucket: str
    """Empty for rows of all buckets."""
    log: int
    """The zxid in the name of the log that the rows are of; -1 for what stood at a zxid."""
    rows: int
    first_zxid: int
    last_zxid: int

    def has_any(self, after_zxid: int, to_zxid: int | None) -> bool:
        """Returns whether it can have rows of the transactions behind one zxid, up to another."""
        return self.last_zxid > after_zxid and (to_zxid is None or self.first_zxid <= to_zxid)


Source = Callable[[str], Any]
"""Gives what pyarrow reads of a file, by its name: a path or its content."""


def index_name(batch: int) -> str:
    """The file that lists the files of a batch."""
    return f"{FOLDER}/{batch:010}.json"


def encoded(files: Iterable[StoredFile]) -> bytes:
    """The content of that file."""
    return json.dumps({"files": [asdict(each) for each in files]}, indent=1).encode()


def decoded(place: str, content: bytes) -> list[StoredFile]:
    """The files of a batch; `place` is the name of the list. Raises ConfigError for any other file."""
    try:
        return [StoredFile(**each) for each in json.loads(content)["files"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{place}: expected a list of Parquet files: {error!r}") from error


def read_files(
    files: Sequence[StoredFile], source: Source, names: Sequence[str], codes: Sequence[str]
) -> Any:
    """The rows of files one behind the other, as a pyarrow.Table; None for no file.

    Args:
        names: the columns that are read.
        codes: those of them that come as codes of their different values.

    Raises ConfigError for a file that is not there, or is no Parquet of zkgroup.
    """
    tables = []
    for each in files:
        place = each.name
        try:
            opened = source(each.name)
            place = opened if isinstance(opened, str) else place
            with pq.ParquetFile(opened, read_dictionary=list(codes)) as file:
                tables.append(file.read(columns=list(names), use_threads=False))
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            found = "nothing" if isinstance(error, FileNotFoundError) else f"another file ({error})"
            raise ConfigError(
                f"{place}: expected Parquet that `audit run` wrote, found {found}; convert the folders again,"
                " into another output"
            ) from error
    return pa.concat_tables(tables) if tables else None


def write_rows(table: Any, sink: Any) -> None:
    """Writes a table as Parquet to a path, or to a stream of pyarrow."""
    coded, bounded = (
        [name for name in table.column_names if name in some] for some in (_AS_CODES, _IN_ORDER)
    )
    pq.write_table(table, sink, use_dictionary=coded, write_statistics=bounded, store_schema=False)
