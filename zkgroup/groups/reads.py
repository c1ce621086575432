"""Reads of groups: list, describe, verify, preview. Nothing here writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from zkgroup.errors import AccessDeniedError, CorruptZnodeError, NotFoundError, RefusedError
from zkgroup.groups.coordinated import CoordinatedView
from zkgroup.groups.descriptions import (
    GroupDescription,
    GroupState,
    GroupSummary,
    MemberDescription,
    OffsetDescription,
    PartitionDescription,
    Preview,
    ProblemKind,
    Verification,
)
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.groups.freezes import describe_freeze
from zkgroup.groups.lag_verdict import verdict_of_one_read, worst_verdict
from zkgroup.groups.membership import LiveReader, stored_membership
from zkgroup.groups.offset_writers import OffsetWriter
from zkgroup.groups.preview import GroupChange, preview_group
from zkgroup.groups.reader import group_names, read_permitted_snapshots, read_snapshot, snapshot_to_change
from zkgroup.groups.slots import read_slots
from zkgroup.groups.snapshot import GroupSnapshot
from zkgroup.groups.verify import (
    ExpectedOwnership,
    agreement,
    expected_ownership,
    find_problems,
    group_state,
    is_in_foreign_format,
    needs_second_read,
    waits_for_away,
)
from zkgroup.model import TopicPartition
from zkgroup.model.text import typed
from zkgroup.znodes.consumers import subscription_kind
from zkgroup.znodes.ids import member_host

SECOND_READ_S = 2.0
"""Pause before the second read, which distinguishes `rebalancing` from `inconsistent`."""

POLL_S = 0.25
"""Pause between two reads of `--wait`."""

LogEnds = Mapping[TopicPartition, int]
"""Offset of the next record of each partition, as far as the record source knows it."""

LogEndReader = Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int | str]]
"""Asks a record source for the next offset of each partition. One that it does not know is absent, or a text
says why it is not known."""


def known_ends(log_ends: LogEndReader | None, partitions: Iterable[TopicPartition]) -> LogEnds:
    """The next offsets of partitions that are known; none without a reader."""
    found = log_ends(sorted(partitions)) if log_ends else {}
    return {tp: end for tp, end in found.items() if isinstance(end, int)}


def list_groups(
    ensemble: Ensemble, log_ends: LogEndReader | None = None, live: LiveReader | None = None
) -> tuple[AsOf, tuple[GroupSummary, ...], Mapping[str, AccessDeniedError]]:
    """Every group with its state, and the error of each group that an ACL hides.

    Waits 2 s, once for all, when a group is wrong and does not change. `live` asks coordinators.
    """
    snapshots, denied = read_permitted_snapshots(ensemble, group_names(ensemble))
    present = {name: snapshot for name, snapshot in snapshots.items() if snapshot}
    views = coordinated_views(ensemble, present.values(), live)
    states = _states(ensemble, {name: one for name, one in present.items() if name not in views})
    now_ms = ensemble.clock.wall_ms()
    ends = known_ends(log_ends, {tp for one in present.values() for tp in one.offsets})
    rows = [
        summarise_coordinated(views[name], now_ms, ends)
        if name in views
        else summarise_group(snapshot, expected_ownership(snapshot), states[name], ends)
        for name, snapshot in present.items()
    ]
    return ensemble.as_of(), tuple(rows), denied


def describe(
    ensemble: Ensemble, group: str, log_ends: LogEndReader | None = None, live: LiveReader | None = None
) -> GroupDescription:
    """One group in full. Raises NotFoundError. Waits 2 s when it is wrong and does not change."""
    return _described(ensemble, {group: read_snapshot(ensemble, group)}, log_ends, live)[group]


def describe_groups(
    ensemble: Ensemble,
    groups: Sequence[str],
    log_ends: LogEndReader | None = None,
    live: LiveReader | None = None,
) -> tuple[dict[str, GroupDescription], Mapping[str, AccessDeniedError]]:
    """Those of the groups that exist in full, by few bulk reads, and the error of each that an ACL hides.

    Waits 2 s, once for all, when a group is wrong and does not change.
    """
    snapshots, denied = read_permitted_snapshots(ensemble, groups)
    present = {name: snapshot for name, snapshot in snapshots.items() if snapshot}
    return _described(ensemble, present, log_ends, live), denied


def _described(
    ensemble: Ensemble,
    snapshots: Mapping[str, GroupSnapshot],
    log_ends: LogEndReader | None,
    live: LiveReader | None,
) -> dict[str, GroupDescription]:
    views = coordinated_views(ensemble, snapshots.values(), live)
    states = _states(ensemble, {name: one for name, one in snapshots.items() if name not in views})
    now_ms = ensemble.clock.wall_ms()
    ends = known_ends(log_ends, {tp for one in snapshots.values() for tp in one.offsets})
    return {
        name: describe_coordinated(views[name], now_ms, ends)
        if name in views
        else describe_group(snapshot, expected_ownership(snapshot), states[name], ends)
        for name, snapshot in snapshots.items()
    }


def coordinated_views(
    ensemble: Ensemble, snapshots: Iterable[GroupSnapshot], live: LiveReader | None = None
) -> dict[str, CoordinatedView]:
    """Those of the groups that are of Kafka's protocol, with what their coordinators report."""
    groups = {one.group: one for one in snapshots if one.is_coordinated}
    numbers = {name: one.coordinated.slot for name, one in groups.items() if one.coordinated}
    slots = read_slots(ensemble, set(numbers.values()))
    leaders = {
        name: leader
        for name, number in numbers.items()
        if slots[number].is_led and (leader := slots[number].leader) is not None
    }
    reported = live(leaders) if live and leaders else {}
    return {
        name: CoordinatedView(
            snapshot=snapshot,
            slot=slots[numbers[name]],
            live=reported.get(name),
            was_asked=live is not None,
        )
        for name, snapshot in groups.items()
    }


