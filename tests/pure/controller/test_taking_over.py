"""A controller that takes over, or comes back: what it reads, takes over, elects and sends."""

from __future__ import annotations

import pytest

from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import Host, SteppedControllers
from tests.worlds.stepped_electors import EPOCH, GRACE_AND_SPREAD_MS
from zkgroup.controller.machine.events import Elected
from zkgroup.controller.machine.state_machines import PartitionPhase
from zkgroup.model.requests import Create, Delete, Request, SetData
from zkgroup.runtime.events import LogEvent
from zkgroup.testing.memory_zookeeper import Fault, ServerStep
from zkgroup.wire.control import LeaderAndIsrRequest, UpdateMetadataRequest
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration
from zkgroup.znodes.notifications import IsrChange


def world_of_two_topics() -> SteppedControllers:
    world = SteppedControllers()
    world.make_topic("t", {0: (1, 2), 1: (2, 3), 2: (3, 1)})
    world.make_topic("u", {0: (2, 1)})
    return world


def infos(request: LeaderAndIsrRequest | UpdateMetadataRequest) -> dict[str, int]:
    """Partition to leader."""
    return {str(info.topic_partition): info.leader for info in request.partitions}


def test_the_first_words_are_the_live_brokers_then_all_roles_then_everything() -> None:
    """controller.md 2.3 steps 9 to 11, and recipes 15: one LeaderAndIsr names all that a broker has."""
    world = world_of_two_topics()
    world.new_controller()

    first, roles, everything = world.hosts[1].requests
    assert isinstance(first, UpdateMetadataRequest)
    assert infos(first) == {}
    assert [broker.broker for broker in first.brokers] == [1, 2, 3]
    assert isinstance(roles, LeaderAndIsrRequest)
    assert infos(roles) == {"t-0": 1, "t-2": 3, "u-0": 2}
    assert isinstance(everything, UpdateMetadataRequest)
    assert infos(everything) == {"t-0": 1, "t-1": 2, "t-2": 3, "u-0": 2}


def test_first_states_are_made_with_their_parents() -> None:
    """The first live replica leads, all live ones are in sync, leader epoch 0."""
    world = SteppedControllers((2, 3))
    world.make_topic("t", {0: (1, 3, 2), 1: (1,)})
    controller = world.new_controller()

    assert world.state(tp(0)) == PartitionState(3, 0, (3, 2), 1)
    assert world.server.find(PartitionState.path(tp(1))) is None
    assert world.server.find(Topic.partitions_path("t")) is not None
    active = controller.active
    assert active.parts.events.blocked == {"leader of t-1": "no replica of 1 is live"}

    world.start_broker(1)
    assert world.state(tp(1)) == PartitionState(1, 0, (1,), 1)
    assert active.parts.events.blocked == {}


def test_the_list_of_partitions_exists_also_where_no_replica_lives() -> None:
    """controller.md 5.7: the tool of 0.8.2.2 lists it for every topic, and aborts where it is missing."""
    world = SteppedControllers((2,))
    world.make_topic("t", {0: (1,)})
    world.new_controller()

    assert world.server.find(Topic.partitions_path("t")) is not None


@pytest.mark.parametrize("first", range(0, 60, 15))
def test_a_topic_made_at_any_moment_of_loading_is_not_lost(first: int) -> None:
    """The watches are armed before anything is read (K11)."""
    for steps in range(first, first + 15):
        _is_not_lost_after(steps)


def _is_not_lost_after(steps: int) -> None:
    world = world_of_two_topics()
    delivered = 0

    def until() -> bool:
        nonlocal delivered
        delivered += 1
        return delivered > steps

    node = world.new_elector()
    world.run(until)
    world.make_topic("late", {0: (1, 2)})
    world.run()

    assert node.is_active, steps
    assert world.state(tp(0, "late")).leader == 1, steps
    assert world.hosts[2].metadata[tp(0, "late")] == 1, steps


