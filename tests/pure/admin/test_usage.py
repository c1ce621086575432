"""Estimate, formula and count side by side; the formulas hold on recorded trees of Kafka clusters."""

from __future__ import annotations

from tests.worlds import golden_data
from tests.worlds.acls import UNREADABLE
from tests.worlds.memory_cluster import MemoryCluster, move
from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.stores import RecordedStore
from zkgroup.admin.cluster.controller import read_controller_info
from zkgroup.admin.cluster.usage import CORRECTED, EARLY, Counts, read_usage, release_of, walk

COUNTS = Counts(brokers=2, topics=4, partitions=10, reassigning=1, notifications=3, requests=1)


def test_the_formulas_as_they_stand_in_the_papers() -> None:
    """controller.md 9: B = 2, T = 4: 20 watches estimated, 18 counted by `mntr` at R = 0, one more at 1."""
    assert {name: one.count(COUNTS) for name, one in EARLY.items()} == {
        "connections": 2,
        "watches": 20,
        "leaf_znodes": 27,
    }
    assert {
        release: {name: one.count(COUNTS) for name, one in formulas.items()}
        for release, formulas in CORRECTED.items()
    } == {
        "0.8.2": {"connections": 2, "watches": 19, "leaf_znodes": 26, "znodes": 52},
        "1.1-2.6": {"connections": 2, "watches": 18, "leaf_znodes": 34, "znodes": 61},
        "2.7+": {"connections": 2, "watches": 19, "leaf_znodes": 36, "znodes": 63},
        "zkgroup": {"connections": 2, "watches": 20},
    }


def test_every_recorded_tree_of_0_8_2_2_has_as_many_znodes_as_the_formula(world: MemoryGroups) -> None:
    """Its own znodes: recordings have no `/zookeeper` and no `/zookeeper/quota`; trees with groups apart."""
    seen = 0
    for name in sorted({one.file for one in golden_data.trees("kafka-0.8.2.2")}):
        paths = [one.path for one in golden_data.trees("kafka-0.8.2.2") if one.file == name]
        if "/brokers/ids" not in paths or any(path.startswith("/consumers/") for path in paths):
            continue
        found = read_usage(world.operator(RecordedStore(name)), [])
        marked = sum(path.startswith("/admin/delete_topics/") for path in paths)
        rows = {row.quantity: row for row in found.rows}
        znodes, leaves = rows["znodes"], rows["leaf_znodes"]

        assert found.release == "0.8.2"
        assert znodes.corrected is not None
        assert leaves.early is not None
        assert znodes.measured == len(paths) == znodes.corrected.value - 2 + marked
        assert leaves.measured is not None
        assert leaves.measured + 1 <= leaves.early.value + marked
        seen += 1
    assert seen > 10


def test_uncounted_quantities_have_no_formula(world: MemoryGroups) -> None:
    """0.9 and 0.10; a zkgroup cluster has its own estimate, without znodes."""
    cluster = MemoryCluster(world, release="0.9.0.1")
    unknown = read_usage(world.ensemble, [])
    cluster.broker(4, "2.8.2")
    mixed = release_of(read_controller_info(world.ensemble))

    ours = MemoryGroups()
    made = MemoryCluster(ours, brokers=0)
    for number in (1, 2):
        made.broker(number, zkgroup={"role": "data"})
    found = read_usage(ours.ensemble, [])
    for client in list(ours.server.clients.values()):
        client.close()

    assert (unknown.release, mixed, found.release) == (None, None, "zkgroup")
    assert [row.corrected for row in unknown.rows] == [None] * 4
    assert [row.corrected.value if row.corrected else None for row in found.rows] == [2, 15, None, None]


def test_what_is_counted(world: MemoryGroups) -> None:
    """Moves and waiting requests too; an unreadable topic is one, with no partitions."""
    cluster = MemoryCluster(world, release="2.8.2")
    cluster.topic("orders", (1, 2), (2, 1))
    world.server.put("/brokers/topics/odd", b"{")
    cluster.request(move("orders", 0, 2, 1))

    found = read_usage(world.ensemble, [])

    assert found.counts == Counts(
        brokers=3, topics=2, partitions=2, reassigning=1, notifications=0, requests=1
    )
    assert found.release == "2.7+"
    assert walk(world.ensemble)[0] == len(world.server.tree()) + 3  # /zookeeper and two below it


def test_a_silent_server_makes_the_sum_unknown(world: MemoryGroups) -> None:
    """The reason names it; nothing is guessed."""
    MemoryCluster(world)

    found = read_usage(world.ensemble, [("127.0.0.1", 1)], admin_port=None)

    connections, watches, *_ = found.rows
    assert (connections.measured, watches.measured) == (None, None)
    assert connections.reason is not None
    assert connections.reason.startswith("127.0.0.1:1: mntr: ")


def test_what_may_not_be_read_is_named_and_the_rest_counted(world: MemoryGroups) -> None:
    """Past bug: one hidden znode anywhere, and nothing was counted."""
    cluster = MemoryCluster(world, release="2.8.2")
    cluster.topic("orders", (1, 2))
    cluster.topic("clicks", (1, 2))
    world.server.put("/private/a/b")
    whole = read_usage(world.ensemble, [])
    for path in ("/private", "/brokers/topics/clicks"):
        world.server.set_acl(path, UNREADABLE)
    some = read_usage(world.ensemble, [])
    world.server.put("/admin")
    world.hold("/controller", b'{"version":1,"brokerid":1,"timestamp":"1"}')
    for path in ("/brokers/topics", "/brokers/ids", "/admin", "/controller", "/config"):
        world.server.set_acl(path, UNREADABLE)
    least = read_usage(world.ensemble, [])

    before, after = ({row.quantity: row for row in found.rows} for found in (whole, some))
    assert (whole.unreadable, some.unreadable) == ((), ("/brokers/topics/clicks", "/private"))
    assert (some.counts.topics, some.counts.partitions) == (2, whole.counts.partitions - 1)
    assert before["znodes"].reason is None
    assert after["znodes"].measured is not None
    assert after["znodes"].measured < (before["znodes"].measured or 0)
    assert after["znodes"].reason is not None
    assert "/brokers/topics/clicks, /private" in after["znodes"].reason
    assert (least.counts.topics, least.counts.brokers, least.release) == (0, 0, None)
    assert {"/brokers/ids", "/brokers/topics", "/config", "/private"} <= set(least.unreadable)
