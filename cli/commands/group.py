"""`zkgroup group`: list, describe, check, history, verify, preview, nudge, delete."""

from __future__ import annotations

from typing import Any

import click

from zkgroup.admin.coordinator import live_reader
from zkgroup.admin.groups import delete_group_change, nudge_group_change, plan_deletion, plan_nudge
from zkgroup.errors import NotFoundError
from zkgroup.groups import reads as admin
from zkgroup.groups.check import CheckLimits, check_groups, read_window
from zkgroup.groups.history import read_history
from zkgroup.groups.preview import GroupChange

from .. import groups as shown
from ..app import check_read, fail_check, output
from ..app import group as make_group
from ..confirm import print_result, run_change
from ..context import connected
from ..param_types import SOME_TIME, TOPIC_AND_COUNT
from ..params import (
    Consent,
    broker_options,
    confirm_options,
    group_argument,
    source_option,
    wait_options,
    window_option,
)
from ..render import echo_err
from ..sources import asking, log_ends
from ..units import is_whole
from ..watching import watch_option

group = make_group(
    "group",
    lazy={
        "freeze": (
            ".commands.group_freeze:freeze",
            "Let no partition of GROUP move, but by leaving and death",
        ),
        "unfreeze": (".commands.group_freeze:unfreeze", "End the freeze of GROUP: its partitions move again"),
        "copy": (".commands.group_copy:copy", "Give TO the committed offsets of GROUP"),
        "rename": (
            ".commands.group_copy:rename",
            "Move the offsets of GROUP to the name TO",
        ),
        "prune": (".commands.group_copy:prune", "Delete the groups that nobody has used for long"),
    },
    help="""List, describe, check, preview and delete groups.

    \b
    Example:
      zkgroup group describe billing""",
)


@group.command("list")
@watch_option
@source_option
@broker_options
def list_(source: str | None) -> None:
    """List every group with its state.

    Groups of ZooKeeper consumers, and of clients that join through a coordinator: Kafka's group protocol.
    Without --source, zkgroup brokers in the ensemble are asked for log ends; `--source none` asks none.

    \b
    Example:
      zkgroup group list --format json
    """
    out = output()
    with connected() as ensemble, log_ends(source, ensemble) as ends:
        as_of, rows, denied = admin.list_groups(ensemble, ends, asking(ensemble))
    if not shown.GROUPS.print(out, as_of, groups=rows):
        shown.GROUP_SUMMARY.table(out, rows)
        if not rows and not denied:
            echo_err("no group has ever joined; start a member with `zkgroup consume GROUP --topic TOPIC`")
    check_read("listed", denied.values(), rows=rows)


@group.command()
@group_argument(many=True)
@window_option("judge whether each consumer keeps up")
@watch_option
@source_option
@broker_options
def describe(groups: tuple[str, ...], window: int | None, source: str | None) -> None:
    """Show members, partitions, owners, offsets and lag of GROUP.

    The lag of a partition is its log end offset less the committed offset: the records not committed yet.
    Without --source, zkgroup brokers in the ensemble are asked for log ends; `--source none` asks none.

    \b
    Example:
      zkgroup group describe billing
    """
    out = output()
    with connected() as ensemble, log_ends(source, ensemble) as ends:
        live = asking(ensemble)
        found = {} if window is None else read_window(ensemble, groups, window, ends, live)[0]
        described = [found.get(name) or admin.describe(ensemble, name, ends, live) for name in groups]
    if out.format == "csv":
        rows = [
            {"group": one.group, **shown.GROUP_PARTITION.json(row)}
            for one in described
            for row in one.partitions
        ]
        out.document({"partitions": rows}, "partitions", ("group", *shown.GROUP_PARTITION.keys))
    elif not shown.print_groups(out, described):
        for number, one in enumerate(described):
            if number:
                out.line()
            shown.group(out, one)


@group.command()
@group_argument(many=True, required=False)
@click.option("--all", "every", is_flag=True, help="Check every group.")
@click.option("--max-lag", type=click.IntRange(0), metavar="N", help="Fail for a partition with more lag.")
@click.option(
    "--max-age",
    type=SOME_TIME,
    metavar="DURATION",
    help="Fail for a partition with lag, or whose lag is unknown, without a commit for longer.",
)
@window_option("fail for a partition whose consumer does not keep up")
@source_option
@broker_options
def check(
    groups: tuple[str, ...],
    every: bool,
    max_lag: int | None,
    max_age: int | None,
    window: int | None,
    source: str | None,
) -> None:
    """Check groups for a monitor: exit code 3 if one is not well.

    Prints one line a reason: a partition without an owner, another problem that `group verify` reports, a lag
    or a time since the last commit above its limit, a verdict that is not ok, a group that does not exist.
    A lag that is not known is above every --max-lag. Without --source, zkgroup brokers in the ensemble are
    asked for log ends.

    \b
    Example:
      zkgroup group check --all --max-lag 1000 --max-age 5m
    """
    if every == bool(groups):
        raise click.UsageError("expected names of groups, or --all: give one of them")
    for option, given in (("--max-lag", max_lag), ("--window", window)):
        if given is not None and source == "none":
            raise click.UsageError(f"{option} needs log ends: name another --source than none")
    limits = CheckLimits(max_lag=max_lag, max_age_ms=max_age, window_ms=window)
    out = output()
    with connected() as ensemble, log_ends(source, ensemble) as ends:
        as_of, found = check_groups(ensemble, None if every else groups, limits, ends, asking(ensemble))
    if not shown.CHECK.print(out, as_of, groups=found):
        shown.check(out, found)
    if not all(one.ok for one in found):
        fail_check()


