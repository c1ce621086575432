"""The problems of a group, each kind by name; and groups without problems."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.worlds.memory_groups import OURS, MemoryGroups
from tests.worlds.stores import RecordedStore
from zkgroup.assignment import assign
from zkgroup.assignment.strategies import inputs_digest, result_digest
from zkgroup.errors import NotFoundError
from zkgroup.groups.descriptions import GroupState, Problem, ProblemKind
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.preview import GroupChange
from zkgroup.groups.reader import read_snapshot
from zkgroup.groups.reads import describe, preview, verify
from zkgroup.groups.verify import expected_ownership, find_problems
from zkgroup.model import StaticSubscription, TopicPartition, Whitelist
from zkgroup.model.requests import Create, Delete
from zkgroup.znodes.consumers import Owner, Registration, ids_path
from zkgroup.znodes.group_records import StoredAssignment, View

POISON = [
    b"",
    b"not json",
    b"[]",
    b"{}",
    b'{"version":1,"pattern":"static"}',
    b'{"subscription":{"orders":1}}',
    b"orders",
]


def _problems(world: MemoryGroups, group: str = "g") -> tuple[Problem, ...]:
    snapshot = read_snapshot(world.ensemble, group)
    return find_problems(snapshot, expected_ownership(snapshot))


def _two_members(world: MemoryGroups) -> None:
    world.topic("orders", 4)
    world.member("g", "a", {"orders": 1})
    world.member("g", "b", {"orders": 1})
    world.own_as_planned("g")


def test_a_group_whose_partitions_are_where_they_belong_has_no_problem(world: MemoryGroups) -> None:
    """A converged group is reported as converged, without a use of the clock."""
    _two_members(world)

    found = verify(world.ensemble, "g")

    assert (found.converged, found.problems) == (True, ())


def test_a_partition_without_owner_is_unowned(world: MemoryGroups) -> None:
    """An unowned partition is named with the thread that should have it."""
    _two_members(world)
    world.write(Delete(Owner.path("g", TopicPartition("orders", 3)), 1))

    (problem,) = _problems(world)

    assert (problem.kind, problem.topic, problem.partition) == (ProblemKind.UNOWNED, "orders", 3)
    assert (problem.expected, problem.found, problem.since_ms) == ("g_b-0", None, None)
    assert "/consumers/g/owners/orders/3" in problem.detail


def test_an_owner_that_is_no_member_is_named_with_its_session(world: MemoryGroups) -> None:
    """An owner whose member is not registered is no owner."""
    _two_members(world)
    world.write(Delete(Owner.path("g", TopicPartition("orders", 0)), 1))
    stranger = world.server.client("stranger").session
    assert stranger is not None
    world.own("g", "orders", 0, "g_gone-0", session=stranger.session_id)

    (problem,) = _problems(world)

    assert (problem.kind, problem.expected, problem.found) == (
        ProblemKind.OWNER_NOT_MEMBER,
        "g_a-0",
        "g_gone-0",
    )
    assert f"0x{stranger.session_id:x}" in problem.detail


def test_an_owner_of_a_former_session_is_a_leftover(world: MemoryGroups) -> None:
    """An equal text in another session than the registration's is not the member's claim."""
    _two_members(world)
    world.write(Delete(Owner.path("g", TopicPartition("orders", 0)), 1))
    former = world.server.client("former").session
    assert former is not None
    world.own("g", "orders", 0, "g_a-0", session=former.session_id)

    (problem,) = _problems(world)

    assert (problem.kind, problem.found) == (ProblemKind.OWNER_NOT_MEMBER, "g_a-0")
    assert "leftover" in problem.detail


def test_an_owner_other_than_the_plan_names_is_wrong(world: MemoryGroups) -> None:
    """An owner that the plan does not name is wrong, with both names and since when."""
    _two_members(world)
    world.write(Delete(Owner.path("g", TopicPartition("orders", 0)), 1))
    world.own("g", "orders", 0, "g_b-0")

    (problem,) = _problems(world)

    assert (problem.kind, problem.expected, problem.found) == (ProblemKind.WRONG_OWNER, "g_a-0", "g_b-0")
    assert problem.since_ms == world.clock.wall_ms()


def test_owners_of_unsubscribed_topics_are_reported(world: MemoryGroups) -> None:
    """Owners of a missing partition and of a topic without subscribers are reported apart."""
    _two_members(world)
    world.topic("clicks", 1)
    world.own("g", "orders", 9, "g_a-0")
    world.own("g", "gone", 0, "g_a-0")
    world.own("g", "clicks", 0, "g_a-0")

    problems = _problems(world)
    found = [(problem.kind, problem.topic, problem.partition) for problem in problems]

    assert problems[0].detail.endswith("owned by g_a-0, but there is no such topic")
    assert problems[1].detail.endswith("owned by g_a-0, but there is no partition 9 of orders")
    assert found == [
        (ProblemKind.OWNER_OF_UNKNOWN_PARTITION, "gone", 0),
        (ProblemKind.OWNER_OF_UNKNOWN_PARTITION, "orders", 9),
        (ProblemKind.OWNER_OF_UNSUBSCRIBED_TOPIC, "clicks", 0),
    ]


@pytest.mark.parametrize("data", POISON)
def test_a_corrupt_registration_is_reported_and_ignored(world: MemoryGroups, data: bytes) -> None:
    """The registration that stops every JVM member is named, and the rest is checked without it."""
    _two_members(world)
    world.raw_member("g", "corrupt", data)

    (problem,) = _problems(world)

    assert problem.kind is ProblemKind.UNREADABLE_REGISTRATION
    assert "/consumers/g/ids/g_corrupt" in problem.detail


@pytest.mark.parametrize("data", [b"", b" 1", b"1\n", b"x", b"99999999999999999999"])
def test_a_corrupt_offset_is_reported_and_not_read_as_none(world: MemoryGroups, data: bytes) -> None:
    """An unreadable offset is an error with its path, not a silent reset."""
    _two_members(world)
    world.commit("g", "orders", 1, data)

    (problem,) = _problems(world)

    assert (problem.kind, problem.topic, problem.partition) == (ProblemKind.UNREADABLE_OFFSET, "orders", 1)
    assert "/consumers/g/offsets/orders/1" in problem.detail


def test_an_unreadable_topic_is_reported(world: MemoryGroups) -> None:
    """A topic that cannot be read is named; its owners are not blamed for it."""
    _two_members(world)
    world.server.put("/brokers/topics/orders", b"{")

    (problem,) = _problems(world)

    assert (problem.kind, problem.topic) == (ProblemKind.UNREADABLE_TOPIC, "orders")


def test_names_below_owners_that_are_no_partitions_are_reported(world: MemoryGroups) -> None:
    """A foreign child below `owners` or `offsets` is reported and disturbs nothing."""
    _two_members(world)
    world.server.put("/consumers/g/owners/orders/01", b"x")
    world.server.put("/consumers/g/offsets/orders/one", b"1")

    kinds = [problem.kind for problem in _problems(world)]

    assert kinds == [ProblemKind.OWNER_OF_UNKNOWN_PARTITION, ProblemKind.UNREADABLE_OFFSET]


def test_members_that_publish_different_strategies_are_reported(world: MemoryGroups) -> None:
    """Members of different strategies never agree, which is said whatever the owners are."""
    _two_members(world)
    world.member("g", "c", {"clicks": 1}, {**OURS, "strategy": "roundrobin"})

    (problem,) = _problems(world)

    assert problem.kind is ProblemKind.ASSIGNORS_DIFFER
    assert problem.found == "range (2), roundrobin (1)"


def test_a_member_that_published_another_result_disagrees(world: MemoryGroups) -> None:
    """`views` names who computed something else from the same membership (recipes 11)."""
    _two_members(world)
    generation = read_snapshot(world.ensemble, "g").generation
    assert generation is not None
    world.publish("g", "a", View(generation, "0" * 16, "f" * 16))

    (problem,) = _problems(world)
    members = describe(world.ensemble, "g").members

    assert (problem.kind, problem.found) == (ProblemKind.MEMBER_DISAGREES, "f" * 16)
    assert [member.agrees for member in members] == [False, None]


def test_a_result_published_for_an_older_membership_says_nothing_yet(world: MemoryGroups) -> None:
    """Members publish lazily: another result counts only for the present generation, an equal one always."""
    _two_members(world)
    expected = expected_ownership(read_snapshot(world.ensemble, "g")).owners
    assert expected is not None
    world.publish("g", "a", View(1, "0" * 16, "f" * 16))
    world.publish("g", "b", View(1, "0" * 16, result_digest(expected)))

    agrees = [member.agrees for member in describe(world.ensemble, "g").members]

    assert agrees == [None, True]


def test_a_wildcard_that_python_cannot_evaluate_leaves_no_expectation(world: MemoryGroups) -> None:
    """A peer's expression that cannot be evaluated faithfully is reported and nothing is guessed."""
    world.topic("orders", 1)
    world.member("g", "a", Whitelist(r"\p{javaLowerCase}+"), {})
    world.member("g", "b", {"orders": 1})
    world.own("g", "orders", 0, "g_b-0")

    found = describe(world.ensemble, "g")

    assert [problem.kind for problem in found.problems] == [ProblemKind.UNSUPPORTED_SUBSCRIPTION]
    assert [row.expected_owner for row in found.partitions] == [None]
    assert found.state is not GroupState.STABLE


