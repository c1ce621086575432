"""`zkgroup consume`: one member of a group in the foreground."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from socket import gethostname
from typing import TYPE_CHECKING, Any

import click

from zkgroup.errors import ConfigError, MemberClosedError
from zkgroup.settings import ASSIGNMENT_STRATEGIES

from ..app import command, output, shared
from ..context import add_connect_timeout, broker_access, client_settings, connecting, target
from ..groups import threads_text
from ..param_types import DURATION, TOPIC_AND_COUNT
from ..params import Metrics, broker_options, complete_topics, group_argument, metrics_options, set_option
from ..render import echo_err
from ..serving import StopSignals, metrics_sink, supervised

if TYPE_CHECKING:
    from zkgroup.consumer.sync import Consumer, GroupMember
    from zkgroup.model import Blacklist, Whitelist
    from zkgroup.settings import GroupSettings
    from zkgroup.sources.port import Record, RecordSource

    from ..member_events import EventPrinter

    Wanted = dict[str, int] | Whitelist | Blacklist


CHECK_S = 0.5
"""Period of the check whether a member without records has failed."""
END_CHECK_S = 0.2
"""Seconds without a record after which the ends of the partitions are read."""


ASSIGNOR_HELP = f"Strategies, the most preferred first: {', '.join(ASSIGNMENT_STRATEGIES)}, or own ones."


@command("consume")
@group_argument()
@click.option(
    "--topic",
    "topics",
    multiple=True,
    type=TOPIC_AND_COUNT,
    metavar="T[:THREADS]",
    shell_complete=complete_topics,
    help="A topic, with a number of threads; may be repeated.",
)
@click.option("--whitelist", metavar="RE", help="All topics whose whole name matches this Java expression.")
@click.option("--blacklist", metavar="RE", help="All topics but those that match.")
@click.option(
    "--source",
    default="none",
    show_default=True,
    metavar="SPEC",
    help="files:DIR, brokers, kafka[:HOST:PORT,...] or none: own partitions, deliver nothing.",
)
@click.option("--assignor", metavar="NAME[,NAME...]", help=ASSIGNOR_HELP)
@click.option("--consumer-id", metavar="ID", help="Name of this member.  [default: generated]")
@click.option(
    "--start",
    "--from",
    "start",
    type=click.Choice(["earliest", "latest", "error"]),
    help="Where to start without a committed offset. --from is the old name.",
)
@click.option("--max-messages", type=click.IntRange(1), metavar="N", help="Leave after N records.")
@click.option(
    "--exit-at-end", is_flag=True, help="Leave once every partition that this member owns is read to its end."
)
@click.option(
    "--output-format",
    type=click.Choice(["raw", "json"]),
    help="Print records alone. raw: the value, a line each. json: JSON objects, as `produce --input-format "
    "json` takes them.",
)
@click.option(
    "--session-timeout", type=DURATION, metavar="DURATION", help="Same as --set session_timeout_ms."
)
@click.option(
    "--commit-interval", type=DURATION, metavar="DURATION", help="Same as --set auto_commit_interval_ms."
)
@click.option(
    "--restart-grace",
    type=DURATION,
    metavar="DURATION",
    help="Keep the partitions for this --consumer-id over a restart. Same as --set restart_grace_ms.",
)
@click.option("--no-leave", is_flag=True, help="At the end, keep the partitions for --restart-grace.")
@set_option("settings", "Any setting of a member", aliases=["--setting"])
@click.option("--dry-run", is_flag=True, help="Check everything, join nothing.")
@metrics_options
@broker_options
def consume(
    group: str,
    topics: Sequence[tuple[str, int]],
    whitelist: str | None,
    blacklist: str | None,
    source: str,
    max_messages: int | None,
    exit_at_end: bool,
    no_leave: bool,
    output_format: str | None,
    dry_run: bool,
    metrics: Metrics,
    settings: Sequence[tuple[str, str]],
    **short: Any,
) -> None:
    """Join GROUP as a member and print what happens.

    Runs until Ctrl-C or SIGTERM, then leaves cleanly (exit code 0). With --no-leave its partitions wait for
    the next process of this --consumer-id. A record counts as processed once its line is written.

    \b
    Example:
      zkgroup consume billing --topic orders --source files:data
    """
    out = output()
    if out.format not in ("table", "ndjson"):
        raise click.UsageError(f"consume prints events: --format table or ndjson, not {out.format}")
    if output_format is not None and out.format != "table":
        raise click.UsageError("--output-format prints records alone, --format ndjson all events: give one")
    if source == "none":
        _check_without_source(output_format, max_messages, exit_at_end=exit_at_end)
    wanted = _wanted(topics, whitelist, blacklist)
    made = _settings(settings, short, delivers=source != "none", keeps=no_leave)
    where = target(shared())

    from ..member_events import EventPrinter, RecordPrinter
    from ..sources import open_source

    name = f"{group}_{made.consumer_id}"
    printer = (
        EventPrinter(out, name) if output_format is None else RecordPrinter(name, raw=output_format == "raw")
    )
    records = open_source(source, broker_access())
    options: dict[str, Any] = {
        "group": group,
        "topics": wanted,
        "settings": made,
        "listener": printer,
        "history": printer,
        "metrics": metrics_sink(metrics),
        "connection": client_settings(where),
    }
    member = _member(where.zookeeper, records, options)
    if dry_run:
        echo_err(f"would join group {group} on {where.zookeeper} for {_topics_text(wanted)}")
        return
    with supervised(member, metrics):
        _run(member, printer, max_messages, exit_at_end=exit_at_end, leave=not no_leave)


def _check_without_source(output_format: str | None, max_messages: int | None, *, exit_at_end: bool) -> None:
    """Raises UsageError for options that are about records."""
    for is_given, option, why in (
        (output_format is not None, "--output-format", "no record is printed"),
        (max_messages is not None, "--max-messages", "nothing is delivered"),
        (exit_at_end, "--exit-at-end", "nothing is read"),
    ):
        if is_given:
            raise click.UsageError(f"{option} needs a --source: without one {why}")


def _member(address: str, records: RecordSource | None, options: dict[str, Any]) -> Consumer | GroupMember:
    if records is None:
        from zkgroup.consumer.sync import GroupMember

        return GroupMember(address, **options)
    from zkgroup.consumer.sync import Consumer

    return Consumer(address, source=records, **options)


def _run(
    member: Consumer | GroupMember,
    printer: EventPrinter,
    max_messages: int | None,
    *,
    exit_at_end: bool,
    leave: bool,
) -> None:
    from zkgroup.consumer.sync import Consumer

    from ..sources import KINDS

    printer.when_gone = member.stop
    with connecting() as connected, StopSignals(on_stop=member.stop) as stop:
        if not _start(member, stop):
            return
        if not stop.received:  # else it may have returned for that, without a connection
            connected()
            if not isinstance(member, Consumer):
                echo_err(
                    f"note: --source none: this member owns partitions and delivers nothing; else {KINDS}"
                )
        with member, _closed(member, leave=leave):
            if not isinstance(member, Consumer):
                while not stop.wait(CHECK_S):
                    printer.check()
                    member.leases()  # raises what made the member fail
                return
            for number, record in enumerate(_up_to_the_end(member) if exit_at_end else member, 1):
                printer.delivered(record)
                member.ack(record)
                if stop.received or number == max_messages:
                    break
            printer.check()


@contextmanager
def _closed(member: Consumer | GroupMember, *, leave: bool) -> Iterator[None]:
    """Without `leave`, the end of the block keeps the partitions of the member."""
    yield
    if not leave:
        member.close(leave=False)


def _up_to_the_end(consumer: Consumer) -> Iterator[Record]:
    """Records until every owned partition is read to its end, or the consumer is stopped."""
    from zkgroup.consumer.machine.events import MemberState

    with suppress(MemberClosedError):
        while not consumer.stopped:
            if records := consumer.poll(END_CHECK_S, max_records=1):
                yield from chain.from_iterable(records.values())
            elif consumer.state is MemberState.STABLE and all(
                lag is not None and lag <= 0 for lag in consumer.lag().values()
            ):
                return


def _start(member: Consumer | GroupMember, stop: StopSignals) -> bool:
    """Returns whether the member has started; False after a signal: there is nothing to leave."""
    try:
        member.start()
    except MemberClosedError:
        if not stop.received:
            raise
        return False
    return True


def _wanted(topics: Sequence[tuple[str, int]], whitelist: str | None, blacklist: str | None) -> Wanted:
    from zkgroup.model import Blacklist, Whitelist

    given = [
        name
        for name, value in (("--topic", topics), ("--whitelist", whitelist), ("--blacklist", blacklist))
        if value
    ]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        raise click.UsageError(f"expected exactly one of --topic, --whitelist and --blacklist, found {found}")
    if whitelist:
        return Whitelist(whitelist)
    if blacklist:
        return Blacklist(blacklist)
    if len(dict(topics)) < len(topics):
        raise click.UsageError("--topic: a topic is named twice")
    return dict(topics)


def _settings(
    pairs: Sequence[tuple[str, str]], short: dict[str, Any], *, delivers: bool, keeps: bool
) -> GroupSettings:
    from zkgroup.settings import GroupSettings

    from ..params import parse_settings

    names = {
        "assignor": "partition_assignment_strategy",
        "consumer_id": "consumer_id",
        "start": "auto_offset_reset",
        "session_timeout": "session_timeout_ms",
        "commit_interval": "auto_commit_interval_ms",
        "restart_grace": "restart_grace_ms",
    }
    values = parse_settings(pairs, GroupSettings)
    for option, name in names.items():
        if short[option] is not None:
            if name in values:
                raise ConfigError(f"setting {name} is given twice: by an option of its own and by --set")
            values[name] = short[option]
    add_connect_timeout(values, shared(), "--set")
    if keeps and values.get("restart_grace_ms") is None:
        raise click.UsageError("--no-leave needs --restart-grace: without it nothing is kept")
    if delivers:
        values["ack_mode"] = "explicit"
    if values.get("consumer_id") is None and values.get("restart_grace_ms") is None:
        # made here, in Kafka's form, so that the first event can name the member
        values["consumer_id"] = f"{gethostname()}-{time.time_ns() // 1_000_000}-{secrets.token_hex(4)}"
    return GroupSettings(**values)


def _topics_text(wanted: Wanted) -> str:
    from zkgroup.model import Blacklist, Whitelist

    match wanted:
        case Whitelist(expression=expression):
            return f"topics that match {expression}"
        case Blacklist(expression=expression):
            return f"topics that do not match {expression}"
        case _:
            return threads_text(wanted)
