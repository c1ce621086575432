"""The topics that a broker still follows after the end of its session: those with the ordered czxid."""

from __future__ import annotations

from tests.pure.broker.stepped_brokers import BrokerNode, SteppedBrokers, alone
from tests.worlds.acls import UNREADABLE
from zkgroup.broker.machine.events import PauseFetches, Registered, ResumeFetches, TopicsFollowed
from zkgroup.broker.machine.machine import READ_AT_ONCE
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete
from zkgroup.testing.memory_zookeeper import ServerStep
from zkgroup.znodes.brokers import Topic

DATA = Topic({0: (1, 2)}).encode()
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def _follower(*topics: str) -> tuple[SteppedBrokers, BrokerNode]:
    """A controller has had it follow the first partition of each."""
    world, node = alone()
    for topic in topics:
        world.server.put(Topic.path(topic), DATA)
    _order(node, *(TopicPartition(topic, 0) for topic in topics))
    world.run()
    return world, node


def _order(node: BrokerNode, *partitions: TopicPartition) -> None:
    node.followed.update(partitions)
    node.loop.post(TopicsFollowed(frozenset(tp.topic for tp in partitions)))


def _end_session(world: SteppedBrokers) -> None:
    """The client gets to know when it reaches a server again: with `run`."""
    world.server.expire("n0")
    world.server.cut("n0")


def _lose_session(world: SteppedBrokers) -> None:
    _end_session(world)
    world.run()


def _make_again(world: SteppedBrokers, topic: str = "t") -> None:
    world.write(Delete(Topic.path(topic), -1))
    world.write(Create(Topic.path(topic), DATA))


def _topics(node: BrokerNode) -> set[str]:
    return {tp.topic for tp in node.followed}


def test_the_topic_that_was_ordered_is_followed_on() -> None:
    """All fetches are paused from the end of a session until the next registration, for each session."""
    world, node = _follower("t")
    assert node.emitted(PauseFetches) == []
    for _ in range(2):
        node.effects.clear()
        _lose_session(world)

        told = [
            type(one) for one in node.effects if isinstance(one, PauseFetches | Registered | ResumeFetches)
        ]
        assert told == [PauseFetches, Registered, ResumeFetches]
        assert _topics(node) == {"t"}
        assert node.notes("topic.not_followed") == []


def test_a_topic_that_was_made_again_or_is_gone_or_hidden_waits_for_a_controller() -> None:
    """Its leader epochs begin at 0 again, and old records would be taken for those of the new topic (K20)."""
    world, node = _follower("again", "gone", "hidden", "same")
    _end_session(world)
    _make_again(world, "again")
    world.write(Delete(Topic.path("gone"), -1))
    world.server.set_acl(Topic.path("hidden"), UNREADABLE)
    world.run()

    assert _topics(node) == {"same"}
    told = [dict(note.fields)["path"] for note in node.notes("topic.not_followed")]
    assert told == [Topic.path(name) for name in ("again", "gone", "hidden")]


def test_what_was_refused_once_is_not_followed_on_after_the_next_session() -> None:
    """The second session ends before a request of the controller; a later request is followed again."""
    world, node = _follower("t")
    _end_session(world)
    _make_again(world)
    world.run()
    _lose_session(world)
    assert node.followed == set()
    _order(node, T1)
    world.run()
    _lose_session(world)

    assert node.followed == {T1}


def test_a_session_that_ends_while_nothing_is_followed_says_nothing_of_later_topics() -> None:
    """Topics of requests in the next session have the czxids of that session."""
    world, node = _follower()
    _lose_session(world)
    world.server.put(Topic.path("t"), DATA)
    _order(node, T0)
    world.run()
    _lose_session(world)

    assert node.followed == {T0}


def test_an_order_of_a_session_that_ended_before_its_topic_was_read_says_nothing() -> None:
    """Read in the next session it could be another topic. A word of the controller then is good again."""
    world, node = _follower()
    world.server.put(Topic.path("t"), DATA)
    node.answers = False
    _order(node, T0)
    _lose_session(world)
    (hold,) = node.emitted(PauseFetches)
    assert _reads(node) == 0, "the order to hold is not answered yet"
    node.answers = True
    node.answer(hold)
    world.run()
    assert node.followed == set()
    assert len(node.notes("topic.not_followed")) == 1
    _order(node, T0)
    world.run()
    _lose_session(world)

    assert node.followed == {T0}


def _reads(node: BrokerNode) -> int:
    return len(node.emitted(ResumeFetches))


def test_nothing_is_read_before_every_order_to_hold_is_answered() -> None:
    """Two sessions ended in a row; the partitions of the first answer are paused for both."""
    world, node = _follower("t")
    node.answers = False
    _end_session(world)
    _make_again(world)
    world.run()
    _lose_session(world)
    first, second = node.emitted(PauseFetches)
    node.answer(first)
    world.run()
    assert _reads(node) == 0
    node.answers = True
    node.answer(second)
    world.run()

    assert _reads(node) == 1
    assert node.followed == set()


def test_a_read_without_an_answer_is_repeated() -> None:
    """Many topics are read in batches, one after the other."""
    topics = [f"t{number}" for number in range(READ_AT_ONCE + 1)]
    world, node = _follower(*topics)
    _end_session(world)

    def looks() -> bool:
        flight = world.server.clients["n0"].requests
        return bool(flight) and Topic.path("t0") in getattr(flight[0].request, "paths", ())

    world.run(looks)
    assert looks()
    world.deliver(ServerStep("request", "n0"), "lost_request")
    world.advance(1000)

    first, second = (effect.partitions for effect in node.emitted(ResumeFetches))
    assert len(first) == READ_AT_ONCE
    assert {tp.topic for tp in first | second} == set(topics)


def test_a_process_that_was_never_registered_holds_nothing() -> None:
    """It has followed nothing, and its port may not be open yet."""
    world = SteppedBrokers()
    node = world.node()
    world.run(lambda: node.machine.core.connected)
    _lose_session(world)

    assert node.emitted(PauseFetches) == []
