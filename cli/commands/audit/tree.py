"""`zkgroup audit tree`, `diff` and `export`: the tree as it was at a moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from zkgroup.admin.znodes import check_path
from zkgroup.audit.inputs.one_tree import ROUNDS, inconsistency_of, walk
from zkgroup.audit.inputs.opening import Folders
from zkgroup.audit.inputs.source import PointInTime, Progress, SeenTree, Source
from zkgroup.errors import NotFoundError
from zkgroup.model import Znode
from zkgroup.model.text import counted, hex_zxid
from zkgroup.zkfiles.exports import ExportedZnode, ExportHeader, ExportSize, exported, write_export
from zkgroup.zkfiles.history import State, ZnodeChange
from zkgroup.zkfiles.tree import Tree

from ...app import EXIT_CHECK_FAILED, EXIT_PARTLY_DONE, fail_check, output, shared
from ...audit_rows import LastTransaction, document
from ...context import connected, target
from ...render import echo_err
from ...schema import STRING, Inline, JsonKey, KeyColumn, NamedKeys, Shape, list_of, text_of
from ...units import size
from ..znode import ZNODE, draw
from .inputs import MOMENT, Inputs, command, input_options, opened, progress

_STYLES = {"added": "good", "removed": "bad", "changed": "warn"}
_STAT_NAMES = {
    "ephemeral_owner": "ephemeralOwner",
    "data_length": "dataLength",
    "children_count": "numChildren",
}
"""Fields of a Stat that have other names in ZooKeeper."""


def _data(state: State | None) -> str | None:
    if state is None:
        return None
    data = state.znode.data
    if data is None:
        return "null"
    return text_of(data) or (f"{len(data)} bytes" if data else "(empty)")


STATE = Shape(State, Inline("znode", ZNODE))
CHANGE = Shape(
    ZnodeChange,
    *("path", "change", "before", "after"),
    JsonKey(
        "fields", list_of(STRING), lambda change: [_STAT_NAMES.get(name, name) for name in change.fields]
    ),
    columns=(
        KeyColumn("path", shorten="wrap", least=24),
        KeyColumn("change", styles=_STYLES),
        KeyColumn("before", cell=lambda change: _data(change.before), shorten="end", least=12),
        KeyColumn("after", cell=lambda change: _data(change.after), shorten="end", least=12),
        KeyColumn("fields", shorten="end", least=10, rank=1),
    ),
)
TREE = document("tree", NamedKeys(path=str, exact=bool, znodes=Sequence[Znode]), rows="znodes")
DIFF = document(
    "diff",
    NamedKeys(path=str, from_zxid=int, to_zxid=int, exact=bool, changes=Sequence[ZnodeChange]),
    rows="changes",
)


class WrittenExport(NamedTuple):
    """The file of `audit export`, and what is in it."""

    file: Path
    written: ExportSize
    header: ExportHeader


EXPORT = document(
    "export",
    Shape(
        WrittenExport,
        *("file", "written.znodes", "written.bytes", "header.zxid_before", "header.zxid_after"),
        *("exact=header.is_exact", "header.changed", "header.unreadable"),
    ),
)


@command()
@input_options(more=False, converted=False)
@click.option(
    "--at",
    type=MOMENT,
    metavar="ZXID|TIME",
    help="After this transaction, or at this time.  [default: the last]",
)
@click.argument("path", default="/")
def tree(inputs: Inputs, at: PointInTime | None, path: str) -> None:
    """Show PATH and everything below it as it was at a moment.

    The tree is replayed from the nearest snapshot, and compared with the servers' own digests where they
    wrote some. Exit code 3 where something on the way is missing or wrong, 5 where the files begin later, or
    none can be read.

    \b
    Example:
      zkgroup audit tree --input copy/version-2 --at 2026-01-31T14:03:00Z /consumers
    """
    out, below = output(), check_path(path)
    with opened(inputs) as (source, report):
        report("replaying")
        seen = source.tree(at)
        found = _below(source, seen, below)
    last = LastTransaction.of(seen.zxid, seen.time_ms)
    if not TREE.print(out, last, path=below, exact=seen.is_exact, znodes=found):
        draw(out, found)
    if echo_gaps(seen, source):
        fail_check()


def echo_gaps(seen: SeenTree, source: Source) -> bool:
    """On stderr; whether anything is missing or wrong."""
    echo_err(f"the tree at {hex_zxid(seen.zxid)}" + (": exact" if seen.is_exact else f": {seen.detail}"))
    return seen.is_damaged or bool(source.damages())


def _below(source: Source, seen: SeenTree, below: str) -> list[Znode]:
    """Depth first. Raises NotFoundError that names the nearest parent that existed."""
    whole = outside(source.chroot, below)
    paths = seen.tree.paths(whole)
    if not paths:
        raise NotFoundError(
            f"{below}: there was no such znode at {hex_zxid(seen.zxid)}; {_nearest(seen.tree, whole)}"
        )
    znodes = (seen.tree.znode(path) for path in sorted(paths, key=lambda path: path.strip("/").split("/")))
    return [one._replace(path=inside(source.chroot, one.path)) for one in znodes if one is not None]


def outside(chroot: str, path: str) -> str:
    """A path of a client as the servers have it."""
    return (chroot + path).rstrip("/") or "/"


def inside(chroot: str, path: str) -> str:
    """A path of the servers as a client has it."""
    return path[len(chroot) :] or "/"


def _nearest(tree: Tree, path: str) -> str:
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        if path in tree:
            names = tree.children(path)
            shown = ", ".join(names[:8]) or "nothing"
            return f"{path} was there and held {shown}" + (", ..." if len(names) > 8 else "")
    return "not even / was there"


@command()
@input_options(more=False, converted=False, needs_past=True)
@click.argument("before", metavar="A", type=MOMENT)
@click.argument("after", metavar="B", type=MOMENT)
@click.argument("path", default="/")
def diff(inputs: Inputs, before: PointInTime, after: PointInTime, path: str) -> None:
    """Show what differs at and below PATH between two moments.

    A znode of which only children were created or deleted is not in the table: its children are. Where no log
    leads from A to B, as between two snapshots, both trees are compared. Exit code 3 where what is needed for
    one of them is missing or wrong, 5 where the files begin later, or none can be read.

    \b
    Example:
      zkgroup audit diff --input copy/version-2 0x100000019 0x100000042 /consumers
    """
    out, below = output(), check_path(path)
    if not inputs.paths:
        raise click.UsageError("a live ensemble has no past: name its folders with --input")
    with opened(inputs) as (source, report):
        if not isinstance(source, Folders):
            raise click.UsageError(
                "only folders of servers have two trees to compare: name them with --input"
            )
        report("replaying")
        found = source.diff(before, after, outside(source.chroot, below))
        last = source.history.last_zxid
    start, end = found.from_zxid, found.to_zxid
    changes = [_change_inside(source.chroot, change) for change in found.changes]
    if not DIFF.print(
        out,
        LastTransaction.of(min(max(start, end), last), found.time_ms),
        path=below,
        from_zxid=start,
        to_zxid=end,
        exact=found.is_exact,
        changes=changes,
    ):
        shown = [one for one in changes if not one.is_of_children_only]
        CHANGE.table(out, shown)
        differ = "1 path differs" if len(shown) == 1 else f"{len(shown)} paths differ"
        parents = len(changes) - len(shown)
        more = (
            f", and {parents} more in {'its' if parents == 1 else 'their'} children alone" if parents else ""
        )
        known = "" if found.is_exact else ", as far as the files show"
        echo_err(f"{differ} from {hex_zxid(min(start, last))} to {hex_zxid(min(end, last))}{more}{known}")
    if max(start, end) > last:
        echo_err(f"note: the files end at {hex_zxid(last)}")
    if source.damages():
        fail_check()


def _change_inside(chroot: str, change: ZnodeChange) -> ZnodeChange:
    """A change with the paths that clients of the chroot see."""

    def side(state: State | None) -> State | None:
        if state is None:
            return None
        return state._replace(znode=state.znode._replace(path=inside(chroot, state.znode.path)))

    return change._replace(
        path=inside(chroot, change.path), before=side(change.before), after=side(change.after)
    )


@command()
@input_options(more=False, converted=False)
@click.option(
    "--at",
    type=MOMENT,
    metavar="ZXID|TIME",
    help="With --input: the tree of this moment.  [default: the last]",
)
@click.option("--overwrite", is_flag=True, help="Replace OUTPUT if it exists.")
@click.option(
    "--rounds",
    type=click.IntRange(1),
    default=ROUNDS,
    show_default=True,
    metavar="N",
    help="Read what changes meanwhile again, at most N times.",
)
@click.argument("file", metavar="OUTPUT", type=click.Path(path_type=Path))
@click.pass_context
def export(
    ctx: click.Context, inputs: Inputs, at: PointInTime | None, file: Path, overwrite: bool, rounds: int
) -> None:
    """Write the whole tree into the file OUTPUT.

    Every audit command reads the file. Of a live ensemble everything is read, and a second time: what did not
    change is the tree at `zxid_before`, what did is named in `changed`. Exit code 4 where something may not
    be read. With --input it is the tree of a moment of its history; exit code 3 where something is missing or
    wrong.

    \b
    Example:
      zkgroup -z localhost:2181 audit export ensemble.zkexport
    """
    out = output()
    if inputs.paths:
        header, written, code = _of_files(inputs, at, file, overwrite=overwrite)
    elif at is not None:
        raise click.UsageError("a live ensemble has no past: --at is for --input")
    else:
        inputs.require_live()
        header, written, code = _of_live(file, rounds, overwrite=overwrite)
    detail = inconsistency_of(header)
    echo_err(f"the tree at {hex_zxid(header.zxid_before)}: {detail or 'exact'}")
    last = LastTransaction.of(header.zxid_before, header.time_ms)
    if not EXPORT.print(out, last, WrittenExport(file, written, header)):
        out.line(f"wrote {file}: {counted(written.znodes, 'znode')}, {size(written.bytes)}")
    ctx.exit(code)


Made = tuple[ExportHeader, ExportSize, int]
"""The header and the size of the export, and the exit code."""


def _of_live(file: Path, rounds: int, *, overwrite: bool) -> Made:
    with progress() as report, connected() as ensemble:
        found = walk(ensemble.zk, rounds=rounds, progress=report)
        header = found.header(ensemble.clock.wall_ms(), target(shared()).zookeeper)
        written = _write(file, header, found.znodes, report, overwrite=overwrite)
    return header, written, EXIT_PARTLY_DONE if header.unreadable else 0


def _of_files(inputs: Inputs, at: PointInTime | None, file: Path, *, overwrite: bool) -> Made:
    inputs.require_outside(file)
    with opened(inputs, in_columns=False) as (source, report):
        report("replaying")
        seen = source.tree(at)
        header = ExportHeader(
            time_ms=seen.time_ms,
            source=", ".join(map(str, inputs.paths)),
            chroot=inputs.chroot,
            zxid_before=seen.zxid,
            zxid_after=seen.zxid,
            detail=seen.detail,
        )
        written = _write(file, header, _exported_below(seen, source.chroot), report, overwrite=overwrite)
    return header, written, EXIT_CHECK_FAILED if seen.is_damaged or source.damages() else 0


def _write(
    file: Path, header: ExportHeader, znodes: Iterable[ExportedZnode], report: Progress, *, overwrite: bool
) -> ExportSize:
    return write_export(
        file, header, znodes, overwrite=overwrite, progress=lambda count: report("writing", count)
    )


def _exported_below(seen: SeenTree, chroot: str) -> Iterator[ExportedZnode]:
    """Depth first, children by name, paths as clients of the chroot see them. Raises NotFoundError."""
    paths = seen.tree.paths(outside(chroot, "/"))
    if not paths:
        raise NotFoundError(f"{chroot}: there was no such chroot at {hex_zxid(seen.zxid)}")
    for path in sorted(paths, key=lambda path: path.strip("/").split("/")):
        stored, znode = seen.tree.stored(path), seen.tree.znode(path)
        if stored is not None and znode is not None:
            yield exported(stored, znode.stat.children_count)._replace(path=inside(chroot, path))
