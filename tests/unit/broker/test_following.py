"""What a broker follows on after its session has ended: topics that the session knew, by their czxid."""

from __future__ import annotations

from tests.unit.broker.machines import Node, World
from zkgroup.broker.machine.effects import FollowOn, HoldFetches, Registered
from zkgroup.broker.machine.following import READ_AT_ONCE
from zkgroup.model.requests import Create, Delete
from zkgroup.testing.memory_zookeeper import Step
from zkgroup.znodes.brokers import Topic

DATA = Topic({0: (1, 2)}).encode()


def _follower(*topics: str) -> tuple[World, Node]:
    """Its session has seen these topics, and it follows partitions of them."""
    world = World()
    for topic in topics:
        world.server.put(Topic.path(topic), DATA)
    node = world.node()
    node.followed = frozenset(topics)
    world.run()
    return world, node


def _end_session(world: World) -> None:
    """The client gets to know when it reaches a server again: with `run`."""
    world.server.expire("n0")
    world.server.cut("n0")


def _followed(node: Node) -> list[frozenset[str]]:
    return [effect.topics for effect in node.told(FollowOn)]


def test_the_topic_that_the_session_knew_is_followed_on() -> None:
    """All is held from the end of the session, until the broker is registered again."""
    world, node = _follower("t")
    assert node.told(HoldFetches) == []
    _end_session(world)
    world.run()

    told = [effect for effect in node.effects if isinstance(effect, HoldFetches | Registered | FollowOn)]
    assert [type(effect) for effect in told] == [Registered, HoldFetches, Registered, FollowOn]
    assert _followed(node) == [{"t"}]
    assert node.notes("topic.not_followed") == []


def test_a_topic_that_was_made_again_or_is_gone_or_hidden_waits_for_a_controller() -> None:
    """K20: its terms begin anew, and old lines would be taken for lines of the new one."""
    world, node = _follower("again", "gone", "hidden", "same")
    _end_session(world)
    world.write(Delete(Topic.path("again"), -1))
    world.write(Delete(Topic.path("gone"), -1))
    world.write(Create(Topic.path("again"), DATA))
    node.guard.hidden.add(Topic.path("hidden"))
    world.run()

    assert _followed(node) == [{"same"}]
    told = [dict(note.fields)["path"] for note in node.notes("topic.not_followed")]
    assert told == [Topic.path(name) for name in ("again", "gone", "hidden")]


def test_what_a_second_session_sees_says_nothing_of_the_first() -> None:
    """The topic was made again before the second began, which ended before anything was looked at."""
    world, node = _follower("t")
    node.answers = False
    _end_session(world)
    world.write(Delete(Topic.path("t"), -1))
    world.write(Create(Topic.path("t"), DATA))
    world.run()
    _end_session(world)
    world.run()
    first, second = node.told(HoldFetches)
    node.answer(first)
    world.run()
    assert _followed(node) == [], "an order to hold is not answered yet"
    node.answer(second)
    world.run()

    assert _followed(node) == [frozenset()]


def test_a_look_without_an_answer_is_made_again() -> None:
    """And many topics are looked at in turns."""
    topics = [f"t{number}" for number in range(READ_AT_ONCE + 1)]
    world, node = _follower(*topics)
    _end_session(world)

    def looks() -> bool:
        flight = world.server.clients["n0"].requests
        return bool(flight) and Topic.path("t0") in getattr(flight[0].request, "paths", ())

    world.run(looks)
    assert looks()
    world.deliver(Step("request", "n0"), "lost_request")
    world.advance(1000)

    first, second = _followed(node)
    assert len(first) == READ_AT_ONCE
    assert first | second == set(topics)


def test_a_process_that_was_never_registered_holds_nothing() -> None:
    """It has followed nothing, and its port may not be open yet."""
    world = World()
    node = world.node()
    world.run(lambda: node.machine.core.connected)
    _end_session(world)
    world.run()

    assert node.told(HoldFetches) == []
