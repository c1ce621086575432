"""How a member reads its group: corrupt znodes, unknown data, brokers, strategies; the cost when idle."""

from __future__ import annotations

from tests.worlds.acls import UNREADABLE
from tests.worlds.stepped_group import (
    GROUP,
    SteppedGroup,
    claims,
    is_stable,
    multis,
    owned,
    packets,
    reads,
    tp,
)
from zkgroup.consumer.machine import events as ev
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Check, Multi, ReadMany
from zkgroup.settings import GroupSettings
from zkgroup.znodes.brokers import BrokerRegistration, Topic
from zkgroup.znodes.consumers import Registration


def test_corrupt_registration_is_ignored_and_reported_once() -> None:
    """The member owns nothing, the others go on, one report a life of the znode."""
    stage = SteppedGroup()
    stage.server.put("/consumers/g/ids")
    stage.server.put(Registration.path(GROUP, "g_0"), b"t")
    member = stage.join("a", run_ms=2000)
    stage.join("b")
    stage.run(2000)

    assert is_stable(member)
    assert owned(member) == [0, 1]
    assert len(stage.notes("corrupt_znode", "a")) == 1


def test_registration_that_vanishes_between_list_and_read_means_another_snapshot() -> None:
    """The closing read of `ids` shows that the group has moved."""
    stage = SteppedGroup()
    path = Registration.path(GROUP, "g_0")
    stage.server.put("/consumers/g/ids")
    stage.server.put(path, b'{"version":1,"subscription":{"t":1},"pattern":"static"}')
    stage.when("client-a", reads(path), lambda: stage.server.remove(path))
    member = stage.join("a", run_ms=2000)

    assert owned(member) == [0, 1, 2, 3]
    assert all("g_0" not in begun.fields["members"] for begun in stage.notes("rebalance.begin"))


def test_registration_hidden_by_an_acl_is_reported_and_blocks_no_member() -> None:
    """As corrupt: the peer gets no partition by this assignment, the others continue."""
    stage = SteppedGroup()
    path = Registration.path(GROUP, "g_0")
    stage.server.put("/consumers/g/ids")
    stage.server.put(path, b"{}")
    stage.server.set_acl(path, UNREADABLE)
    member = stage.join("a", run_ms=2000)

    assert is_stable(member)
    assert owned(member) == [0, 1, 2, 3]
    assert [note.fields["path"] for note in stage.notes("corrupt_znode")] == [path]


def test_peer_wildcard_that_cannot_be_evaluated_leaves_this_member_unassigned() -> None:
    """Reported; nothing is guessed."""
    stage = SteppedGroup()
    stage.server.put("/consumers/g/ids")
    text = rb'{"version":1,"subscription":{"\\p{Alpha}+":1},"pattern":"white_list","timestamp":"1"}'
    stage.server.put(Registration.path(GROUP, "g_j"), text)
    member = stage.join("a", run_ms=2000)

    assert owned(member) == []
    assert stage.notes("unsupported_subscription")


def test_no_broker_means_no_claim_and_no_release() -> None:
    """The wait is reported; the first broker starts the claims; later none changes anything."""
    stage = SteppedGroup(require_brokers=True)
    member = stage.join("a", run_ms=2000)
    assert (owned(member), member.machine.describe().reason) == ([], "waiting_for_brokers")

    stage.server.put("/brokers/ids/1", b"{}")
    stage.run(1000)
    assert owned(member) == [0, 1, 2, 3]
    stage.server.remove("/brokers/ids/1")
    stage.join("b", run_ms=2000)
    assert owned(member) == [0, 1, 2, 3]


def test_different_strategies_are_reported_and_sticky_falls_back_to_range() -> None:
    """If one registration has no sticky, every zkgroup member uses range and reports it (recipes 4)."""
    stage = SteppedGroup()
    stage.join("a", settings=GroupSettings(partition_assignment_strategy="sticky"))
    stage.join("b", settings=GroupSettings(partition_assignment_strategy="range"))

    assert stage.owners() == {0: "a-0", 1: "a-0", 2: "b-0", 3: "b-0"}
    assert stage.notes("assignors_differ")


def test_a_group_changes_its_strategy_by_a_rolling_restart() -> None:
    """Range while one member has range only, then what all prefer; nobody reports a difference."""
    stage = SteppedGroup()
    of_list = GroupSettings(partition_assignment_strategy="sticky,range")
    for name in "ab":
        stage.join(name)
    for old, new in ("ac", "bd"):
        stage.actors[old].post(ev.CloseRequested(True, stage.clock.now_ms() + 1000))
        stage.run(1000)
        stage.join(new, settings=of_list)
        strategies = {actor.machine.describe().strategy for n, actor in stage.actors.items() if n >= "b"}
        assert strategies <= ({"range", None} if new == "c" else {"sticky", "range", None})

    assert {stage.actors[name].machine.describe().strategy for name in "cd"} == {"sticky"}
    assert sorted(len(owned(stage.actors[name])) for name in "cd") == [2, 2]
    assert not stage.notes("assignors_differ")


def test_racks_decide_while_every_member_has_one() -> None:
    """Racks of brokers are read only then; a broker that comes back in another rack moves partitions."""
    stage = SteppedGroup({})
    for broker, rack in ((1, "x"), (2, "y")):
        _register_broker(stage, broker, rack)
    stage.server.put(Topic.path("t"), Topic({n: (1 + n % 2,) for n in range(4)}).encode())
    first = stage.join("a", settings=GroupSettings(client_rack="y"))
    stage.join("b", settings=GroupSettings(client_rack="x"))
    assert stage.owners() == {0: "b-0", 1: "a-0", 2: "b-0", 3: "a-0"}

    for broker, rack in ((1, "y"), (2, "x")):
        stage.server.remove(f"/brokers/ids/{broker}")
        _register_broker(stage, broker, rack)
    stage.run(2000)
    assert stage.owners() == {0: "a-0", 1: "b-0", 2: "a-0", 3: "b-0"}

    stage.join("c", settings=GroupSettings(client_rack=""))  # as Kafka's clients say that they have none
    assert stage.owners() == {0: "a-0", 1: "a-0", 2: "b-0", 3: "c-0"}
    sent = len(first.asked)
    stage.join("d")
    assert not any("/brokers/ids" in str(request) for request in first.asked[sent:])


