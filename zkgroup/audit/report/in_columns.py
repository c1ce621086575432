"""The sections of a report in columns; needs numpy and pyarrow (the extra `fast`).

They are what `data.Sections` makes row by row. Objects are made of the rows of members, owners, topics and
partition states alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from zkgroup.audit.columns.codes import CREATE
from zkgroup.audit.columns.rows import Flags
from zkgroup.audit.columns.session_rows import sessions_in
from zkgroup.audit.columns.tables import ScreenTables
from zkgroup.audit.facts import Facts
from zkgroup.audit.findings.load import BY_AREA
from zkgroup.audit.keys import BY_MEMBERSHIP
from zkgroup.audit.owner_lives import EndedBy, OwnerLife
from zkgroup.audit.rebalances import QUIET_MS, group_rebalances
from zkgroup.audit.report import tables as shown_tables
from zkgroup.audit.report.cluster import Replication
from zkgroup.audit.report.data import Drawn, owner_span, see_topic
from zkgroup.audit.report.keeping import ReportLimits
from zkgroup.audit.report.load import AREAS_MAX, WriteLoad
from zkgroup.audit.report.offset_columns import OffsetColumns
from zkgroup.audit.report.rebalancing import AllRebalances
from zkgroup.audit.report.timelines import Timeline, timeline_of
from zkgroup.audit.screening import AuditedColumns
from zkgroup.znodes.paths import Kind, path_kind

_OF_TOPICS: Final[frozenset[Kind]] = frozenset(("topic", "partition_state", "admin"))
_WRITES_AT_A_TIME: Final = 50_000


def drawn_in(audited: AuditedColumns, limits: ReportLimits, shown: shown_tables.RowSink) -> Drawn:
    """All sections of the rows of an audit. What its rules have computed is not computed again, but freed."""
    tables, facts = audited.tables, audited.facts
    rebalances = AllRebalances(facts, limits, shown)
    for key, of_group in audited.by_key(BY_MEMBERSHIP):
        rebalances.keep(of_group.once(group_rebalances, key, facts, QUIET_MS))
    audited.forget_rows()
    load = _load(tables, facts, limits)
    sessions = sessions_in(tables.columns, facts, tables)
    for session in sessions:
        shown.add("sessions", shown_tables.session(session))
    tables.release()
    offsets = OffsetColumns(tables, limits)
    for arrays in offsets.tables(_WRITES_AT_A_TIME):
        shown.add_arrays("offsets", arrays)
    owners: Timeline[tuple[str, str, int]] = timeline_of(facts, limits)
    for row, life in _owner_lives(tables, facts, limits, owners):
        owners.add(row, owner_span(life))
        shown.add("owners", shown_tables.owner(row, life))
    replication = _replication(tables, facts, limits)
    return Drawn(owners, rebalances, offsets.drawn(), replication, sessions, load)


def _owner_lives(
    tables: ScreenTables, facts: Facts, limits: ReportLimits, owners: Timeline[tuple[str, str, int]]
) -> Iterator[tuple[tuple[str, str, int], OwnerLife]]:
    """Every ownership in the order in which they ended, and then those that did not."""
    p, claims = tables.partitions, tables.owners
    places = np.flatnonzero(p.is_owner)
    keys, firsts = np.unique(p.selection.codes[places], return_index=True)
    firsts = p.selection.rows[places[firsts]]
    by_first = keys[np.argsort(firsts)]
    row_of_key = [(key[0], key[1], int(key[2])) for key in p.selection.keys]
    for code in by_first[limits.partitions :].tolist():
        owners.refuse(row_of_key[code])
    rank = np.full(len(row_of_key), -1)
    rank[by_first[: limits.partitions]] = np.arange(min(len(by_first), limits.partitions))
    chosen = rank[p.selection.codes[claims.claim]] >= 0
    claim, end, is_open = claims.claim[chosen], claims.end[chosen], claims.is_open[chosen]
    codes = p.selection.codes[claim]
    last = np.where(is_open, len(tables.columns) + rank[codes], p.selection.rows[end])
    order = np.argsort(last)
    claim, end, codes = claim[order], end[order], codes[order]
    texts = tables.columns.data.take(p.selection.rows[claim]).to_pylist()
    synthetic = tables.columns.synthetic[p.selection.rows[end]]
    fields = zip(
        *(codes.tolist(), texts, p.session[claim].tolist(), p.zxid[claim].tolist()),
        *(p.time_ms[claim].tolist(), end.tolist(), p.zxid[end].tolist(), p.time_ms[end].tolist()),
        *(p.session[end].tolist(), (p.op[end] == CREATE).tolist(), synthetic.tolist()),
        strict=True,
    )
    for code, text, session, zxid, ms, ended, to_zxid, to_ms, ender, is_claimed, is_made_up in fields:
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
        yield row_of_key[code], life


def _ends(facts: Facts, session: int, zxid: int) -> bool:
    """Whether a session ended with a transaction."""
    life = facts.sessions.get(session)
    return life is not None and life.to_zxid == zxid


def _replication(tables: ScreenTables, facts: Facts, limits: ReportLimits) -> Replication:
    columns, found = tables.columns, Replication(facts, limits)
    of_topics = np.array([path_kind(path).kind in _OF_TOPICS for path in columns.paths], np.bool_)
    for event in columns.events(np.flatnonzero(columns.applied & of_topics[columns.path])):
        see_topic(event, path_kind(event.path), facts, found)
    found.end()
    return found


def _load(tables: ScreenTables, facts: Facts, limits: ReportLimits) -> WriteLoad:
    columns, load = tables.columns, WriteLoad(facts, limits)
    areas = tables.of(BY_AREA)
    if len(areas.keys) >= AREAS_MAX:  # which ones are counted apart depends on which came first
        for event in columns.events():
            load.see(event)
        return load
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
    for area, of_steps in by_area.items():
        load.add(areas.keys[area][0], of_steps, int(sizes[area]))
    return load