def verify(
    ensemble: Ensemble, group: str, *, wait_s: float | None = None, live: LiveReader | None = None
) -> Verification:
    """The problems of the group now; with `wait_s`, reads again until nothing is or the time is over.

    A wait is also for a group that does not exist yet, and then for its first member: before that there is
    nothing that could be wrong. Raises NotFoundError where there is no group, also at the end of the time.
    """
    deadline_ms = ensemble.clock.now_ms() + int((wait_s or 0) * 1000)
    begins = False
    while True:
        is_last = ensemble.clock.now_ms() >= deadline_ms
        try:
            snapshot = read_snapshot(ensemble, group)
        except NotFoundError:
            if is_last:
                raise
            begins = True
        else:
            view = coordinated_views(ensemble, [snapshot], live).get(group)
            problems = view.problems if view else find_problems(snapshot, expected_ownership(snapshot))
            found = Verification(
                as_of=snapshot.as_of,
                group=group,
                problems=problems,
                frozen=describe_freeze(snapshot.frozen),
            )
            has_begun = bool(snapshot.registrations or (view and view.has_members)) or not begins
            if is_last or (found.converged and has_begun):
                return found
        ensemble.pause(POLL_S)


def preview(ensemble: Ensemble, group: str, change: GroupChange) -> Preview:
    """The owners of partitions after a change, which is not made. Raises NotFoundError, ConfigError.

    The group need not exist where the change gives it members.
    """
    topics = sorted(
        {topic for _, threads in change.add for topic in threads or ()} | set(change.add_partitions)
    )
    if not change.add and not change.members:
        snapshot = read_snapshot(ensemble, group, topics)
    else:
        snapshot = snapshot_to_change(ensemble, group, topics)
    if snapshot.coordinated is not None and snapshot.coordinated.has_members:
        raise RefusedError(
            f"{snapshot.coordinated.path}: {group} is a group of Kafka's protocol: one of its members "
            "assigns the partitions, by rules that only its clients know, so nothing can be previewed; "
            f"`{typed('group describe', group)}` shows the present assignment"
        )
    return preview_group(snapshot, change)


def _states(ensemble: Ensemble, snapshots: dict[str, GroupSnapshot]) -> dict[str, GroupState]:
    now_ms = ensemble.clock.wall_ms()
    expected: dict[str, ExpectedOwnership] = {
        name: expected_ownership(snapshot) for name, snapshot in snapshots.items()
    }
    unclear = [name for name in snapshots if needs_second_read(snapshots[name], expected[name], now_ms)]
    later: dict[str, GroupSnapshot | None] = {}
    if unclear:
        ensemble.pause(SECOND_READ_S)
        later, _ = read_permitted_snapshots(ensemble, unclear)
    return {
        name: group_state(snapshot, expected[name], now_ms=now_ms, later=later.get(name))
        for name, snapshot in snapshots.items()
    }


def describe_group(
    snapshot: GroupSnapshot, expected: ExpectedOwnership, state: GroupState, log_ends: LogEnds | None = None
) -> GroupDescription:
    """The whole of `group describe`: members by id, partitions by topic and number."""
    problems = find_problems(snapshot, expected)
    first: dict[tuple[str | None, int | None], ProblemKind] = {}
    for problem in problems:
        first.setdefault((problem.topic, problem.partition), problem.kind)
    return GroupDescription(
        as_of=snapshot.as_of,
        group=snapshot.group,
        state=state,
        assignor=expected.assignor if snapshot.registrations else None,
        generation=snapshot.generation,
        members=tuple(
            _member(snapshot, expected, member)
            for member in sorted({*snapshot.registrations, *snapshot.away})
        ),
        partitions=tuple(
            _partition(snapshot, expected, tp, first.get((tp.topic, tp.partition)), log_ends or {})
            for tp in known_partitions(snapshot, expected)
        ),
        problems=problems,
        persistent=snapshot.persistent_paths,
        frozen=describe_freeze(snapshot.frozen),
    )