def test_internal_topics_are_left_out_of_wildcards_unless_a_member_says_otherwise(
    world: MemoryGroups,
) -> None:
    """The published flag decides; without one it is Kafka's default."""
    world.topic("__consumer_offsets", 2)
    world.topic("orders", 1)
    world.member("g", "a", Whitelist(".*"), {})
    world.member("h", "a", Whitelist(".*"), {**OURS, "exclude_internal": "false"})

    topics = [sorted(expected_ownership(read_snapshot(world.ensemble, name)).topics) for name in ("g", "h")]

    assert topics == [["orders"], ["__consumer_offsets", "orders"]]


@pytest.mark.parametrize(
    ("file", "group", "members"),
    [
        ("22-group-three-members", "g3", 3),
        ("23-group-with-offsets", "g4", 3),
        ("25-group-member-killed-after-expiry", "g4", 2),
    ],
)
def test_real_groups_of_kafka_are_judged_stable(
    world: MemoryGroups, file: str, group: str, members: int
) -> None:
    """Recorded groups of 0.8.2.2 members are converged, by their own range assignment."""
    operator = world.operator(RecordedStore(f"kafka-0.8.2.2/{file}.jsonl"))

    found = describe(operator, group)

    assert (found.state, found.problems) == (GroupState.STABLE, ())
    assert (len(found.members), {member.kind for member in found.members}) == (members, {"jvm"})
    assert found.assignor == "range"


