"""What every command shares: options that may stand anywhere, lazily imported commands.

`zkgroup -z HOST group list` and `zkgroup group list -z HOST` mean the same: the shared options are
parameters of the root and of every command below it; what stands nearest to the command wins.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import click
from click.core import ParameterSource

from .output import FORMATS, Output
from .parameters import SOME_TIME

_META = "zkgroup.shared"
COMMAND_LINE = "zkgroup.command_line"
"""Key of `Context.meta` for the arguments as typed."""

_CONNECTION_OPTIONS = (
    "zookeeper",
    "profile",
    "zk_digest_file",
    "zk_tls_ca",
    "zk_tls_cert",
    "zk_tls_key",
    "zk_sasl_file",
)


@dataclass(slots=True)
class Shared:
    """Values of the shared options; None: not given."""

    zookeeper: str | None = None
    profile: str | None = None
    zk_digest_file: str | None = None
    zk_tls_ca: str | None = None
    zk_tls_cert: str | None = None
    zk_tls_key: str | None = None
    zk_sasl_file: str | None = None
    connect_timeout: int | None = None
    format: str | None = None
    verbose: int = 0

    def output(self) -> Output:
        return Output.of_this_process(self.format or "table")

    def connection_words(self) -> list[str]:
        """The options that say where and how to connect, as given: for commands to be typed next."""
        words = []
        for name in _CONNECTION_OPTIONS:
            value = getattr(self, name)
            if value is not None:
                words += ["-z" if name == "zookeeper" else f"--{name.replace('_', '-')}", value]
        return words


def shared(ctx: click.Context | None = None) -> Shared:
    """The shared options as given so far, wherever they stood."""
    meta = (ctx or click.get_current_context()).meta
    value: Shared = meta.setdefault(_META, Shared())
    return value


def output() -> Output:
    """The way out of the running command."""
    return shared().output()


def _keep(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    name = parameter.name
    assert name is not None
    if name == "verbose":
        shared(ctx).verbose += value
        if value:  # behind the command as well, which is read when the root is already at work
            show_logs(shared(ctx).verbose)
    elif value is not None and ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
        setattr(shared(ctx), name, value)


def _option(*names: str, **attributes: Any) -> click.Option:
    return SharedOption(list(names), expose_value=False, callback=_keep, is_eager=True, **attributes)


def show_logs(verbose: int) -> None:
    """Logs on stderr: our warnings always, our news with -v, everything (kazoo's too) with -vv."""
    levels = {0: (logging.WARNING, logging.CRITICAL), 1: (logging.INFO, logging.WARNING)}
    ours, theirs = levels.get(verbose, (logging.DEBUG, logging.INFO))
    handler = logging.StreamHandler()
    handler.setFormatter(_LogLine(tracebacks=verbose >= 2))
    if not verbose:
        handler.addFilter(lambda record: not getattr(record, "raised", False))
    logging.basicConfig(handlers=[handler], level=theirs, force=True)
    logging.getLogger("zkgroup").setLevel(ours)


@contextmanager
def quiet_connecting() -> Iterator[Callable[[], None]]:
    """Until a command has its first connection: where there is none, the error at the end says why.

    What it yields is called once there is a connection: from then on warnings are shown. Where none comes,
    it stays quiet to the end of the block, which closes the client: an attempt that fails meanwhile is no
    news. With -v every attempt is told.
    """
    log = logging.getLogger("zkgroup.zookeeper")

    def is_shown(record: logging.LogRecord) -> bool:
        return not getattr(record, "connecting", False)

    if not shared().verbose:
        log.addFilter(is_shown)
    try:
        yield lambda: log.removeFilter(is_shown)
    finally:
        log.removeFilter(is_shown)


class _LogLine(logging.Formatter):
    """One line a record; the error of one that carries it in words, its traceback only where wanted."""

    def __init__(self, *, tracebacks: bool) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        if self._tracebacks or not record.exc_info:
            return super().format(record)
        bare = logging.makeLogRecord({**record.__dict__, "exc_info": None, "exc_text": None})
        error = record.exc_info[1]
        return f"{super().format(bare)} ({type(error).__name__}: {error})"


class SharedOption(click.Option):
    """An option that every command has; listed apart in the help."""


def shared_options() -> list[click.Option]:
    """Fresh copies of the shared options, for one command."""
    return [
        _option(
            "-z",
            "--zookeeper",
            metavar="HOST:PORT[,...][/CHROOT]",
            help="The ensemble; else ZKGROUP_ZOOKEEPER, else the profile.",
        ),
        _option("--profile", metavar="NAME", help="Profile of ~/.config/zkgroup/config.toml."),
        _option("--zk-digest-file", metavar="FILE", help="File with `user:password` for digest auth."),
        _option("--zk-tls-ca", metavar="FILE", help="CA certificates; switches TLS on."),
        _option("--zk-tls-cert", metavar="FILE", help="Client certificate."),
        _option("--zk-tls-key", metavar="FILE", help="Key of the client certificate."),
        _option("--zk-sasl-file", metavar="FILE", help="TOML file with the SASL options."),
        _option(
            "--connect-timeout",
            type=SOME_TIME,
            metavar="DURATION",
            help="Longest wait for a connection and for each answer.  [default: 10s]",
        ),
        _option("--format", type=click.Choice(FORMATS), help="How to print data.  [default: table]"),
        _option("-v", "--verbose", count=True, help="Say more on stderr; -vv: also tracebacks."),
    ]


HELP_NAMES = ["-h", "--help"]
"""Of every command whatever the context says: click keeps the help option made for the first context."""


class Command(click.Command):
    """A command that takes the shared options and lists them apart in its help."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(shared_options())

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        return HELP_NAMES

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_options(self, ctx, formatter)


class Group(click.Group):
    """A group of commands, each named with the module that holds it and imported when needed."""

    command_class = Command

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(shared_options())
        self._lazy = dict(lazy or {})
        """Name to (module and attribute, short help): the help of the group imports nothing."""

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        return HELP_NAMES

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._lazy, *(name for name in self.commands if name not in self._lazy)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self._lazy and cmd_name not in self.commands:
            module, _, attribute = self._lazy[cmd_name][0].partition(":")
            self.add_command(getattr(importlib.import_module(module, __package__), attribute), cmd_name)
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(
                _with_nearest(str(error.message), args[0], self.list_commands(ctx)), ctx
            ) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_options(self, ctx, formatter)
        rows = [(name, self._short_help(ctx, name)) for name in self.list_commands(ctx)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def _short_help(self, ctx: click.Context, name: str) -> str:
        if name in self._lazy:
            return self._lazy[name][1]
        command = super().get_command(ctx, name)
        return command.get_short_help_str(60) if command else ""


def nearest(word: str, known: list[str]) -> str | None:
    """The known name that the word most likely meant, if any is near."""
    import difflib

    found = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return found[0] if found else None


def _with_nearest(message: str, word: str, known: list[str]) -> str:
    guess = nearest(word, known)
    if guess is None or "Did you mean" in message:
        return message
    return f"{message.rstrip('.')}. Did you mean {guess!r}?"


def _write_options(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    own: list[tuple[str, str]] = []
    common: list[tuple[str, str]] = []
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None and isinstance(parameter, click.Option):  # arguments stand in the usage line
            (common if isinstance(parameter, SharedOption) else own).append(record)
    if own:
        with formatter.section("Options"):
            formatter.write_dl(own)
    if common:
        with formatter.section("Shared options (before or after the command)"):
            formatter.write_dl(common)


def command(name: str | None = None, **attributes: Any) -> Callable[[Callable[..., Any]], Command]:
    """Decorator: a stand-alone command with the shared options."""
    return click.command(name, cls=Command, **attributes)


def group(name: str, *, lazy: Mapping[str, tuple[str, str]] | None = None, help: str) -> Group:  # noqa: A002
    """A group of lazily imported or later added commands."""
    return Group(name, lazy=lazy, help=help, no_args_is_help=True)


SHARED_NAMES = tuple(item.name for item in fields(Shared))
