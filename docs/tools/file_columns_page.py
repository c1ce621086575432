"""The page of the columns that logs and snapshots are read into: type and meaning of each."""

from __future__ import annotations

from collections.abc import Iterable

from docs.tools import markdown
from zkgroup.zkfiles.schemas import LOG, OP_NAMES, SNAPSHOT, Column

TYPES = {
    "long": ("int", "int64", "bigint"),
    "int": ("int", "int32", "int"),
    "string": ("str", "string", "string"),
    "binary": ("bytes", "binary", "binary"),
    "boolean": ("bool", "bool", "boolean"),
    "timestamp": ("int, milliseconds since 1970", "timestamp[us, UTC]", "timestamp"),
    "acl": (
        "tuple of AclEntry",
        "list of structures: perms (int32), scheme, id (string)",
        "array of structures",
    ),
}
"""What each is in plain lists, in Arrow and in Spark."""


def page() -> str:
    """`reference/file-columns.md`."""
    intro = [
        "One row of a log is one operation of a transaction: a multi has one for each of its operations.",
        "One row of a snapshot is one znode, a parent before its children.",
        "`zkgroup.zkfiles.columns` gives both as batches, `zkgroup.zkfiles.arrow.record_batch` converts a",
        "batch to Arrow, and [Spark's tables](../audit-on-spark.md) have the same columns.",
    ]
    types = markdown.table(
        ["type", "in plain lists", "in Arrow", "in Spark"],
        ([f"`{name}`", *words] for name, words in TYPES.items()),
    )
    kinds = markdown.table(
        ["type", "op"],
        ([str(int(number)), f"`{name}`"] for number, name in sorted(OP_NAMES.items())),
    )
    return markdown.page(
        "Columns of files",
        intro,
        ["## Logs"],
        _table(LOG),
        ["## Snapshots"],
        _table(SNAPSHOT),
        ["## Types", "", "A number is signed. Null is `None` in plain lists."],
        types,
        ["## Operations", "", "What `op` says of each `type` that stands alone or in a multi."],
        kinds,
    )


def _table(columns: Iterable[Column]) -> list[str]:
    return markdown.table(
        ["column", "type", "null", "meaning"],
        (
            [f"`{column.name}`", f"`{column.type}`", "may be" if column.nullable else "never", column.meaning]
            for column in columns
        ),
    )
