"""`--source SPEC`: parses where records are, and opens it as a source or as log ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from zkgroup.admin.cluster.brokers import ClusterReader
from zkgroup.admin.coordinator import live_reader
from zkgroup.admin.offsets.planning import LogPositions
from zkgroup.errors import NotFoundError, ZkGroupError
from zkgroup.groups.membership import LiveReader
from zkgroup.groups.reads import LogEndReader
from zkgroup.model import TopicPartition
from zkgroup.wire.records import EARLIEST, LATEST

from .render import echo_err

if TYPE_CHECKING:
    from zkgroup.consumer.sources.port import RecordSource
    from zkgroup.groups.ensemble import Ensemble

OWN_S = 2.0
"""Longest wait for log ends without --source."""

KINDS = "files:DIR, brokers, kafka:HOST:PORT[,HOST:PORT...] or none"


def open_source(spec: str) -> RecordSource | None:
    """The source that a spec names; None for `none`. Raises UsageError, ConfigError."""
    kind, _, rest = spec.partition(":")
    if kind == "files" and rest:
        from zkgroup.consumer.sources.files import FileSource

        return FileSource(rest)
    if kind == "kafka" and rest:
        from zkgroup.consumer.sources.kafka import KafkaSource

        return KafkaSource(rest)
    if spec == "brokers":
        from zkgroup.consumer.sources.kafka import BrokerSource

        return BrokerSource()
    if spec == "none":
        return None
    raise click.UsageError(f"--source {spec!r}: expected {KINDS}")


class SourcePositions:
    """Implements `LogPositions` over a record source."""

    def __init__(self, source: RecordSource) -> None:
        self._source = source

    def earliest(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {tp: self._source.bounds(tp).earliest for tp in partitions}

    def latest(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._source.log_ends(partitions)

    def at_time(self, partitions: Sequence[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        return self._source.offsets_at(partitions, time_ms)


@contextmanager
def log_positions(spec: str | None, ensemble: Ensemble) -> Iterator[LogPositions | None]:
    """Positions by the source; None without one."""
    source = open_source(spec) if spec else None
    if source is None:
        yield None
        return
    try:
        source.open(ClusterReader(ensemble))
        yield SourcePositions(source)
    finally:
        source.close()


class BrokerPositions:
    """Implements `LogPositions` over the zkgroup brokers that lead the partitions, without --source.

    Raises NotFoundError for a partition that no zkgroup broker leads, or whose leader does not answer.
    """

    def __init__(self, cluster: ClusterReader) -> None:
        self._cluster = cluster

    def earliest(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._read(partitions, EARLIEST)

    def latest(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._read(partitions, LATEST)

    def at_time(self, partitions: Sequence[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        found = self._read(partitions, time_ms)
        older = self.latest([tp for tp, offset in found.items() if offset < 0])
        return {**found, **older}

    def _read(self, partitions: Sequence[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        from zkgroup.clients.log_ends import read_offsets_at

        leaders = self._cluster.led_by_zkgroup(partitions)
        found = read_offsets_at(self._cluster.brokers(), leaders, time_ms)
        for tp in partitions:
            why = found.get(tp, "no zkgroup broker leads it")
            if isinstance(why, str):
                raise NotFoundError(
                    f"{tp}: its offsets are not known: {why}; name the records with --source, as {KINDS}"
                )
        return {tp: offset for tp, offset in found.items() if isinstance(offset, int)}


def own_positions(ensemble: Ensemble) -> LogPositions | None:
    """Positions by the zkgroup brokers in the ensemble; None where there are none."""
    cluster = ClusterReader(ensemble)
    return BrokerPositions(cluster) if _has_zkgroup_broker(cluster) else None


@contextmanager
def own_log_ends(spec: str | None, ensemble: Ensemble) -> Iterator[LogEndReader | None]:
    """`log_ends`; without a source the zkgroup brokers in the ensemble are asked, where there are any.

    A log end that no broker sends within `OWN_S`, or that an access list hides, stays unknown, with a note.
    """
    own = ClusterReader(ensemble)
    if spec or not _has_zkgroup_broker(own):
        with log_ends(spec, ensemble) as ends:
            yield ends
        return
    from zkgroup.clients.log_ends import read_end_offsets

    def asked(partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        try:
            found = read_end_offsets(own.brokers(), own.led_by_zkgroup(partitions), int(OWN_S * 1000))
        except ZkGroupError as error:
            found = dict.fromkeys(partitions, str(error))
        if missing := {tp: why for tp, why in found.items() if isinstance(why, str)}:
            (first, why), *others = missing.items()
            more = f" and {len(others)} more" if others else ""
            echo_err(f"note: the end of {first}{more} is not known: {why}")
        return {tp: end for tp, end in found.items() if isinstance(end, int)}

    yield asked


def asking(ensemble: Ensemble) -> LiveReader:
    """Asks coordinators for their groups; prints a note about those that do not answer."""
    return live_reader(ensemble, lambda text: echo_err(f"note: {text}"))


def _has_zkgroup_broker(cluster: ClusterReader) -> bool:
    """Whether a broker of zkgroup is registered; no, with a note, where that cannot be read."""
    try:
        return any(one.is_zkgroup for one in cluster.brokers().values())
    except ZkGroupError as error:
        echo_err(f"note: the ends of logs are not known: {error}")
        return False


@contextmanager
def log_ends(spec: str | None, ensemble: Ensemble) -> Iterator[LogEndReader | None]:
    """Reads the next offset of partitions from the source; None without one."""
    with log_positions(spec, ensemble) as positions:
        yield positions.latest if positions else None