def test_a_real_group_with_a_member_just_killed_is_still_owned(world: MemoryGroups) -> None:
    """A killed JVM member owns until its session ends: nothing in ZooKeeper says otherwise yet."""
    operator = world.operator(RecordedStore("kafka-0.8.2.2/24-group-member-killed-before-expiry.jsonl"))

    assert describe(operator, "g4").state is GroupState.STABLE


def test_round_robin_of_jvm_members_is_inferred_from_what_they_own(world: MemoryGroups) -> None:
    """JVM members publish no strategy: owners that only round-robin explains mean round-robin."""
    world.topic("orders", 4)
    world.topic("page-views", 4)
    for name in ("a", "b"):
        world.member("g", name, {"orders": 1, "page-views": 1}, {})
    snapshot = read_snapshot(world.ensemble, "g")
    by_range = expected_ownership(snapshot)
    partitions = {topic: snapshot.partitions(topic) for topic in by_range.topics}
    planned = assign("roundrobin", by_range.members, partitions).owners
    assert planned != by_range.owners
    for tp, thread in planned.items():
        world.own("g", tp.topic, tp.partition, thread)

    found = describe(world.ensemble, "g")

    assert (found.assignor, found.state) == ("roundrobin", GroupState.STABLE)


def test_a_group_between_two_steps_of_a_rebalance_is_rebalancing(world: MemoryGroups) -> None:
    """Owned as the step says, with more moves to come (recipes 4)."""
    world.topic("orders", 2)
    session = world.member("g", "a", {"orders": 1}, {**OURS, "strategy": "sticky"})
    snapshot = read_snapshot(world.ensemble, "g")
    members = expected_ownership(snapshot).members
    owners = {TopicPartition("orders", n): "g_a-0" for n in range(2)}
    inputs = inputs_digest("sticky", members, {"orders": (0, 1)})
    for tp in owners:
        world.own("g", tp.topic, tp.partition, "g_a-0", session)
    world.pass_time(60)
    path = StoredAssignment.path("g")
    states = []
    for moving in ({TopicPartition("orders", 1): "g_b-0"}, {}):
        assert snapshot.generation is not None
        world.server.put(path, StoredAssignment(snapshot.generation, inputs, owners, moving).encode())
        states.append(describe(world.ensemble, "g").state)

    assert states == [GroupState.REBALANCING, GroupState.STABLE]


