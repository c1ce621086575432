"""The archive of Java's classes for embedded servers, made while the tests are collected.

A start of a server costs half the CPU with it. A run's servers are shared until its end, so none of them
would leave one before.
"""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest

from zkgroup.errors import EmbeddedServerError
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

_WITH_SERVERS = ("tests/real", "tests/long")


class ServerArchive:
    """A pytest plugin of the process that starts the others."""

    def __init__(self) -> None:
        self._thread = threading.Thread(target=_leave_one, name="server-archive")

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Begins, where tests with servers run in several processes."""
        config = session.config
        if config.getoption("numprocesses", None) and any(
            folder in argument for argument in config.args for folder in _WITH_SERVERS
        ):
            self._thread.start()

    def pytest_sessionfinish(self) -> None:
        """A run that ends early still ends its server."""
        if self._thread.ident is not None:
            self._thread.join()


def _leave_one() -> None:
    """A server that finds no archive leaves one at its end. Tests say what is missing where none starts."""
    with suppress(EmbeddedServerError), EmbeddedZooKeeper(fsync=False):
        pass
