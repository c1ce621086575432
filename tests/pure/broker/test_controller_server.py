"""The port of a controller without replicas: how many partitions it reads from the context at once."""

from __future__ import annotations

from zkgroup.broker.controller_only import topic_batches
from zkgroup.controller.machine.context import ControllerContext
from zkgroup.wire.metadata import PIECE
from zkgroup.znodes.brokers import Topic


def picture_of(**sizes: int) -> ControllerContext:
    picture = ControllerContext()
    for name, size in sizes.items():
        picture.topic_seen(name, Topic(dict.fromkeys(range(size), (1,))), 0)
    return picture


def test_the_controller_is_asked_for_a_bounded_part_at_a_time() -> None:
    """By partitions, not by topics: it does other things in between."""
    picture = picture_of(a=PIECE - 1, b=1, c=3 * PIECE, d=1, e=1)

    assert topic_batches(picture, None) == [["a", "b"], ["c"], ["d", "e"]]
    assert topic_batches(picture, ("e", "unknown", "c", "a")) == [["e", "unknown", "c"], ["a"]]


def test_without_topics_the_brokers_are_asked_for_all_the_same() -> None:
    """One part, with nothing in it."""
    assert topic_batches(ControllerContext(), None) == [[]]
    assert topic_batches(picture_of(a=1), ()) == [[]]
