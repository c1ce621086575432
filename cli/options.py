"""Options that several commands share beyond those of every command."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from .parameters import DURATION

if TYPE_CHECKING:
    from zkgroup.admin.ensemble import Ensemble

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def wait_options(what: str) -> Decorator:
    """`--wait [--timeout 60s]`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function = click.option(
            "--timeout",
            "timeout_ms",
            type=DURATION,
            metavar="DURATION",
            help="Longest wait, with --wait.  [default: 60s]",
        )(function)
        return click.option("--wait", is_flag=True, help=f"Wait until {what}.")(function)

    return decorate


def wait_s(wait: bool, timeout_ms: int | None) -> float | None:
    """The wait in seconds, None for none. Raises UsageError for a time-out without a wait."""
    if timeout_ms is not None and not wait:
        raise click.UsageError("--timeout is for --wait: give both or none")
    return (60_000 if timeout_ms is None else timeout_ms) / 1000 if wait else None


def source_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--source SPEC`, for log ends and lag."""
    return click.option(
        "--source",
        metavar="SPEC",
        help="Where the records are, for log ends: files:DIR, brokers or kafka:HOST:PORT[,...].",
    )(function)


def consent_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--execute`, `--yes`, `--dry-run` of commands that overwrite or delete.

    Contradictions are usage errors before anything is read; `--dry-run` only says what is the default, so
    that the function gets `execute` and `yes`.
    """

    @wraps(function)
    def checked(*args: Any, execute: bool, yes: bool, dry_run: bool, **values: Any) -> Any:
        if execute and dry_run:
            raise click.UsageError("--execute and --dry-run contradict each other")
        if yes and not execute:
            raise click.UsageError("--yes is for --execute: give both or none")
        return function(*args, execute=execute, yes=yes, **values)

    for name, text in (
        ("--dry-run", "Only show what would be done (the default)."),
        ("--yes", "Do not ask on a terminal."),
        ("--execute", "Do it; without this it is only shown."),
    ):
        checked = click.option(name, is_flag=True, help=text)(checked)
    return checked


def force_option(text: str) -> Decorator:
    """`--force`, saying what it forces."""
    return click.option("--force", is_flag=True, help=text)


def allow_missing_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--allow-missing`, for offsets of what does not exist (yet)."""
    return click.option(
        "--allow-missing",
        is_flag=True,
        help="Also for topics and partitions that do not exist; without this they are refused.",
    )(function)


def disable_racks_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--disable-rack-aware`, Kafka's word."""
    return click.option(
        "--disable-rack-aware", is_flag=True, help="Place replicas without looking at the brokers' racks."
    )(function)


def group_argument(many: bool = False) -> Decorator:
    """The argument GROUP, completed from ZooKeeper where one answers at once."""
    if many:
        return click.argument(
            "groups", metavar="GROUP...", nargs=-1, required=True, shell_complete=complete_groups
        )
    return click.argument("group", metavar="GROUP", shell_complete=complete_groups)


def topic_argument(many: bool = False) -> Decorator:
    """The argument TOPIC, completed from ZooKeeper like GROUP."""
    if many:
        return click.argument("topics", metavar="[TOPIC...]", nargs=-1, shell_complete=complete_topics)
    return click.argument("topic", metavar="TOPIC", shell_complete=complete_topics)


def complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> Sequence[CompletionItem]:
    """Names of groups that begin so."""
    from zkgroup.admin.reading import group_names

    return _names(ctx, incomplete, group_names)


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> Sequence[CompletionItem]:
    """Names of topics that begin so."""
    from zkgroup.admin.topics import topic_names

    return _names(ctx, incomplete, topic_names)


COMPLETE_TIMEOUT_MS = 1000
"""Who types waits no longer for names."""


def _names(
    ctx: click.Context, incomplete: str, read: Callable[[Ensemble], Sequence[str]]
) -> Sequence[CompletionItem]:
    """Names that begin so; none where no ensemble answers in time."""
    from .connection import connected
    from .frame import shared

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
