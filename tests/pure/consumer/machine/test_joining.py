"""Joining a group: the registration, stale registrations, and the reads before the first claim."""

from __future__ import annotations

import json

import pytest

from tests.worlds.stepped_group import GROUP, SteppedGroup, claims, effects_of, is_stable, multis, packets, tp
from zkgroup.consumer.machine import MemberConfig, MemberMachine
from zkgroup.consumer.machine.events import Assign, ChangeState, ExtendLease, Finish, MemberState
from zkgroup.errors import CoordinatedGroupError, MemberIdInUseError, UnsupportedRegexError
from zkgroup.model import Whitelist
from zkgroup.model.requests import Create, Delete, ListChildren, Multi, Read, ReadMany, SetData, Sync
from zkgroup.znodes.consumers import Registration
from zkgroup.znodes.coordinated_groups import ProtocolMarker


def test_registration_is_created_with_its_final_data() -> None:
    """One create with its final data, Kafka's keys first, zkgroup's after them as text."""
    stage = SteppedGroup()
    stage.join("a", {"t": 2})
    znode = stage.registration("a")

    assert znode is not None
    assert list(json.loads(znode.data or b"")) == [
        "version",
        "subscription",
        "pattern",
        "timestamp",
        "zkgroup",
        "strategy",
        "exclude_internal",
        "features",
    ]
    assert (znode.stat.version, znode.stat.czxid) == (0, znode.stat.mzxid)


def test_order_on_the_wire_is_register_watch_claim() -> None:
    """Register, then the watches, then the first claim; `sync` before everything (recipes 3)."""
    stage = SteppedGroup()
    member = stage.join("a")

    def first(wanted: type, part: str) -> int:
        return next(i for i, r in enumerate(member.asked) if isinstance(r, wanted) and part in str(r))

    register = first(Multi, "ephemeral=True")
    claim = first(Multi, "/owners/")
    assert isinstance(member.asked[0], Sync)
    assert register < first(ListChildren, "ids', watch=True") < claim
    assert register < first(Read, "topics/t', watch=True") < claim


def test_parents_are_made_at_the_join_even_where_nothing_is_claimed() -> None:
    """Tools die where `offsets` is missing, so a member without partitions makes it as well (recipes 5)."""
    stage = SteppedGroup(topics={})
    member = stage.join("a")

    assert is_stable(member)
    for name in ("ids", "owners", "offsets"):
        assert stage.server.find(f"/consumers/{GROUP}/{name}") is not None


def test_znodes_are_ephemeral_or_persistent_as_kafka_has_them() -> None:
    """Registration and owners of this session, parents and offsets persistent, bare text."""
    stage = SteppedGroup(topics={"t": 1})
    member = stage.join("a")
    stage.commit(member, {tp(0): 0})
    session = member.client.session
    owner = stage.owner(0)

    assert session is not None
    assert owner is not None
    assert (owner.data, owner.stat.ephemeral_owner) == (b"g_a-0", session.session_id)
    assert (stage.offset(0).data, stage.offset(0).stat.ephemeral_owner) == (b"0", 0)


def test_lost_reply_of_the_registration_is_recognised() -> None:
    """NodeExists with my session and my text is my own create (recipes 10)."""
    stage = SteppedGroup()
    member = stage.join("a", run_ms=None)
    while not any(isinstance(r, Multi) for r in member.asked):
        stage.server.deliver(next(s for s in stage.server.pending() if s.kind != "catch_up"))
        while member.has_work:
            member.run()
    stage.server.deliver(next(s for s in stage.server.pending() if s.kind == "request"), "lost_reply")
    stage.run(1000)

    assert is_stable(member)
    creates = [o for ops in multis(member.asked) for o in ops if isinstance(o, Create) and "/ids/" in o.path]
    assert len({o.data for o in creates}) == 1
    assert member.finished is None


