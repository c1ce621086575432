"""`zkgroup broker`: run a broker or a controller in the foreground; list, describe, forget."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click
from click.core import ParameterSource

from zkgroup.admin.change import ChangeResult
from zkgroup.admin.cluster import brokers as admin
from zkgroup.errors import ConfigError, StoreUnavailableError
from zkgroup.model import TopicPartition
from zkgroup.model.text import counted, iso_time, named

from ..app import check_read, note_refusals, output, shared, show_access_log
from ..app import group as make_group
from ..cluster import BROKER, broker_note
from ..confirm import print_result, run_change
from ..context import add_connect_timeout, client_settings, connected, connecting, target
from ..param_types import Parsed
from ..params import Consent, Metrics, broker_options, confirm_options, metrics_options, set_option
from ..render import Output, echo_err
from ..schema import INTEGER, Document, KeyColumn, NamedKeys, Shape, given, nullable
from ..serving import StopSignals, keep_freed_memory, metrics_sink, rare_collections, supervised
from ..units import is_whole

if TYPE_CHECKING:
    from zkgroup.broker.broker import Broker
    from zkgroup.broker.controller_only import ControllerOnly
    from zkgroup.broker.security_settings import SecuritySettings
    from zkgroup.broker.settings import BrokerSettings

    from ..broker_events import BrokerPrinter


broker = make_group(
    "broker",
    help="""Run a broker; list, describe or forget registered ones.

    \b
    Example:
      zkgroup broker list""",
)

_NAMED = 8


BROKERS = Document("brokers", NamedKeys(brokers=Sequence[admin.BrokerSummary]), rows="brokers")
LEFT_REPLICAS = Shape(
    admin.LeftReplicas,
    *("topic", given("czxid", nullable(INTEGER)), "partitions", "is_there"),
    columns=(
        KeyColumn("topic", shorten="middle", least=12),
        KeyColumn("partitions", shorten="end"),
        KeyColumn("note", cell=lambda row: "moved away" if row.is_there else "deleted"),
    ),
)
Forgetting = ChangeResult[admin.ForgettingPlan, None, None]
FORGETTING = Document(
    "broker_forgetting", Shape(Forgetting, "plan.broker", "executed", "plan.left"), rows="left"
)


@broker.command("list")
def list_() -> None:
    """List every registered broker.

    \b
    Example:
      zkgroup broker list
    """
    out = output()
    with connected() as ensemble:
        as_of, rows, unreadable = admin.list_brokers(ensemble)
    if not BROKERS.print(out, as_of, brokers=rows):
        BROKER.table(out, rows)
        if not rows and not unreadable:
            echo_err("no broker is registered")
    check_read("listed", unreadable, rows=rows)


@broker.command()
@click.argument("broker", metavar="ID", type=click.IntRange(0))
@broker_options
def describe(broker: int) -> None:
    """Show the registration of broker ID, and what it hosts.

    The broker is asked for the log ends of its replicas; a zkgroup broker also which of them have failed,
    since when and why.

    \b
    Example:
      zkgroup broker describe 1
    """
    out = output()
    with connected() as ensemble:
        as_of, one = admin.describe_broker(ensemble, broker)
        known, access = admin.readable(admin.registrations(ensemble)), ensemble.access
    from ..replica_documents import BROKER_DOCUMENT, HOSTED_LOG, DescribedBroker, HostedLog

    logs = failed = None
    if one.summary.role == "data":
        from zkgroup.clients.leaders import find_brokers
        from zkgroup.clients.log_ends import failed_replicas, read_log_ends

        ends = read_log_ends(find_brokers(known, access), [(tp, broker) for tp in one.hosted])
        logs = [HostedLog(tp, ends[tp, broker]) for tp in one.hosted]
        failed = failed_replicas(ends) if one.summary.kind == "zkgroup" else None
    if not BROKER_DOCUMENT.print(out, as_of, DescribedBroker(one, logs, failed)):
        _show(out, one)
        if logs:
            out.line()
            HOSTED_LOG.table(out, logs)
        for each in failed or ():
            where, since = TopicPartition(each.topic, each.partition), iso_time(each.since_ms)
            out.line(out.paint(f"{where} has failed at {since}: {each.reason}", "bad"))
    note_refusals(f"{each.topic_partition}: {each.end.reason}" for each in logs or ())
    check_read("counted", one.unreadable)


@broker.command()
@click.argument("broker", metavar="ID", type=click.IntRange(0))
@confirm_options
def forget(broker: int, consent: Consent) -> None:
    """Forget the replicas that lost broker ID may still have.

    They are of topics that have no place for the broker. A zkgroup controller has a broker that returns
    delete them. Without the record nothing deletes them: the broker's data folder must be gone. Refused while
    the broker is registered. Prints what would be done until --execute.

    \b
    Example:
      zkgroup broker forget 3 --execute
    """
    with connected() as ensemble:
        change = admin.forget_broker_change(ensemble, admin.plan_forgetting(ensemble, broker))
        result = run_change(change, _show_forgotten, consent)
    print_result(FORGETTING, result, _show_forgotten)


def _show_forgotten(out: Output, result: Forgetting) -> None:
    LEFT_REPLICAS.table(out, result.plan.left)
    verb = "forgotten" if result.executed else "would forget"
    out.line(f"{verb}: {counted(len(result.plan.znodes), 'record')}")


def _show(out: Output, one: admin.BrokerDescription) -> None:
    row = one.summary
    rows = [
        ("broker", f"{row.broker} ({row.kind}{', ' + note if (note := broker_note(row)) else ''})"),
        ("address", f"{row.host}:{row.port}" if row.host else "-"),
        ("endpoints", ", ".join(one.endpoints)),
        ("rack", one.rack or "-"),
        ("registered", f"{iso_time(row.registered_at_ms)}, format {row.version}, epoch {row.epoch}"),
        ("replicas", f"{counted(one.replicas, 'partition')}, {one.preferred} of them preferred"),
        ("leads", counted(one.leaders, "partition")),
        ("out of sync", named(one.out_of_sync, _NAMED) or "none"),
    ]
    for name, value in rows:
        out.line(f"{out.paint(f'{name:<11}', 'dim')} {value}")


CHECK_S = 0.5
"""Period of the check whether the broker has failed."""
HURRY_S = 0.1
"""Period of the check for a second signal while the broker leaves."""
AUTO = "auto"


class _Served(Protocol):
    """A broker or a controller, as the command needs it."""

    settings: BrokerSettings

    def wait_connected(self, timeout_s: float) -> None: ...

    def start(self) -> None: ...

    def check(self) -> None: ...

    def close(self) -> None: ...


def _id(text: str) -> int | None:
    """A broker id, or `auto`: None."""
    if text == AUTO:
        return None
    if not is_whole(text) or int(text) >= 2**31:
        raise ValueError(f"expected a number from 0 to {2**31 - 1}, or {AUTO}, found {text!r}")
    return int(text)


@broker.command("run")
@click.option(
    "--id",
    "broker",
    type=Parsed("id", _id),
    required=True,
    metavar="N|auto",
    help="The broker's id; auto: the next free one.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="H",
    help="Where to listen, without listeners. Every client that reaches the port is accepted, a controller "
    "too. A wildcard needs --set advertised.host.name=NAME.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    metavar="P",
    help="Where to listen.  [default: a free port]",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Properties file with Kafka's names: all that --set takes. --set precedes it.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder of the logs.  [default: none, logs stay in memory]",
)
@click.option(
    "--controller-only", is_flag=True, help="Host no partitions; only take part in controller elections."
)
@set_option("settings", "Any setting of a broker, listeners among them")
@click.option("--dry-run", is_flag=True, help="Check the options; connect to nothing.")
@metrics_options
def run(
    broker: int | None,
    host: str,
    port: int,
    config: Path | None,
    data: Path | None,
    controller_only: bool,
    settings: Sequence[tuple[str, str]],
    dry_run: bool,
    metrics: Metrics,
) -> None:
    """Serve as a broker until Ctrl-C or SIGTERM, then leave cleanly.

    The broker registers, takes part in controller elections, and hosts what the controller places on it. With
    --controller-only it hosts nothing, and can lead Kafka 0.8.2.2 brokers too. A broker that hosts partitions
    needs the extra `broker`: pip install 'zkgroup[broker]'.

    A second signal while it hands over its leaderships makes it leave at once. It leaves by itself, with exit
    code 1, where the files of a partition that it leads fail.

    \b
    Example:
      zkgroup broker run --id 1 --data data/broker-1 --set replica.lag.time.max.ms=10s
    """
    out = output()
    if out.format not in ("table", "ndjson"):
        raise click.UsageError(f"broker run prints events: --format table or ndjson, not {out.format}")
    if controller_only and broker is None:
        raise click.UsageError("--controller-only needs a number as --id, one that no broker has")
    if controller_only and data is not None:
        raise click.UsageError("--controller-only hosts nothing: leave out --data")
    made, security = _settings(config, settings)
    if not controller_only:
        from zkgroup.wire.crc32c import require_native

        require_native("broker run")
    where = target(shared())

    from zkgroup.broker.broker import Broker
    from zkgroup.broker.controller_only import ControllerOnly

    from ..broker_events import BrokerPrinter

    printer = BrokerPrinter(out)
    place = {"host": host, "port": port, "settings": made, "security": security, "listener": printer}
    options: dict[str, Any] = {"broker": broker, "connection": client_settings(where), **place}
    options |= {"metrics": metrics_sink(metrics)}
    served: Broker | ControllerOnly = (
        ControllerOnly(where.zookeeper, **options)
        if controller_only
        else Broker(where.zookeeper, data=data, **options)
    )
    closes_by_digest = (where.acl == "creator" or made.set_acl) and where.digest_file is not None
    _tell_who_is_refused(closes_by_digest, served.security.refused_brokers)
    if dry_run:
        what = "a controller only" if controller_only else f"a broker ({data or 'logs in memory'})"
        _preview(served, f"{AUTO if broker is None else broker} on {where.zookeeper} as {what}")
    else:
        with supervised(served, metrics):
            _run(served, printer)


def _tell_who_is_refused(closes_by_digest: bool, user: str | None) -> None:
    if closes_by_digest:
        echo_err("note: with digest, Kafka's tools cannot write the znodes; they work through brokers only")
    if user is not None:
        needs = f"zkgroup acl add --principal {shlex.quote(user)} --operation cluster_action --cluster"
        echo_err(
            f"note: {user}, as whom brokers reach each other, is none of super.users: it needs `{needs}`"
        )


def _preview(served: Broker | ControllerOnly, what: str) -> None:
    checked = served.security.checked()
    echo_err(f"would run {what}")
    for name, until in checked.items():
        echo_err(f"listener {name}: its certificate fits, and is valid until {until:%Y-%m-%d %H:%M} UTC")


def _run(served: Broker | ControllerOnly, printer: BrokerPrinter) -> None:
    from zkgroup.broker.broker import Broker

    if isinstance(served, Broker):
        show_access_log()
        _serve(served, printer, lambda stop: _wait_connected(served, stop), served.hurry)
        return

    def connect(stop: StopSignals) -> None:
        assert served.serving is not None
        assert served.broker is not None
        printer.waiting(served.broker, *served.serving)
        _wait_connected(served, stop)

    _serve(served, printer, connect)


def _is_given(*names: str) -> bool:
    source = click.get_current_context().get_parameter_source
    return any(source(name) is ParameterSource.COMMANDLINE for name in names)


_OPTIONS = {
    "broker.id": "--id",
    "zookeeper.connect": "--zookeeper",
    "log.dir": "--data",
    "log.dirs": "--data",
    "host.name": "--host",
    "port": "--port",
}
"""Kafka's names for what is an option here."""


