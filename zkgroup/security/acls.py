"""Access control lists as Kafka has them, and who may do what by them. Pure.

Source: org.apache.kafka.common.acl, org.apache.kafka.common.resource and
kafka/security/authorizer/AclAuthorizer.scala@2.8.2.
"""

from __future__ import annotations

import functools
import ipaddress
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, Self

from zkgroup.errors import ConfigError


class _Word(IntEnum):
    """A number of Kafka's requests. `name` is its word in Kafka's tools (`TRANSACTIONAL_ID`)."""

    @property
    def pascal(self) -> str:
        """The word in znodes and log lines: `TransactionalId`."""
        return self.name.title().replace("_", "")

    @classmethod
    def find(cls, text: str) -> Self | None:
        """The value by its word in any case, with or without underscores; None for another text."""
        plain = text.replace("_", "").upper()
        return next((each for each in cls if each.name.replace("_", "") == plain), None)


class ResourceType(_Word):
    """What an ACL is about."""

    UNKNOWN = 0
    """A number of a later release."""
    ANY = 1
    """Every type; in filters only."""
    TOPIC = 2
    """A topic."""
    GROUP = 3
    """A consumer group."""
    CLUSTER = 4
    """The cluster; its name is `CLUSTER_NAME`."""
    TRANSACTIONAL_ID = 5
    """The id of a transactional producer."""
    DELEGATION_TOKEN = 6
    """A delegation token."""


class PatternType(_Word):
    """How the name of a pattern is compared; `MATCH` is for filters only, `ANY` too."""

    UNKNOWN = 0
    """A number of a later release."""
    ANY = 1
    """Either type; in filters only."""
    MATCH = 2
    """Every pattern that applies to a resource of the name; in filters only."""
    LITERAL = 3
    """The name itself, or `*` for every name."""
    PREFIXED = 4
    """Every name that begins so."""


class AclOperation(_Word):
    """What is done to a resource."""

    UNKNOWN = 0
    """A number of a later release."""
    ANY = 1
    """Every operation; in filters only."""
    ALL = 2
    """Whatever can be done to the resource."""
    READ = 3
    """To consume a topic; to join a group, and commit offsets."""
    WRITE = 4
    """To produce."""
    CREATE = 5
    """To create a topic."""
    DELETE = 6
    """To delete a topic, its records, or a group."""
    ALTER = 7
    """To add partitions; of the cluster, to move replicas, and to change ACLs, users and quotas."""
    DESCRIBE = 8
    """To see that it is there, and its metadata."""
    CLUSTER_ACTION = 9
    """What brokers ask of each other."""
    DESCRIBE_CONFIGS = 10
    """To see configurations."""
    ALTER_CONFIGS = 11
    """To change configurations."""
    IDEMPOTENT_WRITE = 12
    """To produce idempotently."""


class AclPermission(_Word):
    """Kafka's `AclPermissionType`."""

    UNKNOWN = 0
    """A number of a later release."""
    ANY = 1
    """Either; in filters only."""
    DENY = 2
    """The operation is denied, whatever else allows it."""
    ALLOW = 3
    """The operation is allowed."""


RESOURCE_TYPES: Final = tuple(ResourceType)[2:]
"""Those that a resource can have."""
PATTERN_TYPES: Final = (PatternType.LITERAL, PatternType.PREFIXED)
"""Those that the pattern of an ACL can have."""

WILDCARD: Final = "*"
"""As the name of a literal pattern it matches every name; as the host of an entry every host."""
EVERYBODY: Final = "User:*"
"""The principal of an entry that matches every principal."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type `CLUSTER`."""

AUTHORIZER: Final = "authorizer.class.name"
SUPER_USERS: Final = "super.users"
ALLOW_IF_NO_ACL: Final = "allow.everyone.if.no.acl.found"
AUTHORIZER_NAMES: Final = (AUTHORIZER, SUPER_USERS, ALLOW_IF_NO_ACL)
"""The settings of an authorizer."""
_AUTHORIZERS: Final = (
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
    "zkgroup",
)

_IMPLIED_BY: Final[Mapping[AclOperation, tuple[AclOperation, ...]]] = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
"""An entry that allows one of these operations also allows the first; for denials nothing is implied."""

