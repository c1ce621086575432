"""Python's garbage collector while a broker serves."""

from __future__ import annotations

import gc
from contextlib import nullcontext

import pytest
from zkgroup_cli.commands import broker
from zkgroup_cli.serving import OBJECTS_BEFORE_COLLECTION

from zkgroup.errors import ConflictError


class Served:
    """A broker that notices the collector's settings, and then fails."""

    def __init__(self) -> None:
        self.found: tuple[int, int] | None = None

    def start(self) -> None:
        """Begins to serve."""

    def check(self) -> None:
        self.found = gc.get_threshold()[0], gc.get_freeze_count()
        raise ConflictError("another broker has this id")

    def close(self) -> None:
        """Ends."""


class Printer:
    def check(self) -> None:
        """Its reader is there."""


def test_the_collector_runs_rarely_while_a_broker_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves out what was loaded before. Afterwards it is as it was: a program may go on."""
    monkeypatch.setattr(broker, "CHECK_S", 0)
    monkeypatch.setattr(broker, "connecting", lambda: nullcontext(lambda: None))
    before = gc.get_threshold()
    gc.unfreeze()
    gc.set_threshold(700, 10, 10)
    served = Served()

    try:
        with pytest.raises(ConflictError):
            broker._serve(served, Printer(), lambda stop: None)  # type: ignore[arg-type]
        after = gc.get_threshold()
    finally:
        gc.set_threshold(*before)

    assert served.found is not None
    threshold, left_out = served.found
    assert threshold == OBJECTS_BEFORE_COLLECTION
    assert left_out > 0
    assert after == (700, 10, 10)
