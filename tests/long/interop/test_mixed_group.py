"""Two JVM consumers of Kafka 0.8.2.2 and two zkgroup members in one group on a Kafka broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.long.interop.conftest import Scene
from tests.long.interop.members import Kind, Member
from tests.long.interop.servers import Producer
from tests.waiting import PATIENCE_S, eventually
from tests.worlds.other_clients import beside
from tests.worlds.shell import Shell
from zkgroup import GroupMember, GroupSettings

KINDS: dict[str, Kind] = {"a": "jvm", "b": "python", "c": "python", "d": "jvm"}


def start_all(scene: Scene, kinds: dict[str, Kind]) -> list[Member]:
    members = [scene.start(kind, name) for name, kind in kinds.items()]
    for member in members:
        member.wait_ready()
    return members


def by_name(scene: Scene, owners: dict[int, str]) -> dict[int, str]:
    """Partition -> consumer id and thread, without the group's name."""
    return {p: thread.removeprefix(f"{scene.group}_") for p, thread in owners.items()}


def test_owners_equal_the_all_jvm_result(make_scene: Callable[..., Scene]) -> None:
    """For the same ids over ten partitions a mixed group owns what an all-JVM group owns."""
    alone = make_scene()
    members = start_all(alone, dict.fromkeys(KINDS, "jvm"))
    # the value waited for, not a second read: a JVM member releases all at each new notification
    expected = by_name(alone, alone.wait_owned_by(members))
    for member in members:
        member.end()
    mixed = make_scene(topic=alone.topic)
    members = start_all(mixed, KINDS)
    eventually(
        lambda: by_name(mixed, mixed.owners()) == expected, what=f"the mixed group's owners are {expected}"
    )
    mixed.ledger.assert_well()


def test_each_kind_continues_the_offsets_of_the_other(
    make_scene: Callable[..., Scene], producer: Producer
) -> None:
    """JVM after Python after JVM after Python, one at a time: no record missing, none twice."""
    scene = make_scene()
    turns: tuple[Kind, ...] = ("python", "jvm", "python", "jvm")
    for turn, kind in enumerate(turns):
        ends = producer.fill(scene.topic, scene.partitions, 20)
        member = scene.start(kind, f"turn{turn}")
        member.wait_ready()
        scene.ledger.wait_all(ends)
        member.leave()
        assert scene.offsets() == ends
        first = {p: min(o for q, o, _ in member.deliveries() if q == p) for p in range(scene.partitions)}
        assert first == dict.fromkeys(range(scene.partitions), 20 * turn)
    assert scene.ledger.duplicates() == {}


def test_a_forced_reset_stands_only_where_a_member_of_zkgroup_owns(
    make_scene: Callable[..., Scene], producer: Producer, tmp_path: Path
) -> None:
    """A JVM member overwrites it with its next commit; said before, and seen after (recipes 6)."""
    scene = make_scene()
    ends = producer.fill(scene.topic, scene.partitions, 7)
    start_all(scene, {"a": "python", "b": "jvm"})
    scene.ledger.wait_all(ends)
    eventually(lambda: scene.offsets() == dict.fromkeys(range(10), 7), what="everything is committed")
    markers = f"/consumers/{scene.group}/resets"

    def more_records() -> None:
        eventually(lambda: len(scene.tree.get_children(markers)) == 10, what="every offset is reset")
        producer.fill(scene.topic, scene.partitions, 1)

    words = ("offsets", "reset", scene.group, "--to", "3", "--force", "--execute", "--wait")
    with beside(more_records):
        ran = Shell(tmp_path, scene.broker.zookeeper.address).run(*words, "--format", "json")

    assert ran.code == 4, ran
    assert {(one["owner"][-3], one["standing"]) for one in ran.document["standing"]} == {
        ("a", "stands"),
        ("b", "overwritten"),
    }
    assert {(one["kind"], one["obeys"], one["partitions"]) for one in ran.document["members"]} == {
        ("zkgroup", True, 5),
        ("jvm", False, 5),
    }
    eventually(lambda: scene.offsets() == dict.fromkeys(range(10), 8), what="all is committed again")
    assert scene.ledger.duplicates() == {p: dict.fromkeys(range(3, 7), 1) for p in range(5)}


def test_an_offset_of_minus_one_is_none_to_a_jvm_member(
    make_scene: Callable[..., Scene], producer: Producer
) -> None:
    """A claim by zkgroup leaves -1 for "none", and a JVM member resets there (recipes 5)."""
    scene = make_scene(partitions=3)
    ends = producer.fill(scene.topic, 3, 5)
    address = scene.broker.zookeeper.address
    with GroupMember(address, group=scene.group, topics=[scene.topic]) as member:
        member.wait_until_assigned(PATIENCE_S)
        assert len(member.leases()) == 3
    stored = {p: scene.tree.get(f"/consumers/{scene.group}/offsets/{scene.topic}/{p}")[0] for p in range(3)}
    assert stored == dict.fromkeys(range(3), b"-1")
    theirs = scene.start("jvm", "after")
    theirs.wait_ready()
    scene.ledger.wait_all(ends)
    theirs.leave()
    assert scene.offsets() == ends


def test_a_jvm_member_is_the_reason_why_a_freeze_or_a_grace_does_not_hold(
    make_scene: Callable[..., Scene], tmp_path: Path
) -> None:
    """A freeze is refused with its name, and `group verify` names it beside a static member (recipes 24, 26).

    All own by range meanwhile, the strategy that a JVM member has.
    """
    scene = make_scene(partitions=4)
    address = scene.broker.zookeeper.address
    theirs = scene.start("jvm", "b")
    theirs.wait_ready()
    settings = GroupSettings(
        consumer_id="a",
        restart_grace_ms=60_000,
        partition_assignment_strategy="sticky,range",
        capacity=3,
        commit_rate_max=5,
        server_tick_ms=500,
    )
    with GroupMember(address, group=scene.group, topics=[scene.topic], settings=settings):
        ours, jvm = f"{scene.group}_a-0", f"{theirs.id}-0"
        shared = {0: ours, 1: ours, 2: jvm, 3: jvm}
        eventually(lambda: scene.owners() == shared, what=f"owners are {shared}")
        shell = Shell(tmp_path, address)
        frozen = shell.run("group", "freeze", scene.group, "--reason", "deploy", "--for", "1m", "--execute")
        verified = shell.run("group", "verify", scene.group)
        theirs.leave()
        eventually(lambda: scene.owners() == dict.fromkeys(range(4), ours), what="the JVM member's are ours")
        holds = shell.run("group", "verify", scene.group)

    assert (frozen.code, theirs.id in frozen.err) == (2, True), frozen
    assert (verified.code, "restart_grace_void" in verified.out, theirs.id in verified.out) == (3, True, True)
    assert holds.code == 0, holds
    scene.ledger.assert_well()
