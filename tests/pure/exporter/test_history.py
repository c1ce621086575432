"""What the exporter remembers of its readings, and what it finds wrong in one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.worlds.coordinated_groups import CoordinatedGroups, stored_member
from tests.worlds.live_pages import LivePages
from zkgroup.exporter import history
from zkgroup.exporter.history import NAMED_MAX, STEP_MS, STEPS, OwnerChange
from zkgroup.exporter.problems import problems_of
from zkgroup.groups.lag_verdict import READS
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Delete
from zkgroup.znodes.admin_requests import Move
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.zookeeper.four_letter_words import ServerStatus


@pytest.fixture
def pages() -> Iterator[LivePages]:
    made = LivePages()
    yield made
    made.close()


def test_a_curve_has_the_highest_lag_of_each_minute_of_an_hour(pages: LivePages) -> None:
    """A minute without a read, or whose reads do not know it, is unknown; an older one is forgotten. One that
    is larger than any offset is as large as one can be."""
    pages.group("g", "t", 2, ("m",), lag=5)
    tp = TopicPartition("t", 0)
    for end, passes_ms in ((1005, STEP_MS), (1095, STEP_MS // 4), (1005, STEP_MS // 4), (1000, 2 * STEP_MS)):
        pages.ends[tp] = end
        pages.read(passes_ms)
    assert pages.history.lags() == {"g": [100, None, 5]}
    pages.lose("away")
    assert pages.history.lags() == {"g": [100, None, 5, None]}
    pages.read(STEP_MS)
    for _ in range(STEPS - 4):
        pages.read(STEP_MS)
    assert len(pages.history.lags()["g"]) == STEPS - 1  # the first known one is the one after 100 and None
    pages.ends[tp] = pages.ends[TopicPartition("t", 1)] = 2**63 - 1
    pages.read(2 * STEPS * STEP_MS)
    assert pages.history.lags() == {"g": [2**63 - 1]}  # the sum does not fit into 64 bits


def test_owners_and_members_are_compared_with_the_read_before(pages: LivePages) -> None:
    """The first reading is compared with nothing, also where a failed one came before it; one after an outage
    with the last that was known."""
    pages.group("g", "t", 3, ("m0", "m1"))
    pages.lose("away")
    first = pages.read()
    pages.read()
    assert pages.history.changes() == []
    pages.world.leave("g", "m1")
    known = pages.read()
    pages.lose("away")
    pages.world.own("g", "t", 2, "g_m0-0")
    last = pages.read()

    came_back, left = pages.history.changes("g")

    assert (left.time_ms, left.since_ms) == (known.time_ms, first.time_ms + STEP_MS)
    assert (left.joined, left.left) == ((), ("g_m1",))
    assert left.partitions == (
        OwnerChange(topic_partition=TopicPartition("t", 2), before="g_m1-0", after=None),
    )
    assert (came_back.time_ms, came_back.since_ms) == (last.time_ms, known.time_ms)
    assert (came_back.moved, came_back.assigned, came_back.released) == (0, 1, 0)
    assert pages.history.changes("other") == []


def test_members_of_kafkas_protocol_are_compared_too(pages: LivePages) -> None:
    """By their stored assignments."""
    clients = CoordinatedGroups(pages.world)
    clients.lead(1)
    pages.world.topic("t0", 2)
    tps = [TopicPartition("t0", number) for number in range(2)]
    clients.store("c", stored_member("a", *tps), generation=1)
    pages.read()
    pages.read()
    clients.store("c", stored_member("a", tps[0]), stored_member("b", tps[1]), generation=2)
    pages.read()

    (change,) = pages.history.changes()

    assert (change.joined, change.moved, change.partitions) == (
        ("b",),
        1,
        (OwnerChange(topic_partition=tps[1], before="a", after="b"),),
    )


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes, the partitions that one names, and the groups that are gone for an hour."""
    monkeypatch.setattr(history, "CHANGES_MAX", 3)
    pages = LivePages()
    pages.group("g", "t", NAMED_MAX + 20, ("m0",))
    pages.read()
    pages.release("g")
    pages.read()
    (change,) = pages.history.changes()
    assert (change.released, len(change.partitions)) == (NAMED_MAX + 20, NAMED_MAX)
    for number in range(4):
        pages.world.member("g", f"n{number}", {"t": 1})
        pages.read(1)
    assert [one.joined for one in pages.history.changes()] == [("g_n3",), ("g_n2",), ("g_n1",)]
    gone = replace(pages.read(), groups={}, partitions={})
    pages.history.add(gone)
    assert "g" in pages.history.lags()
    pages.history.add(replace(gone, time_ms=gone.time_ms + STEPS * STEP_MS))
    pages.read()
    assert pages.history.changes()[0].since_ms == gone.time_ms + STEPS * STEP_MS
    pages.close()


def test_what_is_unknown_has_the_time_since_which_it_is(pages: LivePages) -> None:
    """While the reason stays the same; and the last time that ZooKeeper answered is known."""
    reached = pages.read()
    pages.lose("away")
    first = pages.world.clock.wall_ms()
    pages.lose("away")
    assert [tuple(one) for one in pages.history.unknown] == [("away", first)]
    assert pages.history.reached_ms == reached.time_ms
    pages.read()
    assert pages.history.unknown == ()


def test_moves_that_have_ended_are_counted_until_the_last_one_has(pages: LivePages) -> None:
    """Each under way has the time of the reading that saw it first, and where it goes."""
    pages.cluster.topic("t", (1, 2), (2, 3), (3, 1))
    pages.cluster.request(*(Move(TopicPartition("t", number), (1, 3)) for number in range(2)))
    began = pages.read()
    pages.world.write(Delete("/admin/reassign_partitions", -1))
    pages.cluster.request(Move(TopicPartition("t", 1), (1, 3)))
    pages.read()
    document = pages.document()
    (row,) = document["reassigning"]
    assert (document["reassigned"], document["reassignments"]) == (1, 1)
    assert (row["topic"], row["partition"], row["target"]) == ("t", 1, [1, 3])
    assert pages.history.moving_since_ms(TopicPartition("t", 1)) == began.time_ms
    pages.cluster.finish()
    pages.read()
    assert (pages.document()["reassigned"], pages.document()["reassigning"]) == (0, [])


def test_problems_come_worst_first_with_the_command_that_helps(pages: LivePages) -> None:
    """Of groups, lag, topics, brokers and servers."""
    pages.group("g $x", "t", 3, ("m",), lag=5)
    pages.cluster.state("t", 0, 1, (1,))
    pages.cluster.state("t", 1, -1, (3,))
    pages.world.write(Delete(BrokerRegistration.path(3), -1))
    for _ in range(READS):
        pages.ends = {tp: end + 1 for tp, end in pages.ends.items()}
        pages.read()
    servers = [ServerStatus(server="a:1", by="mntr", mode="leader"), ServerStatus(server="b:1", by=None)]

    found = problems_of(replace(pages.read(), servers=tuple(servers)))

    assert [(one.severity, one.subject, one.next) for one in found] == [
        ("error", "topic t", "zkgroup topic describe t"),
        ("error", "group g $x", "zkgroup group describe 'g $x'"),
        ("warning", "topic t", "zkgroup topic describe t"),
        ("warning", "broker 3", "zkgroup plan decommission 3"),
        ("warning", "ZooKeeper server b:1", None),
    ]
    assert "stop: no commit for longer" in found[1].detail
