"""The end of a broker: as the last one, without a controlled shutdown, and as the end of its process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S, eventually, happened
from tests.worlds.replica_managers import records_on_disk
from tests.worlds.running_brokers import T0, Idle, MemoryBrokers
from zkgroup.broker.broker import Broker
from zkgroup.broker.controlled_shutdown import run_controlled_shutdown
from zkgroup.broker.fetcher import ReplicaFetcherManager
from zkgroup.broker.groups.service import GroupCoordinatorService
from zkgroup.broker.hosted_controller import RegisteredStore
from zkgroup.broker.log.storage import MemoryStorage
from zkgroup.broker.server.apis import BrokerApis
from zkgroup.broker.server.server import BrokerServer
from zkgroup.broker.settings import BrokerSettings
from zkgroup.broker.telemetry import BrokerListener
from zkgroup.model.ports import Store
from zkgroup.runtime.loop import LoopThread
from zkgroup.testing import MemoryZooKeeper
from zkgroup.wire.control import ControlledShutdownRequest, ControlledShutdownResponse
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.znodes.controller import ControllerRegistration
from zkgroup.zookeeper.client import SystemClock

CLEAN = ".kafka_cleanshutdown"
REFUSED = ControlledShutdownResponse(0, (T0,))


def controlled_by(world: MemoryBrokers, broker: int) -> None:
    """This broker's process has the active controller."""
    world.server.put(ControllerRegistration.path(), ControllerRegistration(broker, 0).encode())


