"""The JSON files of Kafka's own tools: topics to move, reassignments, partitions to elect.

The same files go into `kafka-reassign-partitions` and into ours, either way round
(kafka/admin/ReassignPartitionsCommand.scala@0.8.2.2 and @2.8.2).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import Move, PreferredElection, Reassignment
from zkgroup.znodes.ids import validate_topic

ANY_FOLDER = "any"


def parse_reassignment(where: str, text: str) -> tuple[Move, ...]:
    """`{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}`.

    `log_dirs` (1.0) is taken where every entry is `any`, which is no wish.

    Raises:
        ConfigError: no such file, no partition, one named twice, a broker twice in a list, an empty list, a
            folder in `log_dirs`, a name or number that cannot be. The message names the place.
    """
    try:
        moves = Reassignment.decode(where, text.encode("utf-8", "surrogatepass")).moves
    except CorruptZnodeError as error:
        raise ConfigError(f"{error}; {_hint_of_reassignment()}") from error
    if (version := json.loads(text).get("version", 1)) != 1:
        raise ConfigError(f"{where}: expected version 1, found {_shown(version)}; {_hint_of_reassignment()}")
    _refuse_folders(where, text)
    try:
        Reassignment(moves).encode()
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    return moves


def parse_topics(where: str, text: str) -> tuple[str, ...]:
    """`{"topics":[{"topic":"foo"}],"version":1}`, for `generate`. Raises ConfigError."""
    expected = '{"topics":[{"topic":"orders"}],"version":1}'
    found = _json(where, text, expected)
    topics = found.get("topics") if isinstance(found, Mapping) else None
    entries: list[Any] = topics if isinstance(topics, list) else []
    names = [
        one["topic"] for one in entries if isinstance(one, Mapping) and isinstance(one.get("topic"), str)
    ]
    if not entries or len(names) < len(entries):
        raise ConfigError(f"{where}: expected {expected}, found {_shown(found)}")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"{where}: topics named twice: {', '.join(twice)}")
    return tuple(validate_topic(name) for name in names)


def parse_partitions(where: str, text: str) -> tuple[TopicPartition, ...]:
    """`{"partitions":[{"topic":"t","partition":0}]}`, for an election. Raises ConfigError."""
    try:
        partitions = PreferredElection.decode(where, text.encode("utf-8", "surrogatepass")).partitions
        PreferredElection(partitions).encode()
    except CorruptZnodeError as error:
        raise ConfigError(str(error)) from error
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    return partitions


def reassignment_json(replicas: Mapping[TopicPartition, Sequence[int]]) -> dict[str, Any]:
    """The lists as such a file holds them, partitions in order."""
    entries = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(lists)}
        for tp, lists in sorted(replicas.items())
    ]
    return {"version": 1, "partitions": entries}


def reassignment_text(replicas: Mapping[TopicPartition, Sequence[int]]) -> str:
    """The same as one line of text, as Kafka's tools print it."""
    return json.dumps(reassignment_json(replicas), separators=(",", ":"))


def _refuse_folders(where: str, text: str) -> None:
    for entry in json.loads(text)["partitions"]:
        folders = entry.get("log_dirs") or ()
        if any(folder != ANY_FOLDER for folder in folders):
            raise ConfigError(
                f"{where}: {entry['topic']}-{entry['partition']}: expected 'any' in 'log_dirs', found "
                f"{_shown(folders)}: which folder of a broker is not told through ZooKeeper"
            )


def _json(where: str, text: str, expected: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: expected {expected}, found no JSON: {error}") from error


def _hint_of_reassignment() -> str:
    return 'a file holds {"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2]}]}'


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
