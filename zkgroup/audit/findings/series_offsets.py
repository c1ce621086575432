"""What a series of snapshots shows of offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from zkgroup.audit.findings import offsets
from zkgroup.audit.findings.offsets import marked_partition
from zkgroup.audit.findings.rules import Bounds, Severity, StateRule
from zkgroup.audit.findings.states import (
    Between,
    Shown,
    Stretch,
    is_proved,
    lasting,
    lives,
    remade,
    rewrites,
    runs_of,
    session_in,
    span_ms,
    stretches,
    times_text,
    turns,
)
from zkgroup.audit.inputs.events import Event, Key, Keys, is_of_groups
from zkgroup.audit.inputs.facts import decoded
from zkgroup.audit.inputs.series import Seen, SeriesFacts, States, ZnodeState
from zkgroup.model import TopicPartition
from zkgroup.model.text import counted
from zkgroup.znodes.consumers import Offset, offset_path, owner_path, subscription_kind
from zkgroup.znodes.group_records import AuditRecord, Reset
from zkgroup.znodes.paths import partition_of, path_kind

_DIGITS: Final = 19
"""Fewer of them are an offset whatever they are, and almost every offset has fewer."""


def _of_group(event: Event) -> Key | None:
    place, name = path_kind(event.path), event.path.rpartition("/")[2]
    return (place.name,) if is_of_groups(place) else (name,) if event.path == AuditRecord.path(name) else None


BY_GROUP_ACTS: Final = Keys("group_acts", _of_group)
"""All of a group, and the last change of its offsets by an operator; key: the group."""
_ACT_MS: Final = 60_000
"""An operator's change of many offsets takes several transactions, and no longer than this."""


def _value(state: ZnodeState | None) -> int | None:
    data = None if state is None else state.data
    if data is not None and data.isdigit() and len(data) < _DIGITS:
        return int(data)
    offset = None if state is None else decoded(Offset.decode, state.path, data)
    return None if offset is None else offset.value


def _offsets(states: States) -> Iterator[tuple[TopicPartition, Sequence[Seen]]]:
    for path, of_path in states.items():
        if path_kind(path).kind == "offset":
            yield partition_of(path), of_path


def _resets(states: States, group: str) -> Iterator[tuple[TopicPartition, Sequence[Seen]]]:
    """The markers of an operator's resets."""
    for path, of_path in states.items():
        if (partition := marked_partition(path, group)) is not None:
            yield partition, of_path


def _is_up_to(offset: int, marker: ZnodeState) -> bool:
    reset = _reset(marker)
    return reset is not None and reset.offset <= offset


def _is_recorded(states: States, group: str, old: ZnodeState, new: ZnodeState) -> bool:
    """True if an operator changed offsets of the group between two writes, or at the second one."""
    acts = (seen.state.stat for seen in states.get(AuditRecord.path(group), ()) if seen.state is not None)
    return any(old.stat.mzxid < each.mzxid and each.mtime <= new.stat.mtime + _ACT_MS for each in acts)


def _reset(marker: ZnodeState | None) -> Reset | None:
    return None if marker is None else decoded(Reset.decode, marker.path, marker.data)


