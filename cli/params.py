"""Options and arguments that several commands take, and `--set NAME=VALUE` as values of settings."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints

import click
from click.shell_completion import CompletionItem

from zkgroup.errors import ConfigError

from .app import store
from .param_types import DURATION, SOME_TIME, TOPIC_AND_PARTITIONS, name_value, nearest
from .units import is_whole, parse_duration_ms

if TYPE_CHECKING:
    from zkgroup.broker.settings import BrokerSettings
    from zkgroup.groups.ensemble import Ensemble
    from zkgroup.settings import GroupSettings


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class AliasedOption(click.Option):
    """An option whose old names (`aliases`) still work; help and the reference show the first one only."""

    def __init__(self, names: Sequence[str], *, aliases: Sequence[str], **attributes: Any) -> None:
        super().__init__([*names, *aliases], **attributes)
        self.aliases = tuple(aliases)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        every = self.opts
        self.opts = [name for name in every if name not in self.aliases]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = every


def set_option(name: str, text: str, *, aliases: Sequence[str] = ()) -> Decorator:
    """`--set NAME=VALUE`, the one option for settings, repeated for more."""
    return click.option(
        "--set",
        name,
        cls=AliasedOption,
        aliases=aliases,
        type=name_value(),
        multiple=True,
        metavar="NAME=VALUE",
        help=f"{text}; may be repeated.",
    )


class Consent(NamedTuple):
    """The answers of `confirm_options`: make the change, and ask nothing."""

    execute: bool
    yes: bool


def wait_options(what: str) -> Decorator:
    """`--wait [--timeout 60s]`, as the argument `wait_s`: the longest wait in seconds, None for none.

    A time-out without a wait is a usage error.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def checked(*args: Any, wait: bool, timeout_ms: int | None, **values: Any) -> Any:
            if timeout_ms is not None and not wait:
                raise click.UsageError("--timeout is for --wait: give both or none")
            wait_s = (60_000 if timeout_ms is None else timeout_ms) / 1000 if wait else None
            return function(*args, wait_s=wait_s, **values)

        decorated = click.option(
            "--timeout",
            "timeout_ms",
            type=DURATION,
            metavar="DURATION",
            help="Longest wait, with --wait.  [default: 60s]",
        )(checked)
        return click.option("--wait", is_flag=True, help=f"Wait until {what}.")(decorated)

    return decorate


def source_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--source SPEC`, for log ends and lag."""
    return click.option(
        "--source",
        metavar="SPEC",
        help="Where the records are, for log ends and lag: files:DIR, kafka or brokers (those registered), "
        "kafka:HOST:PORT[,...] or none.",
    )(function)


def window_option(then: str) -> Decorator:
    """`--window DURATION`, as `window`: milliseconds, or None for one read."""
    return click.option(
        "--window", type=SOME_TIME, metavar="DURATION", help=f"Read ten times in this time, and {then}."
    )


def broker_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--command-config` and `--bootstrap-server` of commands that ask brokers; `connected` reads them."""
    for name, metavar, text in (
        (
            "--bootstrap-server",
            "HOST:PORT[,...]",
            "Ask these for the addresses of all brokers; else bootstrap.servers of the file, else ZooKeeper.",
        ),
        (
            "--command-config",
            "FILE",
            "Kafka's client settings for connections to brokers: protocol, certificates, user.",
        ),
    ):
        function = click.option(name, metavar=metavar, help=text, expose_value=False, callback=store)(
            function
        )
    return function


class Metrics(NamedTuple):
    """Where a command serves the metrics of its process; port None: nowhere."""

    host: str = "127.0.0.1"
    port: int | None = None


NO_METRICS = Metrics()


def metrics_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--metrics-port` and `--metrics-host`, as the argument `metrics`. A host alone is a usage error."""

    @wraps(function)
    def checked(*args: Any, metrics_port: int | None, metrics_host: str | None, **values: Any) -> Any:
        if metrics_host is not None and metrics_port is None:
            raise click.UsageError("--metrics-host needs --metrics-port")
        return function(*args, metrics=Metrics(metrics_host or NO_METRICS.host, metrics_port), **values)

    decorated = click.option(
        "--metrics-host",
        metavar="HOST",
        help="Where the metrics are served, with --metrics-port.  [default: 127.0.0.1]",
    )(checked)
    return click.option(
        "--metrics-port",
        type=click.IntRange(0, 65_535),
        metavar="PORT",
        help="Serve /metrics, /healthz and /readyz there; 0: a free port. Needs the extra `metrics`.",
    )(decorated)


