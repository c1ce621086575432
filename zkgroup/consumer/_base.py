"""The base classes of the blocking and the asyncio members: arguments, the engine, leases and plain methods.

`MemberBase` is the base of all four public classes, `ConsumerBase` of the two consumers.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from zkgroup.consumer.callbacks import AsyncRebalanceListener, CallbackRunner, RebalanceListener
from zkgroup.consumer.consumer_engine import ConsumerEngine
from zkgroup.consumer.lease import Lease
from zkgroup.consumer.machine import MemberSnapshot
from zkgroup.consumer.machine.events import MemberState
from zkgroup.consumer.member_engine import MemberEngine
from zkgroup.consumer.options import MemberOptions, Topics, checked_partition, subscription_of
from zkgroup.errors import (
    MemberClosedError,
    SourceUnavailableError,
    StableTimeoutError,
    StoreUnavailableError,
)
from zkgroup.model import StaticSubscription, TopicPartition
from zkgroup.model.ports import Clock, HistorySink, MetricsSink, Store
from zkgroup.settings import GroupSettings
from zkgroup.sources.port import Record, RecordSource, checked_source
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient

ListenerT = TypeVar("ListenerT", bound=RebalanceListener | AsyncRebalanceListener)

HAND_BACK_TIMEOUT_S = 30.0
CLOSE_TIMEOUT_S = 5.0
CLOSE_GRACE_MS = 1000
SOURCE_TIMEOUT_S = 30.0
SOURCE_GRACE_S = 1.0
DESCRIBE_TIMEOUT_S = 1.0


class MemberBase(ABC, Generic[ListenerT]):
    """Arguments and plain methods of all members; each may be called from any thread."""

    _listener_kind: ClassVar[type[RebalanceListener | AsyncRebalanceListener]]
    _how_to_start: ClassVar[str]

    def __init__(
        self,
        address: str | None = None,
        *,
        group: str,
        topics: Topics,
        settings: GroupSettings | None = None,
        listener: ListenerT | None = None,
        client: Store | None = None,
        connection: ClientSettings | None = None,
        history: HistorySink | None = None,
        metrics: MetricsSink | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Checks everything that needs no network; raises `ConfigError`.

        Args:
            address: `host:port[,host:port...][/chroot]` for a connection of its own; or `client`.
            group: name of the group, below `/consumers`.
            topics: names, names with thread counts, `Whitelist` or `Blacklist`.
            settings: see `GroupSettings`.
            listener: called for assignments and revocations, on a thread of its own; with the asyncio classes
                its coroutines run on the event loop.
            client: a `ZooKeeperClient` shared with other members; it is not closed with the member.
            connection: authentication, TLS and access lists of the connection to `address`.
            history: records what the member does, for `zkgroup.history`.
            metrics: see `zkgroup.metrics`.
            clock: for tests.
        """
        self._options = options = MemberOptions(
            address=address,
            client=client,
            group=group,
            subscription=subscription_of(topics),
            settings=GroupSettings() if settings is None else settings,
            listener=listener,
            history=history,
            metrics=metrics,
            clock=clock,
            connection=connection,
        )
        options.check_listener(self._listener_kind)
        self._settings = options.settings
        self._subscription = options.subscription
        self._engine_made: MemberEngine | None = None
        self._closed = threading.Event()
        self._stopped = False
        self._set_up()

    def _set_up(self) -> None:
        """Sets up the attributes of a subclass; the constructor calls it once."""
        return

    def stop(self) -> None:
        """Makes iterations, polls and waits end. May be called in a signal handler, and from any thread.

        Iterations and polls end after the records already taken, waits with `MemberClosedError`, `start`
        without waiting for a connection. The member keeps its partitions until `close()` or the end of the
        `with` block, which leaves the group and waits for that.
        """
        self._stopped = True
        engine = self._engine_made
        if engine is not None and not engine.forked:
            engine.call_soon(self._wake)

    @property
    def stopped(self) -> bool:
        """Whether `stop` or `close` was called, or the member has failed: the application's loop ends."""
        engine = self._engine_made
        has_failed = engine is not None and engine.failure is not None
        return self._stopped or self._closed.is_set() or has_failed

    def _wake(self) -> None:
        """Wakes calls that wait; on the engine's thread, or from any other."""
        return  # waits of a member are checked again after every task of its loop

    def _check_stopped(self, engine: MemberEngine) -> None:
        """Raises MemberClosedError if a wait ended because of `stop`."""
        if self._stopped and engine.state is not MemberState.STABLE:
            raise MemberClosedError(f"{engine.member}: stop() was called")

    def _launch(self, engine: MemberEngine) -> None:
        engine.start()

    def _begin_close(self, engine: MemberEngine, timeout_s: float) -> None:
        engine.begin_close(timeout_s)

    @property
    def _engine(self) -> MemberEngine:
        """The engine. Raises the error of a member that is not started, closed or failed."""
        if self._engine_made is None:
            raise MemberClosedError(f"the member has not been started: {self._how_to_start}")
        self._engine_made.check_usable()
        return self._engine_made

    @property
    def member_id(self) -> str:
        """The consumer id string `<group>_<...>`: the name of the registration znode."""
        return self._engine.member

    @property
    def state(self) -> MemberState:
        """The state of the member; `MemberState.NEW` before the start. Never raises."""
        return self._engine_made.state if self._engine_made is not None else MemberState.NEW

    def subscribe(self, topics: Topics) -> None:
        """Changes the subscription: `topics` is that of the constructor. Returns at once.

        The registration is replaced and the group rebalances: partitions of topics that are not subscribed
        any more are revoked, the others are kept. `wait_until_assigned` waits for the new ones. Raises
        `ConfigError`.
        """
        subscription = subscription_of(topics)
        self._engine.subscribe(subscription)
        self._subscription = subscription

    def subscription(self) -> frozenset[str]:
        """Topics that this member subscribes to; for an expression, those matched at the last rebalance."""
        if isinstance(self._subscription, StaticSubscription):
            return frozenset(self._subscription.topics)
        return self._engine_made.topics if self._engine_made is not None else frozenset()

    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions that this member owns now; `leases` has them with their tokens."""
        return frozenset(self._engine.lease_table.current.grants)

    def leases(self) -> tuple[Lease, ...]:
        """The leases of the partitions that this member owns now, ordered by topic and partition."""
        lease_table = self._engine.lease_table
        return tuple(Lease(grant, lease_table) for _, grant in sorted(lease_table.current.grants.items()))

    def lease(self, topic_partition: TopicPartition) -> Lease | None:
        """The lease of one partition; None if this member does not own it."""
        lease_table = self._engine.lease_table
        grant = lease_table.current.grants.get(checked_partition(topic_partition))
        return Lease(grant, lease_table) if grant is not None else None


class ConsumerBase(MemberBase[ListenerT]):
    """Arguments and plain methods of both consumers; each may be called from any thread."""

    def __init__(
        self,
        address: str | None = None,
        *,
        group: str,
        topics: Topics,
        source: RecordSource,
        settings: GroupSettings | None = None,
        listener: ListenerT | None = None,
        client: Store | None = None,
        connection: ClientSettings | None = None,
        history: HistorySink | None = None,
        metrics: MetricsSink | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Checks everything that needs no network; raises `ConfigError`.

        The arguments other than `source` are those of `GroupMember`.

        Args:
            source: gives the records, see `RecordSource`; it is closed with the consumer.
        """
        super().__init__(
            address,
            group=group,
            topics=topics,
            settings=settings,
            listener=listener,
            client=client,
            connection=connection,
            history=history,
            metrics=metrics,
            clock=clock,
        )
        self._source = checked_source(source)
        self._consuming: ConsumerEngine | None = None

    @abstractmethod
    def _wake(self) -> None:
        """Wakes calls that wait for records; from any thread."""

    def _put_together(self, runner: CallbackRunner) -> MemberEngine:
        self._consuming = ConsumerEngine(self._options, self._source, runner, self._wake)
        return self._consuming.engine

    def _launch(self, engine: MemberEngine) -> None:
        assert self._consuming is not None
        self._consuming.start()

    def _begin_close(self, engine: MemberEngine, timeout_s: float) -> None:
        if self._consuming is not None:
            self._consuming.begin_close(timeout_s)

    @property
    def _member(self) -> ConsumerEngine:
        """The consumer's engine. Raises the error of a consumer that is not started, closed or failed."""
        engine = self._engine
        assert self._consuming is not None, engine
        return self._consuming

    def _no_reply(self, timeout_s: float) -> SourceUnavailableError:
        return SourceUnavailableError(f"{type(self._source).__name__} gave no reply within {timeout_s:g} s")

    def ack(self, record: Record) -> None:
        """Acknowledges a record as processed. Ignored and counted if its partition was lost meanwhile."""
        self._member.ack(record)

    @property
    def acks_ignored(self) -> int:
        """Number of acknowledgements that came after their partition was lost."""
        return self._consuming.delivery.acks_ignored if self._consuming is not None else 0

    def position(self, topic_partition: TopicPartition) -> int | None:
        """Offset of the next record to be delivered; None until the reset policy has given one.

        Raises `NotOwnerError`.
        """
        return self._member.position(topic_partition)

    def pause(self, *partitions: TopicPartition) -> None:
        """Stops delivery of these partitions until `resume`, also if they come back after a rebalance."""
        self._member.pause(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Delivers these partitions again."""
        self._member.resume(partitions)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that `pause` stopped."""
        return self._member.delivery.paused


def reply_timeout_s(settings: GroupSettings) -> float:
    """Longest wait for a reply, in seconds: every request has an outcome by the session's timeout."""
    return 5.0 + 3 * settings.session_timeout_ms / 1000


def not_connected(engine: MemberEngine, timeout_ms: int) -> StoreUnavailableError:
    """The error of a start without a connection in time; a real client adds address and last error."""
    if isinstance(engine.store, ZooKeeperClient):
        return engine.store._unconnected(timeout_ms / 1000)
    return StoreUnavailableError(f"the client given has no connection within {timeout_ms} ms")


def not_assigned(engine: MemberEngine, snapshot: MemberSnapshot | None) -> StableTimeoutError:
    """The error of `wait_until_assigned` at its timeout."""
    blockers = snapshot.blocked if snapshot is not None else {}
    waits = "; ".join(f"{tp} is owned by {owner}" for tp, owner in sorted(blockers.items()))
    return StableTimeoutError(state_text(engine, snapshot) + (f": {waits}" if waits else ""), blockers)


def state_text(engine: MemberEngine, snapshot: MemberSnapshot | None) -> str:
    """The member's state as text, for messages."""
    reason = f" ({snapshot.reason})" if snapshot is not None else ""
    return f"{engine.member} is {engine.state.value}{reason}"
