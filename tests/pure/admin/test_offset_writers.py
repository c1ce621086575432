"""Who wrote each offset: by a record, by a reset's marker, or because it is the owner (recipes 28)."""

from __future__ import annotations

from tests.worlds.memory_groups import MemoryGroups
from zkgroup.groups.offset_writers import OffsetWriter, read_writers
from zkgroup.groups.reader import read_snapshot
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, SetData
from zkgroup.znodes.consumers import Offset, commits_path, resets_path
from zkgroup.znodes.group_records import CommitRecord, Reset


def record(offset: int, token: int = 1) -> bytes:
    one = CommitRecord(offset=offset, member="g_gone", host="h", version="9", token=token)
    return one.encode()


def told(world: MemoryGroups) -> OffsetWriter | None:
    """The writer of the one offset of the group."""
    return read_writers(world.ensemble, read_snapshot(world.ensemble, "g")).get(TopicPartition("orders", 0))


def test_the_writer_is_who_committed_the_present_offset() -> None:
    """The record names a member that is gone and stays right through claims; a newer reset counts instead;
    an offset that none of them has is the owner's, or nobody's."""
    world = MemoryGroups()
    world.topic("orders", 1)
    world.commit("g", "orders", 0, 5)
    offset, tp = Offset.path("g", TopicPartition("orders", 0)), TopicPartition("orders", 0)
    assert told(world) is None

    for parent in (commits_path("g"), resets_path("g")):
        world.parent(parent)
    world.write(SetData(offset, b"7", -1), Create(CommitRecord.path("g", tp), record(7)))
    at_ms = world.server.find(offset).stat.mtime  # type: ignore[union-attr]
    gone = OffsetWriter(name="g_gone", host="h", version="9", at_ms=at_ms, by="record")
    assert told(world) == gone

    world.pass_time(60)
    world.member("g", "a", {"orders": 1}, {"zkgroup": "1", "host": "k"})
    world.own("g", "orders", 0, "g_a-0")
    world.write(SetData(offset, b"7", -1))  # the claim's
    assert told(world) == gone

    world.write(SetData(offset, b"8", -1))
    found = told(world)
    assert found is not None
    assert (found.name, found.host, found.version, found.by) == ("g_a", "k", "1", "owner")

    world.write(SetData(offset, b"3", -1), Create(Reset.path("g", tp), Reset(3, 0, "ada").encode()))
    found = told(world)
    assert found is not None
    assert (found.name, found.version, found.by) == ("ada", None, "reset")


def test_an_owner_that_keeps_records_has_not_written_what_has_none() -> None:
    """Another client has, as a JVM member does that is not stopped by any fence."""
    world = MemoryGroups()
    world.topic("orders", 1)
    world.commit("g", "orders", 0, 5)
    world.member("g", "a", {"orders": 1}, {"zkgroup": "1"})
    world.own("g", "orders", 0, "g_a-0")
    world.parent(commits_path("g"))
    snapshot, tp = read_snapshot(world.ensemble, "g"), TopicPartition("orders", 0)
    token = snapshot.owners[tp].stat.czxid
    offset = Offset.path("g", tp)
    world.write(SetData(offset, b"6", -1), Create(CommitRecord.path("g", tp), record(6, token)))
    world.write(SetData(offset, b"9", -1))
    assert told(world) is None
