"""An offset for a partition that does not exist."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from zkgroup.audit.columns.codes import CREATE, DELETE
from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import BY_GROUP_PARTITION, Key
from zkgroup.audit.rules import Bounds, Finding, Rule, Screened, folded
from zkgroup.audit.texts import count_text
from zkgroup.errors import CorruptZnodeError
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import offsets_path

if TYPE_CHECKING:
    from zkgroup.audit.columns.tables import Tables


@lru_cache(maxsize=1 << 10)
def _partitions(data: bytes) -> frozenset[int] | None:
    """The partitions that a topic's znode names; None where it cannot be read."""
    try:
        return frozenset(Topic.decode("topic", data).partitions)
    except CorruptZnodeError:
        return None


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._group, self._topic, self._partition = key[0], key[1], int(key[2])
        self._changes = facts.topics.get(self._topic, ())
        self._is_whole = facts.is_whole
        self._offsets = f"{offsets_path(self._group)}/"
        self._created: Event | None = None
        self._data: bytes | None = None

    def see(self, event: Event) -> Iterable[Finding]:
        if event.path.startswith(self._offsets):
            if event.op == "create":
                self._created = event
            elif event.op == "delete":
                self._created = None
            self._data = event.data
        return ()

    def end(self) -> Iterator[Finding]:
        why = self._why_missing()
        if self._created is None or why is None:
            return
        # Missing since the offset was made, or since the topic changed for the last time.
        since_zxid, since_ms = max(
            (self._created.zxid, self._created.time_ms),
            *((change.zxid, change.time_ms) for change in self._changes[-1:]),
            (0, 0),
        )
        yield Finding(
            RULE.name,
            RULE.severity,
            group=self._group,
            topic=self._topic,
            partition=self._partition,
            from_zxid=since_zxid,
            from_ms=since_ms,
            detail=f"{why}; the offset is {(self._data or b'').decode('utf-8', 'replace')}",
        )

    def _why_missing(self) -> str | None:
        """None where the partition exists, or that is not known."""
        if not self._changes:
            return "no such topic" if self._is_whole else None
        data = self._changes[-1].data
        if data is None:
            return "the topic is gone"
        partitions = _partitions(data)
        if partitions is None or self._partition in partitions:
            return None
        return f"the topic has {count_text(len(partitions), 'partition')}"


def _screen(tables: Tables, bounds: Bounds) -> Screened:
    """Partitions whose offset is there at the end, and that their topic does not name."""
    from zkgroup.audit.columns.partitions import last_with

    p = tables.partitions
    is_offset = ~p.is_owner
    made = last_with(is_offset & ((p.op == CREATE) | (p.op == DELETE)), p.start)
    there = p.selection.keys_with(p.is_last & (made >= 0) & (p.op[made] == CREATE))
    topics = tables.facts.topics
    for code in there.nonzero()[0].tolist():
        _, topic, partition = p.selection.keys[code]
        changes = topics.get(topic, ())
        data = changes[-1].data if changes else None
        there[code] = data is None or int(partition) not in (_partitions(data) or ())
    return Screened(p.selection.of_keys(there))


RULE = Rule(
    name="offset_of_missing_partition",
    severity="warning",
    question="Which offsets are of partitions that do not exist?",
    needs=("snapshot",),
    act="A topic of that name, made again, starts at 0: consumers with this offset are out of range and do"
    " what their reset policy says. Reset the offset once the topic is there, or prune the group.",
    keys=BY_GROUP_PARTITION,
    find=folded(_Fold),
    screen=_screen,
)
