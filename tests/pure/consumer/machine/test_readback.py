"""What the znodes of a partition say about a claim or a commit: every boundary of it (recipes 5, 6, 10)."""

from __future__ import annotations

import pytest

from tests.worlds.stepped_group import GROUP, tp
from zkgroup.consumer.machine.ownership import Held
from zkgroup.consumer.machine.paths import Paths
from zkgroup.consumer.machine.readback import Identity, Seen, Verdict, adopted, judge
from zkgroup.consumer.machine.writes import release_without_commit
from zkgroup.model import Znode, ZnodeStat
from zkgroup.model.requests import Check, Delete
from zkgroup.znodes.consumers import Offset, Owner, Reset

MINE = Identity("g_a", 77)
HELD = Held(tp(0), thread=1, token=20, value=5, fence=3, life=10, last=30)
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
        (Seen(offset(), owner(), None), Verdict.STANDS),
        (Seen(offset(b"8"), owner(), None), Verdict.STANDS),
        (Seen(offset(b"8", version=4), owner(), None), Verdict.APPLIED),
        (Seen(offset(b"9", version=4), owner(), None), Verdict.FOREIGN),
        (Seen(offset(b"x", version=4), owner(), None), Verdict.FOREIGN),
        (Seen(offset(b"8", version=5), owner(), None), Verdict.FOREIGN),
        (Seen(offset(version=2), owner(), None), Verdict.FOREIGN),
        (Seen(offset(), owner(), marker(31)), Verdict.RESET),
        (Seen(offset(b"8", version=4), owner(), marker(31)), Verdict.RESET),
        (Seen(offset(), owner(), marker(30)), Verdict.STANDS),
        (Seen(offset(), owner(), marker(29)), Verdict.STANDS),
        (Seen(offset(czxid=11), owner(), marker(31)), Verdict.FENCE_BROKEN),
        (Seen(None, owner(), None), Verdict.FENCE_BROKEN),
        (Seen(offset(), owner(czxid=21), None), Verdict.NOT_MINE),
        (Seen(None, None, marker(31)), Verdict.NOT_MINE),
    ],
)
def test_verdict_on_a_commit_of_8(seen: Seen, verdict: Verdict) -> None:
    """Recipes 6: one version above the fence with that very value is ours; twice written is somebody's."""
    assert judge(HELD, 8, seen, MINE) is verdict


def test_where_nothing_was_to_be_written_a_new_version_is_somebodys() -> None:
    """Recipes 6: a review has no value of its own that could have been applied."""
    assert judge(HELD, None, Seen(offset(b"5", version=4), owner(), None), MINE) is Verdict.FOREIGN


@pytest.mark.parametrize(
    ("seen", "registered_zxid", "is_adopted"),
    [
        (Seen(offset(), owner(), None), 19, True),
        (Seen(offset(), owner(), None), 20, False),
        (Seen(offset(), owner(), None), 21, False),
        (Seen(offset(), owner(), None), None, False),
        (Seen(offset(czxid=20), owner(), None), 19, True),
        (Seen(offset(czxid=21), owner(), None), 19, False),
        (Seen(offset(b"x"), owner(), None), 19, False),
        (Seen(None, owner(), None), 19, False),
        (Seen(offset(), None, None), 19, False),
    ],
)
def test_adopted_is_a_claim_of_this_registration_that_its_offset_fences(
    seen: Seen, registered_zxid: int | None, is_adopted: bool
) -> None:
    """Recipes 5, ADR 0014: younger than the registration, and no younger offset; made with it is as good."""
    held = adopted(tp(0), 1, seen, registered_zxid)

    assert (held is not None) is is_adopted
    if held is not None and seen.offset is not None:
        assert (held.thread, held.token, held.value, held.fence) == (1, 20, 5, 3)
        assert (held.life, held.last) == (seen.offset.stat.czxid, 20)


def test_release_after_a_read_back_deletes_a_claim_of_ours_alone() -> None:
    """Recipes 7: version 1, as no JVM member's has, and nobody has bumped the offset since it was read."""
    paths = Paths(GROUP, "g_a")
    delete = Delete(Owner.path(GROUP, tp(0)), 1)

    assert release_without_commit(paths, tp(0), offset(version=9)) == [
        Check(Offset.path(GROUP, tp(0)), 9),
        delete,
    ]
    assert release_without_commit(paths, tp(0), None) == [delete]
