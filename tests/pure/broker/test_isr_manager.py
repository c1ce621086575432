"""The ISRs of a broker's partitions: when they are written, what the replicas learn first, and failures."""

from __future__ import annotations

from itertools import pairwise

from tests.pure.broker.stepped_brokers import T0, BrokerNode, SteppedBrokers, alone
from tests.worlds.acls import UNREADABLE, UNWRITABLE
from tests.worlds.batches import records_of
from tests.worlds.replica_managers import in_memory, replicate
from zkgroup.broker.machine.events import (
    BecameLeader,
    FollowerFetched,
    FollowerFetches,
    IsrChanged,
    MaximalIsr,
    MaximalIsrsSet,
    ReadFollowers,
    ReplicasChanged,
    SetMaximalIsrs,
    StoppedLeading,
)
from zkgroup.broker.machine.isr import IsrChangePropagationConfig
from zkgroup.broker.replica_view import Follower
from zkgroup.broker.replicas.actions import set_maximal_isrs
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Code, Create, Delete, MultiRefused, SetData
from zkgroup.wire.control import PartitionStateInfo
from zkgroup.znodes.brokers import PartitionState
from zkgroup.znodes.notifications import IsrChange, isr_changes_path
from zkgroup.zookeeper.settings import OPEN_ACL

PATH = PartitionState.path(T0)
LAG_MS = 10_000
LEVEL = Follower(10, caught_up=True, lost=False)
BEHIND = Follower(3, caught_up=False, lost=False)
EMPTIED = Follower(0, caught_up=False, lost=True)


def _leader(isr: tuple[int, ...] = (1, 2, 3)) -> tuple[SteppedBrokers, BrokerNode]:
    world, node = alone(notices=IsrChangePropagationConfig(2500, 5000, 60_000))
    node.followers[T0] = (0, {2: LEVEL, 3: LEVEL})
    world.lead(node, isr=isr)
    return world, node


def _fetch(world: SteppedBrokers, node: BrokerNode, follower: int, offset: int = 10) -> None:
    node.loop.post(FollowerFetches((FollowerFetched(T0, follower, offset, 10, 10),)))
    world.run()


def _proposed(world: SteppedBrokers, node: BrokerNode) -> SetMaximalIsrs:
    """The first proposal of a new leader, whose effects wait: the state is read before it."""
    for _ in range(2):
        node.answer(node.emitted(ReadFollowers)[-1])
        world.run()
    (proposed,) = [each for each in node.emitted(SetMaximalIsrs) if each.batch is not None]
    return proposed


