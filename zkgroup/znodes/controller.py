"""`/controller` and `/controller_epoch`: who rules the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.znodes.json_object import (
    INT32,
    INT64,
    decimal,
    integer_of,
    is_integer,
    others,
    read_json,
    read_text,
    show,
    write_object,
)
from zkgroup.znodes.limits import check_number

BARE: Final = 0
"""The version of a `/controller` that is nothing but the id."""

_KRAFT_EPOCH: Final = "kraftControllerEpoch"
_KEYS: Final = ("version", "brokerid", "timestamp")


@dataclass(frozen=True, slots=True)
class Controller:
    """`/controller`: the broker that won the election. Ephemeral.

    `{"version":1,"brokerid":1,"timestamp":"<ms>"}` from 0.8 on; 3.4 and later write version 2 with
    `kraftControllerEpoch`; before 0.8 it was the bare id (kafka/controller/KafkaController.scala@0.8.2.2).
    Its znode version tells whose it is: ours set it once and leave 1, real brokers leave 0 (recipes 13).
    """

    broker: int
    timestamp_ms: int | None
    """Epoch milliseconds of the election; None where it is missing or no text of digits."""
    version: int = 1
    """Of the format; 0 for the bare id, which is read only."""
    extensions: Mapping[str, object] = field(default_factory=dict)
    """The keys beyond version 1, as they are."""

    @staticmethod
    def path() -> str:
        return "/controller"

    @property
    def kraft_epoch(self) -> int | None:
        """The epoch of the KRaft controller that took over for a migration, or None where none did."""
        epoch = self.extensions.get(_KRAFT_EPOCH)
        return epoch if isinstance(epoch, int) and is_integer(epoch, range(INT32[-1] + 1)) else None

    def encode(self) -> bytes:
        """Raises ConfigError for what is no broker, a missing time, and the version of the bare id."""
        check_number("controller version", self.version, 1)
        check_number("controller", self.broker)
        if self.timestamp_ms is None:
            raise ConfigError("controller: expected a time of election, found none")
        if clash := [key for key in self.extensions if key in _KEYS]:
            raise ConfigError(f"controller: expected keys that are not Kafka's, found {clash}")
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
        """Raises CorruptZnodeError where it names no broker."""
        fields = read_json(path, data, "a controller")
        if isinstance(fields, int) and is_integer(fields):
            return cls(fields, None, BARE)
        if not isinstance(fields, dict):
            raise CorruptZnodeError(path, "a controller", show(fields))
        timestamp = fields.get("timestamp")
        return cls(
            broker=integer_of(path, fields, "brokerid"),
            timestamp_ms=decimal(timestamp, INT64) if isinstance(timestamp, str) else None,
            version=integer_of(path, fields, "version") if "version" in fields else 1,
            extensions=others(fields, *_KEYS),
        )


@dataclass(frozen=True, slots=True)
class ControllerEpoch:
    """`/controller_epoch`: how many controllers there have been, as decimal digits. Persistent.

    The first controller's is 1; from 2.1 on the znode is made with 0 before the first election.
    """

    epoch: int

    @staticmethod
    def path() -> str:
        return "/controller_epoch"

    def encode(self) -> bytes:
        """Raises ConfigError for what is no epoch."""
        return str(check_number("controller epoch", self.epoch)).encode("ascii")

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        text = read_text(path, data, "a controller epoch")
        epoch = decimal(text, INT32)
        if epoch is None:
            raise CorruptZnodeError(path, "a controller epoch in decimal digits", show(text))
        return cls(epoch)
