"""Translates Java regular expressions (Kafka's wildcards) for Python's `re`, or refuses them.

Every member evaluates the wildcards of all members itself. A member that evaluates one differently from the
JVM members never agrees with them. So an expression is translated into one with the same meaning for topic
names (letters, digits, `.`, `_`, `-`), or refused with the name of the construct that differs.
Grammar: java.util.regex.Pattern (Java 8 to 21); `tests/golden/java-regex` holds a real JVM's verdicts.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from zkgroup.errors import ConfigError, UnsupportedRegexError

_QUOTES: Final = "\"'"
_TRIMMED: Final = "".join(map(chr, range(0x21)))
_GROUP: Final = re.compile(r"\((?:\?(?:[:=!>]|<[=!]|(?P<on>[a-zA-Z]*)(?P<off>-[a-zA-Z]*)?(?P<end>[:)])))?")
_COUNT: Final = re.compile(r"\{([0-9]{1,9})(?:(,)([0-9]{0,9}))?\}")
_HEX: Final = re.compile(r"x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}")
_JAVA_FLAGS: Final = frozenset("idmsuxU")
_COMMON_FLAGS: Final = frozenset("ims")
_CLASSES: Final = frozenset("wWdDsS")
_ASSERTIONS: Final = frozenset("bBA")
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_JAVA_ONLY: Final = frozenset("0123456789kpPQhHvVRXzZGcN")
_DANGLING: Final = "a quantifier with nothing before it"


def normalise(expression: str) -> str:
    """The expression as kafka/consumer/TopicFilter.scala@0.8.2.2 normalises it.

    It trims, replaces `,` with `|`, removes spaces and quotes at both ends, in this order. So a counted
    quantifier with a comma cannot be expressed.
    """
    text = expression.strip(_TRIMMED).replace(",", "|").replace(" ", "")
    return text.lstrip(_QUOTES).rstrip(_QUOTES)


@functools.lru_cache(maxsize=256)
def compile_java(expression: str) -> re.Pattern[str]:
    """A pattern whose `fullmatch` accepts the topic names that Java's `matches` accepts.

    Raises UnsupportedRegexError for an expression that Java knows (or may know, by version) and Python
    evaluates differently, ConfigError for one that Java refuses. The expression is not normalised; one from
    a user or a znode goes through `normalise` first.
    """
    translated = _Translator(expression).translate()
    try:
        return re.compile(translated, re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise UnsupportedRegexError(expression, f"what Python refuses ({error})") from error


class _Translator:
    """Reads a Java expression once and writes a Python expression with the same meaning."""

    def __init__(self, expression: str) -> None:
        self._text = expression
        self._at = 0
        self._out: list[str] = []
        self._groups: list[bool] = []
        """True for each open group that can be repeated once closed (lookarounds cannot)."""
        self._before: str = "start"
        """The part before: `atom` can be repeated, `assertion`, `start` and `quantifier` cannot."""

    def translate(self) -> str:
        while self._at < len(self._text):
            self._one()
        if self._groups:
            raise self._illegal("an unclosed group")
        return "".join(self._out)

    def _one(self) -> None:
        character = self._text[self._at]
        if character == "\\":
            self._escape()
        elif character == "[":
            self._class()
        elif character == "(":
            self._open()
        elif character == ")":
            self._close()
        elif character in "*+?{":
            self._quantifier()
        elif character == "|":
            self._emit("|", "start")
        elif character in "^$":
            self._emit(character, "assertion")
        elif character == ".":
            self._emit(".", "atom")
        else:
            self._emit(re.escape(character), "atom")

    def _emit(self, piece: str, before: str, length: int = 1) -> None:
        self._out.append(piece)
        self._before = before
        self._at += length

    def _escape(self) -> None:
        letter = self._text[self._at + 1 : self._at + 2]
        if letter in _ASSERTIONS and letter:
            self._emit(f"\\{letter}", "assertion", 2)
        else:
            piece, length = self._escaped_atom()
            self._emit(piece, "atom", length)

    def _escaped_atom(self) -> tuple[str, int]:
        """An escape that stands for a character or a class, inside and outside brackets, and its length."""
        letter = self._text[self._at + 1 : self._at + 2]
        if not letter:
            raise self._illegal("a backslash at the end")
        if letter in _CLASSES:
            return f"\\{letter}", 2
        if letter in _CONTROLS:
            return re.escape(_CONTROLS[letter]), 2
        hexadecimal = _HEX.match(self._text, self._at + 1)
        if hexadecimal:
            return re.escape(chr(int(hexadecimal[0][1:], 16))), 1 + len(hexadecimal[0])
        if letter in _JAVA_ONLY or self._text.startswith("x{", self._at + 1):
            raise self._unsupported(f"\\{letter}")
        if letter.isascii() and letter.isalpha():
            raise self._illegal(f"the escape \\{letter}")
        return re.escape(letter), 2

    def _open(self) -> None:
        match = _GROUP.match(self._text, self._at)
        assert match is not None
        if match[0] == "(" and self._text.startswith("(?", self._at):
            if re.match(r"\(\?<[a-zA-Z]", self._text[self._at :]):
                raise self._unsupported("a named group")
            raise self._illegal(f"the group {self._text[self._at : self._at + 4]!r}")
        if match["end"]:
            self._check_flags(match)
        if match["end"] == ")":
            self._emit(match[0], "start", len(match[0]))
            return
        self._groups.append(match[0] not in ("(?=", "(?!", "(?<=", "(?<!"))
        self._emit(match[0], "start", len(match[0]))

    def _check_flags(self, match: re.Match[str]) -> None:
        flags = frozenset(match["on"] + (match["off"] or "").removeprefix("-"))
        if not flags <= _JAVA_FLAGS:
            raise self._illegal(f"the flags {match[0]}")
        if not flags <= _COMMON_FLAGS:
            raise self._unsupported(f"the flags {match[0]}")
        if match["end"] == ")" and (self._at > 0 or match["off"] or not flags):
            raise self._unsupported(f"inline flags {match[0]} that are not at the start")

    def _close(self) -> None:
        if not self._groups:
            raise self._illegal("an unmatched ')'")
        self._emit(")", "atom" if self._groups.pop() else "assertion")

    def _quantifier(self) -> None:
        count = _COUNT.match(self._text, self._at)
        character = self._text[self._at]
        if character == "{" and count is None:
            raise self._illegal("a '{' that starts no count")
        if count and count[3] and int(count[3]) < int(count[1]):
            raise self._illegal(f"the count {count[0]}")
        if self._before == "assertion":
            raise self._unsupported("a repeated assertion")
        if self._before != "atom":
            raise self._unsupported(_DANGLING) if count else self._illegal(_DANGLING)
        piece = count[0] if count else character
        mode = self._text[self._at + len(piece) : self._at + len(piece) + 1]
        if mode in ("?", "+"):
            piece += mode
        self._emit(piece, "quantifier", len(piece))

    def _class(self) -> None:
        """One bracketed class. Literals that Python might read as set operators are escaped."""
        self._out.append("[")
        self._at += 1
        if self._text.startswith("^", self._at):
            self._out.append("^")
            self._at += 1
        first = True
        while first or not self._text.startswith("]", self._at):
            self._class_item()
            first = False
        self._emit("]", "atom")

    def _class_item(self) -> None:
        low, is_set = self._class_character()
        if not (
            self._text.startswith("-", self._at) and self._text[self._at + 1 : self._at + 2] not in ("", "]")
        ):
            self._out.append(low)
            return
        if is_set:
            self._out.append(low)
            return
        self._at += 1
        high, is_set = self._class_character()
        if is_set:
            raise self._unsupported("a range that ends in a class")
        if _code(high) < _code(low):
            raise self._illegal("a range that runs backwards")
        self._out.append(f"{low}-{high}")

    def _class_character(self) -> tuple[str, bool]:
        """The next member of a class, written for Python, and whether it is a class of its own (`\\d`)."""
        if self._at >= len(self._text):
            raise self._illegal("an unclosed class")
        character = self._text[self._at]
        if character == "\\":
            if self._text[self._at + 1 : self._at + 2] in _ASSERTIONS:
                raise self._illegal("an assertion inside a class")
            piece, length = self._escaped_atom()
            self._at += length
            return piece, len(piece) == 2 and piece[1] in _CLASSES
        if character == "[":
            raise self._unsupported("a class inside a class")
        if self._text.startswith("&&", self._at):
            raise self._unsupported("a class intersection (&&)")
        self._at += 1
        return f"\\{character}" if character in r"\]^-&~|[#" else character, False

    def _illegal(self, what: str) -> ConfigError:
        return ConfigError(
            f"{self._text!r} is no Java regular expression: it has {what} at character {self._at}"
        )

    def _unsupported(self, construct: str) -> UnsupportedRegexError:
        return UnsupportedRegexError(self._text, construct)


def _code(piece: str) -> int:
    return ord(piece[-1])