_SECRET = (".password", "sasl.jaas.config")
"""Ends of the names of settings that nobody else may read."""


def _settings(
    config: Path | None, pairs: Sequence[tuple[str, str]]
) -> tuple[BrokerSettings, SecuritySettings | None]:
    """The settings of the file and of `--set`, which precedes it. Raises ConfigError."""
    from zkgroup.broker.security_settings import SecuritySettings, is_of_security
    from zkgroup.broker.settings import BrokerSettings
    from zkgroup.security.properties import read_properties

    from ..params import parse_settings

    def parsed(given: Collection[tuple[str, str]]) -> tuple[dict[str, Any], dict[str, str]]:
        of_security = {name: value for name, value in given if is_of_security(name)}
        others = [one for one in given if one[0] not in of_security]
        return parse_settings(others, BrokerSettings), of_security

    for name, _ in pairs:
        if name.endswith(_SECRET):
            raise ConfigError(
                f"setting {name}: has its place in --config FILE; others can see the command line"
            )
    values, of_security = parsed(pairs)
    if config is not None:
        file = read_properties(config)
        if wrong := sorted(file.keys() & _OPTIONS.keys()):
            raise ConfigError(f"{config}: setting {wrong[0]}: is the option {_OPTIONS[wrong[0]]} here")
        try:
            of_file = parsed(file.items())
        except ConfigError as error:
            raise ConfigError(f"{config}: {error}") from error
        values, of_security = of_file[0] | values, of_file[1] | of_security
    add_connect_timeout(values, shared(), "--set")
    if of_security and _is_given("host", "port"):
        raise click.UsageError("--host and --port are one plain listener: leave them out beside listeners")
    return BrokerSettings(**values), SecuritySettings.of(of_security) if of_security else None


