"""`MemoryZooKeeper` in direct mode: sessions that end with the clock, and topics."""

from __future__ import annotations

import pytest

from zkgroup.model.requests import Connected, Create, Lost, SessionEvent, Suspended
from zkgroup.testing import MemoryZooKeeper
from zkgroup.znodes.brokers import Topic


class Heard:
    """A client with an ephemeral znode, and the events that it gets."""

    def __init__(self, server: MemoryZooKeeper, name: str = "a", session_timeout_ms: int = 6000) -> None:
        self.server = server
        self.client = server.client(name, session_timeout_ms)
        self.events: list[SessionEvent] = []
        self.client.listen(self.events.append)
        assert self.client.session is not None
        server.write(Create(f"/{name}", b"", ephemeral=True), session_id=self.client.session.session_id)
        self.path = f"/{name}"

    @property
    def lives(self) -> bool:
        return self.server.find(self.path) is not None

    @property
    def kinds(self) -> list[type]:
        return [type(event) for event in self.events]


@pytest.fixture
def server() -> MemoryZooKeeper:
    return MemoryZooKeeper()


def test_a_connected_client_pings_by_itself(server: MemoryZooKeeper) -> None:
    """Its session never expires, and no test has to ping."""
    heard = Heard(server)
    server.clock.advance(1_000_000)
    assert heard.lives
    assert heard.kinds == [Connected]


@pytest.mark.parametrize("timeout_ms", [6000, 4000])
def test_a_suspended_session_ends_at_its_timeout(server: MemoryZooKeeper, timeout_ms: int) -> None:
    """The timeout runs from the cut; the client gets Lost when it reaches a server again."""
    heard, other = Heard(server, "a", timeout_ms), Heard(server, "b")
    server.clock.advance(2_500)
    server.suspend("a")
    server.clock.advance(timeout_ms - 1)
    assert heard.lives
    server.clock.advance(1)
    assert not heard.lives
    assert heard.kinds == [Connected, Suspended]
    server.resume("a")
    assert heard.kinds == [Connected, Suspended, Lost, Connected]
    assert other.lives


def test_a_session_that_reconnects_in_time_continues(server: MemoryZooKeeper) -> None:
    """Its timeout starts again at the next cut."""
    heard = Heard(server)
    server.suspend("a")
    server.clock.advance(5_999)
    server.resume("a")
    server.clock.advance(60_000)
    assert heard.kinds == [Connected, Suspended, Connected]
    server.suspend("a")
    server.clock.advance(3_000)
    server.resume("a")
    server.suspend("a")
    server.clock.advance(5_999)
    assert heard.lives
    server.clock.advance(1)
    assert not heard.lives


def test_a_session_without_its_client_ends_at_its_timeout(server: MemoryZooKeeper) -> None:
    """Its client has a new session by then, and no longer pings the old one."""
    heard = Heard(server)
    heard.client.abandon(1, "given up")
    assert heard.kinds == [Connected, Lost, Connected]
    server.clock.advance(5_999)
    assert heard.lives
    server.clock.advance(1)
    assert not heard.lives
    assert heard.kinds == [Connected, Lost, Connected]


def test_the_session_of_a_client_that_closed_while_away_ends_at_its_timeout(server: MemoryZooKeeper) -> None:
    """It could not close its session; a connected client ends its session at once."""
    away, present = Heard(server, "a"), Heard(server, "b")
    server.suspend("a")
    away.client.close()
    present.client.close()
    assert (away.lives, present.lives) == (True, False)
    server.clock.advance(6_000)
    assert not away.lives


def test_sessions_of_stepped_servers_end_by_hand() -> None:
    """In stepped mode the test expires sessions."""
    server = MemoryZooKeeper(stepped=True)
    server.client("a")
    server.deliver_all()
    server.suspend("a")
    server.clock.advance(60_000)
    assert [session.alive for session in server.leader.sessions.values()] == [True]


def test_topic_creates_its_parents_and_adds_partitions(server: MemoryZooKeeper) -> None:
    """`topic` creates missing parents; a second call adds partitions."""
    server.topic("orders", 4)
    assert sorted(path for path in server.tree() if path != "/") == [
        "/brokers",
        "/brokers/ids",
        "/brokers/topics",
        "/brokers/topics/orders",
    ]
    server.topic("orders", 6, replicas=(1, 2))
    znode = server.find("/brokers/topics/orders")
    assert znode is not None
    assert Topic.decode(znode.path, znode.data).partitions == dict.fromkeys(range(6), (1, 2))
