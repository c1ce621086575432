"""Runs commands in this process and returns everything that a script would see of them."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from zkgroup_cli.app import root
from zkgroup_cli.schemas import SCHEMAS

from tests.worlds.processes import Piped, Process, violations


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of one command: exit code, data and messages."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """Its JSON document, validated with the published schema."""
        document = json.loads(self.out)
        found = violations(document, SCHEMAS[document["schema"]])
        assert not found, found
        return dict(document)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@contextmanager
def logs_as_before() -> Iterator[None]:
    """Restores the logging of this process after the block, as the end of a process would."""
    top, ours = logging.getLogger(), logging.getLogger("zkgroup")
    handlers, levels = list(top.handlers), (top.level, ours.level)
    top.handlers[:] = []  # or they would be closed
    try:
        yield
    finally:
        top.handlers[:] = handlers
        for logger, level in zip((top, ours), levels, strict=True):
            logger.setLevel(level)


class Shell:
    """A user's shell: a home folder, environment variables, an ensemble."""

    def __init__(self, home: Path, zookeeper: str | None = None) -> None:
        self.home = home
        self.environment: dict[str, str | None] = {
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "ZKGROUP_ZOOKEEPER": zookeeper,
            "COLUMNS": "",
            "NO_COLOR": None,
        }

    @property
    def variables(self) -> dict[str, str]:
        """The whole environment of a process that this user starts."""
        own = {name: value for name, value in self.environment.items() if value is not None}
        return {**os.environ, **own}

    def start(self, *args: str, fresh: bool = False) -> Process:
        """Starts `zkgroup` with these arguments as a process that prints events."""
        return Process(*args, "--format", "ndjson", env=self.variables, fresh=fresh)

    def piped(self, *args: str, fresh: bool = False) -> Piped:
        """Starts `zkgroup` with these arguments as a process that reads from a pipe."""
        return Piped(*args, env=self.variables, fresh=fresh)

    def run(self, *args: str, stdin: str | None = None, env: Mapping[str, str] | None = None) -> Ran:
        """Runs `zkgroup` with these arguments."""
        with logs_as_before():
            result = CliRunner().invoke(
                root, list(args), input=stdin, env={**self.environment, **(env or {})}
            )
        return Ran(result.exit_code, result.stdout, result.stderr)

    def json(self, *args: str, code: int = 0, stdin: str | None = None) -> dict[str, Any]:
        """The document of a command run with `--format json`."""
        ran = self.run(*args, "--format", "json", stdin=stdin)
        assert ran.code == code, ran
        return ran.document

    @property
    def undo_files(self) -> list[Path]:
        return sorted((self.home / "state" / "zkgroup" / "undo").glob("*.json"))
