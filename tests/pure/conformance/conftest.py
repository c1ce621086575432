"""Fixtures of the suite of replica hosts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worlds.replica_managers import DirectoryHosts, Hosts, MemoryHosts
from zkgroup.broker.replicas.manager import ReplicaManager


@pytest.fixture(params=["memory", "directory"])
def hosts(request: pytest.FixtureRequest, tmp_path: Path) -> Hosts:
    """Every kind of host that is shipped."""
    return MemoryHosts() if request.param == "memory" else DirectoryHosts(tmp_path)


@pytest.fixture
def one(hosts: Hosts) -> Iterator[ReplicaManager]:
    """The host of broker 1."""
    host = hosts.open(1)
    yield host
    host.close()


@pytest.fixture
def two(hosts: Hosts) -> Iterator[ReplicaManager]:
    """The host of broker 2."""
    host = hosts.open(2)
    yield host
    host.close()
