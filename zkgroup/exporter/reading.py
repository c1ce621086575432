"""One read of an ensemble: groups, offsets and lag, the cluster, its coordinators, the ZooKeeper servers.

What cannot be read is unknown, never zero: that part of a reading is None or absent, and a reason says why.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

from zkgroup.admin.coordinator import live_reader
from zkgroup.admin.coordinator_status import CoordinatorStatus, read_coordinator
from zkgroup.clients.leaders import find_brokers
from zkgroup.clients.log_ends import read_end_offsets
from zkgroup.errors import StoreUnavailableError, ZkGroupError
from zkgroup.exporter.cluster import ClusterCache, ClusterReading
from zkgroup.exporter.group_cache import GroupCache, GroupReading
from zkgroup.groups.as_of import AsOf
from zkgroup.groups.descriptions import GroupDescription, GroupSummary
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.lag_verdict import LagVerdict, LagWindow, LagWindows, worst_verdict
from zkgroup.groups.membership import LiveGroup
from zkgroup.groups.reader import group_names
from zkgroup.groups.reads import LogEndReader, LogEnds, committed_at_ms, offset_of
from zkgroup.groups.snapshot import GroupSnapshot
from zkgroup.java_regex import compile_java
from zkgroup.model import TopicPartition
from zkgroup.model.text import counted, named
from zkgroup.zookeeper.four_letter_words import ServerStatus, ask_server
from zkgroup.zookeeper.settings import Address

T = TypeVar("T")

BROKER_TIMEOUT_MS = 2_000
"""Longest wait for each answer of a broker; after the first that is late it is not asked again."""
SERVER_TIMEOUT_S = 1.0
"""Longest wait for a ZooKeeper server's status."""


class PartitionReading(NamedTuple):
    """A partition with a committed offset. What is not known is None."""

    topic_partition: TopicPartition
    offset: int
    """The committed offset."""
    committed_at_ms: int | None
    """The time of the commit, by the server's clock; None where the last write was a claim."""
    log_end_offset: int | None
    """The offset that the next record will get."""
    verdict: LagVerdict | None
    """The verdict on its lag, by the last reads."""

    @property
    def lag(self) -> int | None:
        """Log end offset minus committed offset, at least 0."""
        return None if self.log_end_offset is None else max(0, self.log_end_offset - self.offset)


@dataclass(frozen=True, kw_only=True)
class EnsembleReading:
    """An ensemble at one moment, as far as it is known."""

    time_ms: int
    """The moment of the end of the read, in epoch milliseconds of this machine."""
    took_s: float
    """The seconds that it took."""
    packets: int | None = None
    """The requests that it sent to ZooKeeper; None where they are not counted."""
    as_of: AsOf | None = None
    """The last transaction that it has seen; None if ZooKeeper was not reached."""
    groups: Mapping[str, GroupReading] = field(default_factory=dict)
    """The groups that were read, by name."""
    partitions: Mapping[str, Sequence[PartitionReading]] = field(default_factory=dict)
    """The partitions of each group that have a committed offset."""
    log_ends: LogEnds = field(default_factory=dict)
    """The known log ends of these partitions."""
    cluster: ClusterReading | None = None
    """Brokers, controller and topics."""
    coordinator: CoordinatorStatus | None = None
    """The slots of group coordinators; None where no coordinator has ever started."""
    servers: tuple[ServerStatus, ...] = ()
    """The status of each ZooKeeper server of the address."""
    certificates: Mapping[int, float] = field(default_factory=dict)
    """Broker to the end of the validity of its certificate, in epoch seconds, where it was asked by TLS."""
    unknown: tuple[str, ...] = ()
    """The reasons why something is not known, for people."""

    @cached_property
    def summaries(self) -> tuple[GroupSummary, ...]:
        """The rows of `group list`, with the verdicts of the last reads."""
        return tuple(self._summary(name) for name in self.groups)

    def _summary(self, name: str) -> GroupSummary:
        row = self.groups[name].summary(self.time_ms, self.log_ends)
        found = [each.verdict for each in self.partitions[name]]
        without_offset = [None] if len(found) < row.partitions else []
        return replace(row, verdict=worst_verdict([*found, *without_offset]))

    def description(self, name: str) -> GroupDescription:
        """A group as `group describe` shows it, with the verdicts of the last reads."""
        described = self.groups[name].description(self.time_ms, self.log_ends)
        found = {row.topic_partition: row.verdict for row in self.partitions[name]}
        rows = (replace(row, verdict=found.get(row.topic_partition)) for row in described.partitions)
        return replace(described, partitions=tuple(rows))


def group_pattern(expression: str) -> re.Pattern[str]:
    """The groups whose whole name matches a Java expression. Raises ConfigError."""
    return compile_java(expression)


@dataclass(frozen=True, kw_only=True)
class ReadingSettings:
    """The parts of an ensemble that are read, and where log ends come from."""

    include: re.Pattern[str] | None = None
    """Only groups whose whole name matches are read; None for all."""
    exclude: re.Pattern[str] | None = None
    """Groups whose whole name matches are not read."""
    asks_leaders: bool = True
    """The leaders of partitions are asked for log ends, unless there is another source."""
    servers: Address | None = None
    """The ZooKeeper servers that are asked for their status; None for none."""
    words: bool = True
    """Whether four-letter words may be sent to them."""

    def is_read(self, group: str) -> bool:
        """Returns whether a group is read."""
        if self.include is not None and not self.include.fullmatch(group):
            return False
        return self.exclude is None or not self.exclude.fullmatch(group)


