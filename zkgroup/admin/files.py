"""The files of Kafka's own tools: topics to move, reassignments, partitions to elect, and committed offsets.

The JSON files of moves and elections go into `kafka-reassign-partitions` and into zkgroup, either way round
(kafka/admin/ReassignPartitionsCommand.scala@0.8.2.2 and @2.8.2).

Offsets: the line format is that of `kafka.tools.ExportZkOffsets` and `ImportZkOffsets` (0.8.2.2):
`/consumers/<group>/offsets/<topic>/<partition>:<offset>`; JSON lines, JSON and CSV with a header are
zkgroup's own. CSV without a header is that of `kafka-consumer-groups --reset-offsets --from-file`
(`parseResetPlan` of kafka/admin/ConsumerGroupCommand.scala@2.8.2): `topic,partition,offset` of one group,
from 2.4 on also `group,topic,partition,offset`.
Kafka's tool stops at an empty line, and says nothing of what follows; here blank lines are passed over, and
every other line is an offset or an error that names it.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.groups.group_ids import validate_group_id
from zkgroup.model import TopicPartition
from zkgroup.model.text import csv_text
from zkgroup.znodes.admin_requests import Move, PreferredElection, Reassignment
from zkgroup.znodes.consumers import OFFSET_MAX, PARTITION_MAX, Offset, consumers_path
from zkgroup.znodes.ids import validate_topic

ANY_FOLDER = "any"

_REASSIGNMENT = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2]}]}'


def parse_reassignment(where: str, text: str) -> tuple[Move, ...]:
    """`{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}`.

    `log_dirs` (1.0) is taken where every entry is `any`, which asks for nothing.

    Raises:
        ConfigError: no such file, no partition, one named twice, a broker twice in a list, an empty list, a
            folder in `log_dirs`, a name or number that cannot be. The message names the place.
    """
    document = _json(where, text, _REASSIGNMENT)
    try:
        moves = Reassignment.decode(where, text.encode("utf-8", "surrogatepass")).moves
    except CorruptZnodeError as error:
        raise ConfigError(f"{error}; a file holds {_REASSIGNMENT}") from error
    if (version := document.get("version", 1)) != 1:
        raise ConfigError(
            f"{where}: expected version 1, found {_shown(version)}; a file holds {_REASSIGNMENT}"
        )
    _refuse_folders(where, document)
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
    _json(where, text, '{"partitions":[{"topic":"orders","partition":0}]}')
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


def _refuse_folders(where: str, document: Mapping[str, Any]) -> None:
    for entry in document["partitions"]:
        folders = entry.get("log_dirs") or ()
        if any(folder != ANY_FOLDER for folder in folders):
            raise ConfigError(
                f"{where}: {entry['topic']}-{entry['partition']}: expected 'any' in 'log_dirs', found "
                f"{_shown(folders)}: ZooKeeper has no request that names a folder of a broker"
            )


def _json(where: str, text: str, expected: str) -> Any:
    """The value, with each key once in its object: of two values `json` would drop the first."""
    try:
        return json.loads(text, object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: expected {expected}, found: {error}") from error


def _each_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"an object that has {twice!r} twice")
    return found


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


CSV_COLUMNS = ("group", "topic", "partition", "offset")

_LINE = re.compile(
    rf"{consumers_path()}/(?P<group>[^/]+)/offsets/(?P<topic>[^/]+)/(?P<partition>[^/:]+):(?P<offset>[^/:]+)"
)
_KAFKA_ROW = re.compile(r"(?!/).*,\s*[0-9]+\s*,\s*[0-9]+")
_NUMBER = re.compile(r"-?[0-9]{1,19}")


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


def kafka_csv(offsets: Sequence[SavedOffset]) -> str:
    """The rows that `kafka-consumer-groups --from-file` reads, with the group where there are several."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    several = len({saved.group for saved in offsets}) > 1
    for saved in offsets:
        row = (*saved.topic_partition, saved.offset)
        writer.writerow((saved.group, *row) if several else row)
    return text.getvalue()


def parse_offsets(where: str, text: str, *, group: str | None = None) -> tuple[SavedOffset, ...]:
    """Offsets from any of the formats that `export` writes, recognised by how they begin.

    `where` names the text in errors, `group` keeps only that group. Raises ConfigError naming the line and
    what was expected there, for every line that is neither an offset nor blank.
    """
    first = next((line for line in text.split("\n") if line.strip()), "").strip()
    if first.startswith("{"):
        found = (_from_json_lines if _is_row(first) else _from_json)(where, text)
    elif _KAFKA_ROW.fullmatch(first):
        found = _from_kafka_csv(where, text, group)
    elif first.startswith("group,"):
        found = _from_csv(where, text)
    else:
        found = _from_lines(where, text)
    chosen = [saved for saved in found if group is None or saved.group == group]
    if not chosen:
        raise ConfigError(f"{where} holds no offset" + (f" of group {group!r}" if group else ""))
    seen: dict[tuple[str, TopicPartition], int] = {}
    for saved in chosen:
        known = seen.setdefault((saved.group, saved.topic_partition), saved.offset)
        if known != saved.offset:
            raise ConfigError(
                f"{where}: {saved.group} {saved.topic_partition} has both {known} and {saved.offset}"
            )
    return tuple(SavedOffset(name, tp, offset) for (name, tp), offset in seen.items())


