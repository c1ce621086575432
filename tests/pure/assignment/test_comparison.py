"""The difference between two assignments, and a hash that is equal on every machine."""

from __future__ import annotations

import subprocess
import sys

from zkgroup.assignment import assignment_diff
from zkgroup.assignment.strategies import inputs_digest, result_digest
from zkgroup.model import EvaluatedMember, TopicPartition


def tp(number: int) -> TopicPartition:
    return TopicPartition("t", number)


def test_moves_are_kept_moved_gained_or_dropped() -> None:
    """Each in order; a change of thread within a member is a move."""
    found = assignment_diff(
        {tp(3): "a-0", tp(0): "a-0", tp(1): "a-0", tp(2): "a-0"},
        {tp(0): "a-0", tp(1): "a-1", tp(2): "b-0", tp(9): "b-0"},
    )

    assert (found.kept, found.moved) == ((tp(0),), (tp(1), tp(2)))
    assert (found.gained, found.dropped) == ((tp(9),), (tp(3),))


def test_digests_do_not_depend_on_the_order_of_the_input() -> None:
    """Members, topics, partitions and owners may come in any order."""
    a, b = EvaluatedMember("a", {"t": 1, "u": 2}), EvaluatedMember("b", {"t": 1})
    a_again = EvaluatedMember("a", {"u": 2, "t": 1})

    assert inputs_digest("range", [a, b], {"t": [0, 1], "u": [0]}) == inputs_digest(
        "range", [b, a_again], {"u": [0], "t": [1, 0]}
    )
    assert result_digest({tp(0): "a-0", tp(1): "b-0"}) == result_digest({tp(1): "b-0", tp(0): "a-0"})


def test_different_inputs_have_different_digests() -> None:
    """Strategy, members, threads, partitions and the past all count."""
    a = EvaluatedMember("a", {"t": 1})
    digests = [
        inputs_digest("range", [a], {"t": [0]}),
        inputs_digest("sticky", [a], {"t": [0]}),
        inputs_digest("range", [EvaluatedMember("a", {"t": 2})], {"t": [0]}),
        inputs_digest("range", [EvaluatedMember("b", {"t": 1})], {"t": [0]}),
        inputs_digest("range", [a], {"t": [0, 1]}),
        inputs_digest("range", [a], {"t": [0]}, {tp(0): "a-0"}),
    ]

    assert len(set(digests)) == len(digests)
    assert result_digest({tp(0): "a-0"}) != result_digest({tp(0): "a-1"})


def test_digests_are_stable_across_processes() -> None:
    """Another process with another hash seed computes the same texts, which are part of the format."""
    program = (
        "from zkgroup.assignment.strategies import *; from zkgroup.model import *;"
        "print(inputs_digest('range', [EvaluatedMember('a', {'t': 1, 'u': 1})], {'t': [0]}),"
        "result_digest({TopicPartition('t', 0): 'a-0'}))"
    )

    printed = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "7"},
    ).stdout.split()

    assert printed == [
        inputs_digest("range", [EvaluatedMember("a", {"u": 1, "t": 1})], {"t": [0]}),
        result_digest({TopicPartition("t", 0): "a-0"}),
    ]
    assert [len(text) for text in printed] == [16, 16]
