"""Kafka's access control lists, and the notifications of their changes.

Literal patterns have been below `/kafka-acl` since 0.9, prefixed ones below `/kafka-acl-extended` since 2.0.
Source: kafka/zk/ZkData.scala and kafka/security/authorizer/AclEntry.scala@2.8.2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.security.acls import (
    PATTERN_TYPES,
    RESOURCE_TYPES,
    AccessControlEntry,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
    parse_principal,
)
from zkgroup.znodes.ids import sequence_of, sequential
from zkgroup.znodes.json_fields import (
    check_size,
    check_text,
    integer_of,
    others,
    read_object,
    read_text,
    show,
    text_of,
    write_object,
)

_ROOTS: Final = {
    PatternType.LITERAL: "/kafka-acl",
    PatternType.PREFIXED: "/kafka-acl-extended/prefixed",
}
_CHANGES: Final = {
    PatternType.LITERAL: "/kafka-acl-changes",
    PatternType.PREFIXED: "/kafka-acl-extended-changes",
}
_CHANGE_PREFIX: Final = "acl_changes_"
_KEYS: Final = ("version", "acls")
_ENTRY_KEYS: Final = ("principal", "permissionType", "operation", "host")


def acl_types_path(pattern_type: PatternType) -> str:
    """Its children are the types of resources (`Topic`)."""
    return _ROOTS[pattern_type]


def acl_names_path(pattern_type: PatternType, resource_type: ResourceType) -> str:
    """Its children are the names of the patterns with an ACL, such as `/kafka-acl/Topic`."""
    return f"{_ROOTS[pattern_type]}/{resource_type.pascal}"


def acl_changes_path(pattern_type: PatternType) -> str:
    """Its children are the notifications. It is never deleted: new numbers would be skipped as old."""
    return _CHANGES[pattern_type]


def acl_folders() -> tuple[str, ...]:
    """The folders that a broker with an authorizer creates, parents first (`createAclPaths` of Kafka)."""
    found = ["/kafka-acl-extended"]
    for pattern_type in PATTERN_TYPES:
        found += [_ROOTS[pattern_type], _CHANGES[pattern_type]]
        found += [acl_names_path(pattern_type, each) for each in RESOURCE_TYPES]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ResourceAcls:
    """`/kafka-acl/Topic/<t>`, `/kafka-acl-extended/prefixed/Topic/<prefix>`: the ACL of one pattern.

    `{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"Read","host":"*"}]}`.
    Persistent; deleted with its last entry. Rewrites keep unknown keys, and entries with words that Kafka 2.8
    does not have, which decide nothing.
    """

    entries: Mapping[AccessControlEntry, Mapping[str, object]] = field(default_factory=dict)
    """Each entry, with its unknown keys."""
    unknown: tuple[Mapping[str, object], ...] = ()
    """Entries with an operation or a permission of later versions, as they are in the znode."""
    extensions: Mapping[str, object] = field(default_factory=dict)
    """Unknown keys beside the entries."""

    @staticmethod
    def path(pattern: ResourcePattern) -> str:
        """The znode of a pattern. Raises ConfigError for a name that is invalid in a path."""
        name = pattern.name
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise ConfigError(
                f"ACL of {pattern.type.pascal} {name!r}: expected a name, without '/' and not '.' or '..'"
            )
        check_text(f"ACL of {pattern.type.pascal}", name)
        return f"{acl_names_path(pattern.pattern_type, pattern.type)}/{name}"

    @property
    def is_empty(self) -> bool:
        """True if the znode has no entry, so that it is to be deleted."""
        return not self.entries and not self.unknown

    def changed(
        self, added: Iterable[AccessControlEntry] = (), removed: Collection[AccessControlEntry] = ()
    ) -> Self:
        """The ACL with some entries added and some removed; all others stay, also unknown ones.

        An entry that is there already keeps its unknown keys.
        """
        kept = {entry: keys for entry, keys in self.entries.items() if entry not in removed}
        return dataclasses.replace(self, entries={**{entry: {} for entry in added}, **kept})

    def encode(self) -> bytes:
        """Raises ConfigError for text that is not UTF-8, a principal without a type, and too much data."""
        entries: list[Mapping[str, object]] = []
        for entry, keys in self.entries.items():
            parse_principal(check_text("principal", entry.principal))
            values = (
                entry.principal,
                entry.permission.pascal,
                entry.operation.pascal,
                check_text("host", entry.host),
            )
            entries.append({**dict(zip(_ENTRY_KEYS, values, strict=True)), **keys})
        fields = {"version": 1, "acls": [*entries, *self.unknown], **self.extensions}
        return check_size(f"ACL of {len(entries)} entries", write_object(fields))

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """The ACL. Raises CorruptZnodeError if it is not version 1 or an entry cannot be read."""
        if not data:
            return cls()
        fields = read_object(path, data, "an ACL")
        if integer_of(path, fields, "version") != 1:
            raise CorruptZnodeError(path, "version 1 of an ACL", show(fields["version"]))
        found = fields.get("acls")
        if not isinstance(found, list):
            raise CorruptZnodeError(path, "a list in 'acls'", show(found))
        entries: dict[AccessControlEntry, Mapping[str, object]] = {}
        unknown: list[Mapping[str, object]] = []
        for each in found:
            if not isinstance(each, dict):
                raise CorruptZnodeError(path, "objects in 'acls'", show(each))
            if (entry := _entry(path, each)) is None:
                unknown.append(each)
            else:
                entries[entry] = others(each, *_ENTRY_KEYS)
        return cls(entries, tuple(unknown), others(fields, *_KEYS))


def _entry(path: str, fields: Mapping[str, object]) -> AccessControlEntry | None:
    """The entry; None where a word is unknown. Raises CorruptZnodeError."""
    principal, permission, operation, host = (text_of(path, fields, key) for key in _ENTRY_KEYS)
    try:
        parse_principal(principal)
    except ConfigError as error:
        raise CorruptZnodeError(path, "a principal such as User:alice", show(principal)) from error
    done, given = AclOperation.find(operation), AclPermission.find(permission)
    # `Unknown` and `Any` are the first two words; they stand in no ACL that Kafka writes.
    if done is None or done <= AclOperation.ANY or given is None or given <= AclPermission.ANY:
        return None
    return AccessControlEntry(principal, host, done, given)


@dataclass(frozen=True, slots=True)
class AclChangeNode:
    """`/kafka-acl-changes/acl_changes_<n>`: the pattern of a changed ACL. Persistent, sequential.

    `TOPIC:orders` for a literal pattern; below `/kafka-acl-extended-changes` for a prefixed one
    `{"version":1,"resourceType":"TOPIC","name":"pre-","patternType":"PREFIXED"}`. Every broker with an
    authorizer watches both parents.
    """

    pattern: ResourcePattern

    @staticmethod
    def path(pattern_type: PatternType, sequence: int) -> str:
        return sequential(AclChangeNode.prefix(pattern_type), sequence)

    @staticmethod
    def prefix(pattern_type: PatternType) -> str:
        """Returns the path for a sequential create."""
        return f"{acl_changes_path(pattern_type)}/{_CHANGE_PREFIX}"

    @staticmethod
    def sequence_of(name: str) -> int | None:
        """The number of a child, or None for a foreign name."""
        return sequence_of(_CHANGE_PREFIX, name)

    def encode(self) -> bytes:
        """Raises ConfigError for text that is not UTF-8."""
        resource_type, name, pattern_type = self.pattern
        check_text(f"ACL of {resource_type.pascal}", name)
        if pattern_type is PatternType.LITERAL:
            return f"{resource_type.name}:{name}".encode()
        return write_object(
            {
                "version": 1,
                "resourceType": resource_type.name,
                "name": name,
                "patternType": pattern_type.name,
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """The notification in either form. Raises CorruptZnodeError for other data."""
        if path.startswith(f"{_CHANGES[PatternType.LITERAL]}/"):
            text = read_text(path, data, "a type of resource, ':' and a name")
            type_word, colon, name = text.partition(":")
            resource_type, pattern_type = ResourceType.find(type_word), PatternType.LITERAL
            if not colon:
                raise CorruptZnodeError(path, "a type of resource, ':' and a name", show(text))
        else:
            fields = read_object(path, data, "a change of an ACL")
            if integer_of(path, fields, "version") != 1:
                raise CorruptZnodeError(path, "version 1 of a change of an ACL", show(fields["version"]))
            type_word, name = text_of(path, fields, "resourceType"), text_of(path, fields, "name")
            resource_type = ResourceType.find(type_word)
            if PatternType.find(text_of(path, fields, "patternType")) is not PatternType.PREFIXED:
                raise CorruptZnodeError(path, "the pattern type PREFIXED", show(fields["patternType"]))
            pattern_type = PatternType.PREFIXED
        if resource_type not in RESOURCE_TYPES:
            words = ", ".join(each.name for each in RESOURCE_TYPES)
            raise CorruptZnodeError(path, f"one of {words}", show(type_word))
        return cls(ResourcePattern(resource_type, name, pattern_type))
