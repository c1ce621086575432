"""Clients for tests on ZooKeeper servers, and the events that they got."""

from __future__ import annotations

from collections.abc import Callable

from tests.waiting import becomes, eventually
from zkgroup.model.ports import Store
from zkgroup.model.requests import (
    Connected,
    Create,
    Exists,
    ExistsDone,
    Multi,
    Suspended,
    Sync,
    SyncDone,
)
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.testing.conformance import Caller
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.embedded import ServerState

MINE = Multi((Create("/mine", b"", ephemeral=True),))


def opener(address: str, **settings: int) -> Callable[[int], Store]:
    def open_store(session_timeout_ms: int) -> Store:
        return ZooKeeperClient(address, ClientSettings(session_timeout_ms=session_timeout_ms, **settings))

    return open_store


def session_events(caller: Caller) -> list[tuple[str, int]]:
    return [
        (
            type(event).__name__,
            event.session.incarnation if isinstance(event, Connected) else event.incarnation,
        )
        for event in caller.events
    ]


def reconnected(caller: Caller, incarnation: int = 1) -> None:
    """Waits for a reconnection: a server about to lose its leader may accept a client before."""
    caller.await_event(Suspended)
    answer = SyncDone()
    becomes(lambda: caller.submit(Sync("/"), incarnation).outcome(), answer, what=lambda: f"{caller.events}")


def gone(caller: Caller, path: str) -> bool:
    caller.catch_up()
    return caller.ask(Exists(path), ExistsDone).stat is None


def server_of(chaos: ChaosZooKeeper, session_id: int) -> int:
    """Number of the server at which the session is connected."""
    for number, server in enumerate(chaos.zookeeper.servers):
        if server.state is not ServerState.RUNNING:
            continue
        try:
            connections = server.ask("cons")
        except OSError:
            continue
        if f"sid=0x{session_id:x}," in connections:
            return number
    raise AssertionError(f"session 0x{session_id:x} is on no server")


def leader_of(chaos: ChaosZooKeeper) -> int:
    """Number of the leader, as soon as there is one."""

    def leaders() -> list[int]:
        modes = [server.ask("srvr") for server in chaos.zookeeper.servers]
        return [number for number, mode in enumerate(modes) if "Mode: leader" in mode]

    return eventually(leaders)[0]
