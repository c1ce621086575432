"""What the exporter reads once an interval: as much as a fresh read shows, and no more than it needs."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.worlds.acls import UNREADABLE
from tests.worlds.coordinated_groups import CoordinatedGroups, stored_member
from tests.worlds.memory_cluster import MemoryCluster, move
from tests.worlds.memory_groups import MemoryGroups
from zkgroup.admin.freezes import freeze_group, plan_freeze
from zkgroup.errors import SourceUnavailableError, StoreUnavailableError
from zkgroup.exporter.group_cache import GroupCache, GroupReading
from zkgroup.exporter.reading import Reader, ReadingSettings, group_pattern
from zkgroup.groups import reads
from zkgroup.groups.descriptions import GroupState, ProblemKind
from zkgroup.groups.lag_verdict import LagVerdict, LagWindows
from zkgroup.groups.membership import LiveGroup, LiveMember
from zkgroup.model import StaticSubscription, TopicPartition, Whitelist
from zkgroup.model.requests import Delete, ListMany, ReadMany
from zkgroup.znodes.brokers import NO_LEADER, Topic
from zkgroup.znodes.consumers import FEATURES, FEATURES_KEY, Offset, Owner, Registration, group_path

REST = (GroupState.EMPTY, GroupState.STABLE)
"""States that a read of a fresh process shows too; the others depend on what was read before."""


def reader(world: MemoryGroups, log_ends: Any = None, **settings: Any) -> Reader:
    return Reader(world.ensemble, ReadingSettings(**settings), LagWindows(), log_ends=log_ends)


def told(group: GroupReading) -> tuple[Any, ...]:
    """Everything about a group that no earlier read decides, and no topic of other groups."""
    marks = group.snapshot.marks
    topics = {name: entry for name, entry in group.snapshot.topics.items() if Topic.path(name) in marks}
    plain: dict[str, Any] = {"as_of": None, "topics": topics, "topic_names": frozenset()}
    snapshot = repr(replace(group.snapshot, **plain))  # errors in it are compared by their texts
    return snapshot, group.problems, group.unowned, group.members, group.state in REST and group.state


def test_a_kept_group_is_shown_as_a_fresh_read_shows_it(world: MemoryGroups) -> None:
    """After each of many random changes: members come and go, claim, release, commit and subscribe to others,
    topics are made and grow, offsets go or become unreadable, clients of a coordinator join and leave."""
    clients = CoordinatedGroups(world)
    clients.lead(1)
    for number in range(3):
        world.topic(f"t{number}", 2)
    kept, draw = reader(world), random.Random(7)
    members: dict[str, str] = {}

    def join() -> None:
        name, group = f"m{len(world.server.clients)}", draw.choice(("a", "b"))
        wanted: Any = Whitelist("t.*") if draw.random() < 0.6 else {draw.choice(("t0", "t1", "t9")): 1}
        world.member(group, name, wanted)
        members[name] = group

    def leave() -> None:
        if members:
            name = draw.choice(sorted(members))
            world.leave(members.pop(name), name)

    def claim() -> None:
        for group in {members[name] for name in members}:
            for tp in list(found(group).owners):
                world.write(Delete(Owner.path(group, tp), -1))
            world.own_as_planned(group)

    def release() -> None:
        for group in ("a", "b"):
            for tp in list(found(group).owners)[:1]:
                world.write(Delete(Owner.path(group, tp), -1))

    def commit() -> None:
        data = draw.choice((draw.randrange(100), b"-1", b"no number", b"+7"))
        world.commit(draw.choice("abc"), draw.choice(("t0", "t1")), draw.randrange(3), data)

    def uncommit() -> None:
        for tp in list(found("a").offsets)[:1]:
            world.write(Delete(Offset.path("a", tp), -1))

    def grow() -> None:
        name, size = f"t{draw.randrange(40)}", draw.randrange(1, 4)
        world.server.put(Topic.path(name), Topic(dict.fromkeys(range(size), (0,))).encode())

    def subscribe() -> None:
        if members:
            name = draw.choice(sorted(members))
            path = Registration.path(members[name], f"{members[name]}_{name}")
            wanted = StaticSubscription({draw.choice(("t0", "t1")): 1})
            world.server.put(path, Registration.of(wanted, 0).encode())

    def serve() -> None:
        some = [stored_member(f"c{n}", TopicPartition("t0", n)) for n in range(draw.randrange(3))]
        clients.store("c", *some, generation=draw.randrange(1, 99))

    def found(group: str) -> Any:
        snapshot = reads.read_permitted_snapshots(world.ensemble, [group])[0][group]
        return snapshot or type("Nothing", (), {"owners": {}, "offsets": {}})

    for step in range(200):
        happening = draw.choice(
            (join, leave, claim, release, subscribe, commit, commit, uncommit, grow, serve)
        )
        happening()
        world.clock.advance(draw.choice((0, 11_000)))
        ours, fresh = kept.read(), reader(world).read()
        assert {name: told(one) for name, one in ours.groups.items()} == {
            name: told(one) for name, one in fresh.groups.items()
        }, (step, happening)
        assert replace(ours, groups={}, as_of=None) == replace(fresh, groups={}, as_of=None)


def test_of_a_group_at_rest_only_marks_and_offsets_are_read(world: MemoryGroups) -> None:
    """A second read names no owner; a commit shows, and a new member makes one group be read anew."""
    world.topic("orders", 2)
    for group in ("still", "moving"):
        world.member(group, "m", {"orders": 1})
        world.own_as_planned(group)
    world.clock.advance(60_000)
    kept = reader(world)
    kept.read()
    asked: list[str] = []
    world.ensemble = watched(world, asked)
    kept._ensemble = world.ensemble

    world.commit("still", "orders", 0, 5)
    reading = kept.read()

    assert [row.offset for row in reading.partitions["still"]] == [5]
    assert not [path for path in asked if "/owners/orders/" in path]
    asked.clear()
    world.member("moving", "n", {"orders": 1})
    assert kept.read().groups["moving"].members == 2
    assert {path.split("/")[2] for path in asked if "/owners/orders/" in path} == {"moving"}


def watched(world: MemoryGroups, asked: list[str]) -> Any:
    """The operator's ensemble; paths of bulk reads are noted."""
    client = world.server.client("watched")
    submit = client.submit

    def noted(request: Any, **how: Any) -> None:
        if isinstance(request, ReadMany | ListMany):
            asked.extend(request.paths)
        submit(request, **how)

    client.submit = noted  # type: ignore[method-assign]
    return world.operator(client)