SUPPORTED_OPERATIONS: Final[Mapping[ResourceType, tuple[AclOperation, ...]]] = {
    ResourceType.TOPIC: (
        AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DESCRIBE,
        AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE),
    ResourceType.CLUSTER: (
        AclOperation.CREATE, AclOperation.CLUSTER_ACTION, AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS, AclOperation.IDEMPOTENT_WRITE, AclOperation.ALTER, AclOperation.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.DESCRIBE, AclOperation.WRITE),
    ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
}  # fmt: skip
"""The operations of each type of resource (kafka/security/authorizer/AclEntry.scala@2.8.2)."""


class ResourcePattern(NamedTuple):
    """The resources that an ACL is about: `ResourcePattern(TOPIC, "orders", LITERAL)`."""

    type: ResourceType
    """The type of the resources."""
    name: str
    """Their name, or its beginning."""
    pattern_type: PatternType = PatternType.LITERAL
    """How names are compared with it."""

    def __str__(self) -> str:
        """As Kafka's log lines write it: `Topic:LITERAL:orders`."""
        return f"{self.type.pascal}:{self.pattern_type.name}:{self.name}"


class AccessControlEntry(NamedTuple):
    """One entry of an ACL."""

    principal: str
    """`User:alice`, or `User:*` for everybody."""
    host: str
    """An address as Java writes it (see `java_address`), or `*`."""
    operation: AclOperation
    """What is done."""
    permission: AclPermission
    """Whether it is allowed or denied."""

    def __str__(self) -> str:
        """As Kafka's log lines write it."""
        return (
            f"{self.principal} has {self.permission.name} permission for operations: {self.operation.name}"
            f" from hosts: {self.host}"
        )


class AclBinding(NamedTuple):
    """One entry of the ACL of a pattern."""

    pattern: ResourcePattern
    """The resources that it is about."""
    entry: AccessControlEntry
    """Who may do what to them, or may not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AclBindingFilter:
    """Which bindings DescribeAcls and DeleteAcls mean; the default means all of them."""

    type: ResourceType = ResourceType.ANY
    """The type of the resources."""
    name: str | None = None
    """Their name; None means any, as of the principal and the host."""
    pattern_type: PatternType = PatternType.ANY
    """`ANY` compares only names; `MATCH` also finds the patterns that apply to a resource of the name."""
    principal: str | None = None
    """Who, as the entry names it."""
    host: str | None = None
    """Where from, as the entry names it."""
    operation: AclOperation = AclOperation.ANY
    """What is done."""
    permission: AclPermission = AclPermission.ANY
    """Whether it is allowed or denied."""

    @property
    def is_unknown(self) -> bool:
        """True if a part has a number that Kafka 2.8 does not know."""
        return not (self.type and self.pattern_type and self.operation and self.permission)

    def matches_pattern(self, pattern: ResourcePattern) -> bool:
        """Returns whether the filter means a pattern (ResourcePatternFilter.java@2.8.2)."""
        if self.type not in (ResourceType.ANY, pattern.type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None or self.name == pattern.name:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return False
        if pattern.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name == WILDCARD

    def matches_entry(self, entry: AccessControlEntry) -> bool:
        """Returns whether the filter means an entry (AccessControlEntryFilter.java@2.8.2)."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission in (AclPermission.ANY, entry.permission)
        )

    def matches(self, binding: AclBinding) -> bool:
        """Returns whether the filter means a binding."""
        return self.matches_pattern(binding.pattern) and self.matches_entry(binding.entry)


def parse_principal(text: str) -> str:
    """Returns the text, which has to be a type, a colon and a name. Raises ConfigError."""
    if ":" not in text:
        raise ConfigError(f"principal {text!r}: expected a type, ':' and a name, such as User:alice")
    return text


@functools.lru_cache(maxsize=1024)
def java_address(host: str) -> str:
    """An address as Java writes it, and so as the ACLs of Kafka have it: `::1` is `0:0:0:0:0:0:0:1`.

    A text that is no address stays as it is.
    """
    if ":" not in host:
        return host
    plain, percent, scope = host.partition("%")
    try:
        address = ipaddress.IPv6Address(plain)
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":")) + percent + scope


