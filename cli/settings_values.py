"""`--set NAME=VALUE` as values of a class of settings. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_type_hints

from zkgroup.errors import ConfigError
from zkgroup.settings import GroupSettings

from .frame import nearest
from .units import is_whole, parse_duration_ms

if TYPE_CHECKING:
    from zkgroup.broker.settings import BrokerSettings

_SECONDS = ".seconds"
"""End of Kafka's names for settings that are milliseconds here."""
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def parse_settings(
    pairs: Iterable[tuple[str, str]], kind: type[GroupSettings | BrokerSettings] = GroupSettings
) -> dict[str, Any]:
    """Names and values as given; Kafka's dotted names are understood, times may carry units.

    A bare number under a name of Kafka's that ends with `.seconds` is one of seconds.

    Raises ConfigError for an unknown name (naming the nearest known one), a name given twice, and a
    value of the wrong type.
    """
    kinds = get_type_hints(kind)
    kafka_names = {item.metadata["kafka"]: item.name for item in fields(kind) if item.metadata["kafka"]}
    values: dict[str, Any] = {}
    for given, text in pairs:
        name = kafka_names.get(given, given.replace("-", "_"))
        if name not in kinds:
            guess = nearest(name, list(kinds)) or nearest(given, list(kafka_names))
            raise ConfigError(f"unknown setting {given!r}" + (f"; did you mean {guess!r}?" if guess else ""))
        if name in values:
            raise ConfigError(f"setting {name} is given twice")
        in_seconds = given in kafka_names and given.endswith(_SECONDS) and _is_whole(text)
        values[name] = _value(name, kinds[name], f"{text}s" if in_seconds else text)
    return values


def _value(name: str, kind: Any, text: str) -> Any:
    optional = type(None) in getattr(kind, "__args__", ())
    kinds = [one for one in getattr(kind, "__args__", (kind,)) if one is not type(None)]
    if optional and text.lower() in ("none", ""):
        return None
    try:
        return _typed(name, kinds[0], text)
    except ValueError as error:
        raise ConfigError(f"setting {name}: expected {_expected(name, kinds[0])}, found {text!r}") from error


def _typed(name: str, kind: type, text: str) -> Any:
    if kind is bool:
        if text.lower() not in _WORDS:
            raise ValueError(text)
        return _WORDS[text.lower()]
    if kind is int and name.endswith("_ms") and not _is_whole(text):
        return parse_duration_ms(text)
    return kind(text)


def _is_whole(text: str) -> bool:
    return is_whole(text.removeprefix("-"))


def _expected(name: str, kind: type) -> str:
    if kind is bool:
        return "true or false"
    if kind is int:
        return "milliseconds, or a time such as 5s" if name.endswith("_ms") else "a whole number"
    return "a number" if kind is float else "text"
