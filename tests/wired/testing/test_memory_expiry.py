"""Sessions of `MemoryZooKeeper` on a clock that runs by itself."""

from __future__ import annotations

import threading

from tests.waiting import eventually, joined
from zkgroup.model.requests import Create
from zkgroup.testing import MemoryZooKeeper
from zkgroup.zookeeper.client import SystemClock


def timers() -> list[threading.Timer]:
    """The timers of this process."""
    return [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]


def cut_off(server: MemoryZooKeeper, name: str, session_timeout_ms: int) -> None:
    """A client with an ephemeral znode of its name, without a connection."""
    session = server.client(name, session_timeout_ms).session
    assert session is not None
    server.write(Create(f"/{name}", b"", ephemeral=True), session_id=session.session_id)
    server.suspend(name)


def test_sessions_expire_by_themselves() -> None:
    """No thread moves the clock. A client that comes back in time keeps its session."""
    server = MemoryZooKeeper(SystemClock())
    cut_off(server, "lost", 20)
    cut_off(server, "back", 3_600_000)
    server.resume("back")

    eventually(lambda: server.find("/lost") is None)
    assert server.find("/back") is not None
    server.clients["back"].close()
    assert server.find("/back") is None
    eventually(lambda: timers() == [])


def test_a_closed_server_has_no_timers() -> None:
    """Of sessions whose clients never came back."""
    server = MemoryZooKeeper(SystemClock())
    cut_off(server, "gone", 3_600_000)
    (timer,) = timers()
    server.close()

    joined(timer)
