"""Series of snapshots cut out of a history of rows, as a strict server would have made them.

`served` leaves out of the rows what a server refuses, and adds the parents that are missing; `History` has
every state of every path since its zxid, and cuts snapshots out of them: exact ones, fuzzy ones, whose znodes
are each of a moment of their own, and such in which paths are unknown.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from zkgroup.audit.findings.engine import STATE_RULES, bounds_of, order
from zkgroup.audit.findings.rules import Finding
from zkgroup.audit.findings.states import find_states
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.snapshots import Series
from zkgroup.zkfiles.records import AclEntry, StoredStat, StoredZnode, is_below
from zkgroup.zkfiles.snapshots import TreeSnapshot
from zkgroup.zkfiles.states import States as Table
from zkgroup.znodes.paths import path_kind

_OPEN = (AclEntry(31, "world", "anyone"),)


def enriched(events: Iterable[Event], draw: random.Random) -> Iterator[Event]:
    """The rows, with resets of operators and configurations in the place of some that say nothing."""
    for event in events:
        if "/resets/" in event.path or event.path.startswith("/zkgroup/audit/"):
            if event.sub >= 0 or event.op not in ("create", "set") or "/resets/" not in event.path:
                continue  # an operator changes offsets in transactions of their own
            topic, partition, offset = draw.choice("tu"), draw.choice((0, 1, 2)), draw.randrange(200)
            group = path_kind(event.path).name
            data = b'{"version":1,"offset":"%d","time":"1","by":"me"}' % offset
            marker = f"/consumers/{group}/resets/{topic}-{partition}"
            base = event._replace(op="set", version=1, ephemeral=None)
            yield base._replace(
                path=f"/consumers/{group}/offsets/{topic}/{partition}", data=b"%d" % offset, op="create"
            )
            yield base._replace(path=marker, op="delete", data=None)
            yield base._replace(path=marker, op="create", data=data)
        elif event.path == "/other/x":
            yield event._replace(
                path="/config/topics/t", data=b'{"version":1,"config":{"a":"%d"}}' % draw.randrange(3)
            )
        else:
            yield event


def served(events: Iterable[Event]) -> Iterator[Event]:
    """The rows that a server applies, with creates of missing parents; a create of what is there sets it."""
    there: dict[str, int] = {}
    closed = 0
    for event in events:
        if event.op == "closeSession":
            closed = event.zxid
            yield event
            for sub, path in enumerate(
                sorted(each for each, owner in there.items() if owner == event.session)
            ):
                del there[path]
                yield event._replace(op="delete", path=path, sub=sub)
        elif not event.applied or event.op not in ("create", "set", "delete", "setACL"):
            yield event
        elif event.op == "delete":
            is_parent = any(path.startswith(f"{event.path}/") for path in there)
            if event.path in there and not is_parent and event.zxid != closed:
                del there[event.path]
                yield event
        elif event.op == "create" and event.path not in there:
            yield from _parents(event, there)
            if there.get(event.path.rpartition("/")[0], 0) == 0:  # ephemerals have no children
                there[event.path] = event.session if event.ephemeral == "session" else 0
                yield event
        elif event.path in there:
            op = event.op if event.op == "setACL" else "set"
            yield event._replace(op=op, ephemeral=None, acl=event.acl if op == "setACL" else None)


def _parents(event: Event, there: dict[str, int]) -> Iterator[Event]:
    names = event.path.split("/")[1:-1]
    for depth in range(1, len(names) + 1):
        path = "/" + "/".join(names[:depth])
        if path not in there:
            there[path] = 0
            yield event._replace(path=path, data=b"", ephemeral=None, version=0, acl=_OPEN)


class Cut(NamedTuple):
    """A snapshot to be made: exact where both zxids are the same."""

    zxid: int
    end_zxid: int
    is_server: bool = False
    unknown: frozenset[str] = frozenset()


def found_in(series: Series, **bounds: float) -> list[Finding]:
    """What all rules find; a bound is `RULE__BOUND`."""
    given = {name.replace("__", "."): value for name, value in bounds.items()}
    chosen = bounds_of([each.like or each for each in STATE_RULES], given)
    return sorted(find_states(STATE_RULES, series, chosen), key=order)


class History:
    """The states of all paths through time."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = list(served(events))
        self.times: list[tuple[int, int]] = []
        """Zxids and times of the transactions."""
        self.of_path: dict[str, list[tuple[int, StoredZnode | None]]] = {}
        self._now: dict[str, StoredZnode] = {}
        for zxid, rows in groupby(self.events, lambda event: event.zxid):
            touched: set[str] = set()
            for row in rows:
                touched |= self._apply(row)
                self.times.append((zxid, row.time_ms))
            for path in touched:
                self.of_path.setdefault(path, []).append((zxid, self._now.get(path)))

    def at(self, path: str, zxid: int) -> StoredZnode | None:
        """A path behind a transaction."""
        states = self.of_path.get(path, [])
        place = bisect_right(states, zxid, key=lambda each: each[0])
        return states[place - 1][1] if place else None

    def series(self, cuts: Sequence[Cut], draw: random.Random | None = None) -> Series:
        """The snapshots; `draw` gives the moments of fuzzy ones."""
        draw, table = draw or random.Random(0), Table()
        trees = list[list[StoredZnode]]([] for _ in cuts)
        for path in sorted(self.of_path):
            for cut, tree in zip(cuts, trees, strict=True):
                if not is_below(path, cut.unknown):
                    state = self.at(path, draw.randint(cut.zxid, cut.end_zxid))
                    tree += [] if state is None else [state]
        states = [table.intern(table.columns(there)) for there in trees]
        return Series([self._snapshot(cut) for cut in cuts], table, states)

    def _snapshot(self, cut: Cut) -> TreeSnapshot:
        place = bisect_right(self.times, cut.zxid, key=lambda each: each[0])
        time_ms = self.times[place - 1][1] if place else 0
        owners = (self.at(path, cut.zxid) for path in self.of_path)
        sessions = {each.stat.ephemeral_owner for each in owners if each is not None} - {0}
        return TreeSnapshot(
            Path("snapshot"),
            cut.zxid,
            cut.end_zxid,
            time_ms,
            "" if cut.zxid == cut.end_zxid else "fuzzy",
            sessions=dict.fromkeys(sessions, 1000) if cut.is_server else None,
            unknown=cut.unknown,
        )

    def _apply(self, row: Event) -> set[str]:
        path, now = row.path, self._now
        parent = path.rpartition("/")[0]
        if row.op == "closeSession":
            gone = {each for each, state in now.items() if state.stat.ephemeral_owner == row.session}
            return gone.union(*(self._deleted(each, row.zxid) for each in gone))
        if not row.applied or (row.op != "create" and path not in now):
            return set()
        if row.op == "create":
            owner = row.session if row.ephemeral == "session" else 0
            stat = StoredStat(row.zxid, row.zxid, row.time_ms, row.time_ms, 0, 0, 0, owner, row.zxid)
            now[path] = StoredZnode(path, row.data, row.acl, stat)
            if parent in now:
                old = now[parent].stat
                self._restat(parent, cversion=old.cversion + 1, pzxid=row.zxid)
        elif row.op == "delete":
            return self._deleted(path, row.zxid)
        elif row.op == "set":
            now[path] = now[path]._replace(data=row.data)
            version = now[path].stat.version + 1
            self._restat(path, mzxid=row.zxid, mtime=row.time_ms, version=version)
        elif row.op == "setACL":
            now[path] = now[path]._replace(acl=row.acl)
            self._restat(path, aversion=now[path].stat.aversion + 1)
        return {path, parent} & {*now, path}

    def _deleted(self, path: str, zxid: int) -> set[str]:
        parent = path.rpartition("/")[0]
        del self._now[path]
        if parent in self._now:
            self._restat(parent, pzxid=zxid)
        return {path, *([parent] if parent in self._now else [])}

    def _restat(self, path: str, **fields: int) -> None:
        state = self._now[path]
        self._now[path] = state._replace(stat=state.stat._replace(**fields))
