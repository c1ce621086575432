"""The state of a group: empty, stable, rebalancing or inconsistent, and its description."""

from __future__ import annotations

import pytest

from tests.worlds.acls import UNREADABLE
from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.stores import MeddledStore, before_nth
from zkgroup import Admin
from zkgroup.admin.status import diagnose, read_status
from zkgroup.errors import ConfigError, NotFoundError
from zkgroup.groups.descriptions import GroupState
from zkgroup.groups.reader import TRIES, read_snapshot
from zkgroup.groups.reads import describe, list_groups, verify
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Delete, ReadMany, Request
from zkgroup.znodes.consumers import Owner

OLD_MS = 11_000


def _group(world: MemoryGroups) -> None:
    world.topic("orders", 4)
    world.member("g", "a", {"orders": 1})
    world.own_as_planned("g")


def _unown(world: MemoryGroups, partition: int = 0) -> None:
    world.write(Delete(Owner.path("g", TopicPartition("orders", partition)), 1))


def test_a_group_without_members_is_empty(world: MemoryGroups) -> None:
    """Without registrations it is empty, with the topics and partitions that have offsets."""
    world.topic("orders", 4)
    world.commit("g", "orders", 0, 7)

    _, (row,), _ = list_groups(world.ensemble)

    assert (row.state, row.members, row.topics, row.partitions, row.unowned) == (
        GroupState.EMPTY,
        0,
        ("orders",),
        1,
        0,
    )


def test_a_wrong_group_that_changed_lately_is_rebalancing(world: MemoryGroups) -> None:
    """A registration or owner younger than 10 s: the group is rebalancing, and no second read is needed."""
    _group(world)
    _unown(world)
    before = world.clock.now_ms()

    state = describe(world.ensemble, "g").state

    assert (state, world.clock.now_ms() - before) == (GroupState.REBALANCING, 0)


def test_a_wrong_group_that_stands_still_is_inconsistent(world: MemoryGroups) -> None:
    """Old and unchanged 2 s later: no member is changing it."""
    _group(world)
    _unown(world)
    world.clock.advance(OLD_MS)

    assert describe(world.ensemble, "g").state is GroupState.INCONSISTENT


def test_a_group_that_changes_between_two_reads_is_rebalancing(world: MemoryGroups) -> None:
    """A deletion leaves no time; the second read 2 s later shows it."""
    _group(world)
    _unown(world)
    world.clock.advance(OLD_MS)

    def meanwhile(seconds: float) -> None:
        world.clock.advance(int(seconds * 1000))
        _unown(world, 1)

    operator = world.operator(world.server.client(), pause=meanwhile)

    assert describe(operator, "g").state is GroupState.REBALANCING


def test_a_mark_that_no_member_reads_says_nothing(world: MemoryGroups) -> None:
    """Past bug: a group with `/consumers/g/frozen` was shown as frozen, and its members moved on."""
    _group(world)
    world.server.put("/consumers/g/frozen", b'{"version":1,"time":"0","by":"somebody","reason":""}')

    assert describe(world.ensemble, "g").state is GroupState.STABLE


def test_one_pause_serves_all_groups_that_are_read_twice(world: MemoryGroups) -> None:
    """Listing many wrong groups waits 2 s once."""
    world.topic("orders", 1)
    for name in ("g", "h", "i"):
        world.member(name, "a", {"orders": 1})
    world.clock.advance(OLD_MS)
    before = world.clock.now_ms()

    _, rows, denied = list_groups(world.ensemble)

    assert denied == {}
    assert [row.state for row in rows] == [GroupState.INCONSISTENT] * 3
    assert [row.unowned for row in rows] == [1, 1, 1]
    assert world.clock.now_ms() - before == 2000


