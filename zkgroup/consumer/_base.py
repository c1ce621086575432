"""The base class of the blocking and the asyncio members, and the arguments of all public classes.

Arguments are checked on the application's thread, so that the member's thread never gets an invalid one.
`open_engine` makes the member's id, opens a client or shares one, and connects machine and engine.

`MemberBase` is the base of all four public classes, `consumer_engine.ConsumerBase` of the two consumers.
"""

from __future__ import annotations

import math
import os
import random
import secrets
import socket
import threading
from abc import ABC
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, TypeVar
from weakref import WeakKeyDictionary

from zkgroup.consumer.callbacks import AsyncRebalanceListener, CallbackRunner, Callbacks, RebalanceListener
from zkgroup.consumer.lease import DeliveryPort, Lease
from zkgroup.consumer.machine import MemberConfig, MemberMachine, MemberSnapshot
from zkgroup.consumer.machine.events import MemberState
from zkgroup.consumer.machine.machine import check_subscription
from zkgroup.consumer.member_engine import MemberEngine
from zkgroup.consumer.probing import member_probe
from zkgroup.errors import (
    ConfigError,
    MemberClosedError,
    StableTimeoutError,
    StoreUnavailableError,
)
from zkgroup.metrics.probes import Probe
from zkgroup.model import Blacklist, StaticSubscription, Subscription, TopicPartition, Whitelist
from zkgroup.model.ports import Clock, HistorySink, MetricsSink, NamedHistorySink, Store
from zkgroup.settings import GroupSettings
from zkgroup.sources.port import Record
from zkgroup.version import VERSION
from zkgroup.znodes.ids import make_member_id, validate_consumer_id, validate_group, validate_topic
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.client import SystemClock
from zkgroup.zookeeper.settings import check_connection

OFFSET_MAX = 2**63 - 1
"""The highest offset: JVM members read offsets as a long."""
TIMEOUT_MAX_S = 1e8
"""Seconds: three years, the longest wait of Python's threads; a longer timeout, also infinity, is this."""


def check_kind(name: str, value: object, kind: type, expected: str | None = None) -> None:
    """Raises `ConfigError` if the argument is given and not an instance of the class."""
    if value is not None and not isinstance(value, kind):
        raise ConfigError(
            f"{name}: expected {expected or f'an instance of {kind.__name__}'}, found {value!r}"
        )


def check_port(name: str, value: object, methods: Iterable[str], expected: str) -> None:
    """Raises `ConfigError` if the argument is given and lacks a method, or is a class."""
    fits = all(callable(getattr(value, method, None)) for method in methods)
    if value is not None and (isinstance(value, type) or not fits):
        raise ConfigError(f"{name}: expected {expected}, found {value!r}")


def checked_timeout(timeout_s: object) -> float:
    """Seconds to wait, at least 0. Raises `ConfigError` for a value that is not a number."""
    if not isinstance(timeout_s, int | float) or isinstance(timeout_s, bool) or math.isnan(timeout_s):
        raise ConfigError(f"timeout_s: expected a number of seconds, found {timeout_s!r}")
    return max(0.0, min(timeout_s, TIMEOUT_MAX_S))


def check_count(max_records: object) -> None:
    """Raises `ConfigError` for a number of records that cannot be delivered."""
    if not isinstance(max_records, int) or isinstance(max_records, bool) or max_records < 1:
        raise ConfigError(f"max_records: expected a whole number above 0, found {max_records!r}")


def check_record(record: object) -> None:
    """Raises `ConfigError` for a value that is not a `Record`."""
    if not isinstance(record, Record):
        raise ConfigError(f"record: expected a Record as it was delivered, found {record!r}")


def check_offset(topic_partition: object, offset: object) -> None:
    """Raises `ConfigError` for an invalid partition or offset."""
    checked_partitions((topic_partition,))
    if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset <= OFFSET_MAX:
        raise ConfigError(f"{topic_partition}: expected an offset of 0 or more, found {offset!r}")


def checked_partition(topic_partition: object) -> TopicPartition:
    """The partition. Raises `ConfigError` for a value that is not a `TopicPartition`."""
    return checked_partitions((topic_partition,))[0]


def checked_partitions(partitions: object) -> tuple[TopicPartition, ...]:
    """The partitions, read once. Raises `ConfigError` for a value that is not a `TopicPartition`."""
    if isinstance(partitions, TopicPartition) or not isinstance(partitions, Iterable):
        raise ConfigError(f"partitions: expected a list of TopicPartition, found {partitions!r}")
    found: list[TopicPartition] = []
    for item in partitions:
        if not isinstance(item, TopicPartition):
            raise ConfigError(f"partitions: expected each as a TopicPartition, found {item!r}")
        found.append(item)
    return tuple(found)


