"""JSON as Kafka 0.8 reads and writes it.

Every JVM member of a group parses every registration with Scala's parser
(scala.util.parsing.json.Lexer and Parser of Scala 2.10) whose numbers Kafka replaced by
`(n: String) => n.toInt` (kafka/utils/Json.scala@0.8.2.2). One document it cannot read fails the
rebalance of the whole group. `parse` accepts and refuses what that parser does:

* numbers are integers of 32 bits: a float, an exponent, a leading zero or a plus sign fails
* of equal keys the last one wins
* inside a string a raw LF or U+001A fails, other control characters pass, and a backslash that starts
  no escape stands for itself
* every character up to U+0020 but U+001A is white space; a byte-order mark is not
* bytes that are not UTF-8 are read as U+FFFD
* nothing may follow the outermost object or array

The one bound of our own is the depth: the JVM's is the size of its stack.
"""

from __future__ import annotations

import re
from typing import Final

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
    """The Scala parser would refuse this text; the message says why and where."""


def parse(data: bytes) -> object:
    """The document as dict, list, str, int, bool and None.

    Raises JvmJsonError where Kafka 0.8 would fail, and below `DEPTH_MAX` levels of nesting.
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
    """Two escapes of one character above U+FFFF become that character, as in a Java string."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