class Reader:
    """Reads an ensemble again and again, and keeps what does not change. Used on one thread."""

    def __init__(
        self,
        ensemble: Ensemble,
        settings: ReadingSettings,
        windows: LagWindows,
        *,
        log_ends: LogEndReader | None = None,
        packets: Callable[[], int | None] = lambda: None,
    ) -> None:
        """
        Args:
            ensemble: the one that is read.
            settings: what is read of it.
            windows: the lag of earlier reads, also of other readers of the ensemble.
            log_ends: is asked for the log ends in place of the leaders.
            packets: counts the requests sent to ZooKeeper so far.
        """
        self._ensemble, self._settings, self._windows = ensemble, settings, windows
        self._log_ends, self._count = log_ends, packets
        self._groups, self._cluster = GroupCache(), ClusterCache()
        self._certificates: dict[int, float] = {}
        """Of brokers that have been asked by TLS; kept while one does not answer."""

    def read(self) -> EnsembleReading:
        """The ensemble now. Raises StoreUnavailableError where ZooKeeper does not answer.

        All other errors cost what they are about: they are among the reasons in `unknown`.
        """
        clock, began = self._ensemble.clock, self._count()
        began_ms = clock.now_ms()
        unknown: list[str] = []
        names = _tried(self._names, unknown) or ()
        cluster = _tried(lambda: self._cluster.read(self._ensemble), unknown)
        asked = live_reader(self._ensemble, unknown.append, takes_refusals=True)

        def live(groups: Mapping[str, int]) -> Mapping[str, LiveGroup]:
            return _tried(lambda: asked(groups), unknown) or {}

        groups, denied = _tried(lambda: self._groups.read(self._ensemble, names, live), unknown) or ({}, {})
        unknown += map(str, denied.values())
        coordinator = _tried(lambda: read_coordinator(self._ensemble, ()), unknown)
        as_of, ended = self._ensemble.as_of(), self._count()
        partitions = sorted({tp for group in groups.values() for tp in group.snapshot.offsets})
        log_ends = _tried(lambda: self._read_ends(cluster, partitions, unknown), unknown) or {}
        servers = ask_servers(self._settings)
        rows = self._judge(groups, log_ends)
        return EnsembleReading(
            time_ms=clock.wall_ms(),
            took_s=(clock.now_ms() - began_ms) / 1000,
            packets=None if began is None or ended is None else ended - began,
            as_of=as_of,
            groups=groups,
            partitions=rows,
            log_ends=log_ends,
            cluster=cluster,
            coordinator=coordinator,
            servers=servers,
            certificates=dict(self._certificates),
            unknown=tuple(unknown),
        )

    def _names(self) -> list[str]:
        return [name for name in group_names(self._ensemble) if self._settings.is_read(name)]

    def _read_ends(
        self, cluster: ClusterReading | None, partitions: Sequence[TopicPartition], unknown: list[str]
    ) -> LogEnds:
        found: Mapping[TopicPartition, int | str] = {}
        if self._log_ends is not None:
            found = self._log_ends(partitions) if partitions else {}
        elif cluster is not None and cluster.registered and self._settings.asks_leaders:
            addresses = find_brokers(cluster.registered, self._ensemble.access, BROKER_TIMEOUT_MS)
            # An offset of a topic that was deleted has no lag, and nothing about it is unknown.
            leaders = {tp: cluster.leaders[tp] for tp in partitions if tp in cluster.leaders}
            found = read_end_offsets(addresses, leaders, BROKER_TIMEOUT_MS, self._certificates)
            self._certificates = {
                broker: ends_s for broker, ends_s in self._certificates.items() if broker in addresses
            }
        reasons: dict[str, list[TopicPartition]] = {}
        for tp, end in found.items():
            if isinstance(end, str):
                reasons.setdefault(end, []).append(tp)
        unknown += [
            f"log ends of {counted(len(tps), 'partition')}, {named(tps, 1)}: {why}"
            for why, tps in reasons.items()
        ]
        return {tp: end for tp, end in found.items() if isinstance(end, int)}

    def _judge(
        self, groups: Mapping[str, GroupReading], log_ends: LogEnds
    ) -> dict[str, tuple[PartitionReading, ...]]:
        """The partitions of each group that have a committed offset, with the verdicts on their lag."""
        windows = self._windows.of({name: group.snapshot.offsets for name, group in groups.items()})
        now_ms = self._ensemble.clock.wall_ms()
        return {
            name: tuple(_rows(group.snapshot, windows[name], log_ends, now_ms))
            for name, group in groups.items()
        }


def ask_servers(settings: ReadingSettings) -> tuple[ServerStatus, ...]:
    """The status of each ZooKeeper server, all asked at the same time."""
    if settings.servers is None:
        return ()
    hosts = settings.servers.hosts
    with ThreadPoolExecutor(len(hosts)) as threads:
        return tuple(
            threads.map(
                lambda host: ask_server(*host, words=settings.words, timeout_s=SERVER_TIMEOUT_S), hosts
            )
        )


def _rows(
    snapshot: GroupSnapshot, windows: Mapping[TopicPartition, LagWindow], log_ends: LogEnds, now_ms: int
) -> Iterator[PartitionReading]:
    for tp, window in windows.items():
        offset, committed, end = offset_of(snapshot, tp), committed_at_ms(snapshot, tp), log_ends.get(tp)
        verdict = window.read(offset, committed, end, now_ms=now_ms)
        if offset is not None:
            yield PartitionReading(tp, offset, committed, end, verdict)


def _tried(read: Callable[[], T], unknown: list[str]) -> T | None:
    """What is read; None, and a reason more, where that fails, unless ZooKeeper does not answer."""
    try:
        return read()
    except StoreUnavailableError:
        raise
    except ZkGroupError as error:
        unknown.append(str(error))
        return None