def checked_leases(leases: object) -> tuple[Lease, ...]:
    """The leases, read once; none for None. Raises `ConfigError` for a value that is not a `Lease`."""
    if not isinstance(leases, Iterable | None):
        raise ConfigError(f"since: expected leases as of `leases()`, found {leases!r}")
    found: list[Lease] = []
    for item in leases or ():
        if not isinstance(item, Lease):
            raise ConfigError(f"since: expected each as a Lease, found {item!r}")
        found.append(item)
    return tuple(found)


def checked_times(times: object) -> dict[TopicPartition, int]:
    """A copy that the application cannot change. Raises `ConfigError` for an invalid partition or time."""
    if not isinstance(times, Mapping):
        raise ConfigError(
            f"times: expected a mapping of TopicPartition to epoch milliseconds, found {times!r}"
        )
    found = dict(times)
    checked_partitions(found)
    for topic_partition, time_ms in found.items():
        if not isinstance(time_ms, int) or isinstance(time_ms, bool) or time_ms < 0:
            raise ConfigError(f"{topic_partition}: expected a time in epoch milliseconds, found {time_ms!r}")
    return found


def checked_offsets(offsets: object) -> dict[TopicPartition, int]:
    """A copy that the application cannot change. Raises `ConfigError` for an invalid partition or offset."""
    if not isinstance(offsets, Mapping):
        raise ConfigError(f"offsets: expected a mapping of TopicPartition to offset, found {offsets!r}")
    found = dict(offsets)
    for topic_partition, offset in found.items():
        check_offset(topic_partition, offset)
    return found


Topics = Iterable[str] | Mapping[str, int] | Whitelist | Blacklist
"""The argument `topics`: names, names with thread counts, or an expression over all topics."""


_SYSTEM_CLOCK = SystemClock()


@dataclass(frozen=True, kw_only=True)
class MemberOptions:
    """The checked arguments of the public classes; building it uses no network."""

    address: str | None
    client: Store | None
    group: str
    subscription: Subscription
    settings: GroupSettings
    listener: RebalanceListener | AsyncRebalanceListener | None
    history: HistorySink | None
    metrics: MetricsSink | None
    clock: Clock | None
    connection: ClientSettings | None

    def __post_init__(self) -> None:
        check_kind("address", self.address, str, "a text")
        check_connection("a member", self.address, self.client, self.connection)
        self._check_types()
        validate_group(self.group)
        if self.settings.consumer_id is not None:
            validate_consumer_id(self.settings.consumer_id)

    def _check_types(self) -> None:
        """Raises ConfigError for an argument of a wrong type, which would fail much later in a thread."""
        if not isinstance(self.group, str):
            raise ConfigError(f"group: expected a name, found {self.group!r}")
        check_kind("settings", self.settings, GroupSettings)
        check_kind("connection", self.connection, ClientSettings)
        check_port("client", self.client, ("submit", "listen", "abandon", "close"), "a ZooKeeperClient")
        check_port("history", self.history, ("record",), "a HistorySink such as HistoryFile")
        check_port(
            "metrics", self.metrics, ("count", "gauge", "observe"), "a MetricsSink such as PrometheusMetrics"
        )
        check_port("clock", self.clock, ("now_ms", "wall_ms", "call_at"), "a Clock such as SystemClock")

    @property
    def clock_used(self) -> Clock:
        """The clock; the system's if none was given."""
        return self.clock or _SYSTEM_CLOCK

    def check_listener(self, kind: type[RebalanceListener | AsyncRebalanceListener]) -> None:
        """Raises `ConfigError` if the listener is not an instance of this class."""
        check_kind("listener", self.listener, kind)

    @property
    def is_authenticated(self) -> bool:
        """True if the member's client has credentials."""
        if self.client is None:
            return self.client_settings().is_authenticated
        return isinstance(self.client, ZooKeeperClient) and self.client.is_authenticated

    def client_settings(self) -> ClientSettings:
        """The settings of the member's own client."""
        settings = self.settings
        return replace(
            self.connection or ClientSettings(),
            session_timeout_ms=settings.session_timeout_ms,
            connection_timeout_ms=settings.connection_timeout_ms,
        )


