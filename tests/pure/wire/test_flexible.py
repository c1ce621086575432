"""Flexible versions (KIP-482): compact lengths, null, tagged fields that are known and unknown, headers."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkgroup.errors import CorruptFrameError, UnencodableError
from zkgroup.wire.codec import codec_of
from zkgroup.wire.messages import RequestHeader, ResponseHeader, decode_rest, encode
from zkgroup.wire.primitives import read_uvarint, uvarint
from zkgroup.wire.schema import (
    NO_UUID,
    Boolean,
    Bytes,
    Data,
    Int16,
    Int32,
    Int64,
    NullableFrom,
    NullableString,
    Records,
    String,
    Tag,
    Uuid,
    Versions,
    schema_of,
)


@dataclass(frozen=True, slots=True)
class End:
    epoch: Int32
    offset: Int64


class Pair(NamedTuple):
    left: Int16
    right: Int16


@dataclass(frozen=True, slots=True, kw_only=True)
class Flexible:
    """One field of each kind; flexible from version 1 on, with tagged fields in version 2."""

    FLEXIBLE_FROM: ClassVar[int] = 1

    end: Annotated[End, Tag(10_000), Versions(2)] = End(-1, -1)
    name: String = "n"
    number: Int32 = 7
    replicas: tuple[Int32, ...] = (1, 2)
    note: NullableString = None
    topics: Annotated[tuple[String, ...] | None, NullableFrom(1)] = ("t",)
    pairs: tuple[Pair, ...] = ()
    topic_id: Annotated[Uuid, Versions(1)] = NO_UUID
    raw: Annotated[bytes | None, Data(nullable=True)] = b""
    records: Records = b"r"
    yes: Boolean = True
    cluster: Annotated[NullableString, Tag(0), Versions(2)] = None


def body(replicas: bytes = b"\3\0\0\0\1\0\0\0\2", topics: bytes = b"\2\2t") -> bytes:
    return b"\2n" + b"\0\0\0\7" + replicas + b"\0" + topics + b"\1" + bytes(16) + b"\1" + b"\2r" + b"\1"


def corrupt(payload: bytes, version: int = 2, kind: type = Flexible) -> CorruptFrameError:
    with pytest.raises(CorruptFrameError) as raised:
        decode_rest(kind, version, payload, 0)
    assert raised.value.offset <= len(payload)
    return raised.value


def test_lengths_are_compact() -> None:
    """One more than the length as a varint; every record ends with its tagged fields."""
    pairs = (Pair(1, 2), Pair(3, 4))
    expected = body().replace(b"\2\2t\1", b"\2\2t\3\0\1\0\2\0\0\3\0\4\0") + b"\0"

    for version in (1, 2):
        assert encode(Flexible(pairs=pairs), version) == expected
        assert decode_rest(Flexible, version, expected, 0) == Flexible(pairs=pairs)


def test_the_first_version_is_as_ever() -> None:
    """Lengths of 16 and 32 bits, no tagged fields, and no field of a later version."""
    expected = struct.pack(
        ">h1sii2ih i h1s i i i1s ?", 1, b"n", 7, 2, 1, 2, -1, 1, 1, b"t", 0, 0, 1, b"r", True
    )

    assert encode(Flexible(cluster="is left out"), 0) == expected
    assert decode_rest(Flexible, 0, expected, 0) == Flexible()


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 300, 16_383, 16_384, 32_767])
def test_texts_and_arrays_of_any_length(size: int) -> None:
    """Their varints have one byte, two or three."""
    value = Flexible(name="x" * size, replicas=tuple(range(size)), note="y" * size, topics=("z" * size,))

    payload = encode(value, 1)

    assert payload.startswith(uvarint(size + 1) + b"x" * size + b"\0\0\0\7" + uvarint(size + 1))
    assert decode_rest(Flexible, 1, payload, 0) == value


def test_null_is_a_length_of_zero() -> None:
    """Where the version allows it."""
    value = Flexible(topics=None, raw=None, records=None)
    payload = body(topics=b"\0").replace(b"\1\2r\1", b"\0\0\1") + b"\0"

    assert encode(value, 2) == payload
    assert decode_rest(Flexible, 2, payload, 0) == value
    assert corrupt(b"\0" + payload[1:]).field == "Flexible.name"
    with pytest.raises(UnencodableError, match=r"Flexible\.topics: expected a value"):
        encode(Flexible(topics=None), 0)
    null_array = encode(Flexible(topics=()), 0)
    at = len(b"\0\1n" + bytes(4) + bytes(12) + b"\xff\xff")
    assert corrupt(null_array[:at] + b"\xff" * 4 + null_array[at + 4 :], 0).field == "Flexible.topics"


@pytest.mark.parametrize("value", [None, "x" * 32_768, "\ud800", 5])
def test_a_text_that_does_not_fit_is_named(value: Any) -> None:
    """Also where it is packed together with its neighbours."""
    for version in (0, 1):
        with pytest.raises((UnencodableError, AttributeError)) as raised:
            encode(Flexible(name=value), version)
        assert value == 5 or "Flexible.name" in str(raised.value)


def test_records_are_not_copied() -> None:
    """Read as a view of the frame, and written as the object that was given."""
    records = memoryview(b"r" * 10_000)
    parts: list[Any] = []
    codec_of(Flexible, 2).write(Flexible(records=records), parts)
    payload = b"".join(parts)

    found = decode_rest(Flexible, 2, payload, 0).records

    assert any(part is records for part in parts)
    assert isinstance(found, memoryview)
    assert found.obj is payload
    assert found == records


def test_tagged_fields_are_written_where_they_differ() -> None:
    """By their numbers, each with its size; a structure ends with tagged fields of its own."""
    cluster = b"\0" + b"\2" + b"\2c"
    end = b"\x90\x4e" + b"\x0d" + struct.pack(">iq", 5, 9) + b"\0"

    for value, tags in (
        (Flexible(), b"\0"),
        (Flexible(cluster="c"), b"\1" + cluster),
        (Flexible(end=End(5, 9)), b"\1" + end),
        (Flexible(end=End(5, 9), cluster="c"), b"\2" + cluster + end),
    ):
        assert encode(value, 2) == body() + tags
        assert decode_rest(Flexible, 2, body() + tags, 0) == value


def test_unknown_tagged_fields_are_skipped() -> None:
    """Before, between and behind those that are known, and in records within; of an older version too."""
    known = b"\0\2\2c"
    unknown = b"\1\3abc"
    last = b"\xff\xff\xff\xff\x0f" + b"\0"

    assert decode_rest(Flexible, 2, body() + b"\3" + known + unknown + last, 0) == Flexible(cluster="c")
    assert decode_rest(Flexible, 1, body() + b"\1" + known, 0) == Flexible()
    inner = body().replace(b"\2\2t\1", b"\2\2t\2\0\1\0\2\1\7\2xy") + b"\0"
    assert decode_rest(Flexible, 2, inner, 0) == Flexible(pairs=(Pair(1, 2),))


@pytest.mark.parametrize(
    ("tags", "expected", "found"),
    [
        (b"", "a varint", "the end"),
        (b"\1", "a count of 0 to 0, as 0 bytes are left", "1"),
        (b"\xff\xff\xff\xff\x0f\0\0", "a count of 0 to 1, as 2 bytes are left", "4294967295"),
        (b"\2\1\0\1\0", "a tag above 1", "1"),
        (b"\2\2\0\1\0", "a tag above 2", "1"),
        (b"\1\1\5abcd", "5 bytes", "4 before the end"),
        (b"\1\1\xff\xff\xff\xff\x07", "2147483647 bytes", "0 before the end"),
        (b"\1\0\3\2cx", "2 bytes of tag 0", "3"),
        (b"\1\0\1\2c", "2 bytes of tag 0", "1"),
        (b"\1\x80\x80\x80\x80\x10\0", "a varint of at most 5 bytes, below 2^32", "80 80 80 80 10"),
        (b"\1\x80\x80\x80\x80\x80\0", "a varint of at most 5 bytes, below 2^32", "80 80 80 80 80"),
        (b"\0\0", "the end", "1 bytes more"),
    ],
)
def test_tagged_fields_that_lie_are_refused(tags: bytes, expected: str, found: str) -> None:
    """No count, tag or size is believed before the bytes are there."""
    error = corrupt(body() + tags)

    assert (error.expected, error.found) == (expected, found)


@pytest.mark.parametrize("count", [b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08", b"\x7f"])
def test_a_compact_count_beyond_the_frame_is_refused(count: bytes) -> None:
    """Of numbers, of texts, of bytes; a text has its own limit."""
    assert corrupt(body(replicas=count)).field == "Flexible.replicas"
    assert corrupt(body(topics=count)).field == "Flexible.topics"
    assert corrupt(body(topics=b"\2" + count)).field == "Flexible.topics"
    assert corrupt(body()[:-3] + count).field == "Flexible.records"
    assert corrupt(b"\x81\x80\x02" + b"x" * 32_768).expected == "at most 32767 bytes"


def test_two_fields_of_one_tag_are_a_mistake_of_the_class() -> None:
    """Found when it is first used; so is a tagged field without a default."""
    twice = {"a": Annotated[NullableString, Tag(1)], "b": Annotated[NullableString, Tag(1)]}

    with pytest.raises(TypeError, match="two fields of one tag"):
        schema_of(dataclass(type("Twice", (), {"__annotations__": twice})))
    with pytest.raises(TypeError, match="does not say what it is"):
        schema_of(dataclass(type("Bare", (), {"__annotations__": {"a": Annotated[Int32, Tag(1)]}})))


@given(st.integers(0, 2**32 - 1), st.binary(max_size=2))
def test_varints_survive(value: int, rest: bytes) -> None:
    """Up to five bytes, seven bits each."""
    written = uvarint(value)

    assert read_uvarint(b"\xff" + written + rest, 1, "x") == (value, 1 + len(written))
    assert len(written) == max(1, (value.bit_length() + 6) // 7)


def test_headers_of_flexible_versions_end_with_tagged_fields() -> None:
    """The client id keeps its length of 16 bits."""
    header = RequestHeader(3, 9, 7, "ab")

    assert encode(header, 1) == struct.pack(">hhih2s", 3, 9, 7, 2, b"ab")
    assert encode(header, 2) == encode(header, 1) + b"\0"
    assert decode_rest(RequestHeader, 2, encode(header, 1) + b"\1\5\1x", 0) == header
    assert encode(ResponseHeader(7), 0) == struct.pack(">i", 7)
    assert encode(ResponseHeader(7), 1) == struct.pack(">ix", 7)


def test_a_field_takes_its_default_where_its_version_is_absent() -> None:
    """The default of the class, keyword-only fields included; `absent` says another."""

    @dataclass(frozen=True, slots=True)
    class Grown:
        throttle_ms: Annotated[Int32, Versions(1)] = field(default=5, kw_only=True)
        name: String
        raw: Annotated[Bytes, Versions(1, absent=b"?")]

    found = {one.name: one.versions.absent for one in schema_of(Grown).fields}

    assert found == {"throttle_ms": 5, "name": None, "raw": b"?"}
