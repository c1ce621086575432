"""Before anything is overwritten or deleted: shown, consented to, saved for going back."""

from __future__ import annotations

import getpass
import os
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zkgroup.admin.kafka_files import reassignment_text
from zkgroup.admin.offsets import Act
from zkgroup.admin.undo import UndoFolder, UndoRecord, new_undo_id, write_whole
from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition, Znode

from .connection import target
from .frame import COMMAND_LINE, output, shared
from .output import Output, say

if TYPE_CHECKING:
    from zkgroup.admin.ensemble import Ensemble


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


def rollback_folder() -> Path:
    """Beside the undo files: replica lists as they were, in the form of Kafka's own files."""
    return undo_folder().path.parent / "rollback"


@contextmanager
def recorded(ensemble: Ensemble, *, force: bool = False, needed: bool = True, **how: Any) -> Iterator[Act]:
    """Around a change: its undo record is saved before, and the one command that goes back printed after.

    `how` are the fields of `UndoRecord` that say how things were. A change that is refused leaves no record;
    of one that may have happened, or in part, the command is printed with the error. What took `force` takes
    it to undo. Not `needed` is the record of what a plain command takes back: where it cannot be saved, that
    command is told, and the change is made.
    """
    act, folder = new_act(), undo_folder()
    record = UndoRecord(
        undo_id=act.undo_id,
        time_ms=ensemble.clock.wall_ms(),
        command=act.command,
        zookeeper=target(shared()).zookeeper,
        **how,
    )
    try:
        folder.save(record)
    except ConfigError as error:
        if needed:
            raise
        words = command_words(*record.command_back, "--execute")
        say(f"note: no record of this is kept ({error.__cause__}); to go back: {words}")
        yield act
        return
    try:
        with folder.keeping(record):
            yield act
    except BaseException:
        if folder.file(act.undo_id).exists():
            _say_way_back(record, force=force)
        raise
    _say_way_back(record, force=force)


def made_at(act: Act, zxid: int | None) -> str | None:
    """Adds to the record of an act when it was done. The id of the record, where one was kept."""
    folder = undo_folder()
    if not folder.file(act.undo_id).exists():
        return None
    try:
        folder.amend(act.undo_id, made_at=zxid)
    except ConfigError as error:
        say(f"note: {error}: an undo could not tell what was made from the same made anew")
    return act.undo_id


def as_they_are(*znodes: Znode | None) -> tuple[tuple[str, bytes | None], ...]:
    """Znodes for a record: path and data."""
    return tuple((znode.path, znode.data) for znode in znodes if znode is not None)


def saved_rollback(name: str, replicas: Mapping[TopicPartition, Sequence[int]]) -> Path:
    """Writes the lists into a file that Kafka's tool and ours take. Raises ConfigError."""
    file = rollback_folder() / f"{name}.json"
    try:
        write_whole(file, f"{reassignment_text(replicas)}\n".encode())
    except OSError as error:
        raise ConfigError(
            f"{file}: the rollback file cannot be written, so nothing was changed: {error}"
        ) from error
    return file


def moves_back(rollback: Path) -> dict[str, Any]:
    """The fields of a record that goes back with a rollback file."""
    return {
        "command_back": ("reassign", "execute", "--reassignment-json-file", str(rollback)),
        "when": "once it has ended",
        "rollback_file": str(rollback),
    }


NO_WAY_BACK_OF_BROKERS = "a topic that brokers host does not become one without brokers again"


def command_words(*words: str) -> str:
    """A command to type next, to the same ensemble."""
    return shlex.join(["zkgroup", *shared().connection_words(), *words])


def say_no_way_back(why: str) -> None:
    """In the preview of what leaves nothing to go back from."""
    say(f"note: this cannot be undone: {why}")


def _say_way_back(record: UndoRecord, *, force: bool) -> None:
    if record.way_back is not None:
        return
    words = command_words("undo", record.undo_id, "--execute", *(["--force"] if force else []))
    say(f"to go back{f', {record.when}' if record.when else ''}: {words}")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"
