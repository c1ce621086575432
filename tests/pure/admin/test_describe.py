"""The descriptions of members, partitions and offsets."""

from __future__ import annotations

from tests.worlds.memory_groups import OURS, MemoryGroups
from tests.worlds.stores import RecordedStore
from zkgroup.groups.reader import read_snapshot
from zkgroup.groups.reads import describe, describe_offsets, list_groups
from zkgroup.model import TopicPartition, Whitelist
from zkgroup.model.requests import SetData
from zkgroup.znodes.consumers import Offset


def test_a_member_is_described_by_its_registration(world: MemoryGroups) -> None:
    """Session, evaluated threads, raw subscription, kind and host of a member."""
    world.topic("orders", 1)
    world.topic("clicks", 1)
    session = world.member("g", "host-a.example-1396019241689-631e0040", Whitelist("or.*", 2))

    (member,) = describe(world.ensemble, "g").members

    assert (member.session_id, member.kind, member.host) == (session, "zkgroup", "host-a.example")
    assert (member.threads, member.pattern, member.subscription) == ({"orders": 2}, "white_list", {"or.*": 2})
    assert member.registered_at_ms == world.clock.wall_ms()


def test_a_member_with_an_id_of_its_own_has_no_host(world: MemoryGroups) -> None:
    """An id that does not parse from the right has no host, unless the registration has one."""
    world.topic("orders", 1)
    world.member("g", "worker-7", {"orders": 1}, {})
    world.member("g", "worker-8", {"orders": 1}, {**OURS, "host": "host-b.example"})

    jvm, ours = describe(world.ensemble, "g").members

    assert (jvm.host, jvm.kind) == (None, "jvm")
    assert (ours.host, ours.kind) == ("host-b.example", "zkgroup")


def test_a_partition_is_described_by_owner_and_offset(world: MemoryGroups) -> None:
    """Owner, token and offset of a partition; a claim's write of the offset is no commit."""
    world.topic("orders", 2)
    world.commit("g", "orders", 0, 42)
    world.member("g", "a", {"orders": 1})
    world.own_as_planned("g")

    first, second = describe(world.ensemble, "g").partitions

    owner = read_snapshot(world.ensemble, "g").owners[TopicPartition("orders", 0)]
    assert (first.owner, first.member, first.expected_owner) == ("g_a-0", "g_a", "g_a-0")
    assert (first.token, first.owned_since_ms) == (owner.stat.czxid, owner.stat.ctime)
    assert (first.offset, first.committed_at_ms) == (42, None)
    assert (second.offset, second.committed_at_ms) == (None, None)


def test_a_commit_after_the_claim_has_a_time(world: MemoryGroups) -> None:
    """`committed_at` is the offset's mtime once it was written after the claim (recipes 11)."""
    world.topic("orders", 1)
    world.member("g", "a", {"orders": 1})
    world.own_as_planned("g")
    world.clock.advance(5000)
    world.write(SetData(Offset.path("g", TopicPartition("orders", 0)), b"5", 0))

    (row,) = describe(world.ensemble, "g").partitions

    assert (row.offset, row.committed_at_ms) == (5, world.clock.wall_ms())


def test_log_ends_make_lag(world: MemoryGroups) -> None:
    """With the ends of a source there is lag for each partition and a sum for the group."""
    world.topic("orders", 2)
    world.commit("g", "orders", 0, 40)
    world.commit("g", "orders", 1, 7)
    ends = {TopicPartition("orders", 0): 45, TopicPartition("orders", 1): 5}

    rows = describe(world.ensemble, "g", lambda _: ends).partitions
    _, (summary,), _ = list_groups(world.ensemble, lambda _: ends)

    assert [(row.log_end_offset, row.lag) for row in rows] == [(45, 5), (5, 0)]
    assert summary.lag == 5


def test_list_counts_the_partitions_that_describe_shows(world: MemoryGroups) -> None:
    """Past bug: a group of offsets only was counted with every partition of their topics."""
    world.topic("orders", 6)
    world.topic("clicks", 2)
    for number in (0, 2, 5):
        world.commit("saved", "orders", number, 1)
    world.member("living", "a", {"clicks": 1})
    world.commit("living", "orders", 1, 1)

    _, (living, saved), _ = list_groups(world.ensemble)

    assert (saved.partitions, saved.topics, saved.unowned) == (3, ("orders",), 0)
    assert (living.partitions, living.topics, living.unowned) == (3, ("clicks", "orders"), 2)
    for row in (living, saved):
        assert row.partitions == len(describe(world.ensemble, row.group).partitions)


def test_offsets_of_a_real_group_are_shown(world: MemoryGroups) -> None:
    """Offsets that a JVM member committed read back, in order of topic and number."""
    operator = world.operator(RecordedStore("kafka-0.8.2.2/26-group-offsets-only.jsonl"))
    snapshot = read_snapshot(operator, "g4")

    rows = describe_offsets(snapshot)

    assert rows
    assert [row.topic_partition for row in rows] == sorted(row.topic_partition for row in rows)
    assert all(row.offset is not None and row.owner is None and row.committed_at_ms for row in rows)


def test_an_offset_of_minus_one_is_none(world: MemoryGroups) -> None:
    """A stored -1 is shown as no offset, with its version."""
    world.topic("orders", 1)
    world.commit("g", "orders", 0, -1)

    (row,) = describe_offsets(read_snapshot(world.ensemble, "g"))

    assert (row.offset, row.version, row.committed_at_ms) == (None, 0, None)


def test_unreadable_topics_and_offsets_do_not_hide_the_rest(world: MemoryGroups) -> None:
    """One corrupt znode is one problem; the description continues."""
    world.topic("orders", 1)
    world.server.put("/brokers/topics/broken", b"{")
    world.member("g", "a", {"orders": 1, "broken": 1})
    world.own("g", "orders", 0, "g_a-0")
    world.commit("g", "orders", 0, b"x")

    (row,) = describe(world.ensemble, "g").partitions

    assert (row.owner, row.offset) == ("g_a-0", None)
    assert row.problem is not None
    assert row.problem.value == "unreadable_offset"
