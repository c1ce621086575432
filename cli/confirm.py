"""Confirmation and undo records: a change is shown, confirmed, and recorded before it is made."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import click

from zkgroup.admin.change import (
    AdminChange,
    ChangeResult,
    OutcomeT,
    PlanT,
    UndoRecorder,
    WrittenT,
    apply_changes,
    default_undo_folder,
)

from .app import COMMAND_LINE, output, shared
from .context import target
from .params import Consent
from .render import Output, echo_err, message_text
from .schema import Document


def _confirmed(consent: Consent, question: str, show: Callable[[Output], object]) -> bool:
    """Returns whether to go ahead: `--execute`, and on a terminal a yes. Prints on stderr why not.

    `show` prints what would be done: on stderr before the question, so that it is known what a yes does.
    Raises Declined where the answer is no.
    """
    if not consent.execute:
        echo_err("nothing was changed: this is what --execute would do")
        return False
    if not consent.yes and sys.stdin.isatty() and sys.stdout.isatty():
        show(replace(output(), format="table", stderr=True))
        try:
            agreed = click.confirm(message_text(question), err=True)
        except click.Abort:
            echo_err("")  # ends the line of the question
            raise
        if not agreed:
            raise Declined
    return True


def run_change(
    change: AdminChange[PlanT, WrittenT, OutcomeT],
    show: Callable[[Output, ChangeResult[PlanT, WrittenT, OutcomeT]], object],
    consent: Consent,
    wait_s: float | None = None,
) -> ChangeResult[PlanT, WrittenT, OutcomeT]:
    """Runs a change as every command does: notes, whether it can be undone, confirmation, then the change.

    With `--execute` and, on a terminal, a yes, the undo record is saved, the change made, its undo hint
    printed, and its end waited for where `wait_s` is given. `show` prints what would be done.
    """
    echo_notes(change)
    preview = change.preview()
    if not change.is_effective or not _confirmed(consent, change.question, lambda out: show(out, preview)):
        return preview
    return change.apply(undo_recorder(), wait_s=wait_s)


def print_result(
    document: Document[ChangeResult[Any, Any, Any]],
    result: ChangeResult[PlanT, WrittenT, OutcomeT],
    show: Callable[[Output, ChangeResult[PlanT, WrittenT, OutcomeT]], object],
) -> None:
    """Prints what was or would be changed: the document, or by `show` a table.

    The document is of the moment of the outcome where that has one, else of that of the plan.
    """
    out, plan = output(), cast("Any", result.plan)
    if not document.print(out, getattr(result.outcome, "as_of", None) or plan.as_of, result):
        show(out, result)


def run_changes(
    changes: Sequence[AdminChange[PlanT, WrittenT, OutcomeT]],
    question: str,
    show: Callable[[Output], object],
    consent: Consent,
    wait_s: float | None = None,
) -> tuple[ChangeResult[PlanT, WrittenT, OutcomeT], ...]:
    """Runs several changes as `run_change` does one, after a single question; each has an undo record."""
    for change in changes:
        echo_notes(change)
    is_effective = any(change.is_effective for change in changes)
    if not is_effective or not _confirmed(consent, question, show):
        return tuple(change.preview() for change in changes)
    return apply_changes(changes, undo_recorder(), wait_s=wait_s)


def run_at_once(
    change: AdminChange[PlanT, WrittenT, OutcomeT], *, dry_run: bool
) -> ChangeResult[PlanT, WrittenT, OutcomeT]:
    """Runs a change that only adds: notes, then the change unless `dry_run`; no confirmation is needed."""
    echo_notes(change)
    return change.preview() if dry_run else change.apply(undo_recorder())


def echo_notes(change: AdminChange[PlanT, WrittenT, OutcomeT]) -> None:
    """Prints notes before the change, and the reason why it cannot be undone."""
    for note in change.notes:
        echo_err(f"note: {note}")
    if change.no_undo and change.is_effective:
        echo_err(f"note: this cannot be undone: {change.no_undo}")


def undo_recorder() -> UndoRecorder:
    """Saves undo records as made by the command line as typed (it never holds a secret)."""
    typed: Sequence[str] = click.get_current_context().meta[COMMAND_LINE]
    return UndoRecorder(
        default_undo_folder(),
        zookeeper=target(shared()).zookeeper,
        command=shlex.join(["zkgroup", *typed]),
        command_text=lambda words: command_text(*words),
        report=echo_err,
    )


class Declined(click.ClickException):
    """The person at the terminal said no."""

    exit_code = 2

    def __init__(self) -> None:
        super().__init__("not confirmed: nothing was changed")


def command_text(*arguments: str) -> str:
    """A command to type next, to the same ensemble."""
    return shlex.join(["zkgroup", *shared().connection_arguments(), *arguments])