def test_a_group_is_judged_again_when_its_coordinator_says_something_else(world: MemoryGroups) -> None:
    """Not for its timers; offsets are those of now all the same."""
    clients = CoordinatedGroups(world)
    clients.broker(1)
    clients.lead(1)
    world.topic("orders", 1)
    clients.store("g", ada := stored_member("ada", TopicPartition("orders", 0)), generation=7)
    world.commit("g", "orders", 0, 5)
    one = LiveMember(
        member_id="ada",
        instance_id=None,
        client_id="c",
        host="h",
        metadata=ada.protocols[0][1],
        assignment=ada.assignment,
    )
    answer = LiveGroup(
        state="Stable", protocol_type="consumer", protocol="range", generation=7, members=(one,)
    )
    kept = GroupCache()

    def read() -> GroupReading:
        return kept.read(world.ensemble, ["g"], lambda groups: dict.fromkeys(groups, answer))[0]["g"]

    first = read()
    assert (first.state, first.problems, first.members) == (GroupState.STABLE, (), 1)
    answer = replace(answer, members=(replace(one, session_expires_in_ms=900),))
    world.commit("g", "orders", 0, 6)
    second = read()
    assert second.problems is first.problems
    assert [row.offset for row in second.description(0, {}).partitions] == [6]
    answer = replace(answer, generation=8)
    kinds = [problem.kind for problem in read().problems]
    assert kinds == [ProblemKind.STORED_GROUP_DIFFERS]
    answer = replace(answer, generation=7)
    assert read().problems == ()


def test_a_group_that_stays_wrong_is_inconsistent_at_the_next_read(world: MemoryGroups) -> None:
    """The read before takes the place of the 2 s that `group list` waits."""
    world.topic("orders", 2)
    world.member("g", "m", {"orders": 1})
    kept = reader(world)
    states = []
    for _ in range(3):
        states.append(kept.read().groups["g"].state)
        world.clock.advance(15_000)

    assert states == [GroupState.REBALANCING, GroupState.INCONSISTENT, GroupState.INCONSISTENT]
    problems = kept.read().groups["g"].problems
    assert [problem.kind for problem in problems] == [ProblemKind.UNOWNED] * 2


def test_a_freeze_ends_with_its_time_though_nothing_is_written(world: MemoryGroups) -> None:
    """Past bug: a group whose members had left stayed frozen, as its marker stays."""
    world.topic("orders", 1)
    extensions = {"zkgroup": "1", FEATURES_KEY: " ".join(FEATURES)}
    world.member("g", "m", {"orders": 1}, extensions)
    world.own_as_planned("g")
    freeze_group(world.ensemble, plan_freeze(world.ensemble, "g", reason="r", for_ms=60_000), "me")
    world.leave("g", "m")
    kept = reader(world)
    states = [kept.read().groups["g"].state]
    world.clock.advance(60_000)

    assert [*states, kept.read().groups["g"].state] == [GroupState.FROZEN, GroupState.EMPTY]


