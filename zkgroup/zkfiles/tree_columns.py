"""Applies many records to a tree at once, and compares the digest of each: `Tree.apply` and `has` in columns.

Only what is plain is done here: every znode that is set or deleted is there, every one that is made is not,
counts of creates rise, nothing is deleted with children, and the record of a session's end names all its
ephemerals. Anything else is refused with nothing done, and is for the exact way to judge.

Each change of a znode, or of its children, is an event. Sorted by path they give each field the last event
that set it; what a field adds to the CRC is looked up where it is set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from zkgroup.zkfiles import digest_tables as crcs
from zkgroup.zkfiles.digest_tables import added_by, added_by_base, crc_of
from zkgroup.zkfiles.lifetimes import lifetime_of
from zkgroup.zkfiles.nodes import Node
from zkgroup.zkfiles.stretches import DROP, MAKE, SET, Compared, OddRowsError, PathCodes, Stretch
from zkgroup.zkfiles.tree import Tree

Numbers = NDArray[Any]
Flags = NDArray[np.bool_]

_CHILD_MADE, _CHILD_GONE = 4, 5
_LARGEST: Final = 2**31 - 1


class NumpyPaths(PathCodes):
    """The numbers of paths, and how records with them are applied."""

    def apply(self, tree: Tree, rows: Stretch) -> Compared:
        """Takes the next records. Raises OddRowsError, with nothing done, for what is not plain."""
        return apply_stretch(tree, rows, self)

    def settle(self) -> None:
        """Nothing is left to do."""


def apply_stretch(tree: Tree, rows: Stretch, paths: PathCodes) -> Compared:
    """Takes the next records. Raises OddRowsError, with nothing done, for what is not plain."""
    events = _events_of(rows, paths)
    names = [paths.names[code] for code in events.paths.tolist()]
    before = _Before(tree.nodes_at(names))
    _need_plain(tree, rows, events, before)
    lives = _Lives(rows, events, before)
    _need_whole_ends(tree, rows, events, names)
    bases = _bases(rows, events, paths)
    crc = _crcs(rows, events, before, lives, bases)
    earlier = np.append([0], crc[:-1])[: len(crc)]
    earlier[events.first] = before.crc
    moved = np.bincount(events.row, weights=crc - earlier, minlength=len(rows)).astype(np.int64)
    sums = tree.digest + np.cumsum(moved)
    is_end = np.append(rows.zxid[1:] != rows.zxid[:-1], True)
    is_compared = is_end & rows.has_digest
    wrong = np.flatnonzero(is_compared & (sums != rows.digest))
    if len(wrong) and not tree.keeps_charset(len(wrong)):
        raise OddRowsError("paths in another charset")
    nodes = _made_anew(tree, rows, events, before, lives, names)
    _write_back(tree, rows, events, nodes, lives, _Ends(crc, bases, sums))
    return Compared(
        int(is_end.sum()),
        int(is_compared.sum()),
        len(wrong),
        int(rows.zxid[wrong[0]]) if len(wrong) else None,
    )


# --- events -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Events:
    """By path, those of each path in order."""

    row: Numbers
    kind: Numbers
    of: Numbers
    """The place of its path in `paths`."""
    paths: Numbers
    """The codes of all paths that have events."""
    first: Numbers
    """For each of these the first event, and the last."""
    last: Numbers
    start: Numbers
    """For each event the first of its path."""

    def latest(self, mask: Flags) -> Numbers:
        """For each event the last of its path in a mask, itself included; -1 for none."""
        places = np.maximum.accumulate(np.where(mask, np.arange(len(mask)), -1))
        return np.where(places >= self.start, places, -1)


def _events_of(rows: Stretch, paths: PathCodes) -> _Events:
    own = np.flatnonzero(rows.act > 0)
    above = own[rows.act[own] != SET]
    parents = np.array(paths.parents, np.int64)
    row = np.concatenate((own, above))
    code = np.concatenate((rows.path[own], parents[rows.path[above]]))
    made = np.where(rows.act[above] == MAKE, _CHILD_MADE, _CHILD_GONE)
    kind = np.concatenate((rows.act[own], made))
    if not len(row) or (code < 0).any():
        raise OddRowsError("nothing to apply, or a path that is missing")
    order = np.lexsort((row, code))
    row, code, kind = row[order], code[order], kind[order]
    is_first = np.append([True], code[1:] != code[:-1])
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], len(row)) - 1
    of = np.cumsum(is_first) - 1
    return _Events(row, kind, of, code[first], first, last, first[of])


class _Before:
    """The znodes of the paths as they were, None where there was none."""

    def __init__(self, nodes: Sequence[Node | None]) -> None:
        self.nodes = nodes
        self.is_there: Flags = np.array([node is not None for node in nodes], np.bool_)
        fields = [
            (0,) * 12
            if node is None
            else (
                *(node.czxid, node.mzxid, node.pzxid, node.ctime, node.mtime, node.version),
                *(node.cversion, node.aversion, node.owner, node.children, node.base or 0, node.crc),
            )
            for node in nodes
        ]
        columns = np.array(fields, np.int64).T
        self.czxid, self.mzxid, self.pzxid, self.ctime, self.mtime, self.version = columns[:6]
        self.cversion, self.aversion, self.owner, self.children, self.base, self.crc = columns[6:]


def _need_plain(tree: Tree, rows: Stretch, events: _Events, before: _Before) -> None:
    """Whether each event fits what was there before it."""
    if tree.has_orphans or any(node is not None and node.base is None for node in before.nodes):
        raise OddRowsError("znodes that are not counted, or children of deleted ones")
    owners = np.unique(rows.session[(rows.act == MAKE) & rows.is_ephemeral])
    if any(lifetime_of(owner) != "session" for owner in owners.tolist()):
        raise OddRowsError("sessions whose ids mean something else in an owner")
    first_zxid = int(rows.zxid[0])
    if (before.czxid >= first_zxid).any() or (before.pzxid >= first_zxid).any():
        raise OddRowsError("znodes that are later than the records")
    there = np.append([False], events.kind[:-1] != DROP)
    there[events.first] = before.is_there
    if (there == (events.kind == MAKE)).any():
        raise OddRowsError("a znode that is missing, or one that is there already")


class _Lives:
    """Children and counts of creates of each znode behind each event."""

    def __init__(self, rows: Stretch, events: _Events, before: _Before) -> None:
        kind = events.kind
        self.made = events.latest(kind == MAKE)
        """For each event the create of its znode; -1 where it was there before."""
        change = np.where(kind == _CHILD_MADE, 1, np.where(kind == _CHILD_GONE, -1, 0))
        self.children: Numbers = self._since(events, change, before.children)
        if self.children[kind == DROP].any():
            raise OddRowsError("a znode that is deleted with children")
        self.cversion = self._cversions(rows, events, before)

    def _since(self, events: _Events, change: Numbers, start: Numbers) -> Numbers:
        """Sums of changes since the znode was made, or from what it had before."""
        total = np.cumsum(change)
        base = np.where(self.made >= 0, self.made, events.start)
        so_far = total - (total[base] - change[base])
        since: Numbers = so_far + np.where(self.made >= 0, 0, start[events.of])
        return since

    def _cversions(self, rows: Stretch, events: _Events, before: _Before) -> Numbers:
        count = np.where(events.kind == _CHILD_MADE, rows.count[events.row], -1)
        is_told = count != -1
        told = events.latest(is_told)
        told = np.where(told > self.made, told, -1)
        counted = self._since(
            events, ((events.kind == _CHILD_MADE) & ~is_told).astype(np.int64), before.cversion
        )
        found: Numbers = counted.copy()
        later = told >= 0
        found[later] = count[told[later]] + counted[later] - counted[told[later]]
        earlier = np.append([0], found[:-1])
        earlier[events.first] = before.cversion
        if (is_told & (found <= earlier)).any() or (found >= _LARGEST).any():
            raise OddRowsError("counts of creates that do not rise")
        return found


def _need_whole_ends(tree: Tree, rows: Stretch, events: _Events, names: Sequence[str]) -> None:
    """Whether each end of a session names all that was left of it."""
    if not rows.closed:
        return
    ends = {int(rows.session[row]): int(rows.zxid[row]) for row in rows.closed}
    is_drop = events.kind == DROP
    places = np.where(is_drop, np.arange(len(is_drop)), len(is_drop))
    following = np.minimum.accumulate(places[::-1])[::-1]
    zxids = np.append(rows.zxid[events.row], np.iinfo(np.int64).max)
    gone = np.where(following <= events.last[events.of], zxids[following], zxids[-1])
    made = np.flatnonzero((events.kind == MAKE) & rows.is_ephemeral[events.row])
    of_sessions = rows.session[events.row[made]].tolist()
    for session, zxid in zip(of_sessions, gone[made].tolist(), strict=True):
        if session in ends and zxid > ends[session]:
            raise OddRowsError("an ephemeral that the end of its session does not name")
    known = {name: place for place, name in enumerate(names)}
    for session, end in ends.items():
        for path in tree.ephemerals(session):
            place = known.get(path)
            if place is None or gone[events.first[place]] > end:
                raise OddRowsError("an ephemeral that the end of its session does not name")


# --- digests ------------------------------------------------------------------------------------------


def _bases(rows: Stretch, events: _Events, paths: PathCodes) -> Numbers:
    """For events that write data the CRC of path and data; 0 for others."""
    written = np.flatnonzero((events.kind == SET) | (events.kind == MAKE))
    seeds = np.array(paths.crcs, np.int64)[events.paths[events.of[written]]]
    data = rows.data
    values = [data[row] or b"" for row in events.row[written].tolist()]
    bases: Numbers = np.zeros(len(events.row), np.int64)
    bases[written] = list(map(crc32, values, seeds.tolist()))
    return bases


def _crcs(rows: Stretch, events: _Events, before: _Before, lives: _Lives, bases: Numbers) -> Numbers:
    """The digest of each znode behind each event; 0 where there is none."""
    kind, row = events.kind, events.row
    zxid, time_ms = rows.zxid[row], rows.time_ms[row]

    def of_field(mask: Flags, added: Numbers, at_first: Numbers) -> Numbers:
        """What the last event in a mask added, or what stood before all."""
        there = np.flatnonzero(mask)
        filled = np.zeros(len(kind), np.uint32)
        filled[there] = added
        latest = events.latest(mask)
        found: Numbers = np.where(latest >= 0, filled[latest], at_first[events.of])
        return found

    is_make = kind == MAKE
    owner = np.where(rows.is_ephemeral[row], rows.session[row], 0)
    added = of_field(
        is_make,
        _long(crcs.CZXID, zxid[is_make])
        ^ _long(crcs.CTIME, time_ms[is_make])
        ^ _long(crcs.OWNER, owner[is_make]),
        _long(crcs.CZXID, before.czxid)
        ^ _long(crcs.CTIME, before.ctime)
        ^ _long(crcs.OWNER, before.owner)
        ^ _int(crcs.AVERSION, before.aversion),
    )
    is_write = is_make | (kind == SET)
    version = np.where(is_make, 0, rows.version[row])
    added ^= of_field(
        is_write,
        _long(crcs.MZXID, zxid[is_write])
        ^ _long(crcs.MTIME, time_ms[is_write])
        ^ _int(crcs.VERSION, version[is_write])
        ^ added_by_base(bases[is_write]),
        _long(crcs.MZXID, before.mzxid)
        ^ _long(crcs.MTIME, before.mtime)
        ^ _int(crcs.VERSION, before.version)
        ^ added_by_base(before.base),
    )
    is_above = is_make | (kind >= _CHILD_MADE)
    added ^= of_field(
        is_above,
        _long(crcs.PZXID, zxid[is_above]) ^ _int(crcs.CVERSION, lives.cversion[is_above]),
        _long(crcs.PZXID, before.pzxid) ^ _int(crcs.CVERSION, before.cversion),
    )
    crc = crc_of(added)
    crc[kind == DROP] = 0
    return crc


def _long(place: int, values: Numbers) -> Numbers:
    return added_by(place, values, is_long=True)


def _int(place: int, values: Numbers) -> Numbers:
    return added_by(place, values, is_long=False)


# --- the tree behind the stretch ----------------------------------------------------------------------


class _Ends(NamedTuple):
    crc: Numbers
    bases: Numbers
    sums: Numbers


def _write_back(
    tree: Tree, rows: Stretch, events: _Events, nodes: list[Node | None], lives: _Lives, ends: _Ends
) -> None:
    """Brings the znodes of the events to what they are behind the last one."""
    kind, last = events.kind, events.last
    is_made, alive = kind == MAKE, np.flatnonzero(kind[last] != DROP)
    written = events.latest(is_made | (kind == SET))[last]
    above = events.latest(is_made | (kind >= _CHILD_MADE))[last]
    places = alive[written[alive] >= 0]
    row = events.row[written[places]]
    of_writes = zip(
        map(nodes.__getitem__, places.tolist()),
        map(rows.data.__getitem__, row.tolist()),
        ends.bases[written[places]].tolist(),
        rows.zxid[row].tolist(),
        rows.time_ms[row].tolist(),
        np.where(is_made[written[places]], 0, rows.version[row]).tolist(),
        strict=True,
    )
    for node, data, base, mzxid, mtime, version in of_writes:
        assert node is not None
        node.data, node.base = data, base
        node.mzxid, node.mtime, node.version = mzxid, mtime, version
    places = alive[above[alive] >= 0]
    of_children = zip(
        map(nodes.__getitem__, places.tolist()),
        rows.zxid[events.row[above[places]]].tolist(),
        lives.children[last[places]].tolist(),
        lives.cversion[last[places]].tolist(),
        strict=True,
    )
    for node, pzxid, children, cversion in of_children:
        assert node is not None
        node.pzxid, node.children, node.cversion = pzxid, children, cversion
    for place, crc in zip(alive.tolist(), ends.crc[last[alive]].tolist(), strict=True):
        nodes[place].crc = crc  # type: ignore[union-attr]
    rows.tell_sessions(tree.sessions)
    tree.jump(int(rows.zxid[-1]), int(rows.time_ms[-1]), int(ends.sums[-1]))


def _made_anew(
    tree: Tree, rows: Stretch, events: _Events, before: _Before, lives: _Lives, names: Sequence[str]
) -> list[Node | None]:
    """Takes nodes out that are gone, and puts those in that were made; gives those of all paths."""
    nodes = list(before.nodes)
    made = lives.made[events.last]
    is_gone = events.kind[events.last] == DROP
    for place in np.flatnonzero((is_gone | (made >= 0)) & before.is_there).tolist():
        tree.forget(names[place])
        nodes[place] = None
    places = np.flatnonzero(~is_gone & (made >= 0))
    row = events.row[made[places]]
    of_nodes = zip(
        places.tolist(),
        map(rows.acls.__getitem__, rows.acl[row].tolist()),
        np.where(rows.is_ephemeral[row], rows.session[row], 0).tolist(),
        rows.zxid[row].tolist(),
        rows.time_ms[row].tolist(),
        strict=True,
    )
    for place, acl, owner, zxid, time_ms in of_nodes:
        nodes[place] = tree.make(names[place], acl, owner, zxid, time_ms)
    return nodes
