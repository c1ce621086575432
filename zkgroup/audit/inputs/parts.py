"""Rows of a part of a history: within a chroot, between two transactions, and what stands before one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from zkgroup.audit.inputs.codes import CLOSE_SESSION, CREATE, CREATE_SESSION, DELETE, SET, SET_ACL
from zkgroup.audit.inputs.groups import is_of_groups
from zkgroup.audit.inputs.rows import Columns, Flags, columns_of, last_of_paths
from zkgroup.audit.inputs.state_at import StateBuilder
from zkgroup.audit.inputs.stored import joined
from zkgroup.audit.inputs.transactions import Transactions
from zkgroup.znodes.paths import path_kind

ROWS_PER_PART: Final = 400_000
_EVENTS_AT_A_TIME: Final = 1 << 15


class Parts(NamedTuple):
    """A range of a history as columns, part by part."""

    before: Columns
    """Holds what stood before it, as seeds."""
    logged: Iterator[Columns]
    """The rows in order, each part whole transactions. The ephemerals that no record of a session's end names
    are not deleted in them."""


class SessionParts(NamedTuple):
    """A range of a history for questions about sessions."""

    before: Columns
    logged: Iterator[tuple[Columns, Transactions | None]]
    """As of `Parts`. Where creates and sets of offsets are left out, with all transactions of the part."""

    @classmethod
    def of(cls, parts: Parts) -> SessionParts:
        """Of rows of which none are left out."""
        return cls(parts.before, ((part, None) for part in parts.logged))


def inside(columns: Columns, chroot: str) -> Columns:
    """Rows with the paths that clients of a chroot see; others are left out, those without a path stay."""
    if not chroot:
        return columns
    below = f"{chroot}/"
    seen = [
        path[len(chroot) :] if path.startswith(below) else "/" if path == chroot else path and None
        for path in columns.paths
    ]
    is_there = np.array([path is not None for path in seen], np.bool_)
    is_root = np.array([path == "/" for path in seen], np.bool_)
    kept = is_there[columns.path] & ~(is_root[columns.path] & columns.seed)
    return replace(columns.take(np.flatnonzero(kept)), paths=[path or "" for path in seen])


def between(columns: Columns, after_zxid: int, to_zxid: int | None) -> Columns:
    """The rows of the transactions behind one zxid, up to another."""
    kept: Flags = columns.zxid > after_zxid
    if to_zxid is not None:
        kept &= columns.zxid <= to_zxid
    return columns if kept.all() else columns.take(np.flatnonzero(kept))


def compact(columns: Columns) -> Columns:
    """The same rows without the paths that none of them has."""
    used, path = np.unique(columns.path, return_inverse=True)
    return replace(columns, path=path.astype(np.int32), paths=[columns.paths[code] for code in used.tolist()])


def apart(columns: Columns) -> tuple[Columns, Columns]:
    """Returns what stood before a history, and its rows."""
    return columns.take(np.flatnonzero(columns.seed)), columns.take(np.flatnonzero(~columns.seed))


def closes_in(columns: Columns) -> Columns:
    """The ends of sessions."""
    return columns.take(np.flatnonzero(columns.op == CLOSE_SESSION))


def of_group(columns: Columns, group: str) -> Columns:
    """Without the rows of other groups."""
    places = [path_kind(path) for path in columns.paths]
    kept = np.array([not is_of_groups(place) or place.name == group for place in places], np.bool_)
    return columns.take(np.flatnonzero(kept[columns.path]))


def behind(columns: Columns, zxid: int) -> Columns:
    """The rows behind a transaction, on what stood then."""
    is_before = columns.seed | (columns.zxid <= zxid)
    before, later = (columns.take(np.flatnonzero(mask)) for mask in (is_before, ~is_before))
    return joined([state_of(before), later])


def state_of(columns: Columns) -> Columns:
    """Returns what stands behind rows, as seeds of what follows. Memory: an object a znode and session."""
    op, path = columns.op, columns.path
    size = len(columns.paths)
    applied = columns.applied
    change = last_of_paths(size, path, applied & ((op == CREATE) | (op == DELETE)))
    matters: Flags = (op == CREATE_SESSION) | (op == CLOSE_SESSION)
    is_there = (change >= 0) & (op[change] == CREATE)
    matters[change[is_there]] = True
    for kind in (SET, SET_ACL):
        last = last_of_paths(size, path, applied & (op == kind))
        matters[last[is_there & (last > change)]] = True
    builder = StateBuilder()
    for event in columns.events(np.flatnonzero(matters)):
        builder.see(event)
    return columns_of(builder.seeds())


def sorted_seeds(seeds: Columns) -> Columns:
    """As a history begins with them: by zxid, path and session."""
    rank = np.empty(len(seeds.paths), np.int64)
    rank[np.array(sorted(range(len(seeds.paths)), key=seeds.paths.__getitem__), np.int64)] = np.arange(
        len(seeds.paths)
    )
    return seeds.take(np.lexsort((seeds.session, rank[seeds.path], seeds.zxid)))