def test_groups_that_an_acl_hides_are_named_and_the_others_listed(world: MemoryGroups) -> None:
    """Past bug: one hidden group made the whole list fail. Every level of a group can be hidden."""
    world.topic("orders", 1)
    for name in ("a", "b", "c", "d"):
        world.server.put(f"/consumers/{name}/ids")
        world.commit(name, "orders", 0, 7)
    world.server.set_acl("/consumers/b", UNREADABLE)
    world.server.set_acl("/consumers/d/offsets/orders", UNREADABLE)

    _, rows, denied = list_groups(world.ensemble)
    listing = Admin(client=world.server.client("admin")).list_groups()
    status = read_status(world.ensemble)

    assert [row.group for row in rows] == ["a", "c"]
    assert sorted(denied) == ["b", "d"]
    assert str(denied["b"]).startswith("/consumers/b: expected the permission")
    assert [row.group for row in listing] == ["a", "c"]
    assert [text.partition(":")[0] for text in listing.unreadable] == [
        "/consumers/b",
        "/consumers/d/offsets/orders",
    ]
    assert sorted(status.unreadable) == ["/consumers/b", "/consumers/d"]
    findings = {(one.severity, one.subject) for one in diagnose(status, wanted_timeout_ms=1)}
    assert ("warning", "/consumers/b") in findings


def test_a_group_that_does_not_exist_is_not_found(world: MemoryGroups) -> None:
    """A missing group is an error that names its path; a name that cannot be one is refused before."""
    with pytest.raises(NotFoundError, match="/consumers/nobody"):
        describe(world.ensemble, "nobody")
    with pytest.raises(ConfigError):
        describe(world.ensemble, "no/body")


def test_verify_waits_for_convergence(world: MemoryGroups) -> None:
    """With a wait, the check goes on until the group has converged."""
    _group(world)
    _unown(world)
    looks = []

    def meanwhile(seconds: float) -> None:
        world.clock.advance(int(seconds * 1000))
        looks.append(seconds)
        if len(looks) == 3:
            world.own("g", "orders", 0, "g_a-0")

    operator = world.operator(world.server.client(), pause=meanwhile)

    assert verify(operator, "g", wait_s=60).converged
    assert len(looks) == 3


def test_verify_gives_up_in_time_with_what_is_wrong(world: MemoryGroups) -> None:
    """A wait that runs out ends with the last problems."""
    _group(world)
    _unown(world)
    before = world.clock.now_ms()

    found = verify(world.ensemble, "g", wait_s=5)

    assert (found.converged, len(found.problems)) == (False, 1)
    assert 5000 <= world.clock.now_ms() - before <= 5250


def test_a_snapshot_is_read_again_until_nothing_changes(world: MemoryGroups) -> None:
    """A member that joins between the lists and the leaves is in the snapshot (seqlock on `pzxid`)."""
    _group(world)
    client = world.server.client()
    store = MeddledStore(client, before_nth(ReadMany, 3, lambda: world.member("g", "b", {"orders": 1})))

    snapshot = read_snapshot(world.operator(store), "g")

    assert snapshot.stood_still
    assert sorted(snapshot.registrations) == ["g_a", "g_b"]


def test_a_group_that_never_stands_still_is_read_all_the_same(world: MemoryGroups) -> None:
    """After some tries the last snapshot is used, marked, and never called inconsistent."""
    _group(world)
    client = world.server.client()
    reads = 0

    def change(request: Request) -> None:
        nonlocal reads
        if isinstance(request, ReadMany):
            reads += 1
            world.leave("g", "b") if "g_b" in world.server.clients and reads > 1 else None
            world.server.clients.pop("g_b", None)
            world.member("g", "b", {"orders": 1})

    snapshot = read_snapshot(world.operator(MeddledStore(client, change)), "g")

    assert not snapshot.stood_still
    assert reads >= TRIES


def test_the_snapshot_has_its_zxid(world: MemoryGroups) -> None:
    """`as_of` is the session's last zxid: nothing in the snapshot is newer."""
    _group(world)

    snapshot = read_snapshot(world.ensemble, "g")

    newest = max(entry.stat.mzxid for entry in snapshot.owners.values())
    assert snapshot.as_of.zxid >= newest
    assert snapshot.generation == snapshot.ids.pzxid if snapshot.ids else None
