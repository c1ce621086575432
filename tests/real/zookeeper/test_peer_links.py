"""Servers of an ensemble cut off from each other, seen through our client: its server still answers it."""

from __future__ import annotations

import pytest

from tests.waiting import becomes, eventually
from tests.worlds.clients import leader_of, opener, session_events
from zkgroup.model.requests import (
    Exists,
    ExistsDone,
    Multi,
    MultiDone,
    NotSent,
    Read,
    ReadDone,
    SetData,
    Suspended,
    Unanswered,
)
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.testing.conformance import Caller, Target
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

LATE = Multi((SetData("/n", b"late", 0),))


def at(chaos: ChaosZooKeeper, server: int, **settings: int) -> Target:
    """Clients that know this server only."""
    return Target(opener(chaos.addresses[server] + chaos.chroot, **settings))


def data(caller: Caller) -> bytes | None:
    znode = caller.ask(Read("/n"), ReadDone).znode
    return znode.data if znode is not None else None


def shown(caller: Caller) -> bytes | None:
    """As `data`, None too while the server does not answer."""
    outcome = caller.submit(Read("/n")).outcome()
    return outcome.znode.data if isinstance(outcome, ReadDone) and outcome.znode is not None else None


def test_a_follower_cut_off_from_its_peers_shows_the_past(zk_chaos: ChaosZooKeeper) -> None:
    """faults.md, finding 6, F13: it answers reads and is behind; the others go on; healed, it catches up."""
    leader = leader_of(zk_chaos)
    follower, other = (leader + 1) % 3, (leader + 2) % 3
    with at(zk_chaos, follower) as here, at(zk_chaos, other) as there:
        cut_off, witness = here.connect(30_000), there.connect(30_000)
        cut_off.make("/n")
        witness.catch_up()

        zk_chaos.isolate(follower)
        witness.write(SetData("/n", b"new", 0))

        assert data(witness) == b"new"
        assert data(cut_off) == b"0"
        assert session_events(cut_off) == [("Connected", 1)]

        zk_chaos.heal()
        becomes(lambda: shown(cut_off), b"new")


@pytest.mark.parametrize("heard", [True, False], ids=["heard", "not heard"])
def test_a_link_to_a_follower_may_fail_in_one_direction(zk_chaos: ChaosZooKeeper, heard: bool) -> None:
    """F13, one way: the writer has no answer in either; in one of them the write is done."""
    leader = leader_of(zk_chaos)
    follower, other = (leader + 1) % 3, (leader + 2) % 3
    with at(zk_chaos, follower, request_timeout_ms=2_000) as here, at(zk_chaos, other) as there:
        cut_off, witness = here.connect(30_000), there.connect(30_000)
        witness.make("/n")
        becomes(lambda: shown(cut_off), b"0")

        zk_chaos.isolate(follower, to_peers=not heard, from_peers=heard)
        write = cut_off.submit(LATE)

        assert isinstance(write.outcome(), Unanswered)
        witness.catch_up()
        assert data(witness) == (b"late" if heard else b"0")


def test_a_deposed_leader_writes_nothing(zk_chaos: ChaosZooKeeper) -> None:
    """F14: its client's write has no answer and is in no history; the others elect and go on."""
    deposed = leader_of(zk_chaos)
    with at(zk_chaos, deposed) as here, at(zk_chaos, (deposed + 1) % 3) as there:
        cut_off, witness = here.connect(30_000), there.connect(30_000)
        cut_off.make("/n")
        witness.catch_up()

        zk_chaos.isolate(deposed)
        assert data(cut_off) == b"0"
        lost = cut_off.submit(LATE)
        assert isinstance(lost.outcome(), Unanswered)
        witness.await_event(Suspended)
        eventually(lambda: isinstance(written(witness), MultiDone))
        assert leader_of_two(zk_chaos, deposed) != deposed

        zk_chaos.heal()
        becomes(lambda: shown(cut_off), b"new")
        assert cut_off.ask(Exists("/n"), ExistsDone).stat == witness.ask(Exists("/n"), ExistsDone).stat


def written(caller: Caller) -> object:
    outcome = caller.submit(Multi((SetData("/n", b"new", 0),))).outcome()
    assert isinstance(outcome, MultiDone | NotSent | Unanswered)
    return outcome


def leader_of_two(chaos: ChaosZooKeeper, cut_off: int) -> int:
    rest = [number for number in range(3) if number != cut_off]
    return eventually(lambda: [n for n in rest if "Mode: leader" in chaos.zookeeper.server(n).ask("srvr")])[0]


def test_servers_without_proxies_between_them_cannot_be_cut_off(zk_server_process: EmbeddedZooKeeper) -> None:
    """Said, rather than nothing happening."""
    with ChaosZooKeeper(zk_server_process) as chaos, pytest.raises(RuntimeError, match="zk_chaos"):
        chaos.isolate(0)
