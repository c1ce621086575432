"""`zkgroup offsets`: show, export, import, set, reset, delete, undo."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import IO, Any

import click

from zkgroup.admin import offset_files, offset_plans
from zkgroup.admin.describe import describe_offsets, unreadable_offsets
from zkgroup.admin.reading import picture_to_change, read_picture
from zkgroup.errors import PartlyDoneError
from zkgroup.model import TopicPartition

from . import documents, offset_tables
from .connection import connected
from .frame import group as make_group
from .frame import output
from .offset_acts import carry_out
from .options import allow_missing_option, consent_options, force_option, group_argument, source_option
from .output import say
from .parameters import PartitionValue, TopicPartitions, file_text
from .sources import log_ends, log_positions
from .units import parse_iso_duration_ms, parse_time_ms

offsets = make_group(
    "offsets",
    help="Show, save and change committed offsets.",
    lazy={"undo": (".undo_command:undo", "As `zkgroup undo`.")},
)

_FORCE = "Also where the group has members: their owners then obey."


@offsets.command()
@group_argument()
@source_option
def show(group: str, source: str | None) -> None:
    """The committed offsets of GROUP."""
    out = output()
    with connected() as ensemble, log_ends(source, ensemble) as ends:
        picture = read_picture(ensemble, group)
        known = ends(sorted(picture.offsets)) if ends else None
    rows = describe_offsets(picture, known)
    if not out.document(documents.offsets(picture.as_of, group, rows), "offsets", offset_tables.OFFSET_KEYS):
        offset_tables.offsets(out, rows, picture.as_of.time_ms)
        if not rows:
            say(f"group {group} has committed nothing")
    for error in unreadable_offsets(picture):
        say(f"note: {error}")


@offsets.command()
@group_argument(many=True)
def export(groups: tuple[str, ...]) -> None:
    """Write the offsets of GROUP to stdout, in the line format of Kafka 0.8.2 unless --format says else.

    Partitions without a committed offset are left out; one whose offset cannot be read is an error.
    """
    out = output()
    with connected() as ensemble:
        pictures = [read_picture(ensemble, name) for name in groups]
        as_of = ensemble.as_of()
    saved = [
        offset_files.SavedOffset(picture.group, row.topic_partition, row.offset)
        for picture in pictures
        for row in describe_offsets(picture)
        if row.offset is not None
    ]
    rows = [
        {
            "group": one.group,
            "topic": one.topic_partition.topic,
            "partition": one.topic_partition.partition,
            "offset": one.offset,
        }
        for one in saved
    ]
    document = documents.document("offset_export", as_of, offsets=rows)
    if not out.document(document, "offsets", offset_files.CSV_COLUMNS):
        for line in offset_files.to_lines(saved):
            click.echo(line)
    unreadable = [error for picture in pictures for error in unreadable_offsets(picture)]
    if unreadable:
        raise PartlyDoneError(f"not exported: {'; '.join(map(str, unreadable))}")


@offsets.command("import")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("--group", metavar="GROUP", help="Only the offsets of this group.")
@allow_missing_option
@force_option(_FORCE)
@consent_options
def import_(file: IO[str], group: str | None, allow_missing: bool, force: bool, **consent: bool) -> None:
    """Write the offsets in FILE (`-` for stdin), in any format that `export` writes.

    A group that does not exist yet is made.
    """
    saved = offset_files.parse(file_text(file), group=group)
    with connected() as ensemble:
        plans = []
        for name in sorted({one.group for one in saved}):
            values = {one.topic_partition: one.offset for one in saved if one.group == name}
            picture = picture_to_change(ensemble, name, _topics(values))
            plans.append(offset_plans.plan_values(picture, values, allow_missing=allow_missing))
        carry_out(ensemble, output(), plans, force=force, **consent)


@offsets.command("set")
@group_argument()
@click.argument("values", metavar="TOPIC:PARTITION=OFFSET...", nargs=-1, required=True, type=PartitionValue())
@allow_missing_option
@force_option(_FORCE)
@consent_options
def set_(
    group: str, values: Sequence[tuple[str, int, int]], allow_missing: bool, force: bool, **consent: bool
) -> None:
    """Give partitions of GROUP these offsets. A group that does not exist yet is made."""
    wanted = {TopicPartition(topic, partition): offset for topic, partition, offset in values}
    if len(wanted) < len(values):
        raise click.UsageError("a partition is named twice")
    with connected() as ensemble:
        picture = picture_to_change(ensemble, group, _topics(wanted))
        plan = offset_plans.plan_values(picture, wanted, allow_missing=allow_missing)
        carry_out(ensemble, output(), [plan], force=force, **consent)


@offsets.command()
@group_argument()
@click.option("--to", "to", metavar="TARGET", help="earliest, latest, N, +N, -N or an ISO-8601 time.")
@click.option("--to-earliest", is_flag=True, help="As --to earliest.")
@click.option("--to-latest", is_flag=True, help="As --to latest.")
@click.option("--to-offset", type=click.IntRange(0), metavar="N", help="As --to N.")
@click.option("--shift-by", type=int, metavar="N", help="As --to +N or --to -N.")
@click.option("--to-datetime", metavar="TIME", help="As --to TIME.")
@click.option("--by-duration", metavar="DURATION", help="To the time this long ago: P1DT2H, or 26h.")
@click.option(
    "--from-file", type=click.File("r", encoding="utf-8"), help="TOPIC,PARTITION,OFFSET on each line."
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    type=TopicPartitions(),
    metavar="T[:P,P...]",
    help="Only these; may be repeated.",
)
@source_option
@allow_missing_option
@force_option(_FORCE)
@consent_options
def reset(
    group: str,
    topics: Sequence[tuple[str, tuple[int, ...]]],
    source: str | None,
    allow_missing: bool,
    force: bool,
    execute: bool,
    yes: bool,
    **targets: Any,
) -> None:
    """Move the offsets of GROUP to a target.

    With --topic or --from-file a group that does not exist yet is made.
    """
    chosen = {name: value for name, value in targets.items() if value is not None and value is not False}
    if len(chosen) != 1:
        raise click.UsageError(
            "say where to, with exactly one of --to and its like (--to-earliest, --shift-by, ...)"
        )
    rows = offset_files.parse_topic_rows(file_text(chosen["from_file"])) if "from_file" in chosen else None
    with connected() as ensemble, log_positions(source, ensemble) as log:
        if rows is not None:
            picture = picture_to_change(ensemble, group, _topics(rows))
            plan = offset_plans.plan_values(picture, rows, allow_missing=allow_missing)
        else:
            named = [name for name, _ in topics]
            picture = picture_to_change(ensemble, group, named) if named else read_picture(ensemble, group)
            target = _target(chosen, ensemble.clock.wall_ms())
            partitions = offset_plans.partitions_to_reset(picture, topics)
            plan = offset_plans.plan_reset(picture, target, partitions, log, allow_missing=allow_missing)
        carry_out(ensemble, output(), [plan], force=force, execute=execute, yes=yes)


@offsets.command()
@group_argument()
@click.argument("topics", metavar="TOPIC[:PARTITION,...]...", nargs=-1, required=True, type=TopicPartitions())
@consent_options
def delete(group: str, topics: Sequence[tuple[str, tuple[int, ...]]], **consent: bool) -> None:
    """Delete offsets of GROUP, of topics that are gone too: its members begin there as if they were new.

    Refused while anybody is a member.
    """
    with connected() as ensemble:
        plan = offset_plans.plan_removal(read_picture(ensemble, group), topics)
        carry_out(ensemble, output(), [plan], force=False, **consent)


def _topics(values: Iterable[TopicPartition]) -> list[str]:
    return sorted({topic_partition.topic for topic_partition in values})


def _target(chosen: dict[str, Any], now_ms: int) -> offset_plans.Target:
    ((name, value),) = chosen.items()
    try:
        match name:
            case "to_earliest":
                return offset_plans.Earliest()
            case "to_latest":
                return offset_plans.Latest()
            case "to_offset":
                return offset_plans.Absolute(value)
            case "shift_by":
                return offset_plans.Shift(value)
            case "by_duration":
                return offset_plans.AtTime(now_ms - parse_iso_duration_ms(value))
            case "to_datetime":
                return offset_plans.AtTime(parse_time_ms(value))
            case _:
                return offset_plans.parse_target(value) or offset_plans.AtTime(parse_time_ms(value))
    except ValueError as error:
        hint = "; expected earliest, latest, N, +N, -N or a time" if name == "to" else ""
        raise click.UsageError(f"--{name.replace('_', '-')}: {error}{hint}") from error
