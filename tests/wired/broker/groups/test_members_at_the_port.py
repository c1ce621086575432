"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup at a broker's port, in every version that is served."""

from __future__ import annotations

import pytest

from tests.worlds.group_services import (
    FAST,
    GROUP,
    GroupServer,
    group_server,
    join_request,
    sync_request,
)
from tests.worlds.serving import on_a_loop, until
from zkgroup.broker.replica_view import Role
from zkgroup.broker.settings import BrokerSettings
from zkgroup.coordinator.events import WriteOutcome
from zkgroup.model import TopicPartition
from zkgroup.wire import groups as wire
from zkgroup.wire.groups import NO_GENERATION
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC

DELAYED = BrokerSettings(group_initial_rebalance_delay_ms=1000, group_min_session_timeout_ms=10)


def parked(broker: GroupServer) -> int:
    """Requests that wait for the group."""
    return len(broker.service._open)


@pytest.mark.parametrize("version", range(8))
@on_a_loop
async def test_a_member_joins_and_syncs_in_every_version(version: int) -> None:
    """From version 4 on it gets its id first; from 7 on the answer names the protocol type."""
    async with group_server() as broker:
        client = await broker.client()
        joined = await client.join(version=version)
        if version >= 4:
            assert (joined.error, joined.generation) == (79, NO_GENERATION)
            assert joined.protocol == (None if version >= 7 else "")
            joined = await client.join(joined.member_id, version=version)
        assert (joined.error, joined.generation, joined.protocol) == (0, 1, "range")
        assert joined.leader == joined.member_id == "test-0001"
        assert joined.protocol_type == ("consumer" if version >= 7 else None)
        assert [(each.member_id, each.metadata) for each in joined.members] == [("test-0001", b"m")]

        synced = await client.sync(
            joined.member_id,
            1,
            {joined.member_id: b"mine"},
            version=min(version, 5),
            protocol_type="consumer",
            protocol="range",
        )

        assert (synced.error, synced.assignment) == (0, b"mine")
        assert synced.protocol == ("range" if version >= 5 else None)
        assert await client.beat(joined.member_id, 1, version=min(version, 4)) == 0
        await client.close()


@on_a_loop
async def test_sync_5_without_a_protocol_is_refused() -> None:
    """From version 5 on both names are mandatory."""
    async with group_server() as broker:
        client = await broker.client()
        member = (await client.join()).member_id

        assert (await client.sync(member, 1, version=5)).error == 23
        assert (await client.sync(member, 1, version=4)).error == 0
        await client.close()


@on_a_loop
async def test_in_version_0_the_session_timeout_is_the_rebalance_timeout() -> None:
    """The request has no field for it."""
    async with group_server(DELAYED) as broker:
        client = await broker.client()
        client.send_join(version=0, session_ms=77, rebalance_ms=5)
        await until(lambda: broker.service.coordinator.group(GROUP))
        group = broker.service.coordinator.group(GROUP)

        assert group is not None
        assert [each.rebalance_timeout_ms for each in group.members.values()] == [77]
        await client.close()


@pytest.mark.parametrize(("version", "expected"), [(0, 25), (2, 25), (3, 0), (4, 0)])
@on_a_loop
async def test_leaving_says_the_error_where_the_version_has_it(version: int, expected: int) -> None:
    """Before version 3 one member leaves, and the error is its own; later each has its own."""
    async with group_server() as broker:
        client = await broker.client()
        member = (await client.join()).member_id
        named = (wire.LeavingMember(member_id="x"), wire.LeavingMember(member_id=member))
        unknown = wire.LeaveGroupRequest(group=GROUP, member_id="x", members=named)

        response = await client.ask(unknown, wire.LeaveGroupResponse, version)

        assert response.error == expected
        assert [each.error for each in response.members] == ([] if version < 3 else [25, 0])
        assert await client.beat(member, 1) == (0 if version < 3 else 25)
        await client.close()


