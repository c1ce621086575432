"""The root command: lazily imported commands, options that may stand anywhere, errors as exit codes.

`zkgroup -z HOST group list` and `zkgroup group list -z HOST` mean the same: the shared options are
parameters of the root and of every command below it; what stands nearest to the command wins.
"""

from __future__ import annotations

import importlib
import io
import logging
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, TextIO

import click
from click.core import ParameterSource
from click.shell_completion import get_completion_class

from zkgroup.errors import AuthorizationError, PartlyDoneError, ZkGroupError
from zkgroup.model.text import named

from .param_types import SOME_TIME, nearest
from .render import FORMATS, Output, drop_output, echo_err, message_text
from .units import is_duration, is_whole

EXIT_ERROR = 1
EXIT_CHECK_FAILED = 3
EXIT_PARTLY_DONE = 4
EXIT_INTERRUPTED = 130
"""Exit codes of the command line; errors have their own (`ZkGroupError.exit_code`)."""

_META = "zkgroup.shared"
_REFUSALS = "zkgroup.refusals"
COMMAND_LINE = "zkgroup.command_line"
"""Key of `Context.meta` for the arguments as typed."""

WATCH_PAUSE = "2s"
"""The pause of `--watch` where none is given."""

ACLS = ("open", "creator")
"""Access lists of what is created, by their names on the command line."""

