"""Before anything is overwritten or deleted: shown, consented to, saved for going back."""

from __future__ import annotations

import getpass
import os
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import click

from zkgroup.admin.offsets import Act
from zkgroup.admin.undo import UndoFolder, new_undo_id

from .frame import COMMAND_LINE, output, shared
from .output import Output, say


def undo_folder() -> UndoFolder:
    """`$XDG_STATE_HOME/zkgroup/undo`, `~/.local/state` where the variable is not set."""
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return UndoFolder(Path(home) / "zkgroup" / "undo")


def is_wanted(execute: bool, yes: bool, question: str, show: Callable[[Output], object]) -> bool:
    """Whether to go ahead: `--execute`, and on a terminal a yes. Says on stderr why not.

    `show` prints what would be done: on stderr before the question, so that a yes is to something seen.
    Raises Declined where the answer is no.
    """
    if not execute:
        say("nothing was changed: this is what --execute would do")
        return False
    if not yes and sys.stdin.isatty() and sys.stdout.isatty():
        show(replace(output(), format="table", aside=True))
        try:
            agreed = click.confirm(question, err=True)
        except click.Abort:
            say("")  # ends the line of the question
            raise
        if not agreed:
            raise Declined
    return True


class Declined(click.ClickException):
    """The person at the terminal said no."""

    exit_code = 2

    def __init__(self) -> None:
        super().__init__("not confirmed: nothing was changed")


def new_act() -> Act:
    """Who does what, for the records: the command line as typed (it never holds a secret)."""
    typed: Sequence[str] = click.get_current_context().meta[COMMAND_LINE]
    undo_id = new_undo_id(time.time_ns() // 1_000_000, secrets.token_hex(2))
    return Act(undo_id=undo_id, command=shlex.join(["zkgroup", *typed]), user=_user())


def say_way_back(undo_id: str, *, force: bool = False) -> None:
    """The one command that goes back: to the same ensemble; what took force takes force to undo."""
    words = ["zkgroup", *shared().connection_words(), "offsets", "undo", undo_id, "--execute"]
    say(f"to go back: {shlex.join([*words, '--force'] if force else words)}")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"
