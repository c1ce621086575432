"""The page of every frame, from the dataclasses that are written and read."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from docs.tools import markdown
from docs.tools.znodes_page import attribute_docs
from zkgroup.wire import messages
from zkgroup.wire.messages import ErrorCode, Message, Request
from zkgroup.wire.requests import REQUESTS
from zkgroup.wire.schema import Array, Field, Node, Nullable, Record, Versions, schema_of


def page() -> str:
    """`reference/wire.md`."""
    intro = [
        "Controller and brokers use version 0 of Kafka 0.8.2.2's control requests, so either side may be Kafka;",
        "clients are answered in it too. The requests that append and fetch lines are zkgroup's own.",
        "A frame is an int32 size and so many bytes: a header, then a body, its fields in the order given here.",
        "Numbers are big-endian. A string is an int16 length and UTF-8, bytes an int32 length and the bytes,",
        "an array an int32 count and the items; a boolean is an int8, 0 or 1, and an optional value has an int8",
        "before it, 1 or -1. A frame that cannot be read to its last byte is refused, and the connection closed.",
    ]
    shown: set[type] = set()
    blocks = [block for request in _requests() for block in _api(request, shown)]
    return markdown.page("Frames", intro, *_headers(), *blocks, *_codes())


def _requests() -> list[type[Request]]:
    """In the order of their modules and files: control requests first."""
    order = ("control", "metadata", "records", "replica_host")
    return sorted(
        REQUESTS.values(),
        key=lambda kind: (order.index(kind.__module__.rpartition(".")[2]), kind.API),
    )


def _headers() -> Iterator[list[str]]:
    yield ["## Headers"]
    yield from _record(schema_of(messages.RequestHeader))
    yield from _record(schema_of(messages.ResponseHeader))


def _api(request: type[Request], shown: set[type]) -> Iterator[list[str]]:
    """The request, its response and what they are made of; what stands on the page already is not repeated."""
    name = request.__name__.removesuffix("Request")
    versions = ", ".join(str(version) for version in request.VERSIONS)
    yield [f"## {name} (API {request.API.value}, version {versions})"]
    for message in (request, request.RESPONSE):
        for record in _with_inner(message):
            if record.kind not in shown:
                shown.add(record.kind)
                yield from _record(record)


def _with_inner(message: type[Message]) -> Iterator[Record]:
    """A message's schema and those of the records in it, each before its parts."""
    waiting = [schema_of(message)]
    while waiting:
        record = waiting.pop(0)
        yield record
        waiting += [inner for field in record.fields if (inner := _inner(field.node)) is not None]


def _inner(node: Node) -> Record | None:
    match node:
        case Array(item):
            return _inner(item)
        case Nullable(record):
            return record
        case Record():
            return node
        case _:
            return None


def _record(record: Record) -> Iterator[list[str]]:
    yield [f"### {record.kind.__name__}"]
    yield inspect.cleandoc(record.kind.__doc__ or "").partition("\n\n")[0].split("\n")
    texts = attribute_docs(record.kind)
    rows = [(f"`{one.name}`", _type(one), texts.get(one.name, "")) for one in record.fields]
    yield markdown.table(["field", "type", "meaning"], rows)


def _type(field: Field) -> str:
    since = "" if field.versions == Versions() else f", from version {field.versions.first} on"
    until = "" if field.versions.last is None else f", until version {field.versions.last}"
    return _name(field.node) + since + until


def _name(node: Node) -> str:
    match node:
        case Array(item, nullable):
            return f"{'nullable ' if nullable else ''}array of {_name(item)}"
        case Nullable(record):
            return f"{_name(record)} or none"
        case Record(kind):
            return f"`{kind.__name__}`"
        case _:
            return node.name


def _codes() -> Iterator[list[str]]:
    yield ["## Error codes"]
    rows = [(str(code.value), code.name.lower().replace("_", " ")) for code in ErrorCode]
    yield markdown.table(["code", "meaning"], rows)
