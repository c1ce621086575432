"""Whatever a client sends, it is answered or disconnected; the broker goes on, and is told of no bug."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.pure.properties.frame_values import values_of_kind
from tests.waiting import PATIENCE_S
from tests.worlds.broker_requests import leader_and_isr, state, stop_replica, update_metadata
from tests.worlds.group_services import MemoryGroupStore
from tests.worlds.memory_cluster import MemoryCluster
from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.replica_managers import in_memory, on_disk
from tests.worlds.serving import Client, context_of, on_a_loop, opened, until
from tests.worlds.wire_requests import REQUESTS
from zkgroup.broker.admin import apis as admin_apis
from zkgroup.broker.admin.rows import AdminRows
from zkgroup.broker.groups.handlers import GroupHandlers
from zkgroup.broker.groups.service import GroupCoordinatorService
from zkgroup.broker.replica_view import Role
from zkgroup.broker.replicas.executor import ReplicaExecutor
from zkgroup.broker.replicas.min_insync import MinInsync
from zkgroup.broker.server.apis import BrokerApis
from zkgroup.broker.server.control_requests import ControlRequestHandler
from zkgroup.broker.server.metadata_cache import MetadataCache
from zkgroup.broker.server.metadata_requests import cached
from zkgroup.broker.server.port import ConnectionLimits
from zkgroup.broker.server.produce_requests import ProducerIdManager
from zkgroup.broker.server.server import BrokerServer
from zkgroup.broker.settings import BrokerSettings
from zkgroup.model import TopicPartition
from zkgroup.testing.clock import FakeClock
from zkgroup.wire.control import LeaderAndIsrResponse, PartitionStateInfo
from zkgroup.wire.messages import Request, decode_response, encode_request
from zkgroup.wire.metadata import ApiVersionsRequest, ApiVersionsResponse
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC
from zkgroup.zookeeper.client import SystemClock

LIMITS = ConnectionLimits(request_bytes_max=10_000, buffered_bytes_max=100_000, request_ms=30)
WAITS = {"max_wait_ms", "timeout_ms", "rebalance_timeout_ms"}
"""Fields that delay an answer."""
SESSION_MS = 50
"""Longest session timeout of a group's member, and so the longest time that its requests are parked."""
GROUPS = BrokerSettings(
    group_initial_rebalance_delay_ms=0,
    group_min_session_timeout_ms=1,
    group_max_session_timeout_ms=SESSION_MS,
)
AIMED = {"topic": "orders", "group": "g", "protocol_type": "consumer", "session_timeout_ms": SESSION_MS}
"""What an aimed request has in the fields of these names."""
LAST, LAST_ID = ApiVersionsRequest("last", "1"), 77


@dataclass
class Running:
    """A broker that leads `orders-0` and follows `orders-1`, with every handler, also of admin and groups."""

    loop: asyncio.AbstractEventLoop
    apis: BrokerApis
    server: BrokerServer
    replicas: ReplicaExecutor
    admin: AdminRows
    groups: GroupCoordinatorService
    crashes: list[Exception]
    address: tuple[str, int] = ("", 0)

    def run(self, scenario: Any) -> Any:
        async def within() -> Any:
            async with asyncio.timeout(PATIENCE_S):
                return await scenario

        return self.loop.run_until_complete(within())

    async def client(self) -> Client:
        return Client(*await asyncio.open_connection(*self.address))


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(admin_apis, "TIMEOUT_MAX_S", 0.0)  # no effect is awaited, whatever a frame says
    loop = asyncio.new_event_loop()
    world = MemoryGroups()
    cluster = MemoryCluster(world)
    cluster.ours()
    cluster.topic("orders", (1, 2), (2, 1))

    async def started() -> Running:
        cache = MetadataCache()
        cache.update(update_metadata(state(), state(TopicPartition("orders", 1))), 0)
        replicas = ReplicaExecutor(in_memory(1))
        admin = AdminRows(
            lambda: admin_apis.AdminApis(
                world.server.client("broker"),
                SystemClock(),
                cache,
                broker=1,
                settings=BrokerSettings(),
                started={},
            )
        )
        crashes: list[Exception] = []
        groups = GroupCoordinatorService(
            1,
            world.server.client("groups"),
            SystemClock(),
            GROUPS,
            on_crash=crashes.append,
            machine=MemoryGroupStore(),
        )
        handlers = GroupHandlers(groups, cache.knows, SystemClock(), GROUPS.offset_metadata_max_bytes)
        groups.start()
        groups.on_role(TopicPartition(OFFSETS_TOPIC, 0), Role.LEADER, 0)
        apis = BrokerApis(
            broker=1,
            control_requests=ControlRequestHandler(1, MetadataCache()),
            metadata=cached(cache),
            clock=FakeClock(),
            replicas=replicas,
            further=(*admin.rows(), *handlers.rows()),
            min_insync=MinInsync(1, 1),
            is_known=lambda tp: cache.partition(tp) is not None,
            producer_ids=ProducerIdManager(lambda: None, claim_s=0.01),
        )
        server = BrokerServer(apis.respond, apis.table.requests, LIMITS)
        return Running(loop, apis, server, replicas, admin, groups, crashes)

    running = loop.run_until_complete(started())
    running.address = running.run(opened(running.server))
    yield running
    for part in (running.server, running.apis, running.replicas):
        running.run(part.close())
    running.admin.close()
    running.groups.close()
    assert running.crashes == []
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    for client in list(world.server.clients.values()):
        client.close()


