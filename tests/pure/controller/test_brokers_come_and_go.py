"""Brokers that start, stop, bounce and fail to serve, under an active controller."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import (
    CONTROLLER_ID,
    ControllerNode,
    Host,
    SteppedControllers,
    loaded_cluster,
    two_topic_cluster,
)
from zkgroup.controller.machine.events import BrokerAnswered, CloseChannel, OpenChannel
from zkgroup.model.requests import Create, SetData
from zkgroup.testing.memory_zookeeper import ServerStep
from zkgroup.wire.control import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionError,
    UpdateMetadataRequest,
)
from zkgroup.wire.messages import ErrorCode
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.notifications import IsrChange


def quiet(world: SteppedControllers) -> None:
    """Forgets what the hosts were sent so far."""
    for host in world.hosts.values():
        host.requests.clear()


def heard(world: SteppedControllers, broker: int) -> list[set[int]]:
    """Live brokers in each UpdateMetadata that it got."""
    return [
        {each.broker for each in request.brokers}
        for request in world.hosts[broker].requests
        if isinstance(request, UpdateMetadataRequest)
    ]


def roles(world: SteppedControllers, broker: int) -> dict[str, tuple[int, int, tuple[int, ...]]]:
    """Partition to leader, leader epoch and ISR, as the last LeaderAndIsr had them."""
    return {
        str(info.topic_partition): (info.leader, info.leader_epoch, info.isr)
        for request in world.hosts[broker].requests
        if isinstance(request, LeaderAndIsrRequest)
        for info in request.partitions
    }


def _held(world: SteppedControllers, path: str, data: bytes) -> None:
    """A znode of a session that lasts."""
    client = world.server.client("holder")
    world.server.deliver(ServerStep("connect", client.name))
    assert client.session is not None
    world.write(Create(path, data, ephemeral=True), session_id=client.session.session_id)


def test_a_registration_that_no_session_holds_is_of_no_broker() -> None:
    """It is passed over like an unreadable one, and the status names it; others lead (recipes 13)."""
    world, controller = loaded_cluster({0: (1, 2)})
    data = world.find(BrokerRegistration.path(1)).data
    world.stop_broker(1)
    world.server.put(BrokerRegistration.path(1), data)
    world.run()

    assert set(controller.active.context.unreadable) == {BrokerRegistration.path(1)}
    assert heard(world, 2)[-1] == {2, 3}
    assert world.state(tp(0)).leader == 2


def test_others_lead_what_a_lost_broker_led_and_it_leaves_every_isr() -> None:
    """controller.md 5.2: elected first, so that the ISR removal finds only what it followed."""
    world, controller = loaded_cluster({0: (1, 2, 3), 1: (2, 1), 2: (2, 3)})
    quiet(world)
    world.stop_broker(1)

    assert world.state(tp(0)) == PartitionState(2, 1, (2, 3), 1)
    assert world.state(tp(1)) == PartitionState(2, 1, (2,), 1)
    assert world.state(tp(2)) == PartitionState(2, 0, (2, 3), 1)
    assert roles(world, 3) == {"t-0": (2, 1, (2, 3))}
    assert roles(world, 2) == {"t-0": (2, 1, (2, 3)), "t-1": (2, 1, (2,))}
    assert [each.broker for each in controller.effects if isinstance(each, CloseChannel)] == [1]


def test_a_partition_that_no_broker_can_lead_keeps_its_last_member() -> None:
    """controller.md 3.4: leader -1, who alone has all stays in the ISR, to be elected again."""
    world, controller = loaded_cluster({0: (1,)})
    world.stop_broker(1)

    assert world.state(tp(0)) == PartitionState(-1, 1, (1,), 1)
    assert "leader of t-0" in controller.active.parts.events.blocked
    world.start_broker(1)
    assert world.state(tp(0)) == PartitionState(1, 2, (1,), 1)
    assert controller.active.parts.events.blocked == {}
    assert roles(world, 1)["t-0"] == (1, 2, (1,))


def test_brokers_that_lead_nothing_are_announced_to_all() -> None:
    """Every broker's live list changes, the new broker gets every partition (K27)."""
    world = SteppedControllers((1, 2))
    world.make_topic("t", {0: (1, 2)})
    world.new_controller()
    quiet(world)
    world.start_broker(3)

    assert heard(world, 1)[-1] == heard(world, 2)[-1] == heard(world, 3)[-1] == {1, 2, 3}
    assert world.hosts[3].metadata == {tp(0): 1}
    quiet(world)
    world.stop_broker(3)
    assert heard(world, 1) == heard(world, 2) == [{1, 2}]


