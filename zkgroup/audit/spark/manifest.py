"""What was converted already: the one file that makes a batch of Parquet part of the table.

A batch is written first and entered here last, so what a killed job left behind is never read, and is written
over by the next one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from zkgroup.audit.spark.storage import Storage
from zkgroup.errors import ConfigError

_FOLDER: Final = "manifest"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Stretch:
    """What was converted of one log; of several servers, from the beginning of one log to the next."""

    start: int
    """The zxid where it begins, by the log's name."""
    sizes: tuple[int, ...]
    """Of the files, in bytes; one for each server that has one."""
    is_closed: bool
    """Whether a later log was there: then it never changes."""
    last_zxid: int
    """Of the last record; below `start` where there was none."""
    last_offset: int
    """Of that record in the plain file: with the name, what the log is known by."""
    rows: int
    batches: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Converted:
    """One ensemble."""

    base_zxid: int
    """Seeds are the tree at this zxid; rows before it are left out."""
    servers: int
    seed_batch: int | None = None
    """None where nothing stood before the first record."""
    stretches: tuple[Stretch, ...] = ()

    @property
    def batches(self) -> tuple[int, ...]:
        """All that have rows of it."""
        return tuple(sorted({batch for stretch in self.stretches for batch in stretch.batches}))


@dataclass(frozen=True, slots=True)
class Manifest:
    """The state of an output folder."""

    number: int = 0
    """Counts what was entered; the next batch has the next number."""
    ensembles: Mapping[str, Converted] = field(default_factory=dict)

    @classmethod
    def read(cls, storage: Storage) -> Manifest:
        """The newest one; an empty one for a new folder. Raises ConfigError for what is none of ours."""
        names = [file.name for file in storage.files(_FOLDER) if file.name.endswith(".json")]
        if not names:
            return cls()
        name = f"{_FOLDER}/{max(names)}"
        try:
            fields = json.loads(storage.read(name))
            version, number = int(fields["version"]), int(fields["number"])
            ensembles = {key: _converted(value) for key, value in fields["ensembles"].items()}
        except (ValueError, KeyError, TypeError) as error:
            place = storage.path(name)
            raise ConfigError(f"{place}: expected a manifest of converted logs: {error!r}") from error
        if version != _VERSION:
            raise ConfigError(f"{storage.path(name)}: expected version {_VERSION}, found {version}")
        return cls(number, ensembles)

    def write(self, storage: Storage) -> None:
        """Makes this the state of the folder; those before the one before it go."""
        text = json.dumps(
            {
                "version": _VERSION,
                "number": self.number,
                "ensembles": {name: asdict(each) for name, each in self.ensembles.items()},
            },
            indent=1,
        )
        storage.write(_name(self.number), text.encode())
        storage.delete(_name(self.number - 2))


def _name(number: int) -> str:
    return f"{_FOLDER}/{number:010}.json"


def _converted(fields: Mapping[str, Any]) -> Converted:
    stretches = [
        Stretch(**{**each, "sizes": tuple(each["sizes"]), "batches": tuple(each["batches"])})
        for each in fields["stretches"]
    ]
    return Converted(**{**fields, "stretches": tuple(stretches)})
