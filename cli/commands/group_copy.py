"""`zkgroup group copy`, `rename` and `prune`: groups as a whole."""

from __future__ import annotations

import click

from zkgroup.admin.group_copies import copy_group_change, plan_rename, rename_group_change
from zkgroup.admin.group_pruning import plan_pruning
from zkgroup.admin.groups import delete_group_change
from zkgroup.model.text import counted

from .. import groups as shown
from ..app import check_read, command, output
from ..confirm import print_result, run_change, run_changes
from ..context import connected
from ..param_types import AGE
from ..params import Consent, broker_options, complete_groups, confirm_options, group_argument
from ..render import echo_err
from .offsets import run_offset_changes

_to_argument = click.argument("to", metavar="TO", shell_complete=complete_groups)


@command("copy")
@group_argument()
@_to_argument
@confirm_options
def copy(group: str, to: str, consent: Consent) -> None:
    """Give TO the committed offsets of GROUP.

    GROUP may have members. TO is created if it does not exist; other offsets that it has stay. Refused while
    TO has members or is frozen.

    \b
    Example:
      zkgroup group copy billing billing-test --execute
    """
    with connected() as ensemble:
        run_offset_changes([copy_group_change(ensemble, group, to)], consent)


@command("rename")
@group_argument()
@_to_argument
@confirm_options
@broker_options
def rename(group: str, to: str, consent: Consent) -> None:
    """Move the offsets of GROUP to the name TO.

    They move in one transaction, then what is left of GROUP is deleted. Refused while one of the groups has
    members or is frozen, and where TO has offsets. The history of the rebalances of GROUP goes.

    \b
    Example:
      zkgroup group rename billing invoicing --execute
    """
    with connected() as ensemble:
        change = rename_group_change(ensemble, plan_rename(ensemble, group, to))
        result = run_change(change, shown.renaming, consent)
    print_result(shown.RENAMING, result, shown.renaming)


@command("prune")
@group_argument(many=True, required=False)
@click.option(
    "--idle",
    "idle_ms",
    type=AGE,
    required=True,
    metavar="DURATION",
    help="Those whose newest commit is at least so old.",
)
@confirm_options
@broker_options
def prune(groups: tuple[str, ...], idle_ms: int, consent: Consent) -> None:
    """Delete the groups that nobody has used for long.

    Of all groups, or of those named, these are deleted with their offsets that have no members, and whose
    newest commit is old. Frozen groups stay. Each deletion is refused if the group is used meanwhile, and
    each has its own undo.

    \b
    Example:
      zkgroup group prune --idle 90d
    """
    out = output()
    with connected() as ensemble:
        as_of, plans, denied = plan_pruning(ensemble, idle_ms, groups)
        changes = [delete_group_change(ensemble, plan) for plan in plans]
        previews = [change.preview() for change in changes]
        question = f"Delete {counted(len(plans), 'group')}?"
        results = run_changes(changes, question, lambda err: shown.deletions(err, previews), consent)
    documents = [shown.GROUP_DELETION.json(one.plan.as_of, one) for one in results]
    if not shown.GROUP_DELETIONS.print(out, as_of, groups=documents):
        shown.deletions(out, results)
        if not results:
            echo_err("no group is without members and has committed nothing for so long")
    check_read("checked", denied, rows=results)
