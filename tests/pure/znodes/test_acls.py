"""The znodes of access control lists; tests/pure/znodes/test_golden.py compares them with Kafka's."""

from __future__ import annotations

import json

import pytest

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.security.acls import (
    AccessControlEntry,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from zkgroup.znodes.acls import AclChangeNode, ResourceAcls, acl_folders

PATH = "/kafka-acl/Topic/orders"
ALICE = AccessControlEntry("User:alice", "*", AclOperation.DESCRIBE_CONFIGS, AclPermission.ALLOW)
BOB = AccessControlEntry("User:bob", "10.0.0.1", AclOperation.ALL, AclPermission.DENY)
FIELDS = {"principal": "User:alice", "permissionType": "Allow", "operation": "Read", "host": "*"}


def test_a_rewrite_keeps_what_it_does_not_know() -> None:
    """Keys of later versions, and entries with an operation or a permission of them."""
    later = {**FIELDS, "operation": "CreateTokens"}
    found = {
        "version": 1,
        "acls": [{**FIELDS, "since": 1}, later, {**FIELDS, "operation": "Any"}],
        "more": "x",
    }

    acls = ResourceAcls.decode(PATH, json.dumps(found).encode())

    (read,) = acls.entries
    assert read == AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermission.ALLOW)
    assert json.loads(acls.encode()) == found
    rest = acls.changed(removed=[read])
    assert not rest.is_empty
    assert json.loads(rest.encode())["acls"] == found["acls"][1:]  # type: ignore[index]
    assert ResourceAcls().changed(added=[read]).changed(removed=[read]).is_empty


def test_adding_again_changes_nothing() -> None:
    """Entries are a set; the present one keeps its place and its unknown keys."""
    acls = ResourceAcls({ALICE: {"since": 1}, BOB: {}})

    assert acls.changed(added=[ALICE]).entries == acls.entries
    assert ResourceAcls.decode(PATH, acls.encode()) == acls


@pytest.mark.parametrize(
    "found",
    [
        {"acls": []},
        {"version": 2, "acls": []},
        {"version": 1},
        {"version": 1, "acls": ["x"]},
        {"version": 1, "acls": [{"principal": "User:alice"}]},
        {"version": 1, "acls": [{**FIELDS, "principal": "alice"}]},
    ],
)
def test_what_cannot_be_read(found: object) -> None:
    """The error has the path."""
    with pytest.raises(CorruptZnodeError, match=PATH):
        ResourceAcls.decode(PATH, json.dumps(found).encode())


def test_an_acl_without_data_is_empty() -> None:
    """As in Kafka."""
    assert ResourceAcls.decode(PATH, None).is_empty


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0", "\ud800"])
def test_names_that_have_no_path(name: str) -> None:
    """Kafka refuses a slash too."""
    with pytest.raises(ConfigError, match="ACL of Group"):
        ResourceAcls.path(ResourcePattern(ResourceType.GROUP, name))


def test_paths() -> None:
    """A prefix stands in its own tree."""
    transactional = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "t 1", PatternType.PREFIXED)

    assert ResourceAcls.path(transactional) == "/kafka-acl-extended/prefixed/TransactionalId/t 1"
    assert ResourceAcls.path(ResourcePattern(ResourceType.TOPIC, "orders")) == PATH
    folders = acl_folders()
    assert len(folders) == 15
    parents = {folder.rpartition("/")[0] for folder in folders} - {""}
    assert parents <= set(folders)


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/kafka-acl-changes/acl_changes_0000000000", "orders"),
        ("/kafka-acl-changes/acl_changes_0000000000", "Sing:orders"),
        ("/kafka-acl-extended-changes/acl_changes_0000000000", "TOPIC:orders"),
        ("/kafka-acl-extended-changes/acl_changes_0000000000", '{"version":2}'),
        (
            "/kafka-acl-extended-changes/acl_changes_0000000000",
            '{"version":1,"resourceType":"TOPIC","name":"a","patternType":"LITERAL"}',
        ),
    ],
)
def test_notifications_that_cannot_be_read(path: str, data: str) -> None:
    """A broker skips them."""
    with pytest.raises(CorruptZnodeError, match="acl_changes_0000000000"):
        AclChangeNode.decode(path, data.encode())


def test_a_notification_of_kafka_1() -> None:
    """It has the word of the znodes; a name may have colons."""
    found = AclChangeNode.decode("/kafka-acl-changes/acl_changes_0000000000", b"TransactionalId:a:b")

    assert found == AclChangeNode(ResourcePattern(ResourceType.TRANSACTIONAL_ID, "a:b"))
    assert found.encode() == b"TRANSACTIONAL_ID:a:b"