CONNECTION_OPTIONS = (
    "zookeeper",
    "profile",
    "zk_digest_file",
    "zk_tls_ca",
    "zk_tls_cert",
    "zk_tls_key",
    "zk_sasl_file",
    "zk_acl",
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
    zk_acl: str | None = None
    connect_timeout: int | None = None
    command_config: str | None = None
    """Of the commands that ask brokers, and the next one."""
    bootstrap_server: str | None = None
    format: str | None = None
    verbose: int = 0
    whole_documents: bool = False
    """`ndjson` has one line for a document, not one for each of its rows."""

    def output(self) -> Output:
        return Output.of_this_process(self.format or "table", whole=self.whole_documents)

    def connection_arguments(self) -> list[str]:
        """The options that say where and how to connect, as given: for commands to be typed next."""
        arguments = []
        for name in CONNECTION_OPTIONS:
            value = getattr(self, name)
            if value is not None:
                arguments += ["-z" if name == "zookeeper" else f"--{name.replace('_', '-')}", value]
        return arguments


def shared(ctx: click.Context | None = None) -> Shared:
    """The shared options as given so far, before or after the command."""
    meta = (ctx or click.get_current_context()).meta
    value: Shared = meta.setdefault(_META, Shared())
    return value


def output() -> Output:
    """Returns the settings by which the running command prints."""
    return shared().output()


def store(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Keeps the value of an option in `Shared`, where all that is given to a command can be read."""
    name = parameter.name
    assert name is not None
    if name == "verbose":
        shared(ctx).verbose += value
        if value:  # behind the command as well, which is read when the root is already at work
            show_logs(shared(ctx).verbose)
    elif value is not None and ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
        setattr(shared(ctx), name, value)


def _option(*names: str, **attributes: Any) -> click.Option:
    return SharedOption(list(names), expose_value=False, callback=store, is_eager=True, **attributes)


def show_logs(verbose: int) -> None:
    """Logs on stderr: warnings always, zkgroup's events with -v, everything (kazoo's too) with -vv."""
    levels = {0: (logging.WARNING, logging.CRITICAL), 1: (logging.INFO, logging.WARNING)}
    own_level, other_level = levels.get(verbose, (logging.DEBUG, logging.INFO))
    handler = logging.StreamHandler()
    handler.setFormatter(_LogLine(tracebacks=verbose >= 2))
    if not verbose:
        handler.addFilter(lambda record: not getattr(record, "raised", False))
    logging.basicConfig(handlers=[handler], level=other_level, force=True)
    logging.getLogger("zkgroup").setLevel(own_level)


def show_access_log() -> None:
    """Logs who was refused what, and who has changed what, also without -v."""
    log = logging.getLogger("zkgroup.authorizer")
    if not log.isEnabledFor(logging.INFO):
        log.setLevel(logging.INFO)


@contextmanager
def quiet_connecting() -> Iterator[Callable[[], None]]:
    """Hides warnings of failed attempts until a command has its first connection: the error has the reason.

    Yields a function to be called once there is a connection: from then on warnings are shown. Without a
    connection they stay hidden to the end of the block, which closes the client. With -v every attempt is
    shown.
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


@contextmanager
def logs_into(stream: TextIO) -> Iterator[None]:
    """Prints the log on this stream instead of stderr, while the block runs."""
    handlers = [one for one in logging.getLogger().handlers if type(one) is logging.StreamHandler]
    former = [one.setStream(stream) for one in handlers]
    try:
        yield
    finally:
        for handler, before in zip(handlers, former, strict=True):
            handler.setStream(before or sys.stderr)


class _LogLine(logging.Formatter):
    """One line a record; an error that it carries is one phrase, with its traceback only from -vv on."""

    def __init__(self, *, tracebacks: bool) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        if self._tracebacks or not record.exc_info:
            return message_text(super().format(record))
        bare = logging.makeLogRecord({**record.__dict__, "exc_info": None, "exc_text": None})
        error = record.exc_info[1]
        return message_text(f"{super().format(bare)} ({type(error).__name__}: {error})")


def fail_check() -> NoReturn:
    """Ends the command with the exit code of a check that failed; refused by brokers it has no result."""
    _check_refusals()
    click.get_current_context().exit(EXIT_CHECK_FAILED)


def note_refusals(reasons: Iterable[str]) -> None:
    """Ends the command with `AuthorizationError`, once it has printed all else, if brokers refused the user.

    Other reasons why something is not known are left out.
    """
    found: dict[str, None] = click.get_current_context().meta.setdefault(_REFUSALS, {})
    found.update(dict.fromkeys(reason for reason in reasons if AuthorizationError.WORDS in reason))


def taken_refusal() -> AuthorizationError | None:
    """Returns what `note_refusals` has kept as one error, and forgets it."""
    refusals = click.get_current_context().meta.pop(_REFUSALS, ())
    return AuthorizationError(named(refusals, 3, "; ")) if refusals else None


def _check_refusals() -> None:
    if (refusal := taken_refusal()) is not None:
        raise refusal


def check_read(verb: str, faults: Iterable[object], *, rows: object = True) -> None:
    """Ends a command that could not read everything: it has failed where there are no `rows` either."""
    found = list(faults)
    message = "; ".join(map(str, found))
    if found and rows:
        raise PartlyDoneError(f"not {verb}: {message}")
    if found:
        raise found[0] if isinstance(found[0], Exception) else ZkGroupError(message)


class SharedOption(click.Option):
    """An option that every command has; listed apart in the help."""


def shared_options(formats: Sequence[str] = FORMATS) -> list[click.Option]:
    """Fresh copies of the shared options, for one command that prints data in these formats."""
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
            "--zk-acl",
            type=click.Choice(ACLS),
            help="Who may change what is created: everyone, or its creator, and everyone reads what is no "
            "secret.  [default: open]",
        ),
        _option(
            "--connect-timeout",
            type=SOME_TIME,
            metavar="DURATION",
            help="Longest wait for a connection and for each answer.  [default: 10s]",
        ),
        _option("--format", type=click.Choice(formats), help="How to print data.  [default: table]"),
        _option("-v", "--verbose", count=True, help="Print more on stderr; -vv: also tracebacks."),
    ]


HELP_NAMES = ["-h", "--help"]
"""Of every command whatever the context says: click keeps the help option made for the first context."""