@dataclass(frozen=True, slots=True, kw_only=True)
class AclSettings:
    """How an authorizer decides beside the ACLs."""

    super_users: frozenset[str] = frozenset()
    """Principals that may do everything."""
    allow_if_no_acl: bool = False
    """Whether everybody may do everything to a resource without an ACL."""
    name: str = "zkgroup"
    """The authorizer as the setting names it."""

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self | None:
        """The settings of an authorizer by Kafka's names; None where none is set. Raises ConfigError."""
        name = properties.get(AUTHORIZER, "")
        if name not in ("", *_AUTHORIZERS):
            raise ConfigError(f"setting {AUTHORIZER}: expected {', '.join(_AUTHORIZERS)}, found {name!r}")
        users = [each.strip() for each in properties.get(SUPER_USERS, "").rstrip("; ").split(";")]
        try:
            found = frozenset(map(parse_principal, users if users != [""] else ()))
        except ConfigError as error:
            raise ConfigError(f"setting {SUPER_USERS}: {error}") from None
        allows = properties.get(ALLOW_IF_NO_ACL, "false").lower()
        if allows not in ("true", "false"):
            raise ConfigError(f"setting {ALLOW_IF_NO_ACL}: expected true or false, found {allows!r}")
        return cls(super_users=found, allow_if_no_acl=allows == "true", name=name) if name else None


class AuthorizationResult(NamedTuple):
    """Whether an operation is authorized, and why."""

    is_allowed: bool
    reason: str


_SUPER_USER: Final = AuthorizationResult(True, "super user")
_UNREAD: Final = AuthorizationResult(False, "no ACL was read yet")
_NO_ACL: Final = {
    True: AuthorizationResult(True, "the resource has no ACL"),
    False: AuthorizationResult(False, "the resource has no ACL"),
}
_NOT_ALLOWED: Final = AuthorizationResult(False, "no ACL allows it")


@dataclass(slots=True)
class _TypeAcls:
    """The ACLs of one type of resource."""

    literal: dict[str, tuple[AccessControlEntry, ...]] = field(default_factory=dict)
    prefixed: dict[str, tuple[AccessControlEntry, ...]] = field(default_factory=dict)
    lengths: Counter[int] = field(default_factory=Counter)
    """Of the prefixes: how many have that many characters."""

    def of(self, pattern_type: PatternType) -> dict[str, tuple[AccessControlEntry, ...]]:
        return self.literal if pattern_type is PatternType.LITERAL else self.prefixed

    def change(self, pattern: ResourcePattern, entries: tuple[AccessControlEntry, ...]) -> None:
        names = self.of(pattern.pattern_type)
        if pattern.pattern_type is PatternType.PREFIXED and (pattern.name in names) != bool(entries):
            length = len(pattern.name)
            self.lengths[length] += 1 if entries else -1
            if not self.lengths[length]:
                del self.lengths[length]
        if entries:
            names[pattern.name] = entries
        else:
            names.pop(pattern.name, None)

    def matching(self, name: str) -> Iterator[AccessControlEntry]:
        """The entries for a resource. It costs one lookup for each length that prefixes have."""
        for literal in dict.fromkeys((name, WILDCARD)):
            yield from self.literal.get(literal, ())
        for length in self.lengths:
            if length <= len(name):
                yield from self.prefixed.get(name[:length], ())


DECISIONS_MAX: Final = 20_000
"""Most decisions that are kept; then all are made anew."""
_KEPT_NAME_MAX: Final = 255
"""Longest name for which a decision is kept: clients choose the names."""
_Asked = tuple[str, str, AclOperation, ResourceType]
"""Principal, host, operation and type of resource."""
_NONE: Final[Mapping[str | None, AuthorizationResult]] = {}