def test_a_bounce_within_one_watch_is_seen_by_the_czxid() -> None:
    """It is sent its roles, in a new leader epoch; what it led alone gets one too
    (K7)."""
    world, controller = loaded_cluster({0: (1, 2), 1: (1,), 2: (2, 1)})
    quiet(world)
    world.stop_broker(1, run=False)
    world.start_broker(1)

    assert world.state(tp(0)) == PartitionState(2, 1, (2,), 1)
    assert world.state(tp(1)) == PartitionState(1, 2, (1,), 1)
    assert world.state(tp(2)) == PartitionState(2, 1, (2,), 1)
    assert roles(world, 1) == {"t-0": (2, 1, (2,)), "t-1": (1, 2, (1,)), "t-2": (2, 1, (2,))}
    opened = [each for each in controller.effects if isinstance(each, OpenChannel) and each.broker == 1]
    assert len({each.incarnation for each in opened}) == 2


def test_a_registration_that_cannot_be_read_is_passed_over() -> None:
    """It made Kafka controllers elect each other 341 times in 4 s; here it is reported (recipes 13)."""
    world, controller = loaded_cluster({0: (1, 2)})
    path = BrokerRegistration.path(4)
    world.write(Create(path, b'{"version":'))
    world.make_topic("u", {0: (2, 4)})
    world.run()

    assert set(controller.active.context.unreadable) == {path}
    assert world.state(tp(0, "u")) == PartitionState(2, 0, (2,), 1)
    world.delete(path)
    world.run()
    assert not controller.active.context.unreadable


@pytest.mark.parametrize(
    "address",
    [
        rb'"host":"\ud800","port":9',
        b'"host":"' + b"h" * 40_000 + b'","port":9',
        b'"host":"","port":9',
        b'"host":"h","port":-5',
        b'"host":"h","port":2147483647',
    ],
    ids=["half a character", "too long", "empty", "negative", "too high"],
)
def test_a_broker_at_an_impossible_address_is_passed_over(address: bytes) -> None:
    """It can be decoded, and it could not be sent to other brokers: the others are served, its path is
    named."""
    world, controller = loaded_cluster({0: (1, 4)})
    path = BrokerRegistration.path(4)
    _held(world, path, b'{"version":1,"timestamp":"1",' + address + b"}")
    world.run()

    assert controller.is_active
    assert set(controller.active.context.unreadable) == {path}
    assert heard(world, 2)[-1] == {1, 2, 3}


def test_a_controller_that_hosts_nothing_is_sent_nothing() -> None:
    """Registered while it is active, in no list of brokers (recipes 14)."""
    world = SteppedControllers((1, 2))
    extensions = {"zkgroup": {"role": "controller"}}
    data = BrokerRegistration("h", 9050, 1, 0, extensions=extensions).encode()
    _held(world, BrokerRegistration.path(50), data)
    world.make_topic("t", {0: (1, 2)})
    controller = world.new_controller()

    assert heard(world, 1)[-1] == {1, 2}
    assert {each.broker for each in controller.effects if isinstance(each, OpenChannel)} == {1, 2}


def answers_56(world: SteppedControllers, controller: ControllerNode, broker: int) -> None:
    """The broker answers the next LeaderAndIsr about t-0 with a storage error."""
    active = controller.active
    live = active.context.brokers[broker]
    batch = active.parts.requests.batch()
    batch.leader_and_isr([broker], tp(0))
    world.hosts[broker].silent = True
    active.parts.requests.send(batch)
    active.flush()
    for effect in active.parts.core.take_effects():
        controller._perform(effect)  # type: ignore[arg-type]
    failed = LeaderAndIsrResponse(0, (PartitionError("t", 0, ErrorCode.KAFKA_STORAGE_ERROR),))
    controller.loop.post(BrokerAnswered(broker, live.epoch, failed))
    world.run()
    world.hosts[broker].silent = False