def test_stale_registration_of_an_own_former_session_is_waited_for_without_limit() -> None:
    """The old session's registration is waited for, and reported once (recipes 2)."""
    stage = SteppedGroup()
    member = stage.join("a")
    session = member.client.session
    assert session is not None
    member.client.abandon(1, "a fault")
    session.timeout_ms = 10**9  # the server keeps the old session for ever
    stage.run(30_000)

    assert member.state is MemberState.JOINING
    assert member.finished is None
    assert len(stage.notes("stale_registration")) == 1
    stage.server.expire_session(session.session_id)
    stage.run(1000)
    assert is_stable(member)


def test_registration_of_another_session_fails_the_member_after_two_timeouts() -> None:
    """The registration of another session is waited for 2 T, then the error names it (recipes 2)."""
    stage = SteppedGroup()
    first = stage.actors["first"] = stage.join("a")
    second = stage.join("a", client="other", run_ms=11_000)

    assert second.finished is None
    stage.run(2_000)
    (finish,) = effects_of(second, Finish)
    session = first.client.session
    assert session is not None
    assert isinstance(finish.error, MemberIdInUseError)
    assert finish.error.session_id == session.session_id
    assert second.state is MemberState.FAILED


def test_a_persistent_registration_fails_the_member_at_once() -> None:
    """No session ends it: the error names the path, and the command that removes it."""
    stage = SteppedGroup()
    stage.server.put(Registration.path(GROUP, f"{GROUP}_a"), b"of a restored backup")
    member = stage.join("a", run_ms=0)
    (finish,) = effects_of(member, Finish)

    assert isinstance(finish.error, MemberIdInUseError)
    assert str(finish.error).startswith("/consumers/g/ids/g_a: ")
    assert "`zkgroup doctor --fix`" in str(finish.error)


def test_short_obstacle_of_another_session_is_waited_out() -> None:
    """A killed process's registration goes with its session, and the name is taken over (recipes 2)."""
    stage = SteppedGroup()
    stage.join("a").kill()
    stage.actors.pop("a")
    stage.server.suspend("client-a")
    second = stage.join("a", client="other", run_ms=10_000)

    assert is_stable(second)
    assert effects_of(second, Finish) == []


def test_the_wait_for_another_session_begins_again_with_each_connection() -> None:
    """An election closes the connections and gives the killed process's session its time anew (recipes 2)."""
    stage = SteppedGroup()
    first = stage.join("a")
    first.kill()
    stage.actors.pop("a")
    second = stage.join("a", client="other", run_ms=None)
    for _ in range(3):
        stage.run(5_000)  # the first member's session is kept by the pings of its client
        stage.server.cut("other")

    assert second.state is MemberState.JOINING
    assert len(stage.notes("stale_registration")) == 1
    stage.server.suspend("client-a")
    stage.run(6_500)
    assert is_stable(second)


def test_the_wait_for_a_coordinator_begins_again_with_each_connection() -> None:
    """It is reported once all the same, and its end comes two timeouts after the last one (recipes 2, 22)."""
    stage = SteppedGroup()
    stage.server.put(MARKER, ProtocolMarker(7, 1).encode())
    member = stage.join("a", run_ms=8_000)
    stage.server.cut("client-a")
    stage.run(11_000)

    assert member.finished is None
    assert len(stage.notes("coordinated_group")) == 1
    stage.run(1_500)
    (finish,) = effects_of(member, Finish)
    assert isinstance(finish.error, CoordinatedGroupError)


MARKER = ProtocolMarker.path(GROUP)


def test_the_registration_asks_for_the_marker_in_its_own_transaction() -> None:
    """Read before it, a coordinator could set the marker in between (recipes 22)."""
    stage = SteppedGroup()
    member = stage.join("a")
    own = Registration.path(GROUP, f"{GROUP}_a")

    registration = next(ops for ops in multis(member.asked) if any(o.path == own for o in ops))
    assert [(type(o), o.path) for o in registration] == [(Create, MARKER), (Delete, MARKER), (Create, own)]
    assert stage.server.find(MARKER) is None


