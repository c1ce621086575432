"""OffsetCommit, OffsetFetch, OffsetDelete and the requests of tools at a broker's port."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from tests.worlds.group_services import (
    GROUP,
    PARTITION,
    TIMEOUT_MS,
    commit_request,
    errors_of,
    group_server,
    offsets_of,
    sync_request,
)
from tests.worlds.serving import on_a_loop, until
from zkgroup.broker.groups.store_events import (
    OffsetsRecorded,
    Recorded,
    RetentionChecked,
    SlotResigned,
    WriteManyOffsets,
)
from zkgroup.broker.replica_view import Role
from zkgroup.broker.settings import BrokerSettings
from zkgroup.coordinator import events
from zkgroup.coordinator.descriptions import GROUP_OPERATIONS
from zkgroup.coordinator.effects import DeleteGroup
from zkgroup.coordinator.events import WriteOutcome
from zkgroup.coordinator.group_ids import slot_of
from zkgroup.model import TopicPartition
from zkgroup.wire import groups as wire
from zkgroup.wire.groups import NO_TIMER
from zkgroup.wire.metadata import NO_OPERATIONS
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC, OffsetAndMetadata

SECOND = TopicPartition("t", 1)
UNKNOWN = TopicPartition("no-such-topic", 0)


@pytest.mark.parametrize("version", range(9))
@on_a_loop
async def test_an_offset_is_committed_and_fetched_in_every_version(version: int) -> None:
    """Version 0 stores no metadata. All versions share the offsets."""
    async with group_server() as broker:
        client = await broker.client()
        request = commit_request((PARTITION, 5), metadata="m", retention_ms=1000)
        response = await client.ask(request, wire.OffsetCommitResponse, version)
        assert errors_of(response) == {PARTITION: 0}

        found = await client.fetch(PARTITION, version=min(version, 7))

        assert offsets_of(found) == {PARTITION: (5, "" if version == 0 else "m", 0)}
        stored = broker.store.offsets[GROUP][PARTITION]
        wall_ms = broker.clock.wall_ms()
        if version > 0:
            assert stored.commit_timestamp_ms == wall_ms
        assert stored.expire_timestamp_ms == (wall_ms + 1000 if 2 <= version <= 4 else None)
        await client.close()


@on_a_loop
async def test_the_commits_of_one_turn_reach_the_store_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a change that follows them in that turn comes to the store after them."""
    async with group_server() as broker:
        given: list[object] = []
        step = broker.store.step
        monkeypatch.setattr(
            broker.store, "step", lambda event, now: (given.append(event), step(event, now))[1]
        )
        commits = [
            events.CommitOffsets(
                request_id=broker.service.new_id(), group_id=GROUP, offsets={tp: OffsetAndMetadata(offset=5)}
            )
            for tp in (PARTITION, SECOND)
        ]

        waiting = [broker.service.ask(each) for each in commits]
        broker.service.on_role(TopicPartition(OFFSETS_TOPIC, 0), Role.NONE, 1)
        await asyncio.gather(*waiting)

        together, resigned = [each for each in given if isinstance(each, (WriteManyOffsets, SlotResigned))]
        assert isinstance(together, WriteManyOffsets)
        assert [dict(each.offsets) for each in together.writes] == [dict(each.offsets) for each in commits]
        assert resigned == SlotResigned(0, 1)


@on_a_loop
async def test_version_1_can_have_the_time_of_the_commit() -> None:
    """It is stored instead of the broker's; null metadata are stored as empty ones."""
    async with group_server() as broker:
        client = await broker.client()
        partition = wire.OffsetToCommit(partition=0, offset=5, timestamp_ms=77, metadata=None)
        topics = (wire.TopicToCommit(topic="t", partitions=(partition,)),)
        request = wire.OffsetCommitRequest(group=GROUP, topics=topics)
        await client.ask(request, wire.OffsetCommitResponse, 1)

        stored = broker.store.offsets[GROUP][PARTITION]
        assert (stored.commit_timestamp_ms, stored.metadata) == (77, "")
        await client.close()


