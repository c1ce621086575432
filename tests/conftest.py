"""Rules that hold for every test: no thread, socket or process is left, and no time limit by Hypothesis."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from tests import distribution, idle, leaks, reports, server_archive, tables
from tests.worlds.other_clients import witness as witness
from tests.worlds.unhurried import kafka_cluster as kafka_cluster
from zkgroup.runtime.logs import PEERS

_keepers = leaks.Keepers()

# Hypothesis on slow, shared machines: time limits would fail tests for no fault of the code.
_SLOW: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("few", max_examples=8, **_SLOW)
settings.register_profile("many", max_examples=400, **_SLOW)  # pytest --hypothesis-profile=many
settings.load_profile("few")


def pytest_configure(config: pytest.Config) -> None:
    """What this process's descendants inherit, before the first of them is started.

    A shell starts background jobs with SIGINT ignored, which programs inherit; tests of Ctrl-C need it heard.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # the processes of tests are hundreds, and would compile the same modules each time
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    leaks.mark_descendants()
    if hasattr(config, "workerinput"):
        number = int(config.workerinput["workerid"].removeprefix("gw"))
        config.args = distribution.begin_elsewhere(config.args, number, config.workerinput["workercount"])
        config.pluginmanager.register(tables.Tables(), "zkgroup-tables")
        config.pluginmanager.register(reports.Reports(), "zkgroup-reports")
    else:
        config.pluginmanager.register(server_archive.ServerArchive(), "zkgroup-server-archive")
    gc.disable()  # until all is collected: a third of that time went into searching what stays anyway
    config.pluginmanager.register(_WiderFixtures(), "zkgroup-wider-fixtures")
    config.pluginmanager.register(_Sorted(), "zkgroup-sorted")
    config.pluginmanager.register(idle.IdleReport(), "zkgroup-idle")


def pytest_runtest_setup() -> None:
    """A test's lines are not held back for those of others."""
    PEERS.forget()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """For `-n auto`, which is the default."""
    return distribution.processes(config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> distribution.Scheduler:
    """Instead of those that `--dist` names."""
    return distribution.Scheduler(config, log)


class _Sorted:
    """Before they are shuffled: processes that collect in orders of their own have one list."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """By file; the order within a file stays."""
        items.sort(key=lambda item: item.nodeid.partition("::")[0])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """After they were shuffled."""
    distribution.begin_with_the_longest(items)


def pytest_collection_finish() -> None:
    """What was collected stays until the end: the collector need not go through it, now or again."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)  # a twentieth of all CPU went into collections after each 700 objects
    gc.enable()


class _WiderFixtures:
    """A plugin of its own: hooks of this file are not called for session fixtures, whose node is the root."""

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        """What a fixture wider than one test starts belongs to it until its end."""
        if fixturedef.scope == "function":
            return (yield)
        before = leaks.Picture.take()
        value = yield
        _keepers.kept[fixturedef] = leaks.Picture.take() - before
        _keepers.values[fixturedef] = value
        return value

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, None, None]:
        """Session fixtures with busy processes end with their folder's last test."""
        yield
        if nextitem is not None:
            distribution.end_costly(_keepers.kept, item, nextitem)

    @pytest.hookimpl
    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        """A wider fixture has to clean up as well."""
        kept = _keepers.kept.pop(fixturedef, None)
        _keepers.values.pop(fixturedef, None)
        if not kept:
            return
        rest, _ = leaks.leaked(leaks.EMPTY, _keepers.allowed, among=kept)
        if rest:
            raise AssertionError(_message(f"the {fixturedef.scope} fixture {fixturedef.argname!r}", rest))


@pytest.fixture(autouse=True)
def _leaves_nothing_behind(request: pytest.FixtureRequest) -> Generator[None, None, None]:
    """Set up first and torn down last of a test's own fixtures."""
    before = _keepers.last or leaks.Picture.take()
    yield
    rest, now = leaks.leaked(before, _keepers.allowed)
    _keepers.last = None if rest else now
    if rest:
        pytest.fail(_message(f"the test {request.node.name!r}", rest), pytrace=False)


def _message(who: str, rest: leaks.Picture) -> str:
    return "\n  ".join([f"{who} left behind, {leaks.GRACE_S:g} s after its end:", *rest.lines()])
