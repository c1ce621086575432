"""How the long tests are spread over processes: what shares servers stays in one of them, and goes first."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler.loadscope import LoadScopeScheduling

HERE = Path(__file__).parent

_TOGETHER = ("interop", "spark", "chaos")
"""Folders whose tests share servers, or a session of Spark, that take long to start."""
_ORDER = (*_TOGETHER, "demos", "audit", "simulation", "benchmarks", "model")
"""Long ones first, so that no process is left with one at the end."""


class _ByServers(LoadScopeScheduling):
    """Hands out tests one by one, but for folders whose tests stay together."""

    def _split_scope(self, nodeid: str) -> str:
        folder = nodeid.removeprefix("tests/long/").partition("/")[0]
        return folder if folder in _TOGETHER else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Instead of `worksteal`, when these tests are named."""
    config.option.loadscopereorder = False
    return _ByServers(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """By folder; within each the order stays as it was drawn."""

    def place(item: pytest.Item) -> int:
        if not item.path.is_relative_to(HERE):
            return -1
        folder = item.path.relative_to(HERE).parts[0]
        return _ORDER.index(folder) if folder in _ORDER else len(_ORDER)

    items.sort(key=place)
