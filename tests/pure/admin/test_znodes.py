"""Znodes as they are, and the ensemble on one screen."""

from __future__ import annotations

import pytest

from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.stores import RecordedStore
from zkgroup.admin import znodes
from zkgroup.admin.status import diagnose, read_status
from zkgroup.errors import ConfigError, NotFoundError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Delete
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.znodes.consumers import Owner


def test_a_tree_is_read_depth_first_with_names_in_order(world: MemoryGroups) -> None:
    """Parents before children, children by name, whatever the depth."""
    for path in ("/b/2", "/b/1/x", "/a"):
        world.server.put(path)

    paths = [znode.path for znode in znodes.tree(world.ensemble, "/")]

    assert [path for path in paths if not path.startswith("/zookeeper")] == [
        "/",
        "/a",
        "/b",
        "/b/1",
        "/b/1/x",
        "/b/2",
    ]


def test_a_tree_can_be_cut_at_a_depth(world: MemoryGroups) -> None:
    """Depth 0 is the znode alone, 1 adds its children."""
    world.server.put("/b/1/x")

    assert [[one.path for one in znodes.tree(world.ensemble, "/b", depth)] for depth in (0, 1)] == [
        ["/b"],
        ["/b", "/b/1"],
    ]


def test_paths_are_taken_as_people_type_them(world: MemoryGroups) -> None:
    """Doubled and final slashes do not matter; relative paths and dots are refused."""
    world.server.put("/a/b", b"x")

    assert znodes.get(world.ensemble, "//a/b/").data == b"x"
    for path in ("a/b", "/a/../b", "/."):
        with pytest.raises(ConfigError):
            znodes.get(world.ensemble, path)


def test_a_missing_znode_names_what_there_is(world: MemoryGroups) -> None:
    """The nearest parent that exists is shown with its children."""
    world.server.put("/a/b")

    for look in (znodes.get, znodes.children):
        with pytest.raises(NotFoundError, match="/a exists and holds b"):
            look(world.ensemble, "/a/x/y")


def test_children_are_sorted(world: MemoryGroups) -> None:
    """`ls` prints names sorted; a leaf has none."""
    for name in ("b", "a", "10", "9"):
        world.server.put(f"/x/{name}")

    assert znodes.children(world.ensemble, "/x") == ("10", "9", "a", "b")
    assert znodes.children(world.ensemble, "/x/a") == ()


def test_the_status_of_a_real_cluster(world: MemoryGroups) -> None:
    """Brokers, controller and its epoch, topics and groups of a recorded 0.8.2.2 cluster."""
    operator = world.operator(RecordedStore("kafka-0.8.2.2/22-group-three-members.jsonl"))

    status = read_status(operator)

    assert status.brokers.data == (1, 2, 3)
    assert (status.controller, status.controller_epoch) == (2, 2)
    assert {group.group: group.state.value for group in status.groups} == {"g1": "empty", "g3": "stable"}
    assert diagnose(status, wanted_timeout_ms=6000) == ()


def test_a_diagnosis_says_what_to_type_next(world: MemoryGroups) -> None:
    """The worst first: an inconsistent group, an unreadable broker, a group without partitions."""
    world.topic("orders", 2)
    world.member("g", "a", {"orders": 1})
    world.own_as_planned("g")
    world.write(Delete(Owner.path("g", TopicPartition("orders", 0)), 1))
    world.member("h", "a", {"nothing": 1})
    world.hold(BrokerRegistration.path(1), b"{")
    world.clock.advance(60_000)

    found = diagnose(read_status(world.ensemble), wanted_timeout_ms=10_000)

    assert [(one.severity, one.subject) for one in found] == [
        ("error", "group g"),
        ("error", "broker"),
        ("warning", "group h"),
        ("warning", "session"),
        ("info", "brokers"),
    ]
    assert found[0].next == "zkgroup group verify g"
    assert found[2].next == "zkgroup topic create nothing --partitions N"
