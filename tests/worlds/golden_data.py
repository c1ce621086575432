"""Reads the recordings in `tests/golden`, which `tests/golden/README.md` describes."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.project import ROOT

FOLDER = ROOT / "tests" / "golden"


class Recorded(NamedTuple):
    """One znode of a recorded tree."""

    file: str
    path: str
    data: bytes | None
    stat: dict[str, int]


def lines(name: str) -> list[dict[str, Any]]:
    """The records of one file, given relative to the folder."""
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").split("\n") if line]


def data_of(record: dict[str, Any]) -> bytes | None:
    """The bytes of a record, null kept apart from empty."""
    if "data64" in record:
        return base64.b64decode(record["data64"])
    return None if record["data"] is None else str(record["data"]).encode()


def trees(folder: str) -> Iterator[Recorded]:
    """Every znode of every recorded tree of a folder (those whose names start with a number or m)."""
    for file in sorted((FOLDER / folder).glob("[0-9m]*.jsonl")):
        if file.name.endswith("writes.jsonl"):
            continue
        name = f"{folder}/{file.name}"
        for record in lines(name):
            yield Recorded(name, record["path"], data_of(record), record["stat"])


class Written(NamedTuple):
    """One create or set of a recorded run."""

    file: str
    zxid: int
    op: str
    path: str
    data: bytes | None


def writes(folder: str) -> Iterator[Written]:
    """Every create and set of a folder's runs in order, those inside of transactions too."""
    for file in sorted((FOLDER / folder).glob("*writes.jsonl")):
        name = f"{folder}/{file.name}"
        for record in lines(name):
            for op in record.get("ops", [record]):
                if op["op"] in ("create", "create2", "set"):
                    yield Written(name, record["zxid"], op["op"], op["path"], data_of(op))


class Frame(NamedTuple):
    """One recorded request or response."""

    file: str
    number: int
    """Of its record in the file."""
    direction: str
    api: int
    version: int
    correlation_id: int
    client_id: str | None
    data: bytes
    """The whole frame, its size included."""
    broker: int | None = None
    """The broker that received the request and sent the response, where the recording names it."""


def frames(folder: str) -> Iterator[Frame]:
    """Every frame recorded in the files of a folder; a response has api and version of its request."""
    for file in sorted((FOLDER / folder).glob("*.jsonl")):
        name = f"{folder}/{file.name}"
        for record in lines(name):
            direction = record.get("direction") or record["dir"]
            if direction in ("request", "response"):
                yield Frame(
                    file=name,
                    number=record["seq"],
                    direction=direction,
                    api=record["key"],
                    version=record["version"],
                    correlation_id=record["correlation"] if "correlation" in record else record["corr"],
                    client_id=record.get("client_id", record.get("client")),
                    data=bytes.fromhex(record["hex"]),
                    broker=record.get("broker"),
                )


def packed_frames(name: str) -> list[Frame]:
    """The frames of one gzipped file, given relative to the folder; `file` is the recording each is from."""
    found = []
    for line in gzip.decompress((FOLDER / name).read_bytes()).splitlines():
        record = json.loads(line)
        found.append(
            Frame(
                file=record["file"],
                number=record["seq"],
                direction=record["dir"],
                api=record["key"],
                version=record["version"],
                correlation_id=record["corr"],
                client_id=record["client"],
                data=bytes.fromhex(record["hex"]),
            )
        )
    return found
