"""Kafka's ACLs: listed, added, removed; as `kafka-acls` does it by ZooKeeper.

The ACL of a pattern and the notification of its change are one transaction, conditional on the version that
was read. Source: kafka/security/authorizer/AclAuthorizer.scala@2.8.2 (`updateResourceAcls`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from itertools import product
from typing import Final

from zkgroup.admin.change import AdminChange, ChangePlan, as_they_are, undo_record
from zkgroup.admin.cluster.controller import read_controller_info, refuse_kraft
from zkgroup.admin.guards import write
from zkgroup.admin.undo_records import UndoRecord
from zkgroup.errors import ConfigError, CorruptZnodeError, PartlyDoneError
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.model import Znode
from zkgroup.model.requests import Create, Delete, Operation, SetData
from zkgroup.model.text import counted
from zkgroup.security.acls import (
    CLUSTER_NAME,
    PATTERN_TYPES,
    RESOURCE_TYPES,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
    java_address,
    parse_principal,
)
from zkgroup.znodes.acls import AclChangeNode, ResourceAcls, acl_folders, acl_names_path
from zkgroup.znodes.ids import is_refused_in_paths

OPERATIONS: Final = tuple(AclOperation)[AclOperation.ALL :]
"""Those that an ACL can be about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternChange:
    """The ACL of one pattern as it is, and as it would become."""

    pattern: ResourcePattern
    """The resources that it is about."""
    znode: Znode | None
    """As it is; None where the pattern has no ACL yet."""
    before: ResourceAcls
    """The ACL as read."""
    after: ResourceAcls
    """The ACL as it would become."""

    @property
    def added(self) -> tuple[AclBinding, ...]:
        """What it gets."""
        return self._bindings(self.after, self.before)

    @property
    def removed(self) -> tuple[AclBinding, ...]:
        """What it loses."""
        return self._bindings(self.before, self.after)

    def _bindings(self, of: ResourceAcls, without: ResourceAcls) -> tuple[AclBinding, ...]:
        return tuple(AclBinding(self.pattern, one) for one in of.entries if one not in without.entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclPlan(ChangePlan):
    """ACLs as they would become. Nothing has been written."""

    changes: tuple[PatternChange, ...] = field(repr=False)
    """The patterns whose ACL changes."""

    @property
    def added(self) -> tuple[AclBinding, ...]:
        """What is added; not what is there already."""
        return tuple(one for change in self.changes for one in change.added)

    @property
    def removed(self) -> tuple[AclBinding, ...]:
        """What is removed."""
        return tuple(one for change in self.changes for one in change.removed)


def list_acls(
    ensemble: Ensemble, patterns: Sequence[ResourcePattern] = (), principal: str | None = None
) -> tuple[AsOf, tuple[AclBinding, ...], tuple[str, ...]]:
    """The ACLs that decide about these resources, or all; and what cannot be read.

    Of a literal pattern those are its own, those for every name and for beginnings of the name.
    """
    filters = [
        AclBindingFilter(
            type=kind,
            name=name,
            pattern_type=PatternType.MATCH if pattern_type is PatternType.LITERAL else pattern_type,
        )
        for kind, name, pattern_type in patterns
    ]
    as_of, rows, unreadable = read_acls(ensemble, filters or [AclBindingFilter()])
    return as_of, tuple(one for one in rows if principal in (None, one.entry.principal)), unreadable


def read_acls(
    ensemble: Ensemble, filters: Sequence[AclBindingFilter]
) -> tuple[AsOf, tuple[AclBinding, ...], tuple[str, ...]]:
    """The ACLs that any of the filters means, by pattern; and what cannot be read."""
    rows, unreadable = [], []
    for pattern, znode in _read(ensemble, filters):
        try:
            acls = ResourceAcls.decode(znode.path, znode.data)
        except CorruptZnodeError as error:
            unreadable.append(str(error))
        else:
            rows += [AclBinding(pattern, entry) for entry in _meant(filters, pattern, acls)]
    return ensemble.as_of(), tuple(sorted(rows)), tuple(unreadable)


def _meant(
    filters: Sequence[AclBindingFilter], pattern: ResourcePattern, acls: ResourceAcls
) -> list[AccessControlEntry]:
    of_pattern = [each for each in filters if each.matches_pattern(pattern)]
    return [entry for entry in acls.entries if any(each.matches_entry(entry) for each in of_pattern)]


def _read(ensemble: Ensemble, filters: Sequence[AclBindingFilter]) -> list[tuple[ResourcePattern, Znode]]:
    """The patterns with an ACL that any of the filters means, each with its znode."""
    parents = {acl_names_path(kind, each): (kind, each) for kind in PATTERN_TYPES for each in RESOURCE_TYPES}
    listed = ensemble.zk.list_many(list(parents))
    patterns = {
        f"{parent}/{name}": ResourcePattern(of, name, kind)
        for parent, (kind, of) in parents.items()
        for name in sorted(listed[parent] or ())
    }
    wanted = [
        path for path, pattern in patterns.items() if any(each.matches_pattern(pattern) for each in filters)
    ]
    return [(patterns[path], znode) for path, znode in ensemble.zk.read_many(wanted).items() if znode]


def plan_additions(ensemble: Ensemble, bindings: Iterable[AclBinding]) -> AclPlan:
    """Plans ACLs beside those there are; what is there already stays as it is.

    Raises ConfigError for one that cannot be, CorruptZnodeError where an ACL cannot be read, so cannot be
    kept, and RefusedError for a cluster that has moved to KRaft.
    """
    added: dict[ResourcePattern, list[AccessControlEntry]] = {}
    for binding in bindings:
        check_binding(binding)
        added.setdefault(binding.pattern, []).append(binding.entry)
    return _plan(ensemble, {pattern: (entries, ()) for pattern, entries in added.items()})


def plan_removals(ensemble: Ensemble, filters: Sequence[AclBindingFilter]) -> AclPlan:
    """Plans the removal of every ACL that any of the filters means. Raises as `plan_additions`."""
    ensemble.zk.sync("/")
    removed = {
        pattern: ((), _meant(filters, pattern, ResourceAcls.decode(znode.path, znode.data)))
        for pattern, znode in _read(ensemble, filters)
    }
    return _plan(ensemble, removed)


Changes = Mapping[ResourcePattern, tuple[Iterable[AccessControlEntry], Iterable[AccessControlEntry]]]
"""What each pattern gets, and what it loses."""


def _plan(ensemble: Ensemble, wanted: Changes) -> AclPlan:
    paths = {pattern: ResourceAcls.path(pattern) for pattern in wanted}
    refuse_kraft(read_controller_info(ensemble))
    znodes = ensemble.zk.read_many(list(paths.values()))
    as_of, changes = ensemble.as_of(), []
    for pattern, (added, removed) in wanted.items():
        znode = znodes[paths[pattern]]
        before = ResourceAcls.decode(znode.path, znode.data) if znode else ResourceAcls()
        after = before.changed(added, frozenset(removed))
        if after != before:
            change = PatternChange(pattern=pattern, znode=znode, before=before, after=after)
            _operations(change)  # what cannot be written is refused now
            changes.append(change)
    return AclPlan(as_of=as_of, changes=tuple(changes))


def check_binding(binding: AclBinding) -> None:
    """Raises ConfigError for an ACL that Kafka would not take, or that could decide nothing."""
    (kind, name, pattern_type), (principal, _, operation, permission) = binding
    where = f"ACL of {kind.pascal} {name!r}"
    if kind not in RESOURCE_TYPES or pattern_type not in PATTERN_TYPES:
        raise ConfigError(f"{where}: expected a type of resource, literal or prefixed")
    if kind is ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise ConfigError(f"{where}: the only name of a cluster is {CLUSTER_NAME}")
    if min(operation, permission) <= AclOperation.ANY:
        raise ConfigError(f"{where}: expected an operation that is allowed or denied, found {operation.name}")
    parse_principal(principal)
    ResourceAcls.path(binding.pattern)
    if any(map(is_refused_in_paths, name)):
        raise ConfigError(f"{where}: expected a name without characters that ZooKeeper refuses")


def patterns_of(
    topics: Iterable[str] = (),
    groups: Iterable[str] = (),
    transactional_ids: Iterable[str] = (),
    *,
    cluster: bool = False,
    prefixed: bool = False,
) -> tuple[ResourcePattern, ...]:
    """The patterns of these names. Raises ConfigError for `prefixed` without a name, or with the cluster."""
    pattern_type = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    named = {
        ResourceType.TOPIC: topics,
        ResourceType.GROUP: groups,
        ResourceType.TRANSACTIONAL_ID: transactional_ids,
    }
    found = [ResourcePattern(kind, name, pattern_type) for kind, names in named.items() for name in names]
    if prefixed and (cluster or not found):
        raise ConfigError("prefixed: expected the name of a topic, group or transactional id, and no cluster")
    if cluster:
        found.append(ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME))
    return tuple(found)