@on_a_loop
async def test_a_join_waits_for_the_other_members() -> None:
    """Two members: the second one's join begins a rebalance, which waits for the first."""
    async with group_server() as broker:
        first, second = await broker.client(), await broker.client()
        leader = (await first.join()).member_id
        await first.sync(leader, 1, {leader: b"all"})
        second.send_join()
        await until(lambda: parked(broker) == 1)

        assert await first.beat(leader, 1) == 27
        rejoined = await first.join(leader)
        joined = await second.receive(wire.JoinGroupResponse, version=3)

        assert (rejoined.generation, joined.generation) == (2, 2)
        assert (len(rejoined.members), joined.members) == (2, ())
        second.send(sync_request(joined.member_id, 2), 3)
        await until(lambda: parked(broker) == 1)
        await first.sync(leader, 2, {leader: b"half", joined.member_id: b"other half"})
        assert (await second.receive(wire.SyncGroupResponse, version=3)).assignment == b"other half"
        await first.close()
        await second.close()


@on_a_loop
async def test_a_connection_is_not_read_while_its_request_is_parked() -> None:
    """The answers come in the order of the requests."""
    async with group_server(DELAYED) as broker:
        client = await broker.client()
        client.send_join()
        client.send(wire.HeartbeatRequest(group=GROUP, generation=1, member_id="test-0001"), 3)
        await until(lambda: parked(broker) == 1)

        broker.advance(1000)

        assert (await client.receive(wire.JoinGroupResponse, 1, version=3)).generation == 1
        assert (await client.receive(wire.HeartbeatResponse, 2, version=3)).error == 0
        await client.close()


@on_a_loop
async def test_a_client_that_leaves_while_it_is_parked_stays_a_member() -> None:
    """Its answer is dropped; the member is removed by its timer (ADR 36)."""
    async with group_server(DELAYED) as broker:
        client, other = await broker.client(), await broker.client()
        client.send_join()
        await until(lambda: parked(broker) == 1)
        await client.close()
        await until(lambda: parked(broker) == 0)

        broker.advance(1000)

        described = await other.describe()
        assert (described.state, len(described.members)) == ("CompletingRebalance", 1)
        broker.advance(10_000)
        assert (await other.describe()).state == "Empty"
        await other.close()


@on_a_loop
async def test_a_join_that_is_replaced_closes_its_connection() -> None:
    """The later join of the same member, on another connection, gets the answer."""
    async with group_server(DELAYED) as broker:
        first, second = await broker.client(), await broker.client()
        member = (await first.join(version=4)).member_id
        first.send_join(member, version=4)
        await until(lambda: parked(broker) == 1)
        second.send_join(member, version=4)

        assert await first.is_closed()
        broker.advance(1000)
        assert (await second.receive(wire.JoinGroupResponse, version=4)).error == 0
        await first.close()
        await second.close()


@on_a_loop
async def test_an_answer_waits_for_its_write() -> None:
    """The sync of the leader is answered when its assignment is stored, and other requests meanwhile."""
    async with group_server() as broker:
        client, other = await broker.client(), await broker.client()
        member = (await client.join()).member_id
        broker.store.holds = True
        client.send(sync_request(member, 1, {member: b"mine"}), 3)
        await until(lambda: parked(broker) == 1)

        assert await other.beat(member, 1) == 0
        broker.store.holds = False
        broker.release()

        assert (await client.receive(wire.SyncGroupResponse, version=3)).assignment == b"mine"
        await client.close()
        await other.close()


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (WriteOutcome.ZOOKEEPER_MEMBERS, 23),
        (WriteOutcome.NOT_OWNER, 16),
        (WriteOutcome.UNKNOWN, 15),
        (WriteOutcome.CONFLICT, 15),
        (WriteOutcome.TOO_LARGE, -1),
    ],
)
@on_a_loop
async def test_a_first_join_says_why_it_is_refused(outcome: WriteOutcome, error: int) -> None:
    """Among others: while ZooKeeper consumers are members, nobody can join (23)."""
    async with group_server() as broker:
        client = await broker.client()
        broker.store.outcome = outcome

        assert (await client.join()).error == error
        assert (await client.describe()).state == "Empty"
        await client.close()


@on_a_loop
async def test_a_silent_member_expires() -> None:
    """Its session ends at the timeout; a heartbeat before starts it anew."""
    async with group_server() as broker:
        client = await broker.client()
        member = (await client.join(session_ms=500)).member_id
        await client.sync(member, 1, {member: b"mine"})
        broker.advance(499)
        assert await client.beat(member, 1) == 0
        broker.advance(500)

        assert await client.beat(member, 1) == 25
        assert (await client.describe()).state == "Empty"
        await client.close()


