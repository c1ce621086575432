"""`zkgroup znode`: get, ls, tree. Read-only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import click

from zkgroup.admin import znodes as admin
from zkgroup.model import Znode, ZnodeStat
from zkgroup.model.requests import STAT_NAMES
from zkgroup.model.text import escaped, hex_session, iso_time

from ..app import group as make_group
from ..app import output
from ..context import connected
from ..render import Output, shorten
from ..schema import (
    INTEGER,
    STRING,
    Document,
    Json,
    JsonKey,
    NamedKeys,
    Shape,
    base64_of,
    nullable,
    object_of,
    text_of,
)

znode = make_group(
    "znode",
    help="""Read znodes. Nothing here writes.

    \b
    Example:
      zkgroup znode tree /consumers/billing""",
)

_DATA_SHOWN = 200
_LINE = 100
"""Longer JSON is spread over lines."""


def stat(values: ZnodeStat) -> Json:
    """A Stat with ZooKeeper's own names."""
    return dict(zip(STAT_NAMES, values, strict=True))


class ZnodeChild(NamedTuple):
    """A row of `znode ls`."""

    name: str
    path: str


ZNODE = Shape(
    Znode,
    "path",
    JsonKey("data", nullable(STRING), lambda one: text_of(one.data)),
    JsonKey("data_base64", nullable(STRING), lambda one: base64_of(one.data)),
    JsonKey("stat", object_of(**dict.fromkeys(STAT_NAMES, INTEGER)), lambda one: stat(one.stat)),
)
ZNODE_CHILD = Shape(ZnodeChild)
ZNODE_DOCUMENT = Document("znode", ZNODE, columns=ZNODE.keys)
ZNODE_LIST = Document("znode_list", NamedKeys(path=str, children=Sequence[ZnodeChild]), rows="children")
ZNODES = Document("znodes", NamedKeys(path=str, znodes=Sequence[Znode]), rows="znodes")


@znode.command()
@click.argument("path")
def get(path: str) -> None:
    """Show data and Stat of the znode PATH.

    \b
    Example:
      zkgroup znode get /brokers/topics/orders
    """
    out = output()
    with connected() as ensemble:
        found = admin.get(ensemble, path)
        as_of = ensemble.as_of()
    if not ZNODE_DOCUMENT.print(out, as_of, found):
        _show(out, found)


@znode.command()
@click.argument("path", default="/")
def ls(path: str) -> None:
    """List the children of PATH.

    \b
    Example:
      zkgroup znode ls /consumers
    """
    out = output()
    with connected() as ensemble:
        names = admin.children(ensemble, path)
        as_of = ensemble.as_of()
    rows = [ZnodeChild(name, admin.join(path, name)) for name in names]
    if not ZNODE_LIST.print(out, as_of, path=path, children=rows):
        for name in names:
            out.line(name)


@znode.command()
@click.argument("path", default="/")
@click.option("--depth", type=click.IntRange(0), metavar="N", help="Levels below PATH.  [default: all]")
def tree(path: str, depth: int | None) -> None:
    """Show PATH and everything below it, with data.

    \b
    Example:
      zkgroup znode tree /consumers/billing
    """
    out = output()
    with connected() as ensemble:
        found = admin.tree(ensemble, path, depth)
        as_of = ensemble.as_of()
    if not ZNODES.print(out, as_of, path=found[0].path, znodes=found):
        draw(out, found)


def _show(out: Output, found: Znode) -> None:
    fields = stat(found.stat)
    out.line(out.paint(found.path, "bold"))
    for line in _pretty(found.data).split("\n"):
        out.line(line)
    out.line()
    for name, value in fields.items():
        extra = ""
        if name in ("ctime", "mtime"):
            extra = f"  {iso_time(value)}"
        elif name.endswith("zxid"):
            extra = f"  0x{value:x}"
        elif name == "ephemeralOwner":
            extra = f"  session {hex_session(value)}" if value else "  persistent"
        out.line(f"{out.paint(f'{name:<16}', 'dim')}{value}{out.paint(extra, 'dim')}")


def _pretty(data: bytes | None) -> str:
    if data is None:
        return "null"
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return f"{len(data)} bytes that are not UTF-8: {data.hex(' ')}"
    try:
        parsed = json.loads(text)
        is_long = isinstance(parsed, dict) and len(text) > _LINE
        return json.dumps(parsed, ensure_ascii=False, indent=2) if is_long else text
    except (ValueError, RecursionError):  # no JSON, or beyond Python's limits of nesting and digits
        return text.replace("\n", "\n  ") or '"" (empty)'  # no line looks like one of ours


def draw(out: Output, found: Sequence[Znode]) -> None:
    """The tree with lines, a name and the data each, cut to the width.

    Depth first, the first one is above all others.
    """
    top = found[0].path
    last_of: dict[str, str] = {}
    for one in found[1:]:
        last_of[one.path.rpartition("/")[0] or "/"] = one.path
    for one in found:
        below = one.path.removeprefix(top).strip("/") if one.path != top else ""
        steps = below.split("/") if below else []
        lead = ""
        path = top
        for number, step in enumerate(steps):
            child = admin.join(path, step)
            is_last = last_of[path] == child
            if number == len(steps) - 1:
                lead += "└─ " if is_last else "├─ "
            else:
                lead += "   " if is_last else "│  "
            path = child
        name = steps[-1] if steps else top
        out.line(_labelled(out, lead, name, one))


def _labelled(out: Output, lead: str, name: str, one: Znode) -> str:
    data = _inline(one.data)
    mark = f"  ephemeral {hex_session(one.stat.ephemeral_owner)}" if one.stat.ephemeral_owner else ""
    room = (out.width or _DATA_SHOWN + 80) - len(lead) - len(name) - len(mark) - 2
    shown = f"  {shorten(data, min(room, _DATA_SHOWN), 'end')}" if data and room > 3 else ""
    return f"{out.paint(lead, 'dim')}{out.paint(name, 'name')}{shown}{out.paint(mark, 'warn')}".rstrip()


def _inline(data: bytes | None) -> str:
    if not data:
        return ""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return f"({len(data)} bytes that are not UTF-8)"
    return escaped(text)
