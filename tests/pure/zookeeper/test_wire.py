"""Requests and replies as bytes: kazoo's own encoders are the witness, ZooKeeper's layouts the rest."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.protocol import serialization as kazoo_bytes
from kazoo.security import OPEN_ACL_UNSAFE

from zkgroup.model import Znode, ZnodeStat
from zkgroup.model.requests import (
    Check,
    Code,
    Create,
    Delete,
    MultiDone,
    MultiRefused,
    Operation,
    SetData,
)
from zkgroup.zookeeper.settings import OPEN_ACL, Acl
from zkgroup.zookeeper.wire import (
    ChrootPaths,
    Op,
    decode_acl,
    decode_children,
    decode_data,
    decode_event,
    decode_multi,
    decode_znode,
    encode_create,
    encode_multi,
    encode_path,
    encode_read,
    encode_reads,
    frame,
    pack_acl,
)

ROOT = ChrootPaths("")
ACL = pack_acl(OPEN_ACL)
STAT = ZnodeStat(*range(1, 12))
STAT_BYTES = struct.pack("!qqqqiiiqiiq", *STAT)

names = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20)
paths = st.lists(names, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))
versions = st.integers(-1, 2**31 - 1)
operations = st.one_of(
    st.builds(Create, paths, st.none() | st.binary(max_size=40), st.booleans(), st.booleans()),
    st.builds(SetData, paths, st.binary(max_size=40), versions),
    st.builds(Delete, paths, versions),
    st.builds(Check, paths, versions),
)


def as_kazoo(operation: Operation) -> object:
    match operation:
        case Create(path, data, ephemeral, sequential):
            return kazoo_bytes.Create(path, data, OPEN_ACL_UNSAFE, ephemeral + 2 * sequential)
        case SetData(path, data, version):
            return kazoo_bytes.SetData(path, data, version)
        case Delete(path, version):
            return kazoo_bytes.Delete(path, version)
        case Check(path, version):
            return kazoo_bytes.CheckVersion(path, version)


@given(st.lists(operations, max_size=8))
def test_a_multi_is_written_as_kazoo_writes_it(wanted: list[Operation]) -> None:
    """Byte for byte, for any operations."""
    theirs = kazoo_bytes.Transaction([as_kazoo(operation) for operation in wanted]).serialize()
    assert encode_multi(wanted, ROOT, lambda _: ACL) == bytes(theirs)


@given(paths, st.booleans(), st.none() | st.binary(max_size=40))
def test_single_requests_are_written_as_kazoo_writes_them(path: str, watch: bool, data: bytes | None) -> None:
    """Reads, creates and sync."""
    raw = path.encode()
    assert encode_read(raw, watch) == bytes(kazoo_bytes.GetData(path, watch).serialize())
    assert encode_path(raw) == kazoo_bytes.Sync(path).serialize()
    assert encode_create(raw, data, ACL, 0) == bytes(
        kazoo_bytes.Create(path, data, OPEN_ACL_UNSAFE, 0).serialize()
    )


def test_a_frame_has_its_length_its_xid_and_its_operation_in_front() -> None:
    """The length counts all but itself."""
    assert frame(5, Op.SYNC, b"body") == struct.pack("!iii", 12, 5, 9) + b"body"


def test_an_acl_is_a_vector_of_permissions_scheme_and_identity() -> None:
    """The letters become ZooDefs.Perms."""
    packed = pack_acl((Acl("rw", "digest", "me:x"),))
    assert packed == struct.pack("!iii", 1, 3, 6) + b"digest" + struct.pack("!i", 4) + b"me:x"


@given(
    st.lists(paths, min_size=1, max_size=60),
    st.integers(1, 20),
    st.integers(60, 600),
    st.sampled_from([Op.GET_DATA, Op.GET_CHILDREN]),
)
def test_bulk_reads_are_cut_into_packets_within_both_bounds(
    wanted: list[str], max_paths: int, max_bytes: int, op: Op
) -> None:
    """Every path once, in order; only a path that is too long by itself exceeds the bytes."""
    raw = ROOT.raws(wanted)
    packets = list(encode_reads(op, raw, max_paths=max_paths, max_bytes=max_bytes))
    end = struct.pack("!iBi", -1, 1, -1)
    expected_start = 0
    for start, stop, body in packets:
        assert start == expected_start
        expected_start = stop
        assert 1 <= stop - start <= max_paths
        assert len(body) + 8 <= max_bytes or stop - start == 1
        each = (struct.pack("!iBii", op, 0, -1, len(path)) + path + b"\0" for path in raw[start:stop])
        assert body == b"".join(each) + end
    assert expected_start == len(raw)


def test_the_answers_of_a_bulk_read_are_given_path_by_path() -> None:
    """Data, null, empty, missing and forbidden, whatever lies before and after them."""
    parts = [
        struct.pack("!iBii", 4, 0, 0, 3) + b"abc" + STAT_BYTES,
        struct.pack("!iBii", 4, 0, 0, -1) + STAT_BYTES,
        struct.pack("!iBii", 4, 0, 0, 0) + STAT_BYTES,
        struct.pack("!iBii", -1, 0, -101, -101),
        struct.pack("!iBii", -1, 0, -102, -102),
    ]
    body = b"".join(parts)
    found, end = decode_data(b"before" + body + b"after", 6, ("/a", "/b", "/c", "/d", "/e"))
    assert found == [
        Znode("/a", b"abc", STAT), Znode("/b", None, STAT), Znode("/c", b"", STAT), None, Code.NO_AUTH,
    ]  # fmt: skip
    assert end == 6 + len(body)
    assert isinstance(found[0], Znode)
    assert isinstance(found[0].stat, ZnodeStat)


def test_the_answers_of_a_bulk_listing_are_given_path_by_path() -> None:
    """Names, none, missing, forbidden."""
    two = (
        struct.pack("!iBii", 8, 0, 0, 2) + struct.pack("!i", 1) + b"x" + struct.pack("!i", 3) + "ü.".encode()
    )
    body = (
        two
        + struct.pack("!iBii", 8, 0, 0, 0)
        + struct.pack("!iBii", -1, 0, -101, -101)
        + struct.pack("!iBii", -1, 0, -102, -102)
    )
    found, end = decode_children(body, 0, 4)
    assert found == [("x", "ü."), (), None, Code.NO_AUTH]
    assert end == len(body)


def test_an_acl_is_decoded_entry_by_entry() -> None:
    """With the Stat after it; an ACL without entries is invalid."""

    def text(value: str) -> bytes:
        return struct.pack("!i", len(value.encode())) + value.encode()

    two = (
        struct.pack("!ii", 2, 31)
        + text("world")
        + text("anyone")
        + struct.pack("!i", 1)
        + text("ip")
        + text("ü")
    )

    assert decode_acl(b"before" + two + STAT_BYTES, 6) == (((31, "world", "anyone"), (1, "ip", "ü")), STAT)
    assert decode_acl(struct.pack("!i", 0) + STAT_BYTES, 0) == ((), STAT)


def test_a_multi_returns_stats_created_paths_and_its_zxid() -> None:
    """Created paths come without the chroot, in order."""
    wanted = (Create("/n", None), SetData("/n", b"", 0), Check("/n", 1), Delete("/n", 1), Create("/s-", b""))
    chroot = ChrootPaths("/base")
    reply = b"".join(
        [
            struct.pack("!iBi", 1, 0, 0) + struct.pack("!i", 7) + b"/base/n",
            struct.pack("!iBi", 5, 0, 0) + STAT_BYTES,
            struct.pack("!iBi", 13, 0, 0),
            struct.pack("!iBi", 2, 0, 0),
            struct.pack("!iBi", 1, 0, 0) + struct.pack("!i", 10) + b"/base/s-01",
            struct.pack("!iBi", -1, 1, -1),
        ]
    )
    done = decode_multi(reply, 0, wanted, chroot, 77)
    assert done == MultiDone((None, STAT, None, None, None), 77, ("/n", "/s-01"))


@pytest.mark.parametrize("index", range(4))
def test_a_refused_multi_names_the_refused_operation(index: int) -> None:
    """Zeros before it (rolled back), RuntimeInconsistency after it."""
    numbers = [0] * index + [-103] + [-2] * (3 - index)
    reply = b"".join(struct.pack("!iBii", -1, 0, number, number) for number in numbers)
    wanted = tuple(Check(f"/{n}", 0) for n in range(4))
    assert decode_multi(reply, 0, wanted, ROOT, 1) == MultiRefused(index, Code.BAD_VERSION)


def test_a_znode_without_data_is_not_one_with_empty_data() -> None:
    """Null has the length -1 on the wire."""
    assert decode_znode("/a", struct.pack("!i", -1) + STAT_BYTES, 0) == Znode("/a", None, STAT)
    assert decode_znode("/a", struct.pack("!i", 0) + STAT_BYTES, 0) == Znode("/a", b"", STAT)


def test_a_watch_event_has_kind_and_path() -> None:
    """Type, state, path."""
    assert decode_event(struct.pack("!iii", 3, 3, 2) + b"/a", 0) == (3, "/a")


@given(paths, st.sampled_from(["", "/base", "/a/b"]))
def test_the_chroot_is_put_before_every_path_and_taken_off_again(path: str, root: str) -> None:
    """There and back, one by one and many at once."""
    where = ChrootPaths(root)
    assert where.relative(where.absolute(path)) == path
    assert where.raws([path, "/"]) == [where.raw(path), (root or "/").encode()]


@pytest.mark.parametrize("path", ["", "a", "a/b", "../a"])
def test_a_path_that_would_leave_the_chroot_is_refused(path: str) -> None:
    """`/base` and `x` would make `/basex`."""
    with pytest.raises(ValueError, match="starts with '/'"):
        ChrootPaths("/base").raw(path)
    with pytest.raises(ValueError, match="starts with '/'"):
        ChrootPaths("/base").raws(["/fine", path])
