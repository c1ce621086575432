"""What becomes of the throttle of a move: removed when the move has ended, or told how."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zkgroup.admin.ensemble import Ensemble
from zkgroup.admin.reassignments import (
    DONE,
    FAILED,
    IN_PROGRESS,
    MoveStatus,
    list_moves,
    nothing_moves,
    wait_for_moves,
)
from zkgroup.admin.stored_plans import running_plans
from zkgroup.admin.throttling import Throttled, clear_throttles, read_throttles
from zkgroup.admin.topics import topic_names
from zkgroup.admin.words import Move

from . import reassign_tables
from .consent import command_words, is_wanted, say_no_way_back
from .output import say
from .units import counted


def words_to_clear(file: str | None = None) -> str:
    """The command that removes throttles once nothing moves: of the topics in a file, or all.

    What was read from the standard input cannot be named again.
    """
    named = () if file is None or file in ("-", "<stdin>") else ("--reassignment-json-file", file)
    return command_words("reassign", "verify", *named, "--clear-throttle", "--execute")


def is_over(ensemble: Ensemble, rows: Sequence[MoveStatus]) -> bool:
    """Whether no move needs the throttle any more: done; or cancelled or dropped, and nothing else moves."""
    found = {row.status for row in rows}
    return found <= {DONE} or (found <= {DONE, FAILED} and nothing_moves(ensemble))


def is_still(ensemble: Ensemble, rows: Sequence[MoveStatus]) -> bool:
    """Whether nothing moves, and no plan is about to: of a cancel, which may leave other moves running."""
    return nothing_moves(ensemble) and not running_plans(ensemble)


def awaited(
    ensemble: Ensemble,
    wanted: Sequence[Move],
    longest_s: float,
    clear: str | None,
    is_over: Callable[[Ensemble, Sequence[MoveStatus]], bool] = is_over,
) -> str:
    """Waits for the end of the moves; the worst status of one.

    `clear` is the command that removes their throttle, None where they have none. It is removed here where,
    by `is_over`, no move needs it any more. However else the wait ends, by an interruption too, the command
    is told.
    """
    stays = clear is not None
    try:
        with reassign_tables.progress() as show:
            _, rows = wait_for_moves(ensemble, wanted, longest_s, show)
        if stays and is_over(ensemble, rows):
            throttled = read_throttles(ensemble, [move.topic_partition.topic for move in wanted])
            moved = {broker for move in wanted for broker in move.replicas}
            written = clear_throttles(ensemble, throttled.of_moves(moved))
            stays = False
            say(f"the throttle is removed: {counted(written, 'configuration')} written")
    finally:
        if stays:
            say(f"the throttle stays; once nothing moves, remove it: {clear}")
    found = {row.status for row in rows}
    return IN_PROGRESS if IN_PROGRESS in found else DONE if found <= {DONE} else FAILED


def cleared(ensemble: Ensemble, moves: Sequence[Move], *, is_over: bool, execute: bool, yes: bool) -> None:
    """`reassign verify FILE --clear-throttle`."""
    throttled = read_throttles(ensemble, [move.topic_partition.topic for move in moves])
    _clear(ensemble, throttled, None if is_over else "not every move is done", execute=execute, yes=yes)


def all_cleared(ensemble: Ensemble, *, execute: bool, yes: bool) -> bool:
    """`reassign verify --clear-throttle`: every throttle there is. Whether none has to stay."""
    throttled = read_throttles(ensemble, topic_names(ensemble))
    why = None
    if throttled and (plans := running_plans(ensemble)):
        why = f"plan {', '.join(plans)} runs"
    elif throttled and not nothing_moves(ensemble):
        count = len(list_moves(ensemble)[1])
        why = f"{counted(count, 'partition')} {'moves' if count == 1 else 'move'}"
        if not count:
            why = "what moves cannot be read"
    _clear(ensemble, throttled, why, execute=execute, yes=yes)
    return why is None


def _clear(ensemble: Ensemble, throttled: Throttled, why: str | None, *, execute: bool, yes: bool) -> None:
    if not throttled:
        say("nothing is throttled")
        return
    what = f"the throttle of {throttled.named}"
    if why is not None:
        say(f"{what} stays: {why}")
        return
    if not execute:
        say(f"would remove {what}")
    say_no_way_back("the next `reassign execute --throttle` sets one again")
    if is_wanted(execute, yes, f"Remove {what}?", lambda aside: aside.line(f"would remove {what}")):
        clear_throttles(ensemble, throttled)
        say(f"removed {what}")
