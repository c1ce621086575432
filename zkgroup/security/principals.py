"""The principal of a client by its certificate, as `DefaultKafkaPrincipalBuilder` of Kafka names it.

Source: org.apache.kafka.common.security.ssl.SslPrincipalMapper@2.8.2, and `X500Principal.getName` of Java 17
(RFC 2253). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from zkgroup.errors import ConfigError
from zkgroup.java_regex import compile_java

RULES: Final = "ssl.principal.mapping.rules"

_RULE: Final = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d+)|(\$)", re.DOTALL)
_LINE_ENDS: Final = frozenset("\n\r\x85\u2028\u2029")
_CHANGES: Final[dict[str, Callable[[str], str]]] = {"L": str.lower, "U": str.upper, "": str}


@dataclass(frozen=True, slots=True)
class MappingRule:
    """One rule: the pattern has to match the whole name."""

    pattern: re.Pattern[str] | None
    """None for `DEFAULT`: the name as it is."""
    replacement: str = ""
    """For `re.Pattern.sub`."""
    change: str = ""
    """`L` for small letters, `U` for capitals."""

    def apply(self, name: str) -> str | None:
        """Returns None where it does not match."""
        if self.pattern is None:
            return name
        if not _LINE_ENDS.isdisjoint(name) or not self.pattern.fullmatch(name):
            return None
        return _CHANGES[self.change](self.pattern.sub(self.replacement, name))


def parse_rules(text: str) -> tuple[MappingRule, ...]:
    """The rules of `ssl.principal.mapping.rules`. Raises ConfigError."""
    found, at = [], 0
    while at < len(text):
        match = _RULE.match(text, at)
        if match is None or match.end() == at:
            raise ConfigError(
                f"setting {RULES}: expected DEFAULT or RULE:pattern/replacement/[LU], found {text[at:]!r}"
            )
        at = match.end()
        if match[1]:
            found.append(MappingRule(None))
        else:
            pattern = compile_java(match[2])
            found.append(MappingRule(pattern, _replacement(match[3], pattern.groups), match[4]))
    if not found:
        raise ConfigError(f"setting {RULES}: expected a rule, found none")
    return tuple(found)


def _replacement(text: str, groups: int) -> str:
    """Java's replacement for Python. A group that the pattern does not have stands for itself."""

    def reference(match: re.Match[str]) -> str:
        if match[1]:
            return "\\\\" if match[1] == "\\" else match[1]
        if match[3]:
            raise ConfigError(f"setting {RULES}: expected the number of a group after '$', found {text!r}")
        digits, rest = match[2], ""
        while int(digits) > groups and len(digits) > 1:
            digits, rest = digits[:-1], digits[-1] + rest
        return f"${digits}{rest}" if int(digits) > groups else rf"\g<{digits}>{rest}"

    return _REFERENCE.sub(reference, text)


def principal_of(certificate: bytes, rules: tuple[MappingRule, ...]) -> str | None:
    """The principal (`User:CN=...`) by the subject of a certificate in DER; None where no rule matches."""
    name = distinguished_name(certificate)
    found = (rule.apply(name) for rule in rules)
    return next((f"User:{one}" for one in found if one is not None), None)


_VERSION: Final = 0xA0
_TEXTS: Final = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E))
"""Tags of the values that Java writes as text, whose bytes it takes for UTF-8 in each case."""
_KEYWORDS: Final = {
    b"\x55\x04\x03": "CN", b"\x55\x04\x06": "C", b"\x55\x04\x07": "L", b"\x55\x04\x08": "ST",
    b"\x55\x04\x09": "STREET", b"\x55\x04\x0a": "O", b"\x55\x04\x0b": "OU",
    b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x19": "DC", b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x01": "UID",
}  # fmt: skip
"""The attributes that RFC 2253 names; others stand as their numbers."""
_ESCAPED: Final = re.compile(r'[,=+<>#;"\\]')


def distinguished_name(certificate: bytes) -> str:
    """The subject of a certificate in DER by RFC 2253, as Java writes it.

    The certificate has been read by OpenSSL before.
    """
    whole = next(_elements(certificate))
    signed = next(_elements(whole.content))
    fields = [each for each in _elements(signed.content) if each.tag != _VERSION]
    subject = fields[4]  # behind serial number, algorithm, issuer and validity
    names = [
        "+".join(_attribute(*_elements(each.content)) for each in _elements(relative.content))
        for relative in _elements(subject.content)
    ]
    return ",".join(reversed(names))


class _Element(NamedTuple):
    """A value in DER."""

    tag: int
    content: bytes
    whole: bytes
    """With tag and length."""


def _elements(data: bytes) -> Iterator[_Element]:
    at = 0
    while at < len(data):
        begin, size = at + 2, data[at + 1]
        if size & 0x80:
            begin += size & 0x7F
            size = int.from_bytes(data[at + 2 : begin])
        yield _Element(data[at], data[begin : begin + size], data[at : begin + size])
        at = begin + size


def _attribute(kind: _Element, value: _Element) -> str:
    keyword = _KEYWORDS.get(kind.content)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or _number(kind.content)}=#{value.whole.hex()}"
    text = _ESCAPED.sub(r"\\\g<0>", value.content.decode("utf-8", "replace")).replace("\0", "\\00")
    inner = text.strip(" \r")
    lead = text.index(inner) if inner else len(text)
    before, after = text[:lead], text[lead + len(inner) :]
    return f"{keyword}={_each_escaped(before)}{inner}{_each_escaped(after)}"


def _each_escaped(blanks: str) -> str:
    return "".join(f"\\{blank}" for blank in blanks)


def _number(content: bytes) -> str:
    """An object identifier as numbers with points."""
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
