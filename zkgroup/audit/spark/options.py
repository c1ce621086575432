"""The options of the data sources, and the tables of `zkfiles.schemas` as Spark's types.

The meaning of each column is its comment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from zkgroup.errors import ConfigError
from zkgroup.zkfiles.schemas import Column, ColumnType, select

ACL: Final = ArrayType(
    StructType(
        [
            StructField("perms", IntegerType(), nullable=False),
            StructField("scheme", StringType(), nullable=False),
            StructField("id", StringType(), nullable=False),
        ]
    ),
    containsNull=False,
)
_TYPES: Final[dict[ColumnType, DataType]] = {
    "long": LongType(),
    "int": IntegerType(),
    "string": StringType(),
    "binary": BinaryType(),
    "boolean": BooleanType(),
    "timestamp": TimestampType(),
    "acl": ACL,
}


def struct_of(columns: Iterable[Column]) -> StructType:
    """The type of a table with these columns."""
    return StructType(
        [
            StructField(column.name, _TYPES[column.type], column.nullable, {"comment": column.meaning})
            for column in columns
        ]
    )


def columns_of(table: tuple[Column, ...], wanted: Sequence[str]) -> tuple[Column, ...]:
    """The columns of a table by name, in this order. Raises ConfigError for one that there is not."""
    try:
        return select(table, wanted)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def require_types(table: tuple[Column, ...], asked: StructType) -> tuple[Column, ...]:
    """The columns that a schema given by the user selects. Raises ConfigError for another type."""
    columns = columns_of(table, asked.fieldNames())
    for field, column in zip(asked.fields, columns, strict=True):
        expected = _TYPES[column.type]
        if field.dataType != expected:
            raise ConfigError(
                f"column {column.name}: expected {expected.simpleString()}, "
                f"found {field.dataType.simpleString()}"
            )
    return columns


KNOWN: Final = (
    *("path", "paths", "columns", "data", "from_zxid", "to_zxid", "path_prefix", "resync"),
    *("records_per_split", "section", "zookeeper"),
)
"""Names of options, of all sources together; Spark gives them in small letters."""
_TRUE: Final = ("true", "1", "yes")
_FALSE: Final = ("false", "0", "no")


@dataclass(frozen=True, slots=True)
class Options:
    """Holds what was asked for. Numbers of zxids are decimal or 0x hex; both ends are included."""

    paths: tuple[Path, ...]
    """Files and folders, at least one."""
    columns: tuple[str, ...] | None = None
    data: bool = True
    from_zxid: int | None = None
    to_zxid: int | None = None
    path_prefix: str | None = None
    resync: bool = False
    """True if reading goes on behind damage, where it can."""
    records_per_split: int | None = None
    """Logs with more records than that are read in several partitions; None for one partition a file."""

    @classmethod
    def of(cls, given: Mapping[str, str], source: str) -> Options:
        """Raises ConfigError for what is missing or no value of its kind."""
        require_known(given, source)
        paths = _paths(given, source)
        names = given.get("columns")
        split = _number(given, "records_per_split")
        if split is not None and split < 1:
            raise ConfigError(f"option records_per_split: expected at least 1, found {split}")
        return cls(
            paths=paths,
            columns=None if names is None else tuple(each.strip() for each in names.split(",")),
            data=boolean(given, "data", default=True),
            from_zxid=_number(given, "from_zxid"),
            to_zxid=_number(given, "to_zxid"),
            path_prefix=given.get("path_prefix"),
            resync=boolean(given, "resync", default=False),
            records_per_split=split,
        )

    def selected(self, table: tuple[Column, ...]) -> tuple[Column, ...]:
        """The columns of a table. Raises ConfigError for one that there is not."""
        try:
            return select(table, self.columns, data=self.data)
        except ValueError as error:
            raise ConfigError(str(error)) from error

    def narrowed(self, filters: Iterable[Filter], zxid_column: str) -> tuple[Options, list[Filter]]:
        """With the filters that reading itself can obey, and those that are left for Spark.

        Obeyed: bounds of the zxid, and the beginning of the path.
        """
        options, left = self, []
        for each in filters:
            narrowed = _narrowed(options, each, zxid_column)
            if narrowed is None:
                left.append(each)
            else:
                options = narrowed
        return options, left


def _narrowed(options: Options, each: Filter, zxid_column: str) -> Options | None:
    if isinstance(each, StringStartsWith) and each.attribute == ("path",):
        return _below(options, each.value)
    if not isinstance(
        each, EqualTo | EqualNullSafe | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual
    ) or each.attribute != (zxid_column,):
        return None
    if not isinstance(each.value, int):
        return None
    low, high = options.from_zxid, options.to_zxid
    match each:
        case EqualTo() | EqualNullSafe():
            low, high = _largest(low, each.value), _smallest(high, each.value)
        case GreaterThan():
            low = _largest(low, each.value + 1)
        case GreaterThanOrEqual():
            low = _largest(low, each.value)
        case LessThan():
            high = _smallest(high, each.value - 1)
        case _:
            high = _smallest(high, each.value)
    return replace(options, from_zxid=low, to_zxid=high)


def _below(options: Options, prefix: str) -> Options | None:
    known = options.path_prefix or ""
    if prefix.startswith(known):
        return replace(options, path_prefix=prefix)
    return options if known.startswith(prefix) else None


def _largest(known: int | None, value: int) -> int:
    return value if known is None else max(known, value)


def _smallest(known: int | None, value: int) -> int:
    return value if known is None else min(known, value)


def boolean(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    """An option that is true or false. Raises ConfigError for anything else."""
    text = given.get(name)
    if text is None:
        return default
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ConfigError(f"option {name}: expected true or false, found {text!r}")


def _number(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    try:
        return int(text, 0)
    except ValueError:
        raise ConfigError(f"option {name}: expected a number, decimal or 0x hex, found {text!r}") from None


def require_known(given: Mapping[str, str], source: str) -> None:
    """Raises ConfigError for a misspelt option, with the name that was meant."""
    for name in given:
        if name.lower() not in KNOWN:
            near = get_close_matches(name.lower(), KNOWN, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(KNOWN)}"
            raise ConfigError(f"{source}: there is no option {name!r}: {hint}")


def _paths(given: Mapping[str, str], source: str) -> tuple[Path, ...]:
    """Returns what load(...) named: one path or several, with globs, and as `file:` URIs."""
    texts = json.loads(given["paths"]) if "paths" in given else [given.get("path", "")]
    if not all(texts) or not texts:
        raise ConfigError(f"{source}: expected a file or folder, as load(path) or option path")
    found: list[Path] = []
    for text in texts:
        plain = re.sub("^file:/+", "/", text)
        # A name with these characters stands for itself where there is such a file.
        is_glob = any(character in plain for character in "*?[") and not Path(plain).exists()
        root = Path(Path(plain).anchor or ".")
        matched = sorted(root.glob(plain.removeprefix(root.anchor))) if is_glob else [Path(plain)]
        if not matched:
            raise ConfigError(f"{source}: no file or folder matches {text}")
        found += matched
    return tuple(found)
