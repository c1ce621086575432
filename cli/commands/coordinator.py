"""`zkgroup coordinator describe|release`."""

from __future__ import annotations

import click

from zkgroup.admin.coordinated_groups import plan_release, release_group_change
from zkgroup.admin.coordinator import describe_coordinator
from zkgroup.errors import PartlyDoneError

from .. import coordinator_documents as documents
from .. import coordinator_tables
from ..app import group as make_group
from ..app import output
from ..confirm import run_change
from ..context import connected
from ..params import confirm_options, group_argument
from ..units import counted

coordinator = make_group(
    "coordinator",
    help="""Show the group coordinator; give groups back to ZooKeeper.

    It runs in every zkgroup broker. A group belongs to a slot, a partition of `__consumer_offsets`, and the
    leader of that partition coordinates the group.

    \b
    Example:
      zkgroup coordinator describe billing""",
)


@coordinator.command()
@click.argument("group", required=False)
def describe(group: str | None) -> None:
    """Show slots and leaders, groups, members and timers.

    Of a group also its phase and generation. With GROUP only this group, with its members. Slots and stored
    members are read from ZooKeeper; phases and timers are asked of the brokers that lead the slots. Exit code
    4 where one does not answer, 5 where no coordinator has ever started, or none has such a group. The csv
    format has a row for each slot, with GROUP one for each member.

    \b
    Example:
      zkgroup coordinator describe billing --format json
    """
    out = output()
    with connected() as ensemble:
        found = describe_coordinator(ensemble, group)
    document = documents.COORDINATOR.json(found.as_of, found)
    if group is None:
        if not out.document(document, "slots", documents.SLOT.keys):
            coordinator_tables.coordinator(out, found)
    elif out.format == "csv":
        out.document(document["groups"][0], "members", documents.COORDINATED_MEMBER.keys)
    elif not out.document(document):
        coordinator_tables.group(out, found.groups[0], found.slots[0])
    if found.unanswered:
        raise PartlyDoneError("; ".join(found.unanswered))


@coordinator.command()
@group_argument()
@confirm_options
def release(group: str, execute: bool, yes: bool) -> None:
    """Let ZooKeeper consumers join GROUP if no broker leads its slot.

    Takes the marker of Kafka's group protocol off, and the stored members out of the group. Refused while a
    live broker leads the slot: that takes the marker off itself when the last member has left. Be sure that
    the clients of the group have stopped. It cannot be undone.

    \b
    Example:
      zkgroup coordinator release billing --execute
    """
    out = output()
    with connected() as ensemble:
        plan = plan_release(ensemble, group)
        change = release_group_change(ensemble, plan)
        named = f"group {group} of slot {plan.slot}: {counted(len(plan.members), 'stored member')}"
        result = run_change(
            change, lambda stderr: stderr.line(f"would release {named}"), execute=execute, yes=yes
        )
    done = documents.GroupRelease(
        group=group, executed=result.executed, slot=plan.slot, leader=plan.leader, members=plan.members
    )
    if not out.document(documents.GROUP_RELEASE.json(plan.as_of, done)):
        out.line(f"{'released' if result.executed else 'would release'} {named}")