def summarise_group(
    snapshot: GroupSnapshot, expected: ExpectedOwnership, state: GroupState, log_ends: LogEnds | None = None
) -> GroupSummary:
    """One row of `group list`: its partitions are the rows of `describe_group`, its topics theirs."""
    known = known_partitions(snapshot, expected)
    lags = [_lag(snapshot, tp, log_ends or {}) for tp in known]
    return GroupSummary(
        group=snapshot.group,
        state=state,
        members=len(snapshot.registrations),
        topics=tuple(sorted({tp.topic for tp in known} | set(expected.topics))),
        partitions=len(known),
        unowned=unowned(snapshot, expected),
        away=sum(_ownerless(snapshot, expected)),
        away_until_ms=max(filter(None, map(snapshot.away_until_ms, snapshot.away)), default=None),
        lag=_sum_of_known(lags),
        verdict=worst_verdict(map(verdict_of_one_read, lags)),
        persistent=snapshot.persistent_paths,
        frozen=describe_freeze(snapshot.frozen),
    )


def unowned(snapshot: GroupSnapshot, expected: ExpectedOwnership) -> int:
    """Number of partitions of subscribed topics that have no owner, and wait for no member that is away."""
    return sum(not waits for waits in _ownerless(snapshot, expected))


def _ownerless(snapshot: GroupSnapshot, expected: ExpectedOwnership) -> list[bool]:
    """Whether each partition of a subscribed topic without an owner waits for a member that is away."""
    wanted = {
        TopicPartition(topic, number) for topic in expected.topics for number in snapshot.partitions(topic)
    }
    return [waits_for_away(snapshot, expected, tp) for tp in wanted - snapshot.owners.keys()]


def describe_coordinated(
    view: CoordinatedView, now_ms: int, log_ends: LogEnds | None = None
) -> GroupDescription:
    """The whole of `group describe` for a group of Kafka's protocol."""
    snapshot, found = view.snapshot, view.membership
    first: dict[tuple[str | None, int | None], ProblemKind] = {}
    for problem in view.problems:
        first.setdefault((problem.topic, problem.partition), problem.kind)
    nothing_expected = ExpectedOwnership(assignor="", members=(), owners=None)
    owners = found.owners
    rows = []
    for tp in sorted(view.wanted | set(owners) | set(snapshot.owners) | set(snapshot.offsets)):
        row = _partition(snapshot, nothing_expected, tp, first.get((tp.topic, tp.partition)), log_ends or {})
        rows.append(replace(row, owner=owners[tp], member=owners[tp]) if tp in owners else row)
    return GroupDescription(
        as_of=snapshot.as_of,
        group=snapshot.group,
        state=view.state(now_ms),
        assignor=found.protocol if found.members else None,
        generation=snapshot.generation,
        members=(
            *view.members(),
            *(_member(snapshot, nothing_expected, member) for member in sorted(snapshot.registrations)),
        ),
        partitions=tuple(rows),
        problems=view.problems,
        protocol="coordinator",
        protocol_state=view.protocol_state,
        group_generation=found.generation,
        persistent=snapshot.persistent_paths,
        frozen=describe_freeze(snapshot.frozen),
    )


def summarise_coordinated(
    view: CoordinatedView, now_ms: int, log_ends: LogEnds | None = None
) -> GroupSummary:
    """One row of `group list` for a group of Kafka's protocol."""
    snapshot, found = view.snapshot, view.membership
    owners = found.owners
    known = view.wanted | set(owners) | set(snapshot.owners) | set(snapshot.offsets)
    lags = [_lag(snapshot, tp, log_ends or {}) for tp in known]
    return GroupSummary(
        group=snapshot.group,
        state=view.state(now_ms),
        members=len(found.members) + len(snapshot.registrations),
        topics=tuple(sorted({tp.topic for tp in known} | found.topics)),
        partitions=len(known),
        unowned=len(view.wanted - owners.keys()),
        lag=_sum_of_known(lags),
        verdict=worst_verdict(map(verdict_of_one_read, lags)),
        protocol="coordinator",
        protocol_state=view.protocol_state,
        persistent=snapshot.persistent_paths,
        frozen=describe_freeze(snapshot.frozen),
    )


