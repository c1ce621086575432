"""The topics that were created without brokers, by the data of their znodes."""

from __future__ import annotations

import pytest

from zkgroup.errors import CorruptZnodeError
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.stray_replicas import Signs, UnhostedTopic, is_unhosted, may_be_unhosted

MARKED = Signs(made=10, written=10, mark=10, marks=9, broker=None)


def test_a_mark_survives_the_round_trip() -> None:
    """It says all that it has to by being there."""
    assert UnhostedTopic.path("orders") == "/zkgroup/unhosted/orders"
    assert UnhostedTopic().encode() == b'{"version":1}'
    assert UnhostedTopic.decode("/x", UnhostedTopic().encode()) == UnhostedTopic()
    with pytest.raises(CorruptZnodeError, match="/x"):
        UnhostedTopic.decode("/x", b"[1]")


@pytest.mark.parametrize(
    ("lists", "may"),
    [
        ({0: (0,), 1: (0,)}, True),
        ({0: (0,), 1: (1,)}, False),
        ({0: (0, 1)}, False),
        ({0: (1,)}, False),
        ({0: ()}, False),
        ({}, False),
    ],
)
def test_all_lists_are_placeholders(lists: dict[int, tuple[int, ...]], may: bool) -> None:
    """A topic with a broker in one of its lists is not unhosted."""
    assert may_be_unhosted(Topic(lists)) is may


@pytest.mark.parametrize(
    ("signs", "unhosted"),
    [
        (MARKED, True),
        (MARKED._replace(broker=5), True),  # broker 0 was there, and the mark says that it is not meant
        (MARKED._replace(mark=12, written=12, made=3), True),  # of an older tree, marked when it grew
        (MARKED._replace(mark=None), False),  # somebody has given it to broker 0
        (MARKED._replace(mark=8, marks=7), False),  # the mark is of an earlier topic
        (MARKED._replace(mark=None, marks=11), True),  # no marks then, and no broker 0
        (MARKED._replace(mark=None, marks=None), True),  # nor now
        (MARKED._replace(mark=None, marks=11, broker=12), True),  # it came later
        (MARKED._replace(mark=None, marks=11, broker=9), False),  # it was there
        (MARKED._replace(mark=None, marks=11, written=12), False),  # written since, as `topic alter` does
    ],
)
def test_the_marks_of_an_unhosted_topic(signs: Signs, unhosted: bool) -> None:
    """The mark decides; where the topic is older than all marks, whether broker 0 was there."""
    assert is_unhosted(signs) is unhosted
