"""Dataclasses as layouts: versions of a field, what may be missing, and what is refused by which name."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import pytest

from zkgroup.errors import ConfigError, CorruptFrameError, UnencodableError, WireError
from zkgroup.wire import codec
from zkgroup.wire.control import (
    ControlledShutdownRequest,
    LeaderAndIsrRequest,
    PartitionError,
    PartitionStateInfo,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataBroker,
    UpdateMetadataRequest,
)
from zkgroup.wire.messages import Response, decode_response, decode_rest, encode, framed
from zkgroup.wire.records import EpochEnd
from zkgroup.wire.schema import (
    Boolean,
    Bytes,
    ErrorText,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableString,
    String,
    Versions,
    schema_of,
)


@dataclass(frozen=True, slots=True)
class Inner:
    name: String
    epoch: Annotated[Int32, Versions(2, absent=-1)]


@dataclass(frozen=True, slots=True)
class Sample:
    """As a request of a group grows: a field comes, another goes, texts may be missing."""

    group: String
    retention_ms: Annotated[Int64, Versions(1, 2, absent=-1)]
    instance: Annotated[NullableString, Versions(3)]
    inners: tuple[Inner, ...]
    last: Int8


class Pair(NamedTuple):
    left: Int16
    right: Int16


@dataclass(frozen=True, slots=True)
class Pairs:
    first: Pair
    rest: tuple[Pair, ...]
    blobs: tuple[Bytes, ...]
    yes: Boolean


@dataclass(frozen=True, slots=True)
class Numbers:
    alone: tuple[Int64, ...]


def corrupt(kind: type, payload: bytes) -> CorruptFrameError:
    with pytest.raises(CorruptFrameError) as raised:
        decode_rest(kind, 0, payload, 0)
    return raised.value


def unencodable(value: object) -> UnencodableError:
    with pytest.raises(UnencodableError) as raised:
        encode(value, 0)
    return raised.value


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, b"\0\1g" + b"\0\0\0\1" + b"\0\1i" + b"\5"),
        (1, b"\0\1g" + struct.pack(">q", 7) + b"\0\0\0\1" + b"\0\1i" + b"\5"),
        (2, b"\0\1g" + struct.pack(">q", 7) + b"\0\0\0\1" + b"\0\1i\0\0\0\4" + b"\5"),
        (3, b"\0\1g" + b"\0\1x" + b"\0\0\0\1" + b"\0\1i\0\0\0\4" + b"\5"),
    ],
)
def test_each_version_has_its_fields(version: int, expected: bytes) -> None:
    """A field is on the wire in its versions, in inner records too; elsewhere it is read as what it says."""
    value = Sample("g", 7, "x", (Inner("i", 4),), 5)

    assert encode(value, version) == expected
    assert decode_rest(Sample, version, expected, 0) == Sample(
        "g",
        7 if version in (1, 2) else -1,
        "x" if version == 3 else None,
        (Inner("i", 4 if version >= 2 else -1),),
        5,
    )


def test_a_missing_text_is_minus_one() -> None:
    """None is a length of -1; an empty text is one of 0."""
    assert encode(Sample("", -1, None, (), 0), 3) == b"\0\0" + b"\xff\xff" + bytes(5)
    assert encode(Sample("", -1, "", (), 0), 3) == b"\0\0" + b"\0\0" + bytes(5)
    assert decode_rest(Sample, 3, b"\0\0" + b"\xff\xff" + bytes(5), 0).instance is None


def test_named_tuples_and_bytes_and_truth() -> None:
    """A named tuple lies as a dataclass does."""
    value = Pairs(Pair(1, -2), (Pair(3, 4), Pair(5, 6)), (b"", b"ab"), True)
    expected = struct.pack(">hhihhhhiiiss?", 1, -2, 2, 3, 4, 5, 6, 2, 0, 2, b"a", b"b", True)

    assert encode(value, 0) == expected
    assert decode_rest(Pairs, 0, expected, 0) == value


@pytest.mark.parametrize("count", [0, 7, 8, 300])
def test_arrays_of_numbers_of_any_length(count: int) -> None:
    """By themselves, and among other fields."""
    numbers = tuple(range(-1, count - 1))
    state = PartitionStateInfo("t", 1, 2, 3, 4, numbers, 5, numbers[::-1])
    array = struct.pack(f">i{count}i", count, *numbers)
    back = struct.pack(f">i{count}i", count, *numbers[::-1])
    expected = b"\0\1t" + struct.pack(">iiii", 1, 2, 3, 4) + array + struct.pack(">i", 5) + back

    assert encode(Numbers(numbers), 0) == struct.pack(f">i{count}q", count, *numbers)
    assert decode_rest(Numbers, 0, encode(Numbers(numbers), 0), 0) == Numbers(numbers)
    assert encode(state, 0) == expected
    assert decode_rest(PartitionStateInfo, 0, expected, 0) == state


@dataclass(frozen=True, slots=True)
class MayEnd(Response):
    """A response with a record that may be missing."""

    error: Int16
    diverging: EpochEnd | None = None


def test_what_may_be_missing_has_a_sign_before_it() -> None:
    """-1 and nothing, or 1 and the record; any other sign is refused."""
    absent = struct.pack(">hb", 0, -1)
    present = struct.pack(">hbiq", 0, 1, 3, 9)

    assert encode(MayEnd(0), 0) == absent
    assert encode(MayEnd(0, EpochEnd(3, 9)), 0) == present
    assert decode_rest(MayEnd, 0, absent, 0).diverging is None
    assert decode_rest(MayEnd, 0, present, 0).diverging == EpochEnd(3, 9)
    error = corrupt(MayEnd, absent[:2] + b"\0")
    assert (error.field, error.offset, error.found) == ("MayEnd.diverging", 2, "0")


PARTITION = PartitionStateInfo("t", 0, 1, 1, 0, (1,), 0, (1,))


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (ControlledShutdownRequest(2**31), "ControlledShutdownRequest.broker"),
        (StopReplicaRequest(1, -(2**31) - 1, False, ()), "StopReplicaRequest.controller_epoch"),
        (
            LeaderAndIsrRequest(1, 1, (PARTITION._replace(leader_epoch=2**31),), ()),
            "PartitionStateInfo.leader_epoch",
        ),
        (UpdateMetadataRequest(1, 1, (PARTITION._replace(isr=(1, 2**31)),), ()), "PartitionStateInfo.isr"),
        (
            UpdateMetadataRequest(1, 1, (PARTITION._replace(topic="x" * 32768),), ()),
            "PartitionStateInfo.topic",
        ),
        (
            UpdateMetadataRequest(1, 1, (), (UpdateMetadataBroker(1, "\ud800", 9092),)),
            "UpdateMetadataBroker.host",
        ),
        (StopReplicaResponse(0, (PartitionError("t", 0, 70_000),)), "PartitionError.error"),
        (Sample("g", -1, None, (), 128), "Sample.last"),
    ],
)
def test_a_value_that_does_not_fit_is_named(value: object, field: str) -> None:
    """The message says which field of which class; it is an error of the input."""
    error = unencodable(value)

    assert error.field == field
    assert str(error).startswith(f"{field}: expected ")
    assert isinstance(error, ConfigError)


def test_a_long_value_is_shown_in_short() -> None:
    """A message never repeats all of what it refuses."""
    assert (
        len(str(unencodable(UpdateMetadataRequest(1, 1, (), (UpdateMetadataBroker(1, "x" * 40_000, 1),)))))
        < 200
    )
    assert (
        len(str(unencodable(UpdateMetadataRequest(1, 1, (PARTITION._replace(isr=(2**31,) * 999),), ()))))
        < 200
    )


@pytest.mark.parametrize(
    ("payload", "field", "offset", "expected", "found"),
    [
        (b"\0\0\0\1\0", "StopReplicaRequest.controller_epoch", 4, "4 bytes", "1 before the end"),
        (bytes(8), "StopReplicaRequest.delete", 8, "1 bytes", "0 before the end"),
        (bytes(8) + b"\xff", "StopReplicaRequest.delete", 8, "0 or 1", "-1"),
        (bytes(9), "StopReplicaRequest.partitions", 9, "4 bytes", "0 before the end"),
        (
            bytes(9) + b"\xff\xff\xff\xff",
            "StopReplicaRequest.partitions",
            9,
            "a count of 0 to 0, as 0 bytes are left",
            "-1",
        ),
        (
            bytes(9) + b"\0\0\0\3" + bytes(13),
            "StopReplicaRequest.partitions",
            9,
            "a count of 0 to 2, as 13 bytes are left",
            "3",
        ),
        (
            bytes(9) + b"\0\0\0\1" + b"\xff\xff" + bytes(4),
            "TopicPartition.topic",
            13,
            "the length of a string",
            "-1",
        ),
        (
            bytes(9) + b"\0\0\0\1" + b"\0\5" + bytes(4),
            "TopicPartition.topic",
            15,
            "5 bytes",
            "4 before the end",
        ),
        (bytes(9) + b"\0\0\0\1" + b"\0\1\xff" + bytes(4), "TopicPartition.topic", 15, "UTF-8", "b'\\xff'"),
        (bytes(13) + b"x", "StopReplicaRequest", 13, "the end", "1 bytes more"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    payload: bytes, field: str, offset: int, expected: str, found: str
) -> None:
    """Field, offset, expected and found, for each way in which a frame can be wrong."""
    error = corrupt(StopReplicaRequest, payload)

    assert (error.field, error.offset, error.expected, error.found) == (field, offset, expected, found)
    assert str(error) == f"{field}, byte {offset} of the frame: expected {expected}, found {found}"
    assert isinstance(error, WireError)


@pytest.mark.parametrize(
    ("length", "found"), [(b"\xff\xff\xff\xfe", "-2"), (b"\x7f\xff\xff\xff", "0 before the end")]
)
def test_bytes_of_an_impossible_length_are_refused(length: bytes, found: str) -> None:
    """Below zero, or more than there are."""
    error = corrupt(Pairs, bytes(8) + b"\0\0\0\1" + length)

    assert (error.field, error.found) == ("Pairs.blobs", found)


def test_a_text_that_may_be_missing_has_one_length_below_zero() -> None:
    """-1 is None; -2 is no length."""
    with pytest.raises(CorruptFrameError, match="nullable string, found -2"):
        decode_rest(Sample, 3, b"\0\0" + b"\xff\xfe" + bytes(5), 0)


def test_an_answer_is_read_with_the_kind_that_was_asked_for() -> None:
    """Correlation id first, then the body to its end."""
    payload = struct.pack(">ihi", 9, 0, 0)

    assert decode_response(StopReplicaResponse, payload) == (9, StopReplicaResponse(0))
    with pytest.raises(CorruptFrameError, match="expected the end"):
        decode_response(StopReplicaResponse, payload + b"\0")


def test_many_lengths_do_not_keep_many_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written stays right when the layouts kept are thrown away in between."""
    monkeypatch.setattr(codec, "LAYOUTS_MAX", 3)
    brokers = tuple(UpdateMetadataBroker(number, "h" * number, 1) for number in [*range(9), *range(9)])
    value = UpdateMetadataRequest(1, 1, (), brokers)

    assert decode_rest(UpdateMetadataRequest, 0, encode(value, 0), 0) == value


