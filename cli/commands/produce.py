"""`zkgroup produce`: appends lines to a topic hosted by zkgroup brokers, and reports the outcome."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, BinaryIO, cast

import click

from zkgroup.errors import (
    ConfigError,
    LinesNotAppendedError,
    NotFoundError,
    PartlyDoneError,
    RefusedError,
)

from ..app import command, output
from ..context import connected
from ..param_types import SOME_TIME
from ..params import complete_topics
from ..render import Output, TableColumn, echo_err
from ..schema import Document, Shape, given, word

if TYPE_CHECKING:
    from zkgroup.admin.cluster.brokers import ClusterReader
    from zkgroup.lines.input_lines import Choose
    from zkgroup.lines.producer import LineProducer
    from zkgroup.lines.producing import Delivery


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
    help="Where the lines are; - for standard input. --from is the old name.  [default: -]",
)
@click.option("--partition", type=click.IntRange(0), metavar="N", help="All lines into this partition.")
@click.option(
    "--key",
    metavar="FIELD",
    help="Lines are JSON objects; those with equal FIELD go to one partition, as Kafka's producers hash it.",
)
@click.option(
    "--acks",
    type=click.Choice(["0", "1", "all"]),
    default="all",
    show_default=True,
    help="When a line counts as taken: sent, in the leader, in every in-sync replica.",
)
@click.option(
    "--timeout",
    "timeout_ms",
    type=SOME_TIME,
    default="120s",
    show_default=True,
    metavar="DURATION",
    help="Lines that wait longer for their acknowledgement are given up, and the command ends.",
)
@click.option("--dry-run", is_flag=True, help="Check topic, partition and brokers; append nothing.")
def produce(
    topic: str,
    file: IO[bytes],
    partition: int | None,
    key: str | None,
    acks: str,
    timeout_ms: int,
    dry_run: bool,
) -> None:
    """Append lines to TOPIC, each at least once. Acts at once.

    Lines of a partition stay in order. Without --partition and --key lines go to the partitions in turn. A
    line is any bytes up to a newline. Exit code 4 where some lines were acknowledged and others were not.

    \b
    Example:
      zkgroup produce orders --file lines.txt --acks all
    """
    out = output()
    if partition is not None and key is not None:
        raise click.UsageError("--partition and --key exclude each other")
    with connected() as ensemble:
        from zkgroup.admin.cluster.brokers import ClusterReader
        from zkgroup.lines.producer import LineProducer
        from zkgroup.lines.producing import Acks, ProducerSettings

        cluster = ClusterReader(ensemble)
        choose = _chooser(topic, _partitions(cluster, topic, partition), key)
        if dry_run:
            echo_err(f"would append lines of {_name(file)} to {topic}")
            return
        summary = Summary(topic, acks)
        settings = ProducerSettings(acks=Acks(acks), delivery_timeout_ms=timeout_ms)
        error: Exception | None = None
        with _progress(summary) as show:
            producer = LineProducer(cluster.brokers, settings, summary.delivered)
            try:
                error = _append(producer, file, choose, summary, show)
            except KeyboardInterrupt:
                producer.close()
                echo_err(f"interrupted: {progress_text(summary)}")
                raise
            finally:
                producer.close()
        summary.error = None if error is None else str(error)
        document = PRODUCE.json(ensemble.as_of(), summary)
    if not out.document(document, "partitions", PARTITION_SUMMARY.keys):
        summary.show(out)
    if error is not None:
        raise _verdict(error, summary)


def _append(
    producer: LineProducer, file: IO[bytes], choose: Choose, summary: Summary, show: Callable[[], None]
) -> ConfigError | LinesNotAppendedError | None:
    """The error before the last line, if any. Lines before an invalid line are sent to their end."""
    from zkgroup.lines.input_lines import append_all

    def taken() -> None:
        summary.lines += 1
        show()

    bad_line: ConfigError | None = None
    try:
        try:
            append_all(producer, cast("BinaryIO", file), _name(file), choose, taken)
        except ConfigError as error:
            bad_line = error
        producer.flush()
    except LinesNotAppendedError as error:
        return error
    return bad_line


def _name(file: IO[bytes]) -> str:
    return str(getattr(file, "name", "<stdin>"))


def _verdict(error: Exception, summary: Summary) -> Exception:
    """Partly done where there are lines that were acknowledged, or sent."""
    if summary.acknowledged or summary.sent:
        return PartlyDoneError(f"{error}; before that {progress_text(summary)}")
    return error


def _partitions(cluster: ClusterReader, topic: str, wanted: int | None) -> Sequence[int]:
    """Those that lines may go to. Raises NotFoundError, ConfigError, RefusedError."""
    from zkgroup.lines.leaders import addresses_of
    from zkgroup.model import TopicPartition

    known = cluster.partitions(topic)
    if not known:
        raise NotFoundError(
            f"there is no topic {topic} in /brokers/topics; "
            f"make it with `zkgroup topic create {topic} --partitions N`"
        )
    if wanted is not None and wanted not in known:
        raise ConfigError(f"--partition {wanted}: expected one of topic {topic}, which has {_span(known)}")
    if not addresses_of(cluster.brokers()):
        raise RefusedError(
            "expected a zkgroup broker, which keeps records, in /brokers/ids, found none; "
            "start one with `zkgroup broker run --id auto`"
        )
    chosen = known if wanted is None else [wanted]
    if foreign := cluster.led_by_kafka(TopicPartition(topic, number) for number in chosen):
        tp, (leader, one) = next(iter(foreign.items()))
        more = f" (and {len(foreign) - 1} more partitions by such)" if len(foreign) > 1 else ""
        raise RefusedError(
            f"{tp}: expected a zkgroup broker as its leader, the only kind that takes lines, found broker "
            f"{leader} at {one.host}:{one.port}, which is a broker of Kafka{more}; "
            f"append with a client of Kafka, or choose by --partition one that a zkgroup broker leads"
        )
    return chosen


def _span(known: Sequence[int]) -> str:
    return f"{known[0]} to {known[-1]}" if len(known) > 1 else str(known[0])


def _chooser(topic: str, partitions: Sequence[int], key: str | None) -> Choose:
    import itertools

    from zkgroup.lines.partitioning import key_of, partition_of_key
    from zkgroup.model import TopicPartition

    turns = itertools.cycle([TopicPartition(topic, number) for number in partitions])
    if key is None:
        return lambda line: next(turns)
    return lambda line: TopicPartition(topic, partition_of_key(key_of(line, key), partitions))


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
    """The lines that one partition has got."""

    partition: int
    lines: int = 0
    first_offset: int | None = None
    last_offset: int | None = None


_PARTITION_COLUMNS: list[TableColumn[PartitionSummary]] = [
    TableColumn("PARTITION", lambda one: one.partition, right=True),
    TableColumn("LINES", lambda one: one.lines, right=True),
    TableColumn("FIRST", lambda one: one.first_offset, right=True),
    TableColumn("LAST", lambda one: one.last_offset, right=True),
]


@dataclass
class Summary:
    """Counts of lines."""

    topic: str
    acks: str
    lines: int = 0
    """Taken from the input."""
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
    """Number of the first line of the input, from 1 on, that is one of these or failed."""
    partitions: dict[int, PartitionSummary] = field(default_factory=dict)

    error: str | None = None
    """Why not every line was appended."""

    @property
    def rows(self) -> list[PartitionSummary]:
        """The partitions by number."""
        return [one for _, one in sorted(self.partitions.items())]

    def delivered(self, delivery: Delivery) -> None:
        """Counts what became of some lines."""
        count = len(delivery.numbers)
        match delivery.outcome.value:
            case "acknowledged":
                self.acknowledged += count
                self.may_be_repeated += count if delivery.may_be_repeated else 0
                self._place(delivery, count)
            case "sent":
                self.sent += count
                self._of(delivery).lines += count
            case _:
                self._failed(delivery, count)

    def show(self, out: Output) -> None:
        """As text."""
        if self.partitions:
            out.table(_PARTITION_COLUMNS, self.rows)
        out.line(progress_text(self))

    def _of(self, delivery: Delivery) -> PartitionSummary:
        number = delivery.topic_partition.partition
        return self.partitions.setdefault(number, PartitionSummary(number))

    def _failed(self, delivery: Delivery, count: int) -> None:
        if delivery.may_be_repeated:
            self.unknown += count
        else:
            self.failed += count
        first = min(delivery.numbers) + 1
        self.first_failed_line = min(first, self.first_failed_line or first)

    def _place(self, delivery: Delivery, count: int) -> None:
        one, last = self._of(delivery), delivery.base_offset + count - 1
        one.lines += count
        one.first_offset = delivery.base_offset if one.first_offset is None else one.first_offset
        one.last_offset = last


PARTITION_SUMMARY = Shape(PartitionSummary)
PRODUCE = Document(
    "produce",
    Shape(
        Summary,
        *("topic", given("acks", word("0", "1", "all")), "lines", "acknowledged", "may_be_repeated"),
        *("sent", "failed", "unknown", "first_failed_line", "error", "partitions=rows"),
    ),
)


def progress_text(summary: Summary) -> str:
    """`12 lines read, 10 acknowledged by all in-sync replicas`."""
    parts = [f"{_lines(summary.lines)} read"]
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


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"
