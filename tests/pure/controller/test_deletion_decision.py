"""How a topic goes."""

from __future__ import annotations

import pytest

from tests.worlds.controller_clusters import new_controller, tp
from zkgroup.controller.machine.deletion import decision
from zkgroup.controller.machine.deletion.decision import (
    DeletionFinish,
    DeletionStart,
    DeletionState,
    DeletionWait,
    GiveUp,
    StopReplicaResults,
    decide,
    deletion_results,
)
from zkgroup.controller.machine.events import BrokerRequest
from zkgroup.controller.machine.fenced_writes import single
from zkgroup.controller.machine.requests.sender import BrokerResponse
from zkgroup.controller.machine.state_machines import PartitionAndReplica, ReplicaPhase
from zkgroup.errors import ConflictError
from zkgroup.model.requests import Create, Delete
from zkgroup.testing import MemoryZooKeeper
from zkgroup.wire.control import PartitionError, StopReplicaRequest, StopReplicaResponse
from zkgroup.zookeeper.blocking import Blocking

ONE, TWO, THREE = (PartitionAndReplica(tp(0), broker) for broker in (1, 2, 3))

ONLINE, OFFLINE = ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE
STARTED, DELETED = ReplicaPhase.DELETION_STARTED, ReplicaPhase.DELETION_SUCCESSFUL
INELIGIBLE = ReplicaPhase.DELETION_INELIGIBLE


def topic(*phases: ReplicaPhase, **changes: object) -> DeletionState:
    """A topic of one partition with replicas on 1, 2 and 3, all brokers up."""
    now = DeletionState("t", dict(zip((ONE, TWO, THREE), phases, strict=False)), {1, 2, 3})
    return now._replace(**changes)


def test_a_deletion_from_beginning_to_end() -> None:
    """Start, wait for the answers, finish."""
    assert decide(topic(ONLINE, ONLINE, ONLINE)) == DeletionStart((ONE, TWO, THREE), ())
    assert decide(topic(STARTED, DELETED, STARTED)) == DeletionWait("waits for the answer of brokers 1, 3")
    assert decide(topic(DELETED, DELETED, DELETED)) == DeletionFinish()


def test_the_answer_of_a_stray_replica_is_waited_for_last() -> None:
    """It has no place any more, and is reachable; the others go first (K16)."""
    left = {"strays": [PartitionAndReplica(tp(0), 4)]}

    assert decide(topic(ONLINE, ONLINE, ONLINE, **left)) == DeletionStart((ONE, TWO, THREE), ())
    assert decide(topic(DELETED, DELETED, DELETED, **left)) == DeletionWait(
        "waits for the answer of broker 4"
    )
    forced = topic(DELETED, INELIGIBLE, INELIGIBLE, live_or_shutting_down={1, 4}, without=(2, 3), **left)
    assert decide(forced) == DeletionWait("waits for the answer of broker 4")


def test_a_reassignment_comes_first() -> None:
    """It names what it waits for."""
    waiting = decide(topic(ONLINE, moving=[tp(3), tp(0)]))

    assert waiting == DeletionWait("waits for the reassignment of t-0, t-3")


def test_replicas_of_dead_brokers_wait_and_the_others_go() -> None:
    """They become ineligible, once; when nothing else is left the deletion waits for their brokers (K20)."""
    assert decide(topic(ONLINE, ONLINE, ONLINE, live_or_shutting_down={1})) == DeletionStart(
        (ONE,), (TWO, THREE)
    )
    assert decide(topic(ONLINE, INELIGIBLE, ONLINE, live_or_shutting_down={1})) == DeletionStart(
        (ONE,), (THREE,)
    )
    assert decide(topic(DELETED, INELIGIBLE, INELIGIBLE, live_or_shutting_down={1})) == DeletionWait(
        "waits for brokers 2, 3 to be back; if lost: "
        "zkgroup topic delete t --without-broker 2 --without-broker 3 --execute"
    )


