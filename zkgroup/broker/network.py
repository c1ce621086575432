"""The parts of a broker that run on an event loop: its port, its replicas and its fetches.

The loop runs on a separate thread (`LoopThread`). Events for the machine are posted to the machine's queue.
The machine's thread calls the effects here, in order; their results return as further events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from zkgroup.broker.admin.rows import AdminRows
from zkgroup.broker.authorizer.authorizer import Authorizer
from zkgroup.broker.authorizer.table import guarded
from zkgroup.broker.fetcher import ReplicaFetcherManager
from zkgroup.broker.groups.handlers import GroupHandlers
from zkgroup.broker.groups.service import GroupCoordinatorService
from zkgroup.broker.hosted_controller import limits_of_process
from zkgroup.broker.machine.events import (
    BrokerEvent,
    ClaimProducerIds,
    FetchesPaused,
    FollowerFetched,
    FollowerFetches,
    MaximalIsrsSet,
    ProducerIdsClaimed,
    ReadFollowers,
    ReplicasChanged,
    SetMaximalIsrs,
    StoppedLeading,
    TopicsFollowed,
)
from zkgroup.broker.quotas.connections import ConnectionQuotas
from zkgroup.broker.quotas.managers import QuotaManagers
from zkgroup.broker.replica_view import Action, DeleteReplica, ReplicaView, Role, SetReplicas
from zkgroup.broker.replicas.actions import followed_again, read_followers, role_change, set_maximal_isrs
from zkgroup.broker.replicas.executor import ReplicaExecutor
from zkgroup.broker.replicas.log_configs import LogConfigs, log_config
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.replicas.min_insync import MinInsync
from zkgroup.broker.security_settings import SecuritySettings
from zkgroup.broker.server.apis import BrokerApis
from zkgroup.broker.server.control_requests import ControlRequestHandler
from zkgroup.broker.server.fetch_handler import SWEEP_S
from zkgroup.broker.server.handlers import ServedApi
from zkgroup.broker.server.log_dirs import LogDirHandlers
from zkgroup.broker.server.logins import SaslListener
from zkgroup.broker.server.metadata_cache import MetadataCache
from zkgroup.broker.server.metadata_requests import cached
from zkgroup.broker.server.peer_claim_checker import PeerClaimChecker
from zkgroup.broker.server.produce_requests import ProducerIdManager
from zkgroup.broker.server.server import BrokerServer
from zkgroup.broker.server.throttles import Throttles
from zkgroup.broker.settings import BrokerSettings
from zkgroup.broker.telemetry import BrokerListener, BrokerTelemetry
from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock
from zkgroup.model.text import counted, named
from zkgroup.runtime.logs import get_logger
from zkgroup.security.client import ClientSecurity
from zkgroup.security.listeners import Listener
from zkgroup.wire.control import ControlledShutdownResponse, LeaderAndIsrRequest
from zkgroup.znodes.config import ConfigEntity
from zkgroup.znodes.config_settings import without_compaction

log = get_logger("zkgroup.broker")

NAMED: Final = 10
"""Most partitions that a warning names."""
CHECKPOINT_S: Final = 60.0
"""Interval between checkpoints; Kafka's `log.flush.offset.checkpoint.interval.ms`."""
CLOSE_S: Final = 5.0
"""Timeout for closing each part."""
NETWORK_CLOSE_S: Final = 6 * CLOSE_S
"""Longest time of `BrokerNetwork.close`, which has six parts."""


@dataclass(frozen=True, slots=True)
class BrokerHealth:
    """The state of a broker as the broker itself knows it."""

    metadata_age_ms: int | None
    """Time since the controller's last UpdateMetadata; None before the first."""
    controller: int | None
    """The broker that sent it."""
    controller_epoch: int | None
    """The highest controller epoch in any request so far."""
    following: int
    """Number of partitions that are fetched from leaders now."""
    connections: int
    """Number of connections of clients, brokers and controllers to the port."""
    live_brokers: frozenset[int] = frozenset()
    """The ids of all live brokers, by the controller's last UpdateMetadata."""
    acl_age_ms: int | None = None
    """How long the ACLs may be out of date: 0 while ZooKeeper notifies of changes.

    None without an authorizer, and before ACLs were read: then only super users are let in."""


