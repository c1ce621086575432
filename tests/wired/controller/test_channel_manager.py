"""Which connection an order goes out on, and what is reported of channels that are closed by then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.worlds.broker_requests import state, update_metadata
from zkgroup.controller.channels import ControllerChannelManager, SendDeadline
from zkgroup.controller.machine.events import (
    BrokerAnswered,
    BrokerRequest,
    ChannelDown,
    ChannelUp,
    CloseChannel,
    OpenChannel,
)
from zkgroup.testing.clock import FakeClock
from zkgroup.wire.control import UpdateMetadataResponse

OPEN = OpenChannel(3, 50, "127.0.0.1", 1)
SEND = BrokerRequest(3, 50, update_metadata(state()))
DONE = UpdateMetadataResponse(0)


class Loop:
    """The thread of the connections, which only records its calls."""

    def __init__(self) -> None:
        self.called: list[tuple[str, tuple[Any, ...]]] = []

    def call(self, callback: Callable[..., object], *arguments: Any) -> None:
        self.called.append((callback.__name__, arguments))

    @property
    def sent(self) -> list[tuple[Any, ...]]:
        return [arguments for name, arguments in self.called if name == "send"]


class SteppedPool:
    """A pool whose machine's thread runs when the test says so."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.posted: list[Callable[[], None]] = []
        self.received: list[object] = []
        self.pool = ControllerChannelManager(
            self.loop,  # type: ignore[arg-type]
            SendDeadline(FakeClock()),
            post=self.posted.append,
            notify=self.received.append,
            client_id="c",
        )

    def run(self) -> None:
        """What was posted to the machine's thread."""
        while self.posted:
            self.posted.pop(0)()

    @property
    def link(self) -> Any:
        return self.pool._channels[3]


def test_orders_go_out_on_the_connection_that_the_machine_knows_of() -> None:
    """Not on a later one: the machine is notified of that, and sends again what was in flight."""
    world = SteppedPool()
    world.pool.open(OPEN)
    world.pool.send(SEND)
    assert world.loop.sent == []

    world.link.up(1)
    world.link.down(1, "gone")
    world.link.up(2)
    world.posted.pop(0)()
    world.pool.send(SEND)
    world.run()
    world.pool.send(SEND)

    assert world.received == [ChannelUp(3, 50), ChannelDown(3, 50), ChannelUp(3, 50)]
    assert [number for number, _ in world.loop.sent] == [1, 2]


def test_nothing_goes_out_while_there_is_no_connection() -> None:
    """The machine knows that it broke; what it orders all the same is dropped."""
    world = SteppedPool()
    world.pool.open(OPEN)
    world.link.up(1)
    world.link.down(1, "gone")
    world.run()
    world.pool.send(SEND)
    assert world.loop.sent == []


def test_nothing_is_reported_of_a_channel_that_was_closed_meanwhile() -> None:
    """Nor of the one before, where the same incarnation has a new one."""
    world = SteppedPool()
    world.pool.open(OPEN)
    former = world.link
    former.up(1)
    former.answered(1, DONE)
    world.pool.close_all()
    world.pool.open(OPEN)
    world.run()
    assert world.received == []
    world.pool.send(SEND)
    assert world.loop.sent == []

    world.link.up(1)
    former.down(1, "gone")
    world.link.answered(1, DONE)
    world.run()
    assert world.received == [ChannelUp(3, 50), BrokerAnswered(3, 50, DONE)]


def test_only_the_incarnation_that_is_meant_is_closed_or_sent_to() -> None:
    """K8."""
    world = SteppedPool()
    world.pool.open(OpenChannel(3, 60, "127.0.0.1", 1))
    world.link.up(1)
    world.run()
    world.pool.send(SEND)
    world.pool.close(CloseChannel(3, 50))
    world.pool.close(CloseChannel(4, 60))
    assert [name for name, _ in world.loop.called] == ["begin"]

    world.pool.close(CloseChannel(3, 60))
    assert [name for name, _ in world.loop.called] == ["begin", "end"]


def test_a_new_incarnation_ends_the_channel_to_the_former_one() -> None:
    """One channel for each broker."""
    world = SteppedPool()
    world.pool.open(OPEN)
    world.pool.open(OpenChannel(3, 60, "127.0.0.1", 1))
    assert [name for name, _ in world.loop.called] == ["begin", "end", "begin"]