def _serve(
    served: _Served,
    printer: BrokerPrinter,
    connect: Callable[[StopSignals], None],
    hurry: Callable[[], None] | None = None,
) -> None:
    """`connect` raises where the start failed; `hurry` is called at a second signal, else it interrupts."""
    from zkgroup.broker.hosted_controller import raise_descriptor_limit

    raise_descriptor_limit()
    keep_freed_memory()
    with connecting() as connected, StopSignals(interrupts=hurry is None) as stop:
        try:
            served.start()
            connect(stop)
            if not stop.received:  # else it may have ended for that, without a connection
                connected()
            with rare_collections():
                while not stop.wait(CHECK_S):
                    printer.check()
                    served.check()
        finally:
            if hurry is None:
                served.close()
            else:
                _leave(served, stop, hurry)
        served.check()  # what failed just before the signal


def _leave(served: _Served, stop: StopSignals, hurry: Callable[[], None]) -> None:
    """Closes it; once there was a second signal it is hurried until it has ended."""
    leaving = threading.Thread(target=served.close, name="zkgroup-leaving")
    leaving.start()
    while leaving.is_alive():
        leaving.join(HURRY_S)
        if stop.again:
            hurry()


def _wait_connected(served: _Served, stop: StopSignals) -> None:
    """Waits for the first connection. Raises StoreUnavailableError, with the whole wait, without one."""
    settings = served.settings
    whole_s = left_s = (settings.connection_timeout_ms or settings.session_timeout_ms) / 1000
    while not stop.received:
        check_s = min(CHECK_S, left_s)
        left_s -= check_s
        try:
            served.wait_connected(check_s)
        except StoreUnavailableError as error:
            if left_s <= 0:
                served.check()
                # It names the last part of the wait.
                text = str(error).replace(f"within {check_s:g} s", f"within {whole_s:g} s")
                raise StoreUnavailableError(text) from None
        else:
            break
