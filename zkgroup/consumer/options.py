"""Checks the arguments of the public classes, and builds a `MemberEngine` from them.

Arguments are checked on the application's thread, so that the member's thread never gets an invalid one.
`open_engine` makes the member's id, opens a client or shares one, and connects machine and engine.
"""

from __future__ import annotations

import math
import random
import secrets
import socket
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from zkgroup.consumer.callbacks import AsyncRebalanceListener, CallbackRunner, Callbacks, RebalanceListener
from zkgroup.consumer.machine import MemberConfig, MemberMachine
from zkgroup.consumer.machine.machine import check_subscription
from zkgroup.consumer.member_engine import MemberEngine
from zkgroup.consumer.subscription_state import DeliveryPort
from zkgroup.errors import ConfigError
from zkgroup.metrics import NoMetrics
from zkgroup.model import Blacklist, StaticSubscription, Subscription, TopicPartition, Whitelist
from zkgroup.model.ports import Clock, HistorySink, MetricsSink, NamedHistorySink, Store
from zkgroup.settings import GroupSettings
from zkgroup.sources.port import Record
from zkgroup.version import VERSION
from zkgroup.znodes.ids import make_member_id, validate_consumer_id, validate_group, validate_topic
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.clock import SystemClock
from zkgroup.zookeeper.settings import Address

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
        if (self.address is None) == (self.client is None):
            raise ConfigError("a member needs exactly one of an address and a client")
        if self.client is not None and self.connection is not None:
            raise ConfigError("connection: expected none with `client`, which has its own settings")
        self._check_types()
        if self.address is not None:
            Address.parse(self.address)
        validate_group(self.group)
        if self.settings.consumer_id is not None:
            validate_consumer_id(self.settings.consumer_id)

    def _check_types(self) -> None:
        """Raises ConfigError for an argument of a wrong type, which would fail much later in a thread."""
        check_kind("address", self.address, str, "a text")
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
        jitter=random.Random().random,  # noqa: S311 - its own generator: no other code seeds it
        owns_client=options.client is None,
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
        metrics=options.metrics or NoMetrics(),
        delivery=delivery,
    )
    if options.client is not None:
        engine.at_end(lambda: _registry.leave(store, member))
    return engine