class _SharingOptions(click.Command):
    """A command or group that takes the shared options and lists them apart in its help."""

    formats: Sequence[str] = FORMATS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(shared_options(self.formats))

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        return HELP_NAMES

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own: list[tuple[str, str]] = []
        common: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            # arguments stand in the usage line
            if record is not None and isinstance(parameter, click.Option):
                (common if isinstance(parameter, SharedOption) else own).append(record)
        for title, records in (("Options", own), ("Shared options (before or after the command)", common)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Command(_SharingOptions):
    """A command that takes the shared options."""

    def invoke(self, ctx: click.Context) -> Any:
        result = super().invoke(ctx)
        _check_refusals()
        return result

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if any(parameter.name == "watch_ms" for parameter in self.params):
            args = with_pause(args)
        return super().parse_args(ctx, args)


def with_pause(args: Sequence[str]) -> list[str]:
    """The words of a command line, with the pause of a `--watch` that is not followed by one."""
    found = list(args)
    end = found.index("--") if "--" in found else len(found)
    for place in [place for place in range(end) if found[place] == "--watch"]:
        following = found[place + 1] if place + 1 < end else ""
        if not (is_duration(following) or is_whole(following)):  # without a unit it is refused
            found[place] = f"--watch={WATCH_PAUSE}"
    return found


class Group(_SharingOptions, click.Group):
    """A group of commands, each named with the module that holds it and imported when needed."""

    command_class = Command

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = dict(lazy or {})
        """Name to (module and attribute, short help): the help of the group imports nothing.

        Without a short help a command is hidden: it works, and no help lists it.
        """

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
        super().format_options(ctx, formatter)
        rows = [(name, short) for name in self.list_commands(ctx) if (short := self._short_help(ctx, name))]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def _short_help(self, ctx: click.Context, name: str) -> str:
        if name in self._lazy:
            return self._lazy[name][1]
        command = super().get_command(ctx, name)
        return first_sentence(command) if command else ""


def first_sentence(command: click.Command) -> str:
    """The short help of a command, never cut: the first sentence of its help, without the full stop."""
    paragraph = " ".join((command.help or "").strip().split("\n\n")[0].split())
    return paragraph.split(". ")[0].rstrip(".")


def _with_nearest(message: str, word: str, known: list[str]) -> str:
    guess = nearest(word, known)
    if guess is None or "Did you mean" in message:
        return message
    return f"{message.rstrip('.')}. Did you mean {guess!r}?"


def command(name: str | None = None, **attributes: Any) -> Callable[[Callable[..., Any]], Command]:
    """Decorator: a stand-alone command with the shared options."""
    return click.command(name, cls=Command, **attributes)


def group(name: str, *, lazy: Mapping[str, tuple[str, str]] | None = None, help: str) -> Group:  # noqa: A002
    """A group of lazily imported or later added commands."""
    return Group(name, lazy=lazy, help=help, no_args_is_help=True)


_COMMANDS = {
    "demo": (".commands.demo:demo", "Run a demo: members or brokers are killed, and nothing is lost"),
    "status": (".commands.status:status", "Show brokers, controller, topics and groups on one screen"),
    "doctor": (".commands.status:doctor", "Find problems and name the command that fixes each"),
    "zookeeper": (
        ".commands.zookeeper:zookeeper",
        "Run a ZooKeeper; create a chroot; close or open znodes",
    ),
    "consume": (".commands.consume:consume", "Join GROUP as a member and print what happens"),
    "produce": (".commands.produce:produce", "Append records to TOPIC, one for each line of the input"),
    "group": (".commands.group:group", "List, describe, check, preview and delete groups"),
    "offsets": (".commands.offsets:offsets", "Show, export and change committed offsets"),
    "undo": (".commands.undo:undo", "Undo a change, the last one by default; `undo list` shows them"),
    "topic": (".commands.topic:topic", "Create, list, describe, alter and delete topics"),
    "broker": (".commands.broker:broker", "Run a broker; list, describe or forget registered ones"),
    "controller": (
        ".commands.controller:controller",
        "Show the active controller, its history; make it resign",
    ),
    "coordinator": (
        ".commands.coordinator:coordinator",
        "Show the group coordinator; give groups back to ZooKeeper",
    ),
    "session": (".commands.session:session", "Show which client is behind SESSION"),
    "elect": (".commands.elect:elect", "Elect leaders: preferred replicas, or any live one"),
    "reassign": (".commands.reassign:reassign", "Move replicas between brokers, with Kafka's files"),
    "plan": (".commands.plan:plan", "Plan moves of replicas: decommission, replace, balance"),
    "exporter": (".commands.exporter:exporter", "Serve lag, groups and brokers to Prometheus"),
    "cluster": (".commands.cluster:cluster", "Show what the cluster costs its ensemble"),
    "config": (".commands.config:config", "Show and change configurations"),
    "acl": (".commands.acl:acl", "Show and change ACLs, and who may join ZooKeeper groups"),
    "user": (".commands.user:user", "Add, delete and list users who log in by SCRAM; hash passwords"),
    "audit": (".commands.audit:audit", "Reconstruct what happened from ZooKeeper's own files"),
    "znode": (".commands.znode:znode", "Read znodes"),
}


class Root(Group):
    """The group `zkgroup`: turns whatever a command raises into a message and an exit code."""

    def main(self, args: Sequence[str] | None = None, *pass_on: Any, **extra: Any) -> Any:
        extra["standalone_mode"] = False
        _never_fail_on_characters()
        try:
            code = super().main(args, *pass_on, **extra)
        except (click.exceptions.Abort, KeyboardInterrupt):
            click.echo("interrupted", err=True)
            code = EXIT_INTERRUPTED
        except click.ClickException as error:
            shown, message = io.StringIO(), error.format_message()
            error.show(shown)
            click.echo(shown.getvalue().replace(message, message_text(message)), err=True, nl=False)
            code = error.exit_code
        sys.exit(code if isinstance(code, int) else 0)

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **extra: Any) -> click.Context:
        typed = list(args)
        ctx = super().make_context(info_name, args, *rest, **extra)
        ctx.meta[COMMAND_LINE] = typed
        return ctx

    def invoke(self, ctx: click.Context) -> Any:
        try:
            show_logs(shared(ctx).verbose)
            return super().invoke(ctx)
        except ZkGroupError as error:
            return self._report(ctx, error, error.exit_code, str(error))
        except (click.ClickException, click.exceptions.Abort, click.exceptions.Exit):
            raise
        except BrokenPipeError:  # of events without end; here, since click's own `main` exits with 1
            drop_output()
            return 0
        except ImportError as error:  # a package that does not fit; the error names it
            return self._report(ctx, error, EXIT_ERROR, str(error))
        except Exception as error:  # noqa: BLE001 - the last resort: a bug must not print a traceback
            kind = type(error).__name__
            hint = "" if shared(ctx).verbose >= 2 else "; -vv shows where"
            return self._report(ctx, error, EXIT_ERROR, f"{kind}: {error} (a bug of zkgroup{hint})")

    @staticmethod
    def _report(ctx: click.Context, error: Exception, code: int, message: str) -> int:
        if shared(ctx).verbose >= 2:
            echo_err("".join(traceback.format_exception(error)).rstrip())
        echo_err(f"error: {message}")
        return code