@pytest.mark.parametrize("version", [0, 8])
@on_a_loop
async def test_a_partition_with_an_error_of_its_own_does_not_stop_the_others(version: int) -> None:
    """3 for an unknown one, 12 for long metadata."""
    settings = BrokerSettings(offset_metadata_max_bytes=3)
    async with group_server(settings) as broker:
        client = await broker.client()
        long = wire.OffsetToCommit(partition=1, offset=5, metadata="four")
        fits = wire.OffsetToCommit(partition=0, offset=5, metadata="äöü")
        topics = (
            wire.TopicToCommit(topic="t", partitions=(long, fits)),
            *commit_request((UNKNOWN, 5)).topics,
        )
        request = wire.OffsetCommitRequest(group=GROUP, topics=topics)
        response = await client.ask(request, wire.OffsetCommitResponse, version)

        assert errors_of(response) == {SECOND: 12, PARTITION: 0, UNKNOWN: 3}
        assert list(broker.store.offsets[GROUP]) == [PARTITION]
        await client.close()


@on_a_loop
async def test_a_commit_of_unknown_partitions_alone_asks_no_coordinator() -> None:
    """It has its own error, also where the group has no coordinator; no group comes into being."""
    async with group_server(leads=False) as broker:
        client = await broker.client()

        assert await client.commit((UNKNOWN, 1)) == {UNKNOWN: 3}
        assert broker.service.coordinator.group(GROUP) is None
        await client.close()


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (WriteOutcome.ZOOKEEPER_MEMBERS, 25),
        (WriteOutcome.NOT_OWNER, 16),
        (WriteOutcome.UNKNOWN, 15),
        (WriteOutcome.TOO_LARGE, 28),
    ],
)
@on_a_loop
async def test_a_commit_that_is_not_stored_says_why(outcome: WriteOutcome, error: int) -> None:
    """Each outcome of the store has its error; version 0 has one for all."""
    async with group_server() as broker:
        client = await broker.client()
        broker.store.outcome = outcome

        assert await client.commit() == {PARTITION: error}
        assert await client.commit(version=0) == {PARTITION: -1}
        await client.close()


@pytest.mark.parametrize(("version", "on_partition"), [(1, True), (2, False), (7, False)])
@on_a_loop
async def test_a_refused_fetch_has_its_error_where_the_version_has_it(
    version: int, on_partition: bool
) -> None:
    """Before version 2 at each partition, then at the top without partitions."""
    async with group_server(leads=False) as broker:
        client = await broker.client()

        found = await client.fetch(PARTITION, version=version)

        assert found.error == (0 if on_partition else 16)
        assert offsets_of(found) == ({PARTITION: (-1, "", 16)} if on_partition else {})
        await client.close()


@on_a_loop
async def test_fetches_of_one_partition_and_of_all() -> None:
    """A partition without an offset has -1 and no error, but 3 in version 0."""
    async with group_server() as broker:
        client = await broker.client()
        await client.commit((PARTITION, 5))

        assert offsets_of(await client.fetch(SECOND)) == {SECOND: (-1, "", 0)}
        assert offsets_of(await client.fetch(SECOND, version=0)) == {SECOND: (-1, "", 3)}
        assert offsets_of(await client.fetch(UNKNOWN, version=0)) == {UNKNOWN: (-1, "", 3)}
        assert offsets_of(await client.fetch()) == {PARTITION: (5, "", 0)}
        assert offsets_of(await client.fetch(group="other")) == {}
        broker.store.unreadable.add(SECOND)
        assert offsets_of(await client.fetch(SECOND, version=0)) == {SECOND: (-1, "", -1)}
        await client.close()


@on_a_loop
async def test_an_offset_that_is_being_written_is_unstable() -> None:
    """88 for that partition, where stable offsets are asked for."""
    async with group_server() as broker:
        writer, reader = await broker.client(), await broker.client()
        broker.store.holds = True
        writer.send(commit_request((PARTITION, 5)), 8)
        await until(lambda: broker.store.written)
        topic = wire.OffsetFetchTopic(topic="t", partitions=(0, 1))
        request = wire.OffsetFetchRequest(group=GROUP, topics=(topic,), require_stable=True)

        found = await reader.ask(request, wire.OffsetFetchResponse, 7)

        assert offsets_of(found) == {PARTITION: (-1, "", 88), SECOND: (-1, "", 0)}
        broker.release()
        await writer.receive(wire.OffsetCommitResponse, version=8)
        await writer.close()
        await reader.close()


@on_a_loop
async def test_the_empty_group_id_has_no_offsets() -> None:
    """Kafka keeps offsets of it; it can have no znode."""
    async with group_server() as broker:
        client = await broker.client()

        assert await client.commit(group="") == {PARTITION: 24}
        assert await client.commit(group="", version=0) == {PARTITION: -1}
        assert offsets_of(await client.fetch(PARTITION, group="")) == {PARTITION: (-1, "", 0)}
        assert offsets_of(await client.fetch(PARTITION, group="", version=0)) == {PARTITION: (-1, "", -1)}
        every = wire.OffsetFetchRequest(group="", topics=None)
        assert offsets_of(await client.ask(every, wire.OffsetFetchResponse, 2)) == {}
        assert broker.store.read == []
        assert (await client.describe("")).state == "Dead"
        await client.close()