def _register_broker(stage: SteppedGroup, broker: int, rack: str) -> None:
    stage.server.put(
        BrokerRegistration.path(broker),
        f'{{"version":3,"host":"h","port":1,"endpoints":["PLAINTEXT://h:1"],"rack":"{rack}"}}'.encode(),
    )


def test_round_robin_with_unequal_subscriptions_beside_a_jvm_member_keeps_what_is_held() -> None:
    """No member claims or releases without a valid assignment; the error is reported."""
    stage = SteppedGroup({"t": 4, "u": 2, "none": 0}, partition_assignment_strategy="roundrobin")
    first = stage.join("a", {"t": 1})
    jvm = b'{"version":1,"subscription":{"none":1},"pattern":"static","timestamp":"1"}'
    stage.server.put(Registration.path(GROUP, "g_jvm"), jvm)
    tokens = {held: grant.token for held, grant in first.machine.grants().items()}
    second = stage.join("b", {"u": 1}, run_ms=5000)

    assert {held: grant.token for held, grant in first.machine.grants().items()} == tokens
    assert owned(first) == [0, 1, 2, 3]
    assert (owned(second), claims(second), stage.owners("u")) == ([], [], {})
    assert {note.member for note in stage.notes("assignment_refused")} == {"g_a", "g_b"}


def test_sticky_moves_only_what_it_must() -> None:
    """The plan znode is the common past; two of four move to the joiner (recipes 4)."""
    stage = SteppedGroup(partition_assignment_strategy="sticky")
    first = stage.join("b")
    stage.join("a")
    third = stage.join("c")

    assert len(owned(first)) in (1, 2)
    assert sorted(len(stage.actors[n].machine.grants()) for n in "abc") == [1, 1, 2]
    assert third.machine.describe().owners == first.machine.describe().owners


def test_sticky_claim_checks_the_plan() -> None:
    """Every sticky claim contains `check(plan, version)` (recipes 4)."""
    stage = SteppedGroup(partition_assignment_strategy="sticky")
    member = stage.join("a")
    (claim,) = claims(member)

    assert Check("/consumers/g/plan", 0) in claim


def test_sticky_plan_of_a_grown_topic_is_written_anew() -> None:
    """Same members, other topics: the plan's inputs differ (recipes 4)."""
    stage = SteppedGroup(partition_assignment_strategy="sticky")
    first, second = stage.join("a"), stage.join("b")
    stage.topic("t", 7)
    stage.run(2000)

    assert len(first.machine.grants()) + len(second.machine.grants()) == 7
    assert all(map(is_stable, (first, second)))


def test_handed_back_partitions_are_claimed_again_by_a_later_plan_only() -> None:
    """interfaces, `hand_back`: revoked and released, and left to the next plan."""
    stage = SteppedGroup()
    member = stage.join("a")
    member.post(ev.HandBackRequested(frozenset({tp(2)})))
    stage.run(2000)
    assert owned(member) == [0, 1, 3]

    stage.topic("t", 5)
    stage.run(1000)
    assert owned(member) == [0, 1, 2, 3, 4]


def test_registrations_that_are_known_are_not_read_again() -> None:
    """Of a group that gets a member each one reads the new registration and its own (recipes 3)."""
    stage = SteppedGroup(topics={"t": 12})
    first = stage.join("a")
    for name in "bcd":
        stage.join(name)
    first.asked.clear()
    stage.join("e")
    read = [
        path
        for request in first.asked
        if isinstance(request, ReadMany)
        for path in request.paths
        if path.startswith("/consumers/g/ids/")
    ]

    assert sorted(set(read)) == [Registration.path(GROUP, "g_a"), Registration.path(GROUP, "g_e")]


def test_idle_member_asks_for_heartbeats_and_rare_verification_only() -> None:
    """A check-only write every T/6 or a little later, whatever the number of partitions (recipes 9)."""
    stage = SteppedGroup(topics={"t": 500})
    member = stage.join("a", run_ms=20_000)
    member.asked.clear()
    stage.run(60_000)
    heartbeats = [ops for ops in multis(member.asked) if len(ops) == 1 and isinstance(ops[0], Check)]

    assert 50 <= len(heartbeats) <= 60
    assert packets(member.asked) - len(heartbeats) <= 4


def test_unchanged_step_does_not_depend_on_the_number_of_partitions() -> None:
    """A step without changes reads no partition."""
    stage = SteppedGroup(topics={"t": 2000})
    member = stage.join("a", run_ms=3000)
    touched: list[TopicPartition] = []

    class Watched(dict):  # type: ignore[type-arg]
        def __iter__(self):  # type: ignore[no-untyped-def]
            touched.append(tp(0))
            return super().__iter__()

        def items(self):  # type: ignore[no-untyped-def]
            touched.append(tp(0))
            return super().items()

    ownership = member.machine._components.context.owned
    ownership.partitions = Watched(ownership.partitions)
    ownership.assigned = Watched(ownership.assigned)
    stage.run(900)

    assert any(isinstance(r, Multi) for r in member.asked[-3:])
    assert touched == []
