"""All sections of a report as plain data, made from all rows, or from one bucket after the other.

Only the rows of members, topics and partition states become objects.

Records are lists, to keep the file small; `assets/*.js` has the names of their fields. Times are milliseconds
since 1970, zxids text (a browser has no whole numbers of 64 bits), names places in the list `names`. Spans
and points of curves, which are most of the data, are written as differences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from math import inf
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from zkgroup.audit.answers.partitions import SessionRow, thread_of
from zkgroup.audit.answers.snapshots import SessionsBuilder, offsets_seen, partitions_in, sessions_in
from zkgroup.audit.findings.buckets import LIMITS, AuditedRows, RowLimits, TemporaryTables, by_code
from zkgroup.audit.findings.cluster import partition_stretches
from zkgroup.audit.findings.engine import ALL_RULES, KNOWN_RULES, Found
from zkgroup.audit.findings.group_rebalances import QUIET_MS, Rebalance, group_rebalances
from zkgroup.audit.findings.load import BY_AREA
from zkgroup.audit.findings.rules import SEVERITIES, TimeRange, merged
from zkgroup.audit.findings.tables import ScreenTables
from zkgroup.audit.incidents import incident
from zkgroup.audit.incidents.attribution import called
from zkgroup.audit.incidents.incident import FoundIncidents, cause_text, counts_of, damage_text
from zkgroup.audit.inputs.events import BY_MEMBERSHIP, BY_TOPIC
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.rows import Columns, Flags, first_places
from zkgroup.audit.inputs.snapshots import Series
from zkgroup.audit.inputs.source import Rows
from zkgroup.audit.report import timelines
from zkgroup.audit.report.keeping import Names, ReportLimits, shown, weightiest
from zkgroup.audit.report.tables import ORDER, TABLES, Give, Partition, rebalance_table, session_table
from zkgroup.audit.report.timelines import AllOffsets
from zkgroup.model.text import counted, hex_session, hex_zxid
from zkgroup.zkfiles.arrow import schema
from zkgroup.zkfiles.logs import FileHealth
from zkgroup.znodes.consumers import Owner
from zkgroup.znodes.paths import path_kind

SCHEMA: Final = "zkgroup.audit_report/1"
AREAS_MAX: Final = 2_000
_TABLE_MAX: Final = 60
_OTHER: Final = "everything else"
_LEAST_MS: Final = 1_000
_FLOWS_MAX: Final = 12
_TRIGGERS_MAX: Final = 12
_RETAKEN_MAX: Final = 8


class ColumnsDrawing:
    """The rows of an audit, and the sections of its report. Close it when the data is made."""

    def __init__(
        self,
        rows: Rows,
        group: str | None,
        limits: ReportLimits,
        give: Give,
        row_limits: RowLimits = LIMITS,
        series: Sequence[Series] = (),
    ) -> None:
        self._limits, self._give, self._series = limits, give, [each.in_order for each in series]
        self._owned: dict[Partition, None] = {}
        """The partitions with an owner, in the order of their first row."""
        self._used: dict[Partition, None] = {}
        """The partitions with an owner or an offset, in the order of their first row."""
        self._ends: list[int] = []
        """The last zxid of each part of the history."""
        self._builder = SessionsBuilder()
        self._is_asked = False
        self.audited = AuditedRows(rows, group, row_limits, self._see, self._add)
        facts = self.audited.facts
        for each in self._series:
            self._see_paths(each.paths)
        self._kept = TemporaryTables() if self.audited.written else None
        self._owners = timelines.Timeline(list(self._owned), facts, limits)
        self._offsets = AllOffsets(list(self._used), facts, limits)
        self._rebalances: list[Rebalance] = []
        self._rebalance_tables: list[Any] = []
        self._replica_faults: list[tuple[tuple[str, int], timelines.Span]] = []
        self._load = WriteLoad(facts, limits)
        ends = [(facts.start_zxid, facts.start_ms), (facts.end_zxid, facts.end_ms)]
        self._moments = ends if facts.has_log else ends[1:]
        """The ends of the rows."""
        self._proved = [self._moments[0][1], facts.end_ms]
        """The ends of the time of which they tell all."""
        self._snapshots: list[tuple[int, int]] = []
        """The zxids and times of those that no log covers."""
        self._registered = facts
        """With the brokers and controllers that snapshots show."""

    def finish(self) -> None:
        """Completes the sections; tables that no rule has computed are computed here."""
        if not self._is_asked:
            for _ in self.audited.find((), {}):
                pass
        for each in self._series:
            self._draw(each)
        facts, has_rows = self.audited.facts, self.audited.facts.has_log or not self._series
        of_rows = facts, self._builder.rows(facts), set[str]()
        parts = [*([None] if has_rows else []), *self._series]
        _, self._sessions, _ = sessions_in(parts, lambda: of_rows)
        self._give("sessions", session_table(self._sessions))
        for name, part in product(("offsets", "owners"), range(len(self._ends) + 2)):
            tables = [] if self._kept is None else self._kept.read(f"{name} {part}")
            if tables:  # in memory are the rows of one part
                table = pa.concat_tables(tables).sort_by([(key, "ascending") for key in ORDER])
                self._give(name, table.drop_columns(ORDER))
        if self._rebalance_tables:
            by_zxid = [("from_zxid", "ascending"), ("group", "ascending")]
            self._give("rebalances", pa.concat_tables(self._rebalance_tables).sort_by(by_zxid))

    def data(
        self,
        found: Found,
        incidents: FoundIncidents,
        inputs: Sequence[str],
        files: Iterable[FileHealth] = (),
        damage: Sequence[str] = (),
        notes: Sequence[str] = (),
    ) -> dict[str, Any]:
        """The report as the page reads it, after `finish`.

        Args:
            found: the findings of the same rows.
            incidents: the incidents of `found`.
            inputs: the inputs, as they were named.
            damage: texts about damaged or missing files.
        """
        facts, limits, seen, group = found.facts, self._limits, self.audited.rows.seen, self.audited.group
        moments = sorted(self._moments + self._snapshots)
        (start_zxid, start_ms), (end_zxid, end_ms) = moments[0], moments[-1]
        names = Names(limits.text, start_ms, start_zxid)
        left_out = sum(map(len, self._rebalance_tables)) - len(self._rebalances)
        faults = sorted(self._replica_faults, key=lambda fault: (fault[1][0], fault[0]))  # by their beginning
        return {
            "schema": SCHEMA,
            "inputs": [shown(each, limits.text) for each in inputs],
            "group": None if group is None else shown(group, limits.text),
            "from": start_ms,
            "to": max(end_ms, start_ms),
            "zxids": [hex_zxid(start_zxid), hex_zxid(end_zxid)],
            "has_log": facts.has_log,
            "logged": self._proved,
            "snapshots": [time_ms for _, time_ms in self._snapshots],
            "stands_on": [hex_zxid(seen.zxid), seen.is_exact, shown(seen.detail, limits.text)],
            "damage": [shown(each, limits.text) for each in damage],
            "notes": [shown(each, limits.text) for each in notes],
            "files": [
                [
                    *(shown(str(each.path), limits.text), each.kind, each.records, each.is_healthy),
                    *(each.is_exact, hex_zxid(each.first_zxid), hex_zxid(each.last_zxid)),
                    *(hex_zxid(each.good_until_zxid), shown(each.detail, limits.text)),
                ]
                for each in files
            ],
            "incidents": _incidents(incidents, names, limits),
            "findings": _findings(found, incidents, names, limits),
            "members": [  # a partition without an owner is a gap only while there is a member
                [names.of(group), [[each.from_ms, each.to_ms] for each in merged(map(TimeRange.of, lives))]]
                for group, lives in sorted(facts.members.items())
            ],
            "owners": self._owners.data("partition", names),
            "rebalances": _rebalances(self._rebalances, left_out, names, limits),
            "offsets": self._offsets.data(names),
            "controllers": timelines.controllers(self._registered, names, limits),
            "brokers": timelines.brokers(self._registered, names, limits),
            "replication": timelines.timeline_of(faults, facts, limits).data("partition", names),
            "sessions": _sessions(self._sessions, names, limits),
            "load": self._load.data(names),
            "names": names.texts,
        }

    def close(self) -> None:
        """Deletes the temporary tables."""
        self.audited.close()
        if self._kept is not None:
            self._kept.close()

    def _see(self, part: Columns) -> None:
        """Gets each part of the rows while they are read; the seeds are the first."""
        self._builder.add(part)
        if not part.seed.all():
            self._ends.append(int(part.zxid[-1]))
        rows = np.flatnonzero(part.applied)
        codes = part.path[rows[first_places(part.path[rows])]].tolist()
        self._see_paths(part.paths[code] for code in codes)

    def _see_paths(self, paths: Iterable[str]) -> None:
        for place in map(path_kind, paths):
            partition = place.name, place.topic, place.partition
            if place.kind in ("owner", "offset"):
                self._used[partition] = None
            if place.kind == "owner":
                self._owned[partition] = None

    def _draw(self, series: Series) -> None:
        """Adds what snapshots prove, beside the rows of a log or of the last one."""
        times, facts, lives = timelines.proved_times(series), self.audited.facts, timelines.seen_lives
        for at, states in partitions_in(series, self.audited.group).items():
            row = at.group, at.topic_partition.topic, at.topic_partition.partition
            owners = (runs for path, runs in states.items() if path_kind(path).kind == "owner")
            owned = lives(series, times, *owners)
            self._owners.draw((row, timelines.span_of(life, thread_of(life), facts)) for life in owned)
            self._offsets.add_seen(row, offsets_seen(states, series, at.group), times)
        controllers, brokers = self._registered.controllers, dict(self._registered.brokers)
        for path, runs in series.facts.items():
            kind, name, *_ = path_kind(path)
            if kind == "controller":
                controllers = (*controllers, *lives(series, times, runs))
            elif kind == "broker":
                brokers[name] = (*brokers.get(name, ()), *lives(series, times, runs))
        self._registered = replace(self._registered, controllers=controllers, brokers=brokers)
        log = range(facts.start_zxid - 1, facts.end_zxid + 1) if facts.has_log else ()
        moments = ((each.end_zxid, each.time_ms) for each in series.snapshots if each.time_ms)
        self._snapshots += (each for each in moments if each[0] not in log)
        self._proved = self._proved if facts.has_log else 2 * [times[-1]]

    def _add(self, tables: ScreenTables) -> None:
        """Adds all rows, or those of one bucket. Tables of them that rules have computed are then freed."""
        self._is_asked = True
        facts = self.audited.facts
        for key, of_group in tables.key_rows(BY_MEMBERSHIP):
            found = of_group.once(group_rebalances, key, facts, QUIET_MS)
            if found:
                self._rebalance_tables.append(rebalance_table(found))
                every = [*self._rebalances, *found]
                self._rebalances = weightiest(every, self._limits.rebalances, _weight)
        for key, of_topic in tables.key_rows(BY_TOPIC):
            stretches = of_topic.once(partition_stretches, key, facts)
            self._replica_faults += timelines.replica_faults(key[0], stretches)
        tables.forget_rows()
        self._load.add(tables)
        tables.release()
        self._put("offsets", self._offsets.add(tables))
        spans, owners = timelines.ownerships(tables, self._owners.numbers)
        self._owners.add(spans)
        self._put("owners", [owners] if len(spans) else [])

    def _put(self, name: str, tables: Iterable[Any]) -> None:
        """Adds rows of a table with ORDER: all in order, or those of one bucket, to be kept until `finish`.

        They are kept in temporary Parquet for each part of the history; the seeds are a part.
        """
        ends, types = np.array(self._ends, np.int64), schema(TABLES[name])
        for table in tables:
            rows = table.drop_columns(ORDER).cast(types)
            if self._kept is None:
                self._give(name, rows)
                continue
            for column in ORDER:
                rows = rows.append_column(column, table[column])
            parts = np.searchsorted(ends, table["_zxid"].to_numpy()) + 1
            parts[table["_path"].is_valid().to_numpy()] = 0
            for part, some in by_code(rows, parts):
                self._kept.add(f"{name} {part}", some)


class WriteLoad:
    """The number of operations by area of the tree, in equal steps of time."""

    def __init__(self, facts: Facts, limits: ReportLimits) -> None:
        self._start_ms, self._areas_drawn = facts.start_ms, limits.areas
        length_ms = max(facts.end_ms - facts.start_ms, 1)
        self._step_ms = max(-(-length_ms // limits.buckets), _LEAST_MS)
        self._steps = length_ms // self._step_ms + 1
        self._cells: list[tuple[tuple[int, int], str, int, int, int]] = []
        """The rows of one area and step: zxid and place of the first, area, step, number and bytes."""

    def add(self, tables: ScreenTables) -> None:
        """Counts rows in order."""
        columns, areas = tables.columns, tables.of(BY_AREA)
        refused = np.flatnonzero(~columns.applied[areas.rows])
        zxids = columns.zxid[areas.rows[refused]]
        kept: Flags = np.ones(len(areas.rows), np.bool_)
        kept[refused[1:][zxids[1:] == zxids[:-1]]] = False  # a failed multi counts once, whatever its rows
        places = areas.rows[kept]
        steps = np.clip((columns.time_ms[places] - self._start_ms) // self._step_ms, 0, self._steps - 1)
        cells, first, cell = np.unique(
            areas.codes[kept].astype(np.int64) * self._steps + steps, return_index=True, return_inverse=True
        )
        counts, sizes = np.bincount(cell), np.bincount(cell, tables.sizes(places)).astype(np.int64)
        ats = zip(columns.zxid[places[first]].tolist(), columns.sub[places[first]].tolist(), strict=True)
        for at, number, count, size in zip(ats, cells.tolist(), counts.tolist(), sizes.tolist(), strict=True):
            area, step = divmod(number, self._steps)
            self._cells.append((at, areas.keys[area][0], step, count, size))

    def data(self, names: Names) -> dict[str, Any]:
        """The data as the page reads it. The first areas are counted, and those with most are drawn."""
        counts: dict[str, Counter[int]] = {}
        sizes: Counter[str] = Counter()
        for _, name, step, count, size in sorted(self._cells, key=itemgetter(0)):
            area = name if name in counts or len(counts) < AREAS_MAX else _OTHER
            counts.setdefault(area, Counter())[step] += count
            sizes[area] += size
        totals = {area: each.total() for area, each in counts.items()}
        areas = sorted(totals, key=lambda area: (-totals[area], area))
        drawn, rest = areas[: self._areas_drawn], areas[self._areas_drawn :]
        series = [(area, counts[area]) for area in drawn]
        if rest:
            series.append((_OTHER, sum((counts[area] for area in rest), Counter())))
        notes = []
        if len(areas) > _TABLE_MAX:
            notes.append(f"{counted(len(areas) - _TABLE_MAX, 'subtree')} more are not in the table.")
        return {
            "notes": notes,
            "step_ms": self._step_ms,
            "series": [
                [names.of(area), [each[step] for step in range(self._steps)]] for area, each in series
            ],
            "rows": [[names.of(area), totals[area], sizes[area]] for area in areas[:_TABLE_MAX]],
        }


def _rebalances(
    found: Sequence[Rebalance], left_out: int, names: Names, limits: ReportLimits
) -> dict[str, Any]:
    kept = sorted(found, key=lambda each: (each.from_zxid, each.group))
    changes = max(limits.changes // max(len(kept), 1), 1)
    notes = []
    if left_out:
        notes.append(f"{counted(left_out, 'rebalance')} more, those that moved and cost least, are left out.")
    if any(len(each.changes) > changes for each in kept):
        notes.append(
            f"Of a rebalance the {changes} partitions that were longest without an owner are named; the"
            " numbers are of all."
        )
    return {"notes": notes, "rows": [_fields(each, names, changes) for each in kept]}


def _weight(one: Rebalance) -> tuple[float, int, str]:
    """The weight of a rebalance; of equal ones the first by zxid is heavier, whatever the order of groups."""
    return one.down_ms_max + 100 * one.moved + 1000 * one.unowned, -one.from_zxid, one.group


def _fields(one: Rebalance, names: Names, changes_max: int) -> dict[str, Any]:
    down = sorted(change.down_ms for change in one.changes if change.down_ms is not None)
    # First partitions without an owner at the end, then by the time without one.
    cost = {change: inf if change.after is None else change.down_ms or 0 for change in one.changes}
    named = sorted(one.changes, key=cost.__getitem__, reverse=True)[:changes_max]
    return {
        "group": names.of(one.group),
        "zxids": [hex_zxid(one.from_zxid), hex_zxid(one.to_zxid)],
        "from": one.from_ms,
        "to": one.to_ms,
        "triggers": [
            [trigger.cause, names.of(trigger.what), hex_zxid(trigger.zxid), trigger.time_ms]
            for trigger in one.triggers[:_TRIGGERS_MAX]
        ],
        "more_triggers": max(len(one.triggers) - _TRIGGERS_MAX, 0),
        "members": one.members,
        "touched": len(one.changes),
        "moved": one.moved,
        "least": one.least,
        "retaken": len(one.retaken),
        "retaken_named": [names.of(str(each)) for each in one.retaken[:_RETAKEN_MAX]],
        "unowned": one.unowned,
        "down_max": down[-1] if down else None,
        "down_median": down[len(down) // 2] if down else None,
        "flows": _flows(one, names),
        "changes": [
            [names.of(topic), partition, names.of(before), names.of(after), down_ms]
            for (topic, partition), before, after, down_ms in sorted(named, key=itemgetter(0))
        ],
    }


def _flows(one: Rebalance, names: Names) -> list[list[Any]]:
    flows = Counter(
        (_member(change.before), _member(change.after))
        for change in one.changes
        if change.before != change.after
    )
    most = sorted(flows.items(), key=lambda item: (-item[1], str(item[0])))
    return [[names.of(before), names.of(after), count] for (before, after), count in most[:_FLOWS_MAX]]


def _member(thread: str | None) -> str | None:
    return None if thread is None else Owner(thread).member or thread


def _sessions(rows: Sequence[SessionRow], names: Names, limits: ReportLimits) -> dict[str, Any]:
    kept = weightiest(rows, limits.sessions, _session_weight)
    notes = []
    if len(rows) > len(kept):
        notes.append(f"{counted(len(rows) - len(kept), 'session')} that did least are left out.")
    ends = Counter(row.ended for row in rows)
    return {
        "notes": notes,
        "counts": [ends["open"], ends["closed"], ends["expired"], ends[None]],
        "rows": [
            [
                *(names.of(hex_session(row.session)), row.server, row.timeout_ms, row.from_ms, row.to_ms),
                *(hex_zxid(row.from_zxid), hex_zxid(row.to_zxid), row.ended, row.writes, row.silence_ms),
                *(row.ephemerals, names.of(_role(row))),
            ]
            for row in kept
        ],
    }


def _session_weight(row: SessionRow) -> float:
    has_role = bool(row.members or row.brokers or row.was_controller)
    return 4e9 * has_role + 2e9 * (row.ended == "expired") + 1e9 * bool(row.created) + (row.writes or 0)


def _role(row: SessionRow) -> str:
    roles = [f"member {member} of {group}" for group, member in row.members]
    roles += [f"broker {broker}" for broker in row.brokers]
    return ", ".join([*roles, "controller"] if row.was_controller else roles)


def _incidents(found: FoundIncidents, names: Names, limits: ReportLimits) -> dict[str, Any]:
    """The worst incidents in their order, errors first."""
    kept = found.incidents[: limits.incidents]
    return {
        "left_out": len(found.incidents) - len(kept),
        "rows": [
            [
                *(one.number, SEVERITIES.index(one.severity), shown(one.title, 2 * limits.text)),
                *(names.of(one.group), one.from_ms, one.to_ms, hex_zxid(one.from_zxid)),
                *(hex_zxid(one.to_zxid), shown(cause_text(one.cause), limits.text)),
                *(names.session(one.cause.session), shown(damage_text(one.damage), limits.text), one.act),
                [[names.of(called(name, count)), count] for name, count in counts_of(one.findings).items()],
            ]
            for one in kept
        ],
    }


def _findings(found: Found, incidents: FoundIncidents, names: Names, limits: ReportLimits) -> dict[str, Any]:
    by_rule: dict[str, list[incident.NumberedFinding]] = {}
    for row in incidents.findings:
        by_rule.setdefault(row.finding.finding, []).append(row)
    rules: list[dict[str, Any]] = []
    for rule in KNOWN_RULES:
        mine = by_rule.get(rule.name, [])
        if not mine:
            continue
        kept = weightiest(
            mine, limits.findings_of_a_rule, lambda row: -SEVERITIES.index(row.finding.severity)
        )
        counts = Counter(row.finding.severity for row in mine)
        rules.append(
            {
                "name": rule.name,
                "title": called(rule.name, len(mine)),
                "question": rule.question,
                "act": rule.act,
                "counts": [counts[severity] for severity in SEVERITIES],
                "left_out": len(mine) - len(kept),
                "rows": [
                    [
                        *(SEVERITIES.index(one.severity), names.of(one.group), names.of(one.topic)),
                        *(one.partition, names.session(one.session)),
                        *(hex_zxid(one.from_zxid), hex_zxid(one.to_zxid), one.from_ms, one.to_ms),
                        *(shown(one.detail, 2 * limits.text), number),
                    ]
                    for one, number in kept
                ],
            }
        )
    rules.sort(key=lambda rule: tuple(-count for count in rule["counts"]))
    totals = Counter(one.severity for one in found.findings)
    return {
        "counts": [totals[severity] for severity in SEVERITIES],
        "asked": len(ALL_RULES) - len(found.skipped),
        "rules": rules,
        "skipped": [[one.rule.name, one.reason] for one in found.skipped],
    }