@group.command()
@group_argument()
def history(group: str) -> None:
    """Show the newest rebalances of GROUP.

    Who joined and left, why, and how long it took: at most 200, the newest is the last. MOVED is how many
    partitions got another member. Members keep the history below /zkgroup, and coordinators that of groups of
    Kafka's protocol; it goes with the group.

    \b
    Example:
      zkgroup group history billing
    """
    out = output()
    with connected() as ensemble:
        as_of, rows = read_history(ensemble, group)
    if not shown.HISTORY.print(out, as_of, rebalances=rows):
        shown.history(out, rows)
        if not rows:
            echo_err(
                f"no rebalance of {group} is known: its members keep no history, or have not written it yet"
            )


@group.command()
@group_argument()
@wait_options("the group has converged")
@broker_options
def verify(group: str, wait_s: float | None) -> None:
    """Check that every partition has the owner that was assigned.

    Of a group of Kafka's protocol: that it is stable, and each partition of its topics assigned once.
    Exit code 0 when the group has converged, 3 when it has not, 5 when there is no such group. With --wait a
    group that does not exist is waited for, and its absence at the end is exit code 3.

    \b
    Example:
      zkgroup group verify billing --wait --timeout 60s
    """
    out = output()
    with connected() as ensemble:
        try:
            found = admin.verify(ensemble, group, wait_s=wait_s, live=live_reader(ensemble))
        except NotFoundError as error:
            if wait_s is None:
                raise
            echo_err(f"not converged in time: {error}")
            fail_check()
    if not shown.VERIFICATION.print(out, found.as_of, found):
        shown.verification(out, found)
    if not found.converged:
        fail_check()


@group.command()
@group_argument()
@click.option("--members", type=click.IntRange(0), metavar="N", help="With N members.")
@click.option(
    "--add", "added", multiple=True, metavar="ID[:T:N...]", help="With this member too; may be repeated."
)
@click.option(
    "--remove", "removed", multiple=True, metavar="ID", help="Without this member; may be repeated."
)
@click.option(
    "--add-partitions", "grown", multiple=True, metavar="T=K", help="With K more partitions of topic T."
)
@click.option("--assignor", metavar="NAME", help="With this assignment strategy.  [default: the group's]")
def preview(group: str, **what: Any) -> None:
    """Show who would own what after a change. Changes nothing.

    \b
    Example:
      zkgroup group preview billing --members 4
    """
    if what["members"] is not None and (what["added"] or what["removed"]):
        raise click.UsageError("--members excludes --add and --remove")
    change = GroupChange(
        members=what["members"],
        add=tuple(_added(text) for text in what["added"]),
        remove=what["removed"],
        add_partitions=dict(_grown(text) for text in what["grown"]),
        assignor=what["assignor"],
    )
    out = output()
    with connected() as ensemble:
        found = admin.preview(ensemble, group, change)
    if not shown.PREVIEW.print(out, found.as_of, found):
        shown.preview(out, found)
    for note in found.notes:
        echo_err(f"note: {note}")


@group.command()
@group_argument()
@confirm_options
def nudge(group: str, consent: Consent) -> None:
    """Make every member of GROUP rebalance; at most once in ten seconds.

    Changes no assignment. It wakes a JVM member that has given up and stays registered and idle. JVM members
    stop for a moment, zkgroup members do not. It cannot be undone.

    \b
    Example:
      zkgroup group nudge billing --execute
    """
    with connected() as ensemble:
        change = nudge_group_change(ensemble, plan_nudge(ensemble, group))
        result = run_change(change, shown.nudge, consent)
    print_result(shown.NUDGE, result, shown.nudge)


@group.command()
@group_argument()
@confirm_options
@broker_options
def delete(group: str, consent: Consent) -> None:
    """Delete GROUP with its offsets. Refused while it has members.

    \b
    Example:
      zkgroup group delete billing --execute
    """
    with connected() as ensemble:
        change = delete_group_change(ensemble, plan_deletion(ensemble, group))
        result = run_change(change, shown.deletion, consent)
    print_result(shown.GROUP_DELETION, result, shown.deletion)


def _added(text: str) -> tuple[str, dict[str, int] | None]:
    name, _, rest = text.partition(":")
    if not rest:
        return name, None
    parts = rest.split(":")
    pairs = [":".join(parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return name, dict(TOPIC_AND_COUNT.convert(pair, None, None) for pair in pairs)


def _grown(text: str) -> tuple[str, int]:
    topic, equals, count = text.partition("=")
    if not equals or not topic or not is_whole(count):
        raise click.UsageError(f"--add-partitions {text!r}: expected TOPIC=COUNT, for example orders=4")
    return topic, int(count)