def test_members_that_differ_are_named_without_their_strategy_installed_here(world: MemoryGroups) -> None:
    """Nothing can be expected then, but most published results name the one that differs (recipes 11)."""
    world.topic("orders", 2)
    for name in "abc":
        world.member("g", name, {"orders": 1}, {**OURS, "strategy": "own", "features": "strategies"})
    generation = read_snapshot(world.ensemble, "g").generation
    assert generation is not None
    for name, result in zip("abc", ("1", "2", "1"), strict=True):
        world.publish("g", name, View(generation, "0", result))

    found = describe(world.ensemble, "g")

    kinds = [(problem.kind, problem.found) for problem in found.problems]
    assert (ProblemKind.UNKNOWN_ASSIGNOR, "own") in kinds
    assert [f for k, f in kinds if k is ProblemKind.MEMBER_DISAGREES] == ["2"]
    assert found.assignor == "own"


def test_sticky_counts_only_where_every_member_publishes_it(world: MemoryGroups) -> None:
    """One registration without sticky and every zkgroup member uses range (recipes 4)."""
    world.topic("orders", 2)
    world.member("g", "a", {"orders": 1}, {**OURS, "strategy": "sticky"})
    alone = expected_ownership(read_snapshot(world.ensemble, "g")).assignor
    world.member("g", "jvm", {"orders": 1}, {})

    mixed = expected_ownership(read_snapshot(world.ensemble, "g")).assignor

    assert (alone, mixed) == ("sticky", "range")


def test_a_sticky_group_is_judged_by_the_plan_it_has_published(world: MemoryGroups) -> None:
    """The plan for the present membership names the owners, whatever would be computed anew (recipes 4)."""
    world.topic("orders", 2)
    for name in ("a", "b"):
        world.member("g", name, {"orders": 1}, {**OURS, "strategy": "sticky"})
    members = expected_ownership(read_snapshot(world.ensemble, "g")).members
    inputs = inputs_digest("sticky", members, {"orders": (0, 1)})
    owners = {TopicPartition("orders", 0): "g_b-0", TopicPartition("orders", 1): "g_a-0"}
    world.server.put(StoredAssignment.path("g"), StoredAssignment(1, inputs, owners).encode())
    for tp, thread in owners.items():
        world.own("g", tp.topic, tp.partition, thread)

    found = describe(world.ensemble, "g")

    assert (found.assignor, found.state, found.problems) == ("sticky", GroupState.STABLE, ())


def test_what_no_session_holds_is_a_problem_by_its_path(world: MemoryGroups) -> None:
    """Registrations, owners and views of a restored backup; the group is not stable with them."""
    world.topic("orders", 2)
    registration = Registration.of(StaticSubscription({"orders": 1}), 1).encode()
    world.server.put(Registration.path("g", "g_a"), registration)
    world.server.put(View.path("g", "g_a"), View(1, "i", "r").encode())
    for number in range(2):
        world.server.put(Owner.path("g", TopicPartition("orders", number)), b"g_a-0")
    world.pass_time(60)

    found = describe(world.ensemble, "g")
    persistent = [one for one in found.problems if one.kind is ProblemKind.PERSISTENT_ZNODE]

    assert found.state is GroupState.INCONSISTENT
    assert [(one.detail.partition(": ")[0], one.partition) for one in persistent] == [
        ("/consumers/g/ids/g_a", None),
        ("/consumers/g/views/g_a", None),
        ("/consumers/g/owners/orders/0", 0),
        ("/consumers/g/owners/orders/1", 1),
    ]
    assert all("`zkgroup doctor --fix`" in one.detail for one in persistent)
    assert [row.problem for row in found.partitions] == [ProblemKind.PERSISTENT_ZNODE] * 2


