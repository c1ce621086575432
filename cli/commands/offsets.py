"""`zkgroup offsets`: show, export, import, set, reset, delete, undo."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import wraps
from typing import IO, Any

import click

from zkgroup.admin import files
from zkgroup.admin.offsets import planning
from zkgroup.admin.offsets.changes import (
    OffsetsChange,
    OffsetsResult,
    delete_offsets_change,
    import_offsets_changes,
    reset_all_groups_changes,
    reset_offsets_change,
    saved_offsets,
    set_offsets_change,
)
from zkgroup.admin.offsets.positions import positions_for
from zkgroup.audit.inputs.source import PointInTime
from zkgroup.errors import AccessDeniedError, NotFoundError, PartlyDoneError
from zkgroup.groups.as_of import AsOf
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.offset_writers import read_writers
from zkgroup.groups.reader import group_names, past_offsets, read_offsets, read_permitted_snapshots
from zkgroup.groups.reads import describe_offsets, known_ends, unreadable_offsets
from zkgroup.groups.snapshot import GroupSnapshot
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.text import counted, hex_zxid, iso_time, named

from .. import groups as shown
from ..app import check_read, fail_check, output, shared
from ..app import group as make_group
from ..audit_rows import LastTransaction
from ..confirm import run_changes
from ..context import connected
from ..param_types import AGE, PARTITION_OFFSET, TEXT_FILE, TOPIC_AND_PARTITIONS, named_text
from ..params import (
    Consent,
    allow_missing_option,
    broker_options,
    confirm_options,
    force_option,
    group_argument,
    source_option,
    topics_option,
    wait_options,
)
from ..render import FORMATS, Output, echo_err
from ..schema import SnapshotMoment
from ..sources import log_ends, log_positions
from ..units import parse_iso_duration_ms, parse_time_ms
from .audit.inputs import MOMENT, InputCommand, Inputs, input_options, opened
from .audit.tree import inside, outside

offsets = make_group(
    "offsets",
    help="""Show, export and change committed offsets.

    \b
    Example:
      zkgroup offsets show billing""",
    lazy={"undo": (".commands.undo:undo", "Same as `zkgroup undo`.")},
)

_FORCE = (
    "Also where the group has members: those of zkgroup seek to the new offsets, others overwrite them with "
    "their next commit."
)


def _write_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of commands that write offsets."""
    for option in (
        confirm_options,
        wait_options("it is known of each new offset whether it stands. Exit code 4 where one does not"),
        force_option(_FORCE),
        allow_missing_option,
    ):
        function = option(function)
    return function