def test_a_dead_broker_that_an_operator_names_is_not_waited_for() -> None:
    """The others are deleted first; who is not named is waited for, and named alone (K20)."""
    forced = {"live_or_shutting_down": {1}, "without": (2, 3)}

    assert decide(topic(ONLINE, ONLINE, ONLINE, **forced)) == DeletionStart((ONE,), (TWO, THREE))
    assert decide(topic(STARTED, INELIGIBLE, INELIGIBLE, **forced)) == DeletionWait(
        "waits for the answer of broker 1"
    )
    assert decide(topic(DELETED, STARTED, INELIGIBLE, **forced)) == GiveUp((TWO,))
    assert decide(topic(DELETED, INELIGIBLE, INELIGIBLE, **forced)) == DeletionFinish((TWO, THREE))
    assert decide(
        topic(DELETED, INELIGIBLE, INELIGIBLE, live_or_shutting_down={1}, without=(2,))
    ) == DeletionWait(
        "waits for broker 3 to be back; if lost: zkgroup topic delete t --without-broker 3 --execute"
    )
    assert decide(
        topic(ONLINE, ONLINE, ONLINE, live_or_shutting_down=(), without=(1, 2, 3))
    ) == DeletionFinish((ONE, TWO, THREE))


def test_a_broker_that_is_there_is_asked_although_it_is_named() -> None:
    """K20: a restart was taken for a loss. What it answers, or refuses, counts; a move comes first."""
    named = {"without": (1, 2, 3)}

    assert decide(topic(DELETED, INELIGIBLE, ONLINE, **named)) == DeletionStart((TWO, THREE), ())
    assert decide(topic(DELETED, STARTED, DELETED, **named)) == DeletionWait(
        "waits for the answer of broker 2"
    )
    assert decide(topic(DELETED, INELIGIBLE, DELETED, refused="no", **named)) == DeletionWait("no")
    assert decide(
        topic(DELETED, INELIGIBLE, moving=[tp(0)], live_or_shutting_down=(), **named)
    ) == DeletionWait("waits for the reassignment of t-0")


def test_a_broker_that_is_back_is_asked() -> None:
    """Its replica was ineligible; those that are deleted stay so."""
    assert decide(topic(DELETED, INELIGIBLE, DELETED)) == DeletionStart((TWO,), ())


def test_a_broker_that_dies_while_deleting_is_given_up() -> None:
    """Else its replica would stay started for ever (5.6)."""
    assert decide(topic(STARTED, STARTED, DELETED, live_or_shutting_down={1})) == GiveUp((TWO,))
    assert decide(topic(STARTED, INELIGIBLE, DELETED, live_or_shutting_down={1})) == DeletionWait(
        "waits for the answer of broker 1"
    )


def test_a_refusal_is_not_repeated_until_something_has_changed() -> None:
    """A broker start or the end of a reassignment clears it; the answers under way are awaited before."""
    refused = "t-0 on broker 2 could not be deleted"

    assert decide(topic(STARTED, INELIGIBLE, DELETED, refused=refused)) == DeletionWait(
        "waits for the answer of broker 1"
    )
    assert decide(topic(DELETED, INELIGIBLE, DELETED, refused=refused)) == DeletionWait(refused)
    assert decide(topic(DELETED, INELIGIBLE, DELETED)) == DeletionStart((TWO,), ())


def test_a_topic_without_replicas_goes_at_once() -> None:
    """Replica lists can be empty: a controller of 0.8.2.2 applies such."""
    assert decide(topic()) == DeletionFinish()


