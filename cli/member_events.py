"""What a member does, as events on stdout: NDJSON for programs, a line each for people."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from zkgroup.consumer.effects import MemberState
from zkgroup.consumer.lease import Lease
from zkgroup.consumer.listener import RebalanceListener
from zkgroup.consumer.records import Record
from zkgroup.model import TopicPartition

from .output import Output
from .units import iso_time

_STYLES = {"assigned": "good", "revoked": "warn", "lost": "bad", "commit": "dim"}
_OUTCOMES = {"ok": "ok", "fail": "refused", "info": "unknown"}


class EventPrinter(RebalanceListener):
    """Writes events whole and in order, from whichever thread they come.

    Implements the member's listener, and `HistorySink` for the outcomes of commits.
    """

    def __init__(self, out: Output, member: str) -> None:
        self._out = out
        self._member = member
        self._lock = threading.Lock()
        self._asked: dict[object, list[dict[str, Any]]] = {}
        self._gone: BrokenPipeError | None = None
        self.when_gone: Callable[[], None] = lambda: None
        """Called when nobody reads the events any more; must not wait."""

    def check(self) -> None:
        """Raises BrokenPipeError where nobody reads the events any more."""
        if self._gone is not None:
            raise self._gone

    # --- RebalanceListener -------------------------------------------------------------------------

    def on_state(self, before: MemberState, after: MemberState, reason: str) -> None:
        fields = {"member": self._member, "before": before.value, "after": after.value, "reason": reason}
        self._print("state", fields, f"{before.value} -> {after.value}  {reason}")

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
        told = ", ".join(
            f"{lease.topic_partition}@{'-' if lease.offset is None else lease.offset}" for lease in leases
        )
        self._print("assigned", {"leases": rows}, told)

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._print("revoked", {"partitions": _partitions(partitions)}, ", ".join(map(str, partitions)))

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._print("lost", {"partitions": _partitions(partitions)}, ", ".join(map(str, partitions)))

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
            told = ", ".join(f"{row['topic']}-{row['partition']}={row['offset']}" for row in rows)
            self._print("commit", {"outcome": outcome, "offsets": rows}, f"{outcome}  {told}")

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
        told = (record.value or b"").decode("utf-8", "backslashreplace")
        self._print("record", fields, f"{record.topic}-{record.partition}@{record.offset}  {told}")
        self.check()

    def _print(self, event: str, fields: Mapping[str, Any], told: str) -> None:
        now = iso_time(time.time_ns() // 1_000_000)
        assert now is not None
        with self._lock:
            if self._gone is not None:
                return
            try:
                self._write(event, now, fields, told)
            except BrokenPipeError as error:  # `| head`: the member leaves, and nothing failed
                self._gone = error
                self.when_gone()

    def _write(self, event: str, now: str, fields: Mapping[str, Any], told: str) -> None:
        if not self._out.is_table:
            self._out.event({"event": event, "time": now, **fields})
            return
        label = f"{event:<9}"
        label = self._out.paint(label, _STYLES[event]) if event in _STYLES else label
        self._out.line(f"{self._out.paint(now[11:23], 'dim')}  {label} {told}")


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
