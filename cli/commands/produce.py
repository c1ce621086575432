"""`zkgroup produce`: appends records to a topic of zkgroup or Kafka brokers, and reports the outcome."""

from __future__ import annotations

import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, BinaryIO, Literal, cast

import click

from zkgroup.errors import (
    AuthorizationError,
    ConfigError,
    NotFoundError,
    PartlyDoneError,
    RecordsNotAppendedError,
    RefusedError,
    SourceError,
    ZkGroupError,
)
from zkgroup.model.text import counted

from ..app import command, output
from ..context import connected
from ..param_types import SOME_TIME
from ..params import broker_options, complete_topics
from ..render import Output, echo_err
from ..schema import Document, KeyColumn, Shape, given, word

if TYPE_CHECKING:
    from zkgroup.admin.cluster.brokers import ClusterReader
    from zkgroup.clients.producer import DeliveryReport, RecordProducer
    from zkgroup.security.client import BrokerAccess

    from ..record_input import ParseLine


SHOW_S = 0.5
"""Between two lines of progress on a terminal."""


@command("produce")
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "--file",
    "--from",
    "file",
    type=click.File("rb"),
    default="-",
    metavar="FILE",
    help="Where the records are, one a line; - for standard input. --from is the old name.  [default: -]",
)
@click.option(
    "--input-format",
    type=click.Choice(["raw", "json"]),
    default="raw",
    show_default=True,
    help="raw: a line is a value. json: a JSON object with key, value, headers, timestamp and partition, "
    "as consume prints records.",
)
@click.option("--partition", type=click.IntRange(0), metavar="N", help="All records into this partition.")
@click.option(
    "--key",
    metavar="FIELD",
    help="Values are JSON objects, and FIELD is the key: records with equal FIELD go to one partition, "
    "as Kafka's producers hash it.",
)
@click.option(
    "--acks",
    type=click.Choice(["0", "1", "all"]),
    default="all",
    show_default=True,
    help="When a record counts as appended: sent, in the leader, in every in-sync replica.",
)
@click.option(
    "--timeout",
    "timeout_ms",
    type=SOME_TIME,
    default="120s",
    show_default=True,
    metavar="DURATION",
    help="Records that wait longer for their acknowledgement are given up, and the command ends.",
)
@click.option("--dry-run", is_flag=True, help="Check topic, partition and brokers; append nothing.")
@broker_options
def produce(
    topic: str,
    file: IO[bytes],
    input_format: str,
    partition: int | None,
    key: str | None,
    acks: Literal["0", "1", "all"],
    timeout_ms: int,
    dry_run: bool,
) -> None:
    """Append records to TOPIC, one for each line of the input. Acts at once.

    The brokers are those in /brokers/ids, of zkgroup or Kafka. Needs the extra kafka.

    Records of a partition stay in order. Those without a partition and a key go to the partitions in turn.
    With --acks all a record is appended once; Kafka before 0.11 appends it at least once. Exit code 4 where
    some records were acknowledged and others were not.

    \b
    Example:
      zkgroup produce orders --file lines.txt --acks all
    """
    out = output()
    if partition is not None and key is not None:
        raise click.UsageError("--partition and --key exclude each other")
    with connected() as ensemble:
        from zkgroup.admin.cluster.brokers import ClusterReader
        from zkgroup.clients.producer import ProducerSettings, RecordProducer

        from ..record_input import json_record, raw_record

        cluster = ClusterReader(ensemble)
        _check(cluster, topic, partition, ensemble.access)
        if dry_run:
            echo_err(f"would append records of {_name(file)} to {topic}")
            return
        summary = Summary(topic, acks)
        settings = ProducerSettings(acks=acks, delivery_timeout_ms=timeout_ms)
        parse = (json_record if input_format == "json" else raw_record)(partition, key)
        error: Exception | None = None
        with _progress(summary) as show:
            producer = RecordProducer(cluster, topic, summary.delivered, settings, ensemble.access)
            try:
                error = _append(producer, file, parse, summary, show)
            except KeyboardInterrupt:
                producer.close()
                echo_err(f"interrupted: {progress_text(summary)}")
                raise
            finally:
                producer.close()
        summary.error = None if error is None else str(error)
        as_of = ensemble.as_of()
    if not PRODUCE.print(out, as_of, summary):
        summary.show(out)
    if error is not None:
        raise _verdict(error, summary)


def _append(
    producer: RecordProducer,
    file: IO[bytes],
    parse: ParseLine,
    summary: Summary,
    show: Callable[[], None],
) -> ZkGroupError | None:
    """The error before the last line, if any. Records before an invalid line are sent to their end."""
    from ..record_input import LineSplitter, chunks_of

    lines = LineSplitter(_name(file))

    def take(some: Iterator[bytes]) -> None:
        for line in some:
            summary.lines += 1
            try:
                record = parse(line)
                if record is None:
                    summary.skipped()
                    continue
                producer.send(record)
            except ConfigError as error:
                raise lines.at(error) from error
            summary.records += 1
            show()

    def idle() -> None:
        producer.check()
        show()

    bad_line: ConfigError | None = None
    try:
        try:
            for chunk in chunks_of(cast("BinaryIO", file), idle):
                take(lines.feed(chunk))
            take(lines.finish())
        except ConfigError as error:
            bad_line = error
        except OSError as error:
            bad_line = ConfigError(f"{lines.place}: cannot be read: {error.strerror}")
        producer.flush()
    except (AuthorizationError, RecordsNotAppendedError, SourceError) as error:
        return error
    return bad_line


def _name(file: IO[bytes]) -> str:
    return str(getattr(file, "name", "<stdin>"))