@pytest.mark.parametrize("group", ["a/b", "a%b", ".", "..", "\0"])
@on_a_loop
async def test_a_group_id_that_can_be_no_znode_has_no_offsets(group: str) -> None:
    """24 in every version, and nothing is written."""
    async with group_server() as broker:
        client = await broker.client()

        for version in (0, 8):
            assert await client.commit(group=group, version=version) == {PARTITION: 24}
        assert (await client.fetch(PARTITION, group=group)).error == 24
        assert offsets_of(await client.fetch(PARTITION, group=group, version=0)) == {PARTITION: (-1, "", 24)}
        assert broker.store.written == []
        await client.close()


def _deletes(written: Iterable[object]) -> bool:
    """Whether a group was to be deleted, even if the store would have refused."""
    return any(isinstance(each, DeleteGroup) for each in written)


def delete_request(*partitions: TopicPartition) -> wire.OffsetDeleteRequest:
    return wire.OffsetDeleteRequest(
        group=GROUP,
        topics=tuple(
            wire.OffsetDeleteTopic(
                topic=tp.topic, partitions=(wire.OffsetDeletePartition(partition=tp.partition),)
            )
            for tp in partitions
        ),
    )


@pytest.mark.parametrize("version", [0, 1, 7])
@on_a_loop
async def test_offsets_of_zookeeper_consumers_with_a_long_group_id_are_read(version: int) -> None:
    """Their group id may have more than 255 bytes; only a coordinator makes no such group."""
    group = "g" * 300
    async with group_server() as broker:
        client = await broker.client()
        broker.store.offsets[group] = {PARTITION: OffsetAndMetadata(offset=5)}

        read = await client.fetch(PARTITION, version=version, group=group)

        assert offsets_of(read) == {PARTITION: (5, "", 0)}
        assert (await client.join(group=group)).error == 24
        await client.close()


@on_a_loop
async def test_offsets_are_deleted_one_by_one() -> None:
    """An empty group without offsets is removed with the last one."""
    async with group_server() as broker:
        client = await broker.client()
        await client.commit((PARTITION, 5), (SECOND, 6))

        first = await client.ask(delete_request(PARTITION, UNKNOWN), wire.OffsetDeleteResponse)
        assert (first.error, errors_of(first)) == (0, {PARTITION: 0, UNKNOWN: 3})
        assert (await client.describe()).state == "Empty"
        assert not _deletes(broker.store.written)
        assert offsets_of(await client.fetch()) == {SECOND: (6, "", 0)}

        last = await client.ask(delete_request(SECOND), wire.OffsetDeleteResponse)
        assert (last.error, errors_of(last)) == (0, {SECOND: 0})
        assert (await client.describe()).state == "Dead"
        gone = await client.ask(delete_request(SECOND), wire.OffsetDeleteResponse)
        assert (gone.error, gone.topics) == (69, ())
        await client.close()


@on_a_loop
async def test_offsets_of_a_subscribed_topic_stay() -> None:
    """86 for these; and for all while ZooKeeper consumers are members."""
    async with group_server() as broker:
        client = await broker.client()
        await client.commit((PARTITION, 5))
        broker.store.outcome = WriteOutcome.ZOOKEEPER_MEMBERS
        refused = await client.ask(delete_request(PARTITION), wire.OffsetDeleteResponse)
        assert (refused.error, errors_of(refused)) == (0, {PARTITION: 86})
        broker.store.outcome = WriteOutcome.STORED
        await client.join()  # its metadata cannot be read, so it may subscribe to any topic

        kept = await client.ask(delete_request(PARTITION), wire.OffsetDeleteResponse)

        assert (kept.error, errors_of(kept)) == (0, {PARTITION: 86})
        assert offsets_of(await client.fetch()) == {PARTITION: (5, "", 0)}
        await client.close()


@pytest.mark.parametrize("version", range(3))
@on_a_loop
async def test_groups_are_deleted_each_with_its_result(version: int) -> None:
    """68 with members, 69 for an unknown one, 24 for an invalid id; each once."""
    async with group_server() as broker:
        client = await broker.client()
        await client.commit(group="offsets")
        await client.join(group="members")
        request = wire.DeleteGroupsRequest(groups=("offsets", "members", "none", "a/b", "none"))

        response = await client.ask(request, wire.DeleteGroupsResponse, version)

        found = [(each.group, each.error) for each in response.groups]
        assert found == [("offsets", 0), ("members", 68), ("none", 69), ("a/b", 24)]
        assert broker.store.offsets == {}
        await client.close()