def bindings_of(
    patterns: Iterable[ResourcePattern],
    principals: Iterable[str],
    operations: Collection[str],
    hosts: Iterable[str] = (WILDCARD,),
    *,
    deny: bool = False,
) -> tuple[AclBinding, ...]:
    """The ACLs of each pattern for each principal, operation and host. Raises ConfigError.

    `principals` and `hosts`: only those that a client can have. `operations`: Kafka's words in any case; only
    those that a resource of the type has.
    """
    named = _checked(patterns)
    who, where = tuple(map(_user, principals)), tuple(map(_address, hosts))
    wanted = [_operation(text) for text in operations]
    for kind in {pattern.type for pattern in named}:
        known = (*SUPPORTED_OPERATIONS[kind], AclOperation.ALL)
        if other := [one for one in wanted if one not in known]:
            words = ", ".join(each.name.lower() for each in known)
            raise ConfigError(
                f"operation {other[0].name.lower()}: expected one of a {kind.name.lower()}: {words}"
            )
    permission = AclPermission.DENY if deny else AclPermission.ALLOW
    return tuple(
        AclBinding(pattern, AccessControlEntry(principal, host, operation, permission))
        for pattern, principal, operation, host in product(named, who, wanted, where)
    )


def _user(principal: str) -> str:
    """The principal. Raises ConfigError for one that no client is: an ACL for it would decide nothing."""
    kind, _, name = parse_principal(principal).partition(":")
    if not name or (kind != "User" and kind.lower() == "user"):
        raise ConfigError(f"principal {principal!r}: expected User:NAME, or User:* for everybody")
    return principal


