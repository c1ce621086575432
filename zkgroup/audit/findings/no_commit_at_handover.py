"""An owner that held a partition for long and never committed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from zkgroup.audit.columns.codes import CREATE, DELETE
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
        self._owned_ms = bounds["owned_ms"]
        self._offsets = PartitionOffsets(self._group, facts)
        self._committed = False

    def see(self, event: Event) -> Iterable[Finding]:
        holder = self._offsets.holder
        if self._offsets.is_owner(event):
            found: tuple[Finding, ...] = ()
            if event.op == "delete" and holder is not None and not self._committed:
                found = tuple(self._given_up(event))
            if event.op in ("create", "delete"):
                self._committed = False
            self._offsets.see(event)
            return found
        write = self._offsets.see(event)
        if write is not None and write.is_commit and holder is not None:
            self._committed |= event.session == holder.session
        return ()

    def end(self) -> Iterable[Finding]:
        return ()

    def _given_up(self, event: Event) -> Iterator[Finding]:
        holder = self._offsets.holder
        assert holder is not None
        # What an owner from before the log committed before it is not known.
        since_zxid, since_ms = (
            (holder.from_zxid, holder.from_ms)
            if holder.from_zxid >= self._facts.start_zxid
            else (self._facts.start_zxid, self._facts.start_ms)
        )
        if event.time_ms - since_ms <= self._owned_ms:
            return
        found = (
            "there was no offset" if self._offsets.value is None else f"the offset was {self._offsets.value}"
        )
        yield Finding(
            RULE.name,
            RULE.severity,
            group=self._group,
            topic=self._topic,
            partition=self._partition,
            session=holder.session,
            from_zxid=since_zxid,
            to_zxid=event.zxid,
            from_ms=since_ms,
            to_ms=event.time_ms,
            detail=f"owned for {duration_text(event.time_ms - since_ms)} by"
            f" {who(self._facts, holder.session, self._group)} without a commit; {found} at the end",
        )


def _screen(tables: Tables, bounds: Bounds) -> Screened:
    """Partitions with an owner that went, after a long time, without a commit of its own since it came."""
    p, facts = tables.partitions, tables.facts
    commits = (p.is_commit & p.by_holder).cumsum()
    came = p.change_before
    is_over = p.is_change & (p.op == DELETE) & (came >= 0) & (p.op[came] == CREATE)
    since_ms = p.time_ms[came]
    since_ms[p.zxid[came] < facts.start_zxid] = facts.start_ms
    is_long = p.time_ms - since_ms > bounds["owned_ms"]
    return Screened(p.keys_with(is_over & (commits == commits[came]) & is_long))


RULE = Rule(
    name="no_commit_at_handover",
    severity="info",
    question="Which owner gave a partition up after a long time without one commit? Its successor starts"
    " where it started.",
    needs=("log",),
    act="Compare with the log end of the partition, which ZooKeeper does not know: an idle partition and a"
    " group that keeps its offsets in Kafka have none either. If there was work, the member consumes without"
    " committing.",
    keys=BY_GROUP_PARTITION,
    find=folded(_Fold),
    bounds={"owned_ms": 60_000},
    screen=_screen,
)