def _never_fail_on_characters() -> None:
    """Writes characters that the terminal's encoding lacks, and half a surrogate pair, as escapes.

    Foreign znodes may hold anything; `\\ud800` is also how JSON writes it.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"zkgroup {version('zkgroup')}")
    ctx.exit()


@command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL.

    For bash, `eval "$(zkgroup completion bash)"` in ~/.bashrc; zsh likewise.

    \b
    Example:
      zkgroup completion fish > ~/.config/fish/completions/zkgroup.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "zkgroup", "_ZKGROUP_COMPLETE").source())


root = Root(
    "zkgroup",
    lazy=_COMMANDS,
    no_args_is_help=True,
    context_settings={"help_option_names": HELP_NAMES, "max_content_width": 110},
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_version,
            help="Print the version.",
        )
    ],
    help="""Consumer groups, brokers and controllers on ZooKeeper, as Kafka 0.8 had them.

    A command that reads changes nothing. One that overwrites, moves or deletes shows what it would do and
    does nothing until --execute. Exit codes: 0 done or healthy, 1 error, 2 usage or refused, 3 the check
    failed, 4 partly done, 5 not found, 6 conflict, 7 ZooKeeper cannot be reached, 124 timed out, 130
    interrupted.

    \b
    Example:
      zkgroup -z localhost:2181 group describe billing""",
)

root.add_command(completion)


def main() -> None:
    """The command line; the script `zkgroup` calls it through `zkgroup_cli.entry`."""
    root.main(prog_name="zkgroup")
