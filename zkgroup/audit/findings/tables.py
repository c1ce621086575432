"""Says what screens read: the rows of partitions, groups and sessions, with their state at each row."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zkgroup.audit.findings.owner_columns import OwnerTable
from zkgroup.audit.findings.partition_columns import PartitionTable
from zkgroup.audit.findings.session_columns import SessionTable
from zkgroup.audit.inputs.events import CREATE, DELETE, OF_SESSION, Event
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.keys import BY_GROUP, BY_GROUP_PARTITION, BY_MEMBERSHIP, BY_SESSION, Keys
from zkgroup.audit.inputs.rows import Columns, Flags, Numbers, last_of_paths
from zkgroup.audit.inputs.selection import Keyed, Selection


class ScreenTables:
    """The tables of one history; each is made when a screen asks for it."""

    def __init__(self, columns: Columns, facts: Facts) -> None:
        self.columns, self.facts = columns, facts
        self._keyed = Keyed(columns)

    def of(self, keys: Keys) -> Selection:
        """All rows that have a key."""
        return self._keyed.of(keys)

    def release(self) -> None:
        """Frees all but the tables of partitions and their owners; what is freed can be made again."""
        self._keyed.release()
        for name in ("sessions", "groups", "odd_groups"):
            self.__dict__.pop(name, None)

    @cached_property
    def partitions(self) -> PartitionTable:
        """Owners and offsets of groups, partition by partition."""
        return PartitionTable(self.columns, self.of(BY_GROUP_PARTITION).by_key())

    @cached_property
    def owners(self) -> OwnerTable:
        """The ownerships of partitions."""
        return OwnerTable(self.columns, self.facts, self.partitions)

    @cached_property
    def sessions(self) -> SessionTable:
        """Rows of sessions, failed ones too."""
        return SessionTable(self.columns, self.facts, self.of(BY_SESSION))

    @cached_property
    def groups(self) -> Selection:
        """All rows of groups."""
        return self.of(BY_GROUP)

    @cached_property
    def last_memberships(self) -> Selection:
        """Of each path among the rows of BY_MEMBERSHIP its last create, and the rows behind it.

        They make the same `replayed_group` as all rows: a create replaces what was known of a member or an
        owner. Of a path without a create all rows are there.
        """
        rows, columns = self.of(BY_MEMBERSHIP), self.columns
        paths = columns.path[rows.rows]
        made = last_of_paths(len(columns.paths), paths, columns.op[rows.rows] == CREATE)
        return rows.where(np.arange(len(paths)) >= made[paths])

    def made_persistent(self, keys: Keys) -> Selection:
        """The rows of those keys, each of one path, of which some create is not that of an ephemeral.

        Keys are asked for of few paths: of those with such a create.
        """
        columns = self.columns
        is_made = columns.applied & (columns.op == CREATE) & (columns.ephemeral != OF_SESSION)
        found: dict[int, tuple[str, ...]] = {}
        for code in np.unique(columns.path[is_made]).tolist():
            key = keys.key(Event(0, 0, 0, 0, 0, "create", columns.paths[code]))
            if key is not None:
                found[code] = key
        of_paths = np.full(len(columns.paths), -1, np.int32)
        of_paths[list(found)] = np.arange(len(found))
        changes = columns.applied & ((columns.op == CREATE) | (columns.op == DELETE))
        rows = np.flatnonzero(changes & (of_paths[columns.path] >= 0)) if found else np.zeros(0, np.int64)
        return Selection(rows, of_paths[columns.path[rows]], list(found.values()))

    @cached_property
    def odd_groups(self) -> Flags:
        """Of each group: whether it has a partition with an offset that is no plain number."""
        odd = {
            self.partitions.selection.keys[code][0] for code in np.flatnonzero(self.partitions.odd).tolist()
        }
        return np.array([key[0] in odd for key in self.groups.keys], np.bool_)

    def written_ms(self, rows: Numbers) -> Numbers:
        """Returns when rows were written: of seeds, when their data was, or they were made if that is
        later."""
        mtime_ms = pc.fill_null(self.columns.mtime_ms.take(pa.array(rows)), 0).to_numpy()
        written: Numbers = np.maximum(self.columns.time_ms[rows], mtime_ms)
        return written

    def set_ms(self, rows: Numbers) -> Numbers:
        """Returns when rows set their data: of seeds, when it was set last, where that is known."""
        mtime_ms = self.columns.mtime_ms.take(pa.array(rows))
        is_known = self.columns.seed[rows] & mtime_ms.is_valid().to_numpy(zero_copy_only=False)
        at_ms: Numbers = np.where(is_known, pc.fill_null(mtime_ms, 0).to_numpy(), self.columns.time_ms[rows])
        return at_ms

    def sizes(self, rows: Numbers) -> Numbers:
        """Bytes of data."""
        sizes: Numbers = pc.fill_null(pc.binary_length(self.columns.data.take(pa.array(rows))), 0).to_numpy()
        return sizes.astype(np.int64)
