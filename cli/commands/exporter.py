"""`zkgroup exporter`: serves the state of an ensemble to Prometheus, and to people as a page."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from zkgroup.errors import ConfigError
from zkgroup.security import tls as tls_files
from zkgroup.security.certificates import valid_until
from zkgroup.security.principals import RULES
from zkgroup.security.properties import read_properties
from zkgroup.zookeeper.settings import Address

from ..app import command, output, shared
from ..context import SESSION_TIMEOUT_MS, broker_access, client_settings, target
from ..param_types import Parsed, duration
from ..params import broker_options
from ..render import echo_err
from ..serving import READY, Ready, StopSignals, address_text, rare_collections, supervised
from ..sources import KINDS, check_source, log_positions
from ..units import is_whole

if TYPE_CHECKING:
    from zkgroup.exporter.users import FileUsers
    from zkgroup.groups.ensemble import Ensemble
    from zkgroup.groups.reads import LogEndReader

LISTEN = "127.0.0.1:9308"
ASKS_LEADERS = ("brokers", "kafka")
"""Sources for which the exporter asks the leaders that it has read anyway."""
USERS_FILE = "basic.auth.users.file"
CHECK_S = 60.0
"""Longest wait for a signal; after it, it is waited for again."""


def _listen(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not is_whole(port) or int(port) > 65_535:
        raise ValueError(f"{text!r}: expected HOST:PORT, for example {LISTEN}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _expression(text: str) -> re.Pattern[str]:
    from zkgroup.exporter.reading import group_pattern

    try:
        return group_pattern(text)
    except ConfigError as error:
        raise ValueError(str(error)) from error


_RE = Parsed("RE", _expression)


@command("exporter")
@click.option(
    "--listen",
    type=Parsed("HOST:PORT", _listen),
    default=LISTEN,
    show_default=True,
    metavar="HOST:PORT",
    help="Where to serve; port 0 for a free one.",
)
@click.option(
    "--web-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Properties file of the server: TLS by ssl.keystore.location and its like, as of a broker, and "
    f"{USERS_FILE}, a file of lines `name:hash`, for basic authentication.",
)
@click.option(
    "--interval",
    "interval_ms",
    type=duration(least_ms=1_000),
    default="15s",
    show_default=True,
    metavar="DURATION",
    help="From one read of the ensemble to the next.",
)
@click.option(
    "--source",
    default="brokers",
    show_default=True,
    metavar="SPEC",
    help=f"Where the records are, for log ends and lag: {KINDS}.",
)
@click.option(
    "--include-group",
    type=_RE,
    metavar="RE",
    help="Only groups whose whole name matches this Java expression.",
)
@click.option("--exclude-group", type=_RE, metavar="RE", help="Not the groups whose whole name matches.")
@click.option("--dashboard", is_flag=True, help="Print a board for Grafana, and serve nothing.")
@click.option("--rules", is_flag=True, help="Print alert rules for Prometheus, and serve nothing.")
@broker_options
def exporter(
    listen: tuple[str, int],
    web_config: Path | None,
    interval_ms: int,
    source: str,
    include_group: re.Pattern[str] | None,
    exclude_group: re.Pattern[str] | None,
    dashboard: bool,
    rules: bool,
) -> None:
    """Serve lag, groups and brokers to Prometheus.

    It serves until Ctrl-C or SIGTERM. /metrics has the metrics, / a page for people, /api/snapshot the same
    as JSON (with ?group=G all of a group), /healthz whether it works. It reads the ensemble once an interval,
    however often it is asked. Where ZooKeeper or a broker is away, what they know is absent until they are
    back. Needs the extra `metrics`: pip install 'zkgroup[metrics]'.

    \b
    Example:
      zkgroup exporter --listen 0.0.0.0:9308 --exclude-group 'console-consumer-.*'
      zkgroup exporter --rules > /etc/prometheus/zkgroup.rules.yml
    """
    if dashboard or rules:
        _print_files(dashboard, rules)
        return
    out = output()
    if out.format not in ("table", "ndjson"):
        raise click.UsageError(f"exporter prints an event: --format table or ndjson, not {out.format}")
    check_source(source)
    where, access = target(shared()), broker_access()
    connection = client_settings(where, session_timeout_ms=SESSION_TIMEOUT_MS)

    from zkgroup.exporter.exporter import Exporter, ExporterSettings, connection_to
    from zkgroup.exporter.reading import ReadingSettings

    from .live import live

    reading = ReadingSettings(
        include=include_group,
        exclude=exclude_group,
        asks_leaders=source in ASKS_LEADERS,
        servers=Address.parse(where.zookeeper),
        words=connection.tls is None,
    )
    web = _web(web_config)
    settings = ExporterSettings(listen=listen, interval_ms=interval_ms, reading=reading, **web._asdict())
    served = Exporter(
        lambda: connection_to(where.zookeeper, connection, access=access, timeout_s=where.timeout_s),
        *(settings, live),
        log_ends=lambda ensemble: _log_ends(source, ensemble),
    )
    with StopSignals() as stop, supervised(served), served:
        text = address_text(*served.address)
        if out.is_table:
            echo_err(f"serving {'https' if web.tls else 'http'}://{text}/")
        else:
            out.event(READY.json(Ready(listen=text)))
        with rare_collections():
            while not stop.wait(CHECK_S):
                pass


def _print_files(dashboard: bool, rules: bool) -> None:
    from zkgroup.exporter import alerts, board

    if dashboard and rules:
        raise click.UsageError("expected one of --dashboard and --rules, found both: each is a file")
    click.echo(board.dashboard() if dashboard else alerts.rules(), nl=False)


@contextmanager
def _log_ends(source: str, ensemble: Ensemble) -> Iterator[LogEndReader | None]:
    if source in ASKS_LEADERS:
        yield None
        return
    with log_positions(source, ensemble) as positions:
        yield positions.latest if positions else None


class _Web(NamedTuple):
    """Who may read what is served, and how."""

    tls: ssl.SSLContext | None = None
    certificate_ends_s: float | None = None
    users: FileUsers | None = None


def _web(path: Path | None) -> _Web:
    """The TLS and the users of a file of properties. Raises ConfigError that names the file."""
    from zkgroup.exporter.users import FileUsers

    if path is None:
        return _Web()
    properties = read_properties(path)
    known = tls_files.NAMES - {tls_files.HOST_NAMES, RULES} | {USERS_FILE}
    if unknown := sorted(properties.keys() - known):
        raise ConfigError(f"{path}: unknown setting {unknown[0]}; there are {', '.join(sorted(known))}")
    try:
        context, ends_s = None, None
        if any(name.startswith("ssl.") for name in properties):
            found = tls_files.TlsSettings.of(properties)
            context = tls_files.server_context(found)
            unnamed = replace(found, check_host_names=False)
            ends_s = valid_until(unnamed, "localhost", must_trust=False).timestamp()
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    users = properties.get(USERS_FILE)
    return _Web(context, ends_s, FileUsers(Path(users)) if users else None)
