"""Kafka's ACLs: written as Kafka writes them, listed, removed, undone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.worlds import golden_data
from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin.acls import (
    acl_change,
    bindings_of,
    filters_of,
    list_acls,
    patterns_of,
    plan_additions,
    plan_removals,
    read_acls,
)
from zkgroup.admin.change import UndoRecorder
from zkgroup.admin.undo import undo_change
from zkgroup.admin.undo_records import UndoFolder
from zkgroup.errors import ConfigError, ConflictError, CorruptZnodeError, PartlyDoneError
from zkgroup.model.requests import Operation
from zkgroup.security.acls import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
PREFIXED = PatternType.PREFIXED
READ, WRITE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.ALL
PLAIN = "/kafka-acl/Topic/plain"


def _acl(
    name: str,
    kind: ResourceType = TOPIC,
    pattern_type: PatternType = PatternType.LITERAL,
    *,
    who: str = "User:alice",
    host: str = "*",
    operation: AclOperation = READ,
    deny: bool = False,
) -> AclBinding:
    entry = AccessControlEntry(who, host, operation, AclPermission.DENY if deny else AclPermission.ALLOW)
    return AclBinding(ResourcePattern(kind, name, pattern_type), entry)


OF_ALICE = _acl("plain")
OF_BOB = _acl("plain", who="User:bob", host="127.0.0.1", operation=WRITE, deny=True)


@pytest.fixture
def recorder(tmp_path: Path) -> UndoRecorder:
    return UndoRecorder(UndoFolder(tmp_path), zookeeper="zk:2181")


@pytest.fixture(autouse=True)
def _brokers(world: MemoryGroups) -> None:
    MemoryCluster(world, 1, "2.8.2")


def _add(world: MemoryGroups, recorder: UndoRecorder, *bindings: AclBinding) -> str | None:
    plan = plan_additions(world.ensemble, bindings)
    return acl_change(world.ensemble, plan, "add").apply(recorder).undo_id


def _remove(world: MemoryGroups, recorder: UndoRecorder, *filters: AclBindingFilter) -> str | None:
    plan = plan_removals(world.ensemble, filters)
    return acl_change(world.ensemble, plan, "remove").apply(recorder).undo_id


def _undo(world: MemoryGroups, recorder: UndoRecorder, undo_id: str | None, *, force: bool = False) -> None:
    assert undo_id is not None
    undo_change(world.ensemble, recorder.folder.load(undo_id), force=force).apply(recorder)


def _listed(world: MemoryGroups, wanted: AclBindingFilter | None = None) -> set[AclBinding]:
    return set(read_acls(world.ensemble, [wanted or AclBindingFilter()])[1])


def _data(world: MemoryGroups) -> dict[str, str]:
    tree = world.server.tree()
    found = {path: world.server.find(path) for path in tree if path.startswith("/kafka-acl")}
    return {path: (one.data or b"").decode() for path, one in found.items() if one and one.data}


def test_acls_are_written_and_announced_as_kafka_recorded_it(
    world: MemoryGroups, recorder: UndoRecorder
) -> None:
    """Each znode of the recorded run of 2.8.2, and each notification, to the last byte."""
    recorded = {
        row["path"]: row["data"]
        for row in golden_data.lines("kafka-2.8.2/writes.jsonl")
        if row.get("path", "").startswith("/kafka-acl") and row.get("data")
    }

    _add(world, recorder, OF_ALICE, OF_BOB)
    _add(world, recorder, _acl("g", GROUP))
    _add(world, recorder, _acl("pre-", TOPIC, PREFIXED, operation=ALL))

    assert len(recorded) == 6
    assert _data(world) == recorded


def test_what_is_there_stays_and_what_changes_nothing_is_not_written(
    world: MemoryGroups, recorder: UndoRecorder
) -> None:
    """Entries and keys of later versions too; the last entry takes the znode with it."""
    later = {"principal": "User:x", "permissionType": "Allow", "operation": "Dream", "host": "*"}
    kept = {"version": 1, "acls": [later], "since": 5}
    world.server.put(PLAIN, json.dumps(kept).encode())

    _add(world, recorder, OF_ALICE, OF_BOB)
    again = plan_additions(world.ensemble, [OF_ALICE])
    assert _listed(world) == {OF_ALICE, OF_BOB}
    assert not acl_change(world.ensemble, again, "add").is_effective
    _remove(world, recorder, AclBindingFilter())

    assert json.loads(_data(world)[PLAIN]) == kept
    _add(world, recorder, _acl("g", GROUP))
    _remove(world, recorder, AclBindingFilter(type=GROUP))
    assert "/kafka-acl/Group/g" not in world.server.tree()
    assert _data(world)["/kafka-acl-changes/acl_changes_0000000003"] == "GROUP:g"


def test_a_filter_means_what_it_means_to_kafka(world: MemoryGroups, recorder: UndoRecorder) -> None:
    """Only patterns of the name, or by MATCH all that decide about it."""
    every, beginning = _acl("*"), _acl("pl", pattern_type=PREFIXED)
    _add(world, recorder, OF_ALICE, OF_BOB, every, beginning, _acl("plain", GROUP))

    match = AclBindingFilter(type=TOPIC, name="plain", pattern_type=PatternType.MATCH)
    assert _listed(world, match) == {OF_ALICE, OF_BOB, every, beginning}
    assert _listed(world, AclBindingFilter(type=TOPIC, name="plain")) == {OF_ALICE, OF_BOB}
    _remove(world, recorder, AclBindingFilter(principal="User:bob"), AclBindingFilter(name="*"))
    assert _listed(world, match) == {OF_ALICE, beginning}


def test_changes_are_undone_and_what_others_did_since_stays(
    world: MemoryGroups, recorder: UndoRecorder
) -> None:
    """Refused where an ACL has changed since, unless forced."""
    added = _add(world, recorder, OF_ALICE, _acl("g", GROUP))
    removed = _remove(world, recorder, AclBindingFilter(type=GROUP))
    _undo(world, recorder, removed)
    assert _listed(world) == {OF_ALICE, _acl("g", GROUP)}

    _add(world, recorder, OF_BOB)
    with pytest.raises(ConflictError, match="--force"):
        _undo(world, recorder, added)
    _undo(world, recorder, added, force=True)

    assert _listed(world) == {OF_BOB}
    assert recorder.folder.load(str(added)).summary == f"ACLs in {PLAIN}, /kafka-acl/Group/g"


def test_a_change_that_was_killed_in_its_midst_is_undone(world: MemoryGroups, recorder: UndoRecorder) -> None:
    """What it did not come to is as it was, and no change of somebody else."""
    before = _add(world, recorder, OF_BOB)
    bindings = [_acl("g", GROUP), OF_ALICE, _acl("never")]
    change = acl_change(world.ensemble, plan_additions(world.ensemble, bindings), "add")
    multi, left = world.ensemble.zk.multi, iter([True])

    def killed(*operations: Operation) -> object:
        if next(left, False):
            return multi(*operations)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.ensemble.zk, "multi", killed)
        with pytest.raises(KeyboardInterrupt):
            change.apply(recorder)
    assert len(_listed(world)) == 2

    (undo_id,) = {*recorder.folder.ids()} - {before}
    _undo(world, recorder, undo_id)
    assert _listed(world) == {OF_BOB}


def test_a_change_that_meets_another_is_refused_whole_or_named_in_part(
    world: MemoryGroups, recorder: UndoRecorder
) -> None:
    """The version that was read is a condition of the write."""
    plan = plan_additions(world.ensemble, [OF_ALICE])
    both = plan_additions(world.ensemble, [_acl("g", GROUP), OF_ALICE])
    _add(world, recorder, OF_BOB)

    with pytest.raises(ConflictError, match=PLAIN):
        acl_change(world.ensemble, plan, "add").apply(recorder)
    with pytest.raises(PartlyDoneError, match=f"1 of 2 patterns are written, then: {PLAIN}"):
        acl_change(world.ensemble, both, "add").apply(recorder)

    assert _listed(world) == {OF_BOB, _acl("g", GROUP)}


def test_an_acl_that_cannot_be_read_is_named_and_not_replaced(
    world: MemoryGroups, recorder: UndoRecorder
) -> None:
    """Others are listed and changed."""
    world.server.put(PLAIN, b"[]")
    _add(world, recorder, _acl("g", GROUP))

    _, rows, unreadable = list_acls(world.ensemble)
    _remove(world, recorder, AclBindingFilter(type=GROUP))

    assert rows == (_acl("g", GROUP),)
    assert [text.partition(":")[0] for text in unreadable] == [PLAIN]
    for plan in (
        lambda: plan_additions(world.ensemble, [OF_ALICE]),
        lambda: plan_removals(world.ensemble, [AclBindingFilter(name="plain")]),
    ):
        with pytest.raises(CorruptZnodeError, match=PLAIN):
            plan()


@pytest.mark.parametrize(
    ("binding", "said"),
    [
        (_acl("other", CLUSTER), "kafka-cluster"),
        (_acl("t", who="alice"), "such as User:alice"),
        (_acl("a/b"), "without '/'"),
        (_acl(""), "expected a name"),
        (_acl("a\x01"), "that ZooKeeper refuses"),
        (_acl("\U0001f600", pattern_type=PREFIXED), "that ZooKeeper refuses"),
        (_acl("t", ResourceType.ANY), "a type of resource"),
        (_acl("t", pattern_type=PatternType.MATCH), "literal or prefixed"),
        (_acl("t", operation=AclOperation.ANY), "found ANY"),
    ],
    ids=lambda value: str(value),
)
def test_an_acl_that_cannot_be_is_refused(world: MemoryGroups, binding: AclBinding, said: str) -> None:
    """Before anything is read."""
    with pytest.raises(ConfigError, match=said):
        plan_additions(world.ensemble, [binding])


def test_words_become_acls_and_the_filters_that_find_them() -> None:
    """Operations in any case; every name by every principal, operation and host."""
    patterns = patterns_of(["a"], ["g"], prefixed=True)
    bindings = bindings_of(patterns, ["User:x"], ["Read", "DESCRIBE"], ["::1"], deny=True)

    assert len(bindings) == 4
    assert {str(one.entry.host) for one in bindings} == {"0:0:0:0:0:0:0:1"}
    for filters in (
        filters_of(patterns, deny=True),
        filters_of(patterns, ["User:x"], [], ["::1"], deny=True),
    ):
        assert all(any(each.matches(one) for each in filters) for one in bindings)
    assert not any(each.matches(one) for each in filters_of(patterns) for one in bindings)
    for wrong, said in (
        (lambda: patterns_of(cluster=True, prefixed=True), "no cluster"),
        (lambda: filters_of(()), "expected a topic"),
        (lambda: bindings_of(patterns, ["User:x"], ["dream"]), "idempotent_write"),
        (lambda: bindings_of(patterns, ["user:x"], ["read"]), "expected User:NAME"),
        (lambda: bindings_of(patterns, ["User:"], ["read"]), "expected User:NAME"),
        (lambda: bindings_of(patterns, ["User:x"], ["read"], ["10.0.0.0/8"]), "expected an IP address"),
        (lambda: bindings_of(patterns, ["User:x"], ["write"]), "read, describe, delete, all"),
    ):
        with pytest.raises(ConfigError, match=said):
            wrong()
