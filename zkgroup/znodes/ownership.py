"""Owner and offset znodes: bare text, no JSON (kafka/utils/ZkUtils.scala@0.8.2.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.znodes.consumer_paths import offset_path, owner_path
from zkgroup.znodes.ids import split_thread_id
from zkgroup.znodes.json_object import INT64, read_text, show

NO_OFFSET: Final = -1
_JAVA_LONG: Final = re.compile(r"[+-]?\d{1,1000}")


@dataclass(frozen=True, slots=True)
class Owner:
    """`/consumers/<g>/owners/<t>/<p>`: which thread of which member consumes a partition.

    Ephemeral, made by the claiming member, removed by its release or the end of its session. The data is
    the thread id: UTF-8, no newline. JVM members never set it, so its data version is 0; claims of ours set
    it once and leave version 1. Nobody watches it.
    """

    thread_id: str

    @staticmethod
    def path(group: str, topic_partition: TopicPartition) -> str:
        return owner_path(group, topic_partition)

    @property
    def member(self) -> str | None:
        """The member id, or None where a foreign client wrote something that is no thread id."""
        return self._parts[0] if self._parts else None

    @property
    def thread(self) -> int | None:
        return self._parts[1] if self._parts else None

    @property
    def _parts(self) -> tuple[str, int] | None:
        try:
            return split_thread_id(self.thread_id)
        except ValueError:
            return None

    def encode(self) -> bytes:
        """Raises ConfigError unless this is a thread id."""
        if self._parts is None:
            raise ConfigError(f"owner {self.thread_id!r}: expected a thread id (<member>-<number>)")
        return self.thread_id.encode("utf-8")

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """Raises CorruptZnodeError where there is no text. What the text means is for the reader to judge."""
        return cls(read_text(path, data, "a thread id"))


@dataclass(frozen=True, slots=True)
class Offset:
    """`/consumers/<g>/offsets/<t>/<p>`: the next offset to consume, as decimal digits.

    Persistent; written by the owner, and by operators' tools. A negative value means "none": claims of
    ours write -1 for a partition without one, which JVM members and tools take so too.
    """

    value: int

    @staticmethod
    def path(group: str, topic_partition: TopicPartition) -> str:
        return offset_path(group, topic_partition)

    @property
    def position(self) -> int | None:
        """The next offset to consume; None where none was ever committed."""
        return self.value if self.value >= 0 else None

    def encode(self) -> bytes:
        """Raises ConfigError for a value that is neither an offset nor -1."""
        if not -1 <= self.value <= INT64[-1]:
            raise ConfigError(f"offset {self.value}: expected a number from -1 to {INT64[-1]}")
        return str(self.value).encode("ascii")

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """Reads what a JVM member reads (`Long.parseLong`), so `+5`, `007` and digits of other scripts too.

        Raises CorruptZnodeError for anything else. It is never taken for "no offset".
        """
        text = read_text(path, data, "an offset in decimal digits")
        # Long.parseLong looks at UTF-16 units, so digits above U+FFFF are none for it.
        if _JAVA_LONG.fullmatch(text) and max(text) <= "\uffff":
            value = int(text)
            if value in INT64:
                return cls(value)
        raise CorruptZnodeError(path, "an offset in decimal digits", show(text))