def _verdict(error: Exception, summary: Summary) -> Exception:
    """Partly done where there are records that were acknowledged, or sent."""
    if summary.acknowledged or summary.sent:
        return PartlyDoneError(f"{error}; before that {progress_text(summary)}")
    return error


def _check(cluster: ClusterReader, topic: str, wanted: int | None, access: BrokerAccess) -> None:
    """Raises NotFoundError, ConfigError, RefusedError where records cannot go there."""
    from zkgroup.clients.kafka_python import addresses_of, load

    known = cluster.partitions(topic)
    if not known:
        raise NotFoundError(
            f"there is no topic {topic} in /brokers/topics; "
            f"make it with `zkgroup topic create {topic} --partitions N`"
        )
    if wanted is not None and wanted not in known:
        span = f"{known[0]} to {known[-1]}" if len(known) > 1 else str(known[0])
        raise ConfigError(f"--partition {wanted}: expected one of topic {topic}, which has {span}")
    brokers = cluster.brokers().values()
    if not access.bootstrap and not any(one.role == "data" for one in brokers):
        raise RefusedError(
            "expected a broker that keeps records in /brokers/ids, found none; "
            "start one with `zkgroup broker run --id auto`"
        )
    addresses_of(brokers, access)
    load("zkgroup produce")


@contextmanager
def _progress(summary: Summary) -> Iterator[Callable[[], None]]:
    """On a terminal one line on stderr that is written over; else nothing."""
    terminal = sys.stderr.isatty()
    shown_s, last = time.monotonic(), ""

    def show() -> None:
        nonlocal shown_s, last
        now_s = time.monotonic()
        if terminal and now_s - shown_s >= SHOW_S:
            text = progress_text(summary)
            click.echo(f"\r{text:<{len(last)}}", err=True, nl=False)
            shown_s, last = now_s, text

    try:
        yield show
    finally:
        if last:
            click.echo("", err=True)


_TAKEN = {"1": "acknowledged by their leaders", "all": "acknowledged by all in-sync replicas"}


@dataclass
class PartitionSummary:
    """The records that one partition has got."""

    partition: int
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None


@dataclass
class Summary:
    """Counts of records. Deliveries are counted on the producer's thread."""

    topic: str
    acks: str
    lines: int = 0
    """Read from the input."""
    records: int = 0
    """Of these lines: the others have no record."""
    acknowledged: int = 0
    may_be_repeated: int = 0
    """Of those acknowledged: may be in the log once more, since an answer was lost."""
    sent: int = 0
    """With --acks 0."""
    failed: int = 0
    """Surely not in the log."""
    unknown: int = 0
    """Neither acknowledged nor surely not in the log."""
    first_failed_line: int | None = None
    """Number of the first line of the input, from 1 on, whose record is one of these or failed."""
    partitions: dict[int, PartitionSummary] = field(default_factory=dict)

    error: str | None = None
    """The reason why not every record was appended."""
    _skipped: list[int] = field(default_factory=list)
    """For each line without a record, the number of the next record."""

    @property
    def rows(self) -> list[PartitionSummary]:
        """The partitions by number."""
        return [one for _, one in sorted(self.partitions.items())]

    def skipped(self) -> None:
        """The line just read has no record."""
        self._skipped.append(self.records)

    def delivered(self, delivery: DeliveryReport) -> None:
        """Counts the outcome of a record."""
        match delivery.outcome.value:
            case "acknowledged":
                self.acknowledged += 1
                self.may_be_repeated += delivery.may_be_repeated
                one = self._of(delivery)
                one.first_offset = delivery.offset if one.first_offset is None else one.first_offset
                one.last_offset = delivery.offset
            case "sent":
                self.sent += 1
                self._of(delivery)
            case "failed":
                self.failed += 1
                self._failed(delivery)
            case _:
                self.unknown += 1
                self._failed(delivery)

    def show(self, out: Output) -> None:
        """As text."""
        if self.partitions:
            PARTITION_SUMMARY.table(out, self.rows)
        out.line(progress_text(self))

    def _of(self, delivery: DeliveryReport) -> PartitionSummary:
        one = self.partitions.setdefault(delivery.partition, PartitionSummary(delivery.partition))
        one.records += 1
        return one

    def _failed(self, delivery: DeliveryReport) -> None:
        line = delivery.number + 1 + bisect_right(self._skipped, delivery.number)
        self.first_failed_line = min(line, self.first_failed_line or line)


PARTITION_SUMMARY = Shape(
    PartitionSummary,
    *("partition", "records", "lines=records", "first_offset", "last_offset"),
    columns=("partition", "records", KeyColumn("first_offset", "FIRST"), KeyColumn("last_offset", "LAST")),
)
PRODUCE = Document(
    "produce",
    Shape(
        Summary,
        *("topic", given("acks", word("0", "1", "all")), "lines", "records", "acknowledged"),
        *("may_be_repeated", "sent", "failed", "unknown", "first_failed_line", "error", "partitions=rows"),
    ),
    rows="partitions",
)


def progress_text(summary: Summary) -> str:
    """`12 records read, 10 acknowledged by all in-sync replicas`."""
    parts = [f"{counted(summary.records, 'record')} read"]
    if summary.acks == "0":
        parts.append(f"{summary.sent} sent")
    else:
        parts.append(f"{summary.acknowledged} {_TAKEN[summary.acks]}")
    for count, what in (
        (summary.may_be_repeated, "of those perhaps twice in the log"),
        (summary.failed, "not appended"),
        (summary.unknown, "with an unknown outcome"),
    ):
        if count:
            parts.append(f"{count} {what}")
    if summary.first_failed_line is not None:
        parts.append(f"the first of these is line {summary.first_failed_line}")
    return ", ".join(parts)
