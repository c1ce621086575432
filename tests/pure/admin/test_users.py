"""Users with SCRAM credentials: written as Kafka's tool does, listed, deleted, undone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin.change import UndoRecorder
from zkgroup.admin.undo import undo_change
from zkgroup.admin.undo_records import UndoFolder
from zkgroup.admin.users import (
    changes_of,
    list_users,
    plan_credentials,
    plan_user,
    plan_user_deletion,
    user_change,
)
from zkgroup.errors import ConfigError, ConflictError, NotFoundError

ALICE = "/config/users/alice"
CREDENTIAL = (
    "salt=Zml4ZWRzYWx0MTIzNDU2Nw==,stored_key=mWE+6Xwhu9L0RU5e8uUG3IyZMDe0qIBE9mj6Dt7nTU4=,"
    "server_key=CSUv6RH4kMJBFR/6LwJoya6EkJ+KD5whIXRpig/iLE4=,iterations=4096"
)


@pytest.fixture
def recorder(tmp_path: Path) -> UndoRecorder:
    return UndoRecorder(UndoFolder(tmp_path), zookeeper="zk:2181")


def _config(world: MemoryGroups, path: str = ALICE) -> dict[str, str]:
    found = world.server.find(path)
    assert found is not None
    document = json.loads(found.data or b"")
    assert document["version"] == 1
    return dict(document["config"])


def test_a_credential_is_written_and_announced_as_kafka_recorded_it(
    world: MemoryGroups, recorder: UndoRecorder
) -> None:
    """The recorded run of 2.8.2: the quota stays beside it, and the notification names the user."""
    cluster = MemoryCluster(world, 1, "2.8.2")
    world.server.put(ALICE, b'{"version":1,"config":{"producer_byte_rate":"1048576"}}')

    plan = plan_credentials(world.ensemble, "alice", {"SCRAM-SHA-256": CREDENTIAL})
    user_change(world.ensemble, plan, "add").apply(recorder)

    assert _config(world) == {"producer_byte_rate": "1048576", "SCRAM-SHA-256": CREDENTIAL}
    assert cluster.notifications() == ['{"version":2,"entity_path":"users/alice"}']


def test_the_first_user_needs_no_broker(world: MemoryGroups, recorder: UndoRecorder) -> None:
    """The brokers of a new cluster log in among themselves by it; the name is encoded once."""
    plan = plan_user(world.ensemble, "al ice/x", "SCRAM-SHA-512", "secret", 8192)
    user_change(world.ensemble, plan, "add").apply(recorder)

    _, rows, unreadable = list_users(world.ensemble)
    assert [(one.user, one.mechanism, one.iterations) for one in rows] == [
        ("al ice/x", "SCRAM-SHA-512", 8192)
    ]
    assert unreadable == ()
    assert list(_config(world, "/config/users/al%20ice%2Fx")) == ["SCRAM-SHA-512"]


def test_users_are_listed_without_those_that_have_only_quotas(world: MemoryGroups) -> None:
    """One with a damaged credential is named as unreadable, without the credential."""
    world.server.put("/config/users/quota", b'{"version":1,"config":{"producer_byte_rate":"1"}}')
    world.server.put("/config/users/<default>", b'{"version":1,"config":{"producer_byte_rate":"1"}}')
    world.server.put("/config/users/broken", b'{"version":1,"config":{"SCRAM-SHA-256":"salt=c2VjcmV0"}}')
    world.server.put("/config/users/other", b"[]")

    _, rows, unreadable = list_users(world.ensemble)

    assert rows == ()
    assert [text.partition(":")[0] for text in unreadable] == ["/config/users/broken", "/config/users/other"]
    assert "c2VjcmV0" not in unreadable[0]


def test_one_credential_or_all_are_removed(world: MemoryGroups, recorder: UndoRecorder) -> None:
    """Quotas stay; a user without the credential is refused with the command that lists them."""
    world.server.put(ALICE, b'{"version":1,"config":{"producer_byte_rate":"1"}}')
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        plan = plan_user(world.ensemble, "alice", mechanism, "secret")
        user_change(world.ensemble, plan, "add").apply(recorder)

    both = plan_user_deletion(world.ensemble, "alice")
    one = plan_user_deletion(world.ensemble, "alice", "SCRAM-SHA-256")
    user_change(world.ensemble, one, "delete").apply(recorder)

    assert [(row.mechanism, row.change, row.iterations) for row in changes_of(both)] == [
        ("SCRAM-SHA-256", "removed", None),
        ("SCRAM-SHA-512", "removed", None),
    ]
    assert list(_config(world)) == ["producer_byte_rate", "SCRAM-SHA-512"]
    with pytest.raises(NotFoundError, match="`zkgroup user list`"):
        plan_user_deletion(world.ensemble, "alice", "SCRAM-SHA-256")
    with pytest.raises(ConflictError, match="run the command again"):
        user_change(world.ensemble, both, "delete").apply(recorder)


def test_an_undo_gives_the_former_credential_back_and_shows_none(
    world: MemoryGroups, recorder: UndoRecorder
) -> None:
    """The file keeps it, for its owner alone; the summary, the plan and the change print nothing of it."""
    world.server.put(ALICE, json.dumps({"version": 1, "config": {"SCRAM-SHA-256": CREDENTIAL}}).encode())
    change = user_change(
        world.ensemble, plan_user(world.ensemble, "alice", "SCRAM-SHA-256", "another"), "add"
    )
    undo_id = change.apply(recorder).undo_id or ""
    record = recorder.folder.load(undo_id)
    assert recorder.folder.file(undo_id).stat().st_mode & 0o077 == 0

    undo = undo_change(world.ensemble, record)
    undo.apply(recorder)

    assert record.summary == "credentials of alice"
    assert _config(world) == {"SCRAM-SHA-256": CREDENTIAL}
    shown = f"{record} {undo.plan} {undo.subject} {change.plan} {change}"
    assert "stored_key" not in shown
    with pytest.raises(ConflictError, match="has changed since"):
        undo_change(world.ensemble, record)


@pytest.mark.parametrize(
    ("user", "mechanism", "password"),
    [
        ("", "SCRAM-SHA-256", "x"),
        ("a", "SCRAM-SHA-1", "x"),
        ("a", "SCRAM-SHA-256", ""),
        ("..", "SCRAM-SHA-256", "x"),
    ],
)
def test_what_cannot_be_a_user_is_refused(
    world: MemoryGroups, user: str, mechanism: str, password: str
) -> None:
    """Nothing is read or written for it."""
    with pytest.raises(ConfigError, match="expected"):
        plan_user(world.ensemble, user, mechanism, password)
