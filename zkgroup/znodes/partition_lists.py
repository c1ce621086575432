"""Lists of `{"topic":"orders","partition":0}` in requests and notifications."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.znodes.ids import validate_topic
from zkgroup.znodes.json_fields import INT32, check_number, integer_of, show, text_of

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