def confirm_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--execute`, `--yes`, `--dry-run` of commands that overwrite or delete, as the argument `consent`.

    Contradictions are usage errors before anything is read; `--dry-run` is the default.
    """

    @wraps(function)
    def checked(*args: Any, execute: bool, yes: bool, dry_run: bool, **values: Any) -> Any:
        if execute and dry_run:
            raise click.UsageError("--execute and --dry-run contradict each other")
        if yes and not execute:
            raise click.UsageError("--yes is for --execute: give both or none")
        return function(*args, consent=Consent(execute, yes), **values)

    for name, text in (
        ("--dry-run", "Only show what would be done (the default)."),
        ("--yes", "Do not ask on a terminal."),
        ("--execute", "Do it; without this it is only shown."),
    ):
        checked = click.option(name, is_flag=True, help=text)(checked)
    return checked


def topics_option(text: str, *, required: bool = False) -> Decorator:
    """`--topic T[:P,P...]`, as `topics`."""
    return click.option(
        "--topic",
        "topics",
        multiple=True,
        required=required,
        type=TOPIC_AND_PARTITIONS,
        metavar="T[:P,P...]",
        help=text,
    )


def compat_option(text: str) -> Decorator:
    """`--assignment-compat`, saying what it decides."""
    return click.option(
        "--assignment-compat",
        type=click.Choice(["0.8", "0.10"]),
        default="0.10",
        show_default=True,
        help=text,
    )


def force_option(text: str) -> Decorator:
    """`--force`, saying what it forces."""
    return click.option("--force", is_flag=True, help=text)


def allow_missing_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--allow-missing`, for offsets of what does not exist (yet)."""
    return click.option(
        "--allow-missing",
        is_flag=True,
        help="Also for topics and partitions that do not exist, and for a new group with a name that only "
        "Kafka's clients may have; without this they are refused.",
    )(function)


def disable_racks_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--disable-rack-aware`, Kafka's word."""
    return click.option(
        "--disable-rack-aware", is_flag=True, help="Place replicas without regard to the brokers' racks."
    )(function)


def group_argument(many: bool = False, required: bool = True) -> Decorator:
    """The argument GROUP, completed from ZooKeeper where one answers at once."""
    if many:
        return click.argument(
            "groups", metavar="GROUP...", nargs=-1, required=required, shell_complete=complete_groups
        )
    return click.argument("group", metavar="GROUP", required=required, shell_complete=complete_groups)


def topic_argument(many: bool = False) -> Decorator:
    """The argument TOPIC, completed from ZooKeeper like GROUP."""
    if many:
        return click.argument("topics", metavar="[TOPIC...]", nargs=-1, shell_complete=complete_topics)
    return click.argument("topic", metavar="TOPIC", shell_complete=complete_topics)


def complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> Sequence[CompletionItem]:
    """Names of groups that begin so."""
    from zkgroup.groups.reader import group_names

    return _names(ctx, incomplete, group_names)


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> Sequence[CompletionItem]:
    """Names of topics that begin so."""
    from zkgroup.admin.cluster.brokers import topic_names

    return _names(ctx, incomplete, topic_names)


COMPLETE_TIMEOUT_MS = 1000
"""Longest wait for names while a command line is completed."""


def _names(
    ctx: click.Context, incomplete: str, read: Callable[[Ensemble], Sequence[str]]
) -> Sequence[CompletionItem]:
    """Names that begin so; none where no ensemble answers in time."""
    from .app import shared
    from .context import connected

    shared(ctx).connect_timeout = COMPLETE_TIMEOUT_MS
    logging.disable()  # nothing may be written over the line being typed
    try:
        with ctx, connected() as ensemble:
            names = read(ensemble)
    except Exception:  # noqa: BLE001 - a completion that cannot be had is none
        return []
    finally:
        logging.disable(logging.NOTSET)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


_SECONDS = ".seconds"
"""End of Kafka's names for settings that are milliseconds here."""
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def parse_settings(
    pairs: Iterable[tuple[str, str]], kind: type[GroupSettings | BrokerSettings]
) -> dict[str, Any]:
    """Names and values as given; Kafka's dotted names are understood, times may carry units.

    A bare number under a name of Kafka's that ends with `.seconds` is one of seconds.

    Raises ConfigError for an unknown name (naming the nearest known one), a name given twice, and a
    value of the wrong type.
    """
    kinds = get_type_hints(kind)
    kafka_names = {item.metadata["kafka"]: item.name for item in fields(kind) if item.metadata["kafka"]}
    values: dict[str, Any] = {}
    for given, text in pairs:
        name = kafka_names.get(given, given.replace("-", "_"))
        if name not in kinds:
            guess = nearest(name, list(kinds)) or nearest(given, list(kafka_names))
            raise ConfigError(f"unknown setting {given!r}" + (f"; did you mean {guess!r}?" if guess else ""))
        if name in values:
            raise ConfigError(f"setting {name} is given twice")
        in_seconds = given in kafka_names and given.endswith(_SECONDS) and _is_whole(text)
        values[name] = _value(name, kinds[name], f"{text}s" if in_seconds else text)
    return values


def _value(name: str, kind: Any, text: str) -> Any:
    optional = type(None) in getattr(kind, "__args__", ())
    kinds = [one for one in getattr(kind, "__args__", (kind,)) if one is not type(None)]
    if optional and text.lower() in ("none", ""):
        return None
    try:
        return _typed(name, kinds[0], text)
    except ValueError as error:
        raise ConfigError(f"setting {name}: expected {_expected(name, kinds[0])}, found {text!r}") from error


def _typed(name: str, kind: type, text: str) -> Any:
    if kind is bool:
        if text.lower() not in _WORDS:
            raise ValueError(text)
        return _WORDS[text.lower()]
    if kind is int and name.endswith("_ms") and not _is_whole(text):
        return parse_duration_ms(text)
    return kind(text)


def _is_whole(text: str) -> bool:
    return is_whole(text.removeprefix("-"))


def _expected(name: str, kind: type) -> str:
    if kind is bool:
        return "true or false"
    if kind is int:
        return "milliseconds, or a time such as 5s" if name.endswith("_ms") else "a whole number"
    return "a number" if kind is float else "text"
