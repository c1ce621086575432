"""Static members (KIP-345): a new process takes the place of the former one, which is fenced."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.coordinators import Coordinator
from zkgroup.coordinator.effects import WriteGroup
from zkgroup.coordinator.events import WriteOutcome
from zkgroup.model.error_codes import ErrorCode

NONE, FENCED, UNKNOWN = ErrorCode.NONE, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNKNOWN_MEMBER_ID
TWO = (("range", b"r"), ("rr", b"x"))


def test_a_static_member_needs_no_id_first() -> None:
    """It is parked at once, also in later versions."""
    assert Coordinator().join(instance="i", v4=True) is None


@pytest.mark.parametrize("options", [{"instance": "i" * 32_767}, {"client": "c" * 32_767, "v4": True}])
def test_a_member_id_that_no_answer_could_carry_is_refused(options: dict[str, Any]) -> None:
    """42: with the unique part it would be longer than a string of Kafka's protocol may be."""
    coordinator = Coordinator()

    assert coordinator.join(**options) is ErrorCode.INVALID_REQUEST
    assert coordinator.written == []
    shorter = {name: value[:200] if isinstance(value, str) else value for name, value in options.items()}
    assert coordinator.join(**shorter) is not ErrorCode.INVALID_REQUEST


def test_a_static_member_returns_without_a_rebalance() -> None:
    """New id, same generation, old assignment; the former id is fenced everywhere."""
    coordinator = Coordinator()
    members = coordinator.static("a", "b")
    back = coordinator.joined(coordinator.send_join(instance="b"))
    old = members["b"]

    assert (back.error, back.generation, back.members) == (NONE, 1, ())
    assert back.member_id not in members.values()
    assert (
        coordinator.synced(coordinator.send_sync(back.member_id, 1, instance="b")).assignment == old.encode()
    )
    assert coordinator.beat(old, 1, instance="b") is FENCED
    assert coordinator.sync(old, 1, instance="b") is FENCED
    assert coordinator.join(old, instance="b") is FENCED
    assert coordinator.commit(old, 1, instance="b") is FENCED
    assert coordinator.beat(old, 1) is UNKNOWN
    assert (coordinator.state, coordinator.generation) == ("Stable", 1)


def test_a_fenced_member_id_is_reported_before_an_old_generation() -> None:
    """Fencing comes before membership, and membership before the generation."""
    coordinator = Coordinator()
    members = coordinator.static("a")

    assert coordinator.beat("x", 9, instance="a") is FENCED
    assert coordinator.sync("x", 9, instance="a") is FENCED
    assert coordinator.commit("x", 9, instance="a") is FENCED
    assert coordinator.beat("x", 9) is UNKNOWN
    assert coordinator.beat(members["a"], 9, instance="a") is ErrorCode.ILLEGAL_GENERATION


def test_a_leader_that_returns_does_not_assign() -> None:
    """Its answer names its former id as leader."""
    coordinator = Coordinator()
    members = coordinator.static("a", "b")
    back = coordinator.joined(coordinator.send_join(instance="a"))

    assert (back.leader, back.members) == (members["a"], ())
    assert coordinator.describe().leader == back.member_id


def test_a_changed_subscription_of_a_returning_member_is_stored_and_waits() -> None:
    """Kafka starts no rebalance for it."""
    coordinator = Coordinator()
    coordinator.static("a", "b")
    back = coordinator.joined(coordinator.send_join(instance="b", protocols=(("range", b"new"),)))
    last = coordinator.written[-1]

    assert (coordinator.state, back.error) == ("Stable", NONE)
    assert isinstance(last, WriteGroup)
    assert {each.member_id: each.protocols for each in last.record.members}[back.member_id] == (
        ("range", b"new"),
    )


def test_a_returning_member_that_changes_the_protocol_starts_a_rebalance() -> None:
    """The next generation would select another one."""
    coordinator = Coordinator()
    coordinator.static("a", "b", protocols=TWO)
    number = coordinator.send_join(instance="b", protocols=(("rr", b"x"),))

    assert coordinator.error(number) is None
    assert coordinator.state == "PreparingRebalance"


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (WriteOutcome.UNKNOWN, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (WriteOutcome.CONFLICT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (WriteOutcome.NOT_OWNER, ErrorCode.NOT_COORDINATOR),
        (WriteOutcome.TOO_LARGE, ErrorCode.UNKNOWN),
    ],
)
def test_a_replacement_that_is_not_stored_is_taken_back(outcome: WriteOutcome, error: ErrorCode) -> None:
    """Id, protocols and timeouts; the former process goes on."""
    coordinator = Coordinator()
    members = coordinator.static("a", "b")
    coordinator.stores = False
    number = coordinator.send_join(instance="b", protocols=(("range", b"new"),), session_ms=9000)
    coordinator.complete(outcome)

    refused = coordinator.joined(number)
    assert (refused.error, refused.member_id) == (error, "")
    assert coordinator.beat(members["b"], 1, instance="b") is NONE
    described = {each.member_id: each for each in coordinator.describe().members}
    assert described[members["b"]].metadata == b"r"
    assert described[members["b"]].session_expires_in_ms == 500


