"""Rows of intervals as timelines draw them: owners, controllers, brokers and faults of replicas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar

import numpy as np
import pyarrow as pa

from zkgroup.audit.answers.snapshots import lives_in
from zkgroup.audit.findings import cluster
from zkgroup.audit.findings.cluster import ChangeStamp, PartitionView, ViewStretch
from zkgroup.audit.findings.tables import ScreenTables
from zkgroup.audit.inputs.events import CREATE, Seen
from zkgroup.audit.inputs.facts import Facts, Life, decoded
from zkgroup.audit.inputs.rows import Flags, Numbers
from zkgroup.audit.inputs.snapshots import Series
from zkgroup.audit.report.keeping import LARGEST, Names, ReportLimits, Thinned
from zkgroup.audit.report.tables import Partition, keys_of, partition_columns, session_column, texts_of
from zkgroup.model.text import counted, duration_text, hex_zxid
from zkgroup.zkfiles.arrow import moments
from zkgroup.znodes.brokers import NO_LEADER, BrokerRegistration
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration

Row = TypeVar("Row", bound=tuple[str | int, ...])

_FINEST: Final = 4096
"""The first grain is the history divided by this."""

SPAN: Final = np.dtype(
    [
        *((name, np.int64) for name in ("row", "from_zxid", "to_zxid", "from_ms", "to_ms", "session")),
        *(("together", np.int64), ("is_open", np.bool_), ("name", np.object_), ("ended", np.object_)),
    ]
)
"""An interval: `name` is its owner, controller, broker or fault; `session` is 0 for none; `ended`
is the kind of its end. Where several are drawn `together`, the name is that of the last one."""
Span = tuple[Any, ...]
"""The fields of a SPAN but for its row."""


class Timeline(Generic[Row]):
    """The spans of a limited number of rows, as the page draws them.

    If there are too many spans, those of a row that follow each other within one grain become one, with their
    number.
    """

    def __init__(self, rows: Sequence[Row], facts: Facts, limits: ReportLimits) -> None:
        self.numbers = {row: number for number, row in enumerate(rows[: limits.partitions])}
        """The number of each row that is drawn."""
        self._refused, self._end_zxid = len(rows) - len(self.numbers), facts.end_zxid
        self._spans = Thinned(limits.spans, facts, _FINEST, _brought_together)
        self.add = self._spans.add

    def draw(self, spans: Iterable[tuple[Row, Span]]) -> None:
        """Adds spans with their rows, those of a row in order."""
        drawn = [(self.numbers[row], *span) for row, span in spans if row in self.numbers]
        self.add(np.array(sorted(drawn, key=itemgetter(0)), SPAN))

    def data(self, one: str, names: Names) -> dict[str, Any]:
        """The data as the page reads it; `one` is the noun for a row."""
        notes = []
        if self._refused:
            notes.append(f"{counted(self._refused, one)} more did not fit and are not drawn.")
        if self._spans.grain_ms:
            notes.append(
                f"Spans that follow each other within {duration_text(self._spans.grain_ms)} are drawn as one,"
                " with their number: there were too many."
            )
        spans = self._spans.by_row()
        rows = [
            [
                *(names.of(part) if isinstance(part, str) else part for part in row),
                [_fields(span, names) for span in self._each_once(spans[number])],
            ]
            for row, number in sorted(self.numbers.items())
            if number in spans
        ]
        return {"notes": notes, "rows": rows}

    def _each_once(self, spans: Sequence[tuple[Any, ...]]) -> Iterable[tuple[Any, ...]]:
        """In their order; of what both the log and snapshots have, as that which knows more has it."""
        end_zxid = self._end_zxid
        in_order = sorted(spans, key=lambda span: (span[1], end_zxid if span[7] else span[2]))
        return {span[1]: span for span in in_order}.values()


def timeline_of(spans: Sequence[tuple[Row, Span]], facts: Facts, limits: ReportLimits) -> Timeline[Row]:
    """The timeline of these spans, those of a row in order; the first rows are drawn."""
    timeline = Timeline(list(dict.fromkeys(row for row, _ in spans)), facts, limits)
    timeline.draw(spans)
    return timeline


def _brought_together(spans: Numbers, grain_ms: int, facts: Facts) -> Numbers:
    first, last = ((spans[end] - facts.start_ms) // grain_ms for end in ("from_ms", "to_ms"))
    is_open, is_within = spans["is_open"], spans["is_open"] | (first == last)
    joins = (spans["row"][1:] == spans["row"][:-1]) & (first[1:] == first[:-1])
    joins &= is_within[1:] & is_within[:-1] & ~is_open[:-1]
    is_first = np.append([True], ~joins)[: len(spans)]
    is_last = np.append(~joins, True)[: len(spans)]
    together: Numbers = spans[is_last]
    for name in ("from_ms", "from_zxid"):
        together[name] = spans[name][is_first]
    together["together"] = np.diff(np.cumsum(spans["together"])[is_last], prepend=0)
    return together


def _fields(span: tuple[Any, ...], names: Names) -> list[Any]:
    _, from_zxid, to_zxid, from_ms, to_ms, session, together, is_open, name, ended = span
    return [
        from_ms - names.start_ms,
        None if is_open else to_ms - from_ms,
        names.of(name),
        names.session(session),
        *names.zxids(from_zxid, None if is_open else to_zxid),
        names.of(ended),
        *([together] if together > 1 else ()),
    ]


def ownerships(tables: ScreenTables, numbers: Mapping[Partition, int]) -> tuple[Numbers, Any]:
    """The ownerships of these partitions, as SPAN and as OWNERS with ORDER.

    The rows of OWNERS are in the order in which ownerships ended; those that did not end come last.
    """
    p, columns = tables.partitions, tables.columns
    keys, number_of_key = keys_of(p, numbers)
    claim, end = p.ownerships()
    is_drawn: Flags = number_of_key[p.selection.codes[claim]] >= 0
    claim, end = claim[is_drawn], end[is_drawn]
    codes, last = p.selection.codes[claim], p.selection.rows[end]
    spans = np.zeros(len(claim), SPAN)
    spans["row"], spans["session"], spans["together"] = number_of_key[codes], p.session[claim], 1
    spans["from_ms"], spans["from_zxid"] = p.time_ms[claim], p.zxid[claim]
    spans["to_ms"], spans["to_zxid"], spans["is_open"] = p.time_ms[end], p.zxid[end], end < 0
    spans["name"] = texts_of(columns.data, p.selection.rows[claim])
    lives = [tables.facts.sessions.get(session) for session in p.session[claim].tolist()]
    ends = np.array([-1 if life is None or life.to_zxid is None else life.to_zxid for life in lives])
    is_deletion = p.op[end] != CREATE  # where a claim follows a claim, the log has a hole
    is_by_other = is_deletion & (p.session[end] != p.session[claim])
    is_asked_for = is_deletion & ~columns.synthetic[last] & (ends != p.zxid[end])
    how = ["open", "deleted_by_other", "release"]
    spans["ended"] = np.select([end < 0, is_by_other, is_asked_for], how, "session_end")
    order = np.argsort(np.where(end < 0, len(columns) + spans["row"], last))
    ended, is_open = spans[order], end[order] < 0
    return spans, pa.table(
        {
            **partition_columns(keys, codes[order]),
            "owner": pa.array(ended["name"], pa.string()),
            "session": session_column(ended["session"]),
            "from_zxid": pa.array(ended["from_zxid"]),
            "to_zxid": pa.array(ended["to_zxid"], mask=is_open),
            "from": moments(pa.array(ended["from_ms"])),
            "to": moments(pa.array(ended["to_ms"], mask=is_open)),
            "ended_by": pa.array(ended["ended"], pa.string()),
            "_zxid": pa.array(np.where(is_open, LARGEST, ended["to_zxid"])),
            "_path": pa.nulls(len(ended), pa.string()),
            "_sub": pa.array(np.where(is_open, ended["row"], columns.sub[last[order]])),
        }
    )


def proved_times(series: Series) -> list[int]:
    """By snapshot a time at which all stood that it has: a fuzzy one has some as they were when it began."""
    times = []
    for each in series.snapshots:
        zxids, stamps = np.split(series.table.stats[series.trees[each.number], :4], 2, axis=1)
        times.append(each.time_ms if each.is_exact else int(stamps[zxids <= each.zxid].max(initial=0)))
    return times


def seen_lives(series: Series, times: Sequence[int], *of_paths: Iterable[Seen]) -> Iterator[Life]:
    """The existences of znodes, each up to the last snapshot with it; `times` are those of `proved_times`."""
    for (path, data, _, stat), last, _ in lives_in(of_paths, series):
        to = max(last.zxid, stat.czxid), max(times[last.number], stat.ctime)
        yield Life(path, stat.ephemeral_owner, data, stat.czxid, stat.ctime, *to)


def controllers(facts: Facts, names: Names, limits: ReportLimits) -> dict[str, Any]:
    """The times of each controller, and every write of the epoch."""
    spans = []
    for life in facts.controllers:
        value = decoded(ControllerRegistration.decode, life.path, life.data)
        row = "cannot be read" if value is None else f"broker {value.broker}"
        until = facts.end_zxid if life.to_zxid is None else life.to_zxid - 1
        epoch = cluster.epoch_at(facts, until)
        name = cluster.controller_name(life)
        if epoch is not None:
            name = f"{name}, epoch {epoch}"
        spans.append(((row,), span_of(life, name, facts)))
    epochs = []
    for change in facts.controller_epochs[-limits.marks :]:
        value_ = decoded(ControllerEpoch.decode, ControllerEpoch.path(), change.data)
        session = names.session(change.session)
        text = "deleted" if change.data is None else "cannot be read" if value_ is None else str(value_.epoch)
        epochs.append([change.time_ms, hex_zxid(change.zxid), names.of(text), session])
    data = timeline_of(spans, facts, limits).data("controller", names)
    more = len(facts.controller_epochs) - len(epochs)
    if more:
        data["notes"].append(f"The first {more} writes of the epoch are left out.")
    return {**data, "epochs": epochs}


def brokers(facts: Facts, names: Names, limits: ReportLimits) -> dict[str, Any]:
    """The registrations of each broker, and the kind of their ends."""
    spans = []
    for broker, lives in facts.brokers.items():
        key = (int(broker) if broker.isdecimal() and len(broker) < 20 else 2**63, f"broker {broker}")
        for life in lives:
            value = decoded(BrokerRegistration.decode, life.path, life.data)
            address = "cannot be read" if value is None else f"{value.host}:{value.port}"
            spans.append((key, span_of(life, address, facts)))
    data = timeline_of(spans, facts, limits).data("broker", names)
    return {**data, "rows": [row[1:] for row in data["rows"]]}


def replica_faults(
    topic: str, partitions: Iterable[tuple[int, Sequence[ViewStretch]]]
) -> Iterator[tuple[tuple[str, int], Span]]:
    """The times in which a partition of a topic had no leader, or too few replicas in sync.

    Another fault begins another span.
    """
    for partition, stretches in partitions:
        for text, run in groupby(stretches, key=lambda stretch: _fault(stretch.view)):
            if text is not None:
                of_text = list(run)
                yield (topic, partition), _span(of_text[0].since, of_text[-1].to, text, "over")


def _fault(view: PartitionView) -> str | None:
    if view.state is None or view.is_deleting:
        return None
    if view.state.leader == NO_LEADER:
        return f"no leader; in sync {cluster.brokers_text(view.state.isr)}"
    missing = [broker for broker in view.replicas or () if broker not in view.state.isr]
    if not missing:
        return None
    return f"not in sync {cluster.brokers_text(missing)}; leader {view.state.leader}"


def span_of(life: Life, name: str, facts: Facts) -> Span:
    """The span of a life; what no transaction ended is up to the last snapshot with it."""
    is_seen = life.to_zxid is not None and life.ended_by is None
    ended = "seen" if is_seen else cluster.ending_text(facts, life)
    return _span(cluster.begin_of(life), cluster.end_of(life), name, ended)


def _span(since: ChangeStamp, to: ChangeStamp | None, name: str, ended: str) -> Span:
    until, how = (since, "open") if to is None else (to, ended)
    return since.zxid, until.zxid, since.time_ms, until.time_ms, since.session, 1, to is None, name, how
