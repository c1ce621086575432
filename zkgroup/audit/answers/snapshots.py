"""Owners, offsets and sessions as tree snapshots show them; what a log tells better is taken from there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from zkgroup.audit.answers.partitions import (
    GroupPartition,
    OffsetKind,
    OffsetRow,
    OwnerLife,
    offset_of,
    offsets_of,
    owners_of,
    require_partition,
)
from zkgroup.audit.answers.reading import partition_rows, session_views
from zkgroup.audit.answers.sessions import SessionRow, by_beginning
from zkgroup.audit.inputs.events import BY_GROUP_PARTITION, Key, is_of_groups, partition_of, require_group
from zkgroup.audit.inputs.facts import Facts, Life, brokers_of, members_of, server_of
from zkgroup.audit.inputs.series import Seen, SeriesFacts, SeriesSnapshot, States
from zkgroup.audit.inputs.snapshots import Series
from zkgroup.audit.inputs.source import PointInTime, Source, is_within
from zkgroup.errors import NotFoundError
from zkgroup.model import TopicPartition
from zkgroup.zkfiles.records import lifetime_of
from zkgroup.znodes.paths import path_kind

_Answer = TypeVar("_Answer")
Owners = dict[tuple[TopicPartition, int], OwnerLife]
"""Ownerships by partition and the zxid at which they began."""


def _answers(
    source: Source, of_rows: Callable[[], _Answer], of_series: Callable[[Series], _Answer]
) -> list[_Answer]:
    """What the log says, and then what each series says. Raises NotFoundError where none has it."""
    asks = [partial(of_series, each) for each in source.series]
    if source.history is not None or not source.series:
        asks.insert(0, of_rows)  # type: ignore[arg-type]
    found, missing = [], None
    for ask in asks:
        try:
            found.append(ask())
        except NotFoundError as error:
            missing = missing or error
    if missing is not None and not found:
        raise missing
    return found


def _facts_of(series: Series) -> Facts:
    """The ends of a series, and what each session registered."""
    of, first, last = series.facts, series.facts.snapshots[0], series.facts.snapshots[-1]
    return Facts(
        *(first.zxid, first.time_ms, last.end_zxid, last.time_ms),
        has_log=False,
        members={group: _lives(chain(*states.values())) for group, states in of.members.items()},
        brokers={broker: _lives(runs) for broker, runs in of.brokers.items()},
        controllers=_lives(of.controller),
    )


def _lives(runs: Iterable[Seen]) -> tuple[Life, ...]:
    states = [each.state for each in runs if each.state is not None]
    return tuple(
        Life(path, stat.ephemeral_owner, data, stat.czxid, stat.ctime) for path, data, _, stat in states
    )


def _last_facts(answers: Sequence[tuple[Facts, *tuple[Any, ...]]]) -> Facts:
    """Those of the log where there is one, up to the end of the answer that goes furthest."""
    last = max((answer[0] for answer in answers), key=lambda each: each.end_zxid)
    return replace(answers[0][0], end_zxid=last.end_zxid, end_ms=last.end_ms)


def _require(partition: TopicPartition | None, rows: Mapping[GroupPartition, object], facts: Facts) -> None:
    """Raises NotFoundError for a partition that a log does not show."""
    if partition is not None:
        changes = facts.topics.get(partition.topic, ())
        require_partition(partition, rows, [each.data for each in changes])


def _states(
    series: Series, group: str | None, partition: TopicPartition | None
) -> Mapping[GroupPartition, States]:
    """The owner and the offset of each partition. Raises NotFoundError for what no snapshot has."""
    require_group(group, (place.name for path in series.paths if is_of_groups(place := path_kind(path))))

    def is_wanted(key: Key) -> bool:
        of, topic, number = partition_of(key)
        return group in (None, of) and partition in (None, TopicPartition(topic, number))

    found = {
        GroupPartition(of, TopicPartition(topic, int(number))): states
        for (of, topic, number), states in series.in_order.keyed(BY_GROUP_PARTITION, is_wanted)
    }
    if partition is not None and not found:
        topics = series.facts.topics.get(partition.topic, ())
        require_partition(partition, (), [each.state.data for each in topics if each.state is not None])
    return found


def owners_in(
    source: Source,
    group: str,
    partition: TopicPartition | None,
    start: PointInTime | None,
    end: PointInTime | None,
) -> tuple[Facts, list[tuple[TopicPartition, OwnerLife]]]:
    """The ownerships of a group within a range, and the facts of what was read. Raises NotFoundError."""

    def of_rows() -> tuple[Facts, Owners]:
        facts, rows = partition_rows(source.rows(start or source.logged_from), group)
        _require(partition, rows, facts)
        found = [
            (where.topic_partition, life)
            for where, events in rows.items()
            for life in owners_of(events, facts)
        ]
        return facts, {(where, life.from_zxid): life for where, life in found if partition in (None, where)}

    def of_series(series: Series) -> tuple[Facts, Owners]:
        found: Owners = {}
        for where, states in _states(series, group, partition).items():
            for life in _owners(states, series.in_order.facts):
                found[where.topic_partition, life.from_zxid] = life
        return _facts_of(series), found

    zxids = source.zxids(start, end)
    answers = _answers(source, of_rows, of_series)
    lives: Owners = {}
    for _, owners in answers:
        for of, life in owners.items():
            known = lives.setdefault(of, life)
            if known.ended_by == "open" and life.to_zxid is not None:
                ends = {"to_zxid": life.to_zxid, "to_ms": life.to_ms, "ended_by": life.ended_by}
                lives[of] = known._replace(**ends)  # type: ignore[arg-type]
    in_order = sorted(lives.items(), key=lambda each: each[0])
    return _last_facts(answers), [
        (where, life) for (where, _), life in in_order if is_within(life.from_zxid, life.to_zxid, zxids)
    ]


def _owners(states: States, facts: SeriesFacts) -> Iterator[OwnerLife]:
    """The ownerships of a partition that snapshots have."""
    runs = [each for path, seen in states.items() if path_kind(path).kind == "owner" for each in seen]
    life: OwnerLife | None = None
    last = -1
    for seen in runs:
        state = seen.state
        if life is not None and (state is None or state.stat.czxid != life.from_zxid):
            snapshot = facts.snapshots[seen.first]
            yield life._replace(to_zxid=snapshot.end_zxid, to_ms=snapshot.time_ms, ended_by=None)
            life = None
        if state is not None and life is None:
            stat = state.stat
            is_of_session = lifetime_of(stat.ephemeral_owner) == "session"
            session = stat.ephemeral_owner if is_of_session else 0
            thread = (state.data or b"").decode("utf-8", "replace")
            life = OwnerLife(thread, session, stat.czxid, stat.ctime, is_ephemeral=is_of_session)
        last = seen.last
    if life is not None:
        is_open = facts.ends and last == len(facts.snapshots) - 1
        yield life._replace(ended_by="open" if is_open else None)


def offsets_in(
    source: Source,
    group: str | None,
    partition: TopicPartition | None,
    start: PointInTime | None,
    end: PointInTime | None,
) -> tuple[Facts, list[tuple[GroupPartition, OffsetRow]]]:
    """The writes of offsets within a range, and the facts of what was read. Raises NotFoundError."""
    zxids = source.zxids(start, end)

    def of_rows() -> tuple[Facts, list[tuple[GroupPartition, OffsetRow]]]:
        facts, rows = partition_rows(source.rows(start or source.logged_from, end), group)
        _require(partition, rows, facts)
        return facts, [
            (where, row)
            for where, events in rows.items()
            if partition in (None, where.topic_partition)
            for row in offsets_of(events, facts, where.group)
        ]

    def of_series(series: Series) -> tuple[Facts, list[tuple[GroupPartition, OffsetRow]]]:
        return _facts_of(series), [
            (where, row)
            for where, states in _states(series, group, partition).items()
            for row in _offsets(states, series.in_order.facts.snapshots)
            if is_within(row.zxid, row.zxid, zxids)
        ]

    answers = _answers(source, of_rows, of_series)
    found: list[tuple[GroupPartition, OffsetRow]] = []
    shown = set[GroupPartition]()
    for facts, rows in sorted(answers, key=lambda each: each[0].start_zxid):
        # The log has what it covers, and what stood at the beginning of a later part an earlier one shows.
        found += [
            (where, row)
            for where, row in rows
            if facts.has_log or not source.covers(row.zxid)
            if row.kind != "snapshot" or where not in shown
        ]
        shown.update(where for where, _ in rows)
    return _last_facts(answers), sorted(found, key=lambda each: each[1].zxid)


def _offsets(states: States, snapshots: Sequence[SeriesSnapshot]) -> Iterator[OffsetRow]:
    """What changed in the offset of a partition from one snapshot to the next that tells of it."""
    runs = [each for path, seen in states.items() if path_kind(path).kind == "offset" for each in seen]
    for before, now in zip([None, *runs], runs, strict=False):
        old, new = None if before is None else before.state, now.state
        if new is None:
            if old is not None:
                gone = snapshots[now.first]
                yield _row("deletion", gone.end_zxid, gone.time_ms, None, offset_of(old.path, old.data))
            continue
        offset, stat = offset_of(new.path, new.data), new.stat
        if before is None:
            yield _row("snapshot", stat.mzxid, stat.mtime, offset)
        elif old is None or old.stat.czxid != stat.czxid:
            yield _row("write", stat.mzxid, stat.mtime, offset, writes=stat.version + 1)
        elif old.stat.mzxid != stat.mzxid:
            previous = offset_of(old.path, old.data)
            writes = stat.version - old.stat.version
            yield _row("write", stat.mzxid, stat.mtime, offset, previous, writes)


def _row(
    kind: OffsetKind,
    zxid: int,
    time_ms: int,
    offset: int | None,
    previous: int | None = None,
    writes: int | None = None,
) -> OffsetRow:
    falls = offset is not None and previous is not None and offset < previous >= 0
    return OffsetRow(zxid, time_ms, 0, (), kind, offset, previous, None, None, falls, writes)


def sessions_in(source: Source) -> tuple[Facts, list[SessionRow], set[str]]:
    """The facts, every session, and the names of all groups."""

    def of_series(series: Series) -> tuple[Facts, list[SessionRow], set[str]]:
        places = map(path_kind, series.paths)
        return _facts_of(series), _sessions(series), {each.name for each in places if is_of_groups(each)}

    answers = _answers(source, lambda: session_views(source.rows()), of_series)
    rows: dict[int, SessionRow] = {}
    for _, some, _ in answers:
        for row in some:
            known = rows.setdefault(row.session, row)
            if known.ended == "open" and row.to_zxid is not None:
                rows[row.session] = known._replace(to_zxid=row.to_zxid, to_ms=row.to_ms, ended=None)
    groups = set[str]().union(*(names for *_, names in answers))
    return _last_facts(answers), by_beginning(rows.values()), groups


def _sessions(series: Series) -> list[SessionRow]:
    """The sessions that servers' snapshots list: from the first list with it to the first one without it."""
    facts = series.facts
    lists = [each for each in facts.snapshots if each.sessions is not None]
    seen: dict[int, list[int]] = {}
    for number, snapshot in enumerate(lists):
        for session in snapshot.sessions or ():
            seen.setdefault(session, []).append(number)
    roles = _facts_of(series)
    rows = []
    for session, numbers in seen.items():
        first, last = numbers[0], numbers[-1]
        begin = lists[first] if first else None
        end = lists[last + 1] if last + 1 < len(lists) else None
        rows.append(
            SessionRow(
                session,
                server_of(session),
                series.timeouts.get(session),
                *(begin and begin.zxid, begin and begin.time_ms, end and end.zxid, end and end.time_ms),
                ended="open" if end is None and facts.ends else None,
                writes=None,
                silence_ms=None,
                ephemerals=series.ephemerals(lists[last].number).get(session, 0),
                created=None,
                members=members_of(roles, session),
                brokers=brokers_of(roles, session),
                was_controller=any(each.session == session for each in roles.controllers),
            )
        )
    return rows
