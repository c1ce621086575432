"""What deletions ask of ZooKeeper, and what is left of them in memory."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.worlds.stepped_controllers import TWO, ControllerNode, SteppedControllers
from tests.worlds.stores import MeddledStore
from zkgroup.model.requests import ListChildren, ReadMany
from zkgroup.znodes.brokers import Topic, topics_path


def with_topics(count: int) -> tuple[SteppedControllers, ControllerNode, MeddledStore]:
    """An active controller of so many topics, and what it asks from now on."""
    world = SteppedControllers(auto_rebalance=False)
    for number in range(count):
        world.make_topic(f"t{number}", TWO)
    controller = world.new_controller()
    store = MeddledStore(controller.loop._store)
    controller.loop._store = store
    return world, controller, store


def delete(world: SteppedControllers, numbers: range) -> None:
    for number in numbers:
        world.mark(f"t{number}", run=False)
    world.run()
    assert not [number for number in numbers if world.server.find(Topic.path(f"t{number}"))]


def test_deletions_asked_for_together_are_carried_out_together() -> None:
    """Fifty topics cost what ten cost, the topics are listed once, and each state is read once."""
    world, _, store = with_topics(80)

    delete(world, range(10))
    ten = len(store.requests)
    store.requests.clear()
    delete(world, range(10, 60))

    assert len(store.requests) == ten <= 25
    assert store.requests.count(ListChildren(topics_path(), watch=True)) == 1
    read = Counter(path for each in store.requests if isinstance(each, ReadMany) for path in each.paths)
    states = {path: count for path, count in read.items() if path.endswith("/state")}
    assert len(states) == 100
    assert set(states.values()) == {1}


@pytest.mark.parametrize("by_hand", [False, True])
def test_nothing_is_left_of_topics_that_come_and_go(by_hand: bool) -> None:
    """No watch is remembered, in whatever way they go, and nothing else that is kept for each topic."""
    world, controller, _ = with_topics(0)

    def kept() -> tuple[int, ...]:
        active = controller.machine.active
        assert active is not None
        return (
            len(active.parts.reader._armed),
            len(active.context.topic_czxids),
            len(active.features.topic_deletions._requested),
            len(active.parts.events.blocked),
            len(active.parts.events.queue),
        )

    before = kept()
    for number in range(30):
        name = f"t{number}"
        world.make_topic(name, TWO)
        world.run()
        if by_hand:
            for path in sorted(world.below(Topic.path(name)), reverse=True):
                world.delete(path)
            world.run()
        else:
            world.mark(name)

    assert kept() == before


def test_a_topic_made_again_at_once_is_watched() -> None:
    """What is known of the old one's watches says nothing of the new one: a change of its lists is seen."""
    world, controller, _ = with_topics(1)
    delete(world, range(1))
    world.make_topic("t0", TWO)
    world.run()

    world.grow("t0", {**TWO, 2: (3, 1)})
    world.run()

    active = controller.machine.active
    assert active is not None
    assert [each.partition for each in active.context.partitions("t0")] == [0, 1, 2]