def changes_isr(world: SteppedControllers, isr: tuple[int, ...]) -> None:
    """The leader of t-0 writes another ISR, and a notification."""
    world.set_state(tp(0), isr=isr)
    world.write(Create(IsrChange.prefix(), IsrChange((tp(0),)).encode(), sequential=True))
    world.run()


def test_a_replica_that_cannot_be_served_leads_no_more() -> None:
    """Error 56 in the answer to LeaderAndIsr: offline to every election until the broker restarts."""
    world, controller = loaded_cluster({0: (1, 2)})
    world.set_state(tp(0), isr=(1, 2))
    world.run()
    active = controller.active
    answers_56(world, controller, 1)

    assert world.state(tp(0)).leader == 2
    assert active.context.offline_replicas == {tp(0): {1}}
    world.stop_broker(1, run=False)
    world.start_broker(1)
    assert active.context.offline_replicas == {}


def test_a_follower_that_could_not_serve_is_elected_once_its_leader_lets_it_in_again() -> None:
    """It left the ISR as it did not fetch; its files were opened again, and it has all records."""
    world, controller = loaded_cluster({0: (1, 2)})
    changes_isr(world, (1, 2))
    answers_56(world, controller, 2)
    changes_isr(world, (1,))
    assert controller.active.context.offline_replicas == {tp(0): {2}}
    changes_isr(world, (1, 2))
    assert controller.active.context.offline_replicas == {}
    world.stop_broker(1)

    assert world.state(tp(0)).leader == 2


def test_a_follower_that_could_not_serve_leaves_the_isr() -> None:
    """As in Kafka since 1.0. It gets the new leader epoch too, in which it fetches once it can be opened.

    Past bug: it stayed in the ISR until its leader removed it. If its files were opened before that, nothing
    reported it to the controller, which did not elect it until its broker restarted.
    """
    world, controller = loaded_cluster({0: (1, 2)})
    changes_isr(world, (1, 2))
    before = world.state(tp(0))
    answers_56(world, controller, 2)

    assert world.state(tp(0)) == PartitionState(1, before.leader_epoch + 1, (1,), before.controller_epoch)
    controller.answer_all()
    world.run()
    for host in (world.hosts[1], world.hosts[2]):
        sent = host.received(LeaderAndIsrRequest)[-1]
        assert isinstance(sent, LeaderAndIsrRequest)
        assert [(info.leader, info.isr) for info in sent.partitions] == [(1, (1,))]
    world.stop_broker(1)
    assert world.state(tp(0)).leader == -1
    assert "leader of t-0" in controller.active.parts.events.blocked


def test_an_answer_that_repeats_the_failure_changes_nothing_more() -> None:
    """The broker gets the state in which it is not in sync, and answers 56 again."""
    world, controller = loaded_cluster({0: (1, 2)})
    changes_isr(world, (1, 2))
    answers_56(world, controller, 2)
    before = world.state(tp(0))
    answers_56(world, controller, 2)

    assert world.state(tp(0)) == before
    assert controller.active.context.offline_replicas == {tp(0): {2}}


def test_a_leader_that_could_not_serve_gets_the_state_of_the_next_one() -> None:
    """It follows, and may fetch all that it has lost."""
    world, controller = loaded_cluster({0: (1, 2)})
    changes_isr(world, (1, 2))
    answers_56(world, controller, 1)
    controller.answer_all()
    world.run()

    sent = world.hosts[1].received(LeaderAndIsrRequest)[-1]
    assert isinstance(sent, LeaderAndIsrRequest)
    assert [(info.leader, info.isr) for info in sent.partitions] == [(2, (2,))]


def test_a_follower_that_left_the_isr_may_replace_a_leader_that_never_led_alone() -> None:
    """Neither can serve: what was acknowledged, was acknowledged while both were in sync."""
    world, controller = loaded_cluster({0: (1, 2)})
    changes_isr(world, (1, 2))
    world.hosts[1].silent = True
    answers_56(world, controller, 2)
    assert world.state(tp(0)).isr == (1,)
    while not isinstance(controller.flying[-1].request, LeaderAndIsrRequest):
        controller.answer_all()
        world.run()
    assert controller.flying[-1].broker == 1
    cannot_serve(world, controller, 1)
    assert "leader of t-0" in controller.active.parts.events.blocked
    world.stop_broker(2, run=False)
    world.start_broker(2)

    assert world.state(tp(0)).leader == 2


