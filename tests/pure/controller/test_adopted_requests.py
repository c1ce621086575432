"""ADR 0025: a request to move replicas that was deleted by hand and made again is another one."""

from __future__ import annotations

import json

from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import loaded_cluster
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Multi, SetData
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.reassignment_records import FinishedReassignment


def test_a_request_that_is_made_again_is_not_the_one_that_was_decided_on() -> None:
    """ADR 0025: deleted by hand and made again between the decision and its write, both with version 0."""
    world, controller = loaded_cluster({0: (1, 2), 1: (1, 2)}, auto_rebalance=False)
    path = Reassignment.path()
    world.server.put(path, Reassignment((Move(tp(0), (2, 3)),)).encode())

    def writes_lists() -> bool:
        flight = controller.client.requests[0].request if controller.client.requests else None
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


def test_an_entry_that_cannot_be_written_again_is_recorded_although_its_topic_is_unreadable() -> None:
    """Past bug: it went with the first end of another move, and its own end was recorded later, or never."""
    world, controller = loaded_cluster({0: (1, 2)}, auto_rebalance=False)
    world.crash(controller)
    world.server.put(Topic.path("t"), b"{")
    moves = Move(tp(0), (3, 3)), Move(TopicPartition("none", 0), (3,))
    world.server.put(
        Reassignment.path(), b'{"version":1,"partitions":[' + b",".join(map(_entry, moves)) + b"]}"
    )
    world.new_controller()

    records = [
        FinishedReassignment.decode(each, world.find(each).data)
        for each in sorted(world.server.tree())
        if each.startswith(FinishedReassignment.prefix())
    ]
    assert world.server.find(Reassignment.path()) is None
    assert {(str(each.topic_partition), each.outcome) for each in records} == {
        ("t-0", "dropped"),
        ("none-0", "dropped"),
    }


def _entry(move: Move) -> bytes:
    entry = {
        "topic": move.topic_partition.topic,
        "partition": move.topic_partition.partition,
        "replicas": move.replicas,
    }
    return json.dumps(entry).encode()
