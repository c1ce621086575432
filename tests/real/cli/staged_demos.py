"""Demos of the command line that are not run: each returns a given report."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from zkgroup.demo.stage import ProgressEvent


def staged(monkeypatch: pytest.MonkeyPatch, scenario: ModuleType, found: object, line: str) -> list[Any]:
    """Replaces the scenario's `run`: it prints one line and returns `found`. Returns the options it gets."""
    options_seen: list[Any] = []

    def run(options: Any, screen: Any) -> object:
        options_seen.append(options)
        screen.on_event(ProgressEvent(1.5, line))
        return found

    monkeypatch.setattr(scenario, "run", run)
    return options_seen
