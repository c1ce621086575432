"""The client on a real server when sessions and the network fail it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.waiting import PATIENCE_S, becomes, eventually, joined
from tests.worlds.clients import MINE, gone, opener, session_events
from zkgroup.errors import ConfigError
from zkgroup.model.requests import (
    Check,
    Connected,
    Exists,
    ExistsDone,
    Lost,
    Multi,
    MultiDone,
    NotSent,
    Outcome,
    Read,
    ReadDone,
    SetData,
    Suspended,
    Sync,
    Unanswered,
)
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.testing.conformance import Caller, Target
from zkgroup.testing.plugin import ServerTree
from zkgroup.zookeeper import ZooKeeperClient


@pytest.fixture
def chaos(zk_chaos_server: ChaosZooKeeper) -> ChaosZooKeeper:
    """One server behind a network that can be broken."""
    return zk_chaos_server


@pytest.fixture
def target(chaos: ChaosZooKeeper) -> Iterator[Target]:
    """Clients through the broken network."""
    with Target(opener(chaos.address)) as target:
        yield target


@pytest.fixture
def other(chaos: ChaosZooKeeper) -> Iterator[Caller]:
    """A client past it."""
    with Target(opener(chaos.direct_address)) as target:
        yield target.connect(20_000)


def test_a_session_ended_by_a_second_client_is_lost_for_good(
    chaos: ChaosZooKeeper, target: Target, other: Caller
) -> None:
    """F3: ephemerals go at once; every member of the client is told; nothing old gets out."""
    caller = target.connect(20_000)
    neighbour = Caller(caller.store)
    caller.ask(MINE, MultiDone)
    first = caller.session()
    chaos.expire_session(first.session_id)
    caller.await_event(Lost, 1)
    assert gone(other, "/mine")
    caller.ask(MINE, NotSent)
    second = caller.session(2)
    assert second.session_id != first.session_id
    caller.ask(MINE, NotSent, 1)
    caller.ask(MINE, MultiDone, 2)
    for listener in (caller, neighbour):
        listener.session(2)
        assert session_events(listener) == [("Connected", 1), ("Suspended", 1), ("Lost", 1), ("Connected", 2)]
    assert other.stat("/mine").ephemeral_owner == second.session_id


def test_a_short_break_costs_nothing_but_the_watches(
    chaos: ChaosZooKeeper, target: Target, other: Caller
) -> None:
    """faults.md, finding 7: same session, same ephemerals; watches are gone, without a word."""
    caller = target.connect(20_000)
    caller.ask(MINE, MultiDone)
    watch = caller.submit(Exists("/mine", watch=True))
    watch.outcome()
    before = caller.session()
    chaos.cut()
    caller.await_event(Suspended)
    becomes(lambda: caller.events[-1], Connected(before))
    assert caller.stat("/mine").ephemeral_owner == before.session_id
    other.write(SetData("/mine", b"new", 0))
    caller.catch_up()
    assert watch.watched == []


def test_a_break_beyond_the_timeout_ends_the_session(
    chaos: ChaosZooKeeper, target: Target, other: Caller
) -> None:
    """The server's clock decides; the client learns it when it is back, and starts anew."""
    caller = target.connect(3000)
    caller.ask(MINE, MultiDone)
    chaos.swallow()
    caller.await_event(Suspended)
    eventually(lambda: gone(other, "/mine"))
    assert session_events(caller)[-1] == ("Suspended", 1)
    chaos.heal(cut=True)
    caller.session(2)
    assert session_events(caller)[-2:] == [("Lost", 1), ("Connected", 2)]


def test_a_given_up_session_writes_nothing_more(chaos: ChaosZooKeeper, target: Target, other: Caller) -> None:
    """Told Lost at once, though nothing can be reached; what was not sent never is (recipes 9)."""
    caller = target.connect(20_000)
    caller.ask(MINE, MultiDone)
    caller.make("/n")
    chaos.swallow()
    under_way = caller.submit(Multi((SetData("/n", b"old", 0),)))
    caller.store.abandon(1, "own expiry clock")
    assert session_events(caller)[-1] == ("Lost", 1)
    assert caller.events[-1] == Lost(1, "own expiry clock")
    caller.ask(Multi((SetData("/n", b"late", 0),)), NotSent)
    assert isinstance(under_way.outcome(), Unanswered | NotSent)
    chaos.heal(cut=True)
    caller.session(2)
    assert caller.ask(Read("/n"), ReadDone, 2).znode is not None
    assert other.stat("/n").version == 0


