"""`zkgroup audit tree`."""

from __future__ import annotations

import click

from zkgroup.admin.znodes import check_path
from zkgroup.audit.sources import Moment, SeenTree, Source
from zkgroup.errors import NotFoundError
from zkgroup.model import Znode
from zkgroup.zkfiles.tree import Tree

from .. import documents
from ..frame import output
from ..output import say
from ..znode_commands import draw
from .common import EXIT_CHECK_FAILED, document, hex_zxid
from .inputs import Inputs, command, input_options, opened
from .moments import MOMENT

_KEYS = ("path", "data", "data_base64", "stat")


@command()
@input_options(more=False, converted=False)
@click.option(
    "--at",
    type=MOMENT,
    metavar="ZXID|TIME",
    help="After this transaction, or at this time.  [default: the last]",
)
@click.argument("path", default="/")
@click.pass_context
def tree(ctx: click.Context, inputs: Inputs, at: Moment | None, path: str) -> None:
    """Show PATH and everything below it as it was at a moment, with data.

    It is replayed from the nearest snapshot, and compared with the servers' own digests where they wrote
    some. Exit code 3 where something on the way is missing or wrong, 5 where the files begin later.
    """
    out, below = output(), check_path(path)
    with opened(inputs) as (source, tell):
        tell("replaying")
        seen = source.tree(at)
        found = _below(source, seen, below)
    znodes = [documents.znode(one) for one in found]
    fields = document("audit_tree", seen.zxid, seen.time_ms, path=below, exact=seen.is_exact, znodes=znodes)
    if not out.document(fields, "znodes", _KEYS):
        draw(out, found)
    if tell_how_good(seen, source):
        ctx.exit(EXIT_CHECK_FAILED)


def tell_how_good(seen: SeenTree, source: Source) -> bool:
    """On stderr; whether anything is missing or wrong."""
    say(f"the tree at {hex_zxid(seen.zxid)}" + (": exact" if seen.is_exact else f": {seen.detail}"))
    return seen.is_damaged or bool(source.damages())


def _below(source: Source, seen: SeenTree, below: str) -> list[Znode]:
    """Depth first; raises NotFoundError, naming the nearest parent that was there."""
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
    """The other way round."""
    return path[len(chroot) :] or "/"


def _nearest(tree: Tree, path: str) -> str:
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        if path in tree:
            names = tree.children(path)
            shown = ", ".join(names[:8]) or "nothing"
            return f"{path} was there and held {shown}" + (", ..." if len(names) > 8 else "")
    return "not even / was there"
