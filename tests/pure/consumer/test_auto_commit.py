"""The timer of automatic commits, without threads: a fake clock, and positions that the test names."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from tests.wired.consumer.test_member_engine import ByHand
from zkgroup.consumer._base import MemberOptions
from zkgroup.consumer.consumer_engine import ConsumerEngine
from zkgroup.consumer.lease import ProcessedPositions
from zkgroup.model import StaticSubscription, TopicPartition
from zkgroup.model.requests import SetData
from zkgroup.settings import GroupSettings
from zkgroup.sources.memory import MemorySource
from zkgroup.testing.clock import FakeClock
from zkgroup.testing.memory_zookeeper import MemoryZooKeeper
from zkgroup.znodes.brokers import Topic, broker_ids_path
from zkgroup.znodes.consumers import Offset, Owner

ZERO = TopicPartition("orders", 0)
INTERVAL_MS = 10_000


class Bench:
    """A consumer that owns one partition and has processed up to `position`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: object) -> None:
        self.clock, self.runner = FakeClock(), ByHand()
        self.server = MemoryZooKeeper(self.clock)
        self.server.put(broker_ids_path())
        self.server.put(Topic.path("orders"), Topic({0: (0,)}).encode())
        self.position = 7
        client = self.server.client("a", session_timeout_ms=60_000)
        options = MemberOptions(
            address=None, client=client, connection=None, group="g", clock=self.clock,
            subscription=StaticSubscription({"orders": 1}), listener=None, history=None, metrics=None,
            settings=GroupSettings(
                auto_commit_interval_ms=INTERVAL_MS, initial_rebalance_delay_ms=0, on_foreign_commit="adopt",
                **settings,  # type: ignore[arg-type]
            ),
        )  # fmt: skip
        self.consuming = ConsumerEngine(options, MemorySource(), self.runner, lambda: None)
        self._of_machine = self.consuming.delivery.to_commit
        monkeypatch.setattr(self.consuming.delivery, "to_commit", self._to_commit)
        self.consuming.engine.open()
        self.consuming.engine.call_soon(self.consuming._start_timers)
        self.pass_time(0)

    def _to_commit(self) -> ProcessedPositions:
        return replace(self._of_machine(), positions={ZERO: self.position})

    def pass_time(self, ms: int) -> None:
        """Moves the clock from timer to timer, as the thread would; callbacks return at once."""
        loop, end = self.consuming.engine.loop, self.clock.now_ms() + ms
        while True:
            while loop.run_pending() or self.runner.waiting:
                for _ in tuple(self.runner.waiting):
                    self.runner.finish(self.runner.begin())
            due = loop.next_timer_ms
            if due is None or due > end:
                break
            self.clock.advance_to(due)
        self.clock.advance_to(end)
        loop.run_pending()

    def offset(self) -> bytes | None:
        znode = self.server.find(Offset.path("g", ZERO))
        return znode.data if znode is not None else None


def test_the_first_automatic_commit_comes_one_interval_after_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not a millisecond before, and then once an interval."""
    bench = Bench(monkeypatch)
    bench.pass_time(INTERVAL_MS - 1)
    assert bench.offset() == b"-1"
    bench.pass_time(1)
    assert bench.offset() == b"7"

    bench.position = 8
    bench.pass_time(INTERVAL_MS - 1)
    assert bench.offset() == b"7"
    bench.pass_time(1)
    assert bench.offset() == b"8"


def test_an_automatic_commit_that_is_refused_is_logged_and_the_next_one_comes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another client wrote the offset; the refusal is only logged, and the timer continues."""
    bench = Bench(monkeypatch)
    bench.pass_time(INTERVAL_MS)
    bench.server.write(SetData(Offset.path("g", ZERO), b"20", -1))
    bench.position = 8
    with caplog.at_level(logging.WARNING, "zkgroup.consumer"):
        bench.pass_time(INTERVAL_MS)
    assert bench.offset() == b"20"
    assert "auto-commit of orders-0 refused" in caplog.text

    bench.position = 21
    bench.pass_time(INTERVAL_MS)
    assert bench.offset() == b"21"


def test_a_partition_that_is_being_released_is_left_to_its_release(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The timer comes while the release has no answer yet: no commit is ordered, and nothing is logged."""
    bench = Bench(monkeypatch)
    bench.server.suspend("a")
    bench.consuming.engine.hand_back([ZERO])
    with caplog.at_level(logging.DEBUG, "zkgroup.consumer"):
        bench.pass_time(INTERVAL_MS)
        bench.server.resume("a")
        bench.pass_time(1000)

    assert bench.server.find(Owner.path("g", ZERO)) is None
    assert "auto-commit" not in caplog.text


def test_a_commit_that_a_handover_overtakes_is_no_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Ordered before the partition was revoked and refused after it: the release commits it."""
    bench = Bench(monkeypatch)
    bench.server.suspend("a")
    bench.pass_time(INTERVAL_MS)
    bench.consuming.engine.hand_back([ZERO])
    bench.pass_time(0)
    with caplog.at_level(logging.DEBUG, "zkgroup.consumer"):
        bench.server.resume("a")
        bench.pass_time(1000)

    (told,) = [record for record in caplog.records if "auto-commit of orders-0 refused" in record.message]
    assert told.levelno == logging.DEBUG


def test_a_partition_that_was_taken_away_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another client deleted the owner znode: processed positions are not committed."""
    bench = Bench(monkeypatch)
    bench.server.remove(Owner.path("g", ZERO))
    with caplog.at_level(logging.WARNING, "zkgroup.consumer"):
        bench.pass_time(INTERVAL_MS)

    assert "auto-commit of orders-0 refused" in caplog.text


def test_without_automatic_commits_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer is not even set."""
    bench = Bench(monkeypatch, auto_commit_enable=False)
    bench.pass_time(3 * INTERVAL_MS)

    assert bench.offset() == b"-1"
