"""`RecordSource`, the port of record sources, and the records.

An application's own source is a subclass with two methods.

```python
class TableSource(RecordSource):
    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        rows = self._table.count(topic_partition.topic, topic_partition.partition)
        return Bounds(earliest=0, end=rows)

    def read(self, topic_partition: TopicPartition, offset: int, max_records: int) -> Sequence[SourceRecord]:
        rows = self._table.slice(topic_partition.topic, topic_partition.partition, offset, max_records)
        return [
            SourceRecord(topic_partition.topic, topic_partition.partition, offset + i, row.value)
            for i, row in enumerate(rows)
        ]
```

All methods except `wake` are called on one thread of the consumer, its fetcher; they may block for a while,
since neither delivery nor a rebalance waits for them. An error ends the consumer (state `failed`), with these
exceptions: after `SourceUnavailableError` and `StoreUnavailableError` (of `Cluster`, without a connection to
ZooKeeper) the call is retried, and after `OffsetOutOfRangeError` the reset policy gives another position.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, Self

from zkgroup.errors import ConfigError, OffsetOutOfRangeError, SourceError, SourceUnavailableError
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock, Sleeper, after
from zkgroup.settings import GroupSettings
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.zookeeper.client import SystemClock

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """One record as a source reads it."""

    topic: str
    """The name of the topic."""
    partition: int
    """The partition number, from 0."""
    offset: int
    """Position in the partition; rising, but not always by one (compacted topics have gaps)."""
    value: bytes | None
    """The value; None for a tombstone of a compacted topic."""
    key: bytes | None = None
    """The key; None for a record without one."""
    timestamp_ms: int | None = None
    """Epoch milliseconds; None if the source does not know it."""
    headers: Headers = ()
    """Pairs of name and value, in the order of the record; a value may be None."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record as the application gets it, with the thread and token of its partition's claim."""

    topic: str
    """The name of the topic."""
    partition: int
    """The partition number, from 0."""
    offset: int
    """Position in the partition."""
    key: bytes | None
    """The key; None for a record without one."""
    value: bytes | None
    """The value; None for a tombstone of a compacted topic."""
    timestamp_ms: int | None
    """Epoch milliseconds; None if the source does not know it."""
    headers: Headers
    """Pairs of name and value, in the order of the record; a value may be None."""
    thread: int
    """Number of the owning thread (stream) of this member, from 0."""
    token: int
    """Fencing token: the owner znode's czxid. Pass it to the store that you write to."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the record."""
        return TopicPartition(self.topic, self.partition)


log = logging.getLogger("zkgroup.consumer")


class Bounds(NamedTuple):
    """The first offset and the log end of a partition."""

    earliest: int
    """Offset of the first record that can be read."""
    end: int
    """Offset that the next record will get (log end)."""


class Cluster(Protocol):
    """The brokers and topics in ZooKeeper; each call reads them anew, with a deadline."""

    def brokers(self) -> Mapping[int, BrokerRegistration]: ...

    def partitions(self, topic: str) -> tuple[int, ...]:
        """Partition numbers of a topic, ascending; empty if it does not exist."""
        ...


class Wakers:
    """Wakes the fetchers of all consumers that share a source, also if called between two waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wakers: dict[int, threading.Event] = {}
        self._sleepers: dict[int, Sleeper] = {}

    def wait_with(self, sleeper: Sleeper) -> None:
        """Makes this thread wait by `sleeper`, on its clock."""
        self._sleepers[threading.get_ident()] = sleeper

    @property
    def clock(self) -> Clock:
        """The clock of this thread's waits."""
        sleeper = self._sleepers.get(threading.get_ident())
        return SystemClock() if sleeper is None else sleeper.clock

    def wake(self) -> None:
        with self._lock:
            wakers = tuple(self._wakers.values())
        for waker in wakers:
            waker.set()

    def wait(self, timeout_s: float) -> None:
        """Waits for the next `wake`. The first wait of a thread returns at once: it may have missed one."""
        me = threading.get_ident()
        with self._lock:
            waker = self._wakers.get(me)
            if waker is None:
                self._wakers[me] = threading.Event()
                return
        sleeper = self._sleepers.get(me)
        if sleeper is None:
            waker.wait(timeout_s)
        else:
            sleeper.sleep(sleeper.after(timeout_s), waker.wait, waker.set, waker.is_set)
        waker.clear()

    def was_woken(self) -> bool:
        """Returns whether there was a `wake` since this thread's last call of this or of `wait`."""
        with self._lock:
            waker = self._wakers.setdefault(threading.get_ident(), threading.Event())
        if not waker.is_set():
            return False
        waker.clear()
        return True

    def forget(self) -> None:
        """Removes this thread, which does not wait any more."""
        with self._lock:
            self._wakers.pop(threading.get_ident(), None)
            self._sleepers.pop(threading.get_ident(), None)


