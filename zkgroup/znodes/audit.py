"""`/zkgroup/audit/<group>`: what an operator last did to the offsets of a group without members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from zkgroup.znodes.json_object import integer_text_of, read_object, text_of, write_object


def zkgroup_path() -> str:
    """Everything of ours that belongs to no group."""
    return "/zkgroup"


def audit_path() -> str:
    """Parent of the records, one for each group."""
    return f"{zkgroup_path()}/audit"


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """Written in the same transaction as the change, so that an audit can tell it from a fault (recipes 18).

    Persistent, one for each group; its history is in ZooKeeper's log.
    """

    time_ms: int
    """Epoch milliseconds, for people."""
    user: str
    command: str
    undo: str
    """Id of the undo file and number of the transaction: says which act this record belongs to."""

    @staticmethod
    def path(group: str) -> str:
        return f"{audit_path()}/{group}"

    def encode(self) -> bytes:
        return write_object(
            {
                "version": 1,
                "time": str(self.time_ms),
                "user": self.user,
                "command": self.command,
                "undo": self.undo,
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "an audit record")
        return cls(
            time_ms=integer_text_of(path, fields, "time"),
            user=text_of(path, fields, "user"),
            command=text_of(path, fields, "command"),
            undo=text_of(path, fields, "undo"),
        )
