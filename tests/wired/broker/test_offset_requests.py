"""ListOffsets, OffsetForLeaderEpoch and InitProducerId at a broker's port, in each version."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.pure.broker.log.made_batches import batch
from tests.worlds.broker_requests import state, update_metadata
from tests.worlds.replica_managers import TP, in_memory, pair, replicate
from tests.worlds.serving import Client, on_a_loop, served
from zkgroup.broker.machine.events import ProducerIdsClaimed
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.server.produce_requests import ProducerIdManager
from zkgroup.wire.control import UpdateMetadataResponse
from zkgroup.wire.messages import Request, Response, encode_request
from zkgroup.wire.records import (
    EARLIEST,
    LATEST,
    EpochEndResult,
    EpochPartition,
    EpochTopic,
    EpochTopicResult,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListedPartition,
    ListedTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from zkgroup.znodes.cluster import ProducerIdBlock


@dataclass
class Asking:
    """A connection that sends requests of any version."""

    client: Client

    async def ask(self, request: Request, version: int) -> Response:
        self.client.sent += 1
        self.client.writer.write(encode_request(request, self.client.sent, "test", version=version))
        return await self.client.receive(request.RESPONSE, version=version)


def led() -> ReplicaManager:
    """Three records in leader epochs 0 and 2."""
    host = in_memory(1)
    host.become_leader(TP, 0, (1,), {1})
    host.append(TP, batch(b"a", b"b", timestamp=[100, 200]))
    host.become_leader(TP, 2, (1,), {1})
    host.append(TP, batch(b"c", timestamp=300))
    return host


def offsets(*times: int, partition: int = 0) -> ListOffsetsRequest:
    """One request of a consumer for each time, as topics of one name may be repeated."""
    partitions = tuple(ListOffsetsPartition(partition + number, time) for number, time in enumerate(times))
    return ListOffsetsRequest(-1, (ListOffsetsTopic("orders", partitions),))


def listed(*partitions: ListedPartition) -> ListOffsetsResponse:
    return ListOffsetsResponse((ListedTopic("orders", partitions),))


@on_a_loop
@pytest.mark.parametrize("version", range(1, 7))
async def test_offsets_are_listed_in_every_version(version: int) -> None:
    """With leader epochs from version 4 on."""
    async with served(led()) as one:
        asking = Asking(await one.client())
        first, second = (0, 2) if version >= 4 else (-1, -1)

        for time_ms, expected in (
            (EARLIEST, ListedPartition(0, 0, (), -1, 0, first)),
            (LATEST, ListedPartition(0, 0, (), -1, 3, second)),
            (101, ListedPartition(0, 0, (), 200, 1, first)),
            (301, ListedPartition(0, 0)),
        ):
            assert await asking.ask(offsets(time_ms), version) == listed(expected)
        await asking.client.close()


@on_a_loop
async def test_version_0_lists_the_starts_of_segments() -> None:
    """The latest first, and the end before them; also for a partition that is asked for twice."""
    times = ((EARLIEST, 2), (LATEST, 1), (LATEST, 5), (LATEST, 0), (-3, 5))
    parts = tuple(ListOffsetsPartition(0, time, max_offsets=count) for time, count in times)
    async with served(led()) as one:
        asking = Asking(await one.client())
        elsewhere = ListOffsetsPartition(1, LATEST)
        request = ListOffsetsRequest(-1, (ListOffsetsTopic("orders", (*parts, elsewhere)),))

        assert await asking.ask(request, 0) == listed(
            *(ListedPartition(0, 0, found) for found in ((0,), (3,), (3, 0), (), ())), ListedPartition(1, 3)
        )
        await asking.client.close()


@on_a_loop
async def test_partitions_that_are_not_led_here_have_errors() -> None:
    """6 where the metadata has them, else 3; the others are answered."""
    async with served(led()) as one:
        asking = Asking(await one.client())
        elsewhere = update_metadata(state(type(TP)("orders", 1), leader=2, replicas=(2, 3), isr=(2, 3)))
        await asking.client.ask(elsewhere, UpdateMetadataResponse)

        assert await asking.ask(offsets(LATEST, LATEST, LATEST), 6) == listed(
            ListedPartition(0, 0, (), -1, 3, 2), ListedPartition(1, 6), ListedPartition(2, 3)
        )
        epochs = tuple(EpochPartition(number, -1, 0) for number in range(3))
        assert await asking.ask(
            OffsetForLeaderEpochRequest(topics=(EpochTopic("orders", epochs),)), 4
        ) == OffsetForLeaderEpochResponse(
            topics=(
                EpochTopicResult(
                    "orders", (EpochEndResult(0, 0, 0, 2), EpochEndResult(6, 1), EpochEndResult(3, 2))
                ),
            )
        )
        await asking.client.close()


@on_a_loop
async def test_a_partition_that_is_asked_for_twice_is_refused() -> None:
    """Error 42 each time, as in Kafka."""
    twice = tuple(ListOffsetsPartition(0, time) for time in (EARLIEST, LATEST))
    async with served(led()) as one:
        asking = Asking(await one.client())

        assert await asking.ask(ListOffsetsRequest(-1, (ListOffsetsTopic("orders", twice),)), 6) == listed(
            ListedPartition(0, 42), ListedPartition(0, 42)
        )
        await asking.client.close()


@on_a_loop
@pytest.mark.parametrize(("version", "error"), [(4, 5), (5, 78)])
async def test_clients_of_old_versions_do_not_know_error_78(version: int, error: int) -> None:
    """They get 5, at which they ask again as well."""
    leader, host = in_memory(2), in_memory(1)
    pair(leader, host)
    leader.append(TP, batch(b"a"))
    replicate(leader, host, TP, until=1)
    host.become_leader(TP, 1, (1, 2), {1, 2})
    async with served(host) as one:
        asking = Asking(await one.client())

        assert await asking.ask(offsets(LATEST), version) == listed(ListedPartition(0, error))
        await asking.client.close()


@on_a_loop
@pytest.mark.parametrize("version", range(5))
async def test_the_end_of_a_leader_epoch_is_answered_in_every_version(version: int) -> None:
    """For a consumer that has fetched up to an epoch; from version 1 on with the epoch."""
    asked = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=(EpochTopic("orders", (EpochPartition(0, 2, 1),)),)
    )
    async with served(led()) as one:
        asking = Asking(await one.client())

        assert await asking.ask(asked, version) == OffsetForLeaderEpochResponse(
            topics=(EpochTopicResult("orders", (EpochEndResult(0, 0, 0 if version else -1, 2),)),)
        )
        await asking.client.close()


@on_a_loop
@pytest.mark.parametrize("version", range(5))
async def test_a_producer_gets_an_id_in_every_version(version: int) -> None:
    """Epoch 0; a transactional id is refused with 53."""
    ids = ProducerIdManager(lambda: None)
    ids.claimed(ProducerIdsClaimed(ProducerIdBlock(1, 3000, 3999)))
    async with served(led(), producer_ids=ids) as one:
        asking = Asking(await one.client())

        assert await asking.ask(InitProducerIdRequest(None, 0), version) == InitProducerIdResponse(0, 3000, 0)
        assert await asking.ask(InitProducerIdRequest("pay", 0), version) == InitProducerIdResponse(53)
        await asking.client.close()
