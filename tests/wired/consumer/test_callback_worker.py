"""The thread of the application's callbacks."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.waiting import PATIENCE_S, eventually, happened
from zkgroup.consumer.callbacks import CallbackCall, CallbackWorker
from zkgroup.zookeeper.client import SystemClock


class Done:
    """What the worker reports, in order."""

    def __init__(self) -> None:
        self._reports: queue.Queue[tuple[str, BaseException | None]] = queue.Queue()

    def call(self, name: str, run: Callable[[], object]) -> CallbackCall:
        return CallbackCall(name, run, lambda error: self._reports.put((name, error)))

    def next(self) -> tuple[str, BaseException | None]:
        return self._reports.get(timeout=PATIENCE_S)


@pytest.fixture
def done() -> Done:
    return Done()


@pytest.fixture
def worker() -> Iterator[CallbackWorker]:
    worker = CallbackWorker("test", SystemClock())
    yield worker
    assert worker.stop(PATIENCE_S)


def test_calls_run_one_at_a_time_in_order_on_one_thread(worker: CallbackWorker, done: Done) -> None:
    """The first call starts the thread; the next wait for it."""
    threads: list[threading.Thread] = []
    for name in ("first", "second", "third"):
        worker.submit(done.call(name, lambda: threads.append(threading.current_thread())))

    assert [done.next() for _ in range(3)] == [("first", None), ("second", None), ("third", None)]
    assert len(set(threads)) == 1
    assert threads[0] is not threading.current_thread()


def test_an_error_is_reported_and_the_worker_continues(worker: CallbackWorker, done: Done) -> None:
    """Whatever the application raises, SystemExit included."""

    def leave() -> None:
        raise SystemExit(3)

    worker.submit(done.call("bad", leave))
    worker.submit(done.call("good", lambda: None))

    name, error = done.next()
    assert (name, type(error)) == ("bad", SystemExit)
    assert done.next() == ("good", None)


def test_a_stuck_call_is_left_behind_and_later_ones_run_on_a_fresh_thread(
    worker: CallbackWorker, done: Done
) -> None:
    """Its own return is reported whenever it comes."""
    begun, release = threading.Event(), threading.Event()
    threads: dict[str, threading.Thread] = {}

    def stuck() -> None:
        threads["stuck"] = threading.current_thread()
        begun.set()
        happened(release)

    def later() -> None:
        threads["later"] = threading.current_thread()

    call = done.call("stuck", stuck)
    worker.submit(call)
    worker.submit(done.call("later", later))
    assert begun.wait(PATIENCE_S)

    assert worker.stop_waiting_for(call)

    assert done.next() == ("later", None)
    assert threads["later"] is not threads["stuck"]
    release.set()
    assert done.next() == ("stuck", None)
    eventually(lambda: not threads["stuck"].is_alive())


def test_a_call_that_has_not_begun_never_runs_when_left_behind(worker: CallbackWorker, done: Done) -> None:
    """The caller gets that result, and can call the application in another way."""
    release = threading.Event()
    worker.submit(done.call("first", lambda: release.wait(PATIENCE_S)))
    waiting = done.call("waiting", lambda: pytest.fail("must not run"))
    worker.submit(waiting)

    assert not worker.stop_waiting_for(waiting)

    release.set()
    assert done.next() == ("first", None)


def test_inside_is_known_also_on_a_thread_left_behind(worker: CallbackWorker, done: Done) -> None:
    """close() asks this so as not to wait for itself."""
    begun, release = threading.Event(), threading.Event()
    inside: list[bool] = []

    def stuck() -> None:
        begun.set()
        happened(release)
        inside.append(worker.is_inside())

    call = done.call("stuck", stuck)
    worker.submit(call)
    assert begun.wait(PATIENCE_S)
    worker.stop_waiting_for(call)
    release.set()

    assert done.next() == ("stuck", None)
    assert inside == [True]
    assert not worker.is_inside()


def test_stop_reports_a_call_that_still_runs(done: Done) -> None:
    """It waits no longer than its timeout."""
    worker = CallbackWorker("test", SystemClock())
    begun, release = threading.Event(), threading.Event()

    def stuck() -> None:
        begun.set()
        happened(release)

    worker.submit(done.call("stuck", stuck))
    assert begun.wait(PATIENCE_S)

    assert not worker.stop(0.01)
    release.set()
    assert worker.stop(PATIENCE_S)
