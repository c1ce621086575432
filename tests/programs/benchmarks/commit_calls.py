"""The Python calls of one commit in a broker, by layer: a cost that no load of the machine changes.

A coordinator with its store of groups is served in this process. Half of the members commit in one turn of
the loop, as in the measurement of rates. Connections are fed and drained without sockets; transactions are
packed and their replies unpacked as for ZooKeeper, which answers in the next turn. So the calls of asyncio's
transports, and of the thread of the ZooKeeper client, are not among them.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

from tests.programs.benchmarks.report import Line, Plan, Report
from tests.programs.raw_groups import CLIENT_ID, COMMIT, UNKNOWN_MEMBER, Address, RawConnection, RawMember
from tests.worlds.serving import opened
from zkgroup.broker.groups.handlers import GroupHandlers
from zkgroup.broker.groups.service import GroupCoordinatorService
from zkgroup.broker.replica_view import Role
from zkgroup.broker.server.connection import Connection
from zkgroup.broker.server.handlers import ApiTable
from zkgroup.broker.server.server import BrokerServer
from zkgroup.broker.settings import BrokerSettings
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Multi, Operation, Outcome, Request
from zkgroup.testing.memory_zookeeper import MemoryZooKeeper
from zkgroup.wire.messages import encode_request
from zkgroup.znodes.brokers import PartitionState
from zkgroup.znodes.consumers import consumers_path
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC, SlotConfig
from zkgroup.zookeeper.acls import CreationAcls
from zkgroup.zookeeper.client import SystemClock
from zkgroup.zookeeper.settings import OPEN_ACL
from zkgroup.zookeeper.wire import ChrootPaths, decode_multi, encode_multi

GROUP: Final = "g"
TOPIC: Final = "t"
CALLS_MAX: Final = 195
LAYERS: Final = (
    ("connection", ("broker/server/", "wire/messages.py", "runtime/acceptor.py")),
    ("request and response", ("wire/", "broker/groups/handlers.py")),
    ("coordinator", ("coordinator/", "broker/groups/service.py", "broker/groups/stored_coordinator.py")),
    ("store of groups", ("broker/groups/", "znodes/", "runtime/", "model/")),
    ("transaction as bytes", ("zookeeper/wire.py",)),
)
"""Each with the starts of its files; the first that fits counts."""
PACKAGE: Final = str(Path(sys.modules["zkgroup"].__file__ or "").parent) + "/"
CHECKED: Final = b"\0\0\0\x0d\0" + bytes(4)
SET: Final = b"\0\0\0\x05\0" + bytes(4 + 68)
"""Replies to the operations of a transaction."""


class PackedStore:
    """A client of a ZooKeeper in memory; once `is_packed`, transactions are packed and said to be done."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._paths, self._acls = ChrootPaths(""), CreationAcls(OPEN_ACL)
        self.is_packed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def submit(self, request: Request, *, on_outcome: Callable[[Outcome], None], **more: Any) -> None:
        if not self.is_packed or not isinstance(request, Multi):
            self._client.submit(request, on_outcome=on_outcome, **more)
            return
        encode_multi(request.operations, self._paths, self._acls.at)
        asyncio.get_running_loop().call_soon(self._reply, request.operations, on_outcome)

    def _reply(self, operations: Sequence[Operation], on_outcome: Callable[[Outcome], None]) -> None:
        reply = CHECKED + SET * (len(operations) - 1)
        on_outcome(decode_multi(reply, 0, operations, self._paths, 1))


