"""The files of Kafka's own tools: topics to move, reassignments, partitions to elect, and committed offsets.

The JSON files of moves and elections go into `kafka-reassign-partitions` and into zkgroup, either way round
(kafka/admin/ReassignPartitionsCommand.scala@0.8.2.2 and @2.8.2).

Offsets: the line format is that of `kafka.tools.ExportZkOffsets` and `ImportZkOffsets` (0.8.2.2):
`/consumers/<group>/offsets/<topic>/<partition>:<offset>`, read until the first empty line; JSON lines, JSON
and CSV are zkgroup's own.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zkgroup.admin.offsets.planning import OFFSET_MAX, PARTITION_MAX
from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.groups.group_ids import validate_group_id
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import Move, PreferredElection, Reassignment
from zkgroup.znodes.consumers import Offset, consumers_path
from zkgroup.znodes.ids import validate_topic

ANY_FOLDER = "any"


def parse_reassignment(where: str, text: str) -> tuple[Move, ...]:
    """`{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}`.

    `log_dirs` (1.0) is taken where every entry is `any`, which asks for nothing.

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
                f"{_shown(folders)}: ZooKeeper has no request that names a folder of a broker"
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


CSV_COLUMNS = ("group", "topic", "partition", "offset")

_LINE = re.compile(
    rf"{consumers_path()}/(?P<group>[^/]+)/offsets/(?P<topic>[^/]+)/(?P<partition>\d+):(?P<offset>-?\d+)"
)

_TOPIC_ROW = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+),(?P<partition>[0-9]{1,19}),(?P<offset>[0-9]{1,19})")


@dataclass(frozen=True, slots=True)
class SavedOffset:
    """One committed offset of one group."""

    group: str
    topic_partition: TopicPartition
    offset: int


def offset_lines(offsets: Iterable[SavedOffset]) -> Iterator[str]:
    """The 0.8.2 line format, without line ends; negative offsets (none committed) are left out."""
    for saved in offsets:
        if saved.offset >= 0:
            yield f"{Offset.path(saved.group, saved.topic_partition)}:{saved.offset}"


def parse_offsets(text: str, *, group: str | None = None) -> tuple[SavedOffset, ...]:
    """Offsets from any of the formats that `export` writes, recognised by their first character.

    `group` keeps only that group. Raises ConfigError naming the line and what was expected there.
    """
    stripped = text.lstrip()
    if stripped.startswith("{"):
        found = _from_json(text)
    elif stripped.startswith("group,"):
        found = _from_csv(text)
    else:
        found = _from_lines(text)
    chosen = [saved for saved in found if group is None or saved.group == group]
    if not chosen:
        raise ConfigError("the file holds no offset" + (f" of group {group!r}" if group else ""))
    seen: dict[tuple[str, TopicPartition], int] = {}
    for saved in chosen:
        known = seen.setdefault((saved.group, saved.topic_partition), saved.offset)
        if known != saved.offset:
            raise ConfigError(
                f"{saved.group} {saved.topic_partition}: the file gives both {known} and {saved.offset}"
            )
    return tuple(SavedOffset(name, tp, offset) for (name, tp), offset in seen.items())


def parse_topic_rows(text: str) -> dict[TopicPartition, int]:
    """Kafka's `--from-file` form: `topic,partition,offset` on each line, no header. Raises ConfigError."""
    found: dict[TopicPartition, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = _TOPIC_ROW.fullmatch(line.strip())
        if line.strip() and match is None:
            raise ConfigError(f"line {number}: expected TOPIC,PARTITION,OFFSET, found {line!r}")
        if match:
            found[TopicPartition(match["topic"], int(match["partition"]))] = int(match["offset"])
    if not found:
        raise ConfigError("the file holds no offset")
    return found


def _from_lines(text: str) -> Iterator[SavedOffset]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line:
            return  # as ImportZkOffsets does
        match = _LINE.fullmatch(line)
        if match is None:
            raise ConfigError(
                f"line {number}: expected /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET, found {line!r}"
            )
        yield _saved(f"line {number}", match.groupdict())


def _from_csv(text: str) -> Iterator[SavedOffset]:
    for number, row in enumerate(csv.DictReader(io.StringIO(text)), 2):
        yield _saved(f"line {number}", row)


def _from_json(text: str) -> Iterator[SavedOffset]:
    try:
        document = json.loads(text)
    except ValueError:
        yield from _from_json_lines(text)
        return
    rows = document.get("offsets") if isinstance(document, dict) else None
    if rows is None and isinstance(document, dict) and "offset" in document:
        rows = [document]
    if not isinstance(rows, list):
        raise ConfigError(
            'expected a JSON object with a list "offsets", as `offsets export --format json` writes it'
        )
    for number, row in enumerate(rows):
        yield _saved(f"offsets[{number}]", row)


def _from_json_lines(text: str) -> Iterator[SavedOffset]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError as error:
                raise ConfigError(f"line {number}: not JSON: {error}") from error
            yield _saved(f"line {number}", row)


def _saved(where: str, row: object) -> SavedOffset:
    if not isinstance(row, Mapping) or any(row.get(column) is None for column in CSV_COLUMNS):
        raise ConfigError(f"{where}: expected {', '.join(CSV_COLUMNS)}, found {row!r}")
    group, topic = str(row["group"]), str(row["topic"])
    validate_group_id(group)
    validate_topic(topic)
    try:
        partition, offset = int(str(row["partition"])), int(str(row["offset"]))
    except ValueError:
        raise ConfigError(
            f"{where}: partition and offset must be whole numbers, found {dict(row)!r}"
        ) from None
    if not 0 <= partition <= PARTITION_MAX or not 0 <= offset <= OFFSET_MAX:
        raise ConfigError(
            f"{where}: expected a partition from 0 to {PARTITION_MAX} and an offset from 0 to {OFFSET_MAX}, "
            f"found {partition} and {offset}"
        )
    return SavedOffset(group, TopicPartition(topic, partition), offset)
