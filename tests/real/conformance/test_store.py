"""One contract for every Store: in memory, on a standalone server, on an ensemble."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.real.conformance.acl_targets import memory_target, real_target
from tests.worlds.clients import opener
from zkgroup.model.ports import Store
from zkgroup.testing import MemoryZooKeeper
from zkgroup.testing.conformance import ACL_CHECKS, CHECKS, AclTarget, Target
from zkgroup.testing.plugin import ServerTree

Check = Callable[[Target], None]


@pytest.fixture
def memory() -> Iterator[Target]:
    """A fresh server in memory, in direct mode."""
    server = MemoryZooKeeper()

    def open_store(session_timeout_ms: int) -> Store:
        return server.client(session_timeout_ms=session_timeout_ms)

    with Target(open_store) as target:
        yield target


def _real(address: str) -> Iterator[Target]:
    with Target(opener(address)) as target:
        yield target


@pytest.fixture
def standalone(zk_server: ServerTree) -> Iterator[Target]:
    """Our client on one real server."""
    yield from _real(zk_server.address)


@pytest.fixture
def ensemble(zk_ensemble: ServerTree) -> Iterator[Target]:
    """Our client on three real servers: each client is on any of them."""
    yield from _real(zk_ensemble.address)


KINDS = [
    "memory",
    "standalone",
    "ensemble",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_store(kind: str, check: Check, request: pytest.FixtureRequest) -> None:
    """Every implementation keeps every rule of the contract; each check states its own."""
    check(request.getfixturevalue(kind))


ADDRESSES = {"standalone": "zk_server", "ensemble": "zk_ensemble"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("check", ACL_CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_acls(kind: str, check: Callable[[AclTarget], None], request: pytest.FixtureRequest) -> None:
    """The same of the rules for ACLs."""
    if kind == "memory":
        opened = memory_target()
    else:
        opened = real_target(request.getfixturevalue(ADDRESSES[kind]).address)
    with opened as target:
        check(target)