class AclCache:
    """The ACLs of a cluster as last read, and the decisions by them.

    A decision is kept until an ACL changes, so it costs the same however many ACLs there are.
    """

    def __init__(self, settings: AclSettings | None = None) -> None:
        self.settings = settings or AclSettings()
        self.is_read = False
        """True once all ACLs were read; until then only super users are let in."""
        self._types = {each: _TypeAcls() for each in RESOURCE_TYPES}
        self._decisions: dict[_Asked, dict[str | None, AuthorizationResult]] = {}
        self._kept = 0
        """How many decisions there are."""

    def change(self, pattern: ResourcePattern, entries: Collection[AccessControlEntry]) -> None:
        """Replaces the entries of a pattern; none removes it."""
        self._types[pattern.type].change(pattern, tuple(entries))
        self._forget()

    def loaded(self) -> None:
        """Notes that all ACLs were read."""
        self.is_read = True
        self._forget()

    def entries(self, pattern: ResourcePattern) -> tuple[AccessControlEntry, ...]:
        """The entries of a pattern; none where it has no ACL."""
        return self._types[pattern.type].of(pattern.pattern_type).get(pattern.name, ())

    def bindings(self) -> Iterator[AclBinding]:
        """All entries of all ACLs."""
        for resource_type, acls in self._types.items():
            for pattern_type in PATTERN_TYPES:
                for name, entries in acls.of(pattern_type).items():
                    pattern = ResourcePattern(resource_type, name, pattern_type)
                    yield from (AclBinding(pattern, entry) for entry in entries)

    def __len__(self) -> int:
        """The number of patterns with an ACL."""
        return sum(len(acls.literal) + len(acls.prefixed) for acls in self._types.values())

    def authorize(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> AuthorizationResult:
        """Decides about an operation on one resource.

        A denial wins; Describe is implied by Read, Write, Delete and Alter, DescribeConfigs by AlterConfigs.
        """
        decision = self.kept(principal, host, operation, resource_type).get(name)
        return decision or self._keep((principal, host, operation, resource_type), name)

    def kept(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> Mapping[str | None, AuthorizationResult]:
        """The decisions that were made already, by name; `authorize` makes the others."""
        return self._decisions.get((principal, host, operation, resource_type), _NONE)

    def authorize_by_type(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> AuthorizationResult:
        """Decides whether an operation is authorized on any resource of a type (KIP-679)."""
        decision = self.kept(principal, host, operation, resource_type).get(None)
        return decision or self._keep((principal, host, operation, resource_type), None)

    def _keep(self, asked: _Asked, name: str | None) -> AuthorizationResult:
        decision = self._decide_by_type(*asked) if name is None else self._decide(*asked, name)
        if self._kept >= DECISIONS_MAX:
            self._forget()
        if len(name or "") <= _KEPT_NAME_MAX:
            self._decisions.setdefault(asked, {})[name] = decision
            self._kept += 1
        return decision

    def _forget(self) -> None:
        self._decisions.clear()
        self._kept = 0

    def _decide(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> AuthorizationResult:
        if (early := self._early(principal)) is not None:
            return early
        allowing = (operation, *_IMPLIED_BY.get(operation, ()), AclOperation.ALL)
        is_empty, allowed = True, None
        for entry in self._types[resource_type].matching(name):
            is_empty = False
            if entry.principal not in (principal, EVERYBODY) or entry.host not in (host, WILDCARD):
                continue
            if entry.permission is AclPermission.DENY:
                if entry.operation in (operation, AclOperation.ALL):
                    return AuthorizationResult(False, f"by acl = {entry}")
            elif entry.operation in allowing:
                allowed = entry
        if is_empty:
            return _NO_ACL[self.settings.allow_if_no_acl]
        return _NOT_ALLOWED if allowed is None else AuthorizationResult(True, f"by acl = {allowed}")

    def _early(self, principal: str) -> AuthorizationResult | None:
        if principal in self.settings.super_users:
            return _SUPER_USER
        return None if self.is_read else _UNREAD

    def _decide_by_type(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> AuthorizationResult:
        if (early := self._early(principal)) is not None:
            return early
        acls = self._types[resource_type]

        def names(
            permission: AclPermission, patterns: Mapping[str, Iterable[AccessControlEntry]]
        ) -> set[str]:
            return {
                name
                for name, entries in patterns.items()
                if any(
                    entry.permission is permission
                    and entry.principal in (principal, EVERYBODY)
                    and entry.host in (host, WILDCARD)
                    and entry.operation in (operation, AclOperation.ALL)
                    for entry in entries
                )
            }

        denied = names(AclPermission.DENY, acls.literal)
        if WILDCARD in denied:
            return AuthorizationResult(False, "an ACL denies it on every resource")
        if self.settings.allow_if_no_acl:
            return AuthorizationResult(True, "a resource may have no ACL")
        denied_prefixes = names(AclPermission.DENY, acls.prefixed)

        def is_below_denied(name: str) -> bool:
            return any(name[:length] in denied_prefixes for length in range(1, len(name) + 1))

        allowed = names(AclPermission.ALLOW, acls.literal)
        if WILDCARD in allowed or any(name not in denied and not is_below_denied(name) for name in allowed):
            return AuthorizationResult(True, "an ACL allows it on some resource")
        if not all(map(is_below_denied, names(AclPermission.ALLOW, acls.prefixed))):
            return AuthorizationResult(True, "an ACL allows it on some resource")
        return AuthorizationResult(False, "no ACL allows it on any resource")
