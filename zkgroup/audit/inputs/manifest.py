"""The folder that `audit run` writes: the newest manifest says which files count. Needs no pyarrow.

    OUTPUT/operations/batch=N/ensemble=E/day=D/bucket=B/*.parquet    operations as the logs have them
    OUTPUT/facts/batch=N/ensemble=E/*.parquet                        the rows of facts and of sessions
    OUTPUT/seeds/batch=N/ensemble=E/bucket=B/*.parquet               the tree before the first operation
    OUTPUT/states/batch=N/ensemble=E/bucket=B/*.parquet              the tree at a later zxid
    OUTPUT/znodes/batch=N/ensemble=E/bucket=B/*.parquet              what tree snapshots have otherwise
    OUTPUT/znode_facts/batch=N/ensemble=E/*.parquet                  of these, what the facts of a series have
    OUTPUT/snapshots/batch=N/ensemble=E/*.parquet                    the snapshots themselves
    OUTPUT/trees/batch=N/ensemble=E/*.parquet                        the last tree of a series
    OUTPUT/batches/N.json                                            names, sizes and zxids of these files
    OUTPUT/manifest/N.json                                           the ensembles, and their batches

A file of operations has rows of one log in the order of zxid and place. A batch is written, then entered
in the manifest, so files that a killed job left are never read, and the next job writes over them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from zkgroup.errors import ConfigError
from zkgroup.zkfiles.records import Hole, hole_between

MANIFESTS: Final = "manifest"
"""The folder below an output of `audit run` whose newest file says which files count."""
OPERATIONS, FACTS, SEEDS, STATES = OF_LOGS = ("operations", "facts", "seeds", "states")
ZNODES, ZNODE_FACTS, SNAPSHOTS, TREES = OF_SERIES = ("znodes", "znode_facts", "snapshots", "trees")
_VERSION: Final = 4
_ANEW: Final = "convert the folders again, into another output"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of Parquet, and its content."""

    name: str
    """Its path below the output folder, with / between the parts."""
    table: str
    ensemble: str
    bucket: str
    """The bucket of its rows; empty for rows of all buckets."""
    log: int
    """The zxid in the name of the log of its rows; -1 for the tree at a zxid. Of a series its batch."""
    rows: int
    first_zxid: int
    last_zxid: int

    def has_any(self, after_zxid: int, to_zxid: int | None) -> bool:
        """True if it can have rows of the transactions behind one zxid up to another."""
        return self.last_zxid > after_zxid and (to_zxid is None or self.first_zxid <= to_zxid)


@dataclass(frozen=True, slots=True)
class ConvertedLog:
    """A log as far as it is converted; with several servers, from the beginning of one log to the next."""

    start: int
    """The zxid where it begins, by the log's name."""
    sizes: tuple[int, ...]
    """The bytes of its files, one for each server that has one."""
    is_closed: bool
    """True if there was a later log: then it never changes."""
    last_zxid: int
    """The zxid of the last record; below `start` where there was none."""
    last_offset: int
    """The place of that record in the plain file; it and the name identify the log."""
    rows: int
    batches: tuple[int, ...]
    first_ms: int = 0
    """The time of the first record that was converted."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """The tree at a zxid, which is stored as the seeds of the rows behind it."""

    zxid: int
    batch: int


@dataclass(frozen=True, slots=True)
class Converted:
    """One ensemble."""

    base_zxid: int
    """The zxid of the tree in the seeds; rows before it are left out."""
    servers: int
    seed_batch: int | None = None
    """The batch of the seeds; None where the tree before the first record was empty."""
    is_exact: bool = True
    """True if the tree at `base_zxid` is proved to be the one that servers had."""
    detail: str = ""
    """The reason why it is not exact."""
    logs: tuple[ConvertedLog, ...] = ()
    buckets: int = 0
    """The number of buckets for groups."""
    chroot: str = ""
    """The path that clients have as their root; the paths below it decide the buckets of rows."""
    states: tuple[StoredState, ...] = ()
    """The stored trees by zxid."""
    newest_snapshot: int = 0
    """The zxid in the name of the newest snapshot; 0 where there is none."""
    first_zxid: int = 0
    """The first record from which on its logs tell of everything."""
    series: tuple[int, ...] = ()
    """The batches of its tree snapshots."""
    from_zxid: int = 0
    """Tree snapshots before it are left out."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Tree snapshots that could not be read in the last job, and why."""

    @property
    def last_record(self) -> int | None:
        """The zxid of the last record; None where there is none."""
        return max((log.last_zxid for log in self.logs if log.rows), default=None)

    @property
    def unlogged(self) -> Hole | None:
        """The zxids behind the last record that the newest snapshot proves to exist; None for none."""
        last = self.last_record
        return None if last is None else hole_between(last, self.newest_snapshot + 1)

    @property
    def batches(self) -> set[int]:
        """The numbers of all batches that have rows of it."""
        seeds = set() if self.seed_batch is None else {self.seed_batch}
        states = {state.batch for state in self.states}
        return seeds.union(states, self.series, *(log.batches for log in self.logs))


