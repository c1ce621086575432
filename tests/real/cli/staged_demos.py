"""Demos of the command line that are not run: each returns a given result."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import pytest

from zkgroup.demo.run import DemoOptions, DemoRun, ProgressEvent
from zkgroup.groups.ensemble import AsOf

RunT = TypeVar("RunT", bound=DemoRun)


def ended(kind: type[RunT], *, folder: Path | None, **fields: Any) -> RunT:
    """A run that has ended; its files are kept where there is a folder."""
    options = DemoOptions(keep=folder is not None, zookeeper=fields.pop("given", None))
    run = kind(
        options=options,
        show=None,  # type: ignore[arg-type]
        folder=folder or Path("gone"),
        zookeeper="127.0.0.1:1",
        **fields,
    )
    run.as_of = AsOf(1, 1)
    return run


def staged(monkeypatch: pytest.MonkeyPatch, found: DemoRun, line: str) -> list[Any]:
    """Replaces the scenario's `run`: it prints one line and returns `found`. Returns the options it gets."""
    options_seen: list[Any] = []

    def run(options: Any, show: Any) -> object:
        options_seen.append(options)
        found.events.append(ProgressEvent(1.5, line))
        show(found)
        return found

    monkeypatch.setattr(type(found), "run", run)
    return options_seen
