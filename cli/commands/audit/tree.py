"""`zkgroup audit tree`, `diff` and `export`: the tree as it was at a moment."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from zkgroup.admin.znodes import check_path
from zkgroup.audit.inputs.found_files import SkippedFile
from zkgroup.audit.inputs.one_tree import ROUNDS, inconsistency_of, of_walk, walk
from zkgroup.audit.inputs.source import PointInTime, Progress, SeenTree, Source
from zkgroup.errors import AuthenticationError, ConfigError, NotFoundError, StoreUnavailableError
from zkgroup.model import Znode
from zkgroup.model.text import counted, hex_zxid, iso_time, named
from zkgroup.zkfiles.exports import (
    ExportedZnode,
    ExportHeader,
    ExportSize,
    export_name,
    exported,
    next_due_ms,
    outdated,
    same_zxid,
    write_export,
)
from zkgroup.zkfiles.history import State, ZnodeChange
from zkgroup.zkfiles.tree import Tree

from ...app import EXIT_CHECK_FAILED, EXIT_PARTLY_DONE, fail_check, output, shared
from ...audit_rows import LastTransaction, document
from ...context import connected, target
from ...param_types import duration
from ...render import Output, echo_err
from ...schema import STRING, Inline, JsonEvent, JsonKey, KeyColumn, NamedKeys, Shape, list_of, text_of
from ...serving import EventLines, StopSignals
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
TREE = document(
    "tree",
    NamedKeys(path=str, exact=bool, znodes=Sequence[Znode], skipped=Sequence[SkippedFile]),
    rows="znodes",
)
DIFF = document(
    "diff",
    NamedKeys(
        path=str,
        from_zxid=int,
        to_zxid=int,
        exact=bool,
        changes=Sequence[ZnodeChange],
        unknown=Sequence[str],
        skipped=Sequence[SkippedFile],
    ),
    rows="changes",
)


class WrittenExport(NamedTuple):
    """The file of `audit export`, and what is in it."""

    file: Path
    size: ExportSize
    header: ExportHeader
    written: bool
    """False where the folder had an export of this zxid already, which is `file`."""
    removed: tuple[str, ...] = ()
    """The older exports that went, by their names."""

    @property
    def text(self) -> str:
        """For people, in one line."""
        text = f"{self.file}: {counted(self.size.znodes, 'znode')}, {size(self.size.bytes)}"
        text += "" if self.written else ", as before: nothing was written"
        return text + (f"; removed {counted(len(self.removed), 'older export')}" if self.removed else "")


EXPORT = document(
    "export",
    Shape(
        WrittenExport,
        *("file", "written", "size.znodes", "size.bytes", "header.zxid_before", "header.zxid_after"),
        *("exact=header.is_exact", "header.changed", "header.unreadable", "removed"),
    ),
)
EXPORTED = JsonEvent("exported", EXPORT.shape)


@command()
@input_options(more=False, needs_trees=True)
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
    if not TREE.print(out, last, path=below, exact=seen.is_exact, znodes=found, skipped=source.skipped):
        draw(out, found)
    if echo_gaps(seen, source):
        fail_check()


def echo_gaps(seen: SeenTree, source: Source) -> bool:
    """On stderr; whether anything is missing or wrong."""
    echo_err(f"the tree at {hex_zxid(seen.zxid)}" + (": exact" if seen.is_exact else f": {seen.detail}"))
    return seen.is_damaged or bool(source.damages())


def _below(source: Source, seen: SeenTree, below: str) -> list[Znode]:
    """Depth first. Raises NotFoundError that names the nearest parent that existed."""
    _require_chroot(seen, source.chroot)
    whole = outside(source.chroot, below)
    paths = seen.tree.paths(whole)
    if not paths:
        seen.require_known(whole, source.chroot)
        raise NotFoundError(
            f"{below}: there was no such znode at {hex_zxid(seen.zxid)}; {_nearest(seen.tree, whole)}"
        )
    znodes = (seen.tree.znode(path) for path in sorted(paths, key=lambda path: path.strip("/").split("/")))
    return [one._replace(path=inside(source.chroot, one.path)) for one in znodes if one is not None]


def _require_chroot(seen: SeenTree, chroot: str) -> Collection[str]:
    """The paths at and below it. Raises NotFoundError where there is none."""
    paths = seen.tree.paths(outside(chroot, "/"))
    if not paths:
        raise NotFoundError(f"{chroot}: there was no such chroot at {hex_zxid(seen.zxid)}")
    return paths


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
@input_options(more=False, needs_trees=True, needs_past=True)
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
        report("replaying")
        found = source.diff(before, after, outside(source.chroot, below))
    start, end, last = found.from_zxid, found.to_zxid, found.last_zxid
    changes = [_change_inside(source.chroot, change) for change in found.changes]
    if not DIFF.print(
        out,
        LastTransaction.of(min(max(start, end), last), found.time_ms),
        path=below,
        from_zxid=start,
        to_zxid=end,
        exact=found.is_exact,
        changes=changes,
        unknown=found.unknown,
        skipped=source.skipped,
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
    if found.unknown:
        echo_err(f"not known at both ends: {counted(len(found.unknown), 'path')}: {named(found.unknown)}")
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


LEAST_EVERY_MS = 1000
MOST_KEPT_MS = 100 * 365 * 86_400_000


@command()
@input_options(more=False, needs_trees=True)
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
@click.option(
    "--every",
    "every_ms",
    type=duration(LEAST_EVERY_MS),
    metavar="DURATION",
    help="Serve until Ctrl-C or SIGTERM: write one into the folder OUTPUT now, and then as often as this.",
)
@click.option(
    "--keep",
    "keep_ms",
    type=duration(LEAST_EVERY_MS, MOST_KEPT_MS),
    metavar="DURATION",
    help="Remove what this command wrote into the folder OUTPUT longer ago, but for the newest.",
)
@click.argument("place", metavar="OUTPUT", type=click.Path())
@click.pass_context
def export(
    ctx: click.Context,
    inputs: Inputs,
    at: PointInTime | None,
    place: str,
    overwrite: bool,
    rounds: int,
    every_ms: int | None,
    keep_ms: int | None,
) -> None:
    """Write the whole tree into the file or folder OUTPUT.

    Every audit command reads the file. Of a live ensemble everything is read, and a second time: what did not
    change is the tree at `zxid_before`, what did is named in `changed`. Exit code 4 where something may not
    be read. With --input it is the tree of a moment of its history; exit code 3 where something is missing or
    wrong.

    A folder is there already, or its name ends with a slash. In it the file is named by zxid and time, so
    names sort; where the folder has an export of the same zxid, none is written. With --every an ensemble
    that is away costs a line on stderr, and the next time is another try.

    \b
    Example:
      zkgroup -z localhost:2181 audit export ensemble.zkexport
      zkgroup -z localhost:2181 audit export --every 1h --keep 7d exports/
    """
    out = output()
    is_folder = every_ms is not None or place.endswith("/") or Path(place).is_dir()
    _check_options(inputs, is_folder, overwrite, every_ms, keep_ms)
    to = _ExportTo(Path(place), is_folder, overwrite, keep_ms)
    if not inputs.paths:
        if at is not None:
            raise click.UsageError("a live ensemble has no past: --at is for --input")
        inputs.require_live()
    if every_ms is not None:
        _serve(out, to, rounds, every_ms)
        return
    if inputs.paths:
        made, code = _of_files(inputs, at, to)
    else:
        made = to.pruned(_of_live(to, rounds))
        code = EXIT_PARTLY_DONE if made.header.unreadable else 0
    detail = inconsistency_of(made.header)
    echo_err(f"the tree at {hex_zxid(made.header.zxid_before)}: {detail or 'exact'}")
    if not EXPORT.print(out, LastTransaction.of(made.header.zxid_before, made.header.time_ms), made):
        out.line(f"wrote {made.text}" if made.written else made.text)
    ctx.exit(code)


def _check_options(
    inputs: Inputs, is_folder: bool, overwrite: bool, every_ms: int | None, keep_ms: int | None
) -> None:
    """Raises UsageError for options that do not go together."""
    if keep_ms is not None and not is_folder:
        raise click.UsageError("--keep is for a folder: end OUTPUT with a slash")
    if overwrite and is_folder:
        raise click.UsageError("--overwrite is for a file: in a folder each export has a name of its own")
    if inputs.paths and (every_ms or keep_ms) is not None:
        raise click.UsageError("--every and --keep are for a live ensemble: files are exported once")
    if every_ms is not None and keep_ms is not None and keep_ms < every_ms:
        raise click.UsageError("--keep is shorter than --every: no export would outlast the next one")


class _ExportTo(NamedTuple):
    """The place that an export is written to."""

    path: Path
    is_folder: bool
    overwrite: bool
    keep_ms: int | None

    def prepare(self) -> None:
        """Makes the folder, where its parent is there. Raises ConfigError where it cannot be written to."""
        if not self.is_folder:
            return
        try:
            self.path.mkdir(mode=0o750, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"{self.path}: expected a folder, or a place for one: {error.strerror}"
            ) from error
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise ConfigError(f"{self.path}: expected a folder to write to, found no right to")

    def write(self, header: ExportHeader, znodes: Iterable[ExportedZnode], report: Progress) -> WrittenExport:
        """Raises as `write_export`."""
        file = self.path
        if self.is_folder:
            known = same_zxid(self._names(), header.zxid_before)
            file /= known or export_name(header.zxid_before, header.time_ms)
            if known is not None:
                contents = ExportSize(sum(1 for _ in znodes), file.stat().st_size)
                return WrittenExport(file, contents, header, written=False)
        contents = write_export(
            file,
            header,
            znodes,
            overwrite=self.overwrite,
            progress=lambda count: report("writing", count),
        )
        return WrittenExport(file, contents, header, written=True)

    def pruned(self, made: WrittenExport) -> WrittenExport:
        """Removes what is too old at the time of this export."""
        removed = []
        if self.keep_ms is not None and made.header.time_ms is not None:
            for name in outdated(self._names(), made.header.time_ms, self.keep_ms):
                try:
                    (self.path / name).unlink(missing_ok=True)
                except OSError as error:
                    echo_err(f"note: {self.path / name}: cannot be removed: {error.strerror}")
                else:
                    removed.append(name)
        return made._replace(removed=tuple(removed))

    def _names(self) -> list[str]:
        """Of the regular files in the folder."""
        with os.scandir(self.path) as entries:
            return [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]


class _ExportLines(EventLines):
    """Prints the exports of `--every`."""

    def on_export(self, made: WrittenExport) -> None:
        self.print(EXPORTED, made, "; ".join(filter(None, [made.text, inconsistency_of(made.header)])))
        self.check()


class _Stopped(BaseException):
    """A signal came while an export was made."""


def _serve(out: Output, to: _ExportTo, rounds: int, every_ms: int) -> None:
    """Exports as often as that, until a signal. An export that it comes in the middle of leaves nothing.

    Raises what a wrong option, wrong credentials or a folder that cannot be written to raise.
    """
    from zkgroup.zookeeper.client import SystemClock

    if out.format not in ("table", "ndjson"):
        raise click.UsageError(f"--every prints events: --format table or ndjson, not {out.format}")
    clock, lines, is_working = SystemClock(), _ExportLines(out), True

    def interrupt() -> None:
        if is_working:
            raise _Stopped

    begun_ms = clock.now_ms()
    try:
        with StopSignals(interrupt) as stop:
            while not stop.received:
                try:
                    lines.on_export(to.pruned(_of_live(to, rounds, says_waiting=False)))
                except AuthenticationError:
                    raise
                except StoreUnavailableError as error:
                    now_ms = clock.now_ms()
                    wait_ms = next_due_ms(begun_ms, every_ms, now_ms) - now_ms
                    next_time = iso_time(clock.wall_ms() + wait_ms)
                    echo_err(f"error: {error}; no export was written, the next try is at {next_time}")
                is_working = False
                now_ms = clock.now_ms()
                stop.wait((next_due_ms(begun_ms, every_ms, now_ms) - now_ms) / 1000)
                is_working = True
    except _Stopped:
        pass
    echo_err("stopped")


def _of_live(to: _ExportTo, rounds: int, *, says_waiting: bool = True) -> WrittenExport:
    to.prepare()
    with progress() as report, connected(says_waiting=says_waiting) as ensemble:
        walked, znodes = walk(ensemble.zk, rounds=rounds, progress=report)
        header = of_walk(walked, ensemble.clock.wall_ms(), target(shared()).zookeeper)
        return to.write(header, znodes, report)


def _of_files(inputs: Inputs, at: PointInTime | None, to: _ExportTo) -> tuple[WrittenExport, int]:
    """Also the exit code."""
    inputs.require_outside(to.path / "export-ZXID.gz" if to.is_folder else to.path)
    to.prepare()
    with opened(inputs, in_columns=False) as (source, report):
        report("replaying")
        seen = source.tree(at)
        one = seen.snapshot
        read = None if one is None else one.header
        header = ExportHeader(
            time_ms=seen.time_ms,
            source=", ".join(map(str, inputs.paths)),
            chroot=inputs.chroot,
            zxid_before=seen.zxid,
            zxid_after=seen.zxid if read is None else max(seen.zxid, read.zxid_after),
            changed=() if one is None else tuple(sorted(one.unknown - one.unreadable)),
            unreadable=() if one is None else tuple(sorted(one.unreadable)),
            detail=seen.detail if one is None else one.detail,
        )
        made = to.write(header, _exported_below(seen, source.chroot), report)
    return made, EXIT_CHECK_FAILED if seen.is_damaged or source.damages() else 0


def _exported_below(seen: SeenTree, chroot: str) -> Iterator[ExportedZnode]:
    """Depth first, children by name, paths as clients of the chroot see them. Raises NotFoundError."""
    for path in sorted(_require_chroot(seen, chroot), key=lambda path: path.strip("/").split("/")):
        stored, znode = seen.tree.stored(path), seen.tree.znode(path)
        if stored is not None and znode is not None:
            yield exported(stored, znode.stat.children_count)._replace(path=inside(chroot, path))
