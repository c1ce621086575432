"""The store of groups on a real server: fences, chunks, lost replies, the marker, what may expire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.real.broker.server_stores import ServerStore, ServerStores
from tests.waiting import PATIENCE_S, eventually
from tests.worlds.stepped_stores import GROUP, P0, member, record
from zkgroup.broker.groups.store_events import (
    ExpireOffsets,
    GroupStoreConfig,
    OffsetsExpired,
    OffsetsRecorded,
)
from zkgroup.coordinator.events import SlotUnloaded, WriteOutcome
from zkgroup.errors import ZkGroupError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, SetData
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.znodes.consumers import group_path, ids_path, offset_path
from zkgroup.znodes.coordinated_groups import GroupChunk, GroupHeader, OffsetAndMetadata, ProtocolMarker
from zkgroup.zookeeper.blocking import Blocking

STORED = WriteOutcome.STORED
HEADER = GroupHeader.path(0, GROUP)
MARKER = ProtocolMarker.path(GROUP)


@pytest.fixture
def stores(zk_server: Any, witness: Blocking) -> Iterator[ServerStores]:
    world = ServerStores(zk_server.address, witness)
    try:
        yield world
    finally:
        world.close()


@pytest.fixture
def behind(
    zk_chaos_server: ChaosZooKeeper, witness: Blocking
) -> Iterator[tuple[ServerStores, ChaosZooKeeper]]:
    """Stores behind a network that can be broken."""
    world = ServerStores(zk_chaos_server.direct_address, witness, through=zk_chaos_server.address)
    try:
        yield world, zk_chaos_server
    finally:
        zk_chaos_server.heal()
        world.close()


@pytest.fixture
def owner(stores: ServerStores) -> ServerStore:
    """Broker 1, which has loaded the slot with nothing in it."""
    node = stores.node(1)
    assert stores.lead(node).groups == ()
    return node


def test_a_new_leader_reads_what_was_stored_and_the_former_one_writes_no_more(
    stores: ServerStores, owner: ServerStore
) -> None:
    """Recipes 20: fence first, read after. The former leader, which was told nothing, loses the slot."""
    owner.stable()
    assert owner.commit(5) is STORED
    other = stores.node(2)

    loaded = stores.lead(other)

    assert [(each.group_id, each.generation, each.members) for each in loaded.groups] == [
        (GROUP, 1, record().members)
    ]
    assert owner.store(record(generation=2)) is WriteOutcome.NOT_OWNER
    assert owner.commit(6) is WriteOutcome.NOT_OWNER
    owner.next(SlotUnloaded)
    assert other.commit(7) is STORED
    assert other.store(record(generation=101, reserved=200)) is STORED
    assert stores.zk.read(offset_path(GROUP, P0)).data == b"7"


def test_a_group_of_more_than_a_mebibyte_is_stored_in_chunks(
    stores: ServerStores, owner: ServerStore
) -> None:
    """ZooKeeper closes the connection at a request of more than 1 MiB; none is sent."""
    members = [member(f"m{number}", metadata=bytes([number]) * 500_000) for number in range(3)]
    assert owner.claim() is STORED
    for generation in (1, 2):
        assert owner.store(record(generation=generation, members=members)) is STORED

    loaded = stores.lead(stores.node(2))

    (group,) = loaded.groups
    assert (group.generation, group.members) == (2, tuple(members))
    chunks = [
        parts for name in stores.zk.list_many([HEADER])[HEADER] or () if (parts := GroupChunk.parse(name))
    ]
    assert len(chunks) > 2
    assert {generation for generation, _ in chunks} == {2}


def test_commits_that_come_together_are_few_transactions(stores: ServerStores, owner: ServerStore) -> None:
    """While one transaction is under way, the others are collected: all have its zxid (recipes 23)."""
    partitions = [TopicPartition("t", number) for number in range(100)]
    assert owner.commit(0, partitions[0]) is STORED
    sent: list[int] = []
    owner.loop.post(lambda: sent.extend(owner.begin_commit(9, each) for each in partitions))
    numbers = eventually(lambda: sent, lambda found: len(found) == len(partitions))
    assert {owner.commit_outcomes(each)[tp] for each, tp in zip(numbers, partitions, strict=True)} == {STORED}

    written = {stores.zk.read(offset_path(GROUP, each)).stat.mzxid for each in partitions}

    assert len(written) <= 3
    assert {stores.zk.read(offset_path(GROUP, each)).data for each in partitions} == {b"9"}


def test_a_write_of_a_group_without_a_reply_is_read_back(
    behind: tuple[ServerStores, ChaosZooKeeper],
) -> None:
    """It is stored once; the coordinator learns that it is (recipes 21)."""
    stores, chaos = behind
    node = stores.node(1)
    stores.lead(node)
    assert node.claim() is STORED
    version = stores.zk.read(HEADER).stat.version
    dropped = chaos.drop_reply("multi")

    assert node.store(record()) is STORED

    dropped.wait(0)
    assert stores.zk.read(HEADER).stat.version == version + 1


def test_a_commit_without_a_reply_is_unknown_and_not_sent_again(
    behind: tuple[ServerStores, ChaosZooKeeper],
) -> None:
    """Recipes 23: the client gets 15. An offset that somebody sets meanwhile is not overwritten."""
    stores, chaos = behind
    node = stores.node(1)
    stores.lead(node)
    assert node.commit(1) is STORED
    dropped = chaos.drop_reply("multi", then_refuse=True)

    write_id = node.begin_commit(2)
    eventually(lambda: stores.zk.read(offset_path(GROUP, P0)).data == b"2")
    stores.zk.multi(SetData(offset_path(GROUP, P0), b"1", -1))
    dropped.wait(PATIENCE_S)
    chaos.heal()

    assert node.commit_outcomes(write_id) == {P0: WriteOutcome.UNKNOWN}
    assert stores.zk.read(offset_path(GROUP, P0)).data == b"1"
    assert node.commit(3) is STORED


def test_a_group_has_members_of_one_kind_at_a_time(stores: ServerStores, owner: ServerStore) -> None:
    """Each kind is refused while the other is there; an Empty group has no marker (recipes 22)."""
    stores.zk.create_missing(group_path(GROUP), ids_path(GROUP))
    stores.zk.multi(Create(f"{ids_path(GROUP)}/c1", b"{}", ephemeral=True))
    assert owner.claim() is WriteOutcome.ZOOKEEPER_MEMBERS

    stores.zk.multi(Delete(f"{ids_path(GROUP)}/c1", -1))
    owner.stable()
    register = (Create(MARKER, None), Delete(MARKER, -1), Create(f"{ids_path(GROUP)}/c1", b"{}"))
    with pytest.raises(ZkGroupError):
        stores.zk.multi(*register)
    assert stores.zk.find(f"{ids_path(GROUP)}/c1") is None

    assert owner.store(record(generation=2, members=())) is STORED
    assert stores.zk.find(MARKER) is None
    stores.zk.multi(*register)
    assert owner.claim() is WriteOutcome.ZOOKEEPER_MEMBERS


def test_only_what_the_coordinator_wrote_last_expires(stores: ServerStores, owner: ServerStore) -> None:
    """An offset that was deleted and created again has version 0, as the coordinator's had (recipes 23)."""
    kept, made_again = P0, TopicPartition("t", 1)
    assert {owner.commit(5, each) for each in (kept, made_again)} == {STORED}
    owner.advance(GroupStoreConfig(broker=1).offsets_retention_check_interval_ms)
    recorded = owner.next(OffsetsRecorded)
    assert set(recorded.offsets) == {kept, made_again}
    path = offset_path(GROUP, made_again)
    assert stores.zk.read(path).stat.version == 0
    stores.zk.multi(Delete(path, -1), Create(path, b"5"))

    owner.loop.post(ExpireOffsets(GROUP, recorded.recorded))

    expired = owner.next(OffsetsExpired)
    assert (expired.partitions, expired.has_offsets) == ({kept}, True)
    assert stores.zk.find(offset_path(GROUP, kept)) is None
    assert stores.zk.find(OffsetAndMetadata.path(0, GROUP, kept)) is None
    assert stores.zk.read(path).data == b"5"
