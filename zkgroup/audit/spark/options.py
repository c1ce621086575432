"""The options of the data sources, and the tables of `zkfiles.arrow` as Spark's types.

The meaning of each column is its comment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from pyspark.sql import datasource, types

from zkgroup.audit.spark.session import matching
from zkgroup.errors import ConfigError
from zkgroup.zkfiles.arrow import Column, ColumnType, select

_ACL_FIELDS: Final = {"perms": types.IntegerType, "scheme": types.StringType, "id": types.StringType}
_ACL: Final = types.StructType(
    [types.StructField(name, type_(), nullable=False) for name, type_ in _ACL_FIELDS.items()]
)
_TYPES: Final[dict[ColumnType, types.DataType]] = {
    "long": types.LongType(),
    "int": types.IntegerType(),
    "string": types.StringType(),
    "binary": types.BinaryType(),
    "boolean": types.BooleanType(),
    "timestamp": types.TimestampType(),
    "acl": types.ArrayType(_ACL, containsNull=False),
}


def struct_of(columns: Iterable[Column]) -> types.StructType:
    """The type of a table with these columns."""
    return types.StructType(
        [
            types.StructField(column.name, _TYPES[column.type], column.nullable, {"comment": column.meaning})
            for column in columns
        ]
    )


def selected(
    table: tuple[Column, ...], names: Sequence[str] | None, *, data: bool = True
) -> tuple[Column, ...]:
    """The columns of a table as of `arrow.select`. Raises ConfigError for an unknown one."""
    try:
        return select(table, names, data=data)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def require_types(table: tuple[Column, ...], asked: types.StructType) -> tuple[Column, ...]:
    """The columns that a schema given by the user selects. Raises ConfigError for another type."""
    columns = selected(table, asked.fieldNames())
    for field, column in zip(asked.fields, columns, strict=True):
        expected = _TYPES[column.type]
        if field.dataType != expected:
            raise ConfigError(
                f"column {column.name}: expected {expected.simpleString()}, "
                f"found {field.dataType.simpleString()}"
            )
    return columns


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "1", "yes", "false", "0", "no"):
        raise ConfigError(f"option {name}: expected true or false, found {text!r}")
    return text.lower() in ("true", "1", "yes")


def _number(name: str, text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise ConfigError(f"option {name}: expected a number, decimal or 0x hex, found {text!r}") from None


def _count(name: str, text: str) -> int:
    count = _number(name, text)
    if count < 1:
        raise ConfigError(f"option {name}: expected at least 1, found {count}")
    return count


_PARSERS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "columns": lambda _, text: tuple(each.strip() for each in text.split(",")),
    "data": _boolean,
    "from_zxid": _number,
    "to_zxid": _number,
    "path_prefix": lambda _, text: text,
    "resync": _boolean,
    "records_per_split": _count,
}
_KNOWN: Final = ("path", "paths", *_PARSERS, "section", "zookeeper")
"""The names of options of all sources together; Spark gives them in lower case."""
_BOUNDS: Final[Mapping[type[datasource.Filter], tuple[int | None, int | None]]] = {
    datasource.EqualTo: (0, 0),
    datasource.EqualNullSafe: (0, 0),
    datasource.GreaterThan: (1, None),
    datasource.GreaterThanOrEqual: (0, None),
    datasource.LessThan: (None, -1),
    datasource.LessThanOrEqual: (None, 0),
}
"""The numbers added to the value of a filter for the first zxid and the last; None for no bound."""
_ZXIDS: Final = (("zxid",), ("snap_zxid",))
"""The columns of logs and of snapshots by which records and files are found."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a source. Zxids are decimal or 0x hex; both ends are included."""

    paths: tuple[Path, ...]
    """The files and folders, at least one."""
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
        """Reads the options. Raises ConfigError for missing, misspelt or wrong ones."""
        for name in given:
            if name.lower() not in _KNOWN:
                near = get_close_matches(name.lower(), _KNOWN, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(_KNOWN)}"
                raise ConfigError(f"{source}: there is no option {name!r}: {hint}")
        paths = _paths(given, source)
        values = {name: parse(name, given[name]) for name, parse in _PARSERS.items() if name in given}
        return cls(paths, **values)

    def narrowed(self, filters: Iterable[datasource.Filter]) -> tuple[Options, list[datasource.Filter]]:
        """The options with the filters that reading itself applies, and the filters that are left for Spark.

        Applied are bounds of the zxid, and the beginning of the path.
        """
        options, left = self, []
        for each in filters:
            narrowed = options._narrowed(each)
            if narrowed is None:
                left.append(each)
            else:
                options = narrowed
        return options, left

    def _narrowed(self, each: datasource.Filter) -> Options | None:
        if isinstance(each, datasource.StringStartsWith) and each.attribute == ("path",):
            known = self.path_prefix or ""
            if each.value.startswith(known):
                return replace(self, path_prefix=each.value)
            return self if known.startswith(each.value) else None
        if type(each) not in _BOUNDS or each.attribute not in _ZXIDS or not isinstance(each.value, int):
            return None
        first, last = _BOUNDS[type(each)]
        lows = [] if first is None else [each.value + first]
        highs = [] if last is None else [each.value + last]
        lows += [] if self.from_zxid is None else [self.from_zxid]
        highs += [] if self.to_zxid is None else [self.to_zxid]
        return replace(self, from_zxid=max(lows, default=None), to_zxid=min(highs, default=None))


def _paths(given: Mapping[str, str], source: str) -> tuple[Path, ...]:
    texts = json.loads(given["paths"]) if "paths" in given else [given.get("path", "")]
    if not all(texts) or not texts:
        raise ConfigError(f"{source}: expected a file or folder, as load(path) or option path")
    found: list[Path] = []
    for text in texts:
        matched = matching(Path(re.sub("^file:/+", "/", text)))
        if not matched:
            raise ConfigError(f"{source}: no file or folder matches {text}")
        found += matched
    return tuple(found)
