"""`GroupMember` and its twin on a ZooKeeper in memory."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest

from tests.waiting import PATIENCE_S
from tests.worlds.public_apis import Api, Application, MemberWorld, orders, settings
from zkgroup.consumer.machine.events import MemberState
from zkgroup.errors import (
    CommitRefusedError,
    ConfigError,
    LeaseLostError,
    MemberClosedError,
    NotOwnerError,
    OffsetConflictError,
    StableTimeoutError,
)
from zkgroup.model import TopicPartition, Whitelist
from zkgroup.model.requests import Create
from zkgroup.version import VERSION
from zkgroup.znodes.consumers import Registration

ZERO, ONE, TWO, THREE = orders(0, 1, 2, 3)


def test_a_lone_member_owns_everything_and_leaves_nothing(api: Api, world: MemberWorld) -> None:
    """Leases are ordered and valid while it is a member; afterwards no owner is left."""
    with api.member(client=world.client("a")) as member:
        member.wait_until_stable(PATIENCE_S)
        leases = member.leases()

        assert [lease.topic_partition for lease in leases] == orders(0, 1, 2, 3)
        assert [(lease.topic, lease.partition, lease.thread) for lease in leases[:1]] == [("orders", 0, 0)]
        assert all(lease.is_valid and lease.remaining_ms > 0 and lease.token > 0 for lease in leases)
        assert member.state is MemberState.STABLE
        assert world.owners() == dict.fromkeys(range(4), f"{member.member_id}-0")

    assert world.owners() == {}
    assert [lease.is_valid for lease in leases] == [False] * 4
    assert member.state is MemberState.CLOSED


def test_only_what_moves_is_revoked(api: Api, world: MemberWorld) -> None:
    """Partitions that stay keep their token, and their lease goes on."""
    app = Application()
    with api.member(client=world.client("a"), app=app, settings=settings(consumer_id="a")) as first:
        first.wait_until_stable(PATIENCE_S)
        before = {lease.topic_partition: lease for lease in first.leases()}
        with api.member(client=world.client("b"), settings=settings(consumer_id="b")) as second:
            second.wait_until_stable(PATIENCE_S)

            assert app.next("revoked") == [TWO, THREE]
            assert [lease.topic_partition for lease in first.leases()] == [ZERO, ONE]
            assert [lease.token for lease in first.leases()] == [before[tp].token for tp in (ZERO, ONE)]
            assert [before[tp].is_valid for tp in (ZERO, ONE, TWO, THREE)] == [True, True, False, False]
            assert [lease.topic_partition for lease in second.leases()] == [TWO, THREE]
            assert second.lease(TWO).token > before[TWO].token
            assert second.lease(ZERO) is None


def test_a_member_publishes_where_it_runs(api: Api, world: MemberWorld) -> None:
    """Process, version and, where they are set, capacity and rack; past bug: the host of a member with a
    `consumer_id` was unknown. A generated id contains it."""
    with (
        api.member(
            client=world.client("a"), settings=settings(consumer_id="a", capacity=3, client_rack="r")
        ) as named,
        api.member(client=world.client("b")) as other,
    ):
        other.wait_until_stable(PATIENCE_S)
        members = {
            one.member: (one.host, one.pid, one.version, one.capacity, one.rack)
            for one in named.describe().members
        }
        ids = [named.member_id, other.member_id]
        tree = world.server.tree()

    here = (socket.gethostname(), os.getpid(), VERSION)
    assert members == {ids[0]: (*here, 3, "r"), ids[1]: (*here, None, None)}
    paths = [Registration.path("g", member) for member in ids]
    assert [Registration.decode(path, tree[path].data).host for path in paths] == [socket.gethostname(), None]


def test_waits_for_a_change_and_for_the_end(api: Api, world: MemberWorld) -> None:
    """Leases that another member takes end `wait_changed`, `since` also when it was called too late; the end
    of the member ends `wait_closed`, and both raise at their timeout."""
    with api.member(client=world.client("a"), settings=settings(consumer_id="a")) as first:
        first.wait_until_stable(PATIENCE_S)
        before = first.leases()
        with pytest.raises(StableTimeoutError, match="its leases are the same after 0 s"):
            first.wait_changed(0)
        with api.member(client=world.client("b"), settings=settings(consumer_id="b")) as second:
            second.wait_until_stable(PATIENCE_S)

            after = first.wait_changed(PATIENCE_S, since=before)
            assert [lease.topic_partition for lease in after] == [ZERO, ONE]
            with pytest.raises(StableTimeoutError, match="it has not ended after 0 s"):
                second.wait_closed(0)
            second.stop()
            with pytest.raises(MemberClosedError, match="stop"):
                second.wait_closed(PATIENCE_S)
        second.wait_closed(PATIENCE_S)
        assert len(first.wait_changed(PATIENCE_S, since=after)) == 4


def test_threads_of_one_member(api: Api, world: MemberWorld) -> None:
    """A thread count gives that many owners, numbered from 0."""
    with api.member(client=world.client("a"), topics={"orders": 2}) as member:
        member.wait_until_assigned(PATIENCE_S)

        assert [lease.thread for lease in member.leases()] == [0, 0, 1, 1]


def test_a_whitelist_takes_topics_as_they_come(api: Api, world: MemberWorld) -> None:
    """A new matching topic gets owners without a new registration."""
    app = Application()
    with api.member(client=world.client("a"), topics=Whitelist("orders.*"), app=app) as member:
        member.wait_until_assigned(PATIENCE_S)
        app.next("assigned")

        world.topic("orders-eu", 1)

        (lease,) = app.next("assigned")
        assert lease.topic_partition == TopicPartition("orders-eu", 0)


def test_a_commit_says_what_became_of_it(api: Api, world: MemberWorld) -> None:
    """The result names the offsets; `committed` reads them back, None where there is none."""
    with api.member(client=world.client("a")) as member:
        member.wait_until_assigned(PATIENCE_S)

        result = member.commit({ZERO: 42, ONE: 7})

        assert (result.committed, result.refused) == ({ZERO: 42, ONE: 7}, {})
        assert member.committed([ZERO, ONE, TWO]) == {ZERO: 42, ONE: 7, TWO: None}


def test_one_refused_partition_does_not_stop_the_others(api: Api, world: MemberWorld) -> None:
    """NotOwnerError if all refusals are of that class; its result has the committed partitions."""
    with api.member(client=world.client("a")) as member:
        member.wait_until_assigned(PATIENCE_S)
        foreign = TopicPartition("orders", 9)

        with pytest.raises(NotOwnerError, match="orders-9") as refused:
            member.commit({ZERO: 42, foreign: 1})

        assert refused.value.result.committed == {ZERO: 42}
        assert list(refused.value.result.refused) == [foreign]


def test_a_topic_that_does_not_exist_is_warned_of(
    api: Api, world: MemberWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """The member is stable without partitions, which seems to be success; the warning says what to do."""
    with api.member(client=world.client("a"), topics=["order", "orders"]) as member:
        member.wait_until_assigned(PATIENCE_S)
        assert len(member.leases()) == 4
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    (warning,) = [text for text in warnings if "does not exist" in text]
    assert "topic order does not exist" in warning
    assert warning.endswith("zkgroup topic create order --partitions N")


def test_an_offset_does_not_go_back(api: Api, world: MemberWorld) -> None:
    """Below another client's commit OffsetConflictError; below the member's own it counts as done.

    Different refusals are a CommitRefusedError with each reason.
    """
    with api.member(client=world.client("a")) as member:
        member.wait_until_assigned(PATIENCE_S)
        member.commit({ZERO: 42})
        assert member.commit({ZERO: 41}).committed == {ZERO: 41}
        assert world.offsets()[0] == 42

    with api.member(client=world.client("b")) as member:
        member.wait_until_assigned(PATIENCE_S)
        with pytest.raises(OffsetConflictError):
            member.commit({ZERO: 41})
        with pytest.raises(CommitRefusedError) as mixed:
            member.commit({ZERO: 41, ONE: 1, TopicPartition("orders", 9): 1})

        assert type(mixed.value) is CommitRefusedError
        kinds = {tp: type(error) for tp, error in mixed.value.result.refused.items()}
        assert kinds == {ZERO: OffsetConflictError, TopicPartition("orders", 9): NotOwnerError}
        assert world.offsets()[0] == 42


def test_a_lost_session_is_reported_and_the_member_joins_again(api: Api, world: MemberWorld) -> None:
    """on_lost for everything, nothing committed, the same id registered anew, new tokens."""
    app = Application()
    with api.member(client=world.client("a"), app=app) as member:
        member.wait_until_assigned(PATIENCE_S)
        before = app.next("assigned")

        world.server.expire("a")

        assert app.next("lost") == orders(0, 1, 2, 3)
        after = app.next("assigned")
        assert [lease.is_valid for lease in before] == [False] * 4
        assert all(new.token > old.token for new, old in zip(after, before, strict=True))
        assert world.owners() == dict.fromkeys(range(4), f"{member.member_id}-0")


def test_a_lease_pauses_while_zookeeper_is_away(api: Api, world: MemberWorld) -> None:
    """Over by the own clock before the server can end the session; back with its token."""
    app = Application()
    with api.member(
        client=world.client("a", session_timeout_ms=4000),
        app=app,
        settings=settings(session_timeout_ms=4000, server_tick_ms=500),
    ) as member:
        member.wait_until_assigned(PATIENCE_S)
        lease = member.lease(ZERO)
        with lease.guard():
            pass

        world.server.suspend("a")
        still_valid = lease.is_valid
        with pytest.raises(LeaseLostError), lease.guard():
            world.until(lambda: not lease.is_valid)
        with pytest.raises(LeaseLostError):
            lease.check()
        with pytest.raises(LeaseLostError):
            member.commit({ZERO: 1})
        world.server.resume("a")

        world.until(lambda: lease.is_valid)
        assert still_valid
        assert lease.remaining_ms > 0
        assert member.lease(ZERO).token == lease.token
        assert [name for name, _ in app.seen.queue] == ["assigned"]


def owned_by_a_foreign_client(world: MemberWorld, partition: int) -> None:
    """An owner znode of a foreign session, which belongs to no zkgroup member."""
    stranger = world.client("stranger")
    for path in ("/consumers/g", "/consumers/g/owners", "/consumers/g/owners/orders"):
        world.server.put(path)
    session_id = stranger.session.session_id
    world.server.write(
        Create(f"/consumers/g/owners/orders/{partition}", b"g_stranger-0", ephemeral=True),
        session_id=session_id,
    )


def test_a_timeout_names_the_blockers(api: Api, world: MemberWorld) -> None:
    """One blocked partition delays no other, and the wait says who holds it."""
    owned_by_a_foreign_client(world, 1)
    with api.member(client=world.client("a")) as member:
        world.until(lambda: len(member.leases()) == 3)

        with pytest.raises(StableTimeoutError, match="orders-1 is owned by g_stranger-0") as own:
            member.wait_until_assigned(1.0)
        with pytest.raises(StableTimeoutError) as whole:
            member.wait_until_stable(1.0)

        assert own.value.blockers == {ONE: "g_stranger-0"}
        assert list(whole.value.blockers) == [ONE]

        world.server.expire("stranger")
        member.wait_until_stable(PATIENCE_S)
        assert member.lease(ONE) is not None


def test_a_missing_topic_gives_nothing(api: Api, world: MemberWorld) -> None:
    """The member is stable with no partitions until the topic is created; one wait tells."""
    app = Application()
    with api.member(client=world.client("a"), topics=["invoices"], app=app) as member:
        with pytest.raises(
            StableTimeoutError, match="topic invoices does not exist: create it with `zkgroup"
        ):
            member.wait_until_stable(1.0)
        member.wait_until_stable(PATIENCE_S, allow_missing_topics=True)
        before = member.leases()

        world.topic("invoices", 2)

        assert before == ()
        assert len(app.next("assigned")) == 2
        member.wait_until_stable(PATIENCE_S)


def test_the_description_is_that_of_the_command_line(api: Api, world: MemberWorld) -> None:
    """As a typed value: state, members, partitions with owner, token and offset."""
    with api.member(client=world.client("a")) as member:
        member.wait_until_stable(PATIENCE_S)
        member.commit({ZERO: 42})

        described = member.describe()

        assert (described.group, described.state.value) == ("g", "stable")
        assert [m.member for m in described.members] == [member.member_id]
        (first, *_) = described.partitions
        assert (first.topic_partition, first.owner, first.token, first.offset) == (
            ZERO,
            f"{member.member_id}-0",
            member.lease(ZERO).token,
            42,
        )


def test_partitions_can_be_handed_back(api: Api, world: MemberWorld) -> None:
    """Revoked and released; the others stay."""
    app = Application()
    with api.member(client=world.client("a"), app=app) as member:
        member.wait_until_assigned(PATIENCE_S)

        member.hand_back([ZERO, TWO])

        assert app.next("revoked") == [ZERO, TWO]
        assert [lease.topic_partition for lease in member.leases()] == [ONE, THREE]


def test_members_of_one_process_share_a_client(api: Api, world: MemberWorld) -> None:
    """Nothing is mine by session alone; the client outlives its members (recipes 1)."""
    shared = world.client("shared")
    with api.member(client=shared, settings=settings(consumer_id="a")) as first:
        with api.member(client=shared, settings=settings(consumer_id="b")) as second:
            second.wait_until_stable(PATIENCE_S)
            shares = (len(first.leases()), len(second.leases()))
        first.wait_until_stable(PATIENCE_S)

        assert shares == (2, 2)
        assert len(first.leases()) == 4


def test_two_members_of_one_name_on_one_client_are_refused(api: Api, world: MemberWorld) -> None:
    """They would take each other's claims for their own; another group, or the next life, is fine."""
    shared = world.client("shared")
    same: dict[str, Any] = {"client": shared, "settings": settings(consumer_id="a")}
    with api.member(**same):
        with pytest.raises(ConfigError, match="g_a is a member on this client already"):
            api.member(**same).start()
        with api.member(group="h", **same) as other:
            other.wait_until_assigned(PATIENCE_S)
    with api.member(**same) as again:
        again.wait_until_assigned(PATIENCE_S)


