"""Notes of deliveries on their way to the history: in order, and before what follows from them."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from tests.waiting import PATIENCE_S, happened, joined
from zkgroup.consumer import telemetry as outbox_module
from zkgroup.consumer.telemetry import HistoryQueue


def test_notes_are_recorded_in_their_order() -> None:
    """Each once, when they are sent."""
    recorded: list[str] = []
    queue = HistoryQueue(lambda kind, fields: recorded.append(kind))
    for kind in ("deliver.start", "deliver.end"):
        queue.add(kind, {})
    before = list(recorded)

    queue.send()
    queue.send()

    assert (before, recorded) == ([], ["deliver.start", "deliver.end"])


def test_a_sink_may_cause_notes_itself() -> None:
    """They come after the one that it is called with; it is not called within itself."""
    recorded: list[str] = []

    def record(kind: str, fields: Mapping[str, object]) -> None:
        recorded.append(f"{kind} begins")
        if kind == "deliver.start":
            queue.add("seek", {})
            queue.send()
        recorded.append(f"{kind} ends")

    queue = HistoryQueue(record)
    queue.add("deliver.start", {})
    queue.send()

    assert recorded == ["deliver.start begins", "deliver.start ends", "seek begins", "seek ends"]


def test_a_sender_waits_for_the_record_of_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of an ownership is not recorded before a delivery within it."""
    monkeypatch.setattr(outbox_module, "SEND_WAIT_S", PATIENCE_S)
    recorded: list[str] = []
    inside, go_on, sends = threading.Event(), threading.Event(), threading.Event()

    def record(kind: str, fields: Mapping[str, object]) -> None:
        inside.set()
        happened(go_on)
        recorded.append(kind)

    queue = HistoryQueue(record)
    queue.add("deliver.start", {})
    first = threading.Thread(target=queue.send)
    first.start()
    happened(inside)

    def end() -> None:
        sends.set()
        queue.send()
        recorded.append("own.end")

    second = threading.Thread(target=end)
    second.start()
    happened(sends)
    go_on.set()
    joined(first)
    joined(second)

    assert recorded == ["deliver.start", "own.end"]
