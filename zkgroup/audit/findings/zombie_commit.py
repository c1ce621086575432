"""A commit by a session that did not own the partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import BY_GROUP_PARTITION, Key
from zkgroup.audit.partition_offsets import OffsetWrite, PartitionOffsets
from zkgroup.audit.rules import Bounds, Finding, Rule, Screened, Severity, folded
from zkgroup.audit.texts import who

if TYPE_CHECKING:
    from zkgroup.audit.columns.tables import Tables


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._group, self._topic, self._partition = key[0], key[1], int(key[2])
        self._facts = facts
        self._offsets = PartitionOffsets(self._group, facts)

    def see(self, event: Event) -> Iterable[Finding]:
        write = self._offsets.see(event)
        if write is None or not write.is_commit or not write.holder_known:
            return ()
        if write.holder is not None and write.holder.session == event.session:
            return ()
        severity, why = self._judge(write)
        found = Finding(
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
            detail=f"{_moved(write)} by {who(self._facts, event.session, self._group)}, but {why}",
        )
        return (found,)

    def end(self) -> Iterable[Finding]:
        return ()

    def _judge(self, write: OffsetWrite) -> tuple[Severity, str]:
        holder = write.holder
        owned = (
            "no member owned it"
            if holder is None
            else f"{holder.thread!r} of {who(self._facts, holder.session, self._group)} owned it"
        )
        if write.event.zxid in self._facts.operator_acts.get(self._group, ()):
            return "info", f"{owned}; an operator's reset, by its marker"
        return ("error" if holder is not None or write.falls else "warning"), owned


def _moved(write: OffsetWrite) -> str:
    """The offsets of a write; bytes that are no number as they are."""
    after = str(write.offset) if write.offset is not None else repr(write.event.data)
    return after if write.previous is None else f"{write.previous} -> {after}"


def _screen(tables: Tables, bounds: Bounds) -> Screened:
    """Partitions with a commit by another session than the owner's."""
    p = tables.partitions
    return Screened(p.keys_with(p.is_commit & p.holder_known & ~p.by_holder))


RULE = Rule(
    name="zombie_commit",
    severity="error",
    question="Which commits came from a session that did not own the partition at that moment?",
    needs=("log",),
    act="An error: another member owned it, or the offset fell. Find the process behind the session and stop"
    " it; members of zkgroup cannot do this, JVM members and other clients can. A warning: no member owned"
    " it, as when a JVM member commits just after its own release.",
    keys=BY_GROUP_PARTITION,
    find=folded(_Fold),
    screen=_screen,
)
