"""Access control lists, and the notifications that they changed.

Source: kafka/security/authorizer/AclAuthorizer.scala and kafka/zk/ZkData.scala@2.8.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from zkgroup.broker.machine.change_notifications import ChangeFolder, NotifiedState
from zkgroup.broker.machine.events import AclsChanged, BrokerContext
from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import Znode
from zkgroup.model.requests import CreateMissing, ListChildren
from zkgroup.runtime.procedures import Procedure, Query, Work, ask, list_done, read_allowed
from zkgroup.security.acls import (
    EVERYBODY,
    PATTERN_TYPES,
    RESOURCE_TYPES,
    WILDCARD,
    AccessControlEntry,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from zkgroup.znodes.acls import (
    AclChangeNode,
    ResourceAcls,
    acl_changes_path,
    acl_folders,
    acl_names_path,
    acl_types_path,
)

Entries = tuple[AccessControlEntry, ...]

UNREADABLE: Final[Entries] = (AccessControlEntry(EVERYBODY, WILDCARD, AclOperation.ALL, AclPermission.DENY),)
"""The entries of an ACL that cannot be read: it may deny anything to anybody."""


def _folder(pattern_type: PatternType) -> ChangeFolder:
    return ChangeFolder(
        acl_changes_path(pattern_type),
        lambda number: AclChangeNode.path(pattern_type, number),
        AclChangeNode.sequence_of,
    )


class AclChanges(NotifiedState[ResourcePattern]):
    """The ACLs that a broker with an authorizer has read."""

    KIND: ClassVar[str] = "acl_change"
    FOLDERS: ClassVar[tuple[ChangeFolder, ...]] = tuple(map(_folder, PATTERN_TYPES))

    def __init__(self, core: BrokerContext) -> None:
        super().__init__(core)
        self._entries: dict[ResourcePattern, Entries] = {}
        self._changes: dict[ResourcePattern, Entries] = {}
        """What has changed and is not emitted yet."""
        self.has_read = not core.config.follows_acls

    def next(self) -> Work | None:
        return super().next() if self._core.config.follows_acls else None

    def _list(self) -> Procedure[list[str]]:
        if self._must_load:
            yield from ask(Query(CreateMissing(acl_folders())))
        return (yield from super()._list())

    def _apply(self) -> Procedure[None]:
        """Emits all changes at once, when none has come while they were read.

        Otherwise a request could be let in by a mixture of ACLs that never was: with one denial that was
        added after it was read, and another that was removed before.
        """
        yield from super()._apply()
        while self._must_read:
            yield from super()._apply()
        changes, self._changes = self._changes, {}
        self._core.emit(AclsChanged(changes))

    def _loaded(self) -> Procedure[list[ResourcePattern]]:
        types = yield from ask(*(Query(ListChildren(acl_types_path(each))) for each in PATTERN_TYPES))
        found: list[tuple[PatternType, ResourceType]] = []
        for pattern_type, outcome in zip(PATTERN_TYPES, types, strict=True):
            for name in list_done(outcome).children:
                resource_type = ResourceType.find(name)
                if resource_type in RESOURCE_TYPES and name == resource_type.pascal:
                    found.append((pattern_type, resource_type))
                else:  # of a later version; Kafka ignores it too
                    path = f"{acl_types_path(pattern_type)}/{name}"
                    self._core.note("acl.unreadable", path=path, detail="an unknown type of resource")
        lists = yield from ask(*(Query(ListChildren(acl_names_path(*each))) for each in found))
        patterns = list(self._entries)
        for (pattern_type, resource_type), outcome in zip(found, lists, strict=True):
            names = list_done(outcome).children
            patterns += [ResourcePattern(resource_type, name, pattern_type) for name in names]
        return patterns

    def _decode(self, znode: Znode) -> ResourcePattern:
        pattern = AclChangeNode.decode(znode.path, znode.data).pattern
        ResourceAcls.path(pattern)  # raises for a name that has no znode
        return pattern

    def _read(self, subjects: Iterable[ResourcePattern]) -> Procedure[None]:
        patterns = list(subjects)
        if not patterns:
            return
        found = yield from read_allowed([ResourceAcls.path(each) for each in patterns])
        for pattern, znode in zip(patterns, found, strict=True):
            entries = self._decoded(pattern, znode)
            if entries != self._entries.get(pattern, ()):
                self._changes[pattern] = self._entries[pattern] = entries
                if not entries:
                    del self._entries[pattern]

    def _decoded(self, pattern: ResourcePattern, znode: object) -> Entries:
        if znode is None:
            return ()
        path = ResourceAcls.path(pattern)
        try:
            if isinstance(znode, Znode):
                return tuple(ResourceAcls.decode(path, znode.data).entries)
            detail = "an ACL of ZooKeeper hides it"
        except (CorruptZnodeError, ConfigError) as error:
            detail = str(error)
        self._core.note("acl.unreadable", path=path, detail=detail)
        return UNREADABLE
