"""Committed offsets as files: Kafka 0.8.2's line format, JSON lines, JSON and CSV. Pure.

The line format is that of `kafka.tools.ExportZkOffsets` and `ImportZkOffsets` (0.8.2.2):
`/consumers/<group>/offsets/<topic>/<partition>:<offset>`, read until the first empty line.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from zkgroup.admin.offsets.planning import OFFSET_MAX, PARTITION_MAX
from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition
from zkgroup.znodes.consumers import Offset, consumers_path
from zkgroup.znodes.ids import validate_group, validate_topic

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


def to_lines(offsets: Iterable[SavedOffset]) -> Iterator[str]:
    """The 0.8.2 line format, without line ends; negative offsets (none committed) are left out."""
    for saved in offsets:
        if saved.offset >= 0:
            yield f"{Offset.path(saved.group, saved.topic_partition)}:{saved.offset}"


def parse(text: str, *, group: str | None = None) -> tuple[SavedOffset, ...]:
    """Offsets from any of the formats that `export` writes, told apart by their first character.

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
    validate_group(group)
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
