"""Leaders that are not in sync: on an operator's request, and where a configuration allows them."""

from __future__ import annotations

import pytest

from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import ControllerNode, SteppedControllers, loaded_cluster
from zkgroup.controller.machine.leadership.selectors import UNCLEAN_SETTING
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete
from zkgroup.znodes.admin_requests import (
    ELECTIONS_KEPT,
    UncleanElection,
    UncleanElectionDone,
    unclean_elections_path,
)
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.notifications import ConfigChange

REQUEST = UncleanElection.path()


def offline(**settings: object) -> tuple[SteppedControllers, ControllerNode]:
    """`t-0` has lost its only in-sync replica 1, `t-1` is led by 2, `t-2` has no living replica."""
    world, controller = loaded_cluster({0: (1, 2), 1: (2, 1), 2: (1,)}, auto_rebalance=False, **settings)
    world.set_state(tp(0), isr=(1,))
    world.stop_broker(1)
    assert [world.state(tp(number)).leader for number in (0, 1, 2)] == [-1, 2, -1]
    return world, controller


def ask(world: SteppedControllers, *partitions: TopicPartition) -> int:
    """As the tool does; returns the czxid of the request."""
    world.server.put(REQUEST, UncleanElection(partitions, 5, "ada@desk").encode())
    return world.find(REQUEST).stat.czxid


def verdicts(world: SteppedControllers, czxid: int) -> dict[str, tuple[str, int | None, str]]:
    """Partition to verdict, leader and reason, as the tool reads them."""
    path = UncleanElectionDone.path(czxid)
    done = UncleanElectionDone.decode(path, world.find(path).data)
    return {str(each.topic_partition): (each.verdict, each.leader, each.reason) for each in done.partitions}


def test_a_request_elects_a_live_replica_and_reports_each_result() -> None:
    """The partitions named and no others, in the order of the request; then it is gone (recipes 15)."""
    world, controller = offline()
    before = world.state(tp(1))
    czxid = ask(world, tp(0), tp(1), tp(2), tp(9), tp(0, "nobody"))
    world.run()

    assert world.server.find(REQUEST) is None
    assert verdicts(world, czxid) == {
        "t-0": ("unclean", 2, ""),
        "t-1": ("not_needed", 2, "it has a live leader"),
        "t-2": ("refused", None, "no replica of 1 is live"),
        "t-9": ("refused", None, "there is no such partition"),
        "nobody-0": ("refused", None, "there is no such partition"),
    }
    assert (world.state(tp(0)).leader, world.state(tp(0)).isr) == (2, (2,))
    assert world.state(tp(1)) == before
    assert world.hosts[2].metadata[tp(0)] == 2
    assert controller.notes("election.unclean") == [{"partition": "t-0", "leader": 2}]


def test_no_leader_is_elected_uncleanly_without_being_named() -> None:
    """Two partitions are offline, one is named (recipes 15)."""
    world = SteppedControllers()
    world.make_topic("t", {0: (1, 2), 1: (1, 2)})
    world.new_controller()
    for number in (0, 1):
        world.set_state(tp(number), isr=(1,))
    world.stop_broker(1)
    ask(world, tp(1))
    world.run()

    assert [world.state(tp(number)).leader for number in (0, 1)] == [-1, 2]


def test_one_in_sync_is_preferred_to_one_that_is_not() -> None:
    """The in-sync replica has come back by the time the request is carried out (recipes 15)."""
    world, controller = offline()
    world.crash(controller)
    czxid = ask(world, tp(0))
    world.start_broker(1, run=False)
    world.new_controller()

    assert world.state(tp(0)).leader == 1
    assert verdicts(world, czxid)["t-0"] == ("not_needed", 1, "it has a live leader")


def test_an_empty_isr_is_led_again_by_an_operators_word() -> None:
    """Left by a Kafka controller (K39); of several replicas none is known to have everything (recipes 15)."""
    world, controller = offline()
    world.set_state(tp(0), isr=(), leader=-1, leader_epoch=9)
    world.crash(controller)
    world.new_controller()
    assert world.state(tp(0)).isr == ()
    czxid = ask(world, tp(0))
    world.run()

    assert verdicts(world, czxid)["t-0"] == ("unclean", 2, "")
    assert (world.state(tp(0)).leader, world.state(tp(0)).isr) == (2, (2,))


def test_a_topic_that_is_being_deleted_is_left_alone() -> None:
    """It takes part in no election; the reason says so (recipes 15)."""
    world, _ = offline()
    world.mark("t")
    czxid = ask(world, tp(0))
    world.run()

    assert verdicts(world, czxid) == {"t-0": ("refused", None, "its topic is being deleted")}