@dataclass(slots=True)
class Folder:
    """A folder on a local or shared path. All methods raise ConfigError where the filesystem refuses."""

    place: str
    """Its path, without a slash at the end."""

    def path(self, name: str) -> str:
        """The full path of a name in the folder, for people and for Spark."""
        return f"{self.place}/{name}" if name else self.place

    def source(self, name: str) -> Any:
        """The path of a file, or its content, as pyarrow reads both."""
        return self.path(name)

    def sizes(self, name: str = "") -> dict[str, int]:
        """The bytes of the regular files of a folder, by name; empty where there is no such folder."""
        folder = Path(self.path(name))
        with _refusals(folder, "read"):
            entries = sorted(folder.iterdir()) if folder.is_dir() else []
            return {each.name: each.stat().st_size for each in entries if each.is_file()}

    def read(self, name: str) -> bytes:
        """The content of a file."""
        path = Path(self.path(name))
        with _refusals(path, "read"):
            return path.read_bytes()

    def write(self, name: str, content: bytes) -> None:
        """Writes a file whole or not at all; it gets its name only when it is complete."""
        path = Path(self.path(name))
        with _refusals(path, "written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            staged = path.with_name(f".{path.name}.{os.getpid()}")
            staged.write_bytes(content)
            staged.replace(path)

    def delete(self, name: str) -> None:
        """Deletes a file or folder; does nothing where there is none."""
        path = Path(self.path(name))
        with _refusals(path, "deleted"):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


@contextmanager
def _refusals(path: Path, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # such as no permission, or no space
        raise ConfigError(f"{path}: cannot be {done}: {error.strerror or error}") from error


class OutputFolder:
    """The files that count in an output folder, converted or new. All methods raise ConfigError."""

    def __init__(self, folder: Folder) -> None:
        """Reads the newest manifest. Raises ConfigError for one that is none, or of another version."""
        self.folder = folder
        self.number = 0
        """The number of the last manifest and batch; the next ones have the next number."""
        self.ensembles: Mapping[str, Converted] = {}
        self._batches: dict[int, list[StoredFile]] = {}
        name = newest_manifest(folder)
        if name is not None:
            self.number, self.ensembles = _read_manifest(folder.path(name), folder.read(name))

    def named(self, ensemble: str | None) -> str:
        """The ensemble of this name, or the only one."""
        known = ", ".join(sorted(self.ensembles)) or "none"
        if ensemble is None and len(self.ensembles) != 1:
            raise ConfigError(
                f"{self.folder.place}: expected one ensemble, found {known}: name one with --ensemble"
            )
        name = next(iter(self.ensembles)) if ensemble is None else ensemble
        if name not in self.ensembles:
            raise ConfigError(f"{self.folder.place}: expected ensemble {name!r}, found {known}")
        return name

    def files(self, table: str, ensemble: str) -> list[StoredFile]:
        """The files of a table that count, by log; those of log -1 in `facts` are of the seeds."""
        found = [
            each
            for batch in self.ensembles[ensemble].batches
            for each in self._of_batch(batch)
            if each.table == table and each.ensemble == ensemble
        ]
        return sorted(found, key=lambda each: (each.log, each.first_zxid, each.name))

    def seeds(self, ensemble: str, zxid: int) -> list[StoredFile]:
        """The files of the tree at a zxid."""
        files = (*self.files(SEEDS, ensemble), *self.files(STATES, ensemble))
        return [each for each in files if each.last_zxid == zxid]

    def enter(self, ensembles: Mapping[str, Converted], files: Iterable[StoredFile]) -> None:
        """Writes a new manifest, with the files of a batch; deletes manifests before the last one."""
        self.number += 1
        self._write(f"batches/{self.number:010}.json", {"files": [asdict(each) for each in files]})
        self.ensembles = dict(ensembles)
        known = {name: asdict(each) for name, each in ensembles.items()}
        fields = {"version": _VERSION, "number": self.number, "ensembles": known}
        self._write(f"{MANIFESTS}/{self.number:010}.json", fields)
        self.folder.delete(f"{MANIFESTS}/{self.number - 2:010}.json")

    def clear(self) -> None:
        """Deletes the files that a killed job left of the next batch."""
        for table in (*OF_LOGS, *OF_SERIES):
            self.folder.delete(f"{table}/batch={self.number + 1}")

    def _write(self, name: str, fields: Mapping[str, Any]) -> None:
        self.folder.write(name, json.dumps(fields, indent=1).encode())

    def _of_batch(self, batch: int) -> list[StoredFile]:
        if batch not in self._batches:
            name = f"batches/{batch:010}.json"
            place, content = self.folder.path(name), self.folder.read(name)
            try:
                self._batches[batch] = [StoredFile(**each) for each in json.loads(content)["files"]]
            except (ValueError, KeyError, TypeError) as error:
                raise ConfigError(f"{place}: expected a list of Parquet files: {error!r}") from error
        return self._batches[batch]


def is_converted(path: Path) -> bool:
    """True if `audit run` wrote to a folder. Raises nothing."""
    try:
        return any(each.suffix == ".json" and each.is_file() for each in (path / MANIFESTS).iterdir())
    except OSError:
        return False


def newest_manifest(folder: Folder) -> str | None:
    """The name of the newest manifest; None where nothing was converted to the folder."""
    names = [name for name in folder.sizes(MANIFESTS) if name.endswith(".json")]
    return f"{MANIFESTS}/{max(names)}" if names else None


def _read_manifest(place: str, content: bytes) -> tuple[int, dict[str, Converted]]:
    """The number and the ensembles of a manifest. Raises ConfigError for another file."""
    try:
        fields = json.loads(content)
        version, number = int(fields["version"]), int(fields["number"])
        is_known = version == _VERSION
        ensembles = {key: _converted(value) for key, value in fields["ensembles"].items() if is_known}
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{place}: expected a manifest of `audit run`, found another file ({error!r}): {_ANEW}"
        ) from error
    if not is_known:
        raise ConfigError(f"{place}: expected version {_VERSION}, found {version}: {_ANEW}")
    return number, ensembles


def _converted(fields: Mapping[str, Any]) -> Converted:
    logs = [
        ConvertedLog(**{**each, "sizes": tuple(each["sizes"]), "batches": tuple(each["batches"])})
        for each in fields["logs"]
    ]
    states = [StoredState(**each) for each in fields["states"]]
    series, skipped = tuple(fields["series"]), tuple(map(tuple, fields["skipped"]))
    tuples = {"logs": tuple(logs), "states": tuple(states), "series": series, "skipped": skipped}
    return Converted(**{**fields, **tuples})
