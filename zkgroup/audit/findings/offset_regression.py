"""A commit lower than the one before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import BY_GROUP_PARTITION, Key
from zkgroup.audit.partition_offsets import OffsetWrite, PartitionOffsets
from zkgroup.audit.rules import Bounds, Finding, Rule, Screened, Severity, folded
from zkgroup.audit.texts import is_member, who

if TYPE_CHECKING:
    from zkgroup.audit.columns.tables import Tables


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._group, self._topic, self._partition = key[0], key[1], int(key[2])
        self._facts = facts
        self._offsets = PartitionOffsets(self._group, facts)
        self._last_writer: int | None = None

    def see(self, event: Event) -> Iterable[Finding]:
        write = self._offsets.see(event)
        if write is None or not write.is_commit:
            return ()
        found = self._found(write) if write.falls else None
        self._last_writer = event.session
        return () if found is None else (found,)

    def end(self) -> Iterable[Finding]:
        return ()

    def _found(self, write: OffsetWrite) -> Finding:
        event = write.event
        severity, why = self._judge(write)
        return Finding(
            RULE.name,
            severity,
            group=self._group,
            topic=self._topic,
            partition=self._partition,
            session=event.session,
            from_zxid=event.zxid,
            to_zxid=event.zxid,
            from_ms=event.time_ms,
            to_ms=event.time_ms,
            detail=f"{write.previous} -> {write.offset} by {who(self._facts, event.session, self._group)}"
            f"{self._before(event)}{why}",
        )

    def _judge(self, write: OffsetWrite) -> tuple[Severity, str]:
        if write.event.zxid in self._facts.operator_acts.get(self._group, ()):
            return "info", "; an operator's reset, by its marker"
        if write.holder is None and not is_member(self._facts, self._group, write.event.session):
            return "warning", "; no member owned it, and the writer is no member: probably a tool"
        return "error", ""

    def _before(self, event: Event) -> str:
        if self._last_writer in (None, event.session):
            return ""
        return f"; before it wrote {who(self._facts, self._last_writer or 0, self._group)}"


def _screen(tables: Tables, bounds: Bounds) -> Screened:
    """Partitions with a commit below the value before."""
    p = tables.partitions
    return Screened(p.keys_with(p.is_commit & p.falls))


RULE = Rule(
    name="offset_regression",
    severity="error",
    question="Which commit set an offset back? What lies between is consumed twice.",
    needs=("log",),
    act="See who wrote it and whether it owned the partition (zombie_commit, `audit owners`). If it was"
    " meant, set offsets with `zkgroup offsets`, which leaves a marker; if not, raise the offset again or"
    " accept the repetition.",
    keys=BY_GROUP_PARTITION,
    find=folded(_Fold),
    screen=_screen,
)
