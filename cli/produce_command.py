"""`zkgroup produce`: appends lines to a topic hosted by our brokers."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, BinaryIO, cast

import click

from zkgroup.errors import (
    ConfigError,
    LinesNotAppendedError,
    NotFoundError,
    PartlyDoneError,
    RefusedError,
)

from .connection import connected
from .frame import command, output
from .options import complete_topics
from .output import say
from .parameters import SOME_TIME
from .produce_tables import Summary, progress_text

if TYPE_CHECKING:
    from zkgroup.admin.brokers import Cluster
    from zkgroup.lines.input_lines import Choose
    from zkgroup.lines.producer import LineProducer

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
    """Append lines to TOPIC, each at least once and in order within its partition. Acts at once.

    Without --partition and --key lines go to the partitions in turn. A line is any bytes up to a newline.
    Ends with 4 where some lines were acknowledged and others were not.
    """
    out = output()
    if partition is not None and key is not None:
        raise click.UsageError("--partition and --key exclude each other")
    with connected() as ensemble:
        from zkgroup.admin.brokers import Cluster
        from zkgroup.lines.producer import LineProducer
        from zkgroup.lines.producing import Acks, ProducerSettings

        cluster = Cluster(ensemble)
        choose = _chooser(topic, _partitions(cluster, topic, partition), key)
        if dry_run:
            say(f"would append lines of {_name(file)} to {topic}")
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
                say(f"interrupted: {progress_text(summary)}")
                raise
            finally:
                producer.close()
        document = summary.document(ensemble.as_of(), None if error is None else str(error))
    if not out.document(document, "partitions", Summary.KEYS):
        summary.show(out)
    if error is not None:
        raise _verdict(error, summary)


def _append(
    producer: LineProducer, file: IO[bytes], choose: Choose, summary: Summary, show: Callable[[], None]
) -> ConfigError | LinesNotAppendedError | None:
    """What ended it before the last line. Of a bad line those before it are brought to their end."""
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


def _partitions(cluster: Cluster, topic: str, wanted: int | None) -> Sequence[int]:
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
            "expected a broker of ours, which hosts lines, in /brokers/ids, found none; "
            "start one with `zkgroup broker run --id auto`"
        )
    chosen = known if wanted is None else [wanted]
    if foreign := cluster.led_by_kafka(TopicPartition(topic, number) for number in chosen):
        tp, (leader, one) = next(iter(foreign.items()))
        more = f" (and {len(foreign) - 1} more partitions by such)" if len(foreign) > 1 else ""
        raise RefusedError(
            f"{tp}: expected a broker of ours as its leader, for lines live on those only, found broker "
            f"{leader} at {one.host}:{one.port}, which is a broker of Kafka{more}; "
            f"append with a client of Kafka, or choose by --partition one that a broker of ours leads"
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
