"""A member without threads: the engine on a memory ZooKeeper, a fake clock and callbacks run by the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.worlds.public_apis import Application, Listener
from zkgroup.consumer.callbacks import CallbackCall, Callbacks
from zkgroup.consumer.machine import MemberConfig, MemberMachine
from zkgroup.consumer.machine.events import CloseRequested, Effect, Event, MemberState
from zkgroup.consumer.member_engine import SHARED_GRACE_MS, MemberEngine
from zkgroup.consumer.orphan_cleanup import remove_orphans
from zkgroup.errors import MemberClosedError, MemberFailedError
from zkgroup.model import StaticSubscription, TopicPartition
from zkgroup.model.ports import Clock, Instant, Store
from zkgroup.settings import GroupSettings
from zkgroup.testing.clock import FakeClock
from zkgroup.testing.memory_zookeeper import MemoryZooKeeper
from zkgroup.znodes.brokers import Topic

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


class ByHand:
    """A `CallbackRunner` whose callbacks run when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[CallbackCall] = []
        self.begun: list[CallbackCall] = []
        self.left_behind: list[str] = []

    def submit(self, call: CallbackCall) -> None:
        self.waiting.append(call)

    def stop_waiting_for(self, call: CallbackCall) -> bool:
        self.left_behind.append(call.name)
        if call in self.waiting:
            self.waiting.remove(call)
            return False
        return True

    @property
    def running(self) -> CallbackCall | None:
        return self.begun[-1] if self.begun else None

    def is_inside(self) -> bool:
        return False

    def stop(self, timeout_s: float) -> bool:
        return True

    def begin(self) -> CallbackCall:
        """Takes the next callback off; it runs for as long as the test likes."""
        call = self.waiting.pop(0)
        self.begun.append(call)
        return call

    def finish(self, call: CallbackCall) -> None:
        call.run()
        call.done(None)