@on_a_loop
async def test_heartbeats_that_have_come_are_handled_before_members_expire() -> None:
    """A broker that was paused: the timer and the heartbeat are both due (ADR 36, 6)."""
    async with group_server() as broker:
        client = await broker.client()
        member = (await client.join(session_ms=500)).member_id
        await client.sync(member, 1, {member: b"mine"})
        beat = wire.HeartbeatRequest(group=GROUP, generation=1, member_id=member)
        client.send(beat, 3)
        # In this turn of the loop nothing is read. In the next one the timer is due, and the socket is ready.
        broker.clock.jump(600)
        broker.service._timer.set(0)

        assert (await client.receive(wire.HeartbeatResponse, version=3)).error == 0
        assert (await client.describe()).state == "Stable"
        await client.close()


@on_a_loop
async def test_outside_the_lease_nobody_is_answered_or_expired() -> None:
    """16; and after the lease came back every session has its full time."""
    async with group_server() as broker:
        client = await broker.client()
        member = (await client.join(session_ms=500)).member_id
        await client.sync(member, 1, {member: b"mine"})
        broker.give_lease(200)
        broker.clock.jump(1000)

        assert await client.beat(member, 1) == 16
        assert broker.service._timer.at_ms is None, "it would fire for ever"
        broker.service.advance()
        broker.give_lease(10_000)

        assert await client.beat(member, 1) == 0
        broker.advance(600)
        assert await client.beat(member, 1) == 25
        await client.close()


@on_a_loop
async def test_a_slot_that_is_given_up_ends_its_parked_requests() -> None:
    """With 16; the next leader goes on with the generation that was stored."""
    async with group_server() as broker:
        client, other = await broker.client(), await broker.client()
        member = (await client.join()).member_id
        await client.sync(member, 1, {member: b"mine"})
        other.send_join()
        await until(lambda: parked(broker) == 1)

        broker.service.on_role(TopicPartition(OFFSETS_TOPIC, 0), Role.NONE, 1)

        assert (await other.receive(wire.JoinGroupResponse, version=3)).error == 16
        assert await client.beat(member, 1) == 16
        broker.service.on_role(TopicPartition(OFFSETS_TOPIC, 0), Role.LEADER, 2)
        assert await client.beat(member, 1) == 0
        assert (await client.sync(member, 1)).assignment == b"mine"
        await client.close()
        await other.close()


@on_a_loop
async def test_a_broker_that_closes_answers_what_is_parked() -> None:
    """With 16, so that the client looks for the next coordinator at once; later requests get 15."""
    async with group_server(DELAYED) as broker:
        client, other = await broker.client(), await broker.client()
        client.send_join()
        await until(lambda: parked(broker) == 1)

        await broker.service.stop()

        assert (await client.receive(wire.JoinGroupResponse, version=3)).error == 16
        assert await other.beat("test-0001", 0) == 15
        await client.close()
        await other.close()


@on_a_loop
async def test_before_the_slots_are_known_no_group_is_coordinated() -> None:
    """As Kafka before its topic exists: 16, and a list without groups; an invalid group id is 24."""
    async with group_server(leads=False) as broker:
        client = await broker.client()

        assert (await client.join()).error == 16
        assert (await client.join(group="a/b")).error == 24
        listed = await client.ask(wire.ListGroupsRequest(), wire.ListGroupsResponse, 4)
        assert (listed.error, listed.groups) == (0, ())
        await client.close()


@pytest.mark.parametrize("group", ["a/b", "a%b", ".", "..", "\0", "a\x7f", "", "a" * 256])
@on_a_loop
async def test_a_group_id_that_can_be_no_znode_is_invalid(group: str) -> None:
    """24, also for the empty one, by each request of a member."""
    async with group_server() as broker:
        client = await broker.client()

        assert (await client.join(group=group)).error == 24
        assert (await client.sync("m", 1, group=group)).error == 24
        assert await client.beat("m", 1, group=group) == 24
        assert (await client.ask(join_request(group=group), wire.JoinGroupResponse, 7)).protocol is None
        await client.close()


def test_the_settings_reach_the_coordinator() -> None:
    """group.min.session.timeout.ms and group.max.session.timeout.ms, at the port."""

    @on_a_loop
    async def scenario() -> None:
        async with group_server(FAST) as broker:
            client = await broker.client()
            assert (await client.join(session_ms=9)).error == 26
            assert (await client.join(session_ms=1_800_001)).error == 26
            assert (await client.join(session_ms=10)).error == 0
            await client.close()

    scenario()
