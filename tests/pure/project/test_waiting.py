"""The waits of tests: what they return, and that a wait that ends by its timeout fails."""

from __future__ import annotations

import asyncio
import itertools
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from tests import waiting
from tests.project import ROOT
from tests.waiting import becomes, ended, eventually, eventually_on_loop, happened, joined, next_like, outcome
from zkgroup.model.requests import Exists
from zkgroup.testing import FakeClock, MemoryZooKeeper
from zkgroup.testing.conformance import Target

pytest_plugins = ["pytester"]


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_S", 0.05)


def test_the_value_that_satisfied_is_returned_and_nothing_is_read_after_it() -> None:
    """The wait returns the satisfying value itself, of a read that returns a new value each time."""
    numbers = itertools.count()

    assert eventually(lambda: next(numbers), lambda number: number >= 3) == 3
    assert asyncio.run(eventually_on_loop(lambda: next(numbers), lambda number: number >= 6)) == 6
    assert becomes(lambda: next(numbers), 8) == 8
    assert next(numbers) == 9


def test_exceptions_are_ignored_where_they_are_expected_only() -> None:
    """Exceptions of the given kinds are ignored; any other ends the wait at once."""
    answers = iter([ConnectionError("away"), KeyError("bug")])

    def read() -> None:
        raise next(answers)

    with pytest.raises(KeyError, match="bug"):
        eventually(read, ignoring=(ConnectionError,))


def _away() -> None:
    raise ConnectionError("away")


LATE: dict[str, tuple[Callable[[], object], str]] = {
    "eventually": (lambda: eventually(lambda: 7, lambda n: n > 9, what="a ten"), "a ten; last read 7"),
    "becomes": (lambda: becomes(lambda: 7, 10, what="x"), "x: expected 10; last read 7"),
    "away": (lambda: eventually(_away, ignoring=(OSError,)), r"last raised ConnectionError\('away'\)"),
    "loop": (lambda: asyncio.run(eventually_on_loop(lambda: 0, what="a one")), "a one; last read 0"),
    "queue": (lambda: waiting.next_of(queue.Queue(), what="a line"), "a line; nothing came"),
    "event": (lambda: happened(threading.Event(), what="the signal"), "the signal; it is not set"),
    "future": (lambda: outcome(Future(), what="the answer"), "the answer; it has none"),
}


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("late", LATE)
def test_a_wait_that_ends_by_its_timeout_fails(late: str) -> None:
    """The failure says what was waited for, and the last value that was read."""
    wait, told = LATE[late]

    with pytest.raises(AssertionError, match=rf"not within 0\.05 s:? ?.*{told}"):
        wait()


@pytest.mark.usefixtures("_impatient")
def test_a_thread_or_process_that_does_not_end_fails() -> None:
    """The failure names the thread or process; one that ends is waited for."""
    held = threading.Event()
    thread = threading.Thread(target=held.wait, name="held")
    thread.start()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        try:
            with pytest.raises(AssertionError, match="the end of the thread 'held'"):
                joined(thread)
            with pytest.raises(AssertionError, match=f"process {process.pid} runs"):
                ended(process)
        finally:
            held.set()
            process.kill()


def test_an_item_among_others() -> None:
    """The wanted item comes after others; the end of the stream ends the wait."""
    items: queue.Queue[str | None] = queue.Queue()
    for item in ("a", "b", "c", None):
        items.put(item)

    assert next_like(items, lambda item: item == "b") == "b"
    with pytest.raises(AssertionError, match=r"the stream ended without it: a z; came: \['c'\]"):
        next_like(items, lambda item: item == "z", what="a z")


def test_what_a_future_ends_with_is_its_own() -> None:
    """The result of a future, or its exception, even where that exception is a timeout."""
    done: Future[int] = Future()
    done.set_result(3)
    failed: Future[int] = Future()
    failed.set_exception(TimeoutError("its own"))

    assert outcome(done) == 3
    with pytest.raises(TimeoutError, match="its own"):
        outcome(failed)


def test_what_a_caller_of_the_conformance_suite_waits_counts() -> None:
    """Waits for a session, an outcome or a watch event count; one that ends at once costs almost nothing."""
    server, counts = MemoryZooKeeper(FakeClock()), [waiting.waited.seconds]
    with Target(lambda timeout_ms: server.client("it")) as target:
        caller = target.connect()
        counts.append(waiting.waited.seconds)
        pending = caller.submit(Exists("/a", watch=True))
        pending.outcome()
        counts.append(waiting.waited.seconds)
        caller.make("/a")
        before = waiting.waited.seconds
        pending.fired()

    assert counts[0] < counts[1] < counts[2]
    assert before < waiting.waited.seconds


def test_idle_time_on_real_servers_is_printed_after_a_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sum and the tests, over one process or several; a wait inside another counts once."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest(
        "from tests.idle import IdleReport\n"
        "def pytest_configure(config):\n    config.pluginmanager.register(IdleReport())\n"
    )
    folder = pytester.mkdir("tests") / "real"
    folder.mkdir()
    (folder / "test_it.py").write_text(
        "import threading, pytest\nfrom tests import waiting\n"
        "@pytest.mark.parametrize('number', range(12))\n"
        "def test_it(number):\n"
        "    with waiting.waiting(), waiting.waiting():\n"
        "        threading.Event().wait(0.3 if number == 7 else 0.02)\n"
    )

    for processes in ("0", "2"):
        ran = pytester.runpytest_subprocess("-n", processes, "-p", "no:randomly", "-p", "no:cacheprovider")

        ran.assert_outcomes(passed=12)
        told = [line.split() for line in ran.outlines if line.split()[1:2] == ["s"]]
        sum_s, longest_s = float(told[0][0]), float(told[1][0])
        assert len(told) == 11
        assert told[1][2].endswith("test_it[7]")
        assert longest_s >= 0.3
        assert sum_s >= longest_s
