"""How long the tests on real servers waited: the sum and the ten longest, after a run. No verdict.

The seconds are those that a test's main thread spent in the functions of `tests.waiting`, or in those of the
conformance suite's `Caller` that wait, its fixtures included, less what the processes that it waited for were
at work; all that it waited stands beside the sum. They travel with the report of the test's end, so runs of
several processes are added up as well.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.waiting import waited, waiting
from zkgroup.testing.conformance.target import Caller, Pending

FOLDER = "tests/real/"
LONGEST = 10
_IDLE, _WAITED = "idle_s", "waited_s"


class IdleReport:
    """A pytest plugin."""

    def __init__(self) -> None:
        self._patches = pytest.MonkeyPatch()

    def pytest_configure(self) -> None:
        """The suite is part of the product, which knows nothing of `tests.waiting`."""
        for owner, name in ((Pending, "outcome"), (Pending, "fired"), (Caller, "await_event")):
            self._patches.setattr(owner, name, _counted(getattr(owner, name)))

    def pytest_unconfigure(self) -> None:
        self._patches.undo()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Puts what was waited since the last test into the report of this one's end."""
        if call.when == "teardown":
            taken = zip((_IDLE, _WAITED), waited.taken(), strict=True)
            found = [(name, round(seconds, 3)) for name, seconds in taken]
            item.user_properties.extend(each for each in found if each[1])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """One line for the sum, one for each of the longest; nothing where no test waited."""
        idle = sorted(_seconds(terminalreporter, _IDLE), reverse=True)
        seconds = sum(second for second, _ in idle)
        if not seconds:
            return
        waited_s = sum(second for second, _ in _seconds(terminalreporter, _WAITED))
        terminalreporter.section("idle on real servers")
        terminalreporter.write_line(
            f"{seconds:8.1f} s in {len(idle)} tests, of {waited_s:.1f} s waited; the longest:"
        )
        for second, test in idle[:LONGEST]:
            terminalreporter.write_line(f"{second:8.1f} s {test}")


def _counted(wait: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(wait)
    def counted(*args: Any, **more: Any) -> Any:
        with waiting():
            return wait(*args, **more)

    return counted


def _seconds(terminalreporter: pytest.TerminalReporter, kind: str) -> Iterator[tuple[float, str]]:
    reports = (report for found in terminalreporter.stats.values() for report in found)
    for report in reports:
        if getattr(report, "when", None) == "teardown" and FOLDER in report.nodeid:
            yield sum(value for name, value in report.user_properties if name == kind), report.nodeid
