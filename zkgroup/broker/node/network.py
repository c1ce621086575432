"""Everything of a broker that lives on an event loop: its port, its replicas, its fetches.

The loop runs on a thread of its own (`LoopThread`). What the machine is to know is posted into its queue;
what it orders is called here by its thread, in order, and answered by another entry of the queue.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zkgroup.broker.host_thread import HostThread
from zkgroup.broker.line_requests import follower_fetched
from zkgroup.broker.machine.counting import count
from zkgroup.broker.machine.effects import CountIsrs, LookAtFollowers
from zkgroup.broker.machine.events import (
    BrokerEvent,
    FetchesHeld,
    Followed,
    IsrsCounted,
    Left,
    Reassigned,
)
from zkgroup.broker.metadata_cache import MetadataCache
from zkgroup.broker.min_insync import MinInsync
from zkgroup.broker.node.controlling import limits_of
from zkgroup.broker.node.fetching import Fetchers
from zkgroup.broker.node.listener import BrokerListener
from zkgroup.broker.node.telemetry import BrokerTelemetry
from zkgroup.broker.node.throttling import Throttle
from zkgroup.broker.receiver import Action, Delete, Receiver, SetReplicas
from zkgroup.broker.replica_host import ReplicaHost, ReplicaView, Role
from zkgroup.broker.roles import followed_again, followers_seen, role_change
from zkgroup.broker.server import BrokerServer
from zkgroup.broker.service import BrokerService
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock
from zkgroup.wire.control import (
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    UpdateMetadataRequest,
)
from zkgroup.wire.replica_host import FetchLinesRequest, FetchLinesResponse
from zkgroup.znodes.config_entity import ConfigEntity
from zkgroup.znodes.throttles import LEADER_RATE, LEADER_REPLICAS

log = logging.getLogger("zkgroup.broker")

NAMED: Final = 10
"""Partitions that a warning names."""


@dataclass(frozen=True, slots=True)
class BrokerHealth:
    """How a broker stands, by what it knows itself."""

    metadata_age_ms: int | None
    """Since the controller's last UpdateMetadata; None before the first."""
    controller: int | None
    """Who sent it."""
    controller_epoch: int | None
    """The greatest that any request has shown."""
    following: int
    """Partitions that are fetched from leaders now."""
    connections: int
    """Of clients, brokers and controllers, to the port."""


class _Cache(MetadataCache):
    """Says when it has been told where brokers are."""

    def __init__(self, updated: Callable[[], None]) -> None:
        super().__init__()
        self._updated = updated

    def update(self, request: UpdateMetadataRequest, now_ms: int) -> tuple[TopicPartition, ...]:
        old = super().update(request, now_ms)
        self._updated()
        return old


