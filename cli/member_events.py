"""Events of a member on stdout."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeVar

from zkgroup.consumer.callbacks import RebalanceListener
from zkgroup.consumer.lease import Lease
from zkgroup.consumer.machine.events import MemberState
from zkgroup.model import TopicPartition
from zkgroup.sources.port import Record

from .render import Output
from .schema import STRING, JsonEvent, JsonKey, NamedKeys, Shape, base64_of, list_of, nullable, text_of
from .serving import EventLines

T = TypeVar("T")

_STYLES = {"assigned": "good", "revoked": "warn", "lost": "bad", "commit": "dim"}
Outcome = Literal["ok", "refused", "unknown"]
_OUTCOMES: Mapping[str, Outcome] = {"ok": "ok", "fail": "refused", "info": "unknown"}


class CommittedOffset(NamedTuple):
    """The offset of one partition in a commit."""

    topic_partition: TopicPartition
    offset: int


class Header(NamedTuple):
    """A header of a record."""

    key: str
    value: bytes | None


def _bytes(name: str, get: Callable[[Any], bytes | None]) -> tuple[JsonKey, JsonKey]:
    """Bytes as text; those that are not UTF-8 as base64, under a key that is else left out."""
    return (
        JsonKey(name, nullable(STRING), lambda record: text_of(get(record))),
        JsonKey(f"{name}_base64", STRING, lambda record: base64_of(get(record)), is_optional=True),
    )


HEADER = Shape(Header, "key", *_bytes("value", attrgetter("value")))
LEASE = Shape(Lease, "topic_partition", "thread", "token", "offset")
COMMITTED_OFFSET = Shape(CommittedOffset)
STATE = JsonEvent("state", NamedKeys(member=str, before=MemberState, after=MemberState, reason=str))
ASSIGNED = JsonEvent("assigned", NamedKeys(leases=Sequence[Lease]))
REVOKED = JsonEvent("revoked", NamedKeys(partitions=Sequence[TopicPartition]))
LOST = JsonEvent("lost", NamedKeys(partitions=Sequence[TopicPartition]))
RECORD = JsonEvent(
    "record",
    Shape(
        Record,
        *("topic", "partition", "offset"),
        *_bytes("key", attrgetter("key")),
        *_bytes("value", attrgetter("value")),
        "timestamp_ms",
        JsonKey(
            "headers", list_of(HEADER.schema), lambda row: [HEADER.json(Header(*one)) for one in row.headers]
        ),
        "token",
    ),
)
COMMIT = JsonEvent("commit", NamedKeys(outcome=Outcome, offsets=Sequence[CommittedOffset]))
EVENTS = (STATE, ASSIGNED, REVOKED, LOST, RECORD, COMMIT)
"""All of them, in the order of the documentation."""


class EventPrinter(EventLines, RebalanceListener):
    """The member's listener, and `HistorySink` for the outcomes of commits."""

    STYLES = _STYLES

    def __init__(self, out: Output, member: str) -> None:
        super().__init__(out)
        self._member = member
        self._asked: dict[object, list[CommittedOffset]] = {}

    def on_state(self, before: MemberState, after: MemberState, reason: str) -> None:
        value = {"member": self._member, "before": before, "after": after, "reason": reason}
        self.print(STATE, value, f"{before.value} -> {after.value}  {reason}")

    def on_assigned(self, leases: Sequence[Lease]) -> None:
        message = ", ".join(
            f"{lease.topic_partition}@{'-' if lease.offset is None else lease.offset}" for lease in leases
        )
        self.print(ASSIGNED, {"leases": leases}, message)

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.print(REVOKED, {"partitions": partitions}, ", ".join(map(str, partitions)))

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.print(LOST, {"partitions": partitions}, ", ".join(map(str, partitions)))

    def record(self, kind: str, fields: Mapping[str, object]) -> None:
        """Prints the outcomes of commits, also of those in a release; everything else is for checkers."""
        act, _, step = kind.partition(".")
        if act not in ("commit", "release") or not step:
            return
        rows = _offsets(fields.get("offsets") or fields.get("partitions"))
        if step == "invoke":
            self._asked[fields.get("id")] = rows
            return
        asked = self._asked.pop(fields.get("id"), [])
        rows = [row for row in rows or asked if row.offset >= 0]
        if rows:
            outcome = _OUTCOMES[step]
            message = ", ".join(f"{row.topic_partition}={row.offset}" for row in rows)
            self.print(COMMIT, {"outcome": outcome, "offsets": rows}, f"{outcome}  {message}")

    def delivered(self, record: Record) -> None:
        """One record; its line is written when this returns. Raises BrokenPipeError."""
        message = _text(record.value) if record.key is None else f"{_text(record.key)}: {_text(record.value)}"
        self.print(RECORD, record, f"{record.topic}-{record.partition}@{record.offset}  {message}")
        self.check()


class RecordPrinter(EventPrinter):
    """Prints records alone, as `produce --input-format` takes them back."""

    def __init__(self, member: str, *, raw: bool) -> None:
        """raw: the value of each record and a newline; else a JSON object for each record."""
        super().__init__(Output("ndjson", color=False, width=None), member)
        self._is_raw = raw

    def print(self, event: JsonEvent[T], value: T, message: str) -> None:
        if event is RECORD:
            super().print(event, value, message)

    def _write(self, event: JsonEvent[T], now: str, value: T, message: str) -> None:
        if self._is_raw:
            assert isinstance(value, Record)
            sys.stdout.buffer.write((value.value or b"") + b"\n")
            sys.stdout.flush()
        else:
            super()._write(event, now, value, message)


def _text(data: bytes | None) -> str:
    """For people."""
    return "null" if data is None else data.decode("utf-8", "backslashreplace")


def _offsets(rows: object) -> list[CommittedOffset]:
    """Those of the partitions that have one."""
    if not isinstance(rows, (list, tuple)):
        return []
    return [
        CommittedOffset(TopicPartition(row["topic"], row["partition"]), row["offset"])
        for row in rows
        if row.get("offset") is not None
    ]
