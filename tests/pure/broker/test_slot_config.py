"""The number of slots, how a broker reads it and who waits for it; their replicas, which lack no records."""

from __future__ import annotations

import asyncio

import pytest

from tests.worlds.acls import UNREADABLE
from tests.worlds.replica_managers import in_memory
from tests.worlds.serving import on_a_loop
from tests.worlds.stepped_brokers import BrokerNode, SteppedBrokers, alone
from zkgroup.broker.machine.events import ReadSlotConfig, SlotConfigRead
from zkgroup.broker.server.slot_count import SlotCount
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC, SlotConfig

PATH = SlotConfig.path()


def read(world: SteppedBrokers, node: BrokerNode) -> list[SlotConfigRead]:
    """The results of one read."""
    world.run()  # its server has what was written before
    node.effects.clear()
    node.loop.post(ReadSlotConfig())
    world.run()
    return node.emitted(SlotConfigRead)


def test_the_number_is_that_of_the_znode() -> None:
    """None before it is written, and where it cannot be read: a broker never takes its own setting."""
    world, one = alone()

    assert read(world, one) == [SlotConfigRead(None)]
    world.server.put(PATH, b"{}")
    assert read(world, one) == [SlotConfigRead(None)]
    assert [dict(note.fields)["path"] for note in one.notes("slot_config.unreadable")] == [PATH]
    world.server.put(PATH, SlotConfig(7).encode())
    assert read(world, one) == [SlotConfigRead(7)]
    world.server.set_acl(PATH, UNREADABLE)
    assert read(world, one) == [SlotConfigRead(None)]


def test_without_a_connection_a_read_ends_at_once() -> None:
    """So that a client does not wait for ZooKeeper."""
    world, one = alone()
    one.effects.clear()
    world.server.cut("n0")
    world.run(lambda: not one.machine.core.connected)
    one.loop.post(ReadSlotConfig())
    one.loop.run_pending()

    assert one.emitted(SlotConfigRead) == [SlotConfigRead(None)]


@on_a_loop
async def test_a_number_that_is_known_is_not_read_again() -> None:
    """Clients that ask at the same time wait for one read; the answer "not written" is not kept."""
    reads: list[None] = []
    count = SlotCount(lambda: reads.append(None))
    first = [asyncio.create_task(count.get()) for _ in range(3)]
    await asyncio.sleep(0)
    count.read(None)

    assert await asyncio.gather(*first) == [None] * 3
    second = asyncio.create_task(count.get())
    await asyncio.sleep(0)
    count.read(50)
    assert (await second, await count.get(), len(reads)) == (50, 50, 2)


@on_a_loop
async def test_a_read_without_a_result_ends() -> None:
    """Its client gets error 15 and asks again; a result that comes late is used."""
    reads: list[None] = []
    count = SlotCount(lambda: reads.append(None), read_s=0)

    assert (await count.get(), await count.get(), len(reads)) == (None, None, 2)
    count.read(50)
    assert await count.get() == 50


# --- replicas -------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, "orders"])
def test_a_replica_of_a_slot_leads_without_files(topic: str) -> None:
    """Its log is empty; a replica of another topic may have lost records (56)."""
    host, tp = in_memory(1), TopicPartition(topic, 0)
    may_lead = topic == OFFSETS_TOPIC

    error = host.become_leader(tp, 3, (1, 2), {1})

    assert error == (ErrorCode.NONE if may_lead else ErrorCode.KAFKA_STORAGE_ERROR)


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, "orders"])
def test_a_follower_of_a_slot_leads_before_it_has_fetched(topic: str) -> None:
    """It cannot catch up with anything."""
    host, tp = in_memory(1), TopicPartition(topic, 0)
    assert host.become_follower(tp, 3) is ErrorCode.NONE

    error = host.become_leader(tp, 4, (1, 2), {1, 2})

    assert (error is ErrorCode.NONE) == (topic == OFFSETS_TOPIC)
