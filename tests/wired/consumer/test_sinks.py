"""Sinks never end a member: their exceptions are logged once and counted, and the member continues."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE_S
from tests.wired.consumer.records import polled
from tests.worlds.public_apis import Api, MemberWorld, orders, settings
from zkgroup.consumer import telemetry
from zkgroup.consumer.sync import Consumer
from zkgroup.errors import ConfigError
from zkgroup.history import HistoryFile, read_files
from zkgroup.metrics import sinks
from zkgroup.metrics.sinks import GuardedMetrics
from zkgroup.sources.memory import MemorySource
from zkgroup.testing import FakeClock


class BrokenHistory:
    """A `HistorySink` whose disk has gone: at the given record and ever after."""

    def __init__(self, good: int = 0) -> None:
        self.calls = 0
        self._good = good

    def record(self, kind: str, fields: Mapping[str, object]) -> None:
        self.calls += 1
        if self.calls > self._good:
            raise OSError("gone")


class Counted:
    """A `MetricsSink` that keeps sums of counters."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sums: dict[str, float] = {}

    def count(self, name: str, labels: Mapping[str, str], amount: float = 1.0) -> None:
        with self._lock:
            self.sums[name] = self.sums.get(name, 0) + amount

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Not counted."""

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Not counted."""


def _warnings(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == name]


class Curious:
    """A `HistorySink` that reads the state of its consumer on each calling thread."""

    def __init__(self) -> None:
        self.consumer: Consumer | None = None
        self.seen: list[str] = []

    def record(self, kind: str, fields: Mapping[str, object]) -> None:
        if kind in ("deliver.start", "deliver.end", "seek"):
            assert self.consumer is not None
            self.consumer.position(orders(0)[0])
            self.consumer.pause(*orders(3))
            self.seen.append(kind)


def test_a_history_may_ask_its_consumer(world: MemberWorld) -> None:
    """Nothing of the application runs under the lock of the delivery: not at a start, an end or a seek."""
    source, history = MemorySource(), Curious()
    source.append("orders", 0, b"")
    with Consumer(
        client=world.client("a"),
        group="g",
        topics=["orders"],
        source=source,
        history=history,
        settings=settings(),
        clock=world.clock,
    ) as consumer:
        history.consumer = consumer
        for _ in range(2):
            (record,) = polled(consumer, 1)
            consumer.ack(record)
            consumer.seek(orders(0)[0], 0)

    assert history.seen[:6] == ["deliver.start", "deliver.end", "seek"] * 2


@pytest.mark.parametrize("good", [0, 3, 12])
def test_a_history_that_raises_stops_and_the_member_continues(
    api: Api, world: MemberWorld, caplog: pytest.LogCaptureFixture, good: int
) -> None:
    """At the first record or a later one, on whichever thread: everything is delivered and committed."""
    source, history, metrics = MemorySource(), BrokenHistory(good), Counted()
    for partition in range(4):
        source.append("orders", partition, b"")
    with api.consumer(
        client=world.client("a"),
        source=source,
        history=history,
        metrics=metrics,
        settings=settings(consumer_id="a", consumer_timeout_ms=3000),
    ) as consumer:
        consumer.wait_until_assigned(PATIENCE_S)
        assert len(list(consumer)) == 4
        consumer.commit()
        assert set(world.offsets().values()) == {1}

    assert history.calls == good + 1  # a history with a hole would accuse the innocent
    assert _warnings(caplog, "zkgroup.history") == ["g_a: its history sink raised; recording stops"]
    assert metrics.sums["zkgroup_history_lost_total"] > 1


@pytest.mark.parametrize("kind", ["history", "metrics"])
def test_a_slow_sink_is_logged_once(
    kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A member waits for its sinks, so the author of a slow one should know."""
    monkeypatch.setattr(telemetry, "SLOW_S", -1.0)
    monkeypatch.setattr(sinks, "SLOW_S", -1.0)
    report: Callable[[], Any]
    if kind == "history":
        history = telemetry.GuardedHistory(BrokenHistory(good=9), "g_a", FakeClock(), lambda: None)
        report = lambda: history.record("x", {})  # noqa: E731
    else:
        metrics = GuardedMetrics(Counted())
        report = lambda: metrics.count("x", {})  # noqa: E731

    report()
    report()

    assert [text.partition(" took ")[0] for text in _warnings(caplog, f"zkgroup.{kind}")] == [
        {"history": "g_a: its history sink", "metrics": "the metrics sink"}[kind]
    ]


def test_errors_of_a_metrics_sink_are_counted() -> None:
    """It is called again: its backend may come back."""

    class Flaky(Counted):
        def count(self, name: str, labels: Mapping[str, str], amount: float = 1.0) -> None:
            super().count(name, labels, amount)
            if self.sums[name] < 3:
                raise OSError("away")

    flaky = Flaky()
    guarded = GuardedMetrics(flaky)
    for _ in range(3):
        guarded.count("x", {})

    assert (guarded.errors, flaky.sums) == (2, {"x": 3})


def test_a_history_file_finds_the_name_of_its_member(api: Api, world: MemberWorld, tmp_path: Path) -> None:
    """Also a generated one; a second member is refused at its start."""
    with HistoryFile(tmp_path / "h.jsonl") as history:
        with api.member(client=world.client("a"), history=history) as member:
            member.wait_until_assigned(PATIENCE_S)
            member.commit({orders(0)[0]: 1})
            name = member.member_id
        with pytest.raises(ConfigError, match=f"expected the records of {name}"):
            api.member(client=world.client("b"), history=history).start()

    records = read_files([tmp_path / "h.jsonl"]).records
    assert {record.member for record in records} == {name}
    assert "commit.ok" in {record.kind for record in records}
