"""Names of groups, topics, members and threads, and of sequential znodes; lists of partitions in JSON.

Shapes of kafka/consumer/ZookeeperConsumerConnector.scala@0.8.2.2. A member id is `<group>_<consumer id>`,
where a generated consumer id is `<host>-<epoch ms>-<8 hex>`; a thread id is `<member id>-<number>`. Group and
host may contain `_` and `-`, so the known group is removed from the left, and the rest read from the right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.znodes.json_fields import INT32, check_number, decimal, integer_of, show, text_of

NAME_LENGTH_MAX: Final = 255
"""Longest topic name of Kafka 0.8 (kafka/common/Topic.scala@0.8.2.2)."""
NEW_NAME_LENGTH_MAX: Final = 249
"""Longest name of a new topic, as in Kafka from 0.10.0 on: the folder of a partition has a longer name, and
file systems take 255 bytes."""

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_HEX8: Final = re.compile(r"[0-9a-f]{8}")
_GENERATED: Final = re.compile(r"(?P<host>.+)-(?P<ms>[0-9]{13})-[0-9a-f]{8}", re.DOTALL)
_THREAD: Final = re.compile(r"(?P<member>.+)-(?P<number>0|[1-9][0-9]{0,8})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class GeneratedId:
    """Host and start time of a process, from a generated member id."""

    host: str
    started_ms: int
    """Epoch milliseconds by the host's clock."""


def is_refused_in_paths(character: str) -> bool:
    """Returns whether ZooKeeper refuses a character in paths (PathUtils.validatePath); `/` separates names.

    Java has two surrogates for each character above U+FFFF.
    """
    code = ord(character)
    return code <= 0x1F or 0x7F <= code <= 0x9F or 0xD800 <= code <= 0xF8FF or code >= 0xFFF0


def validate_group(name: str) -> str:
    """Returns the name. Raises ConfigError unless it is one or more of `[a-zA-Z0-9._-]`, not `.` or `..`.

    Kafka's own check lets the empty name pass, which then breaks on the path `/consumers//ids`.
    """
    return _validate("group", name)


def validate_topic(name: str) -> str:
    """Returns the name. Raises ConfigError unless it is a legal topic name of at most 255 characters."""
    return _validate("topic", name, NAME_LENGTH_MAX)


def validate_new_topic(name: str) -> str:
    """Returns the name. Raises ConfigError unless a topic of this name can be created and have folders."""
    return _validate("topic", name, NEW_NAME_LENGTH_MAX)


def validate_consumer_id(name: str) -> str:
    """Returns the id. Raises ConfigError if it is empty or contains `/` or a control character.

    Kafka does not check it: a `/` registers one level deeper and then fails every rebalance. Surrogates and
    characters that ZooKeeper refuses in paths (U+D800..U+F8FF, U+FFF0..U+FFFF, above U+FFFF) are refused too.
    """
    if not name:
        raise ConfigError("consumer id: expected a name, found nothing")
    for character in name:
        if character == "/" or _refused_in_paths(ord(character)):
            raise ConfigError(f"consumer id {name!r}: expected no {character!r} in it")
    return name


def make_member_id(group: str, consumer_id: str | None, host: str, wall_ms: int, random_hex8: str) -> str:
    """The id of a member: from `consumer_id` if one is given, else generated from the other arguments.

    Raises ConfigError for an invalid group or consumer id.
    """
    validate_group(group)
    if consumer_id is None:
        assert _HEX8.fullmatch(random_hex8), random_hex8
        consumer_id = f"{host}-{wall_ms}-{random_hex8}"
    return f"{group}_{validate_consumer_id(consumer_id)}"


def parse_member_id(group: str, member: str) -> GeneratedId | None:
    """Host and start time of a generated id; None for any other id."""
    match = _GENERATED.fullmatch(member, len(group) + 1) if member.startswith(f"{group}_") else None
    return GeneratedId(match["host"], int(match["ms"])) if match else None


def member_host(group: str, member: str) -> str | None:
    """The host in a generated member id, or None."""
    generated = parse_member_id(group, member)
    return generated.host if generated else None


def thread_id(member: str, n: int) -> str:
    """The thread id: the data of an owner znode, with the member and the number of its thread (stream)."""
    return f"{member}-{n}"


def split_thread_id(text: str) -> tuple[str, int]:
    """Member id and thread number of a thread id. Raises ValueError for another text."""
    match = _THREAD.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no thread id (<member>-<number>)")
    return match["member"], int(match["number"])


def number_of(name: str) -> int | None:
    """The number that a znode is named by (a partition, a broker); None for another name.

    Only the form that Kafka writes is accepted: `007` and `+7` are other znodes, and `²` is a digit for
    `str.isdigit` but not for `int`.
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
    """Returns whether ZooKeeper refuses a character in a path (PathUtils.validatePath, 3.4.6 to 3.9)."""
    return code <= 0x1F or 0x7F <= code <= 0x9F or 0xD800 <= code <= 0xF8FF or code >= 0xFFF0


def sequential(prefix: str, sequence: int) -> str:
    """The name, or path, of a sequential znode with this number (`%010d` of Java)."""
    return f"{prefix}{sequence:010}"


def sequence_of(prefix: str, name: str) -> int | None:
    """The number in the name of a sequential child; None for another name."""
    return decimal(name.removeprefix(prefix), INT32) if name.startswith(prefix) else None


def is_legal(topic_partition: TopicPartition) -> bool:
    """Returns whether a partition can exist: its topic has a legal name, and its number is not negative."""
    try:
        validate_topic(topic_partition.topic)
    except ConfigError:
        return False
    return topic_partition.partition >= 0


_NUMBERS = range(INT32[-1] + 1)


def read_entries(
    path: str, fields: Mapping[str, object], key: str = "partitions"
) -> list[tuple[TopicPartition, Mapping[str, object]]]:
    """The partitions, each with all keys of its entry, in order. Raises CorruptZnodeError."""
    entries = fields.get(key)
    if not isinstance(entries, list):
        raise CorruptZnodeError(path, f"a list in {key!r}", show(entries))
    found: list[tuple[TopicPartition, Mapping[str, object]]] = []
    for entry in entries:
        if not isinstance(entry, dict):
            raise CorruptZnodeError(path, f"objects in {key!r}", show(entry))
        topic, partition = text_of(path, entry, "topic"), integer_of(path, entry, "partition", _NUMBERS)
        found.append((TopicPartition(topic, partition), entry))
    return found


def write_entry(topic_partition: TopicPartition) -> dict[str, object]:
    """The entry of one partition. Raises ConfigError for an invalid topic name or partition number."""
    return {
        "topic": validate_topic(topic_partition.topic),
        "partition": check_number(f"partition of {topic_partition.topic}", topic_partition.partition),
    }


def check_once(what: str, partitions: Iterable[TopicPartition]) -> None:
    """Raises ConfigError for a duplicate partition, or for none."""
    seen: set[TopicPartition] = set()
    for topic_partition in partitions:
        if topic_partition in seen:
            raise ConfigError(f"{what}: {topic_partition} is named twice")
        seen.add(topic_partition)
    if not seen:
        raise ConfigError(f"{what}: expected at least one partition, found none")
