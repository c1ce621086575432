"""`sasl.jaas.config`: the one JAAS entry in which Kafka names user and password."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from zkgroup.errors import ConfigError
from zkgroup.security.scram import HASHES

JAAS: Final = "sasl.jaas.config"
PLAIN: Final = "PLAIN"
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
BEARER: Final = "OAUTHBEARER"
BEARER_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
MODULES: Final = (PLAIN_MODULE, SCRAM_MODULE, BEARER_MODULE)
MECHANISMS: Final = {PLAIN: PLAIN_MODULE, **dict.fromkeys(HASHES, SCRAM_MODULE), BEARER: BEARER_MODULE}
"""Those of listeners and clients, and the login module of each."""
FLAGS: Final = ("required", "requisite", "sufficient", "optional")

_TOKEN: Final = re.compile(
    r"""(?:\s|//[^\n]*|/\*.*?\*/)*(?:(?P<mark>[=;])|(?P<word>[\w.$-]+)|"(?P<double>(?:\\.|[^"\\\n])*)"|'(?P<single>(?:\\.|[^'\\\n])*)'|(?P<end>$))""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_CONTROLS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""As `\\ud800` alone in a file of properties makes: no bytes are sent for it."""
_NUMBER: Final = re.compile(r"-?[0-9.]+")


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """A login module and its options."""

    module: str
    """Its class."""
    options: Mapping[str, str] = field(repr=False)
    """They have the passwords in plain text: never print them."""


def parse_jaas(text: str, where: str = JAAS) -> JaasEntry:
    """The entry `MODULE required NAME="VALUE" ...;`, with the rules of Kafka's reader.

    Source: org/apache/kafka/common/security/JaasConfig.java@2.8.2, a StreamTokenizer: values are words or in
    quotes, numbers in quotes. Raises ConfigError, which names `where` and the option but no value.
    """
    tokens = _tokens(text, where)
    kind, module = tokens.pop(0)
    if kind != "word":
        raise ConfigError(f"{where}: expected the class of a login module first")
    if module not in MODULES:
        raise ConfigError(f"{where}: expected one of {', '.join(MODULES)}, found {module}")
    kind, flag = tokens.pop(0)
    if kind != "word" or flag.lower() not in FLAGS:
        raise ConfigError(f"{where}: expected one of {', '.join(FLAGS)} after {module}")
    options: dict[str, str] = {}
    while (kind := tokens[0][0]) != "mark":
        if kind == "end":
            raise ConfigError(f"{where}: expected ';' at the end")
        name = tokens.pop(0)[1]
        if tokens.pop(0) != ("mark", "="):
            raise ConfigError(f"{where}: expected '=' and a value after {_shown(kind, name)}")
        kind, value = tokens.pop(0)
        if kind in ("mark", "end") or (kind == "word" and _NUMBER.fullmatch(value)):
            raise ConfigError(f"{where}: expected a value in quotes for {name}")
        if _SURROGATE.search(value):
            raise ConfigError(f"{where}: expected characters for {name}, found half of a surrogate pair")
        options[name] = value
    if tokens[:2] != [("mark", ";"), ("end", "")]:
        raise ConfigError(f"{where}: expected one login module and ';' at its end")
    if module == BEARER_MODULE and options:  # of an unsecured token, or one to fetch
        raise ConfigError(f"{where}: expected no options for {module}, found {', '.join(options)}")
    return JaasEntry(module, options)


def _shown(kind: str, name: str) -> str:
    """A text in quotes at the place of a name may be a password."""
    return name if kind == "word" else "a text in quotes"


def _tokens(text: str, where: str) -> list[tuple[str, str]]:
    """Kind and text of each token, the end too. Raises ConfigError for what is none."""
    found: list[tuple[str, str]] = []
    position = 0
    while not found or found[-1][0] != "end":
        match = _TOKEN.match(text, position)
        if match is None:
            raise ConfigError(f"{where}: expected words, '=', texts in quotes and ';'")
        kind = match.lastgroup
        assert kind is not None
        token = match[kind]
        if kind in ("double", "single"):
            kind, token = "text", _ESCAPE.sub(_plain, token)
        found.append((kind, token))
        position = match.end()
    return [*found, ("end", "")]


def _plain(match: re.Match[str]) -> str:
    text = match[1]
    return chr(int(text, 8)) if text[0] in "01234567" else _CONTROLS.get(text, text)
