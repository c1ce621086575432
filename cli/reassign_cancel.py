"""`zkgroup reassign cancel`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import click

from zkgroup.admin.cancelling import (
    CancelPlan,
    Execution,
    Removal,
    cancel,
    plan_cancel,
    plan_removal,
    remove,
)
from zkgroup.admin.ensemble import Ensemble
from zkgroup.admin.kafka_files import parse_reassignment
from zkgroup.admin.reassignments import DONE, list_moves
from zkgroup.admin.throttling import read_throttles
from zkgroup.admin.words import Move
from zkgroup.errors import ConfigError, NotFoundError, RefusedError
from zkgroup.model import TopicPartition

from . import reassign_documents, reassign_tables, reassign_throttles
from .connection import connected, target
from .consent import (
    as_they_are,
    command_words,
    is_wanted,
    moves_back,
    recorded,
    saved_rollback,
    undo_folder,
)
from .frame import command, output, shared
from .options import consent_options, wait_options, wait_s
from .output import Output, say
from .parameters import TopicPartitions, file_text
from .units import counted

EXIT_CHECK_FAILED = 3

NAMED = 5
"""Partitions that one message names."""


@command("cancel")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    type=TopicPartitions(),
    metavar="T[:P,P...]",
    help="Only these moves; may be repeated.  [default: all that run]",
)
@click.option(
    "--reassignment-json-file",
    "file",
    type=click.File("r", encoding="utf-8", lazy=True),
    help="Where they were: the rollback file of the execution.  [default: the newest one here that fits]",
)
@wait_options("the cancelled moves have ended; then a throttle is removed if nothing else moves")
@consent_options
@click.pass_context
def cancel_(
    ctx: click.Context,
    topics: Sequence[tuple[str, tuple[int, ...]]],
    file: IO[str] | None,
    wait: bool,
    timeout_ms: int | None,
    execute: bool,
    yes: bool,
) -> None:
    """Send running moves back to where they came from. Only a controller of zkgroup looks at a changed
    request; elsewhere it is refused with the reason.

    A request that cannot be read is removed.
    """
    out, longest = output(), wait_s(wait, timeout_ms)
    former = parse_reassignment(file.name, file_text(file)) if file else ()
    act, rollback, status = None, None, None
    with connected() as ensemble:
        if (removal := plan_removal(ensemble)) is not None:
            _removed(ensemble, out, removal, some=bool(topics), execute=execute, yes=yes)
            return
        plan = plan_cancel(ensemble, _chosen(ensemble, topics), former, _executions())
        for note in _notes(plan):
            say(f"note: {note}")
        count = counted(len(plan.rows), "move")
        if is_wanted(execute, yes, f"Cancel {count}?", lambda aside: reassign_tables.cancelled(aside, plan)):
            rollback = saved_rollback(str(ensemble.clock.wall_ms()), plan.before.targets)
            with recorded(ensemble, **moves_back(rollback)) as act:
                cancel(ensemble, plan)
            status = _after(ensemble, plan, longest)
    document = reassign_documents.cancellation(
        plan,
        executed=act is not None,
        undo=act.undo_id if act else None,
        rollback_file=str(rollback) if rollback else None,
        status=status,
    )
    if not out.document(document, "partitions", reassign_tables.CANCEL_KEYS):
        reassign_tables.cancelled(out, plan, executed=act is not None)
    if status not in (None, DONE):
        say(f"not every move is back: {command_words('reassign', 'list')}")
        ctx.exit(EXIT_CHECK_FAILED)


def _after(ensemble: Ensemble, plan: CancelPlan, longest_s: float | None) -> str | None:
    """Waits where that is wanted, and sees to the throttle that the moves had."""
    throttled = read_throttles(ensemble, {tp.topic for tp in plan.before.targets})
    clear = reassign_throttles.words_to_clear() if throttled.is_of_moves else None
    if longest_s is not None:
        back = [Move(row.topic_partition, row.after) for row in plan.rows]
        return reassign_throttles.awaited(ensemble, back, longest_s, clear, reassign_throttles.is_still)
    if clear is not None:
        say(f"the throttle stays; once nothing moves, remove it: {clear}")
    return None


def _removed(ensemble: Ensemble, out: Output, plan: Removal, *, some: bool, execute: bool, yes: bool) -> None:
    """Shows a request that cannot be read, and with consent removes it, its bytes saved first."""
    if some:
        raise RefusedError(
            f"{plan.error}: which moves it asks for is not known; without --topic it is removed"
        )
    act = None
    say(f"note: {plan.error}")
    if plan.note:
        say(f"note: {plan.note}")
    path = plan.znode.path
    if is_wanted(execute, yes, f"Remove {path}?", lambda aside: _show(aside, plan, executed=False)):
        with recorded(ensemble, znodes=as_they_are(plan.znode)) as act:
            remove(ensemble, plan)
    executed = act is not None
    document = reassign_documents.removal(plan, executed=executed, undo=act.undo_id if act else None)
    if not out.document(document, "partitions", reassign_tables.CANCEL_KEYS):
        _show(out, plan, executed=executed)


def _show(out: Output, plan: Removal, *, executed: bool) -> None:
    size = counted(len(plan.znode.data or b""), "byte")
    out.line(f"{'removed' if executed else 'would remove'} {plan.znode.path}, {size} that cannot be read")


def _notes(plan: CancelPlan) -> Iterator[str]:
    """Where the old lists are from, and whose order may be another one."""
    for file in dict.fromkeys(plan.files.values()):
        yield f"the old replicas of {_named([tp for tp, one in plan.files.items() if one == file])}: {file}"
    if plan.unordered:
        yield (
            f"the order that the replicas of {_named(plan.unordered)} had is not known: another one may come "
            "first, and lead; --reassignment-json-file gives the rollback file of the execution"
        )


def _named(partitions: Sequence[TopicPartition]) -> str:
    named = ", ".join(map(str, partitions[:NAMED]))
    return named if len(partitions) <= NAMED else f"{named} and {len(partitions) - NAMED} more"


def _executions() -> Iterator[Execution]:
    """Reassignments asked of this ensemble from here, the latest first; one without its file is left out."""
    where = target(shared()).zookeeper
    try:
        for record in undo_folder().latest_first():
            if record.rollback_file is None or record.zookeeper != where:
                continue
            try:
                text = Path(record.rollback_file).read_text(encoding="utf-8")
                moves = parse_reassignment(record.rollback_file, text)
            except (OSError, UnicodeDecodeError, ConfigError):
                continue
            before = {move.topic_partition: move.replicas for move in moves}
            yield Execution(record.rollback_file, before, record.targets)
    except ConfigError as error:
        say(f"note: earlier executions are not looked at: {error}")


def _chosen(ensemble: Ensemble, topics: Sequence[tuple[str, tuple[int, ...]]]) -> list[TopicPartition]:
    """The partitions named; a topic alone means all of it that is being moved."""
    if not topics:
        return []
    _, rows, _ = list_moves(ensemble)
    chosen = []
    for name, parts in topics:
        mine = [row.topic_partition for row in rows if row.topic_partition.topic == name]
        if not parts and not mine:
            raise NotFoundError(
                f"nothing of topic {name!r} is being moved; `zkgroup reassign list` shows what is"
            )
        chosen += [TopicPartition(name, number) for number in parts] or mine
    return chosen
