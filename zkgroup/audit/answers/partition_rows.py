"""The rows of owners and offsets, for the answers about partitions."""

from __future__ import annotations

from itertools import chain

import numpy as np

from zkgroup.audit.inputs.ends import Ends
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.fact_rows import fact_rows, facts_in, groups_of_paths
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.parts import ROWS_PER_PART, Parts, compact
from zkgroup.audit.inputs.rows import Columns, Flags, first_places
from zkgroup.audit.inputs.source import Rows
from zkgroup.audit.inputs.stored import joined
from zkgroup.znodes.paths import path_kind


def partition_rows(
    rows: Rows, group: str | None, rows_per_part: int = ROWS_PER_PART
) -> tuple[Facts, list[Event]]:
    """The facts, and the rows of owners and offsets of a group, or of all; of each other group one row.

    Memory: these rows, and a part of the others.
    """
    if group is not None and rows.parts_of_group is not None:
        parts = rows.parts_of_group(group, rows_per_part)
    else:
        parts = rows.parts(rows_per_part)
    return _partition_rows(rows, parts, group)


def _partition_rows(rows: Rows, parts: Parts, group: str | None) -> tuple[Facts, list[Event]]:
    ends, seen = Ends(parts.before), set[str]()
    known: list[Columns] = []
    found: list[Event] = []
    for part in chain((parts.before,), map(ends.added, parts.logged)):
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
