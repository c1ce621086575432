"""The part of JSON Schema that the published schemas use. An unknown keyword is an error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TYPES: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "null": type(None),
    "array": list,
    "object": dict,
}
_KNOWN = {
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "pattern",
    "anyOf",
    "minimum",
}


def violations(value: Any, schema: Mapping[str, Any], where: str = "$") -> list[str]:
    """The violations of the schema in a value; empty when the value is valid."""
    unknown = set(schema) - _KNOWN
    assert not unknown, f"schema keyword not supported here: {unknown}"
    if "anyOf" in schema:
        tried = [violations(value, one, where) for one in schema["anyOf"]]
        return [] if [] in tried else min(tried, key=len)
    if "const" in schema:
        return [] if value == schema["const"] else [f"{where}: expected {schema['const']!r}, found {value!r}"]
    if not _is(value, schema["type"]):
        return [f"{where}: expected {schema['type']}, found {value!r}"]
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where}: expected one of {schema['enum']}, found {value!r}")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{where}: expected {schema['pattern']}, found {value!r}")
    if "minimum" in schema and value < schema["minimum"]:
        found.append(f"{where}: expected at least {schema['minimum']}, found {value!r}")
    if isinstance(value, list):
        for number, item in enumerate(value):
            found += violations(item, schema["items"], f"{where}[{number}]")
    if isinstance(value, dict):
        found += _object(value, schema, where)
    return found


def _is(value: Any, kind: str) -> bool:
    if kind == "integer" and isinstance(value, bool):
        return False
    return isinstance(value, _TYPES[kind])


def _object(value: Mapping[str, Any], schema: Mapping[str, Any], where: str) -> list[str]:
    properties = schema.get("properties", {})
    found = [f"{where}: {key!r} is missing" for key in schema.get("required", ()) if key not in value]
    for key, item in value.items():
        if key in properties:
            found += violations(item, properties[key], f"{where}.{key}")
        elif schema.get("additionalProperties") is False:
            found.append(f"{where}: {key!r} is not expected")
        elif isinstance(schema.get("additionalProperties"), Mapping):
            found += violations(item, schema["additionalProperties"], f"{where}.{key}")
    return found