class Network:
    """The port, the replicas and the fetches of one broker. Made and used on one event loop."""

    def __init__(
        self,
        broker: int,
        host: ReplicaHost,
        settings: BrokerSettings,
        clock: Clock,
        *,
        post: Callable[[BrokerEvent], None],
        listener: BrokerListener,
        controlled_shutdown: Callable[[int], Awaitable[ControlledShutdownResponse]] | None,
        leader_failed: Callable[[TopicPartition, str], None],
        telemetry: BrokerTelemetry,
    ) -> None:
        """`host` belongs to the network from here on. `post` gives the machine an event. `leader_failed` is
        called, on the loop, when the files of a replica that leads have failed, with why."""
        self._broker = broker
        self._clock = clock
        self._post = post
        self._listener = listener
        self._leader_failed = leader_failed
        self._telemetry = telemetry
        telemetry.is_broker(broker)
        self._epoch = -1
        self._obeys = False
        """Whether the broker is registered, as far as is known."""
        self._epochs: dict[TopicPartition, int] = {}
        """Leader epoch of the last role of each replica."""
        self.cache: MetadataCache = _Cache(lambda: self._fetchers.located(self.cache.brokers))
        self._receiver = Receiver(broker, self.cache)
        self._host = HostThread(host, f"zkgroup-broker-{broker}-replicas", self._failed)
        self._throttle = Throttle(broker)
        self._giving = Throttle(broker, LEADER_RATE, LEADER_REPLICAS)
        self._min_insync = MinInsync(broker, settings.min_insync_replicas)
        self._fetchers = Fetchers(
            self._host,
            settings,
            client_id=f"broker-{broker}",
            throttle=self._throttle,
            broker_epoch=lambda: self._epoch,
        )
        self._service = BrokerService(
            broker=broker,
            receiver=self._receiver,
            answers=self.cache,
            clock=clock,
            host=self._host,
            controlled_shutdown=controlled_shutdown,
            observer=self,
            giving=self._giving,
            obeys=lambda: self._obeys,
            knows=lambda broker: broker in self.cache.brokers,
            min_insync=self._min_insync,
        )
        self._server = BrokerServer(telemetry.metered(self._service.respond), limits_of(settings))

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Listens; returns where. Raises ConflictError or ConfigError."""
        return await self._server.start(host, port)

    async def close(self) -> None:
        """Stops serving, fetching and keeping, in this order."""
        await self._server.close()
        await self._service.close()
        await self._fetchers.close()
        await self._host.close()

    def depart(self) -> None:
        """The broker is about to leave: it follows nobody any more, whatever it is told to.

        Else a leader would take it back into the ISR, from which the controller has just removed it
        (kafka/server/ReplicaManager.scala@0.8.2.2, `isShuttingDown` in `makeFollowers`).
        """
        self._fetchers.end()

    # --- what the machine orders --------------------------------------------------------------------

    def registered(self, epoch: int) -> None:
        """This incarnation of the broker is known; what was told to a former one may be out of date."""
        if self._epoch >= 0:
            self.cache.doubt()
        self._epoch = epoch
        self._obeys = True

    def configured(self, entity: ConfigEntity, overrides: Mapping[str, str]) -> None:
        """Raises ConfigError for settings that cannot be used."""
        failed = None
        for part in (self._giving, self._throttle, self._min_insync):
            try:
                part.configured(entity, overrides)
            except ConfigError as error:
                failed = error  # what the others can use is in force all the same
        self._fetchers.wake()
        if failed is not None:
            raise failed

    def isr_changed(self, tp: TopicPartition, leader_epoch: int, isr: Collection[int]) -> None:
        """What stands in ZooKeeper now."""
        self._min_insync.isr_changed(tp, leader_epoch, isr)

    async def count(self, order: CountIsrs) -> None:
        """Has the host wait for these members."""
        behind = await self._host.call(lambda host: count(host, order))
        if order.batch is not None:
            self._post(IsrsCounted(order.batch, behind))

    def hold(self) -> None:
        """The session is over: obeys nobody until the broker is registered, and fetches nothing.

        What an order that is under way has followed when it is done is held as well.
        """
        self._obeys = False
        held = self._fetchers.hold()
        self._service.drop_orders(lambda: self._post(FetchesHeld(held | self._fetchers.hold())))

    def follow_on(self, partitions: Collection[TopicPartition]) -> None:
        """Fetches these again."""
        self._fetchers.release(partitions)

    async def tell(self) -> None:
        """Has the replicas counted for the metrics."""
        replicas = await self.replicas()
        isrs = {tp: size for tp in replicas if (size := self._min_insync.stored(tp)) is not None}
        self._telemetry.counted(self._server.connections, replicas, isrs)

    async def look(self, order: LookAtFollowers) -> None:
        """Asks the host how far the followers are."""
        self._post(await self._host.call(lambda host: followers_seen(host, order)))

    # --- Observer -----------------------------------------------------------------------------------

    def acted(self, action: Action, error: int) -> None:
        """The host has done what the controller said, or could not."""
        if isinstance(action, SetReplicas):
            self._post(Reassigned(action.state))
            return
        change = role_change(action, error)
        tp = change.topic_partition
        change.tell(self._min_insync)
        self._post(change.event)
        if change.leader is None:
            self._fetchers.leave(tp)
        else:
            self._fetchers.follow(tp, change.leader)
        epoch = self._epochs.get(tp) if change.leader_epoch is None else change.leader_epoch
        self._tell(tp, change.role, epoch)
        if isinstance(action, Delete):
            self._epochs.pop(tp, None)

    def told(self, request: LeaderAndIsrRequest) -> None:
        """What a controller says again of a term that is known is a word on what is held, too."""
        followed = followed_again(self._receiver.replicas, request)
        self._fetchers.release(followed)
        self._post(Followed(frozenset(tp.topic for tp in followed)))

    def _failed(self, tp: TopicPartition, why: str) -> None:
        self._post(Left(tp))
        self._tell(tp, Role.NONE, self._epochs.get(tp))
        self._leader_failed(tp, why)

    def _tell(self, tp: TopicPartition, role: Role, leader_epoch: int | None) -> None:
        if leader_epoch is not None:
            self._epochs[tp] = leader_epoch
        self._listener.on_role(tp, role, leader_epoch)

    def fetched(self, request: FetchLinesRequest, response: FetchLinesResponse) -> None:
        """A follower has asked for lines and is answered."""
        if (event := follower_fetched(request, response)) is not None:
            self._post(event)

    def left_over(self, partitions: Sequence[TopicPartition]) -> None:
        """Nothing is deleted: the controller may have left out what it could not read (recipes 15)."""
        named = ", ".join(map(str, partitions[:NAMED]))
        more = f" and {len(partitions) - NAMED} more" if len(partitions) > NAMED else ""
        log.warning(
            "broker %d keeps lines of %s%s, which the controller has not placed here: deleted or moved while "
            "it was away, or their states cannot be read (zkgroup status); nothing is removed",
            self._broker,
            named,
            more,
        )

    # --- what is known ------------------------------------------------------------------------------

    async def health(self) -> BrokerHealth:
        """How things stand now."""
        return BrokerHealth(
            self.cache.age_ms(self._clock.now_ms()),
            self.cache.controller_id,
            self._receiver.controller_epoch,
            len(self._fetchers.following),
            self._server.connections,
        )

    async def replicas(self) -> dict[TopicPartition, ReplicaView]:
        """Every partition that has a role or lines here."""

        def views(host: ReplicaHost) -> dict[TopicPartition, ReplicaView]:
            found = {tp: host.view(tp) for tp in host.partitions()}
            return {tp: view for tp, view in found.items() if view is not None}

        return await self._host.call(views)
