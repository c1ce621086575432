"""Says what screens ask of the rows of groups."""

from __future__ import annotations

import numpy as np

from zkgroup.audit.findings.tables import ScreenTables
from zkgroup.audit.inputs.rows import Columns, Flags, Numbers
from zkgroup.audit.inputs.selection import Selection
from zkgroup.znodes.paths import Kind, path_kind


def is_kind(columns: Columns, rows: Numbers, *kinds: Kind) -> Flags:
    """Returns whether the path of a row is of one of these kinds."""
    of_path = np.array([path_kind(path).kind in kinds for path in columns.paths], np.bool_)
    found: Flags = of_path[columns.path[rows]]
    return found


def first_rows(selection: Selection) -> Flags:
    """The first row of each key."""
    flags: Flags = np.zeros(len(selection.rows), np.bool_)
    flags[np.unique(selection.codes, return_index=True)[1]] = True
    return flags


def last_before_the_end(tables: ScreenTables, groups: Selection) -> Numbers:
    """The places of the last rows that sessions which ended wrote in each group before their end."""
    columns, sessions = tables.columns, tables.facts.sessions
    ended = np.array(
        sorted(session for session, life in sessions.items() if life.to_zxid is not None), np.int64
    )
    if not len(ended):
        return np.zeros(0, np.int64)
    ends = np.array([sessions[session].to_zxid for session in ended.tolist()], np.int64)
    number = np.minimum(np.searchsorted(ended, columns.session[groups.rows]), len(ended) - 1)
    is_meant = (ended[number] == columns.session[groups.rows]) & ~columns.seed[groups.rows]
    places = np.flatnonzero(is_meant & (columns.zxid[groups.rows] != ends[number]))
    pairs = groups.codes[places].astype(np.int64) * len(ended) + number[places]
    before = columns.zxid[groups.rows[places]] < ends[number[places]]
    first_of_reversed = np.unique(pairs[before][::-1], return_index=True)[1]
    found: Numbers = places[before][::-1][first_of_reversed]
    return found