def test_a_replacement_that_a_rebalance_overtakes_is_answered_by_it() -> None:
    """Its write may have been stored or not."""
    coordinator = Coordinator()
    members = coordinator.static("a", "b")
    coordinator.stores = False
    number = coordinator.send_join(instance="b")
    leader = coordinator.send_join(members["a"], instance="a")
    coordinator.complete(WriteOutcome.UNKNOWN)

    assert coordinator.joined(number).generation == 2
    assert coordinator.joined(leader).generation == 2


def test_a_member_that_returns_twice_before_it_is_stored() -> None:
    """The process in the middle is fenced, and the last one has the id."""
    coordinator = Coordinator()
    coordinator.static("a", "b")
    coordinator.stores = False
    middle, last = coordinator.send_join(instance="b"), coordinator.send_join(instance="b")
    assert coordinator.error(middle) is FENCED
    coordinator.complete()
    coordinator.complete()

    assert coordinator.error(last) is NONE
    replaced = [each for each in coordinator.logged if each.kind == "static_member_replaced"]
    assert [each.fields["is_repeated"] for each in replaced] == [False, True]


def test_a_member_that_returns_while_its_group_syncs() -> None:
    """A rebalance, as the leader knows the former id; a waiting sync is fenced."""
    coordinator = Coordinator()
    numbers = [coordinator.send_join(instance=each) for each in "ab"]
    coordinator.advance(100)
    waiting = coordinator.send_sync(coordinator.joined(numbers[1]).member_id, 1, instance="b")
    back = coordinator.send_join(instance="b")

    assert coordinator.error(waiting) is FENCED
    assert coordinator.error(back) is None
    assert coordinator.state == "PreparingRebalance"


def test_a_member_that_returns_while_its_group_joins() -> None:
    """It takes the place of its former join, which is fenced."""
    coordinator = Coordinator()
    first, second = coordinator.send_join(instance="a"), coordinator.send_join(instance="a")
    assert coordinator.error(first) is FENCED
    coordinator.advance(50)

    assert coordinator.joined(second).generation == 1
    assert len(coordinator.describe().members) == 1


def absent(**options: Any) -> tuple[Coordinator, dict[str, str], int]:
    """A group whose member `b` does not join again, and the join of `a`."""
    coordinator = Coordinator()
    members = coordinator.static("a", "b", **options)
    number = coordinator.send_join(members["a"], instance="a", **options)
    return coordinator, members, number


def test_a_static_member_may_be_absent() -> None:
    """It stays in the group, until its session ends or it should have synced."""
    coordinator, members, number = absent(session_ms=5000)
    coordinator.advance(500)
    joined = coordinator.joined(number)
    assert [each.member_id for each in joined.members] == [members["a"], members["b"]]
    coordinator.send_sync(members["a"], 2, instance="a")
    coordinator.advance(499)
    assert len(coordinator.describe().members) == 2
    coordinator.advance(1)

    assert [each.member_id for each in coordinator.describe().members] == [members["a"]]


def test_a_member_that_is_there_leads_for_an_absent_leader() -> None:
    """The absent one stays a member."""
    coordinator = Coordinator()
    members = coordinator.static("a", "b", session_ms=5000)
    number = coordinator.send_join(members["b"], instance="b", protocols=(("range", b"n"),))
    coordinator.advance(500)

    assert coordinator.joined(number).leader == members["b"]
    assert len(coordinator.joined(number).members) == 2


def test_a_group_waits_for_absent_static_members() -> None:
    """Nobody has joined, so the join phase begins anew."""
    coordinator = Coordinator()
    members = coordinator.static("a", "b", session_ms=5000)
    coordinator.leave("", "a")
    coordinator.advance(1200)
    assert (coordinator.state, coordinator.generation) == ("PreparingRebalance", 1)

    assert coordinator.joined(coordinator.send_join(members["b"], instance="b")).generation == 2


@pytest.mark.parametrize(
    ("member", "instance", "error"),
    [("a", "unregistered", UNKNOWN), ("a", "b", FENCED), ("", "unregistered", None)],
)
def test_an_instance_id_belongs_to_its_member(member: str, instance: str, error: ErrorCode | None) -> None:
    """J9 and J10."""
    coordinator = Coordinator()
    members = coordinator.static("a", "b")

    assert coordinator.join(members.get(member, ""), instance=instance) is error


def test_an_unregistered_instance_id_is_an_unknown_member() -> None:
    """As in Kafka 3.9.1; 2.8.2 ignores it."""
    coordinator = Coordinator()
    (member,) = coordinator.stable()

    assert coordinator.beat(member, 1, instance="x") is UNKNOWN
    assert coordinator.sync(member, 1, instance="x") is UNKNOWN
    assert coordinator.commit(member, 1, instance="x") is UNKNOWN
    assert coordinator.leave(member, "x") == (NONE, [UNKNOWN])
