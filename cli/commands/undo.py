"""`zkgroup undo`: undoes a change; `undo list` shows the changes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from zkgroup.admin.change import default_undo_folder
from zkgroup.admin.undo import (
    check_untouched,
    restoration_change,
    undo_acls_change,
    undo_credentials_change,
    undo_offsets_change,
)
from zkgroup.admin.undo_records import UndoRecord
from zkgroup.errors import ConfigError, PartlyDoneError, RefusedError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model.text import counted

from ..app import command, output, shared
from ..confirm import command_text, print_result, run_change
from ..context import connected, target
from ..params import Consent, confirm_options, force_option, wait_options
from ..render import Cell, Output, echo_err
from ..schema import BOOLEAN, Document, JsonKey, KeyColumn, NamedKeys, Shape
from ..units import age
from .acl import ACL_ALTERATION, show_acls
from .offsets import run_offset_changes
from .user import USER_ALTERATION, show_alteration


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> Sequence[CompletionItem]:
    names = ["list", *reversed(default_undo_folder().ids())]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _undo_cell(record: UndoRecord) -> Cell | str:
    return record.summary if record.no_undo is None else Cell(f"no: {record.summary}", "dim")


class _TimeAlone(NamedTuple):
    """The moment of a document that is of no snapshot."""

    time_ms: int
    zxid: int | None = None


UNDO = Shape(
    UndoRecord,
    *("undo=undo_id", "time_ms", "command", "zookeeper"),
    JsonKey("undoable", BOOLEAN, lambda record: record.no_undo is None),
    "detail=summary",
    columns=(
        KeyColumn("undo", "ID"),
        KeyColumn("age", at=lambda record, now: age(record.time_ms, now[0]), right=True),
        KeyColumn("zookeeper", "ENSEMBLE", when_at=lambda now: now[1] is None, shorten="middle", least=14),
        KeyColumn("detail", "UNDO", _undo_cell, shorten="end", least=16),
        KeyColumn("command", shorten="end", least=20),
    ),
)
"""The table is of the time now, and of the ensemble; None for all."""
UNDO_LIST = Document(
    "undo_list", NamedKeys(undos=Sequence[UndoRecord]), Shape(_TimeAlone, "zxid", "time_ms"), rows="undos"
)
RESTORATION = Document("restoration", NamedKeys(undone=str, executed=bool, znodes=Sequence[str]))


@command("undo")
@click.argument("undo_id", metavar="[ID | list]", required=False, shell_complete=_complete)
@click.option("--all", "everywhere", is_flag=True, help="With list: changes of every ensemble.")
@force_option("Also where it has changed again since, or the group has members.")
@wait_options("it is known of each offset whether it stands (for an undo of offsets)")
@confirm_options
def undo(
    undo_id: str | None,
    everywhere: bool,
    force: bool,
    wait_s: float | None,
    consent: Consent,
) -> None:
    """Undo a change, the last one by default; `undo list` shows them.

    Every command that creates a topic, overwrites or deletes prints the ID, or says before that it cannot be
    undone. What the change created is deleted, what it overwrote or deleted is restored, unless it has
    changed again since (exit code 6). Without ID the last change on this ensemble is undone; an undo is a
    change too. `zkgroup undo list` shows the changes made from this machine.

    \b
    Example:
      zkgroup undo 20260131-120000-1a2b --execute
    """
    if undo_id == "list":
        if force or consent.execute:
            raise click.UsageError("list changes nothing: --force and --execute are for an ID")
        _list(output(), everywhere=everywhere)
        return
    if everywhere:
        raise click.UsageError("--all is for list")
    folder, where = default_undo_folder(), target(shared()).zookeeper
    record = folder.load(undo_id) if undo_id else folder.newest(lambda one: one.zookeeper == where)
    if undo_id is None:
        echo_err(f"the last change on {where}: {record.undo_id}, `{record.command}`")
    if record.zookeeper != where:
        echo_err(f"note: {record.undo_id} was done on {record.zookeeper}, this is {where}")
    if record.no_undo is not None:
        raise RefusedError(f"{record.undo_id}, `{record.command}`, cannot be undone: {record.no_undo}")
    if wait_s is not None and record.group is None:
        raise click.UsageError(
            f"--wait is for an undo of offsets; {record.undo_id} is one of {record.summary}"
        )
    if record.undo_command:
        with connected() as ensemble:
            if not force:
                check_untouched(ensemble, record)
        _run(record, consent)
        return
    with connected() as ensemble:
        if record.group is None:
            _undo_znodes(ensemble, record, consent, force=force)
        else:
            change = undo_offsets_change(ensemble, record, force=force)
            run_offset_changes([change], consent, wait_s)


def _undo_znodes(ensemble: Ensemble, record: UndoRecord, consent: Consent, *, force: bool) -> None:
    """Brings back credentials, ACLs, or znodes that are gone."""
    if record.user is not None:
        credentials = undo_credentials_change(ensemble, record, force=force)
        result = run_change(credentials, show_alteration, consent)
        print_result(USER_ALTERATION, result, show_alteration)
    elif record.is_of_acls:
        acls = undo_acls_change(ensemble, record, force=force)
        print_result(ACL_ALTERATION, run_change(acls, show_acls, consent), show_acls)
    else:
        _restore(ensemble, output(), record, consent)


def _run(record: UndoRecord, consent: Consent) -> None:
    """Runs the command that undoes it, as if typed: preview, question, record and exit code."""
    options = [*(["--execute"] if consent.execute else []), *(["--yes"] if consent.yes else [])]
    arguments = record.typed_undo_command(*options)
    echo_err(f"this runs: {command_text(*arguments)}")
    ctx, common = click.get_current_context(), shared()
    root = ctx.find_root().command
    more = ["--format", common.format] if common.format else []
    more += [] if common.connect_timeout is None else ["--connect-timeout", f"{common.connect_timeout}ms"]
    typed = [*common.connection_arguments(), *more, *(["-v"] * common.verbose), *arguments]
    with root.make_context(ctx.find_root().info_name, typed) as inner:
        code: Any = root.invoke(inner)
    ctx.exit(code if isinstance(code, int) else 0)


def _restore(ensemble: Ensemble, out: Output, record: UndoRecord, consent: Consent) -> None:
    """Creates the deleted znodes of a record again, once that is confirmed."""
    change = restoration_change(ensemble, record)
    plan = change.plan
    paths = [path for path, _ in plan.missing]
    count = counted(len(paths), "znode")
    named = f"again {count}: {', '.join(paths[:3])}" + (" ..." if len(paths) > 3 else "")
    wanted = run_change(change, lambda stderr, _: stderr.line(f"would create {named}"), consent).executed
    if RESTORATION.print(out, plan.as_of, undone=record.undo_id, executed=wanted, znodes=paths):
        return
    if not paths:
        out.line("every znode is there already: nothing to create")
    else:
        out.line(f"{'created' if wanted else 'would create'} {named}")


def _list(out: Output, *, everywhere: bool) -> None:
    """The changes of this ensemble, the latest first; of all where none is given."""
    try:
        where = None if everywhere else target(shared()).zookeeper
    except click.UsageError:
        where = None
    folder, records, broken = default_undo_folder(), [], []
    for undo_id in folder.ids():
        try:
            records.append(folder.load(undo_id))
        except ConfigError as error:
            broken.append(str(error))
    shown = [one for one in records if where is None or one.zookeeper == where]
    shown.sort(key=lambda one: (one.time_ms, one.undo_id), reverse=True)
    now_ms = time.time_ns() // 1_000_000
    if not UNDO_LIST.print(out, _TimeAlone(now_ms), undos=shown):
        UNDO.table(out, shown, (now_ms, where))
        if not shown:
            echo_err(
                f"{folder.path}: no change {'at all' if where is None else f'of {where}'} was made from here"
            )
    if broken:
        raise PartlyDoneError(f"not listed: {'; '.join(broken)}")
