"""A broker is sent a topic only once the record of what it had of the former one is gone (K20).

In any other order the next controller finds the record and has the broker delete what it was given since.
"""

from __future__ import annotations

import pytest

from tests.pure.controller.forced import forced, received, records
from tests.worlds.acls import NO_DELETES
from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import ControllerNode, SteppedControllers
from zkgroup.controller.machine.event_manager import BACKOFF_MS
from zkgroup.model.requests import Delete, Multi
from zkgroup.znodes.brokers import PartitionState
from zkgroup.znodes.stray_replicas import stray_replicas_path
from zkgroup.zookeeper.settings import OPEN_ACL

SEVERAL, ALONE = (2, 3), (3,)
"""Replicas of the next topic: others lead and sync without the broker, or no one does."""


def takes_off(controller: ControllerNode) -> bool:
    """Whether the controller's next request deletes a record."""
    flight = controller.client.requests[0].request if controller.client.requests else None
    return isinstance(flight, Multi) and any(
        isinstance(each, Delete) and each.path.startswith(stray_replicas_path()) for each in flight.operations
    )


def is_in_sync(world: SteppedControllers) -> bool:
    """Whether broker 3 has a part in the next `t-1`."""
    path = PartitionState.path(tp(1))
    return world.server.find(path) is not None and 3 in world.state(tp(1)).isr


@pytest.mark.parametrize("replicas", [SEVERAL, ALONE])
def test_nothing_is_sent_before_the_record_is_gone(replicas: tuple[int, ...]) -> None:
    """Up to the moment before its last write: a controller that dies there leaves all of it to the next."""
    world, controller = forced()
    world.make_topic("t", {1: replicas})
    world.run()
    before = len(received(world, 3))
    world.start_broker(3, run=False)
    world.run(lambda: takes_off(controller))
    assert takes_off(controller)
    assert received(world, 3)[before:] == ["delete"]
    assert not is_in_sync(world)
    world.crash(controller)
    assert len(records(world)) == 1
    world.new_controller()

    assert received(world, 3)[before:] == ["delete", "delete", "replica"]
    assert records(world) == []


@pytest.mark.parametrize("replicas", [SEVERAL, ALONE])
def test_a_record_that_may_not_be_taken_off_keeps_the_broker_out(replicas: tuple[int, ...]) -> None:
    """An ACL refuses it: the broker has deleted, and is let in when the record can go."""
    world, _ = forced()
    world.make_topic("t", {1: replicas})
    world.run()
    parent = stray_replicas_path()
    world.server.set_acl(parent, NO_DELETES)

    before = len(received(world, 3))
    world.start_broker(3)
    world.advance(2 * BACKOFF_MS)
    assert received(world, 3)[before:] == ["delete"]
    assert not is_in_sync(world)
    assert len(records(world)) == 1
    world.server.set_acl(parent, *OPEN_ACL)
    world.advance(2 * BACKOFF_MS)

    assert received(world, 3)[before:] == ["delete", "replica"]
    assert records(world) == []
