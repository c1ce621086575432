"""The page of every JSON document and event, from the schemas that the command line publishes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zkgroup_cli.schemas import EVENTS, SCHEMAS

from docs.tools import markdown


def page() -> str:
    """`reference/json.md`."""
    intro = [
        "`--format json` prints one object with `schema` (the name of the document) and, of what was read in ZooKeeper,",
        "`as_of` (an object: `zxid`, an integer, and `time`), indented on a terminal and on one",
        "line elsewhere; `--format ndjson` prints one item or event a line. A key is never missing, unknown is `null`, times are ISO-8601 UTC with milliseconds,",
        "integers are integers. Within a version keys are only added.",
        "Characters that are not printable are JSON's escapes (`\\u001b`), so no value is lost; elsewhere they are shown as `\\x1b`.",
        "In csv a row is one line, and a text that a spreadsheet would take for a formula begins with `'`, which `offsets import` takes away; negative numbers do not.",
        "As JSON Schema (draft 2020-12) they are data: `zkgroup_cli.schemas.SCHEMAS` and `EVENTS`.",
    ]
    return markdown.page(
        "JSON",
        intro,
        ["## Documents"],
        *(_block(f"`{name}`", schema) for name, schema in SCHEMAS.items()),
        ["## Events"],
        *(_block(f"`{name}`", schema) for name, schema in EVENTS.items()),
    )


def _block(title: str, schema: Mapping[str, Any]) -> list[str]:
    return [f"### {title}", "", "```text", *_lines(schema, "", told=("schema", "as_of")), "```"]


def _lines(schema: Mapping[str, Any], indent: str, told: Sequence[str] = ()) -> Iterator[str]:
    """One line for each key but those that are told already, nested objects indented."""
    for key, value in schema["properties"].items():
        if key in told:
            continue
        optional = "" if key in schema["required"] else ", only where needed"
        yield f"{indent}{key}: {_kind(value)}{optional}"
        for inner in _objects(value):
            yield from _lines(inner, indent + "    ")


def _objects(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Objects whose keys are listed below this one; documents that have a block of their own are not."""
    if "properties" in schema:
        return [] if "schema" in schema["properties"] else [schema]
    if "items" in schema:
        return _objects(schema["items"])
    return [one for part in schema.get("anyOf", ()) for one in _objects(part)]


def _kind(schema: Mapping[str, Any]) -> str:
    if "const" in schema:
        return f'"{schema["const"]}"'
    if "enum" in schema:
        return " | ".join(schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_kind(part) for part in schema["anyOf"])
    if schema["type"] == "array":
        return f"list of {_kind(schema['items'])}"
    if schema["type"] == "object":
        return _object_kind(schema)
    return "time" if "T" in schema.get("pattern", "") else str(schema["type"])


def _object_kind(schema: Mapping[str, Any]) -> str:
    properties = schema.get("properties")
    if properties is None:
        return f"map of {_kind(schema['additionalProperties'])}"
    return f"{properties['schema']['const']}" if "schema" in properties else "object"
