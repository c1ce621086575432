"""Topics that are deleted while a controller is active, with brokers that answer, refuse, die and come
back."""

from __future__ import annotations

from tests.worlds.acls import READ_ONLY
from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import (
    TWO,
    ControllerNode,
    SteppedControllers,
    is_gone,
    left_of,
    two_topic_cluster,
)
from zkgroup.controller.machine.deletion.stray_replicas import ABANDONED_AGAIN_MS
from zkgroup.model.requests import Create, SetData
from zkgroup.wire.control import (
    LEADER_DURING_DELETE,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from zkgroup.wire.messages import ErrorCode
from zkgroup.znodes.admin_requests import Move, Reassignment, TopicDeletion
from zkgroup.znodes.brokers import NO_LEADER, PartitionState, Topic
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.controller import ControllerEpoch
from zkgroup.znodes.notifications import IsrChange
from zkgroup.zookeeper.settings import OPEN_ACL


def deletions(world: SteppedControllers, broker: int) -> list[tuple[bool, tuple[object, ...]]]:
    """The StopReplica requests to a broker: whether to delete, and what."""
    received = world.hosts[broker].received(StopReplicaRequest)
    return [(each.delete, each.partitions) for each in received if isinstance(each, StopReplicaRequest)]


def test_a_topic_goes_with_logs_configuration_and_marker() -> None:
    """Hidden, stopped, deleted, and then its znodes; nothing else is touched."""
    world, controller = two_topic_cluster()
    kept = left_of(world, "u"), world.state(tp(0, "u"))
    world.mark("t")

    assert is_gone(world)
    assert deletions(world, 2) == [(False, (tp(0), tp(1))), (True, (tp(0), tp(1)))]
    assert (left_of(world, "u"), world.state(tp(0, "u"))) == kept
    assert all(tp(0, "u") in host.logs and tp(0, "u") in host.metadata for host in world.hosts.values())
    assert not controller.notes("transition.refused")


def test_brokers_hide_the_topic_before_they_stop_it() -> None:
    """UpdateMetadata with leader -2 to all comes first, and no LeaderAndIsr any more."""
    world, _ = two_topic_cluster()
    before = {id_: len(host.requests) for id_, host in world.hosts.items()}
    world.mark("t")

    for id_, host in world.hosts.items():
        received = host.requests[before[id_] :]
        first = received[0]
        assert isinstance(first, UpdateMetadataRequest)
        leaders = {info.topic_partition: info.leader for info in first.partitions}
        assert leaders == {tp(0): LEADER_DURING_DELETE, tp(1): LEADER_DURING_DELETE}
        assert {type(each) for each in received} == {UpdateMetadataRequest, StopReplicaRequest}


def test_a_topic_that_is_made_again_keeps_what_it_is_given() -> None:
    """Made at the first moment at which its name is free (K21)."""
    world, _ = two_topic_cluster()
    world.mark("t", run=False)
    world.run(lambda: world.server.find(Topic.path("t")) is None)
    assert left_of(world, "t") == set()
    world.make_topic("t", {0: (3, 1)}, {"retention.ms": "7"})
    world.run()

    config = TopicConfig.decode("/x", world.find(TopicConfig.path("t")).data)
    assert config.overrides == {"retention.ms": "7"}
    assert world.state(tp(0)).leader == 3
    assert tp(0) in world.hosts[3].logs


def test_a_dead_broker_is_waited_for_and_the_others_delete_meanwhile() -> None:
    """Metadata hides the topic at once; it goes when the broker is back (K20)."""
    world, controller = two_topic_cluster()
    world.stop_broker(3)
    world.mark("t")

    assert {TopicDeletion.path("t"), Topic.path("t"), TopicConfig.path("t")} <= left_of(world, "t")
    assert [tp(number) in world.hosts[2].logs for number in (0, 1)] == [False, False]
    assert all(each.topic != "t" for id_ in (1, 2) for each in world.hosts[id_].metadata)
    received = controller.waiting.pop("deletion of t")
    assert received.startswith(
        "waits for broker 3 to be back; if lost: zkgroup topic delete t --without-broker 3"
    )
    world.start_broker(3)
    assert is_gone(world)
    assert controller.waiting == {}


def test_a_broker_that_dies_before_it_answers_is_asked_again() -> None:
    """Else its replicas would be deleted for ever (controller.md 5.6); the status names it (K31; K20)."""
    world, controller = two_topic_cluster()
    world.hosts[2].silent = True
    world.mark("t")
    assert left_of(world, "t")
    assert controller.waiting == {"deletion of t": "waits for the answer of broker 2"}
    world.stop_broker(2)
    assert left_of(world, "t")
    world.hosts[2].silent = False
    world.start_broker(2)

    assert is_gone(world)
    assert len(deletions(world, 2)) == 2


def test_a_broker_that_bounces_before_it_answers_is_asked_again() -> None:
    """Gone and back between two reads; what it was sent went with its former incarnation (K7)."""
    world, _ = two_topic_cluster()
    world.hosts[2].silent = True
    world.mark("t")
    world.stop_broker(2, run=False)
    world.hosts[2].silent = False
    world.start_broker(2)

    assert is_gone(world)


def test_a_deletion_that_was_sent_twice_is_over_when_the_epoch_is_raised() -> None:
    """The first copy could delete the topic that is made next; a broker that knows more refuses it (K28)."""
    world, controller = two_topic_cluster()
    epoch = world.epoch()[0]
    world.mark("t", run=False)
    world.hosts[2].silent = True
    world.run()
    while (
        not isinstance(controller.flying[0].request, StopReplicaRequest)
        or not controller.flying[0].request.delete
    ):
        answer_first(controller)
        world.run()
    late = controller.flying[0].request
    world.hosts[2].silent = False
    controller.lose_connection(2)
    world.run()

    assert is_gone(world)
    assert world.epoch()[0] == epoch + 1
    assert world.hosts[2].take(late).error == ErrorCode.STALE_CONTROLLER_EPOCH  # type: ignore[attr-defined]


def answer_first(controller: ControllerNode) -> None:
    """The oldest request that is kept is answered."""
    controller.answer(controller.flying.pop(0))


def test_a_refusal_is_not_repeated_until_something_has_changed() -> None:
    """Controller.md 5.5: a broken folder is asked again when a broker starts, not in a loop."""
    world, controller = two_topic_cluster()
    world.hosts[2].refusals[tp(1)] = ErrorCode.KAFKA_STORAGE_ERROR
    world.mark("t")
    world.advance(10_000)

    assert len(deletions(world, 2)) == 2
    assert "t-1 on broker 2 could not be deleted" in controller.waiting["deletion of t"]
    world.hosts[2].refusals.clear()
    world.stop_broker(2)
    world.start_broker(2)
    assert is_gone(world)


def test_deletion_disabled_removes_the_marker_and_nothing_else() -> None:
    """The topic stays visible, after a failover too (K19)."""
    world, controller = two_topic_cluster(delete_topics=False)
    for _ in range(2):
        before = left_of(world, "t")
        world.mark("t")
        assert left_of(world, "t") == before
        assert all(tp(0) in host.metadata for host in world.hosts.values())
        world.mark("t", run=False)
        world.crash(controller)
        controller = world.new_controller()
        assert left_of(world, "t") == before
        assert all(host.metadata[tp(0)] == 1 for host in world.hosts.values())


def test_a_marker_of_an_unknown_topic_disappears() -> None:
    """At once, and at a failover; names that no topic can have as well."""
    world, controller = two_topic_cluster()
    world.mark("nobody", run=False)
    world.mark("no body?")

    assert left_of(world, "nobody") == left_of(world, "no body?") == set()
    world.crash(controller)
    world.mark("nobody", run=False)
    world.new_controller()
    assert left_of(world, "nobody") == set()


def test_a_marker_of_a_topic_made_a_moment_ago_deletes_it() -> None:
    """It is not taken for unknown, in whatever order the news comes."""
    world, _ = two_topic_cluster()
    world.make_topic("v", {0: (1,)})
    world.mark("v")
    world.advance(2_000)

    assert is_gone(world, "v")


def test_a_marker_older_than_its_topic_was_meant_for_another_one() -> None:
    """A Kafka controller has left it; the topic that clients have made since is not deleted (K21)."""
    world, controller = two_topic_cluster()
    world.crash(controller)
    world.mark("v", run=False)
    world.make_topic("v", {0: (1, 2)})
    world.new_controller()

    assert left_of(world, "v").isdisjoint({TopicDeletion.path("v")})
    assert world.state(tp(0, "v")).leader == 1
    assert world.hosts[3].metadata[tp(0, "v")] == 1


def test_a_topic_that_others_have_replaced_is_not_written_over() -> None:
    """Deleted and made again by hand before it was read; its lists are the new ones (K21)."""
    world, _ = two_topic_cluster()
    world.server.remove(Topic.path("t"))
    world.write(Create(Topic.path("t"), Topic({0: (3,), 1: (1,), 2: (2,)}).encode()))
    world.run()

    lists = Topic.decode("", world.find(Topic.path("t")).data).partitions
    assert lists == {0: (3,), 1: (1,), 2: (2,)}
    assert [world.state(tp(number)).leader for number in range(3)] == [3, 1, 2]


def test_growth_of_a_topic_that_is_being_deleted_is_undone() -> None:
    """By Kafka's tool while a broker is awaited; the deletion goes on after it (K23)."""
    world, controller = two_topic_cluster()
    world.stop_broker(3)
    world.mark("t")
    world.grow("t", {**TWO, 2: (1, 3)})
    world.run()

    assert Topic.decode("/x", world.find(Topic.path("t")).data).partitions == TWO
    assert world.server.find(PartitionState.path(tp(2))) is None
    world.start_broker(3)
    assert is_gone(world)
    assert not controller.notes("transition.refused")


def test_growth_before_a_failover_is_deleted_with_the_rest() -> None:
    """No one knows the old lists any more, so all partitions go (K23)."""
    world, controller = two_topic_cluster()
    world.stop_broker(3)
    world.mark("t")
    world.crash(controller)
    world.grow("t", {**TWO, 2: (1, 3)})
    world.new_controller()
    world.start_broker(3)

    assert is_gone(world)


def test_a_partition_that_never_got_a_state_is_deleted() -> None:
    """None of its replicas ever lived; they go offline without a write and do not wedge the rest (K24)."""
    world, controller = two_topic_cluster()
    world.stop_broker(3)
    world.make_topic("v", {0: (3,), 1: (1, 3)})
    world.run()
    assert world.server.find(PartitionState.path(tp(0, "v"))) is None
    world.mark("v")
    world.start_broker(3)

    assert is_gone(world, "v")
    assert not controller.notes("transition.refused")


def test_a_topic_that_is_being_moved_waits_for_the_end_of_the_move() -> None:
    """Nothing is deleted of it while the move is open; then all of it goes."""
    world, controller = two_topic_cluster()
    world.hosts[3].silent = True
    world.server.put(Reassignment.path(), Reassignment((Move(tp(0), (3, 2)),)).encode())
    world.run()
    world.mark("t")
    assert not any(delete for id_ in world.hosts for delete, _ in deletions(world, id_))
    assert controller.waiting["deletion of t"] == "waits for the reassignment of t-0"
    world.hosts[3].silent = False
    controller.answer_all()
    world.set_state(tp(0), isr=(1, 2, 3))
    world.run()

    assert world.server.find(Reassignment.path()) is None
    assert is_gone(world)


def test_a_marker_taken_off_before_the_beginning_withdraws_the_deletion() -> None:
    """All replicas are on dead brokers, so nothing was deleted: the topic is visible again and led again."""
    world, _ = two_topic_cluster()
    world.make_topic("v", {0: (3,)})
    world.run()
    world.stop_broker(3)
    world.mark("v")
    assert tp(0, "v") not in world.hosts[1].metadata
    world.delete(TopicDeletion.path("v"))
    world.run()
    world.start_broker(3)

    assert world.state(tp(0, "v")).leader == 3
    assert world.hosts[1].metadata[tp(0, "v")] == 3
    assert tp(0, "v") in world.hosts[3].logs


def test_a_marker_taken_off_in_the_middle_does_not_leave_half_a_topic() -> None:
    """One broker has deleted its replicas: the rest goes too when the other is back."""
    world, _ = two_topic_cluster()
    world.stop_broker(3)
    world.mark("t")
    world.delete(TopicDeletion.path("t"))
    world.run()
    world.start_broker(3)

    assert is_gone(world)


def test_znodes_that_change_while_they_are_deleted_are_read_again() -> None:
    """A leader that has not received it yet writes its ISR, and another client makes a znode below a
    partition."""
    world, controller = two_topic_cluster()
    for id_ in (1, 2, 3):
        world.hosts[id_].silent = True
    world.mark("t")
    while controller.flying:
        last = len(controller.flying) == 1
        answer_first(controller)
        if not last or any(each.topic == "t" for host in world.hosts.values() for each in host.logs):
            world.run()
    world.until_asked(controller, Topic.path("t"))
    world.set_state(tp(0), isr=(1,))
    world.write(Create("/brokers/topics/t/partitions/9", None))
    world.run()

    assert is_gone(world)


def test_a_big_topic_goes_in_parts() -> None:
    """More than one transaction holds: partitions first, name and marker last."""
    world = SteppedControllers()
    name = "t" * 249
    world.make_topic(name, dict.fromkeys(range(1500), (1, 2)))
    controller = world.new_controller()
    world.mark(name)

    assert is_gone(world, name)
    assert controller.is_active


def test_a_move_asked_for_in_the_middle_of_a_deletion_is_dropped() -> None:
    """The deletion has taken every replica offline: it would wait for the move, and the move for a leader."""
    world, controller = two_topic_cluster()
    world.hosts[2].silent = True
    world.mark("t")
    assert world.state(tp(0)).leader == NO_LEADER
    world.server.put(Reassignment.path(), Reassignment((Move(tp(0), (2, 1)),)).encode())
    world.run()
    world.hosts[2].silent = False
    controller.answer_all()
    world.run()

    assert is_gone(world)
    assert world.below("/admin") == {"/admin", "/admin/delete_topics"}


def test_states_that_a_deletion_has_removed_are_not_made_again() -> None:
    """Past bug: found by a take-over, with a request to move it, such a partition began with the first epoch
    once more, and a replica of before took the new leader's epoch for its own."""
    world = SteppedControllers()
    world.make_topic("t", {0: (1, 2), 1: (1, 2)})
    controller = world.new_controller()
    world.crash(controller)
    world.stop_broker(1)
    world.mark("t", run=False)
    world.delete(PartitionState.path(tp(0)))
    world.delete(PartitionState.path(tp(0)).removesuffix("/state"))
    world.write(Create(Reassignment.path(), Reassignment((Move(tp(0), (2, 3)),)).encode()))
    world.new_controller()

    assert world.server.find(PartitionState.path(tp(0))) is None
    world.start_broker(1)
    world.run()
    assert world.server.find(Topic.path("t")) is None


def test_brokers_forget_a_partition_whose_state_cannot_be_read() -> None:
    """Past bug: they went on naming it to clients, and took a new topic's first epoch for an old one."""
    world, controller = two_topic_cluster()
    path = PartitionState.path(tp(0))
    world.write(SetData(path, b"{", world.find(path).stat.version))
    world.write(Create(IsrChange.prefix(), IsrChange((tp(0),)).encode(), sequential=True))
    world.run()
    assert controller.unreadable == {path}
    world.mark("t")

    assert left_of(world, "t") == set()
    assert all(tp(0) not in host.metadata for host in world.hosts.values())


def test_recovery_gives_no_role_to_replicas_that_are_deleted() -> None:
    """Past bug: where an ACL had put off both the recovery and the end of the deletion, brokers that had
    deleted their replicas were notified of a role, and took it for a later one than a new topic's first."""
    world, controller = two_topic_cluster()
    world.crash(controller)
    forbidden = Topic.path("t"), PartitionState.path(tp(0))
    for path in forbidden:
        world.server.set_acl(path, READ_ONLY)
    world.server.put(ControllerEpoch.path(), b"5")
    world.mark("t", run=False)
    world.new_controller()
    assert all(tp(0) not in host.logs for host in world.hosts.values())
    received = len(world.hosts[1].received(LeaderAndIsrRequest))
    for path in forbidden:
        world.server.set_acl(path, *OPEN_ACL)
    world.advance(2 * ABANDONED_AGAIN_MS, 5_000)

    assert left_of(world, "t") == set()
    assert len(world.hosts[1].received(LeaderAndIsrRequest)) == received
