"""Drawn ACLs, and what is asked of them; the answers of `AclDecisions.java` beside those of zkgroup."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from zkgroup.security.acls import (
    CLUSTER_NAME,
    PATTERN_TYPES,
    RESOURCE_TYPES,
    AccessControlEntry,
    AclBindingFilter,
    AclCache,
    AclOperation,
    AclPermission,
    AclSettings,
    PatternType,
    ResourcePattern,
    ResourceType,
    java_address,
)
from zkgroup.znodes.acls import ResourceAcls

ASKED, FILTERS = 40, 4
"""In each line."""
PRINCIPALS = ("User:alice", "User:bob", "User:CN=a:b,O=c", "Group:alice", "User:al ice")
ADDRESSES = ("10.0.0.1", "::1", "2001:db8::ff:1", "::ffff:10.0.0.1")
NAMES = ("a", "ab", "abc", "abd", "b", "é", "éx", "\U0001f600x", "A")
OPERATIONS = tuple(AclOperation)[AclOperation.ALL :]
USUAL = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL)


def drawn(count: int, seed: int) -> Iterator[str]:
    """Lines for `AclDecisions.java`; about few resources each, so that ACLs meet."""
    draw = random.Random(seed)
    for _ in range(count):
        types = draw.sample(RESOURCE_TYPES, draw.randint(1, 2))
        patterns = [_pattern(draw, draw.choice(types)) for _ in range(draw.randint(1, 8))]
        yield json.dumps(
            {
                "super_users": draw.sample(PRINCIPALS, draw.choice((0, 0, 0, 1))),
                "open": draw.random() < 0.3,
                "changes": [_change(draw, one) for one in draw.choices(patterns, k=len(patterns) + 2)],
                "asked": [_question(draw, types) for _ in range(ASKED)],
                "filters": [_filter(draw, patterns) for _ in range(FILTERS)],
            }
        )


def _pattern(draw: random.Random, kind: ResourceType) -> ResourcePattern:
    if kind is ResourceType.CLUSTER:
        return ResourcePattern(kind, draw.choice((CLUSTER_NAME, CLUSTER_NAME, "*")))
    return ResourcePattern(kind, draw.choice((*NAMES, "*", "*")), draw.choice(PATTERN_TYPES))


def _change(draw: random.Random, pattern: ResourcePattern) -> list[Any]:
    entries = {_entry(draw): {} for _ in range(draw.choice((0, 1, 1, 2, 4)))}
    znode = ResourceAcls(entries).encode().decode() if entries else None
    return [pattern.type.name, pattern.pattern_type.name, pattern.name, znode]


def _entry(draw: random.Random) -> AccessControlEntry:
    return AccessControlEntry(
        draw.choice(("User:*", *PRINCIPALS[:2], *PRINCIPALS)),
        draw.choice(("*", "*", "*", *map(java_address, ADDRESSES))),
        draw.choice((*USUAL, *OPERATIONS)),
        draw.choice((AclPermission.ALLOW, AclPermission.ALLOW, AclPermission.DENY)),
    )


def _question(draw: random.Random, types: list[ResourceType]) -> list[str | None]:
    kind = draw.choice(types)
    name = CLUSTER_NAME if kind is ResourceType.CLUSTER else draw.choice(NAMES)
    operation = draw.choice((*USUAL[:-1], *OPERATIONS[1:]))
    # Kafka asks by type only for this operation of topics; the others are decided in the same way.
    asked_name = None if draw.random() < 0.2 else name
    return [draw.choice(PRINCIPALS), draw.choice(ADDRESSES), operation.name, kind.name, asked_name]


def _filter(draw: random.Random, patterns: list[ResourcePattern]) -> list[str | None]:
    """Mostly one part or two are given, so that something is found."""
    parts: list[str | None] = [
        "ANY",
        None,
        draw.choice(tuple(PatternType)[1:]).name,
        None,
        None,
        "ANY",
        "ANY",
    ]
    one, entry = draw.choice(patterns), _entry(draw)
    values = (one.type.name, draw.choice((one.name, *NAMES)), one.pattern_type.name, *_texts(entry))
    for place in draw.sample(range(len(parts)), draw.randint(0, 3)):
        parts[place] = values[place]
    return parts


def _texts(entry: AccessControlEntry) -> tuple[str, str, str, str]:
    return entry.principal, entry.host, entry.operation.name, entry.permission.name


def differences(line: str) -> list[str]:
    """Where zkgroup decides or lists otherwise than an answer of `AclDecisions.java`."""
    row = json.loads(line)
    cache = AclCache(AclSettings(super_users=frozenset(row["super_users"]), allow_if_no_acl=row["open"]))
    cache.loaded()
    for kind, pattern_type, name, znode in row["changes"]:
        pattern = ResourcePattern(ResourceType[kind], name, PatternType[pattern_type])
        entries = ResourceAcls.decode("", znode and znode.encode()).entries
        cache.change(pattern, tuple(entries))
        for asked in row["asked"][:2]:
            _is_allowed(cache, *asked)  # decisions before a change must not outlive it
    told = {name: row[name] for name in ("super_users", "open", "changes")}
    wrong = [
        f"{asked}: Kafka says {expected}, {told}"
        for asked, expected in zip(row["asked"], row["found"], strict=True)
        if _is_allowed(cache, *asked) != (expected == "1")
    ]
    return wrong + [
        f"{asked}: Kafka lists {expected}, not {listed}, {told}"
        for asked, expected in zip(row["filters"], row["listed"], strict=True)
        if (listed := _listed(cache, asked)) != sorted(expected)
    ]


def _is_allowed(
    cache: AclCache, principal: str, address: str, operation: str, kind: str, name: str | None
) -> bool:
    asked = principal, java_address(address), AclOperation[operation], ResourceType[kind]
    decision = cache.authorize_by_type(*asked) if name is None else cache.authorize(*asked, name)
    return decision.is_allowed


def _listed(cache: AclCache, asked: list[str]) -> list[str]:
    kind, name, pattern_type, principal, host, operation, permission = asked
    wanted = AclBindingFilter(
        type=ResourceType[kind],
        name=name,
        pattern_type=PatternType[pattern_type],
        principal=principal,
        host=host,
        operation=AclOperation[operation],
        permission=AclPermission[permission],
    )
    return sorted(
        " ".join((pattern.type.name, pattern.pattern_type.name, pattern.name, *_texts(entry)))
        for pattern, entry in cache.bindings()
        if wanted.matches_pattern(pattern) and wanted.matches_entry(entry)
    )