def test_a_member_waits_while_a_coordinator_has_members() -> None:
    """It joins as soon as the marker is gone, and reports the wait once (recipes 22)."""
    stage = SteppedGroup()
    stage.server.put(MARKER, ProtocolMarker(7, 1).encode())
    member = stage.join("a")
    stage.run(5_000)

    assert member.state is MemberState.JOINING
    assert stage.registration("a") is None
    assert len(stage.notes("coordinated_group")) == 1
    stage.server.remove(MARKER)
    stage.run(1000)
    assert is_stable(member)


def test_a_coordinated_group_fails_the_member_after_two_timeouts() -> None:
    """The error names path, coordinator, and what can be done; nothing was written (recipes 22)."""
    stage = SteppedGroup()
    stage.server.put(MARKER, ProtocolMarker(7, 1).encode())
    member = stage.join("a", run_ms=11_000)

    assert member.finished is None
    stage.run(2_000)
    (finish,) = effects_of(member, Finish)
    assert isinstance(finish.error, CoordinatedGroupError)
    assert (finish.error.path, finish.error.broker) == (MARKER, 7)
    assert f"zkgroup coordinator release {GROUP} --execute" in str(finish.error)
    assert member.state is MemberState.FAILED
    assert stage.registration("a") is None


def test_a_marker_that_cannot_be_read_is_a_marker() -> None:
    """Only its broker is not known."""
    stage = SteppedGroup()
    stage.server.put(MARKER, b"{")
    member = stage.join("a", run_ms=13_000)

    (finish,) = effects_of(member, Finish)
    assert isinstance(finish.error, CoordinatedGroupError)
    assert finish.error.broker is None


def test_a_member_that_has_lost_its_session_does_not_register_beside_a_coordinator() -> None:
    """What it owned is lost; it waits as at its start (recipes 22)."""
    stage = SteppedGroup()
    member = stage.join("a")
    session = member.client.session
    assert session is not None
    stage.server.expire_session(session.session_id)
    stage.server.put(MARKER, ProtocolMarker(7, 1).encode())
    stage.run(5_000)

    assert member.state is MemberState.JOINING
    assert stage.registration("a") is None
    stage.server.remove(MARKER)
    stage.run(1000)
    assert is_stable(member)


def test_expiry_registers_the_same_id_with_a_new_timestamp() -> None:
    """Nothing is committed or deleted for the old ownership; one new registration, one rebalance."""
    stage = SteppedGroup()
    member = stage.join("a")
    before = stage.registration("a")
    rebalances = len(stage.notes("rebalance.begin"))
    member.asked.clear()
    stage.server.expire("client-a")
    stage.run(5000)
    after = stage.registration("a")

    assert before is not None
    assert after is not None
    assert is_stable(member)
    stamps = [Registration.decode("", z.data).timestamp_ms for z in (before, after)]
    assert stamps[0] != stamps[1]
    written = [operation for operations in multis(member.asked) for operation in operations]
    registered = [o for o in written if isinstance(o, Create) and "/ids/" in o.path]
    assert [o.path for o in registered] == [before.path]
    assert [o.path for o in written if isinstance(o, Delete)] == [MARKER]
    earlier = written[: written.index(registered[0])]
    assert [o for o in earlier if isinstance(o, SetData)] == []
    assert len(stage.notes("rebalance.begin")) == rebalances + 1
    assert len(claims(member)) == 1


def test_session_is_that_of_the_registration_read_back() -> None:
    """A registration in another session than expected ends all ownership (recipes 2)."""
    stage = SteppedGroup()
    member = stage.join("a")
    other = stage.client("other")
    stage.drain()
    assert other.session is not None
    znode = stage.registration("a")
    assert znode is not None
    stage.server.remove(znode.path)
    stage.server.write(Create(znode.path, znode.data, ephemeral=True), session_id=other.session.session_id)
    stage.run(1000)

    assert "lost" in [state.value for state in member.states]
    assert member.machine.grants() == {}
    assert stage.notes("stale_registration")


