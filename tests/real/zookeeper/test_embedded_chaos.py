"""The chaos proxy bites: each fault seen through our client, with another client past the proxy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.real.conftest import CountingZooKeeper
from tests.waiting import eventually
from tests.worlds.clients import reconnected
from zkgroup.model.requests import (
    Code,
    Connected,
    Create,
    Exists,
    ExistsDone,
    Lost,
    Multi,
    MultiDone,
    MultiRefused,
    NotSent,
    Outcome,
    SetData,
    Suspended,
    Sync,
    SyncDone,
    Unanswered,
)
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.testing.conformance import Caller, Target
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient


@pytest.fixture
def other(zk_chaos_server: ChaosZooKeeper) -> Iterator[Caller]:
    """A client past the proxy."""
    yield from _caller(zk_chaos_server.direct_address)


@pytest.fixture
def caller(zk_chaos_server: ChaosZooKeeper) -> Iterator[Caller]:
    """A client through the proxy."""
    yield from _caller(zk_chaos_server.address)


def _caller(address: str) -> Iterator[Caller]:
    with Target(
        lambda timeout: ZooKeeperClient(address, ClientSettings(session_timeout_ms=timeout))
    ) as target:
        yield target.connect(20_000)  # a busy machine is no break of the connection


def kinds(caller: Caller) -> list[type]:
    return [type(event) for event in caller.events]


def test_a_dropped_reply_leaves_an_applied_write_unanswered(
    zk_chaos_server: ChaosZooKeeper, caller: Caller, other: Caller
) -> None:
    """The other client sees what the writer cannot know."""
    dropped = zk_chaos_server.drop_reply("multi")
    outcome = caller.submit(Multi((Create("/a", b""),))).outcome()
    dropped.wait()
    assert isinstance(outcome, Unanswered)
    assert other.ask(Exists("/a"), ExistsDone).stat is not None
    reconnected(caller)


def test_a_dropped_request_leaves_an_unapplied_write_unanswered(
    zk_chaos_server: ChaosZooKeeper, caller: Caller, other: Caller
) -> None:
    """The same outcome for the writer, the opposite truth; other kinds pass."""
    dropped = zk_chaos_server.drop_request("multi")
    assert caller.ask(Sync("/"), SyncDone) == SyncDone()
    outcome = caller.submit(Multi((Create("/a", b""),))).outcome()
    dropped.wait()
    assert isinstance(outcome, Unanswered)
    reconnected(caller)
    other.catch_up()
    assert other.ask(Exists("/a"), ExistsDone).stat is None


def test_a_cut_suspends_and_the_session_continues(zk_chaos_server: ChaosZooKeeper, caller: Caller) -> None:
    """Connected, Suspended, Connected with the same session."""
    session = caller.session()
    caller.write(Create("/e", b"", ephemeral=True))
    zk_chaos_server.cut()
    reconnected(caller)
    assert kinds(caller)[:3] == [Connected, Suspended, Connected]
    assert caller.stat("/e").ephemeral_owner == session.session_id


def test_a_refused_client_stays_suspended_until_healed(
    zk_chaos_server: ChaosZooKeeper, caller: Caller
) -> None:
    """Nothing is sent meanwhile."""
    zk_chaos_server.cut(refuse=True)
    caller.await_event(Suspended)
    caller.ask(Sync("/"), NotSent)
    zk_chaos_server.heal()
    reconnected(caller)


def test_withheld_requests_arrive_late(
    zk_chaos_server: CountingZooKeeper, caller: Caller, other: Caller
) -> None:
    """Nothing is answered while the way to the server is closed; then everything, in order."""
    zk_chaos_server.swallow(to_server=True, to_client=False)
    zk_chaos_server.most_unanswered()
    first = caller.submit(Multi((Create("/a", b"1"),)))
    second = caller.submit(Multi((SetData("/a", b"2", 0),)))
    assert other.ask(Exists("/a"), ExistsDone).stat is None
    assert first.outcomes == second.outcomes == []
    zk_chaos_server.heal()
    assert isinstance(first.outcome(), MultiDone)
    assert isinstance(second.outcome(), MultiDone)
    assert zk_chaos_server.most_unanswered() in (
        1,
        2,
    )  # the server may answer the first before the second comes
    assert zk_chaos_server.most_unanswered() == 0


def test_withheld_replies_hide_what_was_applied(
    zk_chaos_server: ChaosZooKeeper, caller: Caller, other: Caller
) -> None:
    """The write is there; its writer waits, and hears of it after all."""
    zk_chaos_server.swallow(to_server=False, to_client=True)
    pending = caller.submit(Multi((Create("/a", b""),)))
    watch = other.submit(Exists("/a", watch=True))
    if watch.outcome() == ExistsDone(None):
        watch.fired()
    assert pending.outcomes == []
    zk_chaos_server.heal()
    assert isinstance(pending.outcome(), MultiDone)


def test_a_delay_lets_others_go_first(zk_chaos_server: ChaosZooKeeper, caller: Caller, other: Caller) -> None:
    """A delayed write loses against one that was sent later past the proxy; its order is kept.

    The delay is doubled until it is longer than the other client's write takes on this machine.
    """
    numbers = itertools.count()

    def outcomes() -> list[Outcome]:
        number = next(numbers)
        zk_chaos_server.delay(0.25 * 2**number, to_client=False)
        writes = Create(f"/{number}", b"late"), Create(f"/{number}/behind", b"")
        late = [caller.submit(Multi((write,))) for write in writes]
        early = other.submit(Multi((Create(f"/{number}", b"early"),)))
        return [one.outcome() for one in (early, *late)]

    early, late, behind = eventually(outcomes, lambda found: isinstance(found[0], MultiDone))
    assert late == MultiRefused(0, Code.NODE_EXISTS)
    assert isinstance(early, MultiDone)
    assert isinstance(behind, MultiDone)


def test_an_expired_session_takes_its_ephemerals(
    zk_chaos_server: ChaosZooKeeper, caller: Caller, other: Caller
) -> None:
    """At the server at once; the client is told Lost and opens the next session."""
    session = caller.session()
    caller.write(Create("/e", b"", ephemeral=True))
    assert session.session_id in zk_chaos_server.sessions()
    zk_chaos_server.expire_session(session.session_id)
    other.catch_up()
    assert other.ask(Exists("/e"), ExistsDone).stat is None
    caller.await_event(Lost, 1)
    assert caller.session(2).session_id != session.session_id
    caller.write(Create("/e", b"", ephemeral=True), incarnation=2)


def test_a_restarted_server_keeps_the_session(zk_chaos_server: ChaosZooKeeper, caller: Caller) -> None:
    """Its data and its sessions are on disk."""
    caller.write(Create("/e", b"", ephemeral=True))
    zk_chaos_server.restart()
    reconnected(caller)
    assert caller.stat("/e").ephemeral_owner == caller.session().session_id
