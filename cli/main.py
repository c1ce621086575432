"""The root of the command line, and the one place where errors become exit codes."""

from __future__ import annotations

import io
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import click

from zkgroup.errors import ZkGroupError

from .frame import COMMAND_LINE, HELP_NAMES, Group, shared, show_logs

EXIT_ERROR = 1
EXIT_INTERRUPTED = 130

_COMMANDS = {
    "demo": (".demo_command:demo", "See it work: members or brokers are killed, nothing is lost."),
    "status": (".status_commands:status", "The ensemble on one screen."),
    "doctor": (".status_commands:doctor", "Explain what is wrong and what to type next."),
    "zookeeper": (".zookeeper_commands:zookeeper", "Run the embedded ZooKeeper; create a chroot."),
    "consume": (".consume_command:consume", "Join a group as a member."),
    "produce": (".produce_command:produce", "Append lines to a topic of our brokers."),
    "group": (".group_commands:group", "Look at groups, check and delete them."),
    "offsets": (".offsets_commands:offsets", "Show, save and change committed offsets."),
    "undo": (".undo_command:undo", "Take back a change; list those that were made from here."),
    "topic": (".topic_commands:topic", "Create, look at, alter and delete topics."),
    "broker": (".broker_commands:broker", "Run a broker; look at those that are registered, or forget one."),
    "controller": (".controller_commands:controller", "Look at who rules the cluster; have it resign."),
    "elect": (".elect_commands:elect", "Have leaders elected."),
    "reassign": (".reassign_commands:reassign", "Move replicas between brokers."),
    "cluster": (".cluster_commands:cluster", "Look at what the cluster costs its ensemble."),
    "config": (".config_commands:config", "Look at configurations and change them."),
    "audit": (".audit.commands:audit", "Ask ZooKeeper's own files what happened."),
    "znode": (".znode_commands:znode", "Look at znodes (read-only)."),
    "completion": (".completion_command:completion", "Print the shell completion script."),
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
            error.show()
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
        except BrokenPipeError:  # here, since click's own `main` would make it exit code 1
            return _after_broken_pipe()
        except Exception as error:  # noqa: BLE001 - the outermost edge: a bug must not print a traceback
            kind = type(error).__name__
            hint = "" if shared(ctx).verbose >= 2 else "; -vv shows where"
            return self._report(ctx, error, EXIT_ERROR, f"{kind}: {error} (a bug of zkgroup{hint})")

    @staticmethod
    def _report(ctx: click.Context, error: Exception, code: int, message: str) -> int:
        if shared(ctx).verbose >= 2:
            click.echo("".join(traceback.format_exception(error)).rstrip(), err=True)
        click.echo(f"error: {message}", err=True)
        return code


def _never_fail_on_characters() -> None:
    """What the terminal's encoding lacks, or no encoding has (half a surrogate pair), comes as an escape.

    Foreign znodes may hold anything; `\\ud800` is also how JSON writes it.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _after_broken_pipe() -> int:
    """The reader has gone (`| head`): that is its business; keep the interpreter's exit quiet."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"zkgroup {version('zkgroup')}")
    ctx.exit()


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
    help="""Consumer groups, brokers and controllers on ZooKeeper, as Kafka 0.8 had them: run, look, mend.

    Reading is free. What overwrites, moves or deletes shows what it would do and does nothing
    until --execute. Exit codes: 0 done or healthy, 1 error, 2 usage or refused, 3 the check failed,
    4 partly done, 5 not found, 6 conflict, 7 ZooKeeper cannot be reached, 124 timed out,
    130 interrupted.""",
)


def main() -> None:
    """The command line; the script `zkgroup` comes here through `.entry`."""
    root.main(prog_name="zkgroup")
