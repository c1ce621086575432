"""`zkgroup broker run`: a broker, or a controller that hosts nothing, in the foreground."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from zkgroup.errors import StoreUnavailableError

from .connection import add_connect_timeout, client_settings, connecting, target
from .frame import command, output, shared
from .output import say
from .parameters import Assignment
from .signals import StopSignals

if TYPE_CHECKING:
    from zkgroup.broker.settings import BrokerSettings

    from .broker_events import BrokerPrinter

LOOK_S = 0.5
"""Period of the look whether it has failed."""
HURRY_S = 0.1
"""Period of the look for a second signal while it leaves."""
AUTO = "auto"


class _Served(Protocol):
    """A broker or a controller, as the command needs it."""

    settings: BrokerSettings

    def wait_connected(self, timeout_s: float) -> None: ...

    def unconnected(self, timeout_s: float) -> StoreUnavailableError: ...

    def start(self) -> None: ...

    def check(self) -> None: ...

    def close(self) -> None: ...


class _Id(click.ParamType[int | None]):
    """A broker id, or `auto`: None."""

    name = "id"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value is None or value == AUTO:
            return None
        text = str(value)
        if not (text.isascii() and text.isdigit()) or int(text) >= 2**31:
            self.fail(f"expected a number from 0 to {2**31 - 1}, or {AUTO}, found {text!r}", param, ctx)
        return int(text)


@command("run")
@click.option(
    "--id",
    "broker",
    type=_Id(),
    required=True,
    metavar="N|auto",
    help="The broker's id; auto: the next free one.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="H",
    help="Where to listen. Whoever reaches the port may give orders.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    metavar="P",
    help="Where to listen.  [default: a free port]",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder of the lines.  [default: they are kept in memory]",
)
@click.option("--controller-only", is_flag=True, help="Host nothing; only stand for election as controller.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    type=Assignment(),
    metavar="NAME=VALUE",
    help="Any setting of a broker; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Check the options; ask nobody, join nothing.")
def run(
    broker: int | None,
    host: str,
    port: int,
    data: Path | None,
    controller_only: bool,
    settings: Sequence[tuple[str, str]],
    dry_run: bool,
) -> None:
    """Serve as a broker until Ctrl-C or SIGTERM; then leave cleanly (exit code 0).

    A second signal while it hands its leaderships over has it leave at once.
    It leaves by itself, with exit code 1, where the files of a partition that it leads fail.

    The broker registers, stands for election as controller, and hosts what the controller places on it.
    With --controller-only it hosts nothing, and can lead brokers of real Kafka 0.8.2.2 too.
    """
    out = output()
    if out.format not in ("table", "ndjson"):
        raise click.UsageError(f"broker run prints events: --format table or ndjson, not {out.format}")
    if controller_only and broker is None:
        raise click.UsageError("--controller-only needs a number as --id, one that no broker has")
    if controller_only and data is not None:
        raise click.UsageError("--controller-only hosts nothing: leave out --data")
    made = _settings(settings)
    where = target(shared())
    if dry_run:
        what = "a controller only" if controller_only else f"a broker ({data or 'lines in memory'})"
        say(f"would run {AUTO if broker is None else broker} on {where.zookeeper} as {what}")
        return

    from .broker_events import BrokerPrinter

    printer = BrokerPrinter(out)
    place = {"host": host, "port": port, "settings": made, "listener": printer}
    options = {"broker": broker, "connection": client_settings(where), **place}
    if controller_only:
        _serve_alone(where.zookeeper, options, printer)
    else:
        _serve_broker(where.zookeeper, data, options, printer)


def _serve_alone(address: str, options: dict[str, Any], printer: BrokerPrinter) -> None:
    from zkgroup.broker.node.controller_only import ControllerOnly

    alone = ControllerOnly(address, **options)

    def connect(stop: StopSignals) -> None:
        assert alone.serving is not None
        printer.waiting(alone.broker, *alone.serving)
        _wait_connected(alone, stop)

    _serve(alone, printer, connect)


def _serve_broker(address: str, data: Path | None, options: dict[str, Any], printer: BrokerPrinter) -> None:
    from zkgroup.broker.node.broker import Broker

    one = Broker(address, data=data, **options)
    _serve(one, printer, lambda stop: _wait_connected(one, stop), one.hurry)


def _settings(pairs: Sequence[tuple[str, str]]) -> BrokerSettings:
    from zkgroup.broker.settings import BrokerSettings

    from .settings_values import parse_settings

    values = parse_settings(pairs, BrokerSettings)
    add_connect_timeout(values, shared(), "--set")
    return BrokerSettings(**values)


def _serve(
    served: _Served,
    printer: BrokerPrinter,
    connect: Callable[[StopSignals], None],
    hurry: Callable[[], None] | None = None,
) -> None:
    """`connect` raises where the start was none; `hurry` is for a second signal, which else interrupts."""
    with connecting() as connected, StopSignals(interrupts=hurry is None) as stop:
        try:
            served.start()
            connect(stop)
            if not stop.received:  # else it may have ended for that, without a connection
                connected()
            while not stop.wait(LOOK_S):
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
    """Who never gets a first connection says so, with the whole wait, and ends (exit code 7)."""
    settings = served.settings
    whole_s = left_s = (settings.connection_timeout_ms or settings.session_timeout_ms) / 1000
    while not stop.received:
        look_s = min(LOOK_S, left_s)
        left_s -= look_s
        try:
            served.wait_connected(look_s)
        except StoreUnavailableError:
            if left_s <= 0:
                served.check()
                raise served.unconnected(whole_s) from None
        else:
            break
