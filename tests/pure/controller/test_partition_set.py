"""Sets of partitions: the same as a set of tuples, at less cost."""

from __future__ import annotations

import random

from tests.worlds.controller_clusters import tp
from zkgroup.controller.machine.context import PartitionSet
from zkgroup.model import TopicPartition


def test_it_holds_what_a_set_of_tuples_would() -> None:
    """Whatever is put in and taken out, in any order."""
    rng = random.Random(7)
    mine, plain = PartitionSet([tp(1), tp(1)]), {tp(1)}
    for _ in range(2000):
        each = tp(rng.randrange(4), rng.choice("tuv"))
        match rng.randrange(5):
            case 0 | 1:
                mine.add(each)
                plain.add(each)
            case 2 | 3:
                mine.discard(each)
                plain.discard(each)
            case _:
                numbers = rng.sample(range(4), rng.randrange(3))
                mine.add_all(each.topic, numbers)
                plain.update(tp(number, each.topic) for number in numbers)
        found = list(mine)
        assert len(found) == len(plain)
        assert set(found) == plain
        assert all(isinstance(one, TopicPartition) for one in found)
        assert set(mine.of("tw")) == {one for one in plain if one.topic == "t"}
        assert bool(mine) == bool(plain)
        assert (each in mine) == (each in plain)

    mine.clear()
    assert not mine
    assert list(mine) == []