def test_a_frame_has_a_size_of_32_bits() -> None:
    """The size counts all but itself; what it cannot count is refused."""

    class Huge(bytes):
        def __len__(self) -> int:
            return 2**31

    assert framed(b"ab", b"c") == b"\0\0\0\3abc"
    with pytest.raises(UnencodableError, match="at most 2147483647 bytes"):
        framed(Huge())


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"x": int}, "no layout"),
        ({"x": Annotated[Int32, Versions(1)]}, "does not say what it is"),
        ({"x": tuple[int, int]}, "no layout"),
    ],
)
def test_a_class_that_does_not_say_how_it_lies_is_refused(annotations: dict[str, Any], message: str) -> None:
    """A mistake in a message class is found when it is first used."""
    kind = dataclass(type("Wrong", (), {"__annotations__": annotations}))

    with pytest.raises(TypeError, match=message):
        schema_of(kind)


def test_items_without_bytes_are_refused() -> None:
    """Their count could not be bounded by the frame."""

    @dataclass
    class Nothing:
        pass

    kind = dataclass(type("Many", (), {"__annotations__": {"items": tuple[Nothing, ...]}}))

    with pytest.raises(TypeError, match="cannot be counted"):
        codec.codec_of(kind, 0)


@dataclass(frozen=True, slots=True)
class Explained:
    message: ErrorText


def test_a_message_for_people_is_cut_where_it_is_too_long() -> None:
    """At a whole character; any other text that is too long is refused."""
    message = "n" + "\u20ac" * 20_000
    assert decode_rest(Explained, 0, encode(Explained(message), 0), 0) == Explained(message[:10_923])