def test_a_former_isr_member_may_replace_a_leader_that_cannot_serve() -> None:
    """The last of the ISR is elected and has no records: no one has written since, so the other has all."""
    world = SteppedControllers((1, 2))
    world.make_topic("t", {0: (1, 2)})
    controller = world.new_controller()
    world.hosts[2].silent = True
    world.stop_broker(1)
    assert world.state(tp(0)) == PartitionState(2, 1, (2,), 1)
    active = controller.active
    failed = LeaderAndIsrResponse(0, (PartitionError("t", 0, ErrorCode.KAFKA_STORAGE_ERROR),))
    (flying,) = controller.flying
    assert isinstance(flying.request, LeaderAndIsrRequest)
    controller.flying.clear()
    controller.loop.post(BrokerAnswered(2, flying.incarnation, failed))
    world.run()
    world.start_broker(1)

    assert world.state(tp(0)) == PartitionState(1, 2, (1,), 1)
    assert active.parts.events.blocked == {}


def cannot_serve(world: SteppedControllers, controller: ControllerNode, broker: int) -> None:
    """The broker, silent until now, answers the LeaderAndIsr about t-0 that it has no records."""
    failed = LeaderAndIsrResponse(0, (PartitionError("t", 0, ErrorCode.KAFKA_STORAGE_ERROR),))
    world.hosts[broker].silent = False
    (flying,) = controller.flying
    assert isinstance(flying.request, LeaderAndIsrRequest)
    controller.flying.clear()
    controller.loop.post(BrokerAnswered(broker, flying.incarnation, failed))
    world.run()


@pytest.mark.parametrize("by_hand", [False, True])
def test_another_topic_of_the_name_has_nothing_of_the_former_one(by_hand: bool) -> None:
    """Who was in sync in the former topic, before a leader that could not serve, may not lead the new one."""
    world = SteppedControllers((1, 2))
    world.make_topic("t", {0: (1, 2)})
    controller = world.new_controller()
    world.hosts[2].silent = True
    world.stop_broker(1)
    cannot_serve(world, controller, 2)
    assert "leader of t-0" in controller.active.parts.events.blocked
    if by_hand:
        for path in (*sorted(world.below(Topic.path("t")), reverse=True), TopicConfig.path("t")):
            world.delete(path)
        world.run()
    else:
        world.mark("t", 1)
    assert world.below(Topic.path("t")) == set()
    assert "leader of t-0" not in controller.active.parts.events.blocked

    world.start_broker(1)
    world.hosts[2].silent = True
    world.make_topic("t", {0: (2, 1)})
    world.run()
    world.set_state(tp(0), isr=(2,))
    cannot_serve(world, controller, 2)
    assert world.state(tp(0)) == PartitionState(2, 0, (2,), 1)
    assert "leader of t-0" in controller.active.parts.events.blocked


@pytest.mark.parametrize("event", ["connection", "restart"])
def test_a_leader_that_may_have_led_unheard_is_the_only_one_in_sync(event: str) -> None:
    """Its first answer was lost with the connection, or with the process: records may be acknowledged."""
    world = SteppedControllers((1, 2))
    world.make_topic("t", {0: (1, 2)})
    controller = world.new_controller()
    world.hosts[2].silent = True
    world.stop_broker(1)
    if event == "connection":
        controller.lose_connection(2)
    else:
        world.stop_broker(2, run=False)
        world.start_broker(2, run=False)
    world.run()
    failed = LeaderAndIsrResponse(0, (PartitionError("t", 0, ErrorCode.KAFKA_STORAGE_ERROR),))
    while not isinstance(controller.flying[-1].request, LeaderAndIsrRequest):
        controller.answer_all()
        world.run()
    controller.loop.post(BrokerAnswered(2, controller.flying.pop().incarnation, failed))
    world.run()
    world.start_broker(1)

    assert world.state(tp(0)).isr == (2,)
    assert 1 not in (world.state(tp(0)).leader, *world.state(tp(0)).isr)