class Drain:
    """In the place of a connection's transport."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.abort = transport.abort
        self.answers = 0

    def write(self, data: bytes) -> None:
        assert data.endswith(b"\0\0"), "the last two bytes are the error"
        self.answers += 1


class Members:
    """Members of one group, each with its connection at the broker and the frame of its commit."""

    def __init__(self, connections: Sequence[Connection], frames: Sequence[bytes]) -> None:
        self._connections, self._frames = connections, frames
        self._drains = [Drain(connection._transport) for connection in connections]
        for connection, drain in zip(connections, self._drains, strict=True):
            connection._transport = drain  # type: ignore[assignment]

    async def commit(self, rounds: int) -> None:
        """All members commit so many times, one half while the other half waits."""
        loop, half = asyncio.get_running_loop(), len(self._frames) // 2
        for number in range(2 * rounds):
            which = range(half) if number % 2 == 0 else range(half, len(self._frames))
            answers = self._answers() + len(which)
            for one in which:
                loop.call_soon(self._read, one)
            while self._answers() < answers:
                await asyncio.sleep(0)

    def _answers(self) -> int:
        return sum(drain.answers for drain in self._drains)

    def _read(self, one: int) -> None:
        frame, connection = self._frames[one], self._connections[one]
        connection.get_buffer(-1)[: len(frame)] = frame
        connection.buffer_updated(len(frame))


async def _counted(members: int, rounds: int) -> Counter[str]:
    zookeeper = MemoryZooKeeper()
    zookeeper.put(consumers_path())
    zookeeper.put(SlotConfig.path(), SlotConfig(1).encode())
    state = PartitionState.path(TopicPartition(OFFSETS_TOPIC, 0))
    zookeeper.put(state, PartitionState(1, 0, (1,), 1).encode())
    store, clock, crashes = PackedStore(zookeeper.client("broker", 6000)), SystemClock(), list[Exception]()
    settings = BrokerSettings(group_initial_rebalance_delay_ms=0)
    service = GroupCoordinatorService(1, store, clock, settings, on_crash=crashes.append)
    handlers = GroupHandlers(service, lambda tp: tp.partition < members, clock, 0)
    table = ApiTable(handlers.rows())
    server = BrokerServer(table.respond, table.requests)
    service.start()
    service.on_role(TopicPartition(OFFSETS_TOPIC, 0), Role.LEADER, 0)
    try:
        group = await _joined(server, await opened(server), members)
        await group.commit(1)
        store.is_packed = True
        await group.commit(1)
        counts = await _calls(group, rounds)
    finally:
        await server.close()
        service.close()
        zookeeper.close()
    assert not crashes
    return counts


async def _joined(server: BrokerServer, address: Address, members: int) -> Members:
    group = [RawMember(await RawConnection.open(address), GROUP) for _ in range(members)]
    stranger = RawMember(group[0].connection, GROUP)
    stranger.member_id = "stranger"
    while await stranger.beat() != UNKNOWN_MEMBER:  # the slot is loading
        await asyncio.sleep(0)
    await asyncio.gather(*(member.enter(members) for member in group))
    commits = [member.commit(TOPIC, number, 1) for number, member in enumerate(group)]
    frames = [encode_request(each, 0, CLIENT_ID, version=COMMIT) for each in commits]
    return Members(list(server._connections), frames)


async def _calls(group: Members, rounds: int) -> Counter[str]:
    """The calls of commits by layer."""
    files: Counter[str] = Counter()

    def heard(frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            caller = frame
            while caller.f_code.co_filename == "<string>" and caller.f_back is not None:
                caller = caller.f_back  # generated: it belongs to what calls it
            files[caller.f_code.co_filename] += 1

    sys.setprofile(heard)
    try:
        await group.commit(rounds)
    finally:
        sys.setprofile(None)
    layers: Counter[str] = Counter()
    for file, count in files.items():
        layers[_layer(file.removeprefix(PACKAGE)) if file.startswith(PACKAGE) else ""] += count
    del layers[""]  # the event loop's turns, and this file
    return layers


def _layer(file: str) -> str:
    return next((name for name, starts in LAYERS if file.startswith(starts)), "")


def commit_calls(plan: Plan, report: Report) -> None:
    """Calls of functions, C functions included, for one commit of one partition."""
    members, rounds = 50, 4 if plan.short else 40
    counts = asyncio.run(_counted(members, rounds))
    each = {name: counts[name] / (members * rounds) for name, _ in LAYERS}
    for name, calls in each.items():
        report.lines.append(Line(f"calls of a commit, {name}", "zkgroup", note=f"{calls:.1f} calls"))
    report.at_most("calls of a commit", CALLS_MAX, sum(each.values()), "calls")
