"""A shell on a tree of its own, and groups in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.processes import preforked as preforked
from tests.worlds.server_groups import ServerGroups
from tests.worlds.shell import Shell


@pytest.fixture
def shell(zk_server: Any, tmp_path: Path) -> Shell:
    """A shell whose environment names a fresh tree on a real server."""
    return Shell(tmp_path, zk_server.address)


_POLLING = (
    "admin.cluster.controller",
    "admin.elections",
    "admin.reassign.progress",
    "admin.reassign.stored_plans",
    "admin.topics.creation",
    "admin.topics.deletion",
    "groups.reads",
)


@pytest.fixture(autouse=True)
def quick_and_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in this process check often what they wait for, and wait long for answers of servers."""
    for module in _POLLING:
        monkeypatch.setattr(f"zkgroup.{module}.POLL_S", 0.02)
    monkeypatch.setattr("zkgroup_cli.context.CONNECT_TIMEOUT_MS", 60_000)
    monkeypatch.setattr(
        "zkgroup_cli.context.ECHO_WAITING_AFTER_S", 3_600.0
    )  # slowness of the machine is no fault of a server


@pytest.fixture
def lone_shell(tmp_path: Path) -> Shell:
    """A shell without any ensemble."""
    return Shell(tmp_path)


@pytest.fixture
def groups(zk_server: Any) -> Iterator[ServerGroups]:
    """Makes groups in the shell's tree; their sessions end with the test."""
    with ServerGroups(zk_server.address) as made:
        yield made
