"""What the published schemas are put together from: plain JSON Schema (draft 2020-12)."""

from __future__ import annotations

from typing import Any

from zkgroup.model.stat import STAT_NAMES

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
BOOLEAN: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TIME: Schema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"}
SESSION: Schema = {"type": "string", "pattern": "^0x[0-9a-f]+$"}


def nullable(schema: Schema) -> Schema:
    """This, or null for unknown."""
    return {"anyOf": [schema, {"type": "null"}]}


def list_of(items: Schema) -> Schema:
    """A list of these."""
    return {"type": "array", "items": items}


def map_of(values: Schema) -> Schema:
    """An object whose keys are data."""
    return {"type": "object", "additionalProperties": values}


def word(*words: str) -> Schema:
    """One of these texts."""
    return {"type": "string", "enum": list(words)}


def object_of(**properties: Schema) -> Schema:
    """Every key is there, and no other."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def document(name: str, **properties: Schema) -> Schema:
    """A whole document: schema and moment, then its own keys."""
    moment = object_of(zxid=COUNT, time=TIME)
    return object_of(schema={"const": f"zkgroup.{name}/1"}, as_of=moment, **properties)


LOG_END = {"log_end_offset": nullable(COUNT), "high_watermark": nullable(COUNT), "reason": nullable(STRING)}
"""How far a replica is, or why that is not known."""

STAT = object_of(**dict.fromkeys(STAT_NAMES, INTEGER))
"""A Stat, with ZooKeeper's own names."""

ZNODE: dict[str, Schema] = {
    "path": STRING,
    "data": nullable(STRING),
    "data_base64": nullable(STRING),
    "stat": STAT,
}
"""A znode: `data` where it is text, else `data_base64`; both null where the server stores null."""

LEADERLESS: dict[str, Schema] = {
    "converged": nullable(BOOLEAN),
    "leaderless": nullable(list_of(object_of(partition=COUNT, detail=STRING))),
}
"""How a wait for leaders ended; both null where nobody waited."""