def test_the_last_broker_does_not_wait_for_others(
    world: MemoryBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    """It asks the controller once: a retry could only help if there were another broker."""
    world.add(1, settings=BrokerSettings())
    world.running.lead(world.zk, T0, 1, (1, 2), told=(1,))
    controlled_by(world, 1)
    world.running.idle[1].answers += [REFUSED, REFUSED, REFUSED]
    begun_ms = world.clock.now_ms()
    world.running.brokers[1].close()

    assert world.running.idle[1].asked == [1]
    assert world.clock.now_ms() - begun_ms < BrokerSettings().controlled_shutdown_retry_backoff_ms
    assert "broker 1 is the last live one" in caplog.text


def test_a_broker_with_others_asks_again(world: MemoryBrokers) -> None:
    """Another broker may catch up meanwhile: all tries are used."""
    world.add(1, 2)
    world.running.lead(world.zk, T0, 1, (1, 2))
    controlled_by(world, 1)
    world.running.idle[1].answers += [REFUSED, REFUSED, REFUSED]
    world.running.brokers[1].close()

    assert world.running.idle[1].asked == [1, 1, 1]


def test_the_pause_between_two_tries_ends_with_the_last_other_broker() -> None:
    """The other broker is live at the first answer and gone during the pause after it."""
    tries: list[str] = []

    async def find_controller() -> None:
        tries.append("try")

    async def others_go(seconds: float) -> bool:
        tries.append("pause")
        return len(tries) < 4

    done = asyncio.run(
        run_controlled_shutdown(
            ControlledShutdownRequest(1),
            find_controller,
            BrokerSettings(controlled_shutdown_max_retries=9),
            others_go,
        )
    )
    assert not done
    assert tries == ["try", "pause", "try", "pause"]


def test_a_controlled_shutdown_ends_when_zookeeper_is_away(
    world: MemoryBrokers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Past bug: each of its tries waited 30 s for the controller, which cannot elect leaders without it."""
    settings = BrokerSettings()
    world.add(1, 2, settings=settings)
    world.running.lead(world.zk, T0, 1, (1, 2))
    controlled_by(world, 1)
    asked: list[int] = []

    def shut_down(broker: int) -> Future[ControlledShutdownResponse]:
        asked.append(broker)
        world.server.suspend("b1")
        return Future()

    monkeypatch.setattr(world.running.idle[1], "shut_down", shut_down)
    begun_ms = world.clock.now_ms()
    world.running.brokers[1].close()

    assert asked == [1]
    assert world.clock.now_ms() - begun_ms < settings.controller_socket_timeout_ms
    assert "broker 1: ZooKeeper has not been reached for the session timeout of 6 s" in caplog.text
    assert "controlled shutdown given up" in caplog.text


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_broker_without_zookeeper_ends_without_a_controlled_shutdown(
    world: MemoryBrokers, caplog: pytest.LogCaptureFixture, comes_back: bool
) -> None:
    """Unless ZooKeeper is there again by then."""
    world.add(1, 2)
    world.running.lead(world.zk, T0, 1, (1, 2))
    controlled_by(world, 1)
    life = world.running.brokers[1]._lifecycle
    assert life is not None
    world.server.suspend("b1")
    world.eventually(lambda: life._absence.is_long)
    if comes_back:
        world.server.resume("b1")
        world.eventually(lambda: len(world.running.idle[1].connected) == 2 and not life._absence.is_long)
    world.running.brokers[1].close()

    assert ("no controlled shutdown, ZooKeeper has not been reached" in caplog.text) is not comes_back
    assert world.running.idle[1].asked == ([1] if comes_back else [])


def test_without_a_controlled_shutdown_the_controller_is_not_asked(
    world: MemoryBrokers, tmp_path: Path
) -> None:
    """The broker ends in order otherwise: its shutdown is clean and its registration is gone."""
    world.add(1, data=tmp_path / "one")
    world.add(2)
    world.running.lead(world.zk, T0, 1, (1, 2))
    controlled_by(world, 1)
    world.running.brokers[1].close(controlled_shutdown=False)

    assert world.running.idle[1].asked == []
    assert (tmp_path / "one" / CLEAN).exists()
    assert world.zk.exists(BrokerRegistration.path(1)) is None


def test_a_killed_broker_writes_nothing_more(world: MemoryBrokers, tmp_path: Path) -> None:
    """Cut off from ZooKeeper, its registration stays until the session expires; its folder can be used."""
    folder = tmp_path / "one"
    world.add(1, data=folder)
    world.add(2)
    world.running.lead(world.zk, T0, 1, (1, 2))
    controlled_by(world, 1)
    assert world.running.append(1, T0, b"kept").error == 0
    before = {path.name for path in folder.iterdir()}
    world.server.suspend("b1")
    world.running.brokers[1]._kill()

    assert world.running.idle[1].asked == []
    assert {path.name for path in folder.iterdir()} == before
    assert CLEAN not in before
    assert world.zk.exists(BrokerRegistration.path(1)) is not None
    world.becomes(lambda: world.zk.exists(BrokerRegistration.path(1)), None)
    world.running.add(world.server.client("again"), 1, data=folder)
    assert records_on_disk(folder, T0) == [b"kept"]


def test_a_log_in_memory_outlives_its_broker_in_a_storage(world: MemoryBrokers) -> None:
    """Killed or closed, the next broker has its records and takes its registration over."""
    storage = MemoryStorage()
    storage.directory_id = "of-broker-1"
    world.add(1, memory=storage)
    world.running.lead(world.zk, T0, 1, (1,))
    assert world.running.append(1, T0, b"a").error == 0
    world.server.suspend("b1")
    world.running.brokers[1]._kill()
    assert CLEAN not in storage.files
    world.running.add(world.server.client("again"), 1, memory=storage)
    world.running.lead(world.zk, T0, 1, (1,), leader_epoch=1)
    assert world.running.view(1, T0).log_end_offset == 1
    assert world.running.append(1, T0, b"b").offset == 1
    world.running.brokers[1].close()

    assert CLEAN in storage.files


class SlowListener(BrokerListener):
    """The first registration waits until the broker is closing."""

    def __init__(self) -> None:
        self.registering, self.closing = threading.Event(), threading.Event()

    def on_registered(
        self, broker: int, host: str | None, port: int, epoch: int, listeners: Mapping[str, str]
    ) -> None:
        self.registering.set()
        happened(self.closing)


def test_a_broker_that_closes_while_it_registers_makes_no_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past bug: a controller that was made behind `close` kept its threads, and took part in elections."""
    listener, made = SlowListener(), list[object]()

    def make(broker: int, endpoints: object, store: Store, *more: object, **named: object) -> Idle:
        made.append(broker)
        return Idle(store)

    def close(store: RegisteredStore, timeout_s: float = 5.0) -> None:
        listener.closing.set()  # behind the end of the controller

    server = MemoryZooKeeper(SystemClock())
    broker = Broker(client=server.client("b1"), broker=1, listener=listener)
    broker._make_controller = make
    broker.start()
    happened(listener.registering)
    monkeypatch.setattr(RegisteredStore, "close", close)
    broker.close(controlled_shutdown=False)

    assert made == []


def test_a_broker_that_closes_while_it_opens_its_port_keeps_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Past bug: the port was opened behind `close`, and the thread of the replicas stayed."""
    opening, released = threading.Event(), list[asyncio.Event]()
    really_start, really_stop = BrokerServer.start, LoopThread.stop

    async def start(server: BrokerServer, host: str, port: int = 0) -> tuple[str, int]:
        released.append(asyncio.Event())
        opening.set()
        await released[0].wait()
        return await really_start(server, host, port)

    async def open_port() -> None:
        released[0].set()
        for _ in range(100):
            await asyncio.sleep(0)

    def stop(thread: LoopThread, timeout_s: float = 5.0) -> bool:
        thread.run(open_port()).result(PATIENCE_S)
        return really_stop(thread, timeout_s)

    monkeypatch.setattr(BrokerServer, "start", start)
    monkeypatch.setattr(LoopThread, "stop", stop)
    broker = Broker(client=MemoryZooKeeper(SystemClock()).client("b1"), broker=1)
    broker.start()
    happened(opening)
    broker.close()

    assert [one.name for one in threading.enumerate() if one.name.startswith("zkgroup-broker-1")] == []


async def _hangs() -> None:
    await asyncio.Event().wait()


async def _fails() -> None:
    raise RuntimeError("a bug")


@pytest.mark.parametrize("ends", [_hangs, _fails])
@pytest.mark.parametrize(
    ("owner", "method", "part"),
    [
        (GroupCoordinatorService, "stop", "groups"),
        (BrokerServer, "close", "connections"),
        (BrokerApis, "close", "requests"),
        (ReplicaFetcherManager, "close", "fetches"),
    ],
)
def test_a_part_that_does_not_close_keeps_no_other_open(
    world: MemoryBrokers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    ends: Callable[[], Awaitable[None]],
    owner: type,
    method: str,
    part: str,
) -> None:
    """Past bug: where the connections did not close in time, the replicas stayed open, and locked."""
    folder = tmp_path / "one"
    world.add(1, data=folder)
    really_end = getattr(owner, method)

    async def end(one: object) -> None:
        await really_end(one)
        await ends()

    with monkeypatch.context() as patched:
        patched.setattr(owner, method, end)
        world.running.brokers[1].close(controlled_shutdown=False)

    told = "did not close within 5 s" if ends is _hangs else "could not be closed"
    assert f"broker 1: its {part} {told}" in caplog.text
    assert (folder / CLEAN).exists()
    world.running.add(world.server.client("again"), 1, data=folder)


def test_replicas_are_closed_while_the_event_loop_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a function of the application that the loop calls. Another broker can use their folder then."""
    hangs, released, really_close = threading.Event(), threading.Event(), BrokerServer.close

    async def close(server: BrokerServer) -> None:
        await really_close(server)
        hangs.set()
        happened(released)

    def too_late(thread: LoopThread, future: Future[None], timeout_s: float | None = None) -> None:
        happened(hangs)
        raise TimeoutError

    zookeeper = MemoryZooKeeper(SystemClock())
    broker = Broker(client=zookeeper.client("b1"), broker=1, data=tmp_path)
    broker.start()
    broker.wait_registered(PATIENCE_S)
    with monkeypatch.context() as patched:
        patched.setattr(BrokerServer, "close", close)
        patched.setattr(LoopThread, "result", too_late)
        patched.setattr("zkgroup.broker.lifecycle.CLOSE_S", 0.01)
        broker.close(controlled_shutdown=False)

    assert "broker 1: its network did not close in time" in caplog.text
    eventually(lambda: "zkgroup-broker-1-replicas" not in {one.name for one in threading.enumerate()})
    assert (tmp_path / CLEAN).exists()
    with Broker(client=zookeeper.client("b2"), broker=1, data=tmp_path) as again:
        again.wait_registered(PATIENCE_S)
    released.set()