def test_states_of_a_foreign_controller_are_taken_over() -> None:
    """recipes 13: this controller's epoch and leader epoch + 1, sent to the replicas; zkgroup's are left as
    they are."""
    world = world_of_two_topics()
    first = world.new_controller()
    world.crash(first)
    session = world.real(9)
    world.set_state(tp(0), leader=2, leader_epoch=1, controller_epoch=2)
    world.server.expire_session(session)
    world.server.remove(ControllerRegistration.path()) if world.server.find(
        ControllerRegistration.path()
    ) else None
    for host in world.hosts.values():
        host.requests.clear()
    second = world.new_controller()
    world.advance(3000)

    assert second.is_active
    assert world.state(tp(0)) == PartitionState(2, 2, (1, 2), 3)
    assert {world.state(tp(number)).controller_epoch for number in range(3)} == {3}
    (roles,) = [each for each in world.hosts[1].requests if isinstance(each, LeaderAndIsrRequest)]
    assert {info.controller_epoch for info in roles.partitions} == {3}


def test_a_kafka_predecessor_that_may_stay_active_is_named() -> None:
    """Its session lives, its `/controller` went by hand; its restart ends the warning (K1; recipes 13)."""
    world = world_of_two_topics()
    session = world.real(9)
    world.hosts[9] = Host(9)
    controller = world.new_controller()
    world.write(Delete(ControllerRegistration.path(), -1))
    world.advance(4000)
    active = controller.active
    assert set(active.parts.events.blocked) == {"broker 9"}
    assert active.parts.events.blocked["broker 9"].endswith("restart it")

    world.server.expire_session(session)
    world.run()
    assert active.parts.events.blocked == {}


def test_an_isr_that_a_kafka_controller_emptied_needs_an_operator() -> None:
    """One replica in all is elected, of several the status names how (recipes 15)."""
    world = SteppedControllers()
    world.make_topic("t", {0: (1, 2), 1: (3,)})
    world.crash(world.new_controller())
    for number in (0, 1):
        world.set_state(tp(number), leader=-1, isr=())
    controller = world.new_controller()

    assert world.state(tp(1)) == PartitionState(3, 1, (3,), 2)
    assert world.state(tp(0)).leader == -1
    active = controller.active
    assert active.parts.events.blocked["leader of t-0"].endswith(
        ": zkgroup elect unclean --topic t:0 --execute"
    )


def test_states_of_our_own_controllers_are_not_rewritten() -> None:
    """An epoch with a history record was zkgroup's, fenced while it was active (recipes 13)."""
    world = world_of_two_topics()
    world.crash(world.new_controller())
    before = {path: znode.stat.version for path, znode in world.server.tree().items() if "state" in path}
    world.new_controller()

    assert world.epoch()[0] == 2
    after = {path: znode.stat.version for path, znode in world.server.tree().items() if "state" in path}
    assert {path: after[path] for path in before if path.endswith("/state")} == {
        path: version for path, version in before.items() if path.endswith("/state")
    }


def test_partitions_whose_leader_is_gone_are_elected_while_taking_over() -> None:
    """controller.md 2.3 step 11: in one packet, however many there are."""
    world = SteppedControllers()
    world.make_topic("t", dict.fromkeys(range(200), (1, 2)))
    world.crash(world.new_controller())
    world.stop_broker(1, run=False)
    writes = len(world.server.log)
    world.new_controller()

    assert {world.state(tp(number)).leader for number in range(200)} == {2}
    states = [
        each for each in world.server.log[writes:] if any("/state" in str(change) for change in each.changes)
    ]
    assert len(states) == 1


