"""Blocks of producer ids: how a broker claims them in ZooKeeper, and gives out their ids."""

from __future__ import annotations

import asyncio

import pytest

from tests.pure.broker.stepped_brokers import BrokerNode, SteppedBrokers, alone
from tests.worlds.acls import UNREADABLE
from tests.worlds.serving import on_a_loop
from zkgroup.broker.machine.events import ClaimProducerIds, ProducerIdsClaimed
from zkgroup.broker.server.connection_choice import Peer
from zkgroup.broker.server.handlers import RequestContext
from zkgroup.broker.server.produce_requests import ProducerIdManager
from zkgroup.wire.messages import Api, ErrorCode, RequestHeader
from zkgroup.wire.records import InitProducerIdRequest, InitProducerIdResponse
from zkgroup.znodes.cluster import ProducerIdBlock

PATH = ProducerIdBlock.path()


def claim(world: SteppedBrokers, node: BrokerNode) -> list[ProducerIdsClaimed]:
    """The results of one claim."""
    node.effects.clear()
    node.loop.post(ClaimProducerIds())
    world.run()
    return node.emitted(ProducerIdsClaimed)


def stored(world: SteppedBrokers) -> ProducerIdBlock:
    return ProducerIdBlock.decode(PATH, world.find(PATH).data)


def test_blocks_follow_each_other() -> None:
    """The first one creates the znode, which a cluster of 0.8 does not have; brokers share it."""
    world, one = alone()
    two = world.node(2)
    world.run()

    assert claim(world, one) == [ProducerIdsClaimed(ProducerIdBlock(1, 0, 999))]
    assert stored(world) == ProducerIdBlock(1, 0, 999)
    assert claim(world, two) == [ProducerIdsClaimed(ProducerIdBlock(2, 1000, 1999))]
    assert claim(world, one) == [ProducerIdsClaimed(ProducerIdBlock(1, 2000, 2999))]
    assert stored(world) == ProducerIdBlock(1, 2000, 2999)


def test_the_znode_that_a_broker_of_kafka_creates_has_no_data() -> None:
    """It gets the first block."""
    world, one = alone()
    world.server.put(PATH, b"")

    assert claim(world, one) == [ProducerIdsClaimed(ProducerIdBlock(1, 0, 999))]
    assert world.find(PATH).stat.version == 1


@pytest.mark.parametrize("latest", [None, b"", ProducerIdBlock(3, 0, 999).encode()])
def test_a_broker_that_is_slower_takes_the_next_block(latest: bytes | None) -> None:
    """Its write at the version that it has read is refused: its znode, data or block is there by now."""
    world, one = alone()
    two = world.node(2)
    world.run()
    if latest is not None:
        world.server.put(PATH, latest)
    one.loop.post(ClaimProducerIds())
    world.until_asked(one, PATH)
    world.server.put(PATH, ProducerIdBlock(2, 1000, 1999).encode())
    world.run()

    assert one.emitted(ProducerIdsClaimed) == [ProducerIdsClaimed(ProducerIdBlock(1, 2000, 2999))]
    assert claim(world, two) == [ProducerIdsClaimed(ProducerIdBlock(2, 3000, 3999))]


