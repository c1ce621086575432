"""The rows of owners and offsets, for the answers about partitions."""

from __future__ import annotations

import numpy as np

from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.rows import (
    ROWS_PER_PART,
    Columns,
    Flags,
    compact,
    fact_rows,
    facts_in,
    first_places,
    groups_of_paths,
    joined,
)
from zkgroup.audit.inputs.source import Rows
from zkgroup.znodes.paths import path_kind


def partition_rows(
    rows: Rows, group: str | None, rows_per_part: int = ROWS_PER_PART
) -> tuple[Facts, list[Event]]:
    """The facts, and the rows of owners and offsets of a group, or of all; of each other group one row.

    Memory: these rows, and a part of the others.
    """
    known: list[Columns] = []
    found: list[Event] = []
    seen = set[str]()
    for part in rows.parts(rows_per_part, None if group is None else (group,)):
        known.append(compact(part.take(fact_rows(part))))
        names, groups = groups_of_paths(part.paths)
        is_asked = (
            groups >= 0 if group is None else np.isin(groups, [names.index(group)] if group in names else [])
        )
        wanted = np.zeros(len(part.paths), np.bool_)
        for place in np.flatnonzero(is_asked).tolist():
            wanted[place] = path_kind(part.paths[place]).kind in ("owner", "offset")
        matters: Flags = wanted[part.path]
        is_new = np.append([name not in seen for name in names], False).astype(np.bool_)[groups]
        of_rows = np.flatnonzero(is_new[part.path])
        matters[of_rows[first_places(groups[part.path[of_rows]])]] = True
        seen.update(names)
        found += part.events(np.flatnonzero(matters))
    return rows.ended(facts_in(joined(known))), found
