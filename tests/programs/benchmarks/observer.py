"""Watches one group from outside, from its znodes alone: when it converged, what had no owner meanwhile.

A window begins with the first change of a registration (or of the owners that a session takes with it)
and ends when the owners have equalled the sorted range assignment of the registered members for
`settle_s`, or when nothing has changed for `stuck_s` while they differ.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.programs.benchmarks.transaction_log import Change, LogSource

Where = tuple[str, int]


class Group:
    """The group as its znodes show it, and the range assignment for its static registrations."""

    def __init__(self, name: str) -> None:
        self._base, self._topics_base = f"/consumers/{name}", "/brokers/topics/"
        self.ids: dict[str, bytes | None] = {}
        self.owners: dict[Where, str] = {}
        self.expected: dict[Where, str] = {}
        self.wrong: set[Where] = set()
        self._topics: dict[str, bytes | None] = {}

    def apply(self, change: Change) -> tuple[str, Where | None] | None:
        """Applies one change; the kind of znode that it is about, with the partition if it is about one."""
        path = change.path
        if path.startswith(f"{self._base}/ids/"):
            _put(self.ids, path.rsplit("/", 1)[1], change, change.data)
            self._plan()
            return "ids", None
        if path.startswith(f"{self._base}/owners/"):
            topic, _, partition = path[len(self._base) + 8 :].partition("/")
            if not partition:
                return None
            where = (topic, int(partition))
            _put(self.owners, where, change, (change.data or b"").decode())
            self._judge(where)
            return "owners", where
        if path.startswith(self._topics_base) and "/" not in path[len(self._topics_base) :]:
            _put(self._topics, path[len(self._topics_base) :], change, change.data)
            self._plan()
            return "topics", None
        return None

    def _subscriptions(self) -> Iterator[tuple[str, list[str]]]:
        for member, data in self.ids.items():
            try:
                wanted = json.loads(data or b"")["subscription"]
            except (ValueError, KeyError):
                continue  # a broken registration owns nothing
            for topic, threads in wanted.items():
                yield topic, [f"{member}-{n}" for n in range(threads)]

    def _plan(self) -> None:
        threads: defaultdict[str, list[str]] = defaultdict(list)
        for topic, names in self._subscriptions():
            threads[topic] += names
        self.expected = {}
        for topic, names in threads.items():
            document = self._topics.get(topic)
            partitions = sorted(map(int, json.loads(document)["partitions"])) if document else []
            self.expected.update(_range(topic, partitions, names))
        both = self.expected.keys() | self.owners.keys()
        self.wrong = {where for where in both if self.expected.get(where) != self.owners.get(where)}

    def _judge(self, where: Where) -> None:
        if self.expected.get(where) == self.owners.get(where):
            self.wrong.discard(where)
        else:
            self.wrong.add(where)


def _put(table: dict[Any, Any], key: object, change: Change, value: object) -> None:
    if change.kind == "delete":
        table.pop(key, None)
    else:
        table[key] = value


def _range(topic: str, partitions: list[int], threads: list[str]) -> Iterator[tuple[Where, str]]:
    """RangeAssignor of PartitionAssignor.scala@0.8.2.2, written again, independently of zkgroup's."""
    ordered = sorted(threads, key=lambda name: name.encode("utf-16-be"))
    share, extra = divmod(len(partitions), len(ordered))
    for index, name in enumerate(ordered):
        start = share * index + min(index, extra)
        for partition in partitions[start : start + share + (index < extra)]:
            yield (topic, partition), name


class Window:
    """The events from a trigger to the end of the rebalance that it caused. Times: the server's, in ms."""

    def __init__(self, group: Group, source: LogSource) -> None:
        self._group, self._source = group, source
        self._before = dict(group.owners)
        self._writes = Counter(source.writes)
        self._right: int | None = None
        self._last_change: float | None = None
        self._down: dict[Where, int | None] = {w: None for w in group.expected if w not in group.owners}
        self._gaps: defaultdict[Where, int] = defaultdict(int)
        self.trigger: int | None = None
        self.registrations = self.departures = self._claims = self._releases = 0

    def take(self, change: Change) -> None:
        about = self._group.apply(change)
        if about is None:
            return
        kind, where = about
        if where is not None:
            self._owner(change, where)
        else:
            self.registrations += kind == "ids" and change.kind == "create"
            self.departures += kind == "ids" and change.kind == "delete"
        if self.trigger is None:
            self.trigger = change.ms
        self._last_change = time.monotonic()
        if self._group.wrong:
            self._right = None
        elif self._right is None:
            self._right = change.ms

    def _owner(self, change: Change, where: Where) -> None:
        if change.kind == "delete":
            self._releases += 1
            self._down.setdefault(where, change.ms)
        elif change.kind == "create":
            self._claims += 1
            since = self._down.pop(where, None)
            if since is not None:
                self._gaps[where] += change.ms - since

    @property
    def converged(self) -> bool:
        return self.trigger is not None and not self._group.wrong

    @property
    def quiet_s(self) -> float:
        return time.monotonic() - self._last_change if self._last_change else 0.0

    def report(self) -> dict[str, Any]:
        """Seconds from the trigger, what was written, and how long partitions had no owner."""
        expected = self._group.expected
        kept = [w for w in self._before if expected.get(w) == self._before[w]]
        moved = [w for w in self._before if w in expected and expected[w] != self._before[w]]
        end = max([ms for ms in self._down.values() if ms] + [self._right or 0])
        right = self._right is not None and self.trigger is not None
        return {
            "converged": self.converged,
            "converged_s": round((self._right - self.trigger) / 1000, 3) if right else None,  # type: ignore[operator]
            "trigger_ms": self.trigger,
            "members": len(self._group.ids),
            "partitions": len(expected),
            "registrations": self.registrations,
            "claims": self._claims,
            "releases": self._releases,
            "kept": self._without_owner(kept, end),
            "moved": self._without_owner(moved, end),
            "writes": dict(sorted((self._source.writes - self._writes).items())),
        }

    def _without_owner(self, partitions: Iterable[Where], end: int) -> dict[str, Any]:
        gaps = sorted(self._gap(where, end) for where in partitions)
        if not gaps:
            return {"partitions": 0}
        return {
            "partitions": len(gaps),
            "paused": sum(gap > 0 for gap in gaps),
            "p50_ms": round(statistics.median(gaps)),
            "max_ms": gaps[-1],
            "sum_s": round(sum(gaps) / 1000, 2),
        }

    def _gap(self, where: Where, end: int) -> int:
        since = self._down.get(where)
        return self._gaps.get(where, 0) + (end - since if since else 0)


class Observer:
    """Follows a group over many windows."""

    def __init__(self, group: str, transaction_logs: Path) -> None:
        self.source = LogSource(transaction_logs)
        self.group = Group(group)
        self.catch_up()

    def catch_up(self) -> None:
        for change in self.source.poll():
            self.group.apply(change)

    def window(self) -> Window:
        self.catch_up()
        return Window(self.group, self.source)

    def follow(
        self,
        window: Window,
        *,
        settle_s: float = 3.0,
        stuck_s: float = 20.0,
        timeout_s: float = 180.0,
        complete: Callable[[Window], bool] = lambda _: True,
    ) -> Window:
        """Runs the window to its end; `complete` may keep it open while members still start."""
        deadline = time.monotonic() + timeout_s
        pause = threading.Event()
        while time.monotonic() < deadline:
            for change in self.source.poll():
                window.take(change)
            enough = settle_s if window.converged else stuck_s
            if window.trigger is not None and complete(window) and window.quiet_s >= enough:
                break
            pause.wait(0.01)
        return window
