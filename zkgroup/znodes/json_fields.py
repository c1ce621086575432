"""The JSON of znodes: fields of any Kafka version read by type, and JSON as Kafka 0.8 reads and writes it.

Unknown keys are accepted; missing and mistyped ones raise `CorruptZnodeError`. The checks before a write
raise `ConfigError` with the name, the limit and the value found.

Every JVM member of a group parses every registration with Scala's parser
(scala.util.parsing.json.Lexer and Parser of Scala 2.10) whose numbers Kafka replaced by
`(n: String) => n.toInt` (kafka/utils/Json.scala@0.8.2.2). One document it cannot read fails the
rebalance of the whole group. `parse` accepts and refuses what that parser does:

* numbers are integers of 32 bits: a float, an exponent, a leading zero or a plus sign fails
* of equal keys the last one wins
* inside a string a raw LF or U+001A fails, other control characters are accepted, and a backslash that starts
  no escape is a backslash
* every character up to U+0020 but U+001A is white space; a byte-order mark is not
* bytes that are not UTF-8 are read as U+FFFD
* nothing may follow the outermost object or array

Only the limit of the depth is zkgroup's own: the JVM's is the size of its stack.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from zkgroup.errors import ConfigError, CorruptZnodeError

INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
DEPTH_MAX: Final = 100

_WHITE: Final = r"[\x00-\x19\x1b-\x20]*+"
_PLAIN_STRING: Final = re.compile(r'"([^"\\\n\x1a]*+)"')
_STRING: Final = re.compile(r'"((?:[^"\\\n\x1a]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}|\\)*+)"')
_ESCAPE: Final = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})')
_NUMBER: Final = re.compile(rf"(-?){_WHITE}(0|[^\D0]\d*+)(?:\.\d*+)?(?:[eE][+-]?\d++)?")
_SKIP: Final = re.compile(_WHITE)
_KEYWORDS: Final = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}
_UNESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPED: Final = {
    '"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
}  # fmt: skip
_NEEDS_ESCAPE: Final = re.compile(r'["\\/\x00-\x1f\x7f-\x9f]')


class JvmJsonError(ValueError):
    """The Scala parser would refuse this text; the message has the position and what was expected."""


def parse(data: bytes) -> object:
    """The document as dict, list, str, int, bool and None.

    Raises JvmJsonError if Kafka 0.8 would fail, and for more than `DEPTH_MAX` levels of nesting.
    """
    reader = _Reader(data.decode("utf-8", errors="replace"))
    reader.skip_white()
    if reader.peek() not in "{[":
        raise reader.refuse("an object or an array")
    value = reader.value(depth=1)
    reader.skip_white()
    if reader.peek():
        raise reader.refuse("the end")
    return value


def escape(text: str) -> str:
    """Escapes a string as Kafka does for wildcard expressions (Utils.JSONEscapeString@0.8.2.2)."""
    return _NEEDS_ESCAPE.sub(lambda match: _ESCAPED.get(match[0]) or f"\\u{ord(match[0]):04x}", text)


class _Reader:
    """A position in a text, and one method for each rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def skip_white(self) -> None:
        match = _SKIP.match(self._text, self._at)
        assert match is not None
        self._at = match.end()

    def refuse(self, expected: str) -> JvmJsonError:
        found = repr(self._text[self._at : self._at + 20]) if self.peek() else "the end"
        return JvmJsonError(f"expected {expected} at character {self._at}, found {found}")

    def value(self, depth: int) -> object:
        if depth > DEPTH_MAX:
            raise JvmJsonError(f"nested deeper than {DEPTH_MAX} levels at character {self._at}")
        first = self.peek()
        if first == "{":
            return self._object(depth)
        if first == "[":
            return self._array(depth)
        if first == '"':
            return self._string()
        if first in _KEYWORDS and self._text.startswith(_KEYWORDS[first][0], self._at):
            word, meaning = _KEYWORDS[first]
            self._at += len(word)
            return meaning
        return self._number()

    def _object(self, depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        self._at += 1
        self.skip_white()
        while self.peek() != "}":
            if found:
                self._separator(",", "',' or '}'")
            key = self._string()
            self.skip_white()
            self._separator(":", "':'")
            found[key] = self.value(depth + 1)
            self.skip_white()
        self._at += 1
        return found

    def _array(self, depth: int) -> list[object]:
        found: list[object] = []
        self._at += 1
        self.skip_white()
        while self.peek() != "]":
            if found:
                self._separator(",", "',' or ']'")
            found.append(self.value(depth + 1))
            self.skip_white()
        self._at += 1
        return found

    def _separator(self, character: str, expected: str) -> None:
        if self.peek() != character:
            raise self.refuse(expected)
        self._at += 1
        self.skip_white()

    def _string(self) -> str:
        plain = _PLAIN_STRING.match(self._text, self._at)
        if plain is not None:
            self._at = plain.end()
            return plain[1]
        match = _STRING.match(self._text, self._at)
        if match is None:
            raise self.refuse("a string")
        self._at = match.end()
        return _join_surrogates(_ESCAPE.sub(_unescape, match[1]))

    def _number(self) -> int:
        match = _NUMBER.match(self._text, self._at)
        if match is None:
            raise self.refuse("a value")
        sign, digits = match[1], match[2]
        # 10 digits are the most that 32 bits need; a longer token is not even converted.
        number = int(sign + digits) if len(digits) <= 10 and match.end() == match.end(2) else None
        if number is None or not INT32_MIN <= number <= INT32_MAX:
            raise self.refuse("an integer of 32 bits")
        self._at = match.end()
        return number


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if code[0] == "u" else _UNESCAPED.get(code, code)


def _join_surrogates(text: str) -> str:
    """The text with each pair of surrogates as one character above U+FFFF, as in a Java string."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


INT16: Final = range(-(2**15), 2**15)
INT32: Final = range(-(2**31), 2**31)
INT64: Final = range(-(2**63), 2**63)
_FOUND_MAX: Final = 80


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


# Created once: json.loads and json.dumps create one for each call with options.
# Kafka 0.8 accepts raw control characters inside strings, hence strict=False.
_DECODER: Final = json.JSONDecoder(strict=False, parse_constant=_no_constant)
_QUOTED: Final = json.encoder.encode_basestring
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def show(value: object) -> str:
    """A value for an error message, cut to 80 characters."""
    text = "no data" if value is None else repr(value)
    return text if len(text) <= _FOUND_MAX else f"{text[:_FOUND_MAX]}... ({len(text)} characters)"


def read_text(path: str, data: bytes | None, expected: str) -> str:
    """The data as text. Raises CorruptZnodeError if there is none or it is not UTF-8."""
    if not data:
        raise CorruptZnodeError(path, expected, "no data" if data is None else "empty data")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptZnodeError(path, expected, f"bytes that are not UTF-8: {show(data)}") from error


def read_json(path: str, data: bytes | None, expected: str) -> object:
    """The data as one JSON value. Raises CorruptZnodeError if it is not one.

    It raises also beyond Python's limits of recursion and of the digits of a number; the size is limited by
    ZooKeeper's `jute.maxbuffer`.
    """
    text = read_text(path, data, expected)
    try:
        found: object = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise CorruptZnodeError(path, expected, f"{show(text)}: {error}") from error
    return found


def read_object(path: str, data: bytes | None, expected: str) -> dict[str, object]:
    """The data as one JSON object. Raises CorruptZnodeError for anything else."""
    found = read_json(path, data, expected)
    if not isinstance(found, dict):
        raise CorruptZnodeError(path, expected, show(found))
    return found


def write_object(fields: Mapping[str, object]) -> bytes:
    """One JSON object without white space, UTF-8, keys in the order given.

    Raises ConfigError for a number that Kafka 0.8 cannot read, also in unknown keys: its parser accepts
    32-bit integers only and fails on the whole znode otherwise.
    """
    try:
        for key, value in fields.items():
            _check_numbers(key, value)
        text = _ENCODER.encode(fields)
    except RecursionError as error:
        raise ConfigError(f"JSON keys {list(fields)}: expected less nesting") from error
    # Names from the operating system can have lone surrogates, which UTF-8 does not have.
    return text.encode("utf-8", "replace")


def json_text(text: str) -> str:
    """A text as `write_object` writes it, with its quotes; lone surrogates stay."""
    return _QUOTED(text)


def text_of(path: str, fields: Mapping[str, object], key: str) -> str:
    """The text under a key. Raises CorruptZnodeError if there is none."""
    value = _present(path, fields, key, "text")
    if not isinstance(value, str):
        raise CorruptZnodeError(path, f"text in {key!r}", show(value))
    return value


def integer_of(path: str, fields: Mapping[str, object], key: str, allowed: range = INT32) -> int:
    """The whole number under a key. Raises CorruptZnodeError if there is none in the range."""
    value = _present(path, fields, key, "a whole number")
    if not is_integer(value, allowed):
        raise CorruptZnodeError(path, f"a whole number of {_bits(allowed)} in {key!r}", show(value))
    assert isinstance(value, int)
    return value


def integer_text_of(path: str, fields: Mapping[str, object], key: str, allowed: range = INT64) -> int:
    """A whole number stored as text, as Kafka stores times: JVM parsers of 0.8 accept 32 bits only."""
    text = text_of(path, fields, key)
    number = decimal(text, allowed)
    if number is None:
        raise CorruptZnodeError(path, f"a whole number as text in {key!r}", show(text))
    return number


def object_of(path: str, fields: Mapping[str, object], key: str) -> dict[str, object]:
    """The object under a key. Raises CorruptZnodeError if there is none."""
    value = _present(path, fields, key, "an object")
    if not isinstance(value, dict):
        raise CorruptZnodeError(path, f"an object in {key!r}", show(value))
    return value


def integers_of(path: str, value: object, what: str) -> tuple[int, ...]:
    """The broker ids in a JSON array. Raises CorruptZnodeError for anything else than 32-bit integers."""
    if not isinstance(value, list) or not all(is_integer(item, INT32) for item in value):
        raise CorruptZnodeError(path, f"a list of broker ids in {what}", show(value))
    return tuple(value)


def is_integer(value: object, allowed: range = INT32) -> bool:
    """Returns whether a JSON value is an integer in the range; JSON's true is not, although Python's is."""
    return type(value) is int and value in allowed


def decimal(text: str, allowed: range) -> int | None:
    """The value of plain ASCII digits with an optional minus, or None."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 20):
        return None
    number = int(text)
    return number if number in allowed else None


def others(fields: Mapping[str, object], *known: str) -> dict[str, object]:
    """The unknown keys, which a rewrite must keep for later versions."""
    return {key: value for key, value in fields.items() if key not in known}


def _check_numbers(key: str, value: object) -> None:
    if isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            _check_numbers(key, inner)
    elif isinstance(value, float) or (isinstance(value, int) and value not in INT32):
        raise ConfigError(f"JSON key {key!r}: expected whole numbers of 32 bits, found {show(value)}")


def _present(path: str, fields: Mapping[str, object], key: str, kind: str) -> object:
    if key not in fields:
        raise CorruptZnodeError(path, f"{kind} in {key!r}", "no such key")
    return fields[key]


def _bits(allowed: range) -> str:
    return (
        "64 bits" if allowed == INT64 else "32 bits" if allowed == INT32 else f"{allowed[0]}..{allowed[-1]}"
    )


DATA_BYTES_MAX: Final = 900_000
"""Most bytes of data, so that a request is below ZooKeeper's default `jute.maxbuffer` of 1,048,575 bytes."""


def check_size(what: str, data: bytes) -> bytes:
    """Returns the data. Raises ConfigError if it is too big: ZooKeeper would close the connection."""
    if len(data) > DATA_BYTES_MAX:
        raise ConfigError(f"{what}: expected at most {DATA_BYTES_MAX} bytes, found {len(data)}")
    return data


def check_number(what: str, value: int, lowest: int = 0, highest: int = INT32[-1]) -> int:
    """Returns the number. Raises ConfigError outside the limits, by default 0 and the highest Java int."""
    if not lowest <= value <= highest:
        raise ConfigError(f"{what}: expected a number from {lowest} to {highest}, found {value}")
    return value


def check_brokers(what: str, brokers: Sequence[int]) -> list[int]:
    """Returns the list, which may be empty. Raises ConfigError for an invalid or duplicate broker id."""
    if brokers and not (min(brokers) >= 0 and max(brokers) in INT32):
        raise ConfigError(f"{what}: expected broker ids from 0 to {INT32[-1]}, found {list(brokers)}")
    if len(set(brokers)) < len(brokers):
        raise ConfigError(f"{what}: expected each broker once, found {list(brokers)}")
    return list(brokers)


def check_text(what: str, text: str) -> str:
    """Returns the text. Raises ConfigError for lone surrogates, such as from invalid command line bytes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ConfigError(f"{what}: expected text that UTF-8 can hold, found {show(text)}") from error
    return text
