"""`zkgroup acl`: who may do what by Kafka's ACLs; who may join or read a group of ZooKeeper consumers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import wraps
from typing import Any

import click

from zkgroup.admin.acls import (
    OPERATIONS,
    AclPlan,
    acl_change,
    bindings_of,
    filters_of,
    list_acls,
    patterns_of,
    plan_additions,
    plan_removals,
)
from zkgroup.admin.change import ChangeResult
from zkgroup.admin.group_access import GroupAccessPlan, GroupRights, group_access_change, plan_group_access
from zkgroup.model.text import counted, named
from zkgroup.security.acls import (
    PATTERN_TYPES,
    RESOURCE_TYPES,
    WILDCARD,
    AclBinding,
    AclPermission,
    ResourcePattern,
)

from ..app import check_read, output
from ..app import group as make_group
from ..confirm import print_result, run_change
from ..context import connected
from ..params import Consent, confirm_options, group_argument
from ..render import Output, echo_err
from ..schema import STRING, Document, JsonKey, KeyColumn, NamedKeys, Shape, rows_of, word

acl = make_group(
    "acl",
    help="""Show and change ACLs, and who may join ZooKeeper groups.

    ACLs of topics, groups and the cluster are for brokers with an authorizer (authorizer.class.name).

    \b
    Example:
      zkgroup acl list --topic orders""",
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

PERMISSIONS = AclPermission.ALLOW, AclPermission.DENY


def _names(words: Iterable[Enum]) -> list[str]:
    return [each.name for each in words]


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

ACL = Shape(
    AclBinding,
    JsonKey("resource_type", word(*_names(RESOURCE_TYPES)), lambda one: one.pattern.type.name),
    JsonKey("name", STRING, lambda one: one.pattern.name),
    JsonKey("pattern_type", word(*_names(PATTERN_TYPES)), lambda one: one.pattern.pattern_type.name),
    JsonKey("principal", STRING, lambda one: one.entry.principal),
    JsonKey("host", STRING, lambda one: one.entry.host),
    JsonKey("operation", word(*_names(OPERATIONS)), lambda one: one.entry.operation.name),
    JsonKey("permission", word(*_names(PERMISSIONS)), lambda one: one.entry.permission.name),
    columns=(
        "resource_type",
        KeyColumn("name", shorten="end"),
        *("pattern_type", KeyColumn("principal", shorten="end"), "host", "operation"),
        KeyColumn("permission", styles={"DENY": "warn"}),
    ),
)
ACLS = Document("acls", NamedKeys(acls=Sequence[AclBinding]), rows="acls")
AclAlteration = ChangeResult[AclPlan, None, None]
ACL_ALTERATION = Document(
    "acl_alteration",
    Shape(
        AclAlteration,
        *("executed", "undo=undo_id"),
        rows_of("added", ACL, lambda result: result.plan.added),
        rows_of("removed", ACL, lambda result: result.plan.removed),
    ),
)


def _resources(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that name resources, as the argument `patterns`."""

    @wraps(function)
    def decorated(
        *args: Any,
        topics: Sequence[str],
        groups: Sequence[str],
        transactional_ids: Sequence[str],
        cluster: bool,
        prefixed: bool,
        **values: Any,
    ) -> Any:
        patterns = patterns_of(topics, groups, transactional_ids, cluster=cluster, prefixed=prefixed)
        return function(*args, patterns=patterns, **values)

    decorated = click.option("--prefixed", is_flag=True, help="The names are prefixes of names.")(decorated)
    decorated = click.option("--cluster", is_flag=True, help="The cluster itself.")(decorated)
    for name in ("transactional-id", "group", "topic"):
        decorated = click.option(
            f"--{name}",
            f"{name.replace('-', '_')}s",
            multiple=True,
            metavar="NAME",
            help=f"A {name.replace('-', ' ')}, or '*' for every one; may be repeated.",
        )(decorated)
    return decorated


