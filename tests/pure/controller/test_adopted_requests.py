"""ADR 0025: a request to move replicas that was deleted by hand and made again is another one."""

from __future__ import annotations

from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import ruled
from zkgroup.model.requests import Multi, SetData
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.brokers import Topic


def test_a_request_that_is_made_again_is_not_the_one_that_was_decided_on() -> None:
    """ADR 0025: deleted by hand and made again between the decision and its write, both with version 0."""
    world, ruler = ruled({0: (1, 2), 1: (1, 2)}, auto_rebalance=False)
    path = Reassignment.path()
    world.server.put(path, Reassignment((Move(tp(0), (2, 3)),)).encode())

    def writes_lists() -> bool:
        flight = ruler.client.requests[0].request if ruler.client.requests else None
        return isinstance(flight, Multi) and any(
            isinstance(each, SetData) and each.path == Topic.path("t") for each in flight.operations
        )

    world.run(writes_lists)
    assert writes_lists()
    world.delete(path)
    world.server.put(path, Reassignment((Move(tp(1), (2, 3)),)).encode())
    world.run()

    assert Topic.decode("", world.find(Topic.path("t")).data).partitions == {0: (1, 2), 1: (2, 3, 1)}
    world.set_state(tp(1), isr=(1, 2, 3))
    world.run()
    assert world.server.find(path) is None
    assert Topic.decode("", world.find(Topic.path("t")).data).partitions == {0: (1, 2), 1: (2, 3)}
