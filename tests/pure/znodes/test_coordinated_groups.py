"""Znodes of the group coordinator: their texts, paths, and data that is not theirs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.znodes.coordinated_groups import (
    CHUNK_BYTES,
    GroupChunk,
    GroupHeader,
    OffsetAndMetadata,
    ProtocolMarker,
    SlotConfig,
    SlotOwner,
    StoredMember,
    chunks_of,
    members_of,
)

HEADER = GroupHeader(
    generation=7,
    reserved_generation=100,
    protocol_type="consumer",
    protocol="range",
    leader="c-1",
    state_timestamp_ms=1_700_000_000_000,
    first_chunk=2,
    chunks=1,
    checksum=4_000_000_000,
)
EMPTY = GroupHeader(
    generation=8,
    reserved_generation=100,
    protocol_type="consumer",
    protocol=None,
    leader=None,
    state_timestamp_ms=0,
)
METADATA = OffsetAndMetadata(
    offset=2**40, leader_epoch=-1, metadata="\u00e4", commit_timestamp_ms=1_700_000_000_000
)
EXPIRES = OffsetAndMetadata(
    offset=-5, leader_epoch=3, metadata="", commit_timestamp_ms=1, expire_timestamp_ms=2
)
MEMBER = StoredMember(
    member_id="c-1",
    group_instance_id=None,
    client_id="c",
    client_host="/10.0.0.1",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=300_000,
    protocols=(("range", b"\x00\xff"), ("rr", b"")),
    assignment=b"\x01",
)

TEXTS: list[tuple[Any, str]] = [
    (SlotConfig(50), '{"version":1,"slots":50,"hash":"java"}'),
    (SlotOwner(3, 12), '{"version":1,"broker":3,"leader_epoch":12}'),
    (SlotOwner(-1, 12), '{"version":1,"broker":-1,"leader_epoch":12}'),
    (ProtocolMarker(3, 2**40), '{"version":1,"broker":3,"time":"1099511627776"}'),
    (
        HEADER,
        (
            '{"version":1,"generation":7,"reserved":100,"protocol_type":"consumer","protocol":"range",'
            '"leader":"c-1","timestamp":"1700000000000","first_chunk":2,"chunks":1,"checksum":"4000000000"}'
        ),
    ),
    (
        EMPTY,
        (
            '{"version":1,"generation":8,"reserved":100,"protocol_type":"consumer","protocol":null,'
            '"leader":null,"timestamp":"0","first_chunk":0,"chunks":0,"checksum":"0"}'
        ),
    ),
    (
        METADATA,
        (
            '{"version":1,"offset":"1099511627776","leader_epoch":-1,"metadata":"\u00e4",'
            '"committed":"1700000000000"}'
        ),
    ),
    (
        EXPIRES,
        '{"version":1,"offset":"-5","leader_epoch":3,"metadata":"","committed":"1","expires":"2"}',
    ),
    (
        OffsetAndMetadata(offset=1, leader_epoch=0, metadata='"\\\n\x01', commit_timestamp_ms=2),
        r'{"version":1,"offset":"1","leader_epoch":0,"metadata":"\"\\\n\u0001","committed":"2"}',
    ),
    (GroupChunk(b"part"), "part"),
]


@pytest.mark.parametrize(("znode", "text"), TEXTS)
def test_a_znode_has_this_text(znode: Any, text: str) -> None:
    """And is read from it."""
    assert znode.encode().decode() == text
    assert type(znode).decode("/p", text.encode()) == znode


def test_a_leader_epoch_has_32_bits() -> None:
    """Kafka 0.8 reads no larger number in JSON."""
    with pytest.raises(ConfigError, match="leader epoch 2147483648"):
        OffsetAndMetadata(offset=1, leader_epoch=2**31, metadata="", commit_timestamp_ms=2).encode()


def test_a_lone_surrogate_in_the_metadata_of_an_offset_is_stored_as_a_question_mark() -> None:
    """UTF-8 does not have it."""
    metadata = OffsetAndMetadata(offset=1, leader_epoch=0, metadata="\ud800", commit_timestamp_ms=2)

    assert b'"metadata":"?"' in metadata.encode()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (SlotConfig.path(), "/zkgroup/config"),
        (SlotOwner.path(3), "/zkgroup/slots/3"),
        (ProtocolMarker.path("g"), "/consumers/g/protocol"),
        (GroupHeader.path(3, "g"), "/zkgroup/groups/3/g"),
        (GroupChunk.path(3, "g", 7, 0), "/zkgroup/groups/3/g/rec-7-0"),
        (OffsetAndMetadata.path(3, "g", TopicPartition("t", 4)), "/zkgroup/groups/3/g/meta/t/4"),
    ],
)
def test_a_znode_has_this_path(path: str, expected: str) -> None:
    """Below the chroot."""
    assert path == expected


@pytest.mark.parametrize("kind", sorted({type(znode) for znode, _ in TEXTS}, key=str))
@pytest.mark.parametrize("data", [None, b"", b"{}", b"[]", b"{", b"\xff", b'{"version":1,"slots":"x"}'])
def test_other_data_is_corrupt(kind: Any, data: bytes | None) -> None:
    """With the path; a chunk is any bytes but none."""
    if kind is GroupChunk and data:
        assert GroupChunk.decode("/p", data).data == data
    else:
        with pytest.raises(CorruptZnodeError, match=r"^/p: "):
            kind.decode("/p", data)


@pytest.mark.parametrize(
    ("znode", "text", "wrong"),
    [
        (SlotConfig, '{"slots":50,"hash":"java"}', '{"slots":0,"hash":"java"}'),
        (SlotConfig, '{"slots":50,"hash":"java"}', '{"slots":50,"hash":"murmur2"}'),
        (GroupHeader, TEXTS[4][1], TEXTS[4][1].replace('"generation":7', '"generation":-1')),
        (GroupHeader, TEXTS[4][1], TEXTS[4][1].replace('"reserved":100', '"reserved":true')),
        (GroupHeader, TEXTS[4][1], TEXTS[4][1].replace('"4000000000"', '"4294967296"')),
        (GroupHeader, TEXTS[4][1], TEXTS[4][1].replace('"c-1"', "3")),
        (OffsetAndMetadata, TEXTS[6][1], TEXTS[6][1].replace('"1099511627776"', "7")),
    ],
)
def test_values_have_their_limits(znode: Any, text: str, wrong: str) -> None:
    """What is beyond them is corrupt."""
    znode.decode("/p", text.encode())
    with pytest.raises(CorruptZnodeError):
        znode.decode("/p", wrong.encode())


def test_impossible_values_are_not_written() -> None:
    """A generation grows from 0; there is at least one slot."""
    for znode in (SlotConfig(0), GroupHeader.decode("/p", EMPTY.encode())):
        broken: Any = znode
        if isinstance(znode, GroupHeader):
            fields = {name: getattr(znode, name) for name in GroupHeader.__dataclass_fields__}
            broken = GroupHeader(**{**fields, "generation": -1})
        with pytest.raises(ConfigError):
            broken.encode()


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("rec-7-0", (7, 0)),
        ("rec-101-12", (101, 12)),
        ("meta", None),
        ("rec-7", None),
        ("rec-7-0-1", None),
        ("rec-x-0", None),
        ("other-7-0", None),
    ],
)
def test_chunks_are_known_by_their_names(name: str, parsed: tuple[int, int] | None) -> None:
    """Beside the metadata of offsets."""
    assert GroupChunk.parse(name) == parsed


def header_of(members: list[StoredMember], chunk_bytes: int) -> tuple[GroupHeader, list[GroupChunk]]:
    chunks, checksum = chunks_of(members, chunk_bytes)
    fields = {name: getattr(HEADER, name) for name in GroupHeader.__dataclass_fields__}
    return GroupHeader(**{**fields, "chunks": len(chunks), "checksum": checksum}), chunks


MEMBERS = st.lists(
    st.builds(
        StoredMember,
        member_id=st.text(),
        group_instance_id=st.none() | st.text(),
        client_id=st.text(),
        client_host=st.text(),
        session_timeout_ms=st.integers(0, 2**31 - 1),
        rebalance_timeout_ms=st.integers(-1, 2**31 - 1),
        protocols=st.lists(st.tuples(st.text(), st.binary())).map(tuple),
        assignment=st.binary(),
    ),
    max_size=4,
)


@given(MEMBERS, st.integers(1, 400))
def test_members_are_read_as_they_were_written(members: list[StoredMember], chunk_bytes: int) -> None:
    """In chunks of any size; an empty group has none."""
    header, chunks = header_of(members, chunk_bytes)

    assert members_of("/p", header, chunks) == tuple(members)
    assert all(len(chunk.data) <= chunk_bytes for chunk in chunks)
    assert bool(chunks) is bool(members)


def test_a_large_group_has_chunks_of_half_a_mebibyte() -> None:
    """Each fits a request with what goes beside it."""
    chunks, _ = chunks_of([MEMBER] * 10_000)

    assert len(chunks) > 2
    assert {len(chunk.data) for chunk in chunks[:-1]} == {CHUNK_BYTES} == {524_288}


@pytest.mark.parametrize("change", ["one less", "another order", "a byte"])
def test_chunks_that_are_not_the_headers_are_corrupt(change: str) -> None:
    """Those of another write, or a part of them."""
    header, chunks = header_of([MEMBER] * 3, 100)
    if change == "one less":
        chunks = chunks[:-1]
    elif change == "another order":
        chunks = chunks[::-1]
    else:
        chunks[1] = GroupChunk(b"x" + chunks[1].data[1:])

    with pytest.raises(CorruptZnodeError, match="checksum"):
        members_of("/p", header, chunks)
