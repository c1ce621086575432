"""`KafkaSource` and `BrokerSource`: records from brokers through kafka-python (extra `kafka`).

The brokers are Kafka's, 0.8.2.2 to today, or zkgroup's. Partitions are assigned and sought explicitly: the
group is in ZooKeeper, and Kafka's own groups and offsets are not used. `tests/long/interop` tests
kafka-python 3.0.12: an 0.8.2.2 broker closes the connection at `ApiVersions`, so the protocol version is
taken from the brokers' registrations.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from zkgroup.clients import kafka_python
from zkgroup.clients.addresses import BrokerAddress
from zkgroup.clients.leaders import read_leaders
from zkgroup.clients.log_ends import read_time_offsets
from zkgroup.errors import (
    ConfigError,
    OffsetOutOfRangeError,
    SourceError,
    SourceUnavailableError,
    StoreUnavailableError,
)
from zkgroup.model import TopicPartition
from zkgroup.model.ports import after, seconds_until
from zkgroup.model.values import PLAINTEXT
from zkgroup.security.client import BrokerAccess, ClientSecurity
from zkgroup.settings import GroupSettings
from zkgroup.sources.port import Bounds, Cluster, RecordSource, SourceRecord
from zkgroup.znodes.brokers import NO_LEADER, BrokerRegistration
from zkgroup.zookeeper.client import SystemClock
from zkgroup.zookeeper.settings import parse_hosts

log = logging.getLogger("zkgroup.consumer")

T = TypeVar("T")

SLICE_S = 0.1
"""Longest wait inside kafka-python in seconds, after which `wake` is checked."""
ANSWER_TIMEOUT_MS = 10_000
OFFSETS_SLICE_MS = 500
"""First wait for the offsets of partitions, after which kafka-python reads its metadata again."""
ADDRESSES_S = 10.0
"""Seconds without a record between two reads of the brokers' addresses in ZooKeeper."""
KEEP_S = 10.0
"""Seconds for which a partition without fetches keeps its position and its prefetched records."""