def describe_offsets(
    snapshot: GroupSnapshot,
    log_ends: LogEnds | None = None,
    writers: Mapping[TopicPartition, OffsetWriter] | None = None,
) -> tuple[OffsetDescription, ...]:
    """Every offset znode of the group; unreadable ones are left to `group verify`.

    The owners in a group of Kafka's protocol are those of its last stored generation.
    """
    rows = []
    stored = stored_membership(snapshot.coordinated).owners if snapshot.coordinated else {}
    for tp, entry in sorted(snapshot.offsets.items()):
        owner, writer = snapshot.owners.get(tp), (writers or {}).get(tp)
        rows.append(
            OffsetDescription(
                topic_partition=tp,
                offset=offset_of(snapshot, tp),
                version=entry.stat.version,
                committed_at_ms=committed_at_ms(snapshot, tp),
                owner=owner.text if owner else stored.get(tp),
                log_end_offset=(log_ends or {}).get(tp),
                lag=_lag(snapshot, tp, log_ends or {}),
                written_by=writer.name if writer else None,
                written_at_ms=writer.at_ms if writer else None,
                written_host=writer.host if writer else None,
                written_version=writer.version if writer else None,
                written_evidence=writer.by if writer else None,
            )
        )
    return tuple(rows)


def unreadable_offsets(snapshot: GroupSnapshot) -> tuple[CorruptZnodeError, ...]:
    """The problem of each offset znode that cannot be read; in order."""
    return tuple(entry.error for _, entry in sorted(snapshot.offsets.items()) if entry.error)


def known_partitions(snapshot: GroupSnapshot, expected: ExpectedOwnership) -> list[TopicPartition]:
    """Partitions of subscribed topics, and all that have an owner or an offset; in order."""
    subscribed = {
        TopicPartition(topic, number) for topic in expected.topics for number in snapshot.partitions(topic)
    }
    return sorted(subscribed | set(snapshot.owners) | set(snapshot.offsets))


def offset_of(snapshot: GroupSnapshot, tp: TopicPartition) -> int | None:
    """The committed offset; None where there is none (also a stored -1) or it cannot be read."""
    entry = snapshot.offsets.get(tp)
    return entry.value.position if entry and entry.value else None


def committed_at_ms(snapshot: GroupSnapshot, tp: TopicPartition) -> int | None:
    """The time of the offset's last commit; None where its last write was a claim."""
    entry, owner = snapshot.offsets.get(tp), snapshot.owners.get(tp)
    if entry is None or offset_of(snapshot, tp) is None:
        return None
    if owner is not None and owner.stat.czxid == entry.stat.mzxid:
        return None
    return entry.stat.mtime


def _member(snapshot: GroupSnapshot, expected: ExpectedOwnership, member: str) -> MemberDescription:
    entry, away = snapshot.registrations.get(member), snapshot.away.get(member)
    znode = (entry or snapshot.static[member]).znode
    registration = entry.value if entry else away and away.registration
    return MemberDescription(
        member=member,
        session_id=entry.stat.ephemeral_owner if entry else None,
        threads=dict(expected.threads(member)),
        pattern=registration.pattern if registration else None,
        subscription=dict(registration.subscription) if registration else {},
        registered_at_ms=entry.stat.ctime if entry else None,
        kind=subscription_kind(znode.data),
        host=member_host(snapshot.group, member) or (registration.host if registration else None),
        agrees=agreement(snapshot, expected, member),
        pid=registration.pid if registration else None,
        version=registration.version if registration else None,
        capacity=registration.capacity if registration else None,
        rack=registration.rack if registration else None,
        away_until_ms=snapshot.away_until_ms(member),
    )


def _partition(
    snapshot: GroupSnapshot,
    expected: ExpectedOwnership,
    tp: TopicPartition,
    problem: ProblemKind | None,
    log_ends: LogEnds,
) -> PartitionDescription:
    owner, lag = snapshot.owners.get(tp), _lag(snapshot, tp, log_ends)
    named = owner.value.member if owner and owner.value else None
    return PartitionDescription(
        topic_partition=tp,
        owner=owner.text if owner else None,
        member=snapshot.registered_owner(tp) or named,
        expected_owner=None if is_in_foreign_format(snapshot, tp) else (expected.owners or {}).get(tp),
        owned_since_ms=owner.stat.ctime if owner else None,
        token=owner.stat.czxid if owner else None,
        offset=offset_of(snapshot, tp),
        committed_at_ms=committed_at_ms(snapshot, tp),
        log_end_offset=log_ends.get(tp),
        lag=lag,
        problem=problem,
        verdict=verdict_of_one_read(lag),
    )


def _lag(snapshot: GroupSnapshot, tp: TopicPartition, log_ends: LogEnds) -> int | None:
    offset, end = offset_of(snapshot, tp), log_ends.get(tp)
    return max(0, end - offset) if offset is not None and end is not None else None


def _sum_of_known(lags: Iterable[int | None]) -> int | None:
    known = [lag for lag in lags if lag is not None]
    return sum(known) if known else None