def test_patterns_choose_groups_by_their_whole_names(world: MemoryGroups) -> None:
    """What is excluded is not read."""
    for group in ("billing", "billing-2", "console-consumer-7"):
        world.commit(group, "orders", 0, 1)
    include, exclude = group_pattern("billing.*|console.*"), group_pattern("console-consumer-.*")

    assert set(reader(world, include=include, exclude=exclude).read().groups) == {"billing", "billing-2"}
    assert set(reader(world, include=group_pattern("billing")).read().groups) == {"billing"}


def test_what_is_hidden_costs_only_itself(world: MemoryGroups) -> None:
    """A group that an ACL hides is absent, with the reason; its neighbour is there at every read."""
    for group in ("open", "closed"):
        world.commit(group, "orders", 0, 1)
    world.server.set_acl(group_path("closed"), UNREADABLE)
    kept = reader(world)
    for _ in range(2):
        reading = kept.read()
        assert set(reading.groups) == {"open"}
        (reason,) = reading.unknown
        assert reason.startswith("/consumers/closed: expected the permission ")


def test_a_log_end_that_is_not_known_is_absent(world: MemoryGroups) -> None:
    """One leader that does not answer costs the lag of its partitions, a source that fails all lags."""
    world.commit("g", "orders", 0, 5)
    world.commit("g", "orders", 1, 9)
    known: Mapping[TopicPartition, int | str] = {
        TopicPartition("orders", 0): "h:9092: no answer in time",
        TopicPartition("orders", 1): 7,
    }

    reading = reader(world, lambda partitions: known).read()
    assert [row.lag for row in reading.partitions["g"]] == [None, 0]
    assert reading.unknown == ("log ends of 1 partition, orders-0: h:9092: no answer in time",)

    def fail(partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int | str]:
        raise SourceUnavailableError("none answers")

    failed = reader(world, fail).read()
    assert [row.lag for row in failed.partitions["g"]] == [None, None]
    assert (failed.unknown, len(failed.groups)) == (("none answers",), 1)


def test_a_verdict_follows_the_reads(world: MemoryGroups) -> None:
    """A consumer that stops while records come is STOP once its window is complete; its neighbour stays OK. A
    partition without a known log end has no verdict."""
    ends = {TopicPartition("orders", number): 100 for number in range(2)}
    for number in range(3):
        world.commit("g", "orders", number, 100)
    kept = reader(world, lambda partitions: ends)
    for _ in range(12):
        verdicts = [row.verdict for row in kept.read().partitions["g"]]
        world.clock.advance(15_000)
        ends = {tp: end + 10 for tp, end in ends.items()}
        world.commit("g", "orders", 1, ends[TopicPartition("orders", 1)])

    assert verdicts == [LagVerdict.STOP, LagVerdict.OK, None]


def test_a_cluster_is_counted_as_status_counts_it(world: MemoryGroups) -> None:
    """Offline, under-replicated and moving partitions, brokers and controller; kept topics follow changes."""
    cluster = MemoryCluster(world)
    cluster.topic("orders", (1, 2), (2, 3), (3, 1))
    cluster.topic("still", (1, 2))
    kept = reader(world)

    def seen() -> tuple[Any, ...]:
        found = kept.read().cluster
        assert found is not None
        fresh = reader(world).read().cluster
        assert found == fresh
        counts = found.offline, found.under_replicated, len(found.moving)
        return (*counts, found.brokers.data, found.controller, len(found.leaders))

    assert seen() == (0, 0, 0, (1, 2, 3), 1, 4)
    cluster.state("orders", 0, NO_LEADER, ())
    cluster.state("orders", 1, 2, (2,))
    assert seen() == (1, 1, 0, (1, 2, 3), 1, 4)
    cluster.request(move("still", 0, 3, 1))
    cluster.no_controller()
    world.write(Delete("/brokers/ids/3", -1))
    assert seen() == (2, 1, 1, (1, 2), None, 4)
    world.server.put("/admin/delete_topics/orders")
    assert seen() == (0, 0, 1, (1, 2), None, 1)


def test_slots_are_counted_where_a_coordinator_has_started(world: MemoryGroups) -> None:
    """Without one they are unknown; one whose leader is gone is without a leader."""
    assert reader(world).read().coordinator is None
    clients = CoordinatedGroups(world)
    clients.lead(1)
    found = reader(world).read().coordinator
    assert found is not None
    assert (found.slots > 0, found.slots_without_leader) == (True, tuple(range(found.slots)))


def test_a_read_without_zookeeper_fails_as_a_whole(
    world: MemoryGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not wait once more for each part."""
    asked: list[str] = []

    def away(*paths: Any) -> Any:
        asked.append("list")
        raise StoreUnavailableError("ZooKeeper could not be reached in 10 s")

    monkeypatch.setattr(type(world.ensemble.zk), "list_many", away)
    with pytest.raises(StoreUnavailableError):
        reader(world).read()
    assert asked == ["list"]
