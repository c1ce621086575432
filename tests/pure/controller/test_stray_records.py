"""The records of what brokers may still have: what is written of a change, and how much a znode holds."""

from __future__ import annotations

import random

from zkgroup.controller.machine.pending_deletes import (
    PART_BYTES,
    RecordChange,
    RecordedStrays,
    StrayRecords,
)
from zkgroup.model.requests import Create, Delete, SetData
from zkgroup.znodes.json_fields import DATA_BYTES_MAX
from zkgroup.znodes.stray_replicas import StrayReplicas, StrayTopic


def owed(broker: int, topic: str, *partitions: int, czxid: int = 1, epoch: int = 5) -> RecordedStrays:
    return RecordedStrays(broker, topic, czxid, frozenset(partitions), epoch)


def records_of(*entries: RecordedStrays) -> StrayRecords:
    """One in which these stand."""
    kept = StrayRecords()
    kept.took(kept.change(entries))
    return kept


def test_a_broker_has_one_znode() -> None:
    """With all its topics; the next change is based on its version."""
    kept = StrayRecords()
    change = kept.change([owed(1, "t", 0, 2), owed(1, "u", 1), owed(2, "t", 0)])
    first = StrayReplicas((StrayTopic("t", 1, (0, 2), 5), StrayTopic("u", 1, (1,), 5)))

    assert list(change.operations.values()) == [
        Create("/zkgroup/strays/1", first.encode()),
        Create("/zkgroup/strays/2", StrayReplicas((StrayTopic("t", 1, (0,), 5),)).encode()),
    ]
    kept.took(change)
    more = kept.change([owed(2, "t", 1)])
    (operation,) = more.operations.values()
    assert operation == SetData(
        "/zkgroup/strays/2", StrayReplicas((StrayTopic("t", 1, (0, 1), 5),)).encode(), 0
    )
    kept.took(more)
    (operation,) = kept.change(remove=[owed(2, "t", 0, 1)]).operations.values()
    assert operation == Delete("/zkgroup/strays/2", 1)


def test_each_replica_stands_once() -> None:
    """What is there already is not written again; a later epoch is."""
    kept = records_of(owed(1, "t", 0, 1))
    assert kept.change([owed(1, "t", 1, 0)]) == RecordChange({}, {})
    kept.took(kept.change([owed(1, "t", 1, epoch=9)]))
    assert kept.owed() == [owed(1, "t", 0, 1, epoch=9)]


def test_another_topic_of_the_name_stands_beside_it() -> None:
    """The czxid distinguishes them."""
    kept = records_of(owed(1, "t", 0), owed(1, "t", 0, czxid=2))
    assert kept.owed() == [owed(1, "t", 0), owed(1, "t", 0, czxid=2)]
    kept.took(kept.change(remove=[owed(1, "t", 0)]))
    assert kept.owed() == [owed(1, "t", 0, czxid=2)]


def test_with_the_last_replica_the_znode_goes() -> None:
    """And comes back with version 0."""
    kept = records_of(owed(1, "t", 0, 1))
    kept.took(kept.change(remove=[owed(1, "t", 0)]))
    change = kept.change(remove=[owed(1, "t", 1)])
    assert list(change.operations.values()) == [Delete("/zkgroup/strays/1", 1)]
    kept.took(change)
    assert not kept
    assert not kept.has_topic("t")
    kept.took(kept.change([owed(1, "t", 3)]))
    (operation,) = kept.change(remove=[owed(1, "t", 3)]).operations.values()
    assert operation == Delete("/zkgroup/strays/1", 0)


def test_a_change_that_is_refused_in_part_is_taken_in_part() -> None:
    """By znode."""
    kept = StrayRecords()
    kept.took(kept.change([owed(1, "t", 0), owed(2, "t", 0)]), [(1, 0)])
    assert kept.owed() == [owed(2, "t", 0)]


def test_a_znode_that_cannot_be_read_is_not_written_over() -> None:
    """The broker gets another one."""
    kept = StrayRecords()
    kept.found({}, [(1, 0)])
    (operation,) = kept.change([owed(1, "t", 0)]).operations.values()
    assert operation.path == StrayReplicas.path(1, 1)


def test_ten_thousand_replicas_are_cut_into_znodes_that_fit() -> None:
    """Topics with the longest names, one after the other: no write carries more than a part."""
    kept = StrayRecords()
    names = [f"{number:05}{'n' * 244}" for number in range(10_000)]
    for at in range(0, len(names), 500):
        change = kept.change([owed(1, name, 0) for name in names[at : at + 500]])
        for operation in change.operations.values():
            assert isinstance(operation, Create | SetData)
            assert len(operation.data or b"") <= PART_BYTES
        kept.took(change)

    assert sorted(each.topic for each in kept.owed()) == names
    assert 40 < len(kept.places()) < 100


def test_ten_thousand_replicas_of_one_topic_fit() -> None:
    """At once, and in any order."""
    numbers = list(range(10_000))
    kept = records_of(owed(1, "t", *numbers))
    (part,) = kept.change(remove=[owed(1, "t", 0)]).operations.values()
    assert isinstance(part, SetData)
    assert len(part.data) < DATA_BYTES_MAX / 10
    random.Random(0).shuffle(numbers)
    slowly = StrayRecords()
    for at in range(0, 10_000, 1000):
        slowly.took(slowly.change([owed(1, "t", *numbers[at : at + 1000])]))
    assert slowly.owed() == kept.owed()


def test_drawn_changes_leave_what_a_set_would() -> None:
    """Whatever is added and taken off in which order, also across znodes."""
    for seed in range(30):
        chance = random.Random(seed)
        kept, wanted = StrayRecords(), set[tuple[int, str, int, int]]()
        for _ in range(60):
            replica = (
                chance.randrange(3),
                chance.choice("tuv") * 200,
                chance.randrange(2),
                chance.randrange(40),
            )
            entry = RecordedStrays(*replica[:3], frozenset(range(replica[3], replica[3] + 3)), 1)
            mine = {(*replica[:3], number) for number in entry.partitions}
            if chance.random() < 0.6:
                kept.took(kept.change([entry]))
                wanted |= mine
            else:
                kept.took(kept.change(remove=[entry]))
                wanted -= mine
            assert {(*each.key, number) for each in kept.owed() for number in each.partitions} == wanted
