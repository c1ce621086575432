"""`/controller` and `/controller_epoch`: who rules the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from zkgroup.errors import CorruptZnodeError
from zkgroup.znodes.json_object import (
    INT32,
    INT64,
    decimal,
    integer_of,
    read_object,
    read_text,
    show,
    write_object,
)


@dataclass(frozen=True, slots=True)
class Controller:
    """`/controller`: the broker that won the election. Ephemeral.

    `{"version":1,"brokerid":1,"timestamp":"<ms>"}` from 0.8 on; 3.5 writes version 2 with
    `kraftControllerEpoch`.
    """

    broker: int
    timestamp_ms: int | None
    version: int = 1
    extensions: Mapping[str, object] = field(default_factory=dict)

    @staticmethod
    def path() -> str:
        return "/controller"

    def encode(self) -> bytes:
        return write_object(
            {
                "version": self.version,
                "brokerid": self.broker,
                "timestamp": str(self.timestamp_ms),
                **self.extensions,
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "a controller")
        timestamp = fields.get("timestamp")
        return cls(
            broker=integer_of(path, fields, "brokerid"),
            timestamp_ms=decimal(timestamp, INT64) if isinstance(timestamp, str) else None,
            version=integer_of(path, fields, "version") if "version" in fields else 1,
            extensions={
                key: value for key, value in fields.items() if key not in ("version", "brokerid", "timestamp")
            },
        )


@dataclass(frozen=True, slots=True)
class ControllerEpoch:
    """`/controller_epoch`: how many controllers there have been, as decimal digits. Persistent."""

    epoch: int

    @staticmethod
    def path() -> str:
        return "/controller_epoch"

    def encode(self) -> bytes:
        return str(self.epoch).encode("ascii")

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        text = read_text(path, data, "a controller epoch")
        epoch = decimal(text, INT32)
        if epoch is None:
            raise CorruptZnodeError(path, "a controller epoch in decimal digits", show(text))
        return cls(epoch)