def _address(host: str) -> str:
    """The host as Java writes it. Raises ConfigError for one that no client comes from, as `_user`."""
    try:
        if host != WILDCARD:
            ip_address(host)
    except ValueError as error:
        raise ConfigError(f"host {host!r}: expected an IP address, or '*' for every one") from error
    return java_address(host)


def filters_of(
    patterns: Iterable[ResourcePattern],
    principals: Collection[str] = (),
    operations: Collection[str] = (),
    hosts: Collection[str] = (),
    *,
    deny: bool = False,
) -> tuple[AclBindingFilter, ...]:
    """Filters for the ACLs that `bindings_of` makes; none of a kind means every one. Raises ConfigError."""
    wanted = [_operation(text) for text in operations] or [AclOperation.ANY]
    who: Iterable[str | None] = principals or (None,)
    where: Iterable[str | None] = hosts or (None,)
    return tuple(
        AclBindingFilter(
            type=pattern.type,
            name=pattern.name,
            pattern_type=pattern.pattern_type,
            principal=principal,
            host=host and java_address(host),
            operation=operation,
            permission=AclPermission.DENY if deny else AclPermission.ALLOW,
        )
        for pattern, principal, operation, host in product(_checked(patterns), who, wanted, where)
    )


def _checked(patterns: Iterable[ResourcePattern]) -> tuple[ResourcePattern, ...]:
    if not (named := tuple(patterns)):
        raise ConfigError("ACL: expected a topic, a group, a transactional id or the cluster, found none")
    return named