def test_loading_asks_by_the_topic_and_not_by_the_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """K32, controller.md section 10: one watched read for each topic, a few bulk reads for all the rest."""
    world = SteppedControllers()
    for number in range(30):
        world.make_topic(f"t{number}", dict.fromkeys(range(40), (1, 2)))
    world.crash(world.new_controller())
    world.stop_broker(1, run=False)
    asked: list[Request] = []
    node = world.new_elector()
    submit = node.client.submit

    def counting(request: Request, **kwargs: object) -> None:
        asked.append(request)
        submit(request, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(node.client, "submit", counting)
    world.run()
    world.advance(GRACE_AND_SPREAD_MS)

    assert {world.state(tp(39, f"t{number}")).leader for number in range(30)} == {2}
    assert 30 < len(asked) <= 30 + 40


def test_an_illegal_transition_is_noted_and_stops_no_other() -> None:
    """Refused, logged, and the others of the batch are moved."""
    world = world_of_two_topics()
    controller = world.new_controller()
    active = controller.active
    active.context.partition_phases.begin(tp(0), PartitionPhase.NON_EXISTENT)
    moved = active.features.elections._set_partition_phase([tp(0), tp(1)], PartitionPhase.OFFLINE)

    assert moved == {tp(1): PartitionPhase.ONLINE}
    (note,) = [each for each in active.parts.core.take_effects() if isinstance(each, LogEvent)]
    assert note.kind == "transition.refused"
    assert note.fields == {"detail": "t-0 cannot become offline: it is non-existent"}


def test_how_long_loading_took_is_recorded() -> None:
    """`load_ms` of the epoch's record (recipes 18)."""
    world = world_of_two_topics()
    world.new_controller()

    record = world.record(1)
    assert record.load_ms == 0


def test_nothing_of_a_former_controller_survives() -> None:
    """The active controller is dropped with everything that it knew, and the next one
    begins anew."""
    world = world_of_two_topics()
    controller = world.new_controller()
    old = controller.active
    assert controller.machine.context is old.context
    world.bump()
    world.run()

    assert old.parts.requests.is_stopped
    assert controller.machine.active is None
    assert controller.machine.context is None
    world.advance(3000)
    new = controller.active
    assert new is not old
    assert new.parts.identity.epoch == 3
    assert new.context is not old.context


def test_notifications_left_over_are_deleted() -> None:
    """Those of the time without a controller, one that no one can read among them."""
    world = world_of_two_topics()
    world.crash(world.new_controller())
    world.write(Create(IsrChange.prefix(), IsrChange((tp(0),)).encode(), sequential=True))
    world.write(Create(IsrChange.prefix(), b"{", sequential=True))
    world.new_controller()

    assert world.below("/isr_change_notification") == {"/isr_change_notification"}


def test_what_happened_while_the_connection_was_away_is_seen() -> None:
    """It stays active; broker gone, topic new and ISR changed are found by reading
    again."""
    world = world_of_two_topics()
    controller = world.new_controller()
    world.server.suspend(controller.name)
    world.run()
    world.stop_broker(3, run=False)
    world.make_topic("new", {0: (1, 2)})
    world.set_state(tp(0), isr=(1,))
    world.server.resume(controller.name)
    world.run()

    assert controller.is_active
    assert len(controller.received(Elected)) == 1
    assert world.state(tp(2)).leader == 1
    assert world.state(tp(0, "new")).leader == 1
    received = [each for each in world.hosts[2].requests if isinstance(each, UpdateMetadataRequest)]
    assert {info.isr for each in received for info in each.partitions if info.topic_partition == tp(0)} >= {
        (1,)
    }


@pytest.mark.parametrize("fault", ["lost_reply", "lost_request", "late"])
def test_a_write_without_an_answer_is_sent_once_it_is_found(fault: Fault) -> None:
    """Read back; a leader gets every version that a controller has written (K9; recipes 16)."""
    world = world_of_two_topics()
    controller = world.new_controller()
    world.stop_broker(1, run=False)
    world.until_asked(controller, PartitionState.path(tp(0)))
    step = ServerStep("request", controller.name)
    world.deliver(step, fault)
    world.run()
    world.server.resume(controller.name)
    world.advance(3000)

    state, znode = world.state(tp(0)), world.find(PartitionState.path(tp(0)))
    assert controller.is_active
    assert (state.leader, state.isr) == (2, (2,))
    received = [each for each in world.hosts[2].requests if isinstance(each, LeaderAndIsrRequest)]
    last = [info for each in received for info in each.partitions if info.topic_partition == tp(0)][-1]
    assert (last.leader, last.leader_epoch, last.zk_version) == (2, state.leader_epoch, znode.stat.version)


@pytest.mark.parametrize(
    "path",
    [
        BrokerRegistration.path(3),
        "/brokers/ids/none",
        Topic.path("u"),
        PartitionState.path(tp(0, "u")),
        "/admin/reassign_partitions",
    ],
)
@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"version":1}', b"[1]", b'{"version":1,"partitions":7}', b"\xff"]
)
def test_a_malformed_znode_stops_nothing_and_is_named(path: str, data: bytes) -> None:
    """recipes 13 and controller.md 1.4: it is skipped, by path in the status, and the others are served."""
    world = world_of_two_topics()
    world.crash(world.new_controller())
    if world.server.find(path) is not None:
        world.write(Delete(path, -1)) if not world.below(path) - {path} else None
    if (znode := world.server.find(path)) is not None:
        world.write(SetData(path, data, znode.stat.version))
    else:
        for parent in ("/admin",):
            if world.server.find(parent) is None:
                world.server.put(parent)
        world.write(Create(path, data))
    controller = world.new_controller()
    world.make_topic("new", {0: (2, 1)})
    world.run()

    assert controller.is_active
    assert path in controller.unreadable
    assert world.state(tp(0)).leader == 1
    assert world.state(tp(0, "new")).leader == 2
    world.advance(6000)
    assert not [
        each for each in controller.effects if isinstance(each, LogEvent) and each.kind == "handler.failed"
    ]