def _entries(*, required: bool) -> Callable[..., Any]:
    """`--principal`, `--operation` and `--host`."""
    default = "" if required else "  [default: every one]"

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function = click.option(
            "--host",
            "hosts",
            multiple=True,
            default=(WILDCARD,) if required else (),
            metavar="ADDRESS",
            help=f"Where from, or '*' for every address; may be repeated.{default}",
        )(function)
        function = click.option(
            "--operation",
            "operations",
            multiple=True,
            required=required,
            type=click.Choice(_names(OPERATIONS), case_sensitive=False),
            metavar="OPERATION",
            help=f"What, as read, in any case; may be repeated.{default}",
        )(function)
        return click.option(
            "--principal",
            "principals",
            multiple=True,
            required=required,
            metavar="User:NAME",
            help=f"Who, or User:* for everybody; may be repeated.{default}",
        )(function)

    return decorate


@acl.command("list")
@_resources
@click.option("--principal", metavar="User:NAME", help="Only those that name this principal.")
def list_all(patterns: Sequence[ResourcePattern], principal: str | None) -> None:
    """List Kafka's ACLs, all or those about a topic or group.

    Of a name, those of `*` and of prefixes too, as they decide about it; with --prefixed, those of exactly
    this prefix.

    \b
    Example:
      zkgroup acl list --topic orders
    """
    out = output()
    with connected() as ensemble:
        as_of, rows, unreadable = list_acls(ensemble, patterns, principal)
    if not ACLS.print(out, as_of, acls=rows):
        ACL.table(out, rows)
        if not rows and not unreadable:
            echo_err("no such ACL")
    check_read("listed", unreadable, rows=rows)


@acl.command("add")
@_resources
@_entries(required=True)
@click.option("--deny", is_flag=True, help="Deny it, whatever else allows it.")
@confirm_options
def add(
    patterns: Sequence[ResourcePattern],
    principals: Sequence[str],
    operations: Sequence[str],
    hosts: Sequence[str],
    deny: bool,
    consent: Consent,
) -> None:
    """Allow or deny a principal operations on topics or groups.

    Brokers with an authorizer follow at once. Who may read, write, delete or alter may describe too, and who
    may alter configurations may describe them.

    \b
    Example:
      zkgroup acl add --principal User:alice --operation read --topic orders --group billing --execute
    """
    bindings = bindings_of(patterns, principals, operations, hosts, deny=deny)
    with connected() as ensemble:
        change = acl_change(ensemble, plan_additions(ensemble, bindings), "add")
        result = run_change(change, show_acls, consent)
    print_result(ACL_ALTERATION, result, show_acls)


@acl.command("remove")
@_resources
@_entries(required=False)
@click.option("--deny", is_flag=True, help="What denies, in place of what allows.")
@confirm_options
def remove(
    patterns: Sequence[ResourcePattern],
    principals: Sequence[str],
    operations: Sequence[str],
    hosts: Sequence[str],
    deny: bool,
    consent: Consent,
) -> None:
    """Remove ACLs: what `acl add` adds with the same options.

    \b
    Example:
      zkgroup acl remove --principal User:alice --topic orders --execute
    """
    filters = filters_of(patterns, principals, operations, hosts, deny=deny)
    with connected() as ensemble:
        change = acl_change(ensemble, plan_removals(ensemble, filters), "remove")
        result = run_change(change, show_acls, consent)
    print_result(ACL_ALTERATION, result, show_acls)


def show_acls(out: Output, result: AclAlteration) -> None:
    """Prints the ACLs that are added and removed, as a table each."""
    for word_done, word_planned, rows in (
        ("added", "would add", result.plan.added),
        ("removed", "would remove", result.plan.removed),
    ):
        if rows:
            out.line(f"{word_done if result.executed else word_planned} {counted(len(rows), 'ACL')}:")
            ACL.table(out, rows)
    if not result.plan.changes:
        out.line("the ACLs are as they would be: nothing to do")


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
