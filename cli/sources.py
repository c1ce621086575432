"""`--source SPEC`: parses where records are, and opens it as a source or as log ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from zkgroup.admin.cluster.brokers import ClusterReader
from zkgroup.admin.coordinator import live_reader
from zkgroup.admin.offsets.planning import UNKNOWN, LogPositions
from zkgroup.admin.offsets.positions import bootstrap_positions, registered_positions
from zkgroup.errors import (
    AuthorizationError,
    BrokerAuthenticationError,
    ConfigError,
    CorruptZnodeError,
    SourceError,
    ZkGroupError,
)
from zkgroup.groups.membership import LiveReader
from zkgroup.groups.reads import LogEndReader
from zkgroup.model import TopicPartition
from zkgroup.model.text import named
from zkgroup.security.client import PLAIN_ACCESS, BrokerAccess

from .app import note_refusals, output
from .render import echo_err

if TYPE_CHECKING:
    from zkgroup.groups.ensemble import Ensemble
    from zkgroup.sources.port import Bounds, RecordSource

OWN_S = 2.0
"""Longest wait for log ends without --source."""

KINDS = "files:DIR, brokers, kafka[:HOST:PORT,...] or none"

NOTES = 5
"""Reasons why log ends are not known that are printed."""


def open_source(spec: str, access: BrokerAccess = PLAIN_ACCESS) -> RecordSource | None:
    """The source that a spec names; None for `none`. Raises UsageError, ConfigError.

    `access`: how it reaches brokers; the addresses of a spec come first.
    """
    check_source(spec)
    kind, _, rest = spec.partition(":")
    if kind == "files":
        from zkgroup.sources.files import FileSource

        return FileSource(rest)
    if kind == "kafka":
        from zkgroup.sources.kafka import KafkaSource

        return KafkaSource(rest or access.bootstrap_servers, security=access.security)
    if spec == "brokers":
        from zkgroup.sources.kafka import BrokerSource

        return BrokerSource(access.bootstrap_servers, security=access.security)
    return None


def check_source(spec: str) -> None:
    """Raises UsageError for a spec that names no source; opens nothing."""
    kind, _, rest = spec.partition(":")
    if spec not in ("brokers", "kafka", "none") and not (kind in ("files", "kafka") and rest):
        raise click.UsageError(f"--source {spec!r}: expected {KINDS}")


class SourcePositions:
    """Implements `LogPositions` over a record source."""

    def __init__(self, source: RecordSource) -> None:
        self._source = source

    def earliest(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | str]:
        return {tp: self._bounds(tp, lambda bounds: bounds.earliest) for tp in partitions}

    def latest(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | str]:
        return {tp: self._bounds(tp, lambda bounds: bounds.end) for tp in partitions}

    def _bounds(self, tp: TopicPartition, which: Callable[[Bounds], int]) -> int | str:
        try:
            return which(self._source.bounds(tp))
        except (SourceError, CorruptZnodeError, OSError) as error:
            return str(error)

    def at_time(self, partitions: Sequence[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        return self._source.offsets_at(partitions, time_ms)


@contextmanager
def log_positions(spec: str, ensemble: Ensemble) -> Iterator[LogPositions | None]:
    """Positions by the source; None for `none`. Brokers are asked without kafka-python."""
    kind, _, rest = spec.partition(":")
    if spec in ("brokers", "kafka"):
        yield registered_positions(ensemble)
    elif kind == "kafka" and rest:
        yield bootstrap_positions(ensemble, rest)
    elif (source := open_source(spec, ensemble.access)) is None:
        yield None
    else:
        try:
            source.open(ClusterReader(ensemble))
            yield SourcePositions(source)
        finally:
            source.close()


@contextmanager
def log_ends(spec: str | None, ensemble: Ensemble) -> Iterator[LogEndReader | None]:
    """Reads the next offset of partitions from the source.

    Without one the zkgroup brokers in the ensemble are asked, where there are any; where there are none, a
    note says how to see the lag. A log end that is not known is a note, and takes none of the others away.
    """
    note = _once()
    if spec is None:
        yield lambda partitions: _own_ends(ensemble, partitions, note)
        return
    with log_positions(spec, ensemble) as positions:
        yield _noted(positions, note) if positions else None


def _own_ends(
    ensemble: Ensemble, partitions: Sequence[TopicPartition], note: Callable[[str], None]
) -> Mapping[TopicPartition, int | str]:
    if not partitions:
        return {}
    try:
        registered = ClusterReader(ensemble).brokers().values()
    except ZkGroupError as error:
        note(f"the ends of logs are not known: {error}")
        return {}
    if any(one.is_zkgroup for one in registered):
        own = registered_positions(ensemble, zkgroup_only=True, timeout_ms=int(OWN_S * 1000))
        return _noted(own, note)(partitions)
    if output().is_table:
        how = (
            "`--source kafka` asks the registered brokers where the logs end"
            if registered
            else "no broker is registered: `--source files:DIR` or `kafka:HOST:PORT` says where the logs end"
        )
        note(f"the lag is not shown: {how}")
    return {}


def _noted(positions: LogPositions, note: Callable[[str], None]) -> LogEndReader:
    """The log ends, and a note for each reason why some are not known."""

    def asked(partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | str]:
        found: Mapping[TopicPartition, int | str]
        try:
            found = positions.latest(partitions)
        except (ConfigError, BrokerAuthenticationError):
            raise
        except ZkGroupError as error:
            found = dict.fromkeys(partitions, str(error))
        reasons: dict[str, list[TopicPartition]] = {}
        for tp in partitions:
            if isinstance(why := found.get(tp, UNKNOWN), str):
                reasons.setdefault(why, []).append(tp)
        for why, unknown in list(reasons.items())[:NOTES]:
            note(f"the end of {named(unknown, 1)} is not known: {why}")
        if rest := sum(map(len, list(reasons.values())[NOTES:])):
            note(f"the ends of {rest} more partitions are not known, for other reasons")
        return found

    return asked


def asking(ensemble: Ensemble) -> LiveReader:
    """Asks coordinators for their groups; prints a note about those that do not answer."""
    return live_reader(ensemble, _once())


def _once() -> Callable[[str], None]:
    """Prints each note the first time only: a command may read many times."""
    printed: set[str] = set()

    def note(text: str) -> None:
        if text not in printed:
            printed.add(text)
            _note(text)

    return note


def _note(text: str) -> None:
    """Prints a note; a refusal is the error at the end of the command."""
    if AuthorizationError.WORDS in text:
        note_refusals([text])
    else:
        echo_err(f"note: {text}")