class RecordSource(ABC):
    """A source of the records of partitions: the base class of all sources."""

    default_reset: ClassVar[str] = "earliest"
    """The reset policy when `auto_offset_reset` is not set."""
    requires_brokers: ClassVar[bool] = False
    """True if claims wait until a broker is registered when `require_brokers` is not set."""
    poll_interval_s: float = 0.2
    """Seconds between two reads of the default `poll` while there is nothing new."""

    _wakers: Wakers
    _reached: dict[TopicPartition, int]
    """Says where the default `poll` has read to, or the position that it has compared with the bounds."""
    _unavailable: frozenset[TopicPartition] = frozenset()

    def __new__(cls, *_arguments: object, **_named: object) -> Self:
        """Sets up the wakers, so that a subclass need not call `__init__` of this class."""
        source = super().__new__(cls)
        source._wakers = Wakers()
        source._reached = {}
        return source

    @abstractmethod
    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        """First offset and log end of a partition. The end is behind each record that `read` has returned."""

    @abstractmethod
    def read(self, topic_partition: TopicPartition, offset: int, max_records: int) -> Sequence[SourceRecord]:
        """Records from this offset on, in order; empty if there is none yet. Returns at once.

        Raises `OffsetOutOfRangeError` for an offset that the source does not have any more.
        """

    def bounds_of(
        self, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> Mapping[TopicPartition, Bounds | SourceUnavailableError]:
        """Partition to its bounds, or to the error, within `timeout_s` for all of them.

        Partitions for which the time was too short are absent. Override it if the source can read the bounds
        of many partitions at once.
        """
        clock = self._wakers.clock
        until_ms = after(clock, timeout_s)
        found: dict[TopicPartition, Bounds | SourceUnavailableError] = {}
        for topic_partition in partitions:
            if found and clock.now_ms() >= until_ms:
                break
            try:
                found[topic_partition] = self.bounds(topic_partition)
            except SourceUnavailableError as error:
                found[topic_partition] = error
        return found

    def configure(self, settings: GroupSettings, group: str) -> None:  # noqa: B027 - a hook
        """Called before `open` by each consumer that starts, with its settings and the name of its group.

        A source for one consumer at a time raises `ConfigError` here for a second one, until `close`.
        """

    def open(self, cluster: Cluster) -> None:  # noqa: B027 - a hook
        """Called once before anything else; keep `cluster` if you need to know the brokers."""

    def poll(
        self, positions: Mapping[TopicPartition, int], max_records: int, timeout_s: float
    ) -> Sequence[SourceRecord]:
        """Records of these partitions from these offsets; waits up to `timeout_s` for the first one.

        Returns early, empty, after `wake()`. An unavailable partition does not delay the others; if all are
        unavailable, the error is raised. Raises `OffsetOutOfRangeError` for a position outside the bounds,
        also if `read` does not: nothing would ever come there. Override it if the source can wait otherwise
        than by reading again every `poll_interval_s`.
        """
        records: list[SourceRecord] = []
        unavailable: dict[TopicPartition, SourceUnavailableError] = {}
        for topic_partition, offset in positions.items():
            try:
                found = self.read(topic_partition, offset, max_records)
                if found:
                    self._reached[topic_partition] = found[-1].offset + 1
                    records.extend(found)
                else:
                    self._check(topic_partition, offset)
            except SourceUnavailableError as error:
                unavailable[topic_partition] = error
        self._warn(unavailable)
        if unavailable and len(unavailable) == len(positions):
            raise next(iter(unavailable.values()))
        if not records:
            self._wakers.wait(min(timeout_s, self.poll_interval_s))
        return records

    def _check(self, topic_partition: TopicPartition, offset: int) -> None:
        """Compares a position that does not follow a record with the bounds, once."""
        if self._reached.get(topic_partition) == offset:
            return
        bounds = self.bounds(topic_partition)
        if not bounds.earliest <= offset <= bounds.end:
            found = f"the source has {bounds.earliest} to {bounds.end}"
            raise OffsetOutOfRangeError(topic_partition, offset, found)
        self._reached[topic_partition] = offset

    def _warn(self, unavailable: Mapping[TopicPartition, SourceUnavailableError]) -> None:
        """Logs a warning for each partition that cannot be read any more, while others can."""
        for topic_partition, error in unavailable.items():
            if topic_partition not in self._unavailable:
                log.warning("%s cannot be read now: %s", topic_partition, error)
        self._unavailable = frozenset(unavailable)

    def log_ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Log end of each partition, for lag; partitions that cannot be read are absent."""
        ends: dict[TopicPartition, int] = {}
        for topic_partition in partitions:
            try:
                ends[topic_partition] = self.bounds(topic_partition).end
            except SourceError:
                continue
        return ends

    def offsets_at(self, partitions: Sequence[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        """Offset of the first record at or after a time (epoch milliseconds), or the log end.

        Partitions that cannot be read are absent. Raises `ConfigError` if the source does not know the times
        of its records.
        """
        raise ConfigError(f"{type(self).__name__} does not know the times of its records")

    def wait_with(self, sleeper: Sleeper) -> None:
        """Makes the default `poll` wait on the consumer's clock; its fetcher calls this before `open`."""
        self._wakers.wait_with(sleeper)

    def wake(self) -> None:
        """Ends a `poll` that waits; from any thread."""
        self._wakers.wake()

    def close(self) -> None:
        """Closes files and connections; called once by each consumer's fetcher."""
        self._wakers.forget()


def checked_source(source: object) -> RecordSource:
    """The source. Raises `ConfigError` for a value that is not a `RecordSource`."""
    if not isinstance(source, RecordSource):
        raise ConfigError(
            f"source: expected an instance of RecordSource such as FileSource, found {source!r}"
        )
    return source