class KafkaSource(RecordSource):
    """`RecordSource` over brokers of Kafka or zkgroup, for one consumer at a time: it has its positions.

    A second consumer gets `ConfigError` when it starts, as long as the first is not closed. Brokers that
    cannot be reached are retried without limit, with a warning. `options` are passed on to
    `kafka.KafkaConsumer`; those that would make it a group member are refused.

    Raises BrokerAuthenticationError and AuthorizationError where brokers refuse the user, SourceError for
    other refusals that a retry does not resolve (an unsupported protocol version), ConfigError for options
    that kafka-python does not take; kafka-python's own error is the cause.
    """

    default_reset = "latest"
    requires_brokers = True

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        api_version: tuple[int, ...] | None = None,
        options: Mapping[str, object] | None = None,
        security: ClientSecurity | None = None,
    ) -> None:
        """Does not connect yet.

        Args:
            bootstrap: `host:port[,host:port...]` or a sequence; those registered in ZooKeeper when absent.
            api_version: as kafka-python takes it; from the registrations when absent.
            options: other options of kafka-python.
            security: protocol, certificates and user; in plain text by default. Without `bootstrap` the
                registered listeners of the protocol are used.

        Raises:
            ConfigError: kafka-python is not installed, or an address or an option cannot be.
        """
        _kafka()
        texts = bootstrap.split(",") if isinstance(bootstrap, str) else list(bootstrap or ())
        what = f"{type(self).__name__}, address {{!r}} of a broker"
        hosts = [parse_hosts(text, kafka_python.DEFAULT_PORT, what.format(text)) for text in texts]
        self._access = BrokerAccess(security=security, bootstrap=tuple(chain.from_iterable(hosts)))
        self._api_version = api_version
        self._options = dict(options or {})
        forbidden = sorted(RESERVED_SETTINGS & self._options.keys())
        if forbidden:
            raise ConfigError(
                f"{type(self).__name__} options: {', '.join(forbidden)} cannot be set: "
                "the group is managed by zkgroup"
            )
        if security is not None and (double := sorted(_SECURITY_OPTIONS & self._options.keys())):
            raise ConfigError(f"{type(self).__name__} options: {', '.join(double)} and security: give one")
        self._cluster: Cluster | None = None
        self._lock = threading.Lock()
        self._group: str | None = None
        """The group of the consumer that uses the source now."""
        self._configured: dict[str, object] = {}
        self._made: Any = None
        self._brokers = ""
        """Addresses of the last connection, for messages."""
        self._addresses: frozenset[str] = frozenset()
        """Those registered in ZooKeeper when they were read last; empty with a `bootstrap` of its own."""
        self._read_ms = 0
        """Says when they were read, or the last record came."""
        self._next: dict[TopicPartition, int] = {}
        """Partition to the offset that kafka-python reads next."""
        self._truncated: dict[TopicPartition, int] = {}
        """Partition to the position before which its leader's log differs from what was read."""
        self._asked_ms: dict[TopicPartition, int] = {}
        self._clock = SystemClock()  # the brokers are outside of a test's clock

    def configure(self, settings: GroupSettings, group: str) -> None:
        with self._lock:
            if self._group is not None:
                raise ConfigError(
                    f"source: this {type(self).__name__} is used by a consumer of group {self._group} "
                    "already: give each consumer one of its own"
                )
            self._group = group
        self._configured = {
            "client_id": settings.client_id or group,
            "fetch_min_bytes": settings.fetch_min_bytes,
            "fetch_max_wait_ms": settings.fetch_wait_max_ms,
            "max_partition_fetch_bytes": settings.fetch_message_max_bytes,
            "receive_buffer_bytes": settings.socket_receive_buffer_bytes,
            "request_timeout_ms": settings.socket_timeout_ms,
            "retry_backoff_ms": settings.refresh_leader_backoff_ms,
        }

    def open(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def close(self) -> None:
        super().close()
        self._disconnect()
        with self._lock:
            self._group = None

    def _disconnect(self) -> None:
        if self._made is not None:
            self._made.close(autocommit=False, timeout_ms=1000)
            self._made = None
        self._next.clear()
        self._truncated.clear()
        self._asked_ms.clear()

    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        found = self._found([topic_partition], ANSWER_TIMEOUT_MS)[topic_partition]
        if not isinstance(found, Bounds):
            raise found
        return found

    def bounds_of(
        self, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> Mapping[TopicPartition, Bounds | SourceUnavailableError]:
        """See `RecordSource`."""
        found: dict[TopicPartition, Bounds | SourceUnavailableError] = {}
        for tp, one in self._found(partitions, int(timeout_s * 1000)).items():
            if not isinstance(one, Bounds | SourceUnavailableError):
                raise one
            found[tp] = one
        return found

    def log_ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        try:
            found = self._found(partitions, ANSWER_TIMEOUT_MS)
        except SourceUnavailableError as error:
            log.warning("the ends of logs are unknown: %s", error)
            return {}
        return {tp: one.end for tp, one in found.items() if isinstance(one, Bounds)}

    def _found(
        self, partitions: Sequence[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, Bounds | SourceError]:
        """The bounds of each partition, or why they are not known.

        kafka-python asks all leaders at once, and one that fails takes the answers of the others away: then
        each leader is asked for itself, and then for each of its partitions. Raises SourceUnavailableError
        where no broker can be reached.
        """
        if not partitions:
            return {}
        consumer, until_ms = self._consumer(), self._clock.now_ms() + timeout_ms
        alone = len(partitions) == 1
        try:
            known = self._bounds(partitions, timeout_ms if alone else timeout_ms // 2)
            return {tp: known.get(tp, _no_leader()) for tp in partitions}
        except SourceError as failure:
            error = failure
        self._check_addresses(is_idle=True)
        if alone:
            has_none = kafka_python.leader_of(consumer, partitions[0]) == NO_LEADER
            return {partitions[0]: _no_leader() if has_none else error}
        led: dict[int | None, list[TopicPartition]] = {}
        for tp in partitions:
            led.setdefault(kafka_python.leader_of(consumer, tp), []).append(tp)
        found: dict[TopicPartition, Bounds | SourceError] = {
            **dict.fromkeys(led.pop(None, ()), error),
            **dict.fromkeys(led.pop(NO_LEADER, ()), _no_leader()),
        }
        parts = list(led.values()) if len(led) > 1 or found else [[tp] for tp in partitions]
        for number, part in enumerate(parts):
            left_ms = max(0, until_ms - self._clock.now_ms())
            found |= self._found(part, left_ms // (len(parts) - number))
        return found

    def _bounds(self, partitions: Sequence[TopicPartition], timeout_ms: int) -> dict[TopicPartition, Bounds]:
        """The bounds of partitions with a leader known to kafka-python; raises if none has one."""
        of = {tp: _kafka().TopicPartition(tp.topic, tp.partition) for tp in partitions}
        wanted, consumer = list(of.values()), self._consumer()
        earliest = self._ask_offsets(consumer.beginning_offsets, wanted, timeout_ms)
        end = self._ask_offsets(consumer.end_offsets, wanted, timeout_ms)
        return {tp: Bounds(earliest[at], end[at]) for tp, at in of.items() if at in earliest and at in end}

    def _ask_offsets(
        self, call: Callable[..., Mapping[Any, int]], wanted: Sequence[Any], timeout_ms: int
    ) -> Mapping[Any, int]:
        """The result of `beginning_offsets` or `end_offsets`, by kafka-python's partitions.

        kafka-python 3.0.12 does not read its metadata again where a broker answers that it does not lead a
        partition (error 6: it asks the same one until the timeout) or does not have it (error 3: KeyError).
        So it is asked in slices, and reads its metadata between them.
        """
        consumer = self._consumer()

        def question() -> Mapping[Any, int]:
            for slice_ms, is_last in _slices(timeout_ms):
                try:
                    return call(wanted, timeout_ms=slice_ms)
                except _kafka().errors.KafkaTimeoutError:
                    kafka_python.request_metadata(consumer)
                    if is_last:
                        raise
            raise AssertionError("there is a last slice")

        try:
            return self._ask(question)
        except KeyError as error:
            (tp,) = error.args
            if tp not in wanted:
                raise
            kafka_python.request_metadata(consumer)
            raise SourceUnavailableError(
                f"brokers {self._brokers}: the leader of {tp.topic}-{tp.partition} does not have it"
            ) from error

    def offsets_at(self, partitions: Sequence[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        """See `RecordSource`. Kafka knows the times of records from 0.10.1 on, in message format 0.10 on.

        Of others it knows when segments were last written: a warning says so, and the offset is the first of
        the last segment written at or before the time, or the earliest.
        """
        found = self._found(partitions, ANSWER_TIMEOUT_MS)
        bounds = {tp: one for tp, one in found.items() if isinstance(one, Bounds)}
        at = self._times(list(bounds), time_ms)
        late = [tp for tp in bounds if tp not in at and bounds[tp].earliest < bounds[tp].end]
        timed = self._times(late, 0) if late else {}
        offsets = {tp: at.get(tp, bounds[tp].end) for tp in bounds}
        if by_segment := [tp for tp in late if tp not in timed]:
            offsets |= self._segment_offsets(by_segment, time_ms)
        return offsets

    def _times(self, partitions: Sequence[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """The first offsets at or after a time; without those that have none, or no times of records."""
        wanted = {_kafka().TopicPartition(tp.topic, tp.partition): time_ms for tp in partitions}
        consumer = self._consumer()

        def times() -> Any:
            try:
                return consumer.offsets_for_times(wanted, timeout_ms=ANSWER_TIMEOUT_MS)
            except _kafka().errors.IncompatibleBrokerVersion:
                return {}

        found = self._ask(times) if wanted else {}
        return {TopicPartition(tp.topic, tp.partition): one.offset for tp, one in found.items() if one}

    def _segment_offsets(
        self, partitions: Sequence[TopicPartition], time_ms: int
    ) -> dict[TopicPartition, int]:
        """By version 0 of ListOffsets, in which kafka-python does not ask for times."""
        if self._options.get("security_protocol", PLAINTEXT) != PLAINTEXT:  # kafka-python's alone
            raise ConfigError(
                f"brokers {self._brokers} do not know the times of their records (Kafka before 0.10.1), and "
                "those of segments are not asked for with security_protocol: seek, or give `security` instead"
            )
        addresses = parse_hosts(self._brokers, kafka_python.DEFAULT_PORT, "address of a broker")
        bootstrap = [BrokerAddress(*at, negotiates=False, security=self._access.security) for at in addresses]
        found = read_time_offsets(*read_leaders(bootstrap, partitions), time_ms)
        log.warning("brokers %s know the times of segments only, not of records", self._brokers)
        return {tp: one.offset for tp, one in found.items() if not isinstance(one, str)}

    def read(self, topic_partition: TopicPartition, offset: int, max_records: int) -> Sequence[SourceRecord]:
        return self.poll({topic_partition: offset}, max_records, SLICE_S)

    def poll(
        self, positions: Mapping[TopicPartition, int], max_records: int, timeout_s: float
    ) -> Sequence[SourceRecord]:
        consumer = self._consumer()
        self._raise_truncated(positions)
        self._take_positions(consumer, positions)
        deadline_ms = after(self._clock, timeout_s)
        while True:
            left_s = seconds_until(self._clock, deadline_ms)
            records = self._poll_once(consumer, max_records * len(positions), min(SLICE_S, left_s))
            if records or left_s <= SLICE_S or self._wakers.was_woken():
                self._check_addresses(is_idle=not records)
                return records

    def _poll_once(self, consumer: Any, max_records: int, timeout_s: float) -> list[SourceRecord]:
        errors = _kafka().errors
        try:
            found = self._ask(
                lambda: consumer.poll(timeout_ms=int(timeout_s * 1000), max_records=max_records)
            )
        except errors.OffsetOutOfRangeError as error:
            raise self._out_of_range(error) from error
        except errors.LogTruncationError as error:
            truncated = [TopicPartition(tp.topic, tp.partition) for tp in error.divergent_offsets]
            self._truncated |= {tp: self._next[tp] for tp in truncated if tp in self._next}
            self._raise_truncated(self._next)
            return []
        records = [_record(record) for fetched in found.values() for record in fetched]
        for record in records:
            self._next[TopicPartition(record.topic, record.partition)] = record.offset + 1
        return records

    def _out_of_range(self, error: Exception) -> OffsetOutOfRangeError:
        (partition, offset), *_ = dict(error.args[0]).items()
        topic_partition = TopicPartition(partition.topic, partition.partition)
        self._next.pop(topic_partition, None)
        return OffsetOutOfRangeError(topic_partition, offset)

    def _raise_truncated(self, positions: Mapping[TopicPartition, int]) -> None:
        """Raises OffsetOutOfRangeError for the first partition whose leader does not have what was read.

        After an unclean election kafka-python names all such partitions at once, and goes on.
        """
        while self._truncated:
            topic_partition, offset = self._truncated.popitem()
            if positions.get(topic_partition) == offset:
                self._next.pop(topic_partition, None)
                raise OffsetOutOfRangeError(topic_partition, offset)

    def _take_positions(self, consumer: Any, positions: Mapping[TopicPartition, int]) -> None:
        """Makes kafka-python fetch exactly these partitions from these positions.

        Another partition is paused rather than dropped: its buffers are full, and the records that
        kafka-python has prefetched would be fetched again. After `KEEP_S` it is dropped.
        """
        now_ms = self._clock.now_ms()
        self._asked_ms.update(dict.fromkeys(positions, now_ms))
        kept = {tp for tp, asked_ms in self._asked_ms.items() if now_ms - asked_ms < KEEP_S * 1000}
        self._asked_ms = {tp: asked_ms for tp, asked_ms in self._asked_ms.items() if tp in kept}
        of = {tp: _kafka().TopicPartition(tp.topic, tp.partition) for tp in kept}
        if consumer.assignment() != set(of.values()):
            consumer.assign(list(of.values()))
            self._next = {tp: offset for tp, offset in self._next.items() if tp in kept}
        for topic_partition, offset in positions.items():
            if self._next.get(topic_partition) != offset:
                consumer.seek(of[topic_partition], offset)
                self._next[topic_partition] = offset
        consumer.resume(*(of[tp] for tp in positions))
        if idle := kept - positions.keys():
            consumer.pause(*(of[tp] for tp in idle))

    def _consumer(self) -> Any:
        if self._made is None:
            brokers = self._cluster.brokers().values() if self._cluster is not None else ()
            found = self._found_addresses(brokers)
            version = self._api_version or kafka_python.protocol_of(brokers)
            bootstrap = [str(address) for address in found]
            self._brokers = ",".join(bootstrap)
            self._addresses = frozenset(() if self._access.bootstrap else bootstrap)
            self._read_ms = self._clock.now_ms()
            if self._access.security is not None:
                kafka_python.check_login(found)
            self._made = self._ask(lambda: self._connect(bootstrap, version))
        return self._made

    def _found_addresses(self, brokers: Iterable[BrokerRegistration]) -> list[BrokerAddress]:
        is_their_own = "security_protocol" in self._options
        return kafka_python.addresses_of(brokers, self._access, any_listener=is_their_own)

    def _check_addresses(self, *, is_idle: bool) -> None:
        """Disconnects if every broker has another address than before, as kafka-python cannot find them then.

        Brokers without a fixed port have a new one after each start. If some keep theirs, kafka-python learns
        the others' from them.
        """
        now_ms = self._clock.now_ms()
        if not is_idle:
            self._read_ms = now_ms
        if self._cluster is None or not self._addresses or now_ms - self._read_ms < ADDRESSES_S * 1000:
            return
        self._read_ms = now_ms
        try:
            found = frozenset(map(str, self._found_addresses(self._cluster.brokers().values())))
        except (StoreUnavailableError, SourceUnavailableError) as error:
            log.info("the addresses of brokers are unknown now: %s", error)
            return
        if found.isdisjoint(self._addresses):
            log.warning("brokers %s have new addresses: %s", self._brokers, ", ".join(sorted(found)))
            self._disconnect()
        else:
            self._addresses = found

    def _ask(self, question: Callable[[], T]) -> T:
        return kafka_python.asked(question, self._brokers, type(self).__name__)

    def _connect(self, bootstrap: Sequence[str], version: tuple[int, ...] | None) -> Any:
        log.info("reading from brokers %s, protocol %s", ",".join(bootstrap), version or "as negotiated")
        options = {**kafka_python.connecting(), **self._configured, **self._options}
        if version is not None:
            options["api_version"] = version
        if self._access.security is not None:
            options |= self._access.security.kafka_python_options()
        return _kafka().KafkaConsumer(
            bootstrap_servers=list(bootstrap),
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            **options,
        )


RESERVED_SETTINGS = frozenset(
    {"group_id", "enable_auto_commit", "auto_offset_reset", "bootstrap_servers", "api_version"}
)
"""Options of kafka-python that the source sets itself."""
_SECURITY_OPTIONS = frozenset(
    {"security_protocol", "ssl_context", "sasl_mechanism", "sasl_plain_username", "sasl_plain_password"}
)
"""Those that stand for a `security`."""


class BrokerSource(KafkaSource):
    """`KafkaSource` over zkgroup brokers; from the earliest record if nothing is committed."""

    default_reset = "earliest"

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        api_version: tuple[int, ...] | None = None,
        options: Mapping[str, object] | None = None,
        security: ClientSecurity | None = None,
    ) -> None:
        """See `KafkaSource`."""
        super().__init__(bootstrap, api_version=api_version, options=options, security=security)


def _slices(timeout_ms: int) -> Iterator[tuple[int, bool]]:
    """A timeout in slices, each twice as long as the one before, so that slow answers come as well."""
    slice_ms = OFFSETS_SLICE_MS
    while timeout_ms > slice_ms:
        yield slice_ms, False
        timeout_ms -= slice_ms
        slice_ms *= 2
    yield timeout_ms, True


def _no_leader() -> SourceUnavailableError:
    return SourceUnavailableError("it has no leader that responds")


def _kafka() -> Any:
    return kafka_python.load("KafkaSource")


def _record(record: Any) -> SourceRecord:
    timestamp = record.timestamp
    return SourceRecord(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        value=record.value,
        key=record.key,
        timestamp_ms=timestamp if timestamp is not None and timestamp >= 0 else None,
        headers=tuple((name, value) for name, value in record.headers or ()),
    )