class BrokerNetwork:
    """The port, the replicas and the fetches of one broker. Made and used on one event loop."""

    def __init__(
        self,
        broker: int,
        host: ReplicaManager,
        settings: BrokerSettings,
        clock: Clock,
        *,
        post: Callable[[BrokerEvent], None],
        listener: BrokerListener,
        controlled_shutdown: Callable[[int], Awaitable[ControlledShutdownResponse]],
        leader_failed: Callable[[TopicPartition, str], None],
        telemetry: BrokerTelemetry,
        claims: PeerClaimChecker,
        log_dir: str,
        cluster_id: str | None,
        groups: GroupCoordinatorService,
        make_admin_rows: Callable[[MetadataCache, QuotaManagers], AdminRows],
        security: SecuritySettings,
        logins: Mapping[str, SaslListener] | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        """
        Args:
            host: the replicas; `close` closes them.
            post: posts an event to the machine.
            leader_failed: called on the loop when the log of a leader has failed, with the reason.
            claims: compares peers with ZooKeeper; `close` closes it.
            log_dir: the path of the data directory, as clients are told.
            groups: the group coordinator; `open` starts it, `close` closes it.
            make_admin_rows: makes the handlers of the requests that change the cluster, given the metadata
                and the quotas of this broker.
            security: the listeners, and how other brokers are reached.
            logins: those of the listeners with SASL, by name.
            authorizer: None lets everybody do everything.
        """
        self._broker, self._cluster_id = broker, cluster_id
        self._claims, self._log_dir, self._authorizer = claims, log_dir, authorizer
        self._settings, self._clock, self._post = settings, clock, post
        self._fetch_reports = FetchReports(post)
        self._listener, self._leader_failed = listener, leader_failed
        self._telemetry, self._epoch = telemetry, -1
        telemetry.is_broker(broker)
        self._background: tuple[asyncio.Task[None], ...] = ()
        self._accepts_control_requests = False
        """True if the broker is registered, by the last effect of the machine."""
        self._epochs: dict[TopicPartition, int] = {}
        """Partition to the leader epoch of its last role."""
        self._metadata_updated = asyncio.Event()
        self.cache = MetadataCache(self._on_metadata, security.inter_broker.name)
        self._quotas, self._connection_quotas = QuotaManagers(broker), self._make_connection_quotas()
        self._admin_rows, self._groups = make_admin_rows(self.cache, self._quotas), groups
        self._control_requests = ControlRequestHandler(broker, self.cache)
        self._executor = ReplicaExecutor(host, f"zkgroup-broker-{broker}-replicas", self._failed)
        self._min_insync = MinInsync(broker, settings.min_insync_replicas)
        self._log_configs = LogConfigs(broker, log_config(settings))
        self._fetchers = self._make_fetchers(security.client)
        self._producer_ids = ProducerIdManager(lambda: post(ClaimProducerIds()))
        self._apis = self._make_apis(controlled_shutdown)
        self._server = self._make_server(security, logins)

    def _make_connection_quotas(self) -> ConnectionQuotas:
        per_ip, overrides = (
            self._settings.max_connections_per_ip,
            self._settings.max_connections_per_ip_overrides,
        )
        return ConnectionQuotas(self._broker, per_ip, overrides, self._telemetry.refused)

    def _make_server(
        self, security: SecuritySettings, logins: Mapping[str, SaslListener] | None
    ) -> BrokerServer:
        table = self._apis.table
        if self._authorizer is not None:
            creates_topics = self._settings.auto_create_topics_enable
            table = guarded(table, self._authorizer, creates_topics=creates_topics)
        throttles = Throttles(self._quotas, self._telemetry.throttled)
        return BrokerServer(
            throttles.throttled(self._telemetry.metered(table.respond)),
            table.requests,
            limits_of_process(self._settings),
            inter_broker=security.inter_broker.name,
            logins=logins,
            tls=security.tls_listeners(),
            quotas=self._connection_quotas,
            first_time=throttles.first_time,
        )

    def _make_fetchers(self, security: ClientSecurity) -> ReplicaFetcherManager:
        return ReplicaFetcherManager(
            self._executor,
            self._settings,
            broker=self._broker,
            client_id=f"broker-{self._broker}",
            quota=self._quotas.follower,
            broker_epoch=lambda: self._epoch,
            security=security,
        )

    def _make_apis(
        self, controlled_shutdown: Callable[[int], Awaitable[ControlledShutdownResponse]]
    ) -> BrokerApis:
        admin = self._admin_rows
        return BrokerApis(
            broker=self._broker,
            control_requests=self._control_requests,
            metadata=cached(self.cache),
            clock=self._clock,
            replicas=self._executor,
            controlled_shutdown=controlled_shutdown,
            observer=self,
            leader_quota=self._quotas.leader,
            client_quota=self._quotas.fetch,
            accepts_control=lambda: self._accepts_control_requests,
            is_live=lambda broker: broker in self.cache.brokers,
            min_insync=self._min_insync,
            is_known=self.cache.knows,
            producer_ids=self._producer_ids,
            cluster_id=lambda: self._cluster_id,
            create_topic=admin.create_unknown_topic if self._settings.auto_create_topics_enable else None,
            slots=self._slots,
            create_offsets_topic=admin.create_offsets_topic,
            further=self._further_rows(),
            sweep_s=min(SWEEP_S, self._settings.replica_lag_time_max_ms / 4000),
            claims=self._claims,
        )

    def _further_rows(self) -> Iterator[ServedApi[Any]]:
        yield from self._admin_rows.rows()
        metadata_max = self._settings.offset_metadata_max_bytes
        yield from GroupHandlers(self._groups, self.cache.knows, self._clock, metadata_max).rows()
        yield from LogDirHandlers(self._executor, self._log_dir, self.cache.knows).rows()

    async def _slots(self) -> int | None:
        return self._groups.slot_count

    async def open(self, listeners: Sequence[Listener]) -> tuple[Listener, ...]:
        """Opens the listeners; returns them with the ports that were chosen. Raises ConflictError or
        ConfigError."""
        self._groups.start()
        found = await self._server.start(listeners)
        self._background = (
            asyncio.create_task(self._write_checkpoints()),
            asyncio.create_task(self._apply_retention()),
        )
        return found

    async def _write_checkpoints(self) -> None:
        while True:
            await asyncio.sleep(CHECKPOINT_S)
            await self._executor.call(lambda host: host.checkpoint())

    async def _apply_retention(self) -> None:
        """Deletes old segments at intervals; other calls of the replicas come between two partitions."""
        while True:
            await asyncio.sleep(self._settings.log_retention_check_interval_ms / 1000)
            for tp in await self._executor.call(ReplicaManager.open_partitions):
                retained = partial(ReplicaManager.apply_retention, topic_partition=tp)
                if (start := await self._executor.call(retained)) is not None:
                    log.info("%s: retention has deleted all records below offset %d", tp, start)

    async def close(self, *, abandon: bool = False) -> None:
        """Closes the port, the fetchers and the replicas, in this order; `abandon`: see `ReplicaExecutor`.

        A part that hangs, or that fails, is logged, and keeps no other one open.
        """
        try:
            await self._close_part("background tasks", self._end_background())
            if not abandon:
                await self._close_part("groups", self._groups.stop())
            await self._close_part("connections", self._server.close())
            await self._close_part("requests", self._end_requests())
            await self._close_part("fetches", self._fetchers.close())
        finally:
            self._executor.end(abandon=abandon)
        await self._close_part("replicas", self._executor.wait_ended())

    async def _close_part(self, part: str, closing: Coroutine[Any, Any, object]) -> None:
        """Waits for a part at most `CLOSE_S`. What it has left by then is cancelled with the event loop."""
        task = asyncio.create_task(closing, name=f"closes {part}")
        await asyncio.wait([task], timeout=CLOSE_S)
        if not task.done():
            log.warning("broker %d: its %s did not close within %g s", self._broker, part, CLOSE_S)
        elif (error := task.exception()) is not None:
            log.error("broker %d: its %s could not be closed", self._broker, part, exc_info=error)

    async def _end_background(self) -> None:
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    async def _end_requests(self) -> None:
        self._claims.close()
        self._groups.close()
        self._fetch_reports.close()
        self._admin_rows.close()
        await self._apis.close()

    def end_replicas(self, timeout_s: float, *, abandon: bool) -> bool:
        """Closes the replicas where `close` was not able to, on any thread; whether that was in time."""
        self._executor.end(abandon=abandon)
        return self._executor.join(timeout_s)

    async def wait_while_others_live(self, seconds: float) -> bool:
        """Waits so long; returns False as soon as the metadata name no live broker but this one."""
        try:
            async with asyncio.timeout(seconds):
                while self.cache.brokers.keys() - {self._broker}:
                    self._metadata_updated.clear()
                    await self._metadata_updated.wait()
        except TimeoutError:
            return True
        return False

    def end_fetches(self) -> None:
        """Ends all fetches before a controlled shutdown; later control requests start none.

        Otherwise a leader would add it back to the ISR, from which the controller has just removed it
        (kafka/server/ReplicaManager.scala@0.8.2.2, `isShuttingDown` in `makeFollowers`).
        """
        self._fetchers.end()

    def registered(self, epoch: int) -> None:
        """Sets the broker epoch of the new registration, and accepts control requests from then on."""
        if self._epoch >= 0:
            self.cache.mark_unconfirmed()
        self._epoch = epoch
        self._accepts_control_requests = True

    def configured(self, entity: ConfigEntity, overrides: Mapping[str, str]) -> None:
        """Applies the configuration of an entity. Raises ConfigError for an invalid setting."""
        failed = None
        for part in (
            self._quotas,
            self._connection_quotas,
            self._min_insync,
            self._log_configs,
        ):
            try:
                part.configured(entity, overrides)
            except ConfigError as error:
                failed = error  # the valid settings are applied
        if entity.kind in ("topics", "brokers"):
            configs = self._log_configs.present
            self._executor.post(lambda host: host.configure_logs(configs.of))
            self._fetchers.wake()
            if (note := without_compaction(overrides)) is not None:
                log.warning("%s: %s", entity.config_path, note)
        if failed is not None:
            raise failed

    def isr_changed(self, tp: TopicPartition, leader_epoch: int, isr: Collection[int]) -> None:
        """Stores the ISR that ZooKeeper has now, for `min.insync.replicas`."""
        self._min_insync.isr_changed(tp, leader_epoch, isr)

    async def set_maximal_isrs(self, order: SetMaximalIsrs) -> None:
        """Sets the maximal ISRs, for which the high watermarks wait."""
        behind = await self._executor.call(lambda host: set_maximal_isrs(host, order))
        if order.batch is not None:
            self._post(MaximalIsrsSet(order.batch, behind))

    def pause_fetches(self) -> None:
        """Pauses all fetches after the session is lost, and refuses control requests until registration.

        Partitions that a request in progress makes it follow are paused as well.
        """
        self._accepts_control_requests = False
        held = self._fetchers.pause()
        self._apis.drop_control_requests(lambda: self._post(FetchesPaused(held | self._fetchers.pause())))

    def resume_fetches(self, partitions: Collection[TopicPartition]) -> None:
        """Resumes the fetches of these partitions."""
        self._fetchers.resume(partitions)

    def producer_ids_claimed(self, result: ProducerIdsClaimed) -> None:
        """Takes a block of producer ids, or the error of a claim."""
        self._producer_ids.claimed(result)

    async def report_metrics(self) -> None:
        """Reports the metrics of connections and replicas."""
        replicas = await self.replicas()
        isrs = {tp: size for tp in replicas if (size := self._min_insync.stored(tp)) is not None}
        self._telemetry.counted(self._server.connections, replicas, isrs)
        self._telemetry.used(self._quotas.usage(int(asyncio.get_running_loop().time() * 1000)))
        if (age_ms := self._acl_age_ms) is not None:
            self._telemetry.gauge("acl_age_seconds", age_ms / 1000)
        self._telemetry.groups.report(self._groups.coordinator.groups(), self._groups.slot_use())

    async def read_followers(self, order: ReadFollowers) -> None:
        """Posts the progress of the followers to the machine."""
        self._post(await self._executor.call(lambda host: read_followers(host, order)))

    def on_action(self, action: Action, error: int) -> None:
        """Applies the result of a controller's action: role, fetches and the machine's state."""
        self._fetch_reports.flush()
        if isinstance(action, SetReplicas):
            self._post(ReplicasChanged(action.state))
            return
        change = role_change(action, error)
        tp = change.topic_partition
        change.apply_to(self._min_insync)
        self._post(change.event)
        if change.leader is None:
            self._fetchers.leave(tp)
        else:
            self._fetchers.follow(tp, self.cache.peer(change.leader))
        epoch = self._epochs.get(tp) if change.leader_epoch is None else change.leader_epoch
        self._notify_listener(tp, change.role, epoch)
        if isinstance(action, DeleteReplica):
            self._epochs.pop(tp, None)

    def on_leader_and_isr(self, request: LeaderAndIsrRequest) -> None:
        """Resumes the paused fetches that a LeaderAndIsr confirms, also in a known leader epoch."""
        followed = followed_again(self._control_requests.replicas, request)
        self._fetchers.resume(followed)
        self._post(TopicsFollowed(frozenset(tp.topic for tp in followed)))

    def _on_metadata(self, deleted_topics: frozenset[str]) -> None:
        self._fetchers.located(self.cache.peers)
        self._metadata_updated.set()
        self._admin_rows.wake()
        if deleted_topics:
            self._groups.topics_deleted(deleted_topics)

    def _failed(self, tp: TopicPartition, why: str) -> None:
        self._fetch_reports.flush()
        self._post(StoppedLeading(tp))
        self._notify_listener(tp, Role.NONE, self._epochs.get(tp))
        self._leader_failed(tp, why)

    def _notify_listener(self, tp: TopicPartition, role: Role, leader_epoch: int | None) -> None:
        if leader_epoch is not None:
            self._epochs[tp] = leader_epoch
        self._listener.on_role(tp, role, leader_epoch)
        self._groups.on_role(tp, role, leader_epoch)

    def on_fetches(self, fetched: Sequence[FollowerFetched]) -> None:
        """Posts the progress of a follower soon after its fetch."""
        self._fetch_reports.add(fetched)

    def on_stray_replicas(self, partitions: Sequence[TopicPartition]) -> None:
        """Logs the stray replicas and deletes none: the controller may have failed to read their states.

        Source: stray replicas (recipes 15).
        """
        log.warning(
            "broker %d keeps records of %s, which the controller has not placed here: deleted or moved "
            "while it was away, or their states cannot be read (zkgroup status); nothing is removed",
            self._broker,
            named(partitions, NAMED),
        )

    async def health(self) -> BrokerHealth:
        """The present health of the broker."""
        return BrokerHealth(
            self.cache.age_ms(self._clock.now_ms()),
            self.cache.controller_id,
            self._control_requests.controller_epoch,
            len(self._fetchers.following),
            self._server.connections,
            frozenset(self.cache.brokers),
            self._acl_age_ms,
        )

    def not_loaded(self) -> str | None:
        """What the broker has yet to learn or to load before it does all that it leads; None for nothing."""
        if self.cache.age_ms(self._clock.now_ms()) is None:
            return "has no metadata from a controller yet"
        if loading := self._groups.loading():
            return f"loads the groups of {counted(len(loading), 'slot')}: {named(sorted(loading), NAMED)}"
        return None

    def acls_changed(self) -> None:
        """Wakes the requests that have changed ACLs; to be called when the authorizer knows of a change."""
        self._admin_rows.wake()

    @property
    def _acl_age_ms(self) -> int | None:
        return None if self._authorizer is None else self._authorizer.age_ms

    def leaders(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The leaders that clients get from this broker; without unknown partitions and dead leaders."""
        known = [(tp, self.cache.partition(tp)) for tp in partitions]
        return {tp: state.leader for tp, state in known if state and state.leader in self.cache.brokers}

    async def replicas(self) -> dict[TopicPartition, ReplicaView]:
        """The state of every partition with a role or a log on this broker."""

        def views(host: ReplicaManager) -> dict[TopicPartition, ReplicaView]:
            found = {tp: host.view(tp) for tp in host.partitions()}
            return {tp: view for tp, view in found.items() if view is not None}

        return await self._executor.call(views)


REPORTED_S: Final = 0.02
"""Longest delay of a report. By it the machine decides whether a follower joins the ISR, or lags."""


class FetchReports:
    """Collects fetches of followers, and posts them together. Used on one event loop."""

    def __init__(self, post: Callable[[FollowerFetches], None], delay_s: float = REPORTED_S) -> None:
        """`post` posts an event to the machine: each one wakes its thread."""
        self._post = post
        self._delay_s = delay_s
        self._fetched: list[FollowerFetched] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, fetched: Sequence[FollowerFetched]) -> None:
        """Posts these fetches within the delay."""
        self._fetched += fetched
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._delay_s, self.flush)

    def flush(self) -> None:
        """Posts at once what was added: an event follows for which the fetches were before."""
        self.close()
        if self._fetched:
            fetched, self._fetched = tuple(self._fetched), []
            self._post(FollowerFetches(fetched))

    def close(self) -> None:
        """Posts nothing more by itself."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
