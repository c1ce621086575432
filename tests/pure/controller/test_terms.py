"""Leaders that have started again before their controller came: their terms are over."""

from __future__ import annotations

import pytest

from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_candidates import GRACE_AND_SPREAD_MS
from tests.worlds.stepped_controllers import ControllerNode, SteppedControllers, ruled
from zkgroup.model.requests import SetData
from zkgroup.testing.memory_zookeeper import Fault, Step
from zkgroup.wire.control import LeaderAndIsrRequest
from zkgroup.znodes.brokers import PartitionState, Topic


def bounce(realm: SteppedControllers, broker: int, *, ours: bool = True) -> None:
    """It starts again, at once; what its controller makes of it has not happened yet."""
    realm.stop_broker(broker, run=False)
    realm.start_broker(broker, ours=ours, run=False)


def left_leaderless(realm: SteppedControllers) -> SteppedControllers:
    """Three topics' worth of leaders, and a controller that is gone."""
    realm.make_topic("t", {0: (1, 2, 3), 1: (2, 1), 2: (1,), 3: (3, 1)})
    realm.crash(realm.rule())
    for host in realm.hosts.values():
        host.requests.clear()
    return realm


def led(realm: SteppedControllers, broker: int) -> list[dict[str, tuple[int, int]]]:
    """Leader and leader epoch of each partition, in each LeaderAndIsr that the broker got."""
    return [
        {str(info.topic_partition): (info.leader, info.leader_epoch) for info in request.partitions}
        for request in realm.hosts[broker].requests
        if isinstance(request, LeaderAndIsrRequest)
    ]


def epochs(realm: SteppedControllers) -> list[int]:
    return [realm.state(tp(number)).leader_epoch for number in range(4)]


def ended(ruler: ControllerNode) -> list[object]:
    return [fields["written"] for fields in ruler.notes("terms.ended")]


def test_a_leader_that_started_again_unseen_leads_in_a_new_term() -> None:
    """replica-host.md rule 1: in its old term it could append other lines at offsets that followers have."""
    realm = left_leaderless(SteppedControllers())
    bounce(realm, 1)
    ruler = realm.rule()

    assert realm.state(tp(0)) == PartitionState(1, 1, (1, 2, 3), 2)
    assert realm.state(tp(2)) == PartitionState(1, 1, (1,), 2)
    assert epochs(realm) == [1, 0, 1, 0]
    roles = {"t-0": (1, 1), "t-1": (2, 0), "t-2": (1, 1), "t-3": (3, 0)}
    assert led(realm, 1) == [roles]
    assert led(realm, 2) == [{"t-0": (1, 1), "t-1": (2, 0)}]
    assert ended(ruler) == [2]


def test_a_term_is_ended_once() -> None:
    """The state is younger than the registration then: no controller after it writes again."""
    realm = left_leaderless(SteppedControllers())
    bounce(realm, 1)
    realm.crash(realm.rule())
    ruler = realm.rule()

    assert epochs(realm) == [1, 0, 1, 0]
    assert ended(ruler) == []


def test_leaders_of_kafka_are_not_touched() -> None:
    """Whose registration has no key of ours: its log is not ours to judge, its version not to be changed."""
    realm = left_leaderless(SteppedControllers())
    bounce(realm, 1, ours=False)
    ruler = realm.rule()

    assert epochs(realm) == [0, 0, 0, 0]
    assert ended(ruler) == []


def test_a_restart_of_the_whole_cluster_ends_all_terms_in_few_writes() -> None:
    """One packet for all that fits into one; nobody hears of the old terms."""
    realm = left_leaderless(SteppedControllers())
    for broker in (1, 2, 3):
        bounce(realm, broker)
    ruler = realm.rule()

    assert epochs(realm) == [1, 1, 1, 1]
    assert ended(ruler) == [4]
    writes = {realm.find(PartitionState.path(tp(number))).stat.mzxid for number in range(4)}
    assert len(writes) == 1
    assert all(epoch == 1 for request in led(realm, 1) for _, epoch in request.values())


def test_a_state_that_the_leader_writes_meanwhile_is_decided_again() -> None:
    """Its packet is refused: an ISR keeps the term, whoever wrote it after the start."""
    realm = left_leaderless(SteppedControllers())
    bounce(realm, 1)
    ruler = realm.stand()
    realm.run()
    realm.clock.advance(GRACE_AND_SPREAD_MS)
    realm.until_asked(ruler, PartitionState.path(tp(0)))
    realm.set_state(tp(0), isr=(1, 3))
    realm.run()

    assert realm.state(tp(0)) == PartitionState(1, 1, (1, 3), 2)
    assert epochs(realm) == [1, 0, 1, 0]
    assert led(realm, 3) == [{"t-0": (1, 1), "t-3": (3, 0)}]


@pytest.mark.parametrize("fault", ["lost_reply", "lost_request"])
def test_a_write_without_an_answer_ends_the_term_once(fault: Fault) -> None:
    """Everything is read again, and what is younger than the registration is left alone."""
    realm = left_leaderless(SteppedControllers())
    bounce(realm, 1)
    ruler = realm.stand()
    realm.run()
    realm.clock.advance(GRACE_AND_SPREAD_MS)
    realm.until_asked(ruler, PartitionState.path(tp(0)))
    realm.deliver(Step("request", ruler.name), fault)
    realm.run()
    realm.server.resume(ruler.name)
    realm.advance(10_000)

    assert epochs(realm) == [1, 0, 1, 0]
    assert led(realm, 1)[-1]["t-0"] == (1, 1)


def test_a_topic_that_is_mended_after_a_restart_gets_new_terms_too() -> None:
    """Its states were not read by the take-over."""
    realm = left_leaderless(SteppedControllers())
    good = realm.find(Topic.path("t"))
    assert good.data is not None
    realm.write(SetData(Topic.path("t"), b"{", good.stat.version))
    bounce(realm, 1)
    ruler = realm.rule()
    realm.write(SetData(Topic.path("t"), good.data, good.stat.version + 1))
    realm.run()

    assert epochs(realm) == [1, 0, 1, 0]
    assert ended(ruler) == [2]


def test_a_bounce_seen_on_a_new_connection_ends_the_term_as_any_other() -> None:
    """It leaves the ISR: what it led alone is led by it again, the rest by others."""
    realm, ruler = ruled({0: (1, 2, 3), 1: (2, 1), 2: (1,), 3: (3, 1)})
    realm.server.suspend(ruler.name)
    realm.run()
    bounce(realm, 1)
    realm.server.resume(ruler.name)
    realm.run()

    assert realm.state(tp(0)) == PartitionState(2, 1, (2, 3), 1)
    assert realm.state(tp(2)) == PartitionState(1, 2, (1,), 1)
    assert ended(ruler) == []