def test_a_leader_that_serves_is_the_only_one_in_sync() -> None:
    """Who was in sync before has fallen behind from the first record that it has taken."""
    world = SteppedControllers((1, 2))
    world.make_topic("t", {0: (1, 2)})
    controller = world.new_controller()
    world.stop_broker(1)
    world.stop_broker(2)
    world.start_broker(1)

    assert not controller.active.features.elections._unconfirmed
    assert world.state(tp(0)) == PartitionState(-1, 2, (2,), 1)


def test_the_state_of_a_later_controller_is_left_alone() -> None:
    """A higher controller epoch than zkgroup's is not overwritten."""
    world, controller = loaded_cluster({0: (1, 2), 1: (1, 2)})
    world.set_state(tp(0), controller_epoch=99)
    world.stop_broker(1)

    assert world.state(tp(0)) == PartitionState(1, 0, (1, 2), 99)
    assert world.state(tp(1)).leader == 2
    assert "in epoch 99" in controller.active.parts.events.blocked["leader of t-0"]


def test_only_the_conflicting_partition_is_decided_again() -> None:
    """An ISR that its leader has changed meanwhile; the others are written once (K25)."""
    world = SteppedControllers()
    world.make_topic("t", dict.fromkeys(range(20), (1, 2, 3)))
    world.new_controller()
    world.set_state(tp(7), isr=(1, 3))
    world.stop_broker(1)

    assert world.state(tp(7)) == PartitionState(3, 1, (3,), 1)
    assert {world.state(tp(number)).leader_epoch for number in range(20)} == {1}
    assert world.find(PartitionState.path(tp(7))).stat.version == 2
    assert world.find(PartitionState.path(tp(6))).stat.version == 1


def test_an_unclean_election_needs_the_topics_word_or_the_setting() -> None:
    """Read from the topic's configuration when it makes a difference."""
    world = SteppedControllers()
    world.make_topic("t", {0: (1, 2)})
    world.make_topic("u", {0: (1, 2)}, {"unclean.leader.election.enable": "true"})
    controller = world.new_controller()
    for name in ("t", "u"):
        world.set_state(tp(0, name), isr=(1,))
    world.stop_broker(1)

    assert world.state(tp(0, "t")) == PartitionState(-1, 1, (1,), 1)
    assert world.state(tp(0, "u")) == PartitionState(2, 1, (2,), 1)
    assert len(controller.notes("election.unclean")) == 1


def test_a_configuration_that_cannot_be_read_allows_nothing() -> None:
    """No unclean election by mistake, and the path is named."""
    world, controller = loaded_cluster({0: (1, 2)}, unclean_election=True)
    world.set_state(tp(0), isr=(1,))
    world.write(SetData("/config/topics/t", b"{", 0))
    world.stop_broker(1)

    assert world.state(tp(0)).leader == -1
    assert set(controller.active.context.unreadable) == {"/config/topics/t"}


def test_the_controller_is_no_broker_of_this_cluster() -> None:
    """The rig's controllers stand beside the brokers: what it sends goes through their channels alone."""
    world = SteppedControllers()
    assert CONTROLLER_ID not in world.hosts


def test_a_state_sent_to_a_newcomer_alone_is_still_to_be_sent() -> None:
    """The answer to the write was lost, and a broker started: its LeaderAndIsr is not that of the others."""
    _, controller = two_topic_cluster()
    active = controller.active
    active.parts.requests.unsent.add(tp(0))
    one, all_ = active.parts.requests.batch(), active.parts.requests.batch()
    one.leader_and_isr([2], tp(0))
    active.parts.requests.send(one)
    assert tp(0) in active.parts.requests.unsent

    all_.leader_and_isr([1, 2], tp(0))
    active.parts.requests.send(all_)
    assert tp(0) not in active.parts.requests.unsent


def test_who_sets_an_authorizer_without_super_users_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers that may not take orders keep the states in ZooKeeper as they are: nothing else shows it."""
    take = Host.take
    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    monkeypatch.setattr(Host, "take", lambda host, request: replace(take(host, request), error=error))
    _, controller = two_topic_cluster()

    told = {str(note["error"]) for note in controller.notes("broker.refused")}
    assert all("31 (cluster authorization failed): " in each and "super.users" in each for each in told)
    assert told
