"""An owned partition whose offset has stood still up to the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import BY_GROUP_PARTITION, Key
from zkgroup.audit.partition_offsets import PartitionOffsets
from zkgroup.audit.rules import Bounds, Finding, Rule, Screened, folded
from zkgroup.audit.texts import duration_text, who

if TYPE_CHECKING:
    from zkgroup.audit.columns.tables import Tables


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._group, self._topic, self._partition = key[0], key[1], int(key[2])
        self._facts = facts
        self._still_ms = bounds["still_ms"]
        self._offsets = PartitionOffsets(self._group, facts)
        self._changed: tuple[int, int] = (0, 0)
        """Zxid and time of the last change of the value."""

    def see(self, event: Event) -> Iterable[Finding]:
        write = self._offsets.see(event)
        if write is not None and not write.is_claim and not write.repeats:
            written_ms = event.mtime_ms if event.seed and event.mtime_ms is not None else event.time_ms
            self._changed = (event.zxid, written_ms)
        return ()

    def end(self) -> Iterator[Finding]:
        holder = self._offsets.holder
        if holder is None or not self._offsets.exists:
            return
        since_zxid, since_ms = max(
            self._changed, (holder.from_zxid, holder.from_ms), key=lambda moment: moment[::-1]
        )
        still_ms = self._facts.end_ms - since_ms
        if still_ms <= self._still_ms:
            return
        yield Finding(
            RULE.name,
            RULE.severity,
            group=self._group,
            topic=self._topic,
            partition=self._partition,
            session=holder.session,
            from_zxid=since_zxid,
            from_ms=since_ms,
            detail=f"at {self._offsets.value} for {duration_text(still_ms)}, owned by"
            f" {who(self._facts, holder.session, self._group)}",
        )


def _screen(tables: Tables, bounds: Bounds) -> Screened:
    """Owned partitions whose offset and owner changed last long before the end."""
    from zkgroup.audit.columns.partitions import last_with

    p = tables.partitions
    changed = last_with(p.is_write & ~p.is_claim & ~p.repeats, p.start)
    changed_ms = tables.set_ms(p.selection.rows)[changed] * (changed >= 0)
    still_ms = tables.facts.end_ms - bounds["still_ms"]
    is_still = (changed_ms < still_ms) & (p.time_ms[p.holder] < still_ms)
    return Screened(p.keys_with(p.is_last & (p.holder >= 0) & p.exists & is_still))


RULE = Rule(
    name="stalled_offset",
    severity="info",
    question="Which owned partitions had no change of offset for long, up to the end of the history?",
    needs=("log",),
    act="Compare with the log end of the partition, which ZooKeeper does not know: at the end it is idle,"
    " behind it the owner hangs. `zkgroup offsets show GROUP --source SPEC` shows the lag.",
    keys=BY_GROUP_PARTITION,
    find=folded(_Fold),
    bounds={"still_ms": 600_000},
    screen=_screen,
)
