"""The tables of `zkfiles.schemas` as Spark's types, with the meaning of each column as its comment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

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
