"""Names of groups, topics, members and threads, and of sequential znodes.

Shapes of kafka/consumer/ZookeeperConsumerConnector.scala@0.8.2.2. A member id is `<group>_<consumer id>`,
where a generated consumer id is `<host>-<epoch ms>-<8 hex>`; a thread id is `<member id>-<number>`. Group and
host may hold `_` and `-`, so nothing is ever split from the left: the known group is stripped, the rest is
read from the right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from zkgroup.errors import ConfigError
from zkgroup.znodes.json_fields import INT32, decimal

NAME_LENGTH_MAX: Final = 255
"""Longest topic name of Kafka 0.8 (kafka/common/Topic.scala@0.8.2.2)."""

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_HEX8: Final = re.compile(r"[0-9a-f]{8}")
_GENERATED: Final = re.compile(r"(?P<host>.+)-(?P<ms>[0-9]{13})-[0-9a-f]{8}", re.DOTALL)
_THREAD: Final = re.compile(r"(?P<member>.+)-(?P<number>0|[1-9][0-9]{0,8})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class GeneratedId:
    """What a generated member id tells of its process."""

    host: str
    started_ms: int
    """Epoch milliseconds by the host's clock."""


def validate_group(name: str) -> str:
    """Returns the name. Raises ConfigError unless it is one or more of `[a-zA-Z0-9._-]`, not `.` or `..`.

    Kafka's own check lets the empty name pass, which then breaks on the path `/consumers//ids`.
    """
    return _validate("group", name)


def validate_topic(name: str) -> str:
    """Returns the name. Raises ConfigError unless it is a legal topic name of at most 255 characters."""
    return _validate("topic", name, NAME_LENGTH_MAX)


def validate_consumer_id(name: str) -> str:
    """Returns the id. Raises ConfigError where it is empty or holds `/` or a control character.

    Kafka checks nothing here: a `/` registers one level deeper and then fails every rebalance. Surrogates
    and what ZooKeeper refuses in paths (U+D800..U+F8FF, U+FFF0..U+FFFF, above U+FFFF) are refused too.
    """
    if not name:
        raise ConfigError("consumer id: expected a name, found nothing")
    for character in name:
        if character == "/" or _refused_in_paths(ord(character)):
            raise ConfigError(f"consumer id {name!r}: expected no {character!r} in it")
    return name


def make_member_id(group: str, consumer_id: str | None, host: str, wall_ms: int, random_hex8: str) -> str:
    """The id of a member: from `consumer_id` where one is given, else generated from the rest.

    Raises ConfigError for a group or consumer id that is not allowed.
    """
    validate_group(group)
    if consumer_id is None:
        assert _HEX8.fullmatch(random_hex8), random_hex8
        consumer_id = f"{host}-{wall_ms}-{random_hex8}"
    return f"{group}_{validate_consumer_id(consumer_id)}"


def parse_member_id(group: str, member: str) -> GeneratedId | None:
    """Host and start time of a generated id, or None where it was given by hand (or is foreign)."""
    match = _GENERATED.fullmatch(member, len(group) + 1) if member.startswith(f"{group}_") else None
    return GeneratedId(match["host"], int(match["ms"])) if match else None


def member_host(group: str, member: str) -> str | None:
    """The host in a generated member id, or None."""
    generated = parse_member_id(group, member)
    return generated.host if generated else None


def thread_id(member: str, n: int) -> str:
    """The text of an owner znode: who owns, and by which of its threads (streams)."""
    return f"{member}-{n}"


def split_thread_id(text: str) -> tuple[str, int]:
    """Member id and thread number of a thread id. Raises ValueError where the text is none."""
    match = _THREAD.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no thread id (<member>-<number>)")
    return match["member"], int(match["number"])


def number_of(name: str) -> int | None:
    """The number that a znode is named by (a partition, a broker), or None where the name is none.

    As Kafka writes numbers and as the path of one reads back: `007` and `+7` name other znodes, and `²` is
    a digit for `str.isdigit` that `int` does not take.
    """
    return int(name) if _NUMBER.fullmatch(name) else None


def _validate(what: str, name: str, length_max: int | None = None) -> str:
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise ConfigError(f"{what} {name!r}: expected letters, digits, '.', '_' and '-', not '.' or '..'")
    if length_max is not None and len(name) > length_max:
        raise ConfigError(
            f"{what} {name[:20]}...: expected at most {length_max} characters, found {len(name)}"
        )
    return name


def _refused_in_paths(code: int) -> bool:
    """ZooKeeper's PathUtils.validatePath (3.4.6 to 3.9), per character."""
    return code <= 0x1F or 0x7F <= code <= 0x9F or 0xD800 <= code <= 0xF8FF or code >= 0xFFF0


def sequential(prefix: str, sequence: int) -> str:
    """The name, or path, that ZooKeeper gives the znode of a number (`%010d` of Java)."""
    return f"{prefix}{sequence:010}"


def sequence_of(prefix: str, name: str) -> int | None:
    """The number of a child, or None for a name that is not of this kind."""
    return decimal(name.removeprefix(prefix), INT32) if name.startswith(prefix) else None