def test_a_member_registers_once(api: Api, world: MemberWorld) -> None:
    """A second start makes no second member; the same id again is refused while it lives."""
    client = world.client("a")
    with api.member(client=client, settings=settings(consumer_id="a")) as member:
        member.wait_until_assigned(PATIENCE_S)
        before = world.server.find(f"/consumers/g/ids/{member.member_id}")

        member.start()

        with pytest.raises(ConfigError, match="g_a"):
            api.member(client=client, settings=settings(consumer_id="a")).start()
        assert world.server.find(f"/consumers/g/ids/{member.member_id}") == before
        assert set(world.owners().values()) == {"g_a-0"}


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ({}, "exactly one of an address and a client"),
        ({"address": "localhost:1", "client": object()}, "exactly one of an address and a client"),
        ({"address": "localhost:1", "group": ".."}, "group"),
        ({"address": "localhost:1", "topics": []}, "at least one name"),
        ({"address": "localhost:1", "topics": "orders"}, "expected a list"),
        ({"address": "localhost:1", "topics": ["a", "a"]}, "each name once"),
        ({"address": "localhost:1", "topics": iter(())}, "at least one name"),
        ({"address": "localhost:1", "topics": None}, "expected a list"),
        ({"address": "localhost:1", "topics": [1]}, "expected names"),
        ({"address": "localhost:1", "topics": {"a": 0}}, "threads of topic a"),
        ({"address": "localhost:1", "topics": Whitelist("[a-z&&[^b]]+")}, "regular expression"),
    ],
)
def test_what_is_wrong_is_said_before_connecting(api: Api, named: dict[str, Any], told: str) -> None:
    """ConfigError from the constructor."""
    with pytest.raises(ConfigError, match=told):
        api.member(**named)