def test_an_error_of_the_request_fails_all_of_it() -> None:
    """Otherwise each partition by its own; one that the answer does not name is not deleted."""

    def results(response: StopReplicaResponse) -> StopReplicaResults:
        request = BrokerRequest(4, 1, StopReplicaRequest(7, 1, True, (tp(0), tp(1), tp(2))))
        found = deletion_results(BrokerResponse(4, request, response))
        assert found is not None
        return found

    some = StopReplicaResponse(0, (PartitionError("t", 0, 0), PartitionError("t", 1, 56)))

    assert results(some) == (
        (PartitionAndReplica(tp(0), 4),),
        (PartitionAndReplica(tp(1), 4), PartitionAndReplica(tp(2), 4)),
        "t-1 on broker 4 could not be deleted: error 56 (kafka storage error)",
    )
    stale = results(StopReplicaResponse(11, (PartitionError("t", 0, 0),)))
    assert (stale.deleted, len(stale.failed)) == ((), 3)
    assert stale.reason == "t-0 on broker 4 could not be deleted: error 11 (stale controller epoch)"
    everything = results(StopReplicaResponse(0, tuple(PartitionError("t", n, 0) for n in range(3))))
    assert (len(everything.deleted), everything.failed, everything.reason) == (3, (), None)


PARENTS = ("/brokers", "/brokers/topics", "/config", "/config/topics", "/admin", "/admin/delete_topics")


def znodes(partitions: int) -> dict[str, int]:
    """Those of a topic with their versions, and one partition that never got a state."""
    found = {"/brokers/topics/t": 0, "/brokers/topics/t/partitions": 0}
    for number in range(partitions):
        found[f"/brokers/topics/t/partitions/{number}"] = 0
        found[f"/brokers/topics/t/partitions/{number}/state"] = 0
    del found[f"/brokers/topics/t/partitions/{partitions - 1}/state"]
    return {**found, "/config/topics/t": 0, "/admin/delete_topics/t": 0}


def test_a_big_topic_goes_in_parts_and_its_name_in_the_last() -> None:
    """Until then no client can create it again and have its configuration deleted with the old one (K21)."""
    found = znodes(300)

    writes = decision.remove_topic("t", range(300), found, bytes_max=10_000)

    deleted = [each for write in writes for each in write.operations]
    assert deleted[-3:] == [
        Delete("/brokers/topics/t", 0),
        Delete("/config/topics/t", 0),
        Delete("/admin/delete_topics/t", 0),
    ]
    assert {each.path for each in deleted} == found.keys()
    assert len(writes) > 3
    assert set(deleted[-4:]) <= set(writes[-1].operations)


@pytest.mark.parametrize("bytes_max", [400, 100_000])
def test_a_server_takes_the_parts_in_their_order(bytes_max: int) -> None:
    """Children before parents. A controller of Kafka has version 0, and passes no fence."""
    with Blocking(MemoryZooKeeper().client()) as zk:
        fence = new_controller(zk)
        zk.create_missing(*PARENTS)
        zk.multi(*(Create(path, b"") for path in znodes(5)))

        for write in decision.remove_topic("t", range(5), znodes(5), bytes_max):
            zk.multi(*single(fence, write).request.operations)

        for parent in ("/brokers/topics", "/config/topics", "/admin/delete_topics"):
            assert zk.children(parent)[0] == ()
        zk.multi(Delete("/controller", 1), Create("/controller", b""))
        with pytest.raises(ConflictError, match="/controller"):
            zk.multi(*fence.checks())


def test_what_others_have_made_below_a_topic_goes_first() -> None:
    """A partition that no replica list names, and deeper things: else the topic would never be empty."""
    found = {
        **znodes(1),
        "/brokers/topics/t/partitions/7": 0,
        "/brokers/topics/t/partitions/7/state": 3,
        "/brokers/topics/t/partitions/7/state/x": 0,
    }
    with Blocking(MemoryZooKeeper().client()) as zk:
        fence = new_controller(zk)
        zk.create_missing(*PARENTS)
        zk.multi(*(Create(path, b"") for path in sorted(found)))

        for write in decision.remove_topic("t", [0], {**found, "/brokers/topics/t/partitions/7/state": 0}):
            zk.multi(*single(fence, write).request.operations)

        assert zk.children("/brokers/topics")[0] == ()
