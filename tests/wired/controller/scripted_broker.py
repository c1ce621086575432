"""A broker that sends what the test says, and a listener that records what a channel reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from tests.waiting import PATIENCE_S
from tests.worlds.serving import until
from tests.worlds.wire_requests import decode_request
from zkgroup.controller.channels import Channel, ChannelSettings, SendDeadline
from zkgroup.controller.machine.events import BrokerRequest
from zkgroup.testing.clock import FakeClock
from zkgroup.wire.messages import Response


@dataclass
class Line:
    """One connection, as the broker sees it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def frame(self) -> bytes:
        """The next request, with its size."""
        async with asyncio.timeout(PATIENCE_S):
            size = await self.reader.readexactly(4)
            return size + await self.reader.readexactly(int.from_bytes(size, "big"))

    async def correlation(self) -> int:
        """The correlation id of the next request."""
        return decode_request((await self.frame())[4:])[0].correlation_id

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()

    async def is_closed(self) -> bool:
        """Whether the peer has closed the connection; bytes that it sent before are dropped."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                while await self.reader.read(65536):
                    pass
            except OSError:
                pass
            return True


@dataclass
class ScriptedBroker:
    """Listens on loopback and passes its connections to the test."""

    lines: asyncio.Queue[Line] = field(default_factory=asyncio.Queue)
    server: asyncio.Server | None = None
    accepted: list[Line] = field(default_factory=list)
    port: int = 0

    async def listen(self) -> None:
        """Listens, on the port that it had before, if any."""
        self.server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Line(reader, writer)
        self.accepted.append(line)
        self.lines.put_nowait(line)

    async def line(self) -> Line:
        """The next connection."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.lines.get()

    async def silence(self) -> None:
        """Closes the listening socket and every connection."""
        assert self.server is not None
        self.server.close()
        for line in self.accepted:
            await line.close()
        self.accepted.clear()


@dataclass
class RecordingListener:
    """Records what a channel reports."""

    happened: list[tuple[object, ...]] = field(default_factory=list)

    def up(self, connection: int) -> None:
        self.happened.append(("up", connection))

    def down(self, connection: int, why: str) -> None:
        self.happened.append(("down", connection, why))

    def answered(self, connection: int, response: Response) -> None:
        self.happened.append(("answered", connection, response))

    @property
    def kinds(self) -> list[object]:
        return [each[0] for each in self.happened]

    @property
    def answers(self) -> list[Response]:
        return [each[2] for each in self.happened if each[0] == "answered"]  # type: ignore[misc]

    @property
    def whys(self) -> list[str]:
        return [str(each[2]) for each in self.happened if each[0] == "down"]


class Pauses:
    """The pause between two attempts; it ends at once, unless a gate is closed."""

    def __init__(self) -> None:
        self.taken: list[float] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)
        await asyncio.sleep(0)
        await self.gate.wait()


@dataclass
class Scene:
    """A broker and a channel to it."""

    broker: ScriptedBroker
    channel: Channel
    received: RecordingListener
    pauses: Pauses
    clock: FakeClock
    lease: SendDeadline
    task: asyncio.Task[None]

    async def line(self) -> Line:
        """The next connection, once the channel has reported it to its owner."""
        ups = self.received.kinds.count("up")
        line = await self.broker.line()
        await until(lambda: self.received.kinds.count("up") > ups or self.received.kinds[-1:] == ["up"])
        return line

    def send(self, request: BrokerRequest) -> None:
        """Sends on the connection that was accepted last."""
        self.channel.send(max(each[1] for each in self.received.happened if each[0] == "up"), request)  # type: ignore[type-var, arg-type]


@asynccontextmanager
async def channel_to_a_broker(
    *,
    settings: ChannelSettings | None = None,
    lease_ms: int | None = 60_000,
    jitter: Callable[[], float] = lambda: 0.0,
    listens: bool = True,
) -> AsyncIterator[Scene]:
    """A broker and a channel to it; closes both at the end, with every task."""
    broker, received, pauses, clock = ScriptedBroker(), RecordingListener(), Pauses(), FakeClock()
    await broker.listen()
    if not listens:
        await broker.silence()
    lease = SendDeadline(clock)
    lease.extend(None if lease_ms is None else clock.now_ms() + lease_ms)
    channel = Channel(
        "127.0.0.1",
        broker.port,
        client_id="id_7-host_here-port_1",
        lease=lease,
        owner=received,
        settings=settings or ChannelSettings(),
        jitter=jitter,
        pause=pauses,
    )
    task = asyncio.create_task(channel.run())
    try:
        yield Scene(broker, channel, received, pauses, clock, lease, task)
    finally:
        task.cancel()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait([task])
            await broker.silence()
        assert task.cancelled()
        assert asyncio.all_tasks() == {asyncio.current_task()}