@on_a_loop
async def test_zookeeper_consumers_keep_a_group_that_no_client_has_used() -> None:
    """68 and 86 as for a group that is known; 69 for both once they have left."""
    async with group_server() as broker:
        client = await broker.client()
        broker.store.zookeeper_members[GROUP] = ("g_a",)
        groups = wire.DeleteGroupsRequest(groups=(GROUP,))

        (kept,) = (await client.ask(groups, wire.DeleteGroupsResponse)).groups
        offsets = await client.ask(delete_request(PARTITION, UNKNOWN), wire.OffsetDeleteResponse)

        assert kept.error == 68
        assert (offsets.error, errors_of(offsets)) == (0, {PARTITION: 86, UNKNOWN: 3})
        broker.store.zookeeper_members.clear()
        (gone,) = (await client.ask(groups, wire.DeleteGroupsResponse)).groups
        assert gone.error == 69
        assert (await client.ask(delete_request(PARTITION), wire.OffsetDeleteResponse)).error == 69
        await client.close()


@on_a_loop
async def test_expired_offsets_are_deleted_and_then_their_group() -> None:
    """The store reports the offsets of a group at intervals; the times are those of the clock."""
    async with group_server(BrokerSettings(offsets_retention_minutes=1)) as broker:
        client = await broker.client()
        await client.commit((PARTITION, 5), (SECOND, 6))
        now_ms = broker.clock.now_ms()
        offsets = {
            PARTITION: OffsetAndMetadata(offset=5, commit_timestamp_ms=now_ms - 60_000),
            SECOND: OffsetAndMetadata(offset=6, commit_timestamp_ms=now_ms - 59_999),
        }
        recorded = OffsetsRecorded(
            group_id=GROUP, offsets=offsets, recorded=dict.fromkeys(offsets, Recorded(1, 1)), has_others=False
        )
        broker.store.effects_before.append(recorded)
        broker.release()
        assert offsets_of(await client.fetch()) == {SECOND: (6, "", 0)}
        assert (await client.describe()).state == "Empty"

        broker.clock.jump(1)
        broker.store.effects_before.append(recorded)
        broker.store.offsets[GROUP][PARTITION] = OffsetAndMetadata(offset=5)
        broker.release()

        assert (await client.describe()).state == "Dead"
        assert broker.store.offsets == {}
        assert [str(each) for each in broker.logged if each.kind == "offsets_expired"] == [
            "offsets_expired group=g count=1",
            "offsets_expired group=g count=2",
        ]
        await client.close()


@on_a_loop
async def test_offsets_of_zookeeper_consumers_keep_their_group() -> None:
    """They do not expire; without them the group is removed."""
    async with group_server() as broker:
        client = await broker.client()
        await client.commit()
        broker.store.effects_before.append(
            OffsetsRecorded(group_id=GROUP, offsets={}, recorded={}, has_others=True)
        )
        broker.release()
        assert (await client.describe()).state == "Empty"
        assert not _deletes(broker.store.written)

        broker.store.offsets.clear()
        broker.store.effects_before.append(
            OffsetsRecorded(group_id=GROUP, offsets={}, recorded={}, has_others=False)
        )
        broker.release()
        assert (await client.describe()).state == "Dead"
        await client.close()


@on_a_loop
async def test_a_group_of_which_nothing_was_stored_is_forgotten() -> None:
    """Its client got an id and went; the retention reads only what is stored."""
    async with group_server() as broker:
        client = await broker.client()
        assert (await client.join(version=4)).error == 79
        assert (await client.describe()).state == "Empty"
        await client.commit(group="committed")
        slot = slot_of(GROUP, broker.store.slots)
        of_another = RetentionChecked((slot + 1) % max(broker.store.slots, 2), frozenset())
        known = RetentionChecked(slot, frozenset({GROUP}))
        broker.store.effects_before += [of_another, known]
        broker.release()
        assert (await client.describe()).state == "Empty"

        broker.store.effects_before.append(RetentionChecked(slot, frozenset()))
        broker.release()

        assert (await client.describe()).state == "Dead"
        await client.close()