def test_a_given_up_session_is_closed_if_the_server_can_be_reached(target: Target, other: Caller) -> None:
    """Its ephemerals need not wait for the timeout."""
    caller = target.connect(60_000)
    caller.ask(MINE, MultiDone)
    caller.store.abandon(1, "test")
    eventually(lambda: gone(other, "/mine"))


def test_the_server_grants_less_than_was_asked_for(zk_server: ServerTree) -> None:
    """faults.md, finding 3: the granted timeout is what every listener is told."""
    with Target(opener(zk_server.address)) as target:
        assert target.connect(600_000).session().timeout_ms == 60_000
        assert target.connect(1).session().timeout_ms == 1000


def test_a_chroot_that_is_missing_is_named_and_not_created(zk_server: ServerTree) -> None:
    """kazoo warns and goes on."""
    with (
        ZooKeeperClient(zk_server.address + "/nobody/made/this") as client,
        pytest.raises(ConfigError, match=f"{zk_server.chroot}/nobody/made/this"),
    ):
        client.wait_connected(PATIENCE_S)
    with Target(opener(zk_server.address)) as target:
        assert target.connect().ask(Exists("/nobody"), ExistsDone).stat is None


def test_a_lost_reply_leaves_a_write_that_is_applied_once(
    chaos: ChaosZooKeeper, target: Target, other: Caller
) -> None:
    """Unknown for the writer, found by reading back, never sent again (recipes 10)."""
    caller = target.connect(20_000)
    caller.make("/n")
    drop = chaos.drop_reply("multi")
    write = caller.submit(Multi((Check("/n", 0), SetData("/n", b"1", 0))))
    drop.wait()
    assert isinstance(write.outcome(), Unanswered)
    caller.await_event(Suspended)
    becomes(lambda: session_events(caller)[-1], ("Connected", 1))
    znode = caller.ask(Read("/n"), ReadDone).znode
    assert znode is not None
    assert (znode.data, znode.stat.version) == (b"1", 1)
    assert len(write.outcomes) == 1


def test_a_lost_request_is_as_unknown_and_not_applied(chaos: ChaosZooKeeper, target: Target) -> None:
    """The writer cannot tell the two apart, so neither may be repeated blindly (recipes 10)."""
    caller = target.connect(20_000)
    caller.make("/n")
    drop = chaos.drop_request("multi")
    write = caller.submit(Multi((SetData("/n", b"1", 0),)))
    drop.wait()
    assert isinstance(write.outcome(), Unanswered)
    eventually(lambda: session_events(caller)[-1] == ("Connected", 1) and len(session_events(caller)) > 1)
    assert caller.stat("/n").version == 0


def test_every_request_has_one_outcome_through_a_storm(
    chaos: ChaosZooKeeper, target: Target, other: Caller
) -> None:
    """F10: connections break again and again; what is told done is done, once."""
    caller = target.connect(20_000)
    caller.make("/n")
    outcomes: list[Outcome] = []
    submitted, stop = [0], threading.Event()

    def work() -> None:
        while not stop.wait(0.002):
            for _ in range(10):
                submitted[0] += 1
                write = Multi((SetData("/n", b"", -1),))
                caller.store.submit(write, incarnation=1, on_outcome=outcomes.append)

    def told_as(kind: type[Outcome]) -> int:
        return sum(isinstance(outcome, kind) for outcome in tuple(outcomes))

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for cut in range(50):
            if cut >= 8 and told_as(Unanswered):
                break
            before = told_as(MultiDone)
            eventually(lambda: told_as(MultiDone) > before + 10)  # noqa: B023
            chaos.cut()
    finally:
        stop.set()
        joined(worker)
    eventually(lambda: len(outcomes) == submitted[0])
    done, unknown = told_as(MultiDone), told_as(Unanswered)
    other.catch_up()
    assert done <= other.stat("/n").version <= done + unknown
    assert unknown >= 1
    assert {type(outcome) for outcome in outcomes} <= {MultiDone, Unanswered, NotSent}


@pytest.mark.parametrize("way", ["both", "to_server", "to_client"])
def test_a_dead_link_is_noticed_under_load(chaos: ChaosZooKeeper, target: Target, way: str) -> None:
    """faults.md, finding 4, F7: with requests every 20 ms kazoo as it is stays CONNECTED for ever."""
    caller = target.connect(3000)
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.02):
            caller.store.submit(Sync("/"), incarnation=1, on_outcome=lambda _outcome: None)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        chaos.swallow(to_server=way != "to_client", to_client=way != "to_server")
        caller.await_event(Suspended)
        chaos.heal(cut=True)
        becomes(lambda: session_events(caller)[-1][0], "Connected")
    finally:
        stop.set()
        joined(worker)
