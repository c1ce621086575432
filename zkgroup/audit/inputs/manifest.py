"""Says what `audit run` converted to Parquet: the one file that makes a batch part of the tables.

A batch is written first and entered here last, so what a killed job left behind is never read, and is written
over by the next one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from zkgroup.errors import ConfigError
from zkgroup.zkfiles.zxids import Hole, hole_between

FOLDER: Final = "manifest"
"""Holds the manifests, the newest by its number."""
_VERSION: Final = 2
_ANEW: Final = "convert the folders again, into another output"


@dataclass(frozen=True, slots=True)
class ConvertedLog:
    """Holds what was converted of one log; of several servers, from the beginning of one log to the next."""

    start: int
    """The zxid where it begins, by the log's name."""
    sizes: tuple[int, ...]
    """Of the files, in bytes; one for each server that has one."""
    is_closed: bool
    """True if a later log was there: then it never changes."""
    last_zxid: int
    """Of the last record; below `start` where there was none."""
    last_offset: int
    """Of that record in the plain file: with the name, what the log is known by."""
    rows: int
    batches: tuple[int, ...]
    first_ms: int = 0
    """The time of the first record that was converted."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """Holds what stood at a zxid, as seeds of the rows behind it."""

    zxid: int
    batch: int


@dataclass(frozen=True, slots=True)
class Converted:
    """One ensemble."""

    base_zxid: int
    """Seeds are the tree at this zxid; rows before it are left out."""
    servers: int
    seed_batch: int | None = None
    """None where nothing stood before the first record."""
    is_exact: bool = True
    """True if the tree at `base_zxid` was proved to be the one that servers had."""
    detail: str = ""
    """Holds what keeps it from being exact."""
    logs: tuple[ConvertedLog, ...] = ()
    buckets: int = 0
    """Says how many there are for groups."""
    chroot: str = ""
    """The path that clients have as their root: by the paths below it rows are in their buckets."""
    states: tuple[StoredState, ...] = ()
    """By zxid."""
    newest_snapshot: int = 0
    """The zxid in its name; 0 where there is none."""

    @property
    def last_record(self) -> int | None:
        """The zxid of the last record; None where there is none."""
        return max((log.last_zxid for log in self.logs if log.rows), default=None)

    @property
    def unlogged(self) -> Hole | None:
        """Zxids behind the last record that the newest snapshot shows to have been; None for none."""
        last = self.last_record
        return None if last is None else hole_between(last, self.newest_snapshot + 1)

    @property
    def batches(self) -> tuple[int, ...]:
        """All that have rows of it."""
        return tuple(sorted({batch for log in self.logs for batch in log.batches}))


@dataclass(frozen=True, slots=True)
class Manifest:
    """The state of an output folder."""

    number: int = 0
    """Counts what was entered; the next batch has the next number."""
    ensembles: Mapping[str, Converted] = field(default_factory=dict)

    @classmethod
    def decode(cls, place: str, content: bytes) -> Manifest:
        """Of the bytes of a file; `place` is its name. Raises ConfigError for any other file."""
        try:
            fields = json.loads(content)
            version, number = int(fields["version"]), int(fields["number"])
            is_known = version == _VERSION
            ensembles = {key: _converted(value) for key, value in fields["ensembles"].items() if is_known}
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{place}: expected a manifest of converted logs, found another file ({error!r}): {_ANEW}"
            ) from error
        if version != _VERSION:
            raise ConfigError(f"{place}: expected version {_VERSION}, found {version}: {_ANEW}")
        return cls(number, ensembles)

    def encode(self) -> bytes:
        """As it is stored."""
        fields = {
            "version": _VERSION,
            "number": self.number,
            "ensembles": {name: asdict(each) for name, each in self.ensembles.items()},
        }
        return json.dumps(fields, indent=1).encode()

    def named(self, place: str, ensemble: str | None) -> str:
        """The name of an ensemble: the one that is asked for, or the only one. Raises ConfigError."""
        known = ", ".join(sorted(self.ensembles)) or "none"
        if ensemble is None and len(self.ensembles) != 1:
            raise ConfigError(f"{place}: expected one ensemble, found {known}: name one with --ensemble")
        name = next(iter(self.ensembles)) if ensemble is None else ensemble
        if name not in self.ensembles:
            raise ConfigError(f"{place}: expected ensemble {name!r}, found {known}")
        return name


def newest(names: Iterable[str]) -> str | None:
    """The manifest that holds, of the names of files; None where none is one."""
    return max((name for name in names if name.endswith(".json")), default=None)


def name_of(number: int) -> str:
    """The name of a manifest."""
    return f"{number:010}.json"


def is_converted(path: Path) -> bool:
    """Returns whether a folder is one that `audit run` wrote to. Raises nothing."""
    try:
        return newest(each.name for each in (path / FOLDER).iterdir()) is not None
    except OSError:
        return False


def _converted(fields: Mapping[str, Any]) -> Converted:
    logs = [
        ConvertedLog(**{**each, "sizes": tuple(each["sizes"]), "batches": tuple(each["batches"])})
        for each in fields["logs"]
    ]
    states = [StoredState(**each) for each in fields["states"]]
    return Converted(**{**fields, "logs": tuple(logs), "states": tuple(states)})