def _all_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--all-groups` in place of GROUP, as `every`, and `--all-topics`, which is the default."""

    @wraps(function)
    def checked(*args: Any, group: str | None, every: bool, all_topics: bool, **values: Any) -> Any:
        if every == (group is not None):
            raise click.UsageError("expected GROUP, or --all-groups: give one of them")
        if all_topics and values.get("topics"):
            raise click.UsageError("--all-topics and --topic contradict each other")
        return function(*args, group=group, **values)

    decorated = click.option(
        "--all-topics", is_flag=True, help="All topics that the group has offsets of (the default)."
    )(checked)
    decorated = click.option("--all-groups", "every", is_flag=True, help="All groups that have offsets.")(
        decorated
    )
    return group_argument(required=False)(decorated)


@offsets.command()
@_all_options
@source_option
@broker_options
def show(group: str | None, source: str | None) -> None:
    """Show the committed offsets of GROUP, with its lag.

    The lag of a partition is its log end offset less the committed offset: the records not committed yet.
    Without --source, zkgroup brokers in the ensemble are asked for log ends; `--source none` asks none.
    With --verbose, who has written each offset and when, as far as ZooKeeper tells: the owner, an operator,
    or a member with `commit_history`.

    \b
    Example:
      zkgroup offsets show billing --source files:records
    """
    out = output()
    with connected() as ensemble, log_ends(source, ensemble) as ends:
        snapshots, denied = _shown(ensemble, group)
        known = known_ends(ends, sorted({tp for one in snapshots for tp in one.offsets}))
        writers = [read_writers(ensemble, one) if shared().verbose else {} for one in snapshots]
        as_of = ensemble.as_of()
    found = [(one, describe_offsets(one, known, by)) for one, by in zip(snapshots, writers, strict=True)]
    if group is not None:
        ((snapshot, rows),) = found
        if not shown.OFFSETS.print(out, snapshot.as_of, group=group, offsets=rows):
            shown.OFFSET.table(out, rows, snapshot.as_of.time_ms)
            if not rows:
                echo_err(f"group {group} has committed nothing")
    else:
        shown.all_offsets(out, as_of, found)
    for error in (error for snapshot in snapshots for error in unreadable_offsets(snapshot)):
        echo_err(f"note: {error}")
    check_read("shown", denied, rows=found)


def _shown(ensemble: Ensemble, group: str | None) -> tuple[list[GroupSnapshot], list[AccessDeniedError]]:
    """The group, or all that have offsets, and why others cannot be read."""
    if group is not None:
        return [read_offsets(ensemble, group)], []
    snapshots, denied = read_permitted_snapshots(ensemble, group_names(ensemble))
    found = [one for _, one in sorted(snapshots.items()) if one is not None and one.offsets]
    return found, list(denied.values())


class _ExportCommand(InputCommand):
    """`offsets export`, which has one format more."""

    formats = (*FORMATS, "kafka-csv")


@offsets.command(cls=_ExportCommand)
@input_options(more=False, needs_trees=True)
@click.option(
    "--at",
    type=MOMENT,
    metavar="ZXID|TIME",
    help="With --input: the offsets of this moment.  [default: the last]",
)
@click.option("-g", "--group", "also", multiple=True, metavar="GROUP", help="The same as GROUP.")
@group_argument(many=True, required=False)
def export(inputs: Inputs, at: PointInTime | None, also: tuple[str, ...], groups: tuple[str, ...]) -> None:
    """Write the offsets of GROUP to stdout.

    In the line format of Kafka 0.8.2 unless --format says otherwise; `kafka-csv` is what
    `kafka-consumer-groups --reset-offsets --from-file` reads. Partitions without a committed offset
    are left out; an offset that cannot be read is an error. With --input they are those of a moment of the
    past, which is on stderr, with what keeps it from being exact; exit code 3 where something on the way is
    missing or wrong, 4 where an export could not read all.

    \b
    Example:
      zkgroup offsets export billing > billing.txt
      zkgroup offsets export --input copy/version-2 --at 2026-01-31T14:00:00Z billing > billing.txt
    """
    out, names = output(), dict.fromkeys((*groups, *also))
    if not names:
        raise click.UsageError("Missing argument 'GROUP...'.")
    if inputs.paths:
        snapshots, as_of, lacking, is_whole = _of_past(inputs, at, names)
    else:
        if at is not None:
            raise click.UsageError("a live ensemble has no past: --at is for --input")
        inputs.require_live()
        lacking, is_whole = [], True
        with connected() as ensemble:
            snapshots = [read_offsets(ensemble, name) for name in names]
            as_of = ensemble.as_of()
    saved = [one for snapshot in snapshots for one in saved_offsets(snapshot)]
    if out.format == "kafka-csv":
        for line in files.kafka_csv(saved).splitlines():
            out.line(line)
    elif not shown.OFFSET_EXPORT.print(out, as_of, offsets=saved):
        for line in files.offset_lines(saved):
            out.line(line)
    unreadable = [error for snapshot in snapshots for error in unreadable_offsets(snapshot)]
    check_read("exported", [*unreadable, *lacking])
    if not is_whole:
        fail_check()


def _of_past(
    inputs: Inputs, at: PointInTime | None, groups: Iterable[str]
) -> tuple[list[GroupSnapshot], SnapshotMoment, list[AccessDeniedError], bool]:
    """The groups with their offsets, the moment, why some may lack, and whether nothing is damaged.

    Raises as `past_offsets`.
    """
    with opened(inputs, in_columns=False) as (source, report):
        report("replaying")
        seen = source.tree(at)
        moment, unknown = LastTransaction.of(seen.zxid, seen.time_ms), seen.unknown

        def below(path: str) -> list[Znode]:
            paths = seen.tree.paths(outside(source.chroot, path))
            znodes = (seen.tree.znode(one) for one in paths if inside(source.chroot, one) not in unknown)
            return [one._replace(path=inside(source.chroot, one.path)) for one in znodes if one]

        as_of = AsOf(moment.zxid, moment.time_ms or 0)
        found = [past_offsets(group, as_of, below, unknown) for group in groups]
    when = "" if seen.time_ms is None else f", {iso_time(seen.time_ms)}"
    echo_err(f"the offsets at {hex_zxid(seen.zxid)}{when}: {'exact' if seen.is_exact else seen.detail}")
    lacking = [error for _, error in found if error is not None]
    return [one for one, _ in found], moment, lacking, not (seen.is_damaged or source.damages())


@offsets.command("import")
@click.argument("file", type=TEXT_FILE)
@click.option("--group", metavar="GROUP", help="Only the offsets of this group; that of rows without one.")
@_write_options
def import_(file: IO[str], group: str | None, allow_missing: bool, force: bool, **confirm: Any) -> None:
    """Write the offsets in FILE, in any format that `export` writes.

    `-` is standard input. A group that does not exist yet is created. Rows that name no group need --group.

    \b
    Example:
      zkgroup offsets import billing.txt --execute
    """
    saved = files.parse_offsets(*named_text(file), group=group)
    with connected() as ensemble:
        changes = import_offsets_changes(ensemble, saved, allow_missing=allow_missing, force=force)
        run_offset_changes(changes, **confirm)


@offsets.command("set")
@group_argument()
@click.argument("values", metavar="TOPIC:PARTITION=OFFSET...", nargs=-1, required=True, type=PARTITION_OFFSET)
@_write_options
def set_(
    group: str, values: Sequence[tuple[str, int, int]], allow_missing: bool, force: bool, **confirm: Any
) -> None:
    """Set the offsets of some partitions of GROUP.

    A group that does not exist yet is created.

    \b
    Example:
      zkgroup offsets set billing orders:3=42 --execute
    """
    wanted = {TopicPartition(topic, partition): offset for topic, partition, offset in values}
    if len(wanted) < len(values):
        raise click.UsageError("a partition is named twice")
    with connected() as ensemble:
        change = set_offsets_change(ensemble, group, wanted, allow_missing=allow_missing, force=force)
        run_offset_changes([change], **confirm)


@offsets.command()
@_all_options
@click.option("--to", "to", metavar="TARGET", help="earliest, latest, N, +N, -N or an ISO-8601 time.")
@click.option("--to-earliest", is_flag=True, help="Same as --to earliest.")
@click.option("--to-latest", is_flag=True, help="Same as --to latest.")
@click.option("--to-offset", type=click.IntRange(0), metavar="N", help="Same as --to N.")
@click.option("--shift-by", type=int, metavar="N", help="Same as --to +N or --to -N.")
@click.option("--to-datetime", metavar="TIME", help="Same as --to TIME.")
@click.option("--by-duration", metavar="DURATION", help="To the time this long ago: P1DT2H, or 26h.")
@click.option("--from-file", type=TEXT_FILE, help="TOPIC,PARTITION,OFFSET on each line.")
@topics_option("Only these; may be repeated.")
@source_option
@_write_options
@broker_options
def reset(
    group: str | None,
    topics: Sequence[tuple[str, tuple[int, ...]]],
    source: str | None,
    allow_missing: bool,
    force: bool,
    consent: Consent,
    wait_s: float | None,
    **targets: Any,
) -> None:
    """Reset the offsets of GROUP to a target.

    With --topic or --from-file a group that does not exist yet is created. With --all-groups those that have
    members are left out, without --force, and the exit code is 4.
    Without --source, the registered brokers are asked where earliest, latest and times are. Kafka's before
    0.10.1 know the times of segments, not of records: a note says how exact the offsets are.

    \b
    Example:
      zkgroup offsets reset billing --to earliest --topic orders --execute
    """
    chosen = {name: value for name, value in targets.items() if value is not None and value is not False}
    if len(chosen) != 1:
        raise click.UsageError("give exactly one target: --to, --to-earliest, --shift-by, ...")
    if group is None and (allow_missing or "from_file" in chosen):
        raise click.UsageError("--all-groups excludes --from-file and --allow-missing")
    file: IO[str] | None = chosen.get("from_file")
    rows = files.parse_topic_rows(*named_text(file), "OFFSET") if file else None
    with connected() as ensemble, log_positions(source or "none", ensemble) as log:
        options = {"allow_missing": allow_missing, "force": force}
        if rows is not None and group is not None:
            run_offset_changes([set_offsets_change(ensemble, group, rows, **options)], consent, wait_s)
            return
        target = _target(chosen, ensemble.clock.wall_ms())
        if source is None:
            log = positions_for(ensemble, target)
        if group is not None:
            change = reset_offsets_change(ensemble, group, target, topics, log, **options)
            run_offset_changes([change], consent, wait_s)
            return
        changes, refused = reset_all_groups_changes(ensemble, target, topics, log, force=force)
        if not changes and not refused:
            raise NotFoundError(
                "no group has an offset to reset; `zkgroup offsets show --all-groups` shows them"
            )
        if changes:
            run_offset_changes(changes, consent, wait_s)
        check_read("reset", refused, rows=changes)


@offsets.command()
@group_argument()
@click.argument(
    "topics", metavar="TOPIC[:PARTITION,...]...", nargs=-1, required=False, type=TOPIC_AND_PARTITIONS
)
@click.option(
    "--older-than",
    "older_than_ms",
    type=AGE,
    metavar="DURATION",
    help="Only those that were last committed before; without a TOPIC of all topics.",
)
@confirm_options
def delete(
    group: str, topics: Sequence[tuple[str, tuple[int, ...]]], older_than_ms: int | None, consent: Consent
) -> None:
    """Delete offsets of GROUP. Refused while it has members.

    Topics that are gone can be named too. Members start at these partitions as if they were new.

    \b
    Example:
      zkgroup offsets delete billing orders:0,3 --execute
    """
    if not topics and older_than_ms is None:
        raise click.UsageError("expected TOPIC[:PARTITION,...]..., or --older-than")
    with connected() as ensemble:
        change = delete_offsets_change(ensemble, group, topics, older_than_ms=older_than_ms)
        run_offset_changes([change], consent)


def _target(chosen: dict[str, Any], now_ms: int) -> planning.Target:
    ((name, value),) = chosen.items()
    try:
        match name:
            case "to_earliest":
                return planning.Earliest()
            case "to_latest":
                return planning.Latest()
            case "to_offset":
                return planning.Absolute(value)
            case "shift_by":
                return planning.Shift(value)
            case "by_duration":
                return planning.AtTime(now_ms - parse_iso_duration_ms(value))
            case "to_datetime":
                return planning.AtTime(parse_time_ms(value))
            case _:
                return planning.parse_target(value) or planning.AtTime(parse_time_ms(value))
    except ValueError as error:
        hint = "; expected earliest, latest, N, +N, -N or a time" if name == "to" else ""
        raise click.UsageError(f"--{name.replace('_', '-')}: {error}{hint}") from error


def run_offset_changes(
    changes: Sequence[OffsetsChange], consent: Consent, wait_s: float | None = None
) -> None:
    """Runs one change for each group after a single confirmation, and prints what was or would be changed.

    Raises PartlyDoneError where an offset does not stand by the end of the wait.
    """
    plans = [change.plan for change in changes]
    count = sum(len(plan.effective) for plan in plans)
    groups = ", ".join(plan.group for plan in plans)
    results = run_changes(
        changes,
        f"Change {counted(count, 'offset')} of {groups}?",
        lambda stderr: shown.offset_plan(stderr, plans, executed=False),
        consent,
        wait_s,
    )
    _report(output(), results)
    fallen = [
        f"{one.topic_partition} of {result.plan.group} {_STANDINGS[one.standing]}"
        f" (at {one.offset}, owner {one.owner or 'none'})"
        for result in results
        for one in result.outcome or ()
        if one.standing != "stands"
    ]
    if fallen:
        raise PartlyDoneError(
            f"written, but it does not stand: {named(fallen)}; stop the members that do not obey, and run "
            "the command again"
        )


_STANDINGS = {
    "overwritten": "is overwritten",
    "pending": "has not been committed since, so it is not known whether its owner obeys",
}


def _report(out: Output, results: Sequence[OffsetsResult]) -> None:
    executed, plans = any(one.executed for one in results), [one.plan for one in results]
    if out.is_table:
        shown.offset_plan(out, plans, executed=executed)
        return
    changes = [shown.OFFSET_CHANGES.json(one.plan.as_of, replace(one, executed=executed)) for one in results]
    if out.format == "json" and len(changes) == 1:
        out.document(changes[0])
    elif out.format == "json":
        shown.OFFSET_CHANGES_LIST.print(out, plans[-1].as_of, groups=changes)
    else:
        rows = [{"group": one["group"], **row} for one in changes for row in one["changes"]]
        out.document({"changes": rows}, "changes", ("group", *shown.OFFSET_CHANGE.keys))
