"""`zkgroup audit diff`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from zkgroup.admin.znodes import check_path
from zkgroup.audit.sources import Folders, Moment
from zkgroup.model import Znode
from zkgroup.zkfiles.diffs import ZnodeChange

from .. import documents
from ..documents import Json
from ..frame import output
from ..output import Output, say
from ..tables import Cell, Column
from .common import EXIT_CHECK_FAILED, document, hex_zxid
from .inputs import Inputs, command, input_options, opened
from .moments import MOMENT
from .tree_command import inside, outside

_KEYS = ("path", "change", "before", "after", "fields")
_STYLES = {"added": "good", "removed": "bad", "changed": "warn"}
_JSON_NAMES = {
    "ephemeral_owner": "ephemeralOwner",
    "data_length": "dataLength",
    "children_count": "numChildren",
}


@command()
@input_options(more=False, converted=False)
@click.argument("before", metavar="A", type=MOMENT)
@click.argument("after", metavar="B", type=MOMENT)
@click.argument("path", default="/")
@click.pass_context
def diff(ctx: click.Context, inputs: Inputs, before: Moment, after: Moment, path: str) -> None:
    """Show what differs at and below PATH between two moments A and B.

    A znode of which only children came or went is in no table, for the children are.
    """
    out, below = output(), check_path(path)
    if not inputs.paths:
        raise click.UsageError("a living ensemble has no past: name its folders with --input")
    with opened(inputs) as (source, tell):
        if not isinstance(source, Folders):
            raise click.UsageError(
                "only folders of servers have two trees to compare: name them with --input"
            )
        tell("replaying")
        found = source.diff(before, after, outside(source.chroot, below))
        last = source.history.last_zxid
    start, end = found.from_zxid, found.to_zxid
    changes = [change._replace(path=inside(source.chroot, change.path)) for change in found.changes]
    rows = [_fields(change, source.chroot) for change in changes]
    fields = document(
        "audit_diff",
        min(max(start, end), last),
        found.time_ms,
        path=below,
        from_zxid=start,
        to_zxid=end,
        exact=found.is_exact,
        changes=rows,
    )
    if not out.document(fields, "changes", _KEYS):
        _show(out, changes)
        differ = "1 path differs" if len(changes) == 1 else f"{len(changes)} paths differ"
        say(f"{differ} from {hex_zxid(start)} to {hex_zxid(end)}")
    if max(start, end) > last:
        say(f"note: the files end at {hex_zxid(last)}")
    if source.damages():
        ctx.exit(EXIT_CHECK_FAILED)


def _fields(change: ZnodeChange, chroot: str) -> Json:
    def side(znode: Znode | None) -> Json | None:
        return None if znode is None else documents.znode(znode._replace(path=inside(chroot, znode.path)))

    return {
        "path": change.path,
        "change": change.change,
        "before": side(change.before and change.before.znode),
        "after": side(change.after and change.after.znode),
        "fields": [_JSON_NAMES.get(name, name) for name in change.fields],
    }


def _show(out: Output, changes: Sequence[ZnodeChange]) -> None:
    columns = [
        Column(header="PATH", shorten="middle", least=24),
        Column(header="CHANGE"),
        Column(header="BEFORE", shorten="end", least=12),
        Column(header="AFTER", shorten="end", least=12),
        Column(header="FIELDS", shorten="end", least=10, rank=1),
    ]
    rows = [
        [
            change.path,
            Cell(change.change, _STYLES[change.change]),
            _shown(change.before and change.before.znode),
            _shown(change.after and change.after.znode),
            ", ".join(_JSON_NAMES.get(name, name) for name in change.fields),
        ]
        for change in changes
        if not change.is_of_children_only
    ]
    out.table(columns, rows)


def _shown(znode: Znode | None) -> str | None:
    if znode is None:
        return None
    if znode.data is None:
        return "null"
    return documents.znode(znode)["data"] or (f"{len(znode.data)} bytes" if znode.data else "(empty)")
