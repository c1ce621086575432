"""How the tests of a run are spread over its processes: what shares servers stays together, long ones first.

Servers are started once for each process that meets a test which asks for them; so is the session of Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import zip_longest
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler.loadscope import LoadScopeScheduling

from tests.project import ROOT

_FIRST = (
    *("real/zookeeper", "real/consumer", "real/audit", "real/conformance", "real/cli", "real/spark"),
    *("real/docs", "real/controller", "real/broker", "pure/simulation", "pure/project", "wired"),
    *("long/interop", "long/spark", "long/chaos", "long/consumer", "long/monitoring"),
    *("long/clients", "long/demos"),
    *("long/docs", "long/brokers"),
    *("long/mistakes", "long/simulation", "long/audit", "long/benchmarks", "long/model"),
)
"""Folders in the order in which they are begun: a process that begins one at the end would be waited for."""
_WAITING = ("long/demos", "long/docs", "long/brokers", "long/mistakes")
"""Folders whose tests wait for a good part of their time, or for other processes."""
_BUSY = ("long/simulation",)
"""Folders whose tests keep a core busy: one of these and one of those at a time leave no core idle."""
_LONGEST = (
    "audit-on-spark.md",
    "test_demo_brokers",
    "test_demo_coordinator",
    "test_schedules_of",
    "test_alerts",
)
"""Parts of the ids of tests that take a minute and more."""


def processes(config: pytest.Config) -> int:
    """For a whole run, on two cores: long tests wait most of the time. None where files are named.

    Each process imports all tests and starts servers of its own, which takes some 5 s of CPU.
    """
    paths = [Path(part.partition("::")[0]) for part in config.args]
    if any(path.suffix == ".py" for path in paths):
        return 0
    return 3 if any("long" in path.parts for path in paths) else 2


def begin_elsewhere(arguments: list[str], process: int, processes: int) -> list[str]:
    """The folders in these, each process beginning with others: what one has compiled the others find.

    Without bytecode, as in a fresh clone, collecting the tests is for the most part compiling them.
    """
    folders = [
        str(folder.relative_to(ROOT))
        for argument in arguments
        for folder in sorted((ROOT / argument).glob("*/"))
        if folder.name != "__pycache__"
    ]
    if not all(_holds_folders_only(ROOT / argument) for argument in arguments):
        return arguments
    first = len(folders) * process // processes
    return folders[first:] + folders[:first]


def _holds_folders_only(path: Path) -> bool:
    return path.is_dir() and not list(path.glob("*.py"))


def begin_with_the_longest(items: list[pytest.Item]) -> None:
    """Sorts by folder; within each the order stays as it was drawn, but for tests of a minute and more.

    Tests that wait and tests that keep a core busy alternate.
    """

    def place(item: pytest.Item) -> int:
        where = _below_tests(item.path)
        return next((number for number, folder in enumerate(_FIRST) if where.startswith(folder)), len(_FIRST))

    items.sort(key=lambda item: (place(item), not any(part in item.nodeid for part in _LONGEST)))
    waiting = [item for item in items if _below_tests(item.path).startswith(_WAITING)]
    busy = [item for item in items if _below_tests(item.path).startswith(_BUSY)]
    mixed = [item for pair in zip_longest(waiting, busy) for item in pair if item is not None]
    if mixed:
        first = items.index(waiting[0] if waiting else busy[0])
        rest = [item for item in items[first:] if not _below_tests(item.path).startswith(_WAITING + _BUSY)]
        items[first:] = mixed + rest


@cache
def _below_tests(path: Path) -> str:
    tests = ROOT / "tests"
    return path.relative_to(tests).as_posix() if path.is_relative_to(tests) else ""


_TOGETHER = ("tests/real/", "tests/long/interop/", "tests/long/spark/", "tests/pure/project/")
"""Each folder below these has servers of its own; the rules of the last read the same syntax trees."""
_GROUPS = ("tests/long/interop/test_client_groups", "tests/long/interop/test_group_tools")
"""These share brokers of their own: without them the rest of the folder does not take longest of all."""


_ENSEMBLES = (
    *("tests/real/zookeeper", "tests/real/consumer", "tests/real/audit", "tests/real/conformance"),
    *("tests/long/chaos", "tests/long/consumer", "tests/long/monitoring"),
)
"""These folders stay together as well: they share the servers of ensembles."""
_COSTLY = ("zk_ensemble_processes", "zk_chaos_processes")
"""Session fixtures of those folders whose processes are at work even when idle."""


def end_costly(
    fixtures: Iterable[pytest.FixtureDef[object]], item: pytest.Item, following: pytest.Item
) -> None:
    """Ends those of these fixtures that no test asks for after this one; `following` is of another folder.

    An idle ensemble takes about 1 s of CPU in each minute of a run.
    """
    if not item.nodeid.startswith(_ENSEMBLES) or following.nodeid.startswith(_ENSEMBLES):
        return
    for each in list(fixtures):
        if each.argname in _COSTLY:
            each.finish(item._request)  # type: ignore[attr-defined]


class Scheduler(LoadScopeScheduling):
    """Hands out files, whole folders where servers are shared, and the other long tests one by one."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file.startswith(_ENSEMBLES):
            return "with an ensemble"
        if file.startswith(_GROUPS):
            return "tests/long/interop with groups"
        if file.startswith(_TOGETHER):
            return file.rpartition("/")[0]
        return nodeid if file.startswith("tests/long/") else file
