"""Demos of the command line that are not run: what they come to is given."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from zkgroup.demo.progress import ProgressEvent


def staged(monkeypatch: pytest.MonkeyPatch, scenario: ModuleType, found: object, line: str) -> list[Any]:
    """The demo of this scenario tells one line and comes to `found`. What it was told to do."""
    told: list[Any] = []

    def run(options: Any, screen: Any) -> object:
        told.append(options)
        screen.happened(ProgressEvent(1.5, line))
        return found

    monkeypatch.setattr(scenario, "run", run)
    return told