def test_joiner_costs_ten_packets_and_an_unaffected_member_two() -> None:
    """One children read and one bulk read; the verification of own owners rides along (recipes 3)."""
    stage = SteppedGroup(topics={"t": 3})
    first = stage.join("a", {"t": 3})
    first.asked.clear()
    joiner = stage.join("z", {"t": 1}, run_ms=200)

    assert packets(joiner.asked) <= 10
    assert packets(first.asked) == 2


@pytest.mark.parametrize(("members", "partitions", "most"), [(10, 100, 80), (40, 400, 150)])
def test_join_into_a_big_group_stays_within_its_packet_budget(
    members: int, partitions: int, most: int
) -> None:
    """Packets grow with the members, not with their square and not with the partitions."""
    stage = SteppedGroup(topics={"t": partitions}, session_timeout_ms=60_000, publish_interval_ms=60_000)
    for number in range(members):
        stage.client(f"client-m{number:03}", 60_000)
        stage.join(f"m{number:03}", run_ms=None)
    stage.run(3000)
    for actor in stage.actors.values():
        actor.asked.clear()
    stage.client("client-z", 60_000)
    stage.join("z", run_ms=1000)

    assert all(is_stable(actor) for actor in stage.actors.values())
    assert len(stage.owners()) == partitions
    assert sum(packets(actor.asked) for actor in stage.actors.values()) <= most


def test_first_members_of_a_group_are_one_rebalance() -> None:
    """The first member of an empty group waits for those that start with it (recipes 3)."""
    stage = SteppedGroup(topics={"t": 8})
    for name in "abcd":
        stage.join(name, run_ms=20)
    stage.run(2000)

    assert [len(stage.notes("rebalance.begin", name)) for name in "abcd"] == [1, 1, 1, 1]
    assert len(stage.owners()) == 8


def test_unknown_java_construct_is_refused_at_the_join() -> None:
    """A wildcard that Python cannot evaluate as Java would is refused before anything is sent."""
    config = MemberConfig(group=GROUP, member_id="g_a", subscription=Whitelist(r"\p{Alpha}+&&[a]"))

    with pytest.raises(UnsupportedRegexError):
        MemberMachine(config)


def test_lease_begins_with_the_registration() -> None:
    """The create is the first write that counts; nothing is assigned before a lease (recipes 9)."""
    stage = SteppedGroup()
    member = stage.join("a")
    kinds = [type(e) for e in member.effects]

    assert kinds.index(ExtendLease) < kinds.index(Assign)


def test_states_of_a_plain_join() -> None:
    """New, joining, stable."""
    stage = SteppedGroup()
    member = stage.join("a")
    changes = [(c.before.value, c.after.value) for c in effects_of(member, ChangeState)]

    assert changes == [("new", "joining"), ("joining", "stable")]


def test_own_topics_are_those_of_the_registration_as_read() -> None:
    """This member's subscription is read back from its znode, as that of the others."""
    stage = SteppedGroup({"t": 2, "u": 2})
    member = stage.join("a", {"t": 1})
    own = [r for r in member.asked if isinstance(r, ReadMany) and Registration.path(GROUP, "g_a") in r.paths]
    (begun,) = stage.notes("rebalance.begin")

    assert own
    assert begun.fields["members"] == {"g_a": {"t": 1}}


def test_registration_that_a_foreign_writer_changed_is_replaced() -> None:
    """What a plan depends on never changes by setData; a rewritten registration is made anew (recipes 2)."""
    stage = SteppedGroup()
    member = stage.join("a")
    path = Registration.path(GROUP, "g_a")
    stage.foreign_write(SetData(path, b"t", -1))
    stage.run(10_000)
    znode = stage.registration("a")

    assert is_stable(member)
    assert znode is not None
    assert (znode.stat.version, Registration.decode(path, znode.data).subscription) == (0, {"t": 1})
