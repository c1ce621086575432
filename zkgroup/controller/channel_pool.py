"""The connections to all brokers: carries out what the machine orders, and tells it what happens.

The orders come on the machine's thread, which never waits; the connections live on the loop of another. What
happens there goes back as a task for the machine's thread, where it is compared with what is open by then:
so nothing is told of a channel that was closed meanwhile, and what the machine orders upon `ChannelUp` goes
out on that very connection, or on none.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Final

from zkgroup.controller.channel import Channel, ChannelSettings, Lease
from zkgroup.controller.machine.effects import CloseChannel, OpenChannel, SendToBroker
from zkgroup.controller.machine.events import BrokerAnswered, ChannelDown, ChannelUp
from zkgroup.machinery.loop_thread import LoopThread
from zkgroup.wire.messages import Response

Task = Callable[[], None]
ChannelEvent = ChannelUp | ChannelDown | BrokerAnswered

NONE: Final = 0
"""No connection; they are counted from 1."""


class ChannelPool:
    """One channel for each broker. All methods but the constructor are for the machine's thread."""

    def __init__(
        self,
        thread: LoopThread,
        lease: Lease,
        *,
        post: Callable[[Task], None],
        tell: Callable[[ChannelEvent], None],
        client_id: str,
        settings: ChannelSettings | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """
        Args:
            thread: its loop has the connections; it runs, and is stopped by its owner.
            post: has the machine's thread run a task.
            tell: gives the machine an event; called on its thread.
            client_id: see `Channel`.
        """
        self._thread = thread
        self._lease = lease
        self._post = post
        self._tell = tell
        self._client_id = client_id
        self._settings = settings or ChannelSettings()
        self._jitter = jitter
        self._links: dict[int, _Link] = {}

    def open(self, order: OpenChannel) -> None:
        """Connects to this incarnation instead of another one of the broker."""
        self._close(order.broker)
        link = _Link(self, order)
        link.channel = Channel(
            order.host,
            order.port,
            client_id=self._client_id,
            lease=self._lease,
            owner=link,
            settings=self._settings,
            jitter=self._jitter,
        )
        self._links[order.broker] = link
        self._thread.call(link.begin)

    def close(self, order: CloseChannel) -> None:
        """Ends the channel to this incarnation, if it is there."""
        link = self._links.get(order.broker)
        if link is not None and link.incarnation == order.incarnation:
            self._close(order.broker)

    def close_all(self) -> None:
        """Ends every channel: this controller rules no more."""
        for broker in list(self._links):
            self._close(broker)

    def send(self, order: SendToBroker) -> None:
        """Sends a request on the connection that the machine was told of last, or drops it."""
        message = order.message
        link = self._links.get(message.broker)
        if link is not None and link.incarnation == message.incarnation and link.connection != NONE:
            assert link.channel is not None
            self._thread.call(link.channel.send, link.connection, message)

    def _close(self, broker: int) -> None:
        if (link := self._links.pop(broker, None)) is not None:
            self._thread.call(link.end)

    # --- what happens on the loop ---------------------------------------------------------------

    def happened(self, link: _Link, connection: int, event: ChannelEvent) -> None:
        """Called on the loop: the machine's thread is to look at it."""
        self._post(partial(self._look, link, connection, event))

    def _look(self, link: _Link, connection: int, event: ChannelEvent) -> None:
        if self._links.get(link.broker) is link:
            link.connection = connection
            self._tell(event)


class _Link:
    """The channel to one incarnation, from its opening to its end."""

    def __init__(self, pool: ChannelPool, order: OpenChannel) -> None:
        self._pool = pool
        self.broker = order.broker
        self.incarnation = order.incarnation
        self.channel: Channel | None = None
        self.connection = NONE
        """The one that the machine knows of; of its thread."""
        self._task: asyncio.Task[None] | None = None

    # --- on the loop ----------------------------------------------------------------------------

    def begin(self) -> None:
        assert self.channel is not None
        name = f"channel to broker {self.broker}"
        self._task = asyncio.get_running_loop().create_task(self.channel.run(), name=name)

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def up(self, connection: int) -> None:
        self._pool.happened(self, connection, ChannelUp(self.broker, self.incarnation))

    def down(self, connection: int, why: str) -> None:
        del connection, why  # the channel has logged it
        self._pool.happened(self, NONE, ChannelDown(self.broker, self.incarnation))

    def answered(self, connection: int, response: Response) -> None:
        event = BrokerAnswered(self.broker, self.incarnation, response)
        self._pool.happened(self, connection, event)
