"""Many clients in one process, and clients in forked ones."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S, joined
from zkgroup.errors import ForkedClientError
from zkgroup.model.requests import Create, Exists, ExistsDone, Multi, MultiDone, Sync, SyncDone
from zkgroup.testing.conformance import Caller
from zkgroup.testing.plugin import ServerTree
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking

MINE = Multi((Create("/mine", b"", ephemeral=True),))


def test_a_hundred_clients_cost_a_hundred_threads_and_three_sockets_each(zk_server: ServerTree) -> None:
    """And close together at once. kazoo as it is: three threads each."""
    threads, sockets = set(threading.enumerate()), _sockets()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(ZooKeeperClient(zk_server.address)) for _ in range(100)]
        sessions = {client.wait_connected(PATIENCE_S).session_id for client in clients}
        assert len(sessions) == 100
        assert len({*threading.enumerate()} - threads) == 100
        assert _sockets() - sockets <= 300
        callers = [Caller(client) for client in clients]
        pending = [caller.submit(Sync("/")) for caller in callers]
        assert all(one.outcome() == SyncDone() for one in pending)
    assert {*threading.enumerate()} <= threads


def _sockets() -> int:
    """Open now, in this process."""
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one of this very listing
            found += str(entry.readlink()).startswith("socket:")
    return found


def test_one_client_serves_many_members(zk_server: ServerTree) -> None:
    """Listeners and requests of many threads share a session; each gets its own outcome."""
    with ZooKeeperClient(zk_server.address, ClientSettings(session_timeout_ms=20_000)) as client:
        callers = [Caller(client) for _ in range(50)]
        failures: list[BaseException] = []

        def work(number: int) -> None:
            try:
                caller = callers[number]
                caller.session()
                for n in range(10):
                    caller.write(Create(f"/m{number}-{n}", b""))
                    assert caller.stat(f"/m{number}-{n}").version == 0
            except BaseException as error:  # noqa: BLE001  told below
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(50)]
        for thread in threads:
            thread.start()
        joined(*threads)
        assert not failures
        assert {caller.session().session_id for caller in callers} == {client.wait_connected().session_id}


def _use(client: ZooKeeperClient) -> None:
    """In the child: exit code 0 when it was refused."""
    try:
        client.wait_connected(1)
    except ForkedClientError:
        client.close()
    else:
        os._exit(3)


def _exit_at_once(client: ZooKeeperClient) -> None:
    """In the child: the interpreter ends with the client in hand."""


def _make_a_new_one(client: ZooKeeperClient) -> None:
    """In the child: what the error asks for."""
    with ZooKeeperClient(client.address) as own, Blocking(own) as blocking:
        blocking.wait_connected()
        assert blocking.exists("/mine") is not None
        assert len(blocking.read_many(["/mine", "/none"])) == 2


@pytest.mark.parametrize("work", [_use, _exit_at_once, _make_a_new_one])
def test_a_fork_leaves_the_parents_session_alone(
    zk_server: ServerTree, work: Callable[[ZooKeeperClient], None]
) -> None:
    """Through use, exit and a client of the child's own."""
    with ZooKeeperClient(zk_server.address, ClientSettings(session_timeout_ms=20_000)) as client:
        caller = Caller(client)
        before = caller.session()
        caller.ask(MINE, MultiDone)
        child = multiprocessing.get_context("fork").Process(target=work, args=(client,))
        child.start()
        joined(child)
        assert child.exitcode == 0
        child.close()
        stat = caller.ask(Exists("/mine"), ExistsDone).stat
        assert stat is not None
        assert stat.ephemeral_owner == before.session_id
        assert [type(event).__name__ for event in caller.events] == ["Connected"]
