"""The JSON of one znode, for the commands that read znodes and for the audit; its import takes little."""

from __future__ import annotations

import base64

from zkgroup.model import Znode, ZnodeStat
from zkgroup.model.requests import STAT_NAMES

from .schema import INTEGER, STRING, Json, JsonKey, Shape, nullable, object_of

_STAT = object_of(**dict.fromkeys(STAT_NAMES, INTEGER))
ZNODE = Shape(
    Znode,
    "path",
    JsonKey("data", nullable(STRING), lambda one: text_of(one.data)),
    JsonKey("data_base64", nullable(STRING), lambda one: base64_of(one.data)),
    JsonKey("stat", _STAT, lambda one: stat(one.stat)),
)


def text_of(data: bytes | None) -> str | None:
    """Bytes as text; None for None and where they are not UTF-8."""
    try:
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def base64_of(data: bytes | None) -> str | None:
    """Bytes that are not UTF-8 as base64; None for all others, which `text_of` gives."""
    return None if data is None or text_of(data) is not None else base64.b64encode(data).decode("ascii")


def stat(values: ZnodeStat) -> Json:
    """A Stat with ZooKeeper's own names."""
    return dict(zip(STAT_NAMES, values, strict=True))