GO_IDS = ["host:7b0cfb39-0001", "host-7", "host:000-5"]
"""Ids of consumers of kazoo-go; the last two look like thread ids."""


def _go_group(world: MemoryGroups) -> None:
    """Consumers that write their id alone into owners, and assign partitions by rules of their own."""
    world.topic("orders", len(GO_IDS))
    text = '{"pattern":"static","subscription":{"orders":1},"timestamp":1500000000,"version":1}'
    for number, name in enumerate(reversed(GO_IDS)):
        world.parent(ids_path("web"))
        session = world.server.client(name).session
        assert session is not None
        created = Create(Registration.path("web", name), text.encode(), ephemeral=True)
        world.write(created, session_id=session.session_id)
        world.own("web", "orders", number, name, session=session.session_id)


def test_a_group_whose_owners_are_consumer_ids_is_well(world: MemoryGroups) -> None:
    """kazoo-go writes the id of the registration, without a thread; it assigns by its own rules."""
    _go_group(world)

    found = describe(world.ensemble, "web")

    assert (found.state, found.problems) == (GroupState.STABLE, ())
    assert [row.member for row in found.partitions] == list(reversed(GO_IDS))
    assert [row.owner for row in found.partitions] == list(reversed(GO_IDS))


def test_a_preview_keeps_the_format_of_an_owner_that_stays(world: MemoryGroups) -> None:
    """Range gives the last partition to its owner, which writes its id alone again; the others move."""
    _go_group(world)

    shown = preview(world.ensemble, "web", GroupChange())

    assert [row.step for row in shown.partitions] == ["moves", "moves", None]
    assert (shown.moves, shown.partitions[2].then) == (2, GO_IDS[0])
    assert "format of another client" in shown.notes[0]


def test_an_owner_in_another_format_needs_its_session(world: MemoryGroups) -> None:
    """The session that claims owns the registration; else it is no member's claim."""
    _go_group(world)
    other = world.server.client("other").session
    assert other is not None
    world.write(Delete(Owner.path("web", TopicPartition("orders", 1)), 1))
    world.own("web", "orders", 1, "host-7", session=other.session_id)

    (problem,) = _problems(world, "web")

    assert (problem.kind, problem.partition) == (ProblemKind.OWNER_NOT_MEMBER, 1)
    assert "leftover" in problem.detail


def _looks(world: MemoryGroups, *acts: Callable[[], object]) -> Ensemble:
    """An operator in whose pauses these acts happen, one in each, before the time goes on."""
    left = list(acts)

    def pause(seconds: float) -> None:
        if left:
            left.pop(0)()
        world.pass_time(seconds)

    return world.operator(world.server.client("waiting"), pause)


def test_a_wait_is_also_for_a_group_that_does_not_exist_yet(world: MemoryGroups) -> None:
    """Past bug: not found at once. Until its first member there is nothing that could be wrong."""
    world.topic("orders", 2)
    ensemble = _looks(
        world,
        lambda: None,
        lambda: world.server.put("/consumers/g/ids"),
        lambda: world.member("g", "a", {"orders": 1}),
        lambda: world.own_as_planned("g"),
    )

    began_ms = world.clock.now_ms()

    found = verify(ensemble, "g", wait_s=60)

    assert found.converged
    assert world.clock.now_ms() - began_ms == 4 * 250


def test_a_wait_for_a_group_that_never_comes_ends_with_not_found(world: MemoryGroups) -> None:
    """At the end of the time; without a wait at once. One without members has converged as it is."""
    end_ms = world.clock.now_ms() + 3000
    with pytest.raises(NotFoundError, match="/consumers/g"):
        verify(world.ensemble, "g", wait_s=3)
    assert world.clock.now_ms() == end_ms
    with pytest.raises(NotFoundError):
        verify(world.ensemble, "g")

    world.server.put("/consumers/g/ids")
    assert verify(world.ensemble, "g", wait_s=3).converged
    assert world.clock.now_ms() == end_ms