def subscription_of(topics: Topics) -> Subscription:
    """The subscription in the argument `topics`. Raises `ConfigError` if it is empty or invalid."""
    match topics:
        case Whitelist() | Blacklist():
            if not isinstance(topics.expression, str):
                raise ConfigError(f"topics: expected a Java expression, found {topics.expression!r}")
            if not _is_count(topics.threads):
                raise ConfigError(f"threads: expected a whole number above 0, found {topics.threads!r}")
            check_subscription(topics)
            return topics
        case str():
            raise ConfigError(f"topics: expected a list or a mapping, found the text {topics!r}")
        case Mapping():
            wanted = dict(topics)
        case Iterable():
            names = [_topic_name(name) for name in topics]
            wanted = dict.fromkeys(names, 1)
            if len(wanted) != len(names):
                raise ConfigError(f"topics: expected each name once, found {names}")
        case _:
            raise ConfigError(f"topics: expected a list or a mapping, found {topics!r}")
    if not wanted:
        raise ConfigError("topics: expected at least one name")
    for topic, threads in wanted.items():
        validate_topic(_topic_name(topic))
        if not _is_count(threads):
            raise ConfigError(f"threads of topic {topic}: expected a whole number above 0, found {threads!r}")
    return StaticSubscription(wanted)


def _topic_name(name: object) -> str:
    if not isinstance(name, str):
        raise ConfigError(f"topics: expected names, found {name!r}")
    return name


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


class _Registry:
    """The members of each client: two members of the same id would adopt each other's claims."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._members: WeakKeyDictionary[Store, set[str]] = WeakKeyDictionary()

    def enter(self, client: Store, member: str) -> None:
        with self._lock:
            members = self._members.setdefault(client, set())
            if member in members:
                raise ConfigError(f"consumer_id: {member} is a member on this client already; choose another")
            members.add(member)

    def leave(self, client: Store, member: str) -> None:
        with self._lock:
            self._members.get(client, set()).discard(member)


_registry = _Registry()


def open_engine(
    options: MemberOptions, runner: CallbackRunner, delivery: DeliveryPort | None = None
) -> MemberEngine:
    """Builds the engine and, if an address was given, its client, without starting them."""
    clock = options.clock_used
    settings = options.settings
    host = socket.gethostname()
    member = make_member_id(options.group, settings.consumer_id, host, clock.wall_ms(), secrets.token_hex(4))
    config = MemberConfig(
        group=options.group,
        member_id=member,
        subscription=options.subscription,
        settings=settings,
        version=VERSION,
        host=None if settings.consumer_id is None else host,
        pid=os.getpid(),
        jitter=random.Random().random,  # noqa: S311 - its own generator: no other code seeds it
        prepares=Callbacks(options.listener, runner).prepares,
        owns_client=options.client is None,
        creates_parents=not options.is_authenticated,
    )
    machine = MemberMachine(config)
    if isinstance(options.history, NamedHistorySink):
        options.history.belongs_to(member, clock)
    store = options.client
    if store is not None:
        _registry.enter(store, member)
    else:
        assert options.address is not None
        store = ZooKeeperClient(options.address, options.client_settings())
    engine = MemberEngine(
        group=options.group,
        member=member,
        machine=machine,
        store=store,
        clock=clock,
        callbacks=Callbacks(options.listener, runner),
        callback_timeout_ms=settings.revoke_timeout_ms,
        owns_client=options.client is None,
        history=options.history,
        metrics=options.metrics,
        delivery=delivery,
    )
    if options.client is not None:
        engine.at_end(lambda: _registry.leave(store, member))
    return engine


ListenerT = TypeVar("ListenerT", bound=RebalanceListener | AsyncRebalanceListener)

HAND_BACK_TIMEOUT_S = 30.0
CLOSE_TIMEOUT_S = 5.0
CLOSE_GRACE_MS = 1000
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
        """Returns whether `stop` or `close` was called, or the member has failed: the loop around it ends."""
        engine = self._engine_made
        has_failed = engine is not None and engine.failure is not None
        return self._stopped or self._closed.is_set() or has_failed

    def _wake(self) -> None:
        """Wakes calls that wait; on the engine's thread, or from any other."""
        return  # waits of a member are checked again after every task of its loop

    def _check_stopped(self, engine: MemberEngine) -> None:
        """Raises MemberClosedError if a wait ended because of `stop`."""
        if self._stopped and engine.state is not MemberState.STABLE:
            raise stopped_error(engine)

    def _changed(self, engine: MemberEngine) -> tuple[Lease, ...]:
        """The leases after `wait_changed`. Raises MemberClosedError if it ended because of `stop`."""
        if self._stopped:
            raise stopped_error(engine)
        return self.leases()

    def _begin_wait_closed(self) -> tuple[MemberEngine, Future[None]]:
        """The engine, and a future that fails at the end of the member; done if `stop` ends the wait."""
        engine = self._engine_made
        if engine is None:
            raise self._not_started()
        engine.check_process()
        return engine, engine.when(lambda: self._stopped and not self._closed.is_set())

    def _begin_wait_changed(self, since: Iterable[Lease] | None) -> tuple[MemberEngine, Future[None]]:
        """The engine, and a future that is done when the leases are not these any more, or after `stop`."""
        engine = self._engine
        known = frozenset((lease.topic_partition, lease.token) for lease in checked_leases(since))
        if since is None:
            known = _held(engine)
        return engine, engine.when(lambda: self._stopped or _held(engine) != known)

    def _launch(self, engine: MemberEngine) -> None:
        engine.start()

    def _begin_close(self, engine: MemberEngine, timeout_s: float, *, leave: bool = True) -> None:
        engine.begin_close(timeout_s, leave=leave)

    @property
    def _is_static(self) -> bool:
        return self._settings.restart_grace_ms is not None

    def _check_leave(self, leave: bool) -> None:
        if not leave and not self._is_static:
            raise ConfigError("close(leave=False): expected restart_grace_ms in the settings, found none")

    @property
    def _engine(self) -> MemberEngine:
        """The engine. Raises the error of a member that is not started, closed or failed."""
        if self._engine_made is None:
            raise self._not_started()
        self._engine_made.check_usable()
        return self._engine_made

    def _not_started(self) -> MemberClosedError:
        return MemberClosedError(f"the member has not been started: {self._how_to_start}")

    @property
    def member_id(self) -> str:
        """The consumer id string `<group>_<...>`: the name of the registration znode."""
        return self._engine.member

    @property
    def state(self) -> MemberState:
        """The state of the member; `MemberState.NEW` before the start. Never raises."""
        return self._engine_made.state if self._engine_made is not None else MemberState.NEW

    def _probe(self) -> Probe:
        """See `serve_metrics`."""
        engine = self._engine_made
        if engine is None:
            group = f"a member of {self._options.group}"
            return Probe(part=group, status="not started", not_ready="not started")
        return member_probe(
            f"member {engine.member}",
            engine.state,
            engine.reason,
            held=engine.lease_table.current,
            now_ms=engine.lease_table.now_ms(),
            missing_topics=engine.missing_topics,
            failure=engine.failure,
        )

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