class Told:
    """A `DeliveryPort` that records its calls and delivers nothing."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: self.told.append(name)


class Bench:
    """One member of its own, driven step by step."""

    def __init__(
        self, machine: type[MemberMachine] = MemberMachine, *, owns_client: bool = True, share: Any = None
    ) -> None:
        self.clock = FakeClock()
        self.server = MemoryZooKeeper(self.clock)
        for path in ("/brokers/ids", "/brokers/topics", "/consumers"):
            self.server.put(path)
        self.server.put(Topic.path("orders"), Topic({0: (0,), 1: (0,)}).encode())
        self.runner, self.app = ByHand(), Application()
        self.engine = MemberEngine(
            group="g",
            member="g_a",
            machine=machine(
                MemberConfig(
                    group="g",
                    member_id="g_a",
                    subscription=StaticSubscription({"orders": 1}),
                    settings=GroupSettings(initial_rebalance_delay_ms=0),
                )
            ),
            store=self.server.client("a"),
            clock=self.clock,
            callbacks=Callbacks(Listener(self.app), self.runner),
            callback_timeout_ms=3000,
            owns_client=owns_client,
            delivery=share,
            history=None,
            metrics=None,
        )
        self.engine.open()

    def pass_time(self, ms: int) -> None:
        """Moves the clock from timer to timer, as the thread would."""
        end = self.clock.now_ms() + ms
        self.engine.loop.run_pending()
        while (due := self.engine.loop.next_timer_ms) is not None and due <= end:
            self.clock.advance_to(due)
            self.engine.loop.run_pending()
        self.clock.advance_to(end)
        self.engine.loop.run_pending()

    def assigned(self) -> None:
        """Until it owns everything and `on_assigned` has returned."""
        self.pass_time(1000)
        self.runner.finish(self.runner.begin())
        self.engine.loop.run_pending()
        assert self.engine.state is MemberState.STABLE

    def told(self) -> list[tuple[str, Any]]:
        seen = []
        while not self.app.seen.empty():
            seen.append(self.app.seen.get())
        return seen


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_it_joins_and_leaves_without_any_thread(bench: Bench) -> None:
    """The same engine that runs in a thread, step by step."""
    bench.assigned()
    leases = dict(bench.engine.lease_table.current.grants)
    bench.engine.begin_close(5.0)
    bench.pass_time(0)
    bench.runner.finish(bench.runner.begin())
    bench.pass_time(100)

    assert sorted(leases) == [ZERO, ONE]
    assert [name for name, _ in bench.told()] == ["assigned", "revoked"]
    assert bench.engine.state is MemberState.CLOSED
    assert bench.engine.finished.is_set()


def test_a_callback_that_never_returns_ends_its_leases_at_the_deadline(bench: Bench) -> None:
    """Not a millisecond before, and without waiting for anything."""
    bench.assigned()
    released = bench.engine.hand_back(frozenset({ZERO}))
    bench.pass_time(0)
    bench.runner.begin()
    bench.pass_time(2999)
    before = (sorted(bench.engine.lease_table.current.grants), released.done())

    bench.pass_time(1)

    assert before == ([ZERO, ONE], False)
    assert (sorted(bench.engine.lease_table.current.grants), released.done()) == ([ONE], True)
    assert bench.runner.left_behind == ["on_revoked"]


def test_on_revoked_that_never_began_becomes_on_lost(bench: Bench) -> None:
    """It waited behind a stuck callback: the application hears that the partitions are gone."""
    bench.assigned()
    bench.told()
    bench.engine.hand_back(frozenset({ZERO}))
    bench.pass_time(0)
    bench.pass_time(3000)
    bench.runner.finish(bench.runner.begin())

    assert bench.told() == [("lost", [ZERO])]


def test_a_late_on_assigned_is_left_behind_and_keeps_its_leases(bench: Bench) -> None:
    """Its deadline frees the worker, nothing else."""
    bench.pass_time(1000)
    bench.runner.begin()
    bench.pass_time(3001)

    assert bench.runner.left_behind == ["on_assigned"]
    assert sorted(bench.engine.lease_table.current.grants) == [ZERO, ONE]
    assert bench.engine.state is MemberState.STABLE


def test_an_on_assigned_that_has_not_begun_in_time_is_not_left_out() -> None:
    """Past bug: after a stop of the process or its event loop, owned partitions were never delivered.

    The time limit begins again; once the callback has begun it is abandoned after it like any other.
    """
    share = Told()
    bench = Bench(share=share)
    bench.pass_time(1000)
    bench.pass_time(10_000)
    before = (list(bench.runner.left_behind), "started" in share.told)
    call = bench.runner.begin()
    bench.pass_time(3001)
    left_behind = list(bench.runner.left_behind)
    bench.runner.finish(call)
    bench.pass_time(0)

    assert before == ([], False)
    assert left_behind == ["on_assigned"]
    assert "started" in share.told


def test_an_on_lost_that_starts_late_is_called_too(bench: Bench) -> None:
    """The application must learn of every loss."""
    bench.assigned()
    bench.told()
    bench.server.expire("a")
    bench.pass_time(10_000)
    bench.runner.finish(bench.runner.begin())

    assert bench.told() == [("lost", [ZERO, ONE])]


def test_a_commit_beside_a_running_callback_is_answered(bench: Bench) -> None:
    """The member's thread never waits for the application's."""
    bench.assigned()
    bench.engine.hand_back(frozenset({ZERO}))
    bench.pass_time(0)
    call = bench.runner.begin()
    commit = bench.engine.commit_offsets({ZERO: 5, ONE: 6})
    bench.pass_time(10)

    assert commit.result(0).committed == {ZERO: 5, ONE: 6}
    bench.runner.finish(call)
    bench.pass_time(10)
    assert sorted(bench.engine.lease_table.current.grants) == [ONE]


def test_what_is_asked_of_an_ended_member_is_answered_at_once(bench: Bench) -> None:
    """No future is left open, whenever it was made."""
    bench.assigned()
    waits = bench.engine.when(lambda: False)
    bench.engine.fail(ValueError("the application's"))
    bench.pass_time(10)
    bench.runner.finish(bench.runner.begin())
    bench.pass_time(100)
    late = bench.engine.commit_offsets({ZERO: 1})

    assert bench.engine.state is MemberState.FAILED
    for future in (waits, late):
        with pytest.raises(MemberFailedError, match="the application's"):
            future.result(0)


def test_a_closed_member_says_so(bench: Bench) -> None:
    """Not as a failure."""
    bench.assigned()
    bench.engine.begin_close(1.0)
    bench.pass_time(5000)

    with pytest.raises(MemberClosedError):
        bench.engine.check_usable()
    with pytest.raises(MemberClosedError):
        bench.engine.when(lambda: True).result(0)


class Stuck(MemberMachine):
    """A machine that does nothing more once it is asked to close."""

    def step(self, event: Event, now: Instant) -> tuple[Effect, ...]:
        self.is_stuck = getattr(self, "is_stuck", False) or isinstance(event, CloseRequested)
        return () if self.is_stuck else super().step(event, now)


def test_a_close_that_is_given_up_ends_the_session_of_a_client_of_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With it go all its znodes."""
    bench = Bench(Stuck)
    bench.assigned()
    bench.engine.begin_close(1.0)
    bench.pass_time(5000)

    assert bench.engine.finished.is_set()
    assert [path for path in bench.server.tree() if "/owners/orders/" in path or "/ids/" in path] == []
    assert "its session is closed" in caplog.text


def test_a_close_that_is_given_up_is_cleared_away_from_a_shared_client(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past bug: its owners stayed while the client lived, and the log reported an ended session.

    Leases and delivery have ended before the first owner is deleted.
    """
    share = Told()
    bench = Bench(Stuck, owns_client=False, share=share)
    bench.assigned()
    engine = bench.engine
    known_when_cleared = []

    def watched(store: Store, clock: Clock, group: str, member: str) -> None:
        may_deliver = [engine.lease_table.current.may_deliver(tp, token, 0) for tp, token in tokens.items()]
        known_when_cleared.append((may_deliver, share.told[-2:]))
        remove_orphans(store, clock, group, member)

    monkeypatch.setattr("zkgroup.consumer.member_engine.remove_orphans", watched)
    tokens = {tp: grant.token for tp, grant in engine.lease_table.current.grants.items()}
    before = sorted(path for path in bench.server.tree() if "/owners/orders/" in path)
    engine.begin_close(1.0)
    bench.pass_time(800 + SHARED_GRACE_MS - 1)
    waited = engine.finished.is_set()
    bench.pass_time(1)

    assert (len(before), waited, engine.finished.is_set()) == (2, False, True)
    assert known_when_cleared == [([False, False], ["ended", "finished"])]
    assert [path for path in bench.server.tree() if "/owners/orders/" in path or "/ids/" in path] == []
    assert bench.server.clients["a"].session is not None  # the neighbours' as well
    assert "its remaining znodes are deleted" in caplog.text