@pytest.mark.parametrize("data", [b"", b"{}", b'{"version":"1","type":"preferred","partitions":[]}'])
def test_a_request_that_cannot_be_read_elects_no_leader(data: bytes) -> None:
    """It is removed, and its record says why (recipes 15)."""
    world, controller = offline()
    world.server.put(REQUEST, data)
    czxid = world.find(REQUEST).stat.czxid
    world.run()

    path = UncleanElectionDone.path(czxid)
    done = UncleanElectionDone.decode(path, world.find(path).data)
    assert (done.partitions, done.reason) == ((), "the request cannot be read")
    assert world.server.find(REQUEST) is None
    assert world.state(tp(0)).leader == -1
    active = controller.active
    assert REQUEST not in active.context.unreadable


def test_a_request_is_finished_by_the_next_controller() -> None:
    """Crashed after each write; the record is there once, and the leader is elected once (recipes 15)."""
    writes = 1
    while True:
        world, controller = offline()
        epoch = world.state(tp(0)).leader_epoch
        czxid = ask(world, tp(0))
        if not world.run_until_written(controller, writes):
            break
        world.crash(controller)
        world.new_controller()
        assert verdicts(world, czxid)["t-0"][:2] in {("unclean", 2), ("not_needed", 2)}
        assert world.state(tp(0)).leader_epoch == epoch + 1
        assert world.server.find(REQUEST) is None
        writes += 1

    assert writes == 3


def test_a_request_that_is_withdrawn_meanwhile_leaves_no_record() -> None:
    """The transaction that records also removes, with the version that was read."""
    world, controller = offline()
    czxid = ask(world, tp(1))
    world.until_asked(controller, REQUEST)
    world.write(Delete(REQUEST, 0))
    world.run()
    world.advance(2_000)

    assert world.server.find(UncleanElectionDone.path(czxid)) is None


def test_old_records_go() -> None:
    """So many stay; foreign names are left alone."""
    world, _ = offline()
    world.server.put(unclean_elections_path())
    for number in range(1, ELECTIONS_KEPT + 1):
        world.write(Create(UncleanElectionDone.path(number), b""))
    world.write(Create(f"{unclean_elections_path()}/mine", b""))
    czxid = ask(world, tp(0))
    world.run()

    left = world.below(unclean_elections_path())
    assert UncleanElectionDone.path(czxid) in left
    assert UncleanElectionDone.path(1) not in left
    assert {UncleanElectionDone.path(2), f"{unclean_elections_path()}/mine"} <= left


@pytest.mark.parametrize(("setting", "word", "leader"), [(False, "true", 2), (True, "false", -1)])
def test_a_topic_overrides_the_setting_both_ways(setting: bool, word: str, leader: int) -> None:
    """The topic's own word decides when its only in-sync replica dies."""
    world = SteppedControllers(unclean_election=setting)
    world.make_topic("t", {0: (1, 2)}, {UNCLEAN_SETTING: word})
    world.new_controller()
    world.set_state(tp(0), isr=(1,))
    world.stop_broker(1)

    assert world.state(tp(0)).leader == leader


def test_allowing_it_elects_for_partitions_without_a_leader() -> None:
    """Controller.md 5.10: from 2.1 on the notification alone is enough; before it nothing happens."""
    world, _ = offline()
    world.make_topic("v", {0: (1, 2)})
    world.run()
    world.configure("t", {"retention.ms": "5"})
    world.run()
    assert world.state(tp(0)).leader == -1
    world.configure("t", {UNCLEAN_SETTING: "true"})
    world.run()

    assert (world.state(tp(0)).leader, world.state(tp(0)).isr) == (2, (2,))
    assert world.state(tp(2)).leader == -1


@pytest.mark.parametrize("payload", [b"", b"not JSON", b'{"version":7}', b'"t'])
def test_a_malformed_notification_does_not_hide_a_later_one(payload: bytes) -> None:
    """It stays the last one that could not be read, and the next is obeyed (K35)."""
    world, _ = offline()
    world.write(Create(ConfigChange.prefix(), payload, sequential=True))
    world.run()
    assert world.state(tp(0)).leader == -1
    world.configure("t", {UNCLEAN_SETTING: "true"})
    world.run()

    assert world.state(tp(0)).leader == 2


def test_a_configuration_that_cannot_be_read_allows_nothing() -> None:
    """The setting allows it, but the topic may have forbidden it: no one knows, so nothing is lost."""
    world = SteppedControllers(unclean_election=True)
    world.make_topic("t", {0: (1, 2)})
    world.server.put(TopicConfig.path("t"), b"not JSON")
    world.new_controller()
    world.set_state(tp(0), isr=(1,))
    world.stop_broker(1)

    assert world.state(tp(0)).leader == -1
