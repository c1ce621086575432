"""JSON as Kafka 0.8's Scala parser reads it."""

from __future__ import annotations

import pytest

from zkgroup.znodes.json_fields import DEPTH_MAX, JvmJsonError, escape, parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":1}', {"a": 1}),
        ("[]", []),
        (' \n\t\r\x00{\x0b"a"\x1f:\x1f-7 }\n', {"a": -7}),
        ('{"a":- 7}', {"a": -7}),
        ('{"a":-0}', {"a": 0}),
        ('{"a":[1,{"b":null}],"c":true,"d":false}', {"a": [1, {"b": None}], "c": True, "d": False}),
        ('{"a":1,"a":2}', {"a": 2}),
        ('{"a":"\\"\\\\\\/\\b\\f\\n\\r\\t"}', {"a": '"\\/\b\f\n\r\t'}),
        ('{"a":"\\u0074\\u00E9"}', {"a": "té"}),
        ('{"a":"\\ud83d\\ude00"}', {"a": "\U0001f600"}),
        ('{"a":"\\ud83d"}', {"a": "\ud83d"}),
        ('{"a":"x\ty\x00z\x7f"}', {"a": "x\ty\x00z\x7f"}),
        ('{"a":"\\q\\u12"}', {"a": "\\q\\u12"}),
        ('{"a":2147483647,"b":-2147483648}', {"a": 2147483647, "b": -2147483648}),
        ('{"a":١٢}', {"a": 12}),
    ],
)
def test_what_the_scala_parser_accepts(text: str, value: object) -> None:
    """Odd white space, escapes that are none, duplicate keys and control characters pass."""
    assert value == parse(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "t4",
        '"t4"',
        "5",
        "true",
        "{",
        "[1,]",
        '{"a":1,}',
        '{"a"}',
        '{"a":}',
        "{a:1}",
        "{'a':1}",
        '{"a":1}x',
        '{"a":1}{}',
        '{"a":1}\x1a',
        '\ufeff{"a":1}',
        '{"a":"x\ny"}',
        '{"a":"x\x1ay"}',
        '{"a":"x\\"}',
        '{"a":1.0}',
        '{"a":1.}',
        '{"a":1e3}',
        '{"a":01}',
        '{"a":+1}',
        '{"a":2147483648}',
        '{"a":-2147483649}',
        '{"a":1396019252998}',
        '{"a":NaN}',
        '{"a":nul}',
        '{"a":/*c*/1}',
        '{"a":\xa01}',
    ],
)
def test_what_the_scala_parser_refuses(text: str) -> None:
    """Anything else is refused, with the place where it went wrong."""
    with pytest.raises(JvmJsonError, match=r"expected .* at character [0-9]+, found"):
        parse(text.encode())


def test_bytes_that_are_not_utf_8_become_replacement_characters() -> None:
    """Java's decoder replaces them with U+FFFD and continues."""
    assert parse(b'{"a":"\xff"}') == {"a": "\ufffd"}


def test_depth_is_bounded() -> None:
    """A document nested beyond the bound is refused, not a crash; one at the bound is read."""
    assert parse(b"[" * DEPTH_MAX + b"]" * DEPTH_MAX) is not None
    with pytest.raises(JvmJsonError, match="nested deeper"):
        parse(b"[" * 100_000)


def test_a_huge_number_is_refused_without_being_converted() -> None:
    """A million digits cost no more than the scan over them."""
    with pytest.raises(JvmJsonError, match="32 bits"):
        parse(b'{"a":' + b"9" * 1_000_000 + b"}")


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ('-"-', '-\\"-'),
        ("-\\-", "-\\\\-"),
        ("-/-", "-\\/-"),
        ("-\\b-", "-\\\\b-"),
        ("\b\f\n\r\t", "\\b\\f\\n\\r\\t"),
        ("\x00\x1f\x7f\x9f", "\\u0000\\u001f\\u007f\\u009f"),
        ("zé中\U0001f600", "zé中\U0001f600"),
    ],
)
def test_escaping_matches_kafkas(text: str, escaped: str) -> None:
    """The vectors of Kafka's own test and the control characters; everything else stays raw."""
    assert escape(text) == escaped
    assert parse(f'["{escaped}"]'.encode()) == [text]
