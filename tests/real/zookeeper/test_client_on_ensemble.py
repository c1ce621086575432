"""The client when servers of an ensemble stand still, die or lose their quorum."""

from __future__ import annotations

from tests.worlds.clients import MINE, leader_of, opener, reconnected, server_of, session_events
from zkgroup.model.requests import Multi, MultiDone, NotSent, SetData, Suspended, Sync, Unanswered
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.testing.conformance import Target


def test_a_server_that_stands_still_is_left(zk_chaos: ChaosZooKeeper) -> None:
    """F16: SIGSTOP; connections stay open. The session goes on at another server.

    A follower here, so that nobody has to elect. How long a server may be silent is set, so that the session
    has time left for a busy machine.
    """
    leader = leader_of(zk_chaos)
    followers = [address for number, address in enumerate(zk_chaos.addresses) if number != leader]
    quick = {"silence_timeout_ms": 2_000, "connection_timeout_ms": 3000}
    with Target(opener(",".join(followers) + zk_chaos.chroot, **quick)) as target:
        caller = target.connect(20_000)
        caller.ask(MINE, MultiDone)
        before = caller.session()
        stopped = server_of(zk_chaos, before.session_id)
        zk_chaos.zookeeper.server(stopped).pause()
        try:
            caller.ask(Sync("/"), Unanswered)
            reconnected(caller)
            assert server_of(zk_chaos, before.session_id) != stopped
        finally:
            zk_chaos.zookeeper.server(stopped).resume()
        assert {incarnation for _, incarnation in session_events(caller)} == {1}
        assert caller.stat("/mine").ephemeral_owner == before.session_id


def test_the_session_survives_the_death_of_its_server(zk_chaos: ChaosZooKeeper) -> None:
    """F12: SIGKILL of the member of the ensemble that we are connected to."""
    with Target(opener(zk_chaos.address)) as target:
        caller = target.connect(20_000)
        caller.ask(MINE, MultiDone)
        before = caller.session()
        zk_chaos.zookeeper.server(server_of(zk_chaos, before.session_id)).kill()
        reconnected(caller)
        assert caller.stat("/mine").ephemeral_owner == before.session_id


def test_without_a_quorum_nothing_is_answered_and_nothing_hangs(zk_chaos: ChaosZooKeeper) -> None:
    """F15: each request has an outcome; with the quorum back everything goes on.

    A server that has not noticed yet lets the client in again for a moment and takes the write along, so the
    write was not always never sent.
    """
    with Target(opener(zk_chaos.address)) as target:
        caller = target.connect(30_000)
        caller.make("/n")
        zk_chaos.lose_quorum()
        caller.await_event(Suspended)
        outcome = caller.submit(Multi((SetData("/n", b"", 0),))).outcome()
        assert isinstance(outcome, NotSent | Unanswered)
        zk_chaos.heal_servers()
        reconnected(caller)
        version = caller.stat("/n").version
        assert version == 0 or (version == 1 and isinstance(outcome, Unanswered))
        caller.ask(Multi((SetData("/n", b"", version),)), MultiDone)