async def give_roles(client: Client) -> None:
    """The roles of the broker, unless a later controller has been heard or a request has ended them."""
    lead, follow = state(isr=(1,)), state(TopicPartition("orders", 1), leader=2)
    await client.ask(leader_and_isr(lead, follow), LeaderAndIsrResponse)


async def payloads(running: Running, frame: bytes) -> list[bytes]:
    """The answers to a frame, and to ApiVersions behind it; none after the end of the connection."""
    client = await running.client()
    await give_roles(client)
    client.writer.write(frame + encode_request(LAST, LAST_ID, "last", version=3))
    found: list[bytes] = []
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while not (found and found[-1].startswith(LAST_ID.to_bytes(4, "big"))):
            found.append(await client.frame())
    await client.close()
    await until(lambda: running.server.connections == 0)
    assert running.server.held == 0
    return found


def bugs(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What is logged with a traceback, and responses that do not fit their fields."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.exc_info is not None or "cannot be encoded" in record.getMessage()
    ]


def without_waits(request: Any) -> Any:
    return replace(request, **{field.name: 0 for field in fields(request) if field.name in WAITS})


def aimed(value: Any) -> Any:
    """A request for partitions that are there, and of members of one group, as far as it names any."""
    if isinstance(value, TopicPartition):
        return TopicPartition("orders", value.partition % 2)
    if isinstance(value, PartitionStateInfo):
        return value._replace(topic="orders", partition=value.partition % 2)
    if isinstance(value, tuple):
        return tuple(map(aimed, value))
    if not is_dataclass(value):
        return value
    found = {field.name: aimed(getattr(value, field.name)) for field in fields(value)}
    named = {name: value for name, value in AIMED.items() if isinstance(found.get(name), type(value))}
    if isinstance(found.get("partition"), int):
        named["partition"] = found["partition"] % 2
    return replace(value, **{**found, **named})  # type: ignore[type-var]


def a_request(broker: Running, data: st.DataObject) -> tuple[type[Request], int, bytes]:
    """A request of any served API in any served version, with any values: its kind, version and frame."""
    key = data.draw(st.sampled_from(sorted(broker.apis.table.requests)))
    version = data.draw(st.sampled_from(REQUESTS[key].VERSIONS))
    request = without_waits(data.draw(values_of_kind(REQUESTS[key], version)))
    if data.draw(st.booleans()):
        request = aimed(request)
    return REQUESTS[key], version, encode_request(request, 5, "any", version=version)


any_requests = settings(
    max_examples=3 * settings.default.max_examples,  # 24; with --hypothesis-profile=many 1,200
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@any_requests
@given(st.data())
def test_any_request_is_answered_or_closes_the_connection(
    broker: Running, caplog: pytest.LogCaptureFixture, data: st.DataObject
) -> None:
    """The response is one of its version, and no bug is in the log."""
    kind, version, frame = a_request(broker, data)

    found = broker.run(payloads(broker, frame))

    for payload in found:
        is_last = payload.startswith(LAST_ID.to_bytes(4, "big"))
        response, of_version = (ApiVersionsResponse, 3) if is_last else (kind.RESPONSE, version)
        decode_response(response, payload, version=of_version)
    assert bugs(caplog) == []


@any_requests
@given(st.data())
def test_any_bytes_are_answered_or_close_the_connection(
    broker: Running, caplog: pytest.LogCaptureFixture, data: st.DataObject
) -> None:
    """Frames of served requests with damage, also with a size that is not theirs."""
    sent = bytearray(a_request(broker, data)[2])
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(sent)))
        sent[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    if data.draw(st.booleans()):
        sent[:4] = max(0, len(sent) - 4).to_bytes(4, "big")

    broker.run(payloads(broker, bytes(sent)))

    assert bugs(caplog) == []


@on_a_loop
async def test_no_request_reaches_beyond_the_data_folder(tmp_path: Path) -> None:
    """A controller's request for such a partition has error 17; whoever reaches the port can send one."""
    (tmp_path / "data").mkdir()
    (tmp_path / "other-0").mkdir()
    names = ["../other", "..", ".", "", "a/b", "/tmp", "t" * 300, "\0"]
    partitions = [*(TopicPartition(name, 0) for name in names), TopicPartition("t", -1)]
    replicas = ReplicaExecutor(on_disk(1, tmp_path / "data"))
    apis = BrokerApis(
        broker=1,
        control_requests=ControlRequestHandler(1, MetadataCache()),
        metadata=cached(MetadataCache()),
        clock=FakeClock(),
        replicas=replicas,
    )
    before = sorted(tmp_path.rglob("*"))
    for request in (
        leader_and_isr(*(state(tp, isr=(1,)) for tp in partitions)),
        leader_and_isr(*(state(tp, leader=2, epoch=1) for tp in partitions)),
        stop_replica(*partitions),
        stop_replica(*partitions, delete=True),
    ):
        response: Any = await apis.respond(context_of(request), request)

        assert [one.error for one in response.partitions] == [17] * len(partitions)
        assert sorted(tmp_path.rglob("*")) == before
    await apis.close()
    assert await replicas.close()
