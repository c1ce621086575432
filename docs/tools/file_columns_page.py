"""The page of the columns of logs, snapshots and the audit's tables: type and meaning of each."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from docs.tools import markdown
from zkgroup.audit.report.tables import FINDINGS, INCIDENTS, TABLES
from zkgroup.zkfiles.arrow import LOG, OP_NAMES, SNAPSHOT, Column

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
        "A `?` behind the type of a column says that it may be null.",
        "`zkgroup.zkfiles.columns` gives both as batches, `zkgroup.zkfiles.arrow.record_batch` converts a",
        "batch to Arrow, and [Spark's tables](../audit-on-spark.md) have the same columns.",
        "`zkgroup audit report` and `audit run` write the tables of the audit as Parquet, with the types of Arrow.",
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
        ["## Tables of the audit"],
        *chain.from_iterable(_audit_table(name, columns) for name, columns in _AUDIT.items()),
        ["## Types", "", "A number is signed. Null is `None` in plain lists."],
        types,
        ["## Operations", "", "What `op` says of each `type` that stands alone or in a multi."],
        kinds,
    )


_AUDIT = {
    "`findings`, of a report; that of `audit run` has the name of the `ensemble` first": FINDINGS,
    "`incidents`, of `audit run`, behind the name of the `ensemble`": INCIDENTS,
    **{f"`{name}`, of a report": columns for name, columns in TABLES.items()},
}


def _audit_table(text: str, columns: Iterable[Column]) -> tuple[list[str], list[str]]:
    return [f"{text}:"], _table(columns)


def _table(columns: Iterable[Column]) -> list[str]:
    return markdown.items(
        (f"`{column.name}`", f"`{column.type}{'?' if column.nullable else ''}`", column.meaning)
        for column in columns
    )