@StateRule.of(offsets.offset_regression, BY_GROUP_ACTS)
def offset_regression(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """An offset that is lower than in the snapshot before, though its znode is the same.

    Some write between the two set it back; `at_zxid` is that write where it was the only one. Info where an
    operator's marker explains it. Snapshots do not tell who wrote.
    """
    markers = dict(_resets(states, key[0]))
    for partition, of_path in _offsets(states):
        for rewrite in rewrites(of_path):
            was, now = _value(rewrite.old), _value(rewrite.new)
            if was is None or now is None or not now < was >= 0:
                continue
            detail = f"{was} -> {now}, in {counted(rewrite.writes, 'write')}"
            severity: Severity = "error"
            between = range(rewrite.old.stat.mzxid + 1, rewrite.new.stat.mzxid + 1)
            resets = (seen.state for seen in markers.get(partition, ()) if seen.state is not None)
            is_marked = any(each.stat.mzxid in between and _is_up_to(now, each) for each in resets)
            if is_marked or _is_recorded(states, key[0], rewrite.old, rewrite.new):
                detail, severity = f"{detail}; an operator's reset, by its marker", "info"
            place = (key[0], *partition)
            yield Shown(rewrite.between, detail, place, None, rewrite.at_zxid, severity)


@StateRule(
    question="Which offsets were deleted, and which of them were made again?",
    act="A consumer without an offset begins where its reset policy says. Find out who deletes below"
    " `offsets`: a tool that prunes groups, or a client that makes its offset anew at each start.",
    keys=BY_GROUP_ACTS,
)
def offset_deleted(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """An offset that was deleted, or made again (`czxid`): its value goes on from nothing.

    A warning where the new one is lower, info otherwise. `at_zxid` is the create of the new znode.
    """
    for partition, of_path in _offsets(states):
        place = (key[0], *partition)
        for turn in remade(of_path):
            was, now = _value(turn.old), _value(turn.new)
            severity: Severity = "warning" if (now or 0) < (was or 0) else "info"
            detail = f"deleted and made again: it was {was}, and then {now}"
            yield Shown(turn.between, detail, place, None, turn.new and turn.new.stat.czxid, severity)
        gone = [turn for turn in turns(of_path) if turn.new is None][-1:]
        if gone and of_path[-1].state is None:
            detail = f"deleted; it was {_value(gone[0].old)}"
            yield Shown(gone[0].between, detail, place, severity="info")


@StateRule.of(offsets.commit_rate, BY_GROUP_ACTS)
def commit_rate(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """How often the offsets of a group were written, by the growth of their versions.

    Claims of zkgroup's members count, too; writes of a znode that was deleted in between are not known.
    """
    writes: Counter[Between] = Counter()
    for _, of_path in _offsets(states):
        for rewrite in rewrites(of_path):
            writes[rewrite.between] += rewrite.writes
        for turn in turns(of_path):
            writes[turn.between] += 0 if turn.new is None else turn.new.stat.version + 1

    rates = {pair: 1_000 * number / ms for pair, number in writes.items() if (ms := span_ms(pair, facts))}
    if total := writes.total():
        whole = min(first for first, _ in writes), max(last for _, last in writes)
        detail = f"at least {counted(total, 'write')} of offsets"
        if rates:
            busiest = max(rates, key=lambda pair: (rates[pair], pair))
            since, until = (facts.snapshots[number] for number in busiest)
            detail += f", most between {since.zxid:#x} and {until.end_zxid:#x}: {rates[busiest]:.2f}/s"
        yield Shown(whole, detail, (key[0], None, None))


@StateRule.of(offsets.stalled_offset, BY_GROUP_ACTS, {"snapshots": 3})
def stalled_offset(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """A partition that had an owner in `snapshots` of them or more, one after the other, without a commit.

    Its offset was not written in all that time, or is missing in each of them.
    """
    least = bounds["snapshots"]
    for path, of_owner in states.items():
        if path_kind(path).kind != "owner":
            continue
        partition = partition_of(path)
        for seen in runs_of(states, offset_path(key[0], partition), facts):
            some = stretches(of_owner, [seen]) if seen.last - seen.first + 1 >= least else ()
            for between, sessions in lasting(some, _holder, facts, least):
                what = "without an offset" if seen.state is None else f"at {_value(seen.state)}"
                detail = f"{what}{times_text(between, facts)}, with an owner in each of them"
                session = sessions[0] if len({*sessions}) == 1 else None
                yield Shown(between, detail, (key[0], *partition), session, lasts=True)


def _holder(stretch: Stretch) -> int | None:
    """The session of the owner, 0 for one that none holds; None where there is no owner."""
    state = stretch.seen[0].state
    return None if state is None else session_in(state) or 0


@StateRule.of(offsets.reset_overwritten, BY_GROUP_ACTS)
def reset_overwritten(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """An offset that an operator set, by its marker, and that was written otherwise after that.

    Lower than the marker, which nobody who obeys it writes; or, of an offset that was set back, as high again
    as before, by the one write behind it, or while a member of Kafka's own consumer owned it all along.
    """
    for partition, of_marker in _resets(states, key[0]):
        of_offset, told = states.get(offset_path(key[0], partition), ()), 0
        for stretch in stretches(of_marker, of_offset):
            marker, offset = (seen.state for seen in stretch.seen)
            if marker is None or offset is None or marker.stat.mzxid == told or not is_proved(stretch, facts):
                continue
            owners = states.get(owner_path(key[0], partition), ())
            kept = [
                life.end
                for life in lives(owners)
                if life.czxid < marker.stat.mzxid and life.between[1] >= stretch.seen[1].first
            ]
            detail = _overwritten(marker, offset, of_offset, any(_is_jvm(each, states) for each in kept))
            if detail is not None and not _is_recorded(states, key[0], marker, offset):
                told = marker.stat.mzxid
                yield Shown((max(stretch.first - 1, 0), stretch.first), detail, (key[0], *partition))


def _overwritten(
    marker: ZnodeState, offset: ZnodeState, of_offset: Sequence[Seen], has_jvm_owner: bool
) -> str | None:
    """The way in which an offset was overwritten after a reset; None where that is not known."""
    reset, now, at = _reset(marker), _value(offset), marker.stat.mzxid
    if reset is None or reset.offset < 0 or now is None or not offset.stat.czxid <= at < offset.stat.mzxid:
        return None
    what = f"reset to {reset.offset} by {reset.by} (zxid {at:#x}), and then written: {now}"
    if 0 <= now < reset.offset:
        return what
    states = [seen.state for seen in of_offset if seen.state and seen.state.stat.czxid == offset.stat.czxid]
    before = next((state for state in reversed(states) if state.stat.mzxid < at), None)
    was = _value(before)
    if before is None or was is None or not reset.offset < was <= now:
        return None
    is_next = offset.stat.version == before.stat.version + 2
    return f"{what}, where it was {was} before" if is_next or has_jvm_owner else None


def _is_jvm(owner: ZnodeState, states: States) -> bool:
    """True if all that its session registered is of Kafka's own consumers."""
    session = session_in(owner)
    kinds = {
        subscription_kind(seen.state.data)
        for path, of_path in states.items()
        if path_kind(path).kind == "member"
        for seen in of_path
        if seen.state is not None and session_in(seen.state) == session
    }
    return session is not None and kinds == {"jvm"}
