"""The sections of a report, of all rows or of one bucket after the other.

Objects are made of the rows of members, owners, topics and partition states alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final

import numpy as np
import pyarrow as pa

from zkgroup.audit.answers.partitions import EndedBy, OwnerLife
from zkgroup.audit.answers.reading import SessionsBuilder
from zkgroup.audit.answers.sessions import SessionRow
from zkgroup.audit.findings.buckets import LIMITS, AuditedRows, RowLimits
from zkgroup.audit.findings.cluster import partition_stretches
from zkgroup.audit.findings.group_rebalances import QUIET_MS, group_rebalances
from zkgroup.audit.findings.load import BY_AREA
from zkgroup.audit.findings.tables import ScreenTables
from zkgroup.audit.inputs.events import CREATE
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.keys import BY_MEMBERSHIP, BY_TOPIC
from zkgroup.audit.inputs.rows import Columns, Flags, Numbers, first_places
from zkgroup.audit.inputs.source import Rows
from zkgroup.audit.report.data import Drawn
from zkgroup.audit.report.keeping import ReportLimits
from zkgroup.audit.report.offsets import AllOffsets, OffsetColumns, OrderedTable
from zkgroup.audit.report.parquet import table_of
from zkgroup.audit.report.sections import AllRebalances, WriteLoad
from zkgroup.audit.report.tables import OWNERS, SESSIONS, Give, Partition, owner_lists, session_lists
from zkgroup.audit.report.timelines import Span, Timeline, replica_faults, replication, timeline_of
from zkgroup.znodes.paths import path_kind

_LAST_ZXID: Final = 2**63 - 1


class _FirstReading:
    """Holds what is to be known of all rows before the sections of any bucket: seen while they are read."""

    def __init__(self) -> None:
        self.owned: dict[Partition, None] = {}
        """The partitions with an owner, in the order in which they come first."""
        self.used: dict[Partition, None] = {}
        """Those with an owner or an offset."""
        self.ends: list[int] = []
        """The last zxid of each part."""
        self._paths: set[str] = set()
        self._sessions = SessionsBuilder()

    def sessions(self, facts: Facts) -> Sequence[SessionRow]:
        """All sessions."""
        return self._sessions.rows(facts)

    def add(self, part: Columns) -> None:
        """What stood before is the first part."""
        self._sessions.add(part)
        if not part.seed.all():
            self.ends.append(int(part.zxid[-1]))
        rows = np.flatnonzero(part.applied)
        for code in part.path[rows[first_places(part.path[rows])]].tolist():
            path = part.paths[code]
            if path in self._paths:
                continue
            self._paths.add(path)
            place = path_kind(path)
            if place.kind in ("owner", "offset"):
                partition = place.name, place.topic, place.partition
                self.used[partition] = None
                if place.kind == "owner":
                    self.owned[partition] = None


class ColumnsDrawing:
    """The rows of an audit, and the sections of its report. Close it when all is drawn."""

    def __init__(
        self,
        rows: Rows,
        group: str | None,
        limits: ReportLimits,
        give: Give,
        row_limits: RowLimits = LIMITS,
    ) -> None:
        seen = self._seen = _FirstReading()
        self.audited = AuditedRows(rows, group, row_limits, seen.add, self._add)
        facts = self.audited.facts
        self._limits, self._give = limits, give
        self._is_asked = False
        self._owned = {row: rank for rank, row in enumerate(islice(seen.owned, limits.partitions))}
        self._used = set(islice(seen.used, limits.partitions))
        at_once = not self.audited.written
        self._offset_table = OrderedTable(partial(give, "offsets"), seen.ends, at_once=at_once)
        self._owner_table = OrderedTable(partial(give, "owners"), seen.ends, at_once=at_once)
        self._rebalances = AllRebalances(limits)
        self._replica_faults: list[tuple[tuple[str, int], Span]] = []
        self._load = WriteLoad(facts, limits)
        self._offsets = AllOffsets(facts, limits)
        self._owners: Timeline[Partition] = timeline_of(facts, limits)

    def drawn(self) -> Drawn:
        """All sections, of what was computed for rules that were asked; if none were, it is computed here."""
        if not self._is_asked:
            for _ in self.audited.find((), {}):
                pass
        sessions = self._seen.sessions(self.audited.facts)
        self._give("sessions", table_of(SESSIONS, session_lists(sessions)))
        self._offset_table.finish()
        self._owner_table.finish()
        for row in islice(self._seen.owned, self._limits.partitions, None):
            self._owners.refuse(row)
        rebalances = self._rebalances.table()
        if rebalances is not None:
            self._give("rebalances", rebalances)
        self._load.end()
        offsets = self._offsets.drawn(len(self._seen.used) - len(self._used))
        faults = replication(self._replica_faults, self.audited.facts, self._limits)
        return Drawn(self._owners, self._rebalances, offsets, faults, sessions, self._load)

    def close(self) -> None:
        """Gives back what was kept."""
        self.audited.close()
        self._offset_table.close()
        self._owner_table.close()

    def _add(self, tables: ScreenTables) -> None:
        """Takes all rows, or those of one bucket. What rules have computed of them is used, then freed."""
        self._is_asked = True
        for key, of_group in tables.by_key(BY_MEMBERSHIP):
            self._rebalances.keep(of_group.once(group_rebalances, key, self.audited.facts, QUIET_MS))
        for key, of_topic in tables.by_key(BY_TOPIC):
            stretches = of_topic.once(partition_stretches, key, self.audited.facts)
            self._replica_faults += replica_faults(key[0], stretches)
        tables.forget_rows()
        _count_load(tables, self._load)
        tables.release()
        offsets = OffsetColumns(tables, self._used)
        offsets.add_to(self._offset_table)
        self._offsets.add(offsets)
        del offsets
        self._add_owners(tables)

    def _add_owners(self, tables: ScreenTables) -> None:
        """Ownerships come in the order in which they ended, and then those that did not."""
        rows, zxids, subs = [], [], []
        for row, life, sub in _owner_lives(tables, self.audited.facts, self._owned):
            ends = (life.from_zxid, life.to_zxid)
            self._owners.add(
                row, Span(life.from_ms, life.to_ms, life.thread, life.session, *ends, life.ended_by)
            )
            rows.append((row, life))
            zxids.append(_LAST_ZXID if life.to_zxid is None else life.to_zxid)
            subs.append(sub)
        if rows:
            table = table_of(OWNERS, owner_lists(rows))
            self._owner_table.add(
                lambda places: table.take(pa.array(places)),
                np.array(zxids, np.int64),
                np.array(subs, np.int64),
                np.zeros(len(rows), np.bool_),
                list,
            )


def _owner_lives(
    tables: ScreenTables, facts: Facts, ranks: Mapping[Partition, int]
) -> Iterator[tuple[Partition, OwnerLife, int]]:
    """Every ownership of these partitions, in the order in which they ended, each with the place of that row.

    Then those that did not, each with the rank of its partition.
    """
    p = tables.partitions
    claims, ends = p.ownerships()
    row_of_key = [(key[0], key[1], int(key[2])) for key in p.selection.keys]
    rank = np.array([ranks.get(row, -1) for row in row_of_key], np.int64)
    chosen: Flags = rank[p.selection.codes[claims]] >= 0
    claim, end = claims[chosen], ends[chosen]
    codes = p.selection.codes[claim]
    last = np.where(end < 0, len(tables.columns) + rank[codes], p.selection.rows[end])
    order = np.argsort(last)
    claim, end, codes = claim[order], end[order], codes[order]
    places: Numbers = np.where(end < 0, rank[codes], tables.columns.sub[p.selection.rows[end]])
    texts = tables.columns.data.take(p.selection.rows[claim]).to_pylist()
    synthetic = tables.columns.synthetic[p.selection.rows[end]]
    fields = zip(
        *(codes.tolist(), texts, p.session[claim].tolist(), p.zxid[claim].tolist()),
        *(p.time_ms[claim].tolist(), end.tolist(), p.zxid[end].tolist(), p.time_ms[end].tolist()),
        *(p.session[end].tolist(), (p.op[end] == CREATE).tolist(), synthetic.tolist(), places.tolist()),
        strict=True,
    )
    for code, text, session, zxid, ms, ended, to_zxid, to_ms, ender, is_claimed, is_made_up, place in fields:
        life = OwnerLife((text or b"").decode("utf-8", "replace"), session, zxid, ms)
        if ended >= 0:
            how: EndedBy = "session_end"
            if not is_claimed and ender != session:
                how = "deleted_by_other"
            elif not is_claimed and not is_made_up and not _ends(facts, session, to_zxid):
                how = "release"
            life = life._replace(
                to_zxid=to_zxid, to_ms=to_ms, ended_by=how, ender=None if is_claimed else ender
            )
        yield row_of_key[code], life, place


def _ends(facts: Facts, session: int, zxid: int) -> bool:
    """Returns whether a session ended with a transaction."""
    life = facts.sessions.get(session)
    return life is not None and life.to_zxid == zxid


def _count_load(tables: ScreenTables, load: WriteLoad) -> None:
    columns = tables.columns
    areas = tables.of(BY_AREA)
    refused = np.flatnonzero(~columns.applied[areas.rows])
    zxids = columns.zxid[areas.rows[refused]]
    kept: Flags = np.ones(len(areas.rows), np.bool_)
    kept[refused[1:][zxids[1:] == zxids[:-1]]] = False  # one failed multi, however many rows it has
    places, codes = areas.rows[kept], areas.codes[kept]
    sizes = np.bincount(codes, weights=tables.sizes(places), minlength=len(areas.keys))
    steps = (columns.time_ms[places] - load.start_ms) // load.step_ms
    cells = codes.astype(np.int64) * load.buckets + np.clip(steps, 0, load.buckets - 1)
    known, counts = np.unique(cells, return_counts=True)
    by_area: dict[int, dict[int, int]] = {}
    for cell, count in zip(known.tolist(), counts.tolist(), strict=True):
        area, step = divmod(cell, load.buckets)
        by_area.setdefault(area, {})[step] = count
    for first in first_places(codes).tolist():
        area, row = int(codes[first]), places[first]
        at = int(columns.zxid[row]), int(columns.sub[row])
        load.add(areas.keys[area][0], by_area[area], int(sizes[area]), at)
