"""What the znodes of a partition say about a claim or a commit: every boundary of it (recipes 5, 6, 10)."""

from __future__ import annotations

import pytest

from tests.worlds.stepped_group import GROUP, tp
from zkgroup.consumer.machine.machine_context import GroupPaths, OwnedPartition
from zkgroup.consumer.machine.transactions import (
    MemberIdentity,
    PartitionZnodes,
    WriteVerdict,
    adopted_partition,
    classify,
    release_without_commit,
)
from zkgroup.model import Znode, ZnodeStat
from zkgroup.model.requests import Check, Delete
from zkgroup.znodes.consumers import Offset, Owner
from zkgroup.znodes.group_records import Reset

MINE = MemberIdentity("g_a", 77)
HELD = OwnedPartition(tp(0), thread=1, token=20, value=5, fence=3, offset_czxid=10, last_mzxid=30)
"""Claimed by transaction 20, last written by 30."""


def znode(
    path: str, data: bytes, *, czxid: int = 1, mzxid: int = 1, version: int = 0, owner: int = 0
) -> Znode:
    return Znode(path, data, ZnodeStat(czxid, mzxid, 0, 0, version, 0, 0, owner, len(data), 0, czxid))


def owner(text: bytes = b"g_a-1", *, czxid: int = 20, session: int = 77) -> Znode:
    return znode(Owner.path(GROUP, tp(0)), text, czxid=czxid, mzxid=czxid, version=1, owner=session)


def offset(value: bytes = b"5", *, version: int = 3, czxid: int = 10) -> Znode:
    return znode(Offset.path(GROUP, tp(0)), value, czxid=czxid, version=version)


def marker(mzxid: int) -> Znode:
    return znode(Reset.path(GROUP, tp(0)), b'{"version":1,"offset":2}', mzxid=mzxid)


@pytest.mark.parametrize(
    ("found", "thread"),
    [
        (owner(), 1),
        (owner(b"g_a-12"), 12),
        (owner(session=78), None),
        (owner(b"g_b-1"), None),
        (owner(b"g_a-b-1"), None),
        (owner(b"\xff"), None),
        (None, None),
    ],
)
def test_mine_is_session_and_member_together(found: Znode | None, thread: int | None) -> None:
    """Recipes 1: neither the text alone, which a restarted process writes too, nor a shared session alone."""
    assert MINE.thread_of(found) == thread


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (PartitionZnodes(offset(), owner(), None), WriteVerdict.UNCHANGED),
        (PartitionZnodes(offset(b"8"), owner(), None), WriteVerdict.UNCHANGED),
        (PartitionZnodes(offset(b"8", version=4), owner(), None), WriteVerdict.APPLIED),
        (PartitionZnodes(offset(b"9", version=4), owner(), None), WriteVerdict.FOREIGN),
        (PartitionZnodes(offset(b"x", version=4), owner(), None), WriteVerdict.FOREIGN),
        (PartitionZnodes(offset(b"8", version=5), owner(), None), WriteVerdict.FOREIGN),
        (PartitionZnodes(offset(version=2), owner(), None), WriteVerdict.FOREIGN),
        (PartitionZnodes(offset(), owner(), marker(31)), WriteVerdict.RESET),
        (PartitionZnodes(offset(b"8", version=4), owner(), marker(31)), WriteVerdict.RESET),
        (PartitionZnodes(offset(), owner(), marker(30)), WriteVerdict.UNCHANGED),
        (PartitionZnodes(offset(), owner(), marker(29)), WriteVerdict.UNCHANGED),
        (PartitionZnodes(offset(czxid=11), owner(), marker(31)), WriteVerdict.FENCE_BROKEN),
        (PartitionZnodes(None, owner(), None), WriteVerdict.FENCE_BROKEN),
        (PartitionZnodes(offset(), owner(czxid=21), None), WriteVerdict.NOT_MINE),
        (PartitionZnodes(None, None, marker(31)), WriteVerdict.NOT_MINE),
    ],
)
def test_verdict_on_a_commit_of_8(seen: PartitionZnodes, verdict: WriteVerdict) -> None:
    """Recipes 6: one version above the fence with the same value is the member's write; two are another's."""
    assert classify(HELD, 8, seen, MINE) is verdict


def test_where_nothing_was_to_be_written_a_new_version_is_a_foreign_write() -> None:
    """A review has no value of its own that could have been applied (recipes 6)."""
    assert (
        classify(HELD, None, PartitionZnodes(offset(b"5", version=4), owner(), None), MINE)
        is WriteVerdict.FOREIGN
    )


@pytest.mark.parametrize(
    ("seen", "registered_zxid", "is_adopted"),
    [
        (PartitionZnodes(offset(), owner(), None), 19, True),
        (PartitionZnodes(offset(), owner(), None), 20, False),
        (PartitionZnodes(offset(), owner(), None), 21, False),
        (PartitionZnodes(offset(), owner(), None), None, False),
        (PartitionZnodes(offset(czxid=20), owner(), None), 19, True),
        (PartitionZnodes(offset(czxid=21), owner(), None), 19, False),
        (PartitionZnodes(offset(b"x"), owner(), None), 19, False),
        (PartitionZnodes(None, owner(), None), 19, False),
        (PartitionZnodes(offset(), None, None), 19, False),
    ],
)
def test_adopted_is_a_claim_of_this_registration_that_its_offset_fences(
    seen: PartitionZnodes, registered_zxid: int | None, is_adopted: bool
) -> None:
    """Recipes 5, ADR 0014: younger than the registration, and no younger offset; made with it is as good."""
    held = adopted_partition(tp(0), 1, seen, registered_zxid)

    assert (held is not None) is is_adopted
    if held is not None and seen.offset is not None:
        assert (held.thread, held.token, held.value, held.fence) == (1, 20, 5, 3)
        assert (held.offset_czxid, held.last_mzxid) == (seen.offset.stat.czxid, 20)


def test_release_after_a_read_back_deletes_only_an_own_claim() -> None:
    """Version 1, which no JVM member's claim has, and an offset unchanged since it was read (recipes 7)."""
    paths = GroupPaths(GROUP, "g_a")
    delete = Delete(Owner.path(GROUP, tp(0)), 1)

    assert release_without_commit(paths, tp(0), offset(version=9)) == [
        Check(Offset.path(GROUP, tp(0)), 9),
        delete,
    ]
    assert release_without_commit(paths, tp(0), None) == [delete]
