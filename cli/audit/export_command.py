"""`zkgroup audit export`."""

from __future__ import annotations

from pathlib import Path

import click

from zkgroup.audit.live import ROUNDS, LiveTree, walk
from zkgroup.zkfiles.exports import ExportHeader, Written, write_export
from zkgroup.zookeeper.address import Address

from ..connection import connected, target
from ..frame import command, output, shared
from ..output import say
from ..units import counted, size
from .common import document, hex_zxid
from .progress import progress

EXIT_PARTLY_DONE = 4
_SHOWN = 5


@command()
@click.argument("file", metavar="OUTPUT", type=click.Path(path_type=Path))
@click.option("--overwrite", is_flag=True, help="Also where OUTPUT is there already.")
@click.option(
    "--rounds",
    type=click.IntRange(1),
    default=ROUNDS,
    show_default=True,
    metavar="N",
    help="So often what changes meanwhile is read again, at most.",
)
@click.pass_context
def export(ctx: click.Context, file: Path, overwrite: bool, rounds: int) -> None:
    """Write the whole tree into OUTPUT, a file of its own that every command here reads.

    Of a living ensemble everything is read, and looked at a second time: what stood still is the tree at
    `zxid_before`, what did not is named in `changed`. Exit code 4 where something may not be read.
    """
    out = output()
    with progress() as tell, connected() as ensemble:
        tree = walk(ensemble.zk, rounds=rounds, progress=tell)
        header = _header(tree, ensemble.clock.wall_ms())
        written = write_export(
            file,
            header,
            tree.znodes,
            overwrite=overwrite,
            progress=lambda count: tell("writing", count),
        )
    _say(file, header, written)
    fields = document(
        "audit_export",
        header.zxid_before,
        header.made_at_ms,
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
    if header.unreadable:
        ctx.exit(EXIT_PARTLY_DONE)


def _header(tree: LiveTree, now_ms: int) -> ExportHeader:
    address = Address.parse(target(shared()).zookeeper)
    return ExportHeader(
        made_at_ms=now_ms,
        source=address.servers,
        chroot=address.chroot,
        zxid_before=tree.zxid_before,
        zxid_after=tree.zxid_after,
        changed=tree.changed,
        unreadable=tree.unreadable,
    )


def _say(file: Path, header: ExportHeader, written: Written) -> None:
    """How far it is one moment's picture."""
    moment = hex_zxid(header.zxid_before)
    if not header.changed:
        say(f"it is the tree at {moment}")
    else:
        say(
            f"it is the tree at {moment} but for {counted(len(header.changed), 'path')} that changed while "
            f"it was read, up to {hex_zxid(header.zxid_after)}: {_few(header.changed)}"
        )
    if header.unreadable:
        say(f"left out, with all below: {_few(header.unreadable)}; their ACL does not let us read them")


def _few(paths: tuple[str, ...]) -> str:
    shown = ", ".join(paths[:_SHOWN])
    return shown + (f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else "")
