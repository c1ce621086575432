"""The queues to all brokers: which request is due on which connection. Source: controller.md 7.4."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from zkgroup.controller.machine.core import Core
from zkgroup.controller.machine.effects import CloseChannel, OpenChannel, SendToBroker
from zkgroup.controller.machine.outbox import Answered, Outbox
from zkgroup.controller.machine.picture import LiveBroker
from zkgroup.controller.machine.requests import ToBroker
from zkgroup.model import TopicPartition
from zkgroup.wire.control import UpdateMetadataRequest


class Channels:
    """One outbox for each incarnation of a broker that is told things."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._outboxes: dict[int, Outbox] = {}
        self._fresh: set[int] = set()
        """Connected, and what was in flight before not yet sent again."""
        self._deletions: dict[int, tuple[UpdateMetadataRequest, ...]] = {}
        """Of partitions that are deleted: what former incarnations of these brokers have not answered."""

    def open(self, broker: int, live: LiveBroker, epoch: int) -> None:
        """A channel to this incarnation, instead of the one to another.

        A process that has just started is reached on the former incarnation's channel until the controller
        knows of it, and then knows partitions whose deletion it was yet to be told. That is told first.
        """
        known = self._outboxes.get(broker)
        if known is not None and known.incarnation == live.epoch:
            return
        self.close(broker)
        host, port = live.registration.host, live.registration.port
        assert host is not None, "only brokers that can be reached are told things"
        outbox = self._outboxes[broker] = Outbox(broker, live.epoch)
        deletions = self._deletions.pop(broker, ())
        outbox.put(
            ToBroker(broker, live.epoch, dataclasses.replace(each, controller_epoch=epoch))
            for each in deletions
        )
        self._core.emit(OpenChannel(broker, live.epoch, host, port))

    def close(self, broker: int) -> None:
        """The incarnation is gone, and with it what it had yet to be told, but for deletions."""
        self._fresh.discard(broker)
        if (known := self._outboxes.pop(broker, None)) is not None:
            deletions = known.unanswered_deletions()
            if deletions:
                self._deletions[broker] = (*self._deletions.get(broker, ()), *deletions)
            self._core.emit(CloseChannel(broker, known.incarnation))

    @property
    def waiting(self) -> Mapping[int, int]:
        """Broker to the number of requests that it has not answered."""
        return {broker: len(outbox) for broker, outbox in self._outboxes.items() if len(outbox)}

    def put(self, requests: Iterable[ToBroker]) -> dict[int, frozenset[TopicPartition]]:
        """Queues requests. Returns, by broker, the partitions whose deletion will never be sent (K28)."""
        by_broker: dict[int, list[ToBroker]] = {}
        for each in requests:
            by_broker.setdefault(each.broker, []).append(each)
        dropped = {}
        for broker, mine in by_broker.items():
            outbox = self._outboxes.get(broker)
            if outbox is not None and (gone := outbox.put(mine)):
                dropped[broker] = gone
        return dropped

    def up(self, broker: int, incarnation: int) -> None:
        """A connection is made."""
        if self._outbox(broker, incarnation) is not None:
            self._fresh.add(broker)

    def down(self, broker: int, incarnation: int) -> None:
        """It is gone."""
        if (outbox := self._outbox(broker, incarnation)) is not None:
            self._fresh.discard(broker)
            outbox.broken()

    def answered(self, broker: int, incarnation: int) -> Answered | None:
        """What the broker has answered; None for an answer that nobody waits for."""
        outbox = self._outbox(broker, incarnation)
        if outbox is None or broker in self._fresh or not outbox.is_flying:
            return None
        return outbox.answered()

    def flush(self) -> None:
        """Sends what is due. Called only while requests to brokers may go out (recipes 13)."""
        for broker, outbox in self._outboxes.items():
            if broker in self._fresh:
                self._fresh.discard(broker)
                due = outbox.connected()
            else:
                due = outbox.next()
            if due is not None:
                self._core.emit(SendToBroker(due))

    def _outbox(self, broker: int, incarnation: int) -> Outbox | None:
        outbox = self._outboxes.get(broker)
        return outbox if outbox is not None and outbox.incarnation == incarnation else None
