"""The members' files and their reduction."""

from __future__ import annotations

import pytest

from zkgroup.demo.flight_data import AirportDelay, MemberOutput, Processed, decode_line, encode_line, reduce


def record(partition: int, offset: int, token: int = 1, airport: str = "SFO", delay: int = 5) -> Processed:
    return Processed(partition, offset, airport, delay, token)


def test_line_is_read_back_as_written() -> None:
    """Encoding and decoding are inverse."""
    records = (record(0, 0), record(11, 99, token=2**40, delay=-3))

    output = decode_line("a", b"".join(map(encode_line, records)))

    assert output == MemberOutput("a", records, torn=0)


def test_cut_off_last_line_is_dropped_and_counted() -> None:
    """A SIGKILL in the middle of a write leaves half a line, which is not a processed record."""
    whole = encode_line(record(0, 0))

    output = decode_line("a", whole + encode_line(record(0, 1))[:10])

    assert output == MemberOutput("a", (record(0, 0),), torn=1)


def test_broken_line_in_the_middle_is_an_error() -> None:
    """Only the last line can be cut off; anything else would hide a fault."""
    with pytest.raises(ValueError, match="Expecting"):
        decode_line("a", b"nonsense\n" + encode_line(record(0, 0)))


def test_reduction_counts_each_record_once() -> None:
    """A record in two files counts once; the reduction has its count and the member that was repeated."""
    killed = MemberOutput("killed", (record(0, 0), record(0, 1, delay=7)), torn=0)
    heir = MemberOutput(
        "heir", (record(0, 1, token=9, delay=7), record(0, 2, token=9, airport="OAK")), torn=0
    )

    for outputs in ((killed, heir), (heir, killed)):
        reduction = reduce(outputs)

        assert reduction.processed == {(0, 0), (0, 1), (0, 2)}
        assert reduction.repeated == {(0, 1): 2}
        assert reduction.repeated_by == {"killed": 1}
        assert reduction.contradictions == ()
        assert reduction.airports == {"OAK": AirportDelay("OAK", 1, 5), "SFO": AirportDelay("SFO", 2, 12)}


def test_two_different_accounts_of_one_record_are_reported() -> None:
    """The same partition and offset with another content is a contradiction, never averaged away."""
    outputs = [
        MemberOutput("a", (record(0, 0, delay=1),), torn=0),
        MemberOutput("b", (record(0, 0, token=2, delay=2),), torn=0),
    ]

    assert reduce(outputs).contradictions == ((0, 0),)
