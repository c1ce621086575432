"""Who may join a group of ZooKeeper consumers, read its offsets, or watch it: ACLs on its znodes.

Members create their znodes with the ACL of the group (`zkgroup.zookeeper.acls`), so what is set here lasts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from zkgroup.admin.access import NAMED_MAX, OPEN, acls_below, set_acls
from zkgroup.admin.change import AdminChange, ChangePlan, undo_record
from zkgroup.errors import AccessDeniedError, ConfigError, NotFoundError, RefusedError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model.requests import AclEntry, Code, ZnodeAcl
from zkgroup.model.text import counted, named
from zkgroup.znodes.access import models_of
from zkgroup.znodes.consumers import (
    group_path,
    ids_path,
    offsets_path,
    owners_path,
    subscription_kind,
)
from zkgroup.znodes.group_history import GroupHistory
from zkgroup.zookeeper.settings import ANYONE

ALL: Final = 31
READ: Final = 1

EVERYONE: Final = ":".join(ANYONE)
ME: Final = ("auth", "")
"""Who connects: a server replaces it by the user."""

_DIGEST: Final = re.compile(r"[^:]+:[A-Za-z0-9+/]{27}=")
SCHEMES: Final = ("world", "digest", "sasl", "x509", "ip")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRights:
    """Who may do what in a group. An identity is `SCHEME:ID`, as `sasl:ada` or `world:anyone`."""

    members: tuple[str, ...] = ()
    """May join: they may do everything in the group. Who sets the rights is one of them."""
    offset_readers: tuple[str, ...] = ()
    """May read the committed offsets."""
    watchers: tuple[str, ...] = ()
    """May read everything in the group, and change nothing."""

    def check(self) -> None:
        """Raises ConfigError for an identity that no server could know."""
        for one in (*self.members, *self.offset_readers, *self.watchers):
            scheme, colon, name = one.partition(":")
            if scheme not in SCHEMES or not colon or not name or (scheme == "world" and one != EVERYONE):
                raise ConfigError(
                    f"identity {one!r}: expected SCHEME:ID, with a scheme of {', '.join(SCHEMES)}, as "
                    f"sasl:ada, digest:ada:HASH or {EVERYONE}"
                )
            if scheme == "digest" and not _DIGEST.fullmatch(name):
                raise ConfigError(  # without what may be a password
                    f"identity digest:{name.partition(':')[0]}: expected digest:NAME:HASH, with the SHA-1 of "
                    "NAME:PASSWORD in base 64, as `getAcl` of ZooKeeper shows it"
                )

    def acl(self, *, of_offsets: bool) -> tuple[AclEntry, ...]:
        """The ACL of the group, or of its offsets."""
        if EVERYONE in self.members:
            return OPEN
        rights = {ME: ALL} | {_identity(one): ALL for one in self.members}
        for one in (*self.watchers, *(self.offset_readers if of_offsets else ())):
            rights.setdefault(_identity(one), READ)
        return tuple(AclEntry(perms, *who) for who, perms in rights.items())

    @classmethod
    def of(cls, group: Sequence[AclEntry], offsets: Sequence[AclEntry]) -> GroupRights:
        """The rights that these ACLs of a group and of its offsets give."""
        members = {_text(entry) for entry in group if entry.perms & ~READ}
        watchers = {_text(entry) for entry in group if entry.perms & READ} - members
        readers = {_text(entry) for entry in offsets if entry.perms & READ} - members - watchers
        return cls(
            members=tuple(sorted(members)),
            offset_readers=tuple(sorted(readers)),
            watchers=tuple(sorted(watchers)),
        )

    @classmethod
    def from_options(cls, words: Sequence[str]) -> GroupRights:
        """The rights that such options give."""
        given: dict[str, list[str]] = {"--member": [], "--offset-reader": [], "--watcher": []}
        for option, name in zip(words[::2], words[1::2], strict=True):
            given[option].append(name)
        members, readers, watchers = map(tuple, given.values())
        return cls(members=members, offset_readers=readers, watchers=watchers)

    @property
    def options(self) -> tuple[str, ...]:
        """The options of a command that gives these rights."""
        given = {"--member": self.members, "--offset-reader": self.offset_readers, "--watcher": self.watchers}
        return tuple(word for option, names in given.items() for name in names for word in (option, name))


def _identity(text: str) -> tuple[str, str]:
    scheme, _, name = text.partition(":")
    return scheme, name


def _text(entry: AclEntry) -> str:
    return f"{entry.scheme}:{entry.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAccessPlan(ChangePlan):
    """The rights of a group, as they are and as they are to be. Nothing has been changed."""

    group: str
    """The group id."""
    now: GroupRights
    """The rights that the ACLs of the group and of its offsets give now."""
    rights: GroupRights
    """The rights that it is to have; the present ones where none were given."""
    znodes: int
    """Number of znodes in the group."""
    paths: tuple[str, ...]
    """Paths whose ACL is to be set, parents first."""
    uncloseable: tuple[str, ...]
    """Registrations of JVM members that are open to everyone: they log in to no server, as Kafka 0.8.2.2."""
    hidden: tuple[str, ...] = field(default=())
    """Paths that this user may not read."""


def plan_group_access(ensemble: Ensemble, group: str, rights: GroupRights | None = None) -> GroupAccessPlan:
    """Reads the ACLs of a group. Without `rights` it finds znodes whose ACL is not that of the group.

    Raises NotFoundError for a group that does not exist, and AccessDeniedError where its ACL is hidden.
    """
    if rights is not None:
        rights.check()
    ensemble.zk.sync("/")
    found = dict(acls_below(ensemble, [group_path(group), GroupHistory.path(group)]))
    top = found.get(group_path(group))
    if top is None:
        raise NotFoundError(f"{group_path(group)}: there is no group {group!r}")
    if not isinstance(top, ZnodeAcl):
        raise AccessDeniedError(
            f"{group_path(group)}: expected a right to read the ACL of the group, found none; connect as a "
            "member of it"
        )
    acls = {path: one.acl for path, one in found.items() if isinstance(one, ZnodeAcl)}
    now = GroupRights.of(top.acl, acls.get(offsets_path(group), top.acl))
    if rights is None:
        paths = tuple(path for path, acl in acls.items() if acl != _model(acls, path))
    else:
        paths = tuple(acls)
    return GroupAccessPlan(
        as_of=ensemble.as_of(),
        group=group,
        now=now,
        rights=rights or now,
        znodes=len(found),
        paths=paths,
        uncloseable=tuple(_uncloseable(ensemble, group, acls)),
        hidden=tuple(path for path, one in found.items() if isinstance(one, Code)),
    )


def _model(acls: Mapping[str, tuple[AclEntry, ...]], path: str) -> tuple[AclEntry, ...]:
    """The ACL that a znode of the group would be created with; offsets may have one of their own."""
    if path.count("/") == 3 and path.endswith("/offsets"):
        return acls[path]
    return next((acls[model] for model in models_of(path) if model in acls), acls[path])


def _uncloseable(ensemble: Ensemble, group: str, acls: Mapping[str, tuple[AclEntry, ...]]) -> Iterator[str]:
    below = ids_path(group)
    members = [path for path, acl in acls.items() if path.rpartition("/")[0] == below and acl == OPEN]
    for path, znode in ensemble.zk.read_many(members).items():
        if znode is not None and subscription_kind(znode.data) == "jvm":
            yield path


def set_group_access(ensemble: Ensemble, plan: GroupAccessPlan) -> int:
    """Sets the ACLs, and reads again until nothing is left; returns how many were set.

    Raises as `set_acls`.
    """
    group, rights, offsets = plan.group, plan.rights, offsets_path(plan.group)

    def acl_of(path: str) -> tuple[AclEntry, ...]:
        return rights.acl(of_offsets=path == offsets or path.startswith(f"{offsets}/"))

    ensemble.zk.create_missing(ids_path(group), owners_path(group), offsets)
    return set_acls(
        ensemble,
        list(dict.fromkeys([group_path(group), offsets, *plan.paths])),
        acl_of,
        lambda: plan_group_access(ensemble, group).paths,
        "give every member credentials",
    )


def group_access_change(ensemble: Ensemble, plan: GroupAccessPlan) -> AdminChange[GroupAccessPlan, int, None]:
    """Gives a group the rights of the plan; what is written is how many ACLs were set."""
    is_open = EVERYONE in plan.rights.members

    def check() -> None:
        if plan.uncloseable and not is_open:
            raise RefusedError(
                f"{named(plan.uncloseable, NAMED_MAX)}: expected members that log in to ZooKeeper, found JVM "
                f"members as of Kafka 0.8.2.2, which cannot; group {plan.group} cannot be closed while it "
                "has them"
            )

    words = ("acl", "zookeeper", "apply", plan.group, *plan.now.options)
    return AdminChange(
        ensemble=ensemble,
        subject=f"acl zookeeper apply {plan.group}",
        question=f"Set the ACLs of {counted(len(plan.paths), 'znode')} of {plan.group}?",
        plan=plan,
        notes=tuple(_notes(plan, is_open)),
        is_effective=bool(plan.paths),
        check=check,
        undo=undo_record(undo_command=words),
        undo_is_required=False,
        write=lambda by: set_group_access(ensemble, plan),
    )


def _notes(plan: GroupAccessPlan, is_open: bool) -> Iterator[str]:
    if plan.hidden:
        yield f"{named(plan.hidden, NAMED_MAX)}: this user may not read the ACL"
    if not is_open:
        yield (
            "members without credentials for ZooKeeper can do nothing in the group then; what running "
            "members create has its ACL within a minute"
        )