def test_a_follower_that_lags_too_long_leaves_the_isr() -> None:
    """Checked every half of the limit; the epochs of the state stay; the other follower has kept fetching."""
    world, node = _leader()
    for _ in range(3 * LAG_MS // 1000):
        _fetch(world, node, 2)
        world.advance(1000)

    assert world.state() == PartitionState(1, 0, (1, 2), 1)
    assert node.emitted(IsrChanged) == [IsrChanged(T0, 0, (1, 2))]


def test_a_follower_that_has_caught_up_joins_at_its_next_fetch() -> None:
    """The host waits for it before ZooKeeper is asked: else a record could be acknowledged without it."""
    world, node = _leader(isr=(1, 2))
    node.answers = False
    _fetch(world, node, 3)
    set_maximal_isrs = _proposed(world, node)
    assert set_maximal_isrs.isrs[0].isr == {1, 2, 3}
    assert world.state().isr == (1, 2)
    assert set_maximal_isrs.batch is not None
    node.loop.post(MaximalIsrsSet(set_maximal_isrs.batch))
    world.run()

    assert world.state().isr == (1, 2, 3)
    assert node.emitted(SetMaximalIsrs)[-1].isrs[0].isr == {1, 2, 3}


def test_one_that_lacks_a_record_acknowledged_meanwhile_does_not_join_yet() -> None:
    """The leader acknowledged a record alone between the read of the followers and the new maximal ISR.

    In the ISR, the follower could become leader without that record.
    """
    world, node = _leader(isr=(1, 2))
    node.answers = False
    _fetch(world, node, 3)
    order = _proposed(world, node)
    assert order.isrs[0].joining == {3}
    assert order.batch is not None
    node.loop.post(MaximalIsrsSet(order.batch, frozenset({T0})))
    world.run()
    assert world.state().isr == (1, 2)
    assert node.emitted(SetMaximalIsrs)[-1].isrs[0].isr == {1, 2}

    node.answers = True
    _fetch(world, node, 3)
    assert world.state().isr == (1, 2, 3)


def test_the_count_says_who_lacks_a_record() -> None:
    """Compared with the high watermark that waits for the new member."""
    host = in_memory(1)
    host.become_leader(T0, 0, (1, 2, 3, 4), (1,))
    behind, level = in_memory(2), in_memory(3)
    for follower in (behind, level):
        follower.become_follower(T0, 0)
        replicate(host, follower, T0)
    host.append(T0, records_of([b"acknowledged"], timestamp_ms=1))
    replicate(host, level, T0)

    def joins(broker: int) -> frozenset[TopicPartition]:
        isr = frozenset({1, broker})
        return set_maximal_isrs(host, SetMaximalIsrs(1, (MaximalIsr(T0, 0, isr, frozenset({broker})),)))

    assert joins(2) == {T0}
    assert joins(3) == frozenset()
    assert joins(4) == {T0}, "it has never fetched"


def test_no_isr_is_written_before_the_broker_is_registered() -> None:
    """S11: the leader writes it in the session of its registration.

    A new process can be made leader over the connection to the former process, whose registration still
    exists.
    """
    world = SteppedBrokers()
    world.node(name="former")
    world.run()
    node = world.node(name="again")
    world.run()
    assert node.notes("registration.waits")
    node.followers[T0] = (0, {2: LEVEL, 3: EMPTIED})
    world.lead(node, isr=(1, 2, 3))
    _fetch(world, node, 3, offset=0)
    assert world.state().isr == (1, 2, 3)

    world.server.expire("former")
    world.advance(1000)
    assert world.state().isr == (1, 2)


def test_a_member_that_lost_records_leaves_at_once() -> None:
    """replica-host.md rule 3: it fetched below the high watermark."""
    world, node = _leader()
    node.followers[T0] = (0, {2: LEVEL, 3: EMPTIED})
    _fetch(world, node, 3, offset=0)

    assert world.state().isr == (1, 2)


def test_a_follower_that_is_behind_is_not_checked() -> None:
    """Neither may it join, nor has it lost anything."""
    world, node = _leader(isr=(1, 2))
    node.followers[T0] = (0, {2: LEVEL, 3: BEHIND})
    _fetch(world, node, 3, offset=3)

    assert node.emitted(ReadFollowers) == []


def test_a_write_whose_answer_is_lost_is_read_back() -> None:
    """Until then the host waits for both."""
    world, node = _leader(isr=(1, 2))
    node.loop.post(FollowerFetches((FollowerFetched(T0, 3, 10, 10, 10),)))
    world.until_asked(node, PATH)
    world.lose(node, "lost_reply")
    world.advance(1000)

    assert world.state().isr == (1, 2, 3)
    assert node.emitted(IsrChanged) == [IsrChanged(T0, 0, (1, 2, 3))]


def test_a_write_on_its_way_when_the_session_ends_is_read_back_in_the_next() -> None:
    """It never arrived; the change is written then if it is still needed."""
    world, node = _leader(isr=(1, 2))
    node.loop.post(FollowerFetches((FollowerFetched(T0, 3, 10, 10, 10),)))
    world.until_asked(node, PATH)
    world.server.expire("n0")
    world.server.cut("n0")
    assert world.state().isr == (1, 2)
    world.run()

    assert world.state().isr == (1, 2, 3)


def test_the_state_of_a_new_topic_of_that_name_is_not_written_by_a_former_leader() -> None:
    """The session ended, and the topic was deleted and created again without this broker (K20).

    The new state has the version of the old one, so a conditional write alone would succeed.
    """
    world, node = _leader()
    world.server.expire("n0")
    world.server.cut("n0")
    theirs = PartitionState(2, 0, (2, 3), 1)
    world.write(Delete(PATH, 0))
    world.write(Create(PATH, theirs.encode()))
    node.followers[T0] = (0, {2: EMPTIED, 3: EMPTIED})
    world.run()
    _fetch(world, node, 2, 0)
    world.advance(2 * LAG_MS)

    assert world.registration(1)
    assert world.state() == theirs
    assert len(node.notes("isr.deposed")) == 1


def test_what_is_wanted_is_written_in_the_next_session_once_the_state_was_read() -> None:
    """It does not wait for the next periodic check."""
    world, node = _leader(isr=(1, 2))
    node.answers = False
    _fetch(world, node, 3)
    order = _proposed(world, node)
    world.server.expire("n0")
    world.server.cut("n0")
    world.run()
    assert order.batch is not None
    node.loop.post(MaximalIsrsSet(order.batch))
    world.run()
    assert world.state().isr == (1, 2)
    node.answers = True
    node.answer(node.emitted(ReadFollowers)[-1])
    world.run()

    assert world.state().isr == (1, 2, 3)


def test_the_first_write_of_a_leader_keeps_keys_that_leader_and_isr_does_not_have() -> None:
    """Version 0 of LeaderAndIsr carries no keys of later versions, so the leader reads the znode first. The
    second write keeps them as well.
    """
    world, node = alone()
    node.followers[T0] = (0, {2: LEVEL, 3: EMPTIED})
    later = {"leader_recovery_state": 1}
    world.lead(node, isr=(1, 2, 3), extensions=later)
    _fetch(world, node, 3, offset=0)
    assert world.state() == PartitionState(1, 0, (1, 2), 1, later)
    node.followers[T0] = (0, {2: EMPTIED})
    _fetch(world, node, 2, offset=0)
    assert world.state() == PartitionState(1, 0, (1,), 1, later)


def test_each_leader_epoch_reads_the_keys_of_later_versions_again() -> None:
    """A controller may have changed them with its decision."""
    world, node = alone()
    node.followers[T0] = (0, {2: LEVEL, 3: EMPTIED})
    world.lead(node, isr=(1, 2, 3), extensions={"leader_recovery_state": 1})
    _fetch(world, node, 3, offset=0)
    node.followers[T0] = (1, {2: EMPTIED})
    world.lead(node, isr=(1, 2), epoch=1, extensions={"elected_by": "a later version"})
    _fetch(world, node, 2, offset=0)
    assert world.state() == PartitionState(1, 1, (1,), 1, {"elected_by": "a later version"})


def test_a_foreign_write_of_our_term_is_adopted_and_built_upon() -> None:
    """The cure of KAFKA-2729: the controller shrank the ISR meanwhile, with the same leader epoch."""
    world, node = _leader(isr=(1, 2))
    world.write(SetData(PATH, PartitionState(1, 0, (1,), 1).encode(), 0))
    _fetch(world, node, 3)

    assert world.state().isr == (1, 2, 3) or world.state().isr == (1, 3, 2)
    assert node.emitted(IsrChanged)[0] == IsrChanged(T0, 0, (1,))


def test_another_leader_ends_the_writes() -> None:
    """A later state was written since; the broker acts again only on a request of the controller."""
    world, node = _leader(isr=(1, 2))
    theirs = PartitionState(2, 1, (2, 3), 1)
    world.write(SetData(PATH, theirs.encode(), 0))
    _fetch(world, node, 3)
    world.advance(2 * LAG_MS)

    assert world.state() == theirs
    assert len(node.notes("isr.deposed")) == 1


def test_a_state_that_an_acl_hides_is_read_again_after_a_while() -> None:
    """It is not asked for without a pause, and the ISRs of other partitions are written meanwhile."""
    world, node = _leader(isr=(1, 2))
    other = TopicPartition("t", 1)
    world.server.set_acl(PATH, UNREADABLE)
    world.write(SetData(PATH, PartitionState(1, 0, (1,), 1).encode(), 0))
    _fetch(world, node, 3)
    assert [note.fields["partition"] for note in node.notes("isr.unreadable")] == ["t-0"]
    asked = len(node.guard.requests)
    _fetch(world, node, 3)
    assert len(node.guard.requests) == asked

    world.server.put(PartitionState.path(other), PartitionState(1, 0, (1, 2), 1).encode())
    node.followers[other] = (0, {2: LEVEL, 3: LEVEL})
    node.loop.post(BecameLeader(PartitionStateInfo("t", 1, 1, 1, 0, (1, 2), 0, (1, 2, 3))))
    node.loop.post(FollowerFetches((FollowerFetched(other, 3, 10, 10, 10),)))
    world.run()
    assert node.machine.isr_manager._isrs[other].isr == (1, 2, 3)

    world.server.set_acl(PATH, *OPEN_ACL)
    for _ in range(3):
        world.advance(LAG_MS // 2)
        _fetch(world, node, 2)
        _fetch(world, node, 3)
    assert set(world.state().isr) == {1, 2, 3}


def test_a_write_that_an_acl_refuses_backs_off_and_is_reported() -> None:
    """A follower asks for it twice a second; tried with growing pauses, until the ACL lets it."""
    world, node = _leader(isr=(1, 2))
    world.server.set_acl(PATH, UNWRITABLE)

    def follow(ms: int) -> None:
        for _ in range(ms // 500):
            _fetch(world, node, 2)
            _fetch(world, node, 3)
            world.advance(500)

    follow(100_000)
    refused = [entry for entry in world.server.log if entry.refused == MultiRefused(0, Code.NO_AUTH)]
    assert {(entry.client, entry.operations[0].path) for entry in refused} == {("n0", PATH)}
    pauses = [later.time_ms - sooner.time_ms for sooner, later in pairwise(refused)]
    assert pauses == [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]
    told = [(note.fields["partition"], note.fields["code"]) for note in node.notes("isr.refused")]
    assert told == [("t-0", "NoAuth")] * len(refused)
    assert world.state().isr == (1, 2)

    world.server.set_acl(PATH, *OPEN_ACL)
    follow(30_000)
    assert world.state().isr == (1, 2, 3)


def test_a_state_that_a_foreign_writer_has_raised_is_reported_to_the_controller() -> None:
    """A foreign writer raised it: controller and leader know epoch 0, so the ISR could not be changed."""
    world, node = _leader(isr=(1, 2))
    world.write(SetData(PATH, PartitionState(1, 7, (1, 2), 1).encode(), 0))
    _fetch(world, node, 3)
    world.advance(9000)

    assert _notices(world) == [IsrChange((T0,))]
    assert world.state() == PartitionState(1, 7, (1, 2), 1)


def test_a_raised_state_behind_an_acl_is_reported_too() -> None:
    """ZooKeeper checks the ACL before the version, and the follower may need no further write."""
    world, node = _leader(isr=(1, 2))
    world.write(SetData(PATH, PartitionState(1, 7, (1, 2), 1).encode(), 0))
    world.server.set_acl(PATH, UNWRITABLE)
    _fetch(world, node, 3)
    world.advance(9000)

    assert [note.fields["leader_epoch"] for note in node.notes("isr.deposed")] == [0]
    assert _notices(world) == [IsrChange((T0,))]


def test_a_replica_on_a_later_controllers_list_joins_in_the_same_term() -> None:
    """The former one was about to end a move to 1 and 2, which was then taken back."""
    world, node = _leader(isr=(1,))
    node.loop.post(ReplicasChanged(PartitionStateInfo("t", 0, 1, 1, 0, (1,), 0, (1, 2))))
    _fetch(world, node, 3)
    assert world.state().isr == (1,)

    node.loop.post(ReplicasChanged(PartitionStateInfo("t", 0, 1, 1, 0, (1,), 0, (1, 2, 3))))
    _fetch(world, node, 3)
    assert world.state().isr == (1, 3)


def test_a_partition_that_is_left_is_not_written() -> None:
    """The host answers too late."""
    world, node = _leader(isr=(1, 2))
    node.answers = False
    _fetch(world, node, 3)
    node.answer(node.emitted(ReadFollowers)[0])
    world.run()
    node.loop.post(StoppedLeading(T0))
    node.answer(node.emitted(SetMaximalIsrs)[0])
    world.advance(LAG_MS)

    assert world.state().isr == (1, 2)
    assert world.find(PATH).stat.version == 0


def test_without_zookeeper_nothing_is_proposed_and_it_is_made_up_for() -> None:
    """A proposal alone would hold the high watermark back."""
    world, node = _leader(isr=(1, 2))
    world.server.suspend("n0")
    world.run()
    _fetch(world, node, 3)
    assert node.emitted(ReadFollowers) == []
    world.server.resume("n0")
    world.run()

    assert world.state().isr == (1, 2, 3)


def test_the_controller_is_notified_after_five_quiet_seconds() -> None:
    """One notification for all; none where nothing changes any more."""
    world, node = _leader(isr=(1, 2))
    _fetch(world, node, 3)
    world.advance(4500)
    assert _notices(world) == []
    world.advance(4000)
    assert _notices(world) == [IsrChange((T0,))]
    world.advance(20_000)
    assert len(_notices(world)) <= 2  # 2 and 3 fetch no more and leave


def test_a_notification_without_an_answer_is_sent_again() -> None:
    """Twice does no harm."""
    world, node = _leader(isr=(1, 2))
    _fetch(world, node, 3)
    while not node.client.requests:
        world.clock.advance(250)
        node.loop.run_pending()
    assert world.find(isr_changes_path()).stat.children_count == 0
    world.lose(node, "lost_request")
    world.advance(9000)

    assert _notices(world)[0] == IsrChange((T0,))


def test_the_parent_of_notifications_is_made_again() -> None:
    """A tree that was cleared."""
    world, node = _leader(isr=(1, 2))
    world.server.remove(isr_changes_path())
    _fetch(world, node, 3)
    world.advance(20_000)

    assert _notices(world)


def test_a_znode_that_is_gone_ends_the_writes() -> None:
    """The topic was deleted; a new one of that name has another leader's state."""
    world, node = _leader(isr=(1, 2))
    world.server.remove(PATH)
    _fetch(world, node, 3)
    world.write(Create(PATH, PartitionState(1, 0, (1,), 5).encode()))
    world.advance(LAG_MS)

    assert world.state() == PartitionState(1, 0, (1,), 5)


def _notices(world: SteppedBrokers) -> list[IsrChange]:
    znodes = [world.server.find(IsrChange.path(number)) for number in range(10)]
    return [IsrChange.decode(znode.path, znode.data) for znode in znodes if znode is not None]
