"""What a member does, as events on stdout."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from zkgroup.consumer.callbacks import RebalanceListener
from zkgroup.consumer.lease import Lease
from zkgroup.consumer.machine.events import MemberState
from zkgroup.consumer.sources.port import Record
from zkgroup.model import TopicPartition

from .render import Output
from .serving import EventLines

_STYLES = {"assigned": "good", "revoked": "warn", "lost": "bad", "commit": "dim"}
_OUTCOMES = {"ok": "ok", "fail": "refused", "info": "unknown"}


class EventPrinter(EventLines, RebalanceListener):
    """The member's listener, and `HistorySink` for the outcomes of commits."""

    STYLES = _STYLES

    def __init__(self, out: Output, member: str) -> None:
        super().__init__(out)
        self._member = member
        self._asked: dict[object, list[dict[str, Any]]] = {}

    # --- RebalanceListener -------------------------------------------------------------------------

    def on_state(self, before: MemberState, after: MemberState, reason: str) -> None:
        fields = {"member": self._member, "before": before.value, "after": after.value, "reason": reason}
        self.print("state", fields, f"{before.value} -> {after.value}  {reason}")

    def on_assigned(self, leases: Sequence[Lease]) -> None:
        rows = [
            {
                "topic": lease.topic,
                "partition": lease.partition,
                "thread": lease.thread,
                "token": lease.token,
                "offset": lease.offset,
            }
            for lease in leases
        ]
        message = ", ".join(
            f"{lease.topic_partition}@{'-' if lease.offset is None else lease.offset}" for lease in leases
        )
        self.print("assigned", {"leases": rows}, message)

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.print("revoked", {"partitions": _partitions(partitions)}, ", ".join(map(str, partitions)))

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.print("lost", {"partitions": _partitions(partitions)}, ", ".join(map(str, partitions)))

    # --- HistorySink -------------------------------------------------------------------------------

    def record(self, kind: str, fields: Mapping[str, object]) -> None:
        """Commits, those that go with a release included; everything else is for checkers."""
        act, _, step = kind.partition(".")
        if act not in ("commit", "release") or not step:
            return
        rows = _offsets(fields.get("offsets") or fields.get("partitions"))
        if step == "invoke":
            self._asked[fields.get("id")] = rows
            return
        asked = self._asked.pop(fields.get("id"), [])
        rows = rows if any("offset" in row for row in rows) else asked
        rows = [row for row in rows if (row.get("offset") or 0) >= 0]
        if rows:
            outcome = _OUTCOMES.get(step, step)
            message = ", ".join(f"{row['topic']}-{row['partition']}={row['offset']}" for row in rows)
            self.print("commit", {"outcome": outcome, "offsets": rows}, f"{outcome}  {message}")

    # --- records -----------------------------------------------------------------------------------

    def delivered(self, record: Record) -> None:
        """One record; its line is written when this returns. Raises BrokenPipeError."""
        fields: dict[str, Any] = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            **_bytes("key", record.key),
            **_bytes("value", record.value),
            "token": record.token,
        }
        message = (record.value or b"").decode("utf-8", "backslashreplace")
        self.print("record", fields, f"{record.topic}-{record.partition}@{record.offset}  {message}")
        self.check()


def _bytes(name: str, data: bytes | None) -> dict[str, Any]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode("utf-8")}
    except UnicodeDecodeError:
        return {name: None, f"{name}_base64": base64.b64encode(data).decode("ascii")}


def _partitions(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic": tp.topic, "partition": tp.partition} for tp in partitions]


def _offsets(rows: object) -> list[dict[str, Any]]:
    if not isinstance(rows, (list, tuple)):
        return []
    return [{key: row[key] for key in ("topic", "partition", "offset") if key in row} for row in rows]
