"""What the processes of a run say of a test: how it ended, and no more where nothing else happened.

By itself each item is reported at its start, after its set-up, its call and its tear-down, and at its end: a
millisecond of CPU, in a run of thousands of tests.
"""

from __future__ import annotations

import pytest
from _pytest.runner import runtestprotocol

SLOW_S = 0.1
"""From here on the time of a set-up or tear-down is reported, for `--durations`."""


class Reports:
    """A pytest plugin of the processes that another one started."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """As pytest's own, with fewer reports."""
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            silent = report.passed and report.when != "call" and report.duration < SLOW_S
            if not silent or report.user_properties:
                item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True