def _held(engine: MemberEngine) -> frozenset[tuple[TopicPartition, int]]:
    """The partitions that the member owns now, with their tokens."""
    return frozenset((tp, grant.token) for tp, grant in engine.lease_table.current.grants.items())


def reply_timeout_s(settings: GroupSettings) -> float:
    """Longest wait for a reply, in seconds: every request has an outcome by the session's timeout."""
    return 5.0 + 3 * settings.session_timeout_ms / 1000


def not_connected(engine: MemberEngine, timeout_ms: int) -> StoreUnavailableError:
    """The error of a start without a connection in time; a real client adds address and last error."""
    if isinstance(engine.store, ZooKeeperClient):
        return engine.store._unconnected(timeout_ms / 1000)
    return StoreUnavailableError(f"the client given has no connection within {timeout_ms} ms")


def stopped_error(engine: MemberEngine) -> MemberClosedError:
    """The error of a wait that `stop` has ended."""
    return MemberClosedError(f"{engine.member}: stop() was called")


def timed_out(engine: MemberEngine, timeout_s: float, what: str) -> StableTimeoutError:
    """The error of `wait_changed` and `wait_closed` at their timeout."""
    return StableTimeoutError(f"{state_text(engine, None)}: {what} after {timeout_s:g} s")


def not_assigned(engine: MemberEngine, snapshot: MemberSnapshot | None) -> StableTimeoutError:
    """The error of `wait_until_assigned` at its timeout."""
    blockers = snapshot.blocked if snapshot is not None else {}
    waits = "; ".join(f"{tp} is owned by {owner}" for tp, owner in sorted(blockers.items()))
    return StableTimeoutError(state_text(engine, snapshot) + (f": {waits}" if waits else ""), blockers)


def state_text(engine: MemberEngine, snapshot: MemberSnapshot | None) -> str:
    """The member's state as text, for messages."""
    reason = f" ({snapshot.reason})" if snapshot is not None else ""
    return f"{engine.member} is {engine.state.value}{reason}"
