"""`zkgroup group`: list, describe, verify, preview, nudge, delete."""

from __future__ import annotations

from typing import Any

import click

from zkgroup.admin import groups as admin
from zkgroup.admin.group_deletion import delete_group, plan_deletion
from zkgroup.admin.nudging import nudge as nudge_group
from zkgroup.admin.nudging import plan_nudge
from zkgroup.admin.preview import Change

from . import documents, group_tables
from .connection import connected
from .consent import is_wanted, recorded, say_no_way_back
from .frame import group as make_group
from .frame import output
from .options import consent_options, group_argument, source_option, wait_options, wait_s
from .output import say
from .parameters import NameAndCount
from .sources import log_ends, own_log_ends
from .units import counted, is_whole

EXIT_CHECK_FAILED = 3

group = make_group("group", help="Look at groups, check and delete them.")


@group.command("list")
@source_option
def list_(source: str | None) -> None:
    """Every group with its state."""
    out = output()
    with connected() as ensemble, log_ends(source, ensemble) as ends:
        as_of, rows = admin.list_groups(ensemble, ends)
    if not out.document(documents.groups(as_of, rows), "groups", group_tables.GROUP_KEYS):
        group_tables.groups(out, rows)
        if not rows:
            say("no group has ever joined; start a member with `zkgroup consume GROUP --topic TOPIC`")


@group.command()
@group_argument(many=True)
@source_option
def describe(groups: tuple[str, ...], source: str | None) -> None:
    """Members, partitions, owners and offsets of GROUP.

    Without --source, brokers of zkgroup in the ensemble are asked for log ends; `--source none` asks nobody.
    """
    out = output()
    with connected() as ensemble, own_log_ends(source, ensemble) as ends:
        described = [admin.describe(ensemble, name, ends) for name in groups]
    many = len(described) > 1
    document = documents.described_groups(described) if many else documents.group(described[0])
    if out.format == "csv":
        rows = [
            {"group": one.group, **row} for one in described for row in documents.group(one)["partitions"]
        ]
        out.document({"partitions": rows}, "partitions", ("group", *group_tables.PARTITION_KEYS))
    elif not out.document(document, "groups" if many else None):
        for number, one in enumerate(described):
            if number:
                out.line()
            group_tables.group(out, one)


@group.command()
@group_argument()
@wait_options("the group has converged")
@click.pass_context
def verify(ctx: click.Context, group: str, wait: bool, timeout_ms: int | None) -> None:
    """Check that every partition of GROUP is owned by the thread that its rules name.

    Exit code 0 when it is, 3 when not.
    """
    out, longest = output(), wait_s(wait, timeout_ms)
    with connected() as ensemble:
        found = admin.verify(ensemble, group, wait_s=longest)
    if not out.document(documents.verification(found), "problems", group_tables.PROBLEM_KEYS):
        group_tables.verification(out, found)
    ctx.exit(0 if found.converged else EXIT_CHECK_FAILED)


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
@click.option(
    "--assignor", type=click.Choice(["range", "roundrobin", "sticky"]), help="With this assignment strategy."
)
def preview(group: str, **what: Any) -> None:
    """Show who would own what after a change of GROUP. Changes nothing."""
    if what["members"] is not None and (what["added"] or what["removed"]):
        raise click.UsageError("--members excludes --add and --remove")
    change = Change(
        members=what["members"],
        add=tuple(_added(text) for text in what["added"]),
        remove=what["removed"],
        add_partitions=dict(_grown(text) for text in what["grown"]),
        assignor=what["assignor"],
    )
    out = output()
    with connected() as ensemble:
        shown = admin.preview(ensemble, group, change)
    if not out.document(documents.preview(shown), "partitions", group_tables.PREVIEW_KEYS):
        group_tables.preview(out, shown)
    for note in shown.notes:
        say(f"note: {note}")


@group.command()
@group_argument()
@consent_options
def nudge(group: str, execute: bool, yes: bool) -> None:
    """Make every member of GROUP look at the group again; at most once in ten seconds.

    Changes no assignment. It wakes a JVM member that has given up and sits there registered and idle; JVM
    members stop for a moment, ours do not. It cannot be undone.
    """
    out = output()
    with connected() as ensemble:
        plan = plan_nudge(ensemble, group)
        say_no_way_back("it changes nothing that could be put back")
        count = counted(len(plan.members), "member")
        named = f"{count}: {', '.join(plan.members)}"
        wanted = is_wanted(
            execute, yes, f"Nudge {count} of {group}?", lambda aside: aside.line(f"would nudge {named}")
        )
        if wanted:
            nudge_group(ensemble, plan)
    document = documents.document(
        "nudge", plan.as_of, group=group, executed=wanted, members=list(plan.members)
    )
    if not out.document(document):
        out.line(f"{'nudged' if wanted else 'would nudge'} {named}")


@group.command()
@group_argument()
@consent_options
def delete(group: str, execute: bool, yes: bool) -> None:
    """Delete GROUP with its offsets. Refused while anybody is a member."""
    out = output()
    with connected() as ensemble:
        plan = plan_deletion(ensemble, group)
        count = len(plan.znodes) + 2
        offsets = counted(len(plan.offsets), "committed offset")
        members = counted(len(plan.members), "member")
        named = f"group {group}: {counted(count, 'znode')}, {offsets}, {members}"
        way_back = None if plan.offsets or plan.originals else "no offset is committed that could be put back"
        if way_back and not plan.members:
            say_no_way_back(way_back)
        wanted = not plan.members and is_wanted(
            execute,
            yes,
            f"Delete group {group} with {offsets}?",
            lambda aside: aside.line(f"would delete {named}"),
        )
        act, removed = None, 0
        if plan.members:
            delete_group(ensemble, plan)  # raises: says who is in the way
        elif wanted:
            before = {tp: (offset, -1) for tp, offset in plan.offsets}
            offsets_before = dict.fromkeys(plan.originals, (-1, -1)) | before
            how: dict[str, Any] = {"offsets": offsets_before, "originals": plan.originals}
            with recorded(ensemble, group=group, way_back=way_back, **how) as act:
                removed = delete_group(ensemble, plan)
    document = documents.document(
        "group_deletion",
        plan.as_of,
        group=group,
        executed=act is not None,
        undo=act.undo_id if act else None,
        members=list(plan.members),
        offsets=len(plan.offsets),
        znodes=removed if act else count,
    )
    if not out.document(document):
        out.line(f"{'deleted' if act else 'would delete'} {named}")


def _added(text: str) -> tuple[str, dict[str, int] | None]:
    name, _, rest = text.partition(":")
    if not rest:
        return name, None
    parts = rest.split(":")
    pairs = [":".join(parts[i : i + 2]) for i in range(0, len(parts), 2)]
    kind = NameAndCount("TOPIC", "THREADS")
    return name, dict(kind.convert(pair, None, None) for pair in pairs)


def _grown(text: str) -> tuple[str, int]:
    topic, equals, count = text.partition("=")
    if not equals or not topic or not is_whole(count):
        raise click.UsageError(f"--add-partitions {text!r}: expected TOPIC=COUNT, for example orders=4")
    return topic, int(count)