def parse_topic_rows(where: str, text: str, last: str) -> dict[TopicPartition, int]:
    """`topic,partition,number` on each line, no header, as in Kafka's `--from-file`; `last` names the number.

    Raises ConfigError naming the line, for every line that is neither such a row nor blank.
    """
    found: dict[TopicPartition, int] = {}
    for place, row in _csv_rows(where, text):
        fields = [field.strip() for field in row]
        if len(row) != 3 or not all(field.isdecimal() and _NUMBER.fullmatch(field) for field in fields[1:]):
            raise ConfigError(f"{place}: expected TOPIC,PARTITION,{last}, found {','.join(row)!r}")
        tp = TopicPartition(_at(place, validate_topic, fields[0]), int(fields[1]))
        known = found.setdefault(tp, int(fields[2]))
        if known != int(fields[2]):
            raise ConfigError(f"{place}: {tp} has both {known} and {fields[2]}")
    if not found:
        raise ConfigError(f"{where}: expected TOPIC,PARTITION,{last}, found nothing")
    return found


def _from_lines(where: str, text: str) -> Iterator[SavedOffset]:
    for place, line in _lines(where, text):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ConfigError(
                f"{place}: expected /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET, found {line!r}"
            )
        yield _saved(place, match.groupdict())


def _from_csv(where: str, text: str) -> Iterator[SavedOffset]:
    rows = _csv_rows(where, text)
    place, columns = next(rows)
    if any(columns.count(column) != 1 for column in CSV_COLUMNS):
        raise ConfigError(f"{place}: expected the columns {','.join(CSV_COLUMNS)}, found {','.join(columns)}")
    for place, row in rows:
        if len(row) != len(columns):
            raise ConfigError(f"{place}: expected {','.join(columns)}, found {','.join(row)!r}")
        yield _saved(place, dict(zip(columns, row, strict=True)))


def _from_kafka_csv(where: str, text: str, group: str | None) -> Iterator[SavedOffset]:
    for place, row in _csv_rows(where, text):
        fields = [field.strip() for field in row]
        if len(fields) == 3 and group is None:
            raise ConfigError(
                f"{place}: expected GROUP,TOPIC,PARTITION,OFFSET, found no group: name it by --group"
            )
        if len(fields) == 3:
            fields = [str(group), *fields]
        if len(fields) != len(CSV_COLUMNS):
            raise ConfigError(f"{place}: expected TOPIC,PARTITION,OFFSET, found {','.join(row)!r}")
        yield _saved(place, dict(zip(CSV_COLUMNS, fields, strict=True)))


def _from_json(where: str, text: str) -> Iterator[SavedOffset]:
    expected = 'a JSON object with a list "offsets", as `offsets export --format json` writes it'
    document = _json(where, text, expected)
    rows = document.get("offsets") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        raise ConfigError(f"{where}: expected {expected}")
    for number, row in enumerate(rows):
        yield _saved(f"{where}: offsets[{number}]", row)


def _from_json_lines(where: str, text: str) -> Iterator[SavedOffset]:
    for place, line in _lines(where, text):
        yield _saved(place, _json(place, line, "a JSON object"))


def _is_row(line: str) -> bool:
    """Returns whether a line is a whole JSON object that is about one group: then each line is one."""
    try:
        return "group" in json.loads(line)
    except (ValueError, RecursionError):
        return False


def _lines(where: str, text: str) -> Iterator[tuple[str, str]]:
    """Place and text of each line that is not blank, without the white space around it."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"{where}:{number}", line.strip()


def _csv_rows(where: str, text: str) -> Iterator[tuple[str, list[str]]]:
    """Place and fields of each row that is not blank."""
    reader = csv.reader(io.StringIO(text), strict=True)
    try:
        for row in reader:
            if len(row) > 1 or "".join(row).strip():
                yield f"{where}:{reader.line_num}", [csv_text(cell) for cell in row]
    except csv.Error as error:
        raise ConfigError(f"{where}:{reader.line_num}: no CSV: {error}") from error


def _saved(place: str, row: object) -> SavedOffset:
    if not isinstance(row, Mapping) or any(row.get(column) is None for column in CSV_COLUMNS):
        raise ConfigError(f"{place}: expected {', '.join(CSV_COLUMNS)}, found {row!r}")
    group, topic, *numbers = (str(row[column]) for column in CSV_COLUMNS)
    _at(place, validate_group_id, group)
    _at(place, validate_topic, topic)
    if not all(map(_NUMBER.fullmatch, numbers)):
        raise ConfigError(
            f"{place}: expected whole numbers as partition and offset, found {' and '.join(numbers)}"
        )
    partition, offset = map(int, numbers)
    if not 0 <= partition <= PARTITION_MAX or not 0 <= offset <= OFFSET_MAX:
        raise ConfigError(
            f"{place}: expected a partition from 0 to {PARTITION_MAX} and an offset from 0 to {OFFSET_MAX}, "
            f"found {partition} and {offset}"
        )
    return SavedOffset(group, TopicPartition(topic, partition), offset)


def _at(place: str, validate: Callable[[str], str], name: str) -> str:
    try:
        return validate(name)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error