def test_a_claim_without_an_answer_is_error_14_and_its_block_is_not_given_out() -> None:
    """The write was applied, which nobody knows: the next claim takes another block."""
    world, one = alone()
    one.effects.clear()
    one.loop.post(ClaimProducerIds())
    world.until_asked(one, PATH)
    world.lose(one, "lost_reply")
    world.run()

    assert one.emitted(ProducerIdsClaimed) == [
        ProducerIdsClaimed(None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    ]
    world.advance(1000)
    assert claim(world, one) == [ProducerIdsClaimed(ProducerIdBlock(1, 1000, 1999))]


def test_without_a_connection_a_claim_is_refused_at_once() -> None:
    """Error 14, so that a client does not wait for ZooKeeper."""
    world, one = alone()
    one.effects.clear()
    world.server.cut("n0")
    world.run(lambda: not one.machine.core.connected)
    one.loop.post(ClaimProducerIds())
    one.loop.run_pending()

    assert one.emitted(ProducerIdsClaimed) == [
        ProducerIdsClaimed(None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    ]


def test_a_znode_that_cannot_be_read_is_named() -> None:
    """Error -1, and a warning; the broker goes on. The same where the ids are used up."""
    world, one = alone()
    for data in (b"{}", ProducerIdBlock(1, 2**63 - 1001, 2**63 - 2).encode()):
        world.server.put(PATH, data)

        assert claim(world, one) == [ProducerIdsClaimed(None, ErrorCode.UNKNOWN)]
        assert [dict(note.fields)["path"] for note in one.notes("producer_ids.unreadable")] == [PATH]
    world.server.set_acl(PATH, UNREADABLE)
    assert claim(world, one) == [ProducerIdsClaimed(None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]


CONTEXT = RequestContext(RequestHeader(Api.INIT_PRODUCER_ID, 4, 1, "test"), Peer("127.0.0.1", 1))


def asked(
    producer_id: int = -1, epoch: int = -1, transactional_id: str | None = None
) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id, 60_000, producer_id, epoch)


class Claims:
    """Counts claims; the test gives their results."""

    def __init__(self, claim_s: float = 60.0) -> None:
        self.count = 0
        self.manager = ProducerIdManager(self._claim, claim_s)

    def _claim(self) -> None:
        self.count += 1

    async def ask(self, request: InitProducerIdRequest | None = None) -> InitProducerIdResponse:
        return await self.manager.init_producer_id(CONTEXT, request or asked())

    def claimed(self, first: int, last: int) -> None:
        self.manager.claimed(ProducerIdsClaimed(ProducerIdBlock(1, first, last)))


async def begun(claims: Claims, count: int) -> list[asyncio.Task[InitProducerIdResponse]]:
    """So many requests, which wait."""
    tasks = [asyncio.create_task(claims.ask()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


@on_a_loop
async def test_each_id_is_given_out_once() -> None:
    """Requests that wait share a claim; a block that is too small is followed by another one."""
    claims = Claims()
    tasks = await begun(claims, 5)
    assert claims.count == 1

    claims.claimed(7, 9)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert claims.count == 2
    claims.claimed(1000, 1999)

    answers = [await task for task in tasks]
    assert sorted(answer.producer_id for answer in answers) == [7, 8, 9, 1000, 1001]
    assert {(answer.error, answer.producer_epoch) for answer in answers} == {(0, 0)}
    assert (await claims.ask()).producer_id == 1002
    assert claims.count == 2


@on_a_loop
async def test_an_error_of_a_claim_is_the_answer() -> None:
    """And the next request claims again."""
    claims = Claims()
    (task,) = await begun(claims, 1)
    claims.manager.claimed(ProducerIdsClaimed(None, ErrorCode.UNKNOWN))

    assert await task == InitProducerIdResponse(-1)
    (task,) = await begun(claims, 1)
    assert claims.count == 2
    claims.claimed(0, 999)
    assert await task == InitProducerIdResponse(0, 0, 0)


@on_a_loop
async def test_a_claim_that_is_not_answered_is_error_14() -> None:
    """The client tries again. A block that comes later is used."""
    claims = Claims(claim_s=0.001)

    assert await claims.ask() == InitProducerIdResponse(14)
    claims.claimed(0, 999)
    assert await claims.ask() == InitProducerIdResponse(0, 0, 0)
    assert claims.count == 1


@on_a_loop
async def test_a_producer_that_has_an_id_gets_a_new_one() -> None:
    """KIP-360, without a transactional id: as from a broker of 2.8. Id or epoch alone is error 42."""
    claims = Claims()
    claims.claimed(10, 19)

    assert await claims.ask(asked(3, 4)) == InitProducerIdResponse(0, 10, 0)
    assert await claims.ask(asked(3, -1)) == InitProducerIdResponse(42)
    assert await claims.ask(asked(-1, 4)) == InitProducerIdResponse(42)


@on_a_loop
async def test_there_are_no_transactions() -> None:
    """Error 53, at which clients fail at once."""
    claims = Claims()
    claims.claimed(10, 19)

    assert await claims.ask(asked(transactional_id="pay")) == InitProducerIdResponse(53)
    assert await claims.ask(asked(transactional_id="")) == InitProducerIdResponse(42)  # as Kafka 2.8.2