@on_a_loop
async def test_a_group_that_has_got_an_offset_meanwhile_is_there_again() -> None:
    """The store refuses to delete a group that is over only by what was read before."""
    async with group_server() as broker:
        client = await broker.client()
        await client.commit()
        broker.store.effects_before.append(
            OffsetsRecorded(group_id=GROUP, offsets={}, recorded={}, has_others=False)
        )
        broker.release()

        assert (await client.describe()).state == "Empty"
        assert offsets_of(await client.fetch()) == {PARTITION: (1, "", 0)}
        await client.close()


@pytest.mark.parametrize("version", range(6))
@on_a_loop
async def test_a_group_is_described_in_every_version(version: int) -> None:
    """Members with their metadata and assignments while the group is stable."""
    async with group_server() as broker:
        client = await broker.client()
        member = (await client.join(version=5, group_instance_id="i")).member_id
        joining = await client.describe(version=version)
        await client.sync(member, 1, {member: b"mine"})

        stable = await client.describe(version=version, include_authorized_operations=True)

        assert (joining.state, joining.protocol, stable.state) == ("CompletingRebalance", "", "Stable")
        assert joining.authorized_operations == NO_OPERATIONS
        assert stable.authorized_operations == (GROUP_OPERATIONS if version >= 3 else NO_OPERATIONS)
        assert (stable.protocol_type, stable.protocol) == ("consumer", "range")
        (described,) = stable.members
        assert (described.member_id, described.metadata, described.assignment) == (member, b"m", b"mine")
        assert (described.client_id, described.client_host) == ("test", "/127.0.0.1")
        assert described.group_instance_id == ("i" if version >= 4 else None)
        assert (stable.phase, stable.generation, described.session_expires_in_ms) == ("", -1, NO_TIMER)
        await client.close()


@on_a_loop
async def test_phase_and_timers_are_described_for_those_who_ask() -> None:
    """Of zkgroup's tools; Kafka's clients get Kafka's bytes."""
    settings = BrokerSettings(group_initial_rebalance_delay_ms=1000, group_min_session_timeout_ms=10)
    async with group_server(settings) as broker:
        client, tool = await broker.client(), await broker.client()
        client.send_join()
        await until(lambda: broker.service.coordinator.group(GROUP))
        broker.clock.jump(400)
        waiting = await tool.describe(include_timers=True)
        broker.advance(600)
        joined = await client.receive(wire.JoinGroupResponse, version=3)
        broker.clock.jump(100)
        syncing = await tool.describe(include_timers=True)

        assert (waiting.phase, waiting.generation, waiting.phase_ends_in_ms) == (
            "InitialRebalanceDelay",
            0,
            600,
        )
        assert (waiting.members[0].has_joined, waiting.members[0].session_expires_in_ms) == (True, NO_TIMER)
        assert waiting.members[0].session_timeout_ms == waiting.members[0].rebalance_timeout_ms == TIMEOUT_MS
        assert (syncing.phase, syncing.leader) == ("CompletingRebalance", joined.member_id)
        assert syncing.phase_ends_in_ms == syncing.members[0].session_expires_in_ms == 9_900
        assert (syncing.members[0].has_joined, syncing.members[0].is_awaiting_sync) == (False, True)
        await client.close()
        await tool.close()


@pytest.mark.parametrize("version", range(5))
@on_a_loop
async def test_groups_are_listed_by_state(version: int) -> None:
    """From version 4 on with their states, and only those in the states that are asked for."""
    async with group_server() as broker:
        client = await broker.client()
        await client.commit(group="offsets")
        member = (await client.join(group="members")).member_id
        client.send(sync_request(member, 1, {member: b""}, group="members"), 3)
        await client.receive(wire.SyncGroupResponse, version=3)

        response = await client.ask(
            wire.ListGroupsRequest(states=("Stable",)), wire.ListGroupsResponse, version
        )

        found = {(each.group, each.protocol_type, each.state) for each in response.groups}
        every = {("offsets", "", ""), ("members", "consumer", "")}
        assert found == ({("members", "consumer", "Stable")} if version >= 4 else every)
        await client.close()


@on_a_loop
async def test_several_groups_are_deleted_at_the_same_time() -> None:
    """One write does not wait for the other."""
    async with group_server() as broker:
        client = await broker.client()
        await client.commit(group="a")
        await client.commit(group="b")
        broker.store.holds = True
        client.send(wire.DeleteGroupsRequest(groups=("a", "b")), 2)
        await until(lambda: len(broker.store.written) == 4)

        broker.release()
        response = await client.receive(wire.DeleteGroupsResponse, version=2)

        assert [each.error for each in response.groups] == [0, 0]
        await client.close()
        await asyncio.sleep(0)
