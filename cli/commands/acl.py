"""`zkgroup acl zookeeper`: who may join a group of ZooKeeper consumers, read its offsets, or watch it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click

from zkgroup.admin.change import ChangeResult
from zkgroup.admin.group_access import GroupAccessPlan, GroupRights, group_access_change, plan_group_access
from zkgroup.model.text import counted, named

from ..app import group as make_group
from ..confirm import print_result, run_change
from ..context import connected
from ..params import Consent, confirm_options, group_argument
from ..render import Output
from ..schema import Document, Shape

acl = make_group(
    "acl",
    help="""Say who may join or read groups of ZooKeeper consumers.

    \b
    Example:
      zkgroup acl zookeeper plan billing""",
)
zookeeper = make_group(
    "zookeeper",
    help="""Who may join a group of ZooKeeper consumers, or read it.

    The rights are ACLs on the znodes of the group. Members that log in to ZooKeeper create theirs with the
    same.

    \b
    Example:
      zkgroup acl zookeeper apply billing --member sasl:ada --watcher world:anyone --execute""",
)
acl.add_command(zookeeper)

RIGHTS = Shape(GroupRights)
GroupAccess = ChangeResult[GroupAccessPlan, int, None]
GROUP_ACCESS = Document(
    "group_access",
    Shape(
        GroupAccess,
        *("plan.group", "executed", "undo=undo_id", "plan.now", "plan.rights", "plan.znodes"),
        *("plan.paths", "plan.uncloseable", "plan.hidden"),
    ),
)
_NAMED = 8


def _identities(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options for who may do what, as the argument `rights`; None without any of them."""

    @wraps(function)
    def decorated(
        *args: Any,
        members: Sequence[str],
        offset_readers: Sequence[str],
        watchers: Sequence[str],
        **values: Any,
    ) -> Any:
        given = GroupRights(
            members=tuple(members), offset_readers=tuple(offset_readers), watchers=tuple(watchers)
        )
        return function(*args, rights=given if given.options else None, **values)

    for name, text in (
        ("--watcher", "Who may read all of the group"),
        ("--offset-reader", "Who may read its offsets"),
        ("--member", "Who may join it, and do everything in it, beside you"),
    ):
        decorated = click.option(
            name,
            f"{name.removeprefix('--').replace('-', '_')}s",
            multiple=True,
            metavar="SCHEME:ID",
            help=f"{text}, as sasl:ada, digest:ada:HASH or world:anyone; may be repeated.",
        )(decorated)
    return decorated


@zookeeper.command("plan")
@group_argument()
@_identities
def plan(group: str, rights: GroupRights | None) -> None:
    """Show the rights in GROUP, and what `apply` would change.

    Without identities: the znodes whose ACL is not that of the group, as members without credentials create
    them. JVM members of Kafka 0.8.2.2 cannot log in to ZooKeeper; they are named, as their group cannot be
    closed.

    \b
    Example:
      zkgroup acl zookeeper plan billing
    """
    _change(group, rights, Consent(execute=False, yes=False))


@zookeeper.command("apply")
@group_argument()
@_identities
@confirm_options
def apply(group: str, rights: GroupRights | None, consent: Consent) -> None:
    """Set who may join GROUP, read its offsets, or watch it.

    The identities replace the former ones. Without any, znodes with another ACL get that of the group;
    --member world:anyone opens the group. Prints what would be done until --execute.

    \b
    Example:
      zkgroup acl zookeeper apply billing --member sasl:ada --offset-reader sasl:bob --execute
    """
    _change(group, rights, consent)


def _change(group: str, rights: GroupRights | None, consent: Consent) -> None:
    with connected() as ensemble:
        change = group_access_change(ensemble, plan_group_access(ensemble, group, rights))
        result = run_change(change, _show, consent)
    print_result(GROUP_ACCESS, result, _show)


def _show(out: Output, result: GroupAccess) -> None:
    plan = result.plan
    for title, now, later in (
        ("may join", plan.now.members, plan.rights.members),
        ("may read offsets", plan.now.offset_readers, plan.rights.offset_readers),
        ("may watch", plan.now.watchers, plan.rights.watchers),
    ):
        before, after = named(now, _NAMED) or "-", named(later, _NAMED) or "-"
        out.line(f"{out.paint(f'{title:<17}', 'dim')} {before if now == later else f'{before} -> {after}'}")
    for path in plan.uncloseable:
        out.line(out.paint(f"{path}: a JVM member without a login: the group cannot be closed", "warn"))
    if not plan.paths:
        out.line(f"{counted(plan.znodes, 'znode')} with the ACL of the group: nothing to change")
        return
    count = counted(result.written if result.written is not None else len(plan.paths), "znode")
    out.line(f"{'set' if result.executed else 'would set'} the ACL of {count}: {named(plan.paths, _NAMED)}")
