"""How many clients one change wakes up, estimated."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts, Life
from zkgroup.audit.keys import Key, Keys
from zkgroup.audit.rules import Bounds, Finding, Rule, folded
from zkgroup.audit.texts import count_text
from zkgroup.znodes.brokers import broker_ids_path, topics_path
from zkgroup.znodes.consumers import ids_path
from zkgroup.znodes.controller import ControllerRegistration
from zkgroup.znodes.paths import path_kind


def _watched(event: Event) -> Key | None:
    """The path whose watches a change fires."""
    if not event.applied or event.op not in ("create", "delete"):
        return None
    place = path_kind(event.path)
    match place.kind:
        case "member":
            return ids_path(place.name), place.name
        case "broker" if event.path.count("/") == 3:
            return (broker_ids_path(),)
        case "topic" if event.path.count("/") == 3:
            return (topics_path(),)
        case "controller":
            return (ControllerRegistration.path(),)
    return None


BY_WATCHED = Keys("watched", _watched)
"""What comes and goes below paths that many watch; key: the path, and the group where it is one's."""


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._path = key[0]
        self._group = key[1] if len(key) > 1 else None
        self._enough = bounds["watchers"]
        self._herd = _Herd(_watchers(key, facts))
        self._events = 0
        self._wakings = 0
        self._first: Event | None = None
        self._last: Event | None = None
        self._largest: tuple[int, int] = (0, 0)
        """Watchers and zxid."""

    def see(self, event: Event) -> Iterable[Finding]:
        watchers = 0 if event.seed else self._herd.at(event.zxid)
        if watchers >= self._enough:
            self._first, self._last = self._first or event, event
            self._events += 1
            self._wakings += watchers
            self._largest = max(self._largest, (watchers, -event.zxid))
        return ()

    def end(self) -> Iterator[Finding]:
        if self._first is None or self._last is None:
            return
        watchers, minus_zxid = self._largest
        yield Finding(
            RULE.name,
            RULE.severity,
            group=self._group,
            from_zxid=self._first.zxid,
            to_zxid=self._last.zxid,
            from_ms=self._first.time_ms,
            to_ms=self._last.time_ms,
            detail=f"{count_text(self._events, 'change')} of {self._path} woke"
            f" {count_text(self._wakings, 'watcher')}, at most {watchers} at once (zxid 0x{-minus_zxid:x})",
        )


class _Herd:
    """How many of these lived before a zxid and were there when it came."""

    def __init__(self, lives: Sequence[Life]) -> None:
        self._begins = sorted(life.from_zxid for life in lives)
        self._ends = sorted(life.to_zxid for life in lives if life.to_zxid is not None)

    def at(self, zxid: int) -> int:
        return bisect_left(self._begins, zxid) - bisect_left(self._ends, zxid)


def _watchers(key: Key, facts: Facts) -> Sequence[Life]:
    """Who watches a path by the recipes of Kafka's clients."""
    if len(key) > 1:
        return facts.members.get(key[1], ())
    by_name = facts.brokers if key == (ControllerRegistration.path(),) else facts.members
    return [life for lives in by_name.values() for life in lives]


RULE = Rule(
    name="herd_size",
    severity="warning",
    question="How many clients does one change wake, by what their recipes watch? ZooKeeper does not log"
    " watches.",
    needs=("log",),
    act="Each of them reads at once, and of members each reads every registration. Split large groups, start"
    " members one after another, or use members of zkgroup, which read what changed only.",
    keys=BY_WATCHED,
    find=folded(_Fold),
    bounds={"watchers": 100},
)
