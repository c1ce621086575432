"""Where a task puts Parquet: into files of a folder that it can reach, or into its result."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from zkgroup.audit.stored_files import StoredFile, write_rows
from zkgroup.errors import ConfigError


class TaskFile(NamedTuple):
    """A file that a task made."""

    file: StoredFile
    content: bytes | None
    """None where it is in its place already; otherwise the driver puts it there."""


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """The folder of the output; None for one that only Hadoop's file systems reach."""

    folder: str | None

    def write(self, table: Any, file: StoredFile) -> TaskFile:
        """Writes a table, whole or not at all. Raises ConfigError where the filesystem refuses."""
        if self.folder is None:
            stream = pa.BufferOutputStream()
            write_rows(table, stream)
            return TaskFile(file, stream.getvalue().to_pybytes())
        path = Path(self.folder, file.name)
        staged = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_rows(table, staged)
            staged.replace(path)
        except OSError as error:  # no right to, or no space
            raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error
        return TaskFile(file, None)