def _operation(text: str) -> AclOperation:
    found = AclOperation.find(text)
    if found is None or found <= AclOperation.ANY:
        words = ", ".join(each.name.lower() for each in OPERATIONS)
        raise ConfigError(f"operation {text!r}: expected one of {words}")
    return found


def write_acls(ensemble: Ensemble, plan: AclPlan) -> None:
    """Writes a plan, pattern by pattern, each with its notification.

    Raises ConflictError where an ACL has changed since, and PartlyDoneError after others were written.
    """
    if plan.changes:
        ensemble.zk.create_missing(*acl_folders())
    for number, change in enumerate(plan.changes):
        try:
            write_acl(ensemble, change)
        except Exception as error:
            if not number:
                raise
            raise PartlyDoneError(
                f"the ACLs of {number} of {counted(len(plan.changes), 'pattern')} are written, then: {error}"
            ) from error


def write_acl(ensemble: Ensemble, change: PatternChange) -> None:
    """Writes one change; the folders are there. Raises ConflictError as `write_acls`."""
    data = None if change.after.is_empty else change.after.encode()
    write(ensemble, _operations(change), ResourceAcls.path(change.pattern), data)


def _operations(change: PatternChange) -> tuple[Operation, Operation]:
    path, data = ResourceAcls.path(change.pattern), change.after.encode()
    write: Operation
    if change.znode is None:
        write = Create(path, data)
    elif change.after.is_empty:
        write = Delete(path, change.znode.stat.version)
    else:
        write = SetData(path, data, change.znode.stat.version)
    prefix = AclChangeNode.prefix(change.pattern.pattern_type)
    return write, Create(prefix, AclChangeNode(change.pattern).encode(), sequential=True)


def acl_change(ensemble: Ensemble, plan: AclPlan, verb: str) -> AdminChange[AclPlan, None, None]:
    """Writes a plan, and notifies the brokers. `verb` is that of the command."""
    added, removed = len(plan.added), len(plan.removed)
    parts = [f"add {added}"] * bool(added) + [f"remove {removed}"] * bool(removed)
    count = counted(removed or added, "ACL").partition(" ")[2]
    return AdminChange(
        ensemble=ensemble,
        subject=f"acl {verb}",
        question=f"{' and '.join(parts).capitalize()} {count}?",
        plan=plan,
        notes=plan.notes,
        is_effective=bool(plan.changes),
        undo=undo_record(
            znodes=as_they_are(*(change.znode for change in plan.changes)),
            left=tuple(
                (ResourceAcls.path(change.pattern), change.after.encode())
                for change in plan.changes
                if not change.after.is_empty
            ),
        ),
        write=lambda by: write_acls(ensemble, plan),
    )


def undo_acl_change(ensemble: Ensemble, record: UndoRecord) -> AdminChange[AclPlan, None, None]:
    """Adds what the change of a record removed, and removes what it added; other entries stay."""
    was = {path: ResourceAcls.decode(path, data) for path, data in record.znodes}
    left = {path: ResourceAcls.decode(path, data) for path, data in record.left}
    back = {}
    for path in dict.fromkeys((*was, *left)):
        before, after = was.get(path, ResourceAcls()).entries, left.get(path, ResourceAcls()).entries
        back[_pattern_at(path)] = before, [entry for entry in after if entry not in before]
    return acl_change(ensemble, _plan(ensemble, back), "undo")


def _pattern_at(path: str) -> ResourcePattern:
    parent, _, name = path.rpartition("/")
    return next(
        ResourcePattern(each, name, kind)
        for kind in PATTERN_TYPES
        for each in RESOURCE_TYPES
        if acl_names_path(kind, each) == parent
    )
