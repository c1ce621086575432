"""The writes that `zkgroup demo audit` plants: they lose no record and check the offsets they read."""

from __future__ import annotations

from pathlib import Path

import pytest

from zkgroup.demo.audit import HeldOffset, PlannedWrite, held_by, late_commit, rewind
from zkgroup.demo.flight_data import Processed, encode_line, last_of
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Znode, ZnodeStat
from zkgroup.znodes.consumers import Offset, Owner

ENDS = [1_700] * 12
TOKEN = 0x26


def znode(path: str, text: str, czxid: int = TOKEN) -> Znode:
    """One that was made at a zxid."""
    stat = ZnodeStat(czxid, czxid, 0, 0, 1, 0, 0, 0, len(text), 0, czxid)
    return Znode(path, text.encode(), stat)


def held(partition: int, committed: int) -> HeldOffset:
    """A partition of ada, claimed at TOKEN."""
    tp = TopicPartition("flights", partition)
    owner = znode(Owner.path("demo", tp), "demo_ada-0")
    return HeldOffset(partition, owner, znode(Offset.path("demo", tp), str(committed)), committed)


def processed(partition: int, offset: int, token: int = TOKEN) -> Processed:
    """A record of hers."""
    return Processed(partition, offset, "SFO", 4, token)


def test_commit_names_what_is_processed_and_not_committed() -> None:
    """Up to the last record in the owner's file, for its partition."""
    mine = [held(0, 250), held(1, 255)]

    assert late_commit(mine, processed(1, 274)) == PlannedWrite(mine[1], 275)
    assert late_commit(mine, processed(1, 255)) == PlannedWrite(mine[1], 256)


@pytest.mark.parametrize(
    "last",
    [None, processed(1, 254), processed(2, 300), processed(1, 274, token=0x20)],
    ids=["nothing processed", "all committed", "another's partition", "under a former ownership"],
)
def test_no_commit_where_a_record_could_be_lost_or_nothing_rises(last: Processed | None) -> None:
    """A committed offset would not rise; a record that another owner processed does not count."""
    assert late_commit([held(0, 250), held(1, 255)], last) is None


@pytest.mark.parametrize(
    ("committed", "after"), [(-1, None), (1, None), (2, 1), (255, 127), (1_699, 849), (1_700, None)]
)
def test_rewind_goes_back_to_half_while_something_is_left(committed: int, after: int | None) -> None:
    """At the end of a partition its owner would never commit again, so it would not be noticed."""
    one = held(3, committed)

    assert rewind([one], ENDS) == (None if after is None else PlannedWrite(one, after))


def test_rewind_takes_the_first_partition_that_fits() -> None:
    """Others are left alone."""
    mine = [held(8, 1_700), held(9, 292), held(10, 300)]

    assert rewind(mine, ENDS) == PlannedWrite(mine[1], 146)


def test_only_what_the_member_owns_by_its_znode_is_held() -> None:
    """Partitions without owner, of another owner, or without offset are left out."""
    found: dict[str, Znode | None] = {}
    for partition, owner, offset in [(0, "ada", "7"), (1, None, "7"), (2, "ben", "7"), (3, "ada", None)]:
        tp = TopicPartition("flights", partition)
        paths = Owner.path("demo", tp), Offset.path("demo", tp)
        found[paths[0]] = None if owner is None else znode(paths[0], f"demo_{owner}-0")
        found[paths[1]] = None if offset is None else znode(paths[1], offset)

    assert [(one.partition, one.committed) for one in held_by("demo_ada", "demo", range(4), found)] == [
        (0, 7)
    ]


def test_last_record_of_a_growing_file(tmp_path: Path) -> None:
    """A line that is being written does not count; neither does what is far from the end cost anything."""
    file = tmp_path / "ada.processed.jsonl"
    assert last_of(file) is None
    file.write_bytes(b"")
    assert last_of(file) is None
    lines = [encode_line(processed(0, offset)) for offset in range(200)]
    file.write_bytes(b"".join(lines))
    assert last_of(file) == processed(0, 199)
    file.write_bytes(b"".join(lines) + b'{"partition":0')
    assert last_of(file) == processed(0, 199)
    file.write_bytes(lines[0][:-1])
    assert last_of(file) is None
