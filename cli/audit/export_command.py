"""`zkgroup audit export`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from zkgroup.audit.live import ROUNDS, walk
from zkgroup.audit.sources import Moment, SeenTree, told_of
from zkgroup.errors import NotFoundError
from zkgroup.zkfiles.exports import ExportedZnode, ExportHeader, Written, exported, write_export
from zkgroup.zookeeper.address import Address

from ..connection import connected, target
from ..frame import output, shared
from ..output import say
from ..units import counted, size
from .common import EXIT_CHECK_FAILED, document, hex_zxid
from .inputs import Inputs, command, input_options, opened
from .moments import MOMENT
from .progress import Progress, progress
from .tree_command import inside, outside

EXIT_PARTLY_DONE = 4


@command()
@input_options(more=False, converted=False)
@click.option(
    "--at",
    type=MOMENT,
    metavar="ZXID|TIME",
    help="With --input: the tree of this moment.  [default: the last]",
)
@click.option("--overwrite", is_flag=True, help="Also where OUTPUT is there already.")
@click.option(
    "--rounds",
    type=click.IntRange(1),
    default=ROUNDS,
    show_default=True,
    metavar="N",
    help="So often what changes meanwhile is read again, at most.",
)
@click.argument("file", metavar="OUTPUT", type=click.Path(path_type=Path))
@click.pass_context
def export(
    ctx: click.Context, inputs: Inputs, at: Moment | None, file: Path, overwrite: bool, rounds: int
) -> None:
    """Write the whole tree into OUTPUT, a file of its own that every command here reads.

    Of a living ensemble everything is read, and looked at a second time: what stood still is the tree at
    `zxid_before`, what did not is named in `changed`. Exit code 4 where something may not be read. With
    --input it is the tree of a moment of its history; exit code 3 where something is missing or wrong.
    """
    out = output()
    if inputs.paths:
        header, written, code = _of_files(inputs, at, file, overwrite=overwrite)
    elif at is not None:
        raise click.UsageError("a living ensemble has no past: --at is for --input")
    else:
        inputs.require_living()
        header, written, code = _of_living(file, rounds, overwrite=overwrite)
    detail = header.detail or told_of(header.changed, header.unreadable, header.zxid_after)
    say(f"the tree at {hex_zxid(header.zxid_before)}: {detail or 'exact'}")
    fields = document(
        "audit_export",
        header.zxid_before,
        header.time_ms,
        file=str(file),
        znodes=written.znodes,
        bytes=written.bytes,
        zxid_before=header.zxid_before,
        zxid_after=header.zxid_after,
        exact=header.is_exact,
        changed=list(header.changed),
        unreadable=list(header.unreadable),
    )
    if not out.document(fields):
        out.line(f"wrote {file}: {counted(written.znodes, 'znode')}, {size(written.bytes)}")
    ctx.exit(code)


Made = tuple[ExportHeader, Written, int]
"""What was written, and the exit code."""


def _of_living(file: Path, rounds: int, *, overwrite: bool) -> Made:
    with progress() as tell, connected() as ensemble:
        found = walk(ensemble.zk, rounds=rounds, progress=tell)
        address = Address.parse(target(shared()).zookeeper)
        header = ExportHeader(
            time_ms=ensemble.clock.wall_ms(),
            source=address.servers,
            chroot=address.chroot,
            zxid_before=found.zxid_before,
            zxid_after=found.zxid_after,
            changed=found.changed,
            unreadable=found.unreadable,
        )
        written = _write(file, header, found.znodes, tell, overwrite=overwrite)
    return header, written, EXIT_PARTLY_DONE if header.unreadable else 0


def _of_files(inputs: Inputs, at: Moment | None, file: Path, *, overwrite: bool) -> Made:
    inputs.require_outside(file)
    with opened(inputs) as (source, tell):
        tell("replaying")
        seen = source.tree(at)
        header = ExportHeader(
            time_ms=seen.time_ms,
            source=", ".join(map(str, inputs.paths)),
            chroot=inputs.chroot,
            zxid_before=seen.zxid,
            zxid_after=seen.zxid,
            detail=seen.detail,
        )
        written = _write(file, header, _below(seen, source.chroot), tell, overwrite=overwrite)
    return header, written, EXIT_CHECK_FAILED if seen.is_damaged or source.damages() else 0


def _write(
    file: Path, header: ExportHeader, znodes: Iterable[ExportedZnode], tell: Progress, *, overwrite: bool
) -> Written:
    return write_export(
        file, header, znodes, overwrite=overwrite, progress=lambda count: tell("writing", count)
    )


def _below(seen: SeenTree, chroot: str) -> Iterator[ExportedZnode]:
    """Depth first, children by name, paths as clients of the chroot see them. Raises NotFoundError."""
    paths = seen.tree.paths(outside(chroot, "/"))
    if not paths:
        raise NotFoundError(f"{chroot}: there was no such chroot at {hex_zxid(seen.zxid)}")
    for path in sorted(paths, key=lambda path: path.strip("/").split("/")):
        stored, znode = seen.tree.stored(path), seen.tree.znode(path)
        if stored is not None and znode is not None:
            yield exported(stored, znode.stat.children_count)._replace(path=inside(chroot, path))
