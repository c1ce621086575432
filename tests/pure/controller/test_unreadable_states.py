"""States that nobody could read, and that somebody has mended: their partitions go on at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.worlds.acls import UNREADABLE
from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import ControllerNode, SteppedControllers, ruled
from zkgroup.controller.machine.failover import topics
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, SetData
from zkgroup.wire.control import LeaderAndIsrRequest
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.notifications import IsrChange
from zkgroup.zookeeper.settings import OPEN_ACL

STATE = PartitionState.path(tp(0))


def broken(realm: SteppedControllers, path: str = STATE) -> bytes:
    """Makes it unreadable; what it was."""
    found = realm.find(path)
    assert found.data is not None
    realm.write(SetData(path, b"{", found.stat.version))
    return found.data


def mend(realm: SteppedControllers, data: bytes, path: str = STATE) -> None:
    realm.write(SetData(path, data, realm.find(path).stat.version))
    realm.run()


def changed(realm: SteppedControllers) -> None:
    """Somebody says that the ISR has changed, so the state is read."""
    realm.write(Create(IsrChange.prefix(), IsrChange((tp(0),)).encode(), sequential=True))
    realm.run()


def unnamed(ruler: ControllerNode) -> dict[int, tuple[TopicPartition, ...]]:
    active = ruler.active
    return dict(active.ports.requests.omitted)


def roles_of(realm: SteppedControllers, broker: int) -> set[str]:
    """Partitions of which a broker was told its role."""
    told = realm.hosts[broker].told(LeaderAndIsrRequest)
    return {str(info.topic_partition) for each in told for info in each.partitions}  # type: ignore[union-attr]


def test_a_broker_that_came_back_meanwhile_is_told_of_it() -> None:
    """Nothing else happens to the partition: its leader waits for a follower that knows of no leader."""
    realm, ruler = ruled({0: (1, 2)})
    data = broken(realm)
    changed(realm)
    realm.stop_broker(2)
    realm.hosts.pop(2)
    realm.start_broker(2)
    assert (ruler.unreadable, roles_of(realm, 2)) == ({STATE}, set())

    mend(realm, data)

    assert (ruler.unreadable, roles_of(realm, 2)) == (set(), {"t-0"})


def test_who_was_to_be_replaced_meanwhile_is_replaced() -> None:
    """The leader has died, and nobody could be elected."""
    realm, ruler = ruled({0: (1, 2)})
    data = broken(realm)
    realm.stop_broker(1)
    assert ruler.unreadable == {STATE}

    mend(realm, data)

    assert realm.state(tp(0)) == PartitionState(2, 1, (2,), 1)


def test_one_found_at_a_take_over_is_taken_up_when_it_is_mended() -> None:
    """And one that is mended badly is watched on; the status names its brokers until they are told of it."""
    realm = SteppedControllers()
    realm.make_topic("t", {0: (1, 2), 1: (2, 1)})
    realm.crash(realm.rule())
    data = broken(realm)
    ruler = realm.rule()
    mend(realm, b"[")
    assert (ruler.unreadable, roles_of(realm, 3)) == ({STATE}, set())
    assert unnamed(ruler) == {1: (tp(0),), 2: (tp(0),)}

    mend(realm, data)

    assert (ruler.unreadable, unnamed(ruler)) == (set(), {})
    assert realm.hosts[3].metadata[tp(0)] == 1


def test_a_move_goes_on_when_the_state_of_its_partition_is_mended() -> None:
    """It waited for a state; nobody else has a reason to look at it."""
    realm = SteppedControllers()
    realm.make_topic("t", {0: (1, 2)})
    realm.rule()
    data = broken(realm)
    changed(realm)
    request = Reassignment((Move(tp(0), (1, 3)),))
    realm.write(Create(Reassignment.path(), request.encode()))
    realm.run()

    mend(realm, data)

    assert realm.state(tp(0)).leader_epoch > 0


def test_one_that_another_duty_reads_first_goes_on_as_well() -> None:
    """Past bug: the duty that waits for the mending found nothing unreadable any more, and elected nobody."""
    realm = SteppedControllers()
    realm.make_topic("t", {0: (1, 2)})
    realm.crash(realm.rule())
    data = PartitionState.decode(STATE, broken(realm))
    realm.rule()
    realm.write(Create(IsrChange.prefix(), IsrChange((tp(0),)).encode(), sequential=True))
    mend(realm, replace(data, leader=-1, leader_epoch=1).encode())

    assert realm.state(tp(0)).leader == 1


def test_one_that_an_acl_hides_is_read_again_after_a_while_and_keeps_no_other() -> None:
    """No watch tells of another ACL, and none can be armed; one that is broken beside it has its own."""
    realm = SteppedControllers()
    realm.make_topic("t", {0: (1, 2), 1: (2, 1)})
    realm.crash(realm.rule())
    realm.server.set_acl(STATE, UNREADABLE)
    other = PartitionState.path(tp(1))
    data = broken(realm, other)
    ruler = realm.rule()
    assert ruler.unreadable == {STATE, other}
    assert unnamed(ruler) == {1: (tp(0), tp(1)), 2: (tp(0), tp(1))}

    mend(realm, data, other)
    assert ruler.unreadable == {STATE}
    realm.server.set_acl(STATE, *OPEN_ACL)
    realm.advance(topics.HIDDEN_MS)
    assert (ruler.unreadable, unnamed(ruler)) == (set(), {})


@pytest.mark.parametrize("is_known", [True, False])
def test_a_move_that_waited_for_its_topic_goes_on(is_known: bool) -> None:
    """The topic is mended under the controller that has read it before, or under one that never could."""
    realm, ruler = ruled({0: (1, 2)})
    path = Topic.path("t")
    data = broken(realm, path)
    realm.run()
    if not is_known:
        realm.crash(ruler)
        realm.rule()
    realm.write(Create(Reassignment.path(), Reassignment((Move(tp(0), (2,)),)).encode()))
    realm.run()
    assert realm.server.find(Reassignment.path()) is not None

    mend(realm, data, path)

    assert realm.server.find(Reassignment.path()) is None
    assert realm.state(tp(0)).isr == (2,)
