"""The ends of ephemerals in a history that is read part by part."""

from __future__ import annotations

from typing import Final

import numpy as np

from zkgroup.audit.inputs.codes import CLOSE_SESSION, CREATE, DELETE, OF_SESSION
from zkgroup.audit.inputs.logs import all_ends_are_named, with_ends
from zkgroup.audit.inputs.parts import compact
from zkgroup.audit.inputs.rows import Columns, columns_of
from zkgroup.audit.inputs.stored import joined

_NOTHING: Final = columns_of(())


class Ends:
    """Takes the parts of a log in order, each of whole transactions. Memory: the ephemerals."""

    def __init__(self, before: Columns) -> None:
        """`before` is what stood before the log, as seeds."""
        self.living = before.take(np.flatnonzero(before.ephemeral == OF_SESSION))
        """A create of each ephemeral that there is behind the last part."""

    def added(self, part: Columns) -> Columns:
        """The part, with the deletes that no record of a session's end names, as `with_ends` has them."""
        known = len(self.living)
        rows = joined([self.living, _of_ephemerals(part)])
        if not all_ends_are_named(rows, _NOTHING):
            part = with_ends([part], self.living).behind(known)
            rows = joined([self.living, _of_ephemerals(part)])
        changes = np.flatnonzero(rows.op != CLOSE_SESSION)
        paths, last = np.unique(rows.path[changes][::-1], return_index=True)
        last_changes = np.sort(changes[::-1][last]) if len(paths) else changes
        self.living = compact(rows.take(last_changes[rows.op[last_changes] == CREATE]))
        return part


def _of_ephemerals(columns: Columns) -> Columns:
    """The rows that make ephemerals, that delete anything, and the ends of sessions."""
    makes = (columns.op == CREATE) & (columns.ephemeral == OF_SESSION)
    changes = columns.applied & (makes | (columns.op == DELETE))
    return columns.take(np.flatnonzero(changes | (columns.op == CLOSE_SESSION)))