def test_a_repaired_topic_is_loaded_with_its_states() -> None:
    """A repaired znode is no new topic: its states stand, and its replicas get them."""
    world = world_of_two_topics()
    world.crash(world.new_controller())
    good = world.find(Topic.path("u"))
    world.write(SetData(Topic.path("u"), b"{", good.stat.version))
    controller = world.new_controller()
    assert controller.unreadable == {Topic.path("u")}
    assert good.data is not None
    world.write(SetData(Topic.path("u"), good.data, good.stat.version + 1))
    world.run()

    assert controller.unreadable == set()
    assert world.state(tp(0, "u")) == PartitionState(2, 0, (2, 1), 1)
    assert world.hosts[3].metadata[tp(0, "u")] == 2


def test_an_unreadable_topic_that_went_while_there_was_no_connection_is_named_no_more() -> None:
    """Its watch is gone with the connection: what the next one lists is all that there is."""
    world = world_of_two_topics()
    world.crash(world.new_controller())
    world.write(Delete(PartitionState.path(tp(0, "u")), -1), Delete(Topic.partition_path(tp(0, "u")), -1))
    world.write(Delete(Topic.partitions_path("u"), -1))
    world.write(SetData(Topic.path("u"), b"{", -1))
    controller = world.new_controller()
    assert controller.unreadable == {Topic.path("u")}
    world.server.suspend(controller.name)
    world.run()
    world.write(Delete(Topic.path("u"), -1))
    world.server.resume(controller.name)
    world.run()

    assert controller.is_active
    assert controller.unreadable == set()


def test_an_unreadable_state_is_not_elected_and_its_brokers_are_named() -> None:
    """Missing in the first LeaderAndIsr, so a Kafka follower may fetch it again (recipes 15)."""
    world = world_of_two_topics()
    world.crash(world.new_controller())
    path = PartitionState.path(tp(0))
    world.write(SetData(path, b"{", world.find(path).stat.version))
    controller = world.new_controller()

    active = controller.active
    assert active.parts.requests.omitted_partitions == {1: (tp(0),), 2: (tp(0),)}
    assert world.find(path).data == b"{"


def test_a_controller_epoch_that_is_deleted_is_no_work_for_an_active_controller() -> None:
    """The fence is the election's: every change of it makes the controller resign."""
    world = world_of_two_topics()
    controller = world.new_controller()
    world.write(SetData(EPOCH, ControllerEpoch(7).encode(), world.epoch()[1]))
    world.run()

    assert controller.machine.active is None
