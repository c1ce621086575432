"""Reads snapshots of groups: few bulk reads for any number of groups, repeated until nothing changes.

The lists of names are bracketed by reads of their parents' `pzxid`: equal before and after means
that no member joined or left, and none claimed or released, meanwhile (a seqlock). Offsets may move within
a snapshot; they are read after the owners, so a commit seen belongs to that owner or a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from zkgroup.coordinator.group_ids import slot_of
from zkgroup.errors import AccessDeniedError, CorruptZnodeError, NotFoundError
from zkgroup.groups.as_of import AsOf
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.group_ids import validate_group_id, validate_length, validate_new_group
from zkgroup.groups.membership import stored_membership
from zkgroup.groups.slots import read_slot_count
from zkgroup.groups.snapshot import (
    CoordinatedGroup,
    DecodedZnode,
    GroupSnapshot,
    Marks,
    decode_or_error,
    mark_of,
    value_of,
)
from zkgroup.groups.verify import evaluate_members
from zkgroup.model import TopicPartition, Znode, ZnodeStat
from zkgroup.znodes.brokers import BrokerRegistration, Topic, broker_ids_path, topics_path
from zkgroup.znodes.consumers import (
    STATIC,
    Offset,
    Owner,
    Registration,
    consumers_path,
    group_path,
    ids_path,
    offsets_path,
    offsets_topic_path,
    owners_path,
    owners_topic_path,
    static_path,
    views_path,
)
from zkgroup.znodes.coordinated_groups import (
    GroupChunk,
    GroupHeader,
    ProtocolMarker,
    StoredMember,
    members_of,
    slot_groups_path,
)
from zkgroup.znodes.group_records import Freeze, StaticMember, StoredAssignment, View
from zkgroup.znodes.ids import number_of, validate_topic

_Named = TypeVar("_Named", Registration, View, StaticMember)

TRIES = 5
"""Passes over a group that keeps moving; the last one is then used and marked as not still."""

GROUPS_AT_ONCE = 200
"""Groups read together: bounds the memory and the size of one bulk read."""


def group_names(ensemble: Ensemble) -> tuple[str, ...]:
    """Names of all groups, sorted: those below `/consumers`, and those of the slots."""
    parents = [consumers_path(), *map(slot_groups_path, range(read_slot_count(ensemble) or 0))]
    children = ensemble.zk.list_many(parents)
    return tuple(sorted({name for names in children.values() for name in names or ()}))


def read_snapshot(ensemble: Ensemble, group: str, also: Sequence[str] = ()) -> GroupSnapshot:
    """The snapshot of one group, with the topics `also` in it. Raises NotFoundError."""
    validate_group_id(group)
    snapshot = read_snapshots(ensemble, [group], also)[group]
    if snapshot is None:
        raise NotFoundError(
            f"{group_path(group)}: there is no group {group!r}; `zkgroup group list` shows those there are"
        )
    return snapshot


def read_offsets(ensemble: Ensemble, group: str) -> GroupSnapshot:
    """The snapshot of one group; of a user who may read its offsets alone it has nothing else.

    Raises NotFoundError, and AccessDeniedError for a user who may not read them either.
    """
    try:
        return read_snapshot(ensemble, group)
    except AccessDeniedError:
        topics = [offsets_topic_path(group, topic) for topic in ensemble.names_below(offsets_path(group))]
        names = ensemble.zk.list_many(topics)
        paths = [f"{topic}/{name}" for topic in topics for name in names[topic] or ()]
        found = (znode for znode in ensemble.zk.read_many(paths).values() if znode is not None)
        return GroupSnapshot.of_offsets(group, ensemble.as_of(), found)


def snapshot_or_empty(ensemble: Ensemble, group: str, also: Sequence[str] = ()) -> GroupSnapshot:
    """The snapshot of a group that may not exist yet; it then has the topics only."""
    validate_group_id(group)
    snapshot = read_snapshots(ensemble, [group], also)[group]
    if snapshot is not None:
        return snapshot
    znodes = ensemble.zk.read_many([Topic.path(topic) for topic in also])
    topics = {
        topic: decode_or_error(znode, Topic.decode) for topic in also if (znode := znodes[Topic.path(topic)])
    }
    return GroupSnapshot.of_nothing(group, ensemble.as_of(), topics)


def past_offsets(
    group: str,
    as_of: AsOf,
    znodes_below: Callable[[str], Sequence[Znode]],
    unknown: Mapping[str, str],
) -> tuple[GroupSnapshot, AccessDeniedError | None]:
    """The offsets of a group in a tree of the past, and why there may be more.

    Args:
        znodes_below: gives the znodes at and below a path.
        unknown: paths of which the tree tells nothing, and all below them, each with the reason.

    Raises NotFoundError where the tree has no such group, AccessDeniedError where it may have one, and
    ConfigError for a name that no group has.
    """
    validate_group_id(group)
    znodes, offsets = znodes_below(group_path(group)), f"{offsets_path(group)}/"
    lacking = next((path for path in unknown if _overlap(offsets, f"{path.rstrip('/')}/")), None)
    error = lacking and AccessDeniedError(f"{lacking}: {unknown[lacking]}")
    if znodes:
        return GroupSnapshot.of_offsets(group, as_of, znodes), error or None
    raise error or NotFoundError(
        f"{group_path(group)}: there was no group {group!r} at {as_of.zxid:#x}; `zkgroup audit tree "
        f"{consumers_path()}` with the same --input and --at shows those there were"
    )


def _overlap(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def snapshot_to_change(
    ensemble: Ensemble, group: str, topics: Sequence[str], *, allow_missing: bool = False
) -> GroupSnapshot:
    """The snapshot of a group whose offsets of these topics are to change; the group may not exist yet.

    Raises ConfigError for a topic whose name is not legal: no member would read offsets of it; for a new
    group whose name is too long; and, unless `allow_missing`, for a new group that no ZooKeeper consumer
    could join: it is probably a typo.
    """
    for topic in topics:
        validate_topic(topic)
    snapshot = snapshot_or_empty(ensemble, group, topics)
    if not snapshot.exists:
        validate_length(group)
        if not allow_missing:
            validate_new_group(group)
    return snapshot


def read_snapshots(
    ensemble: Ensemble, groups: Sequence[str], also: Sequence[str] = ()
) -> dict[str, GroupSnapshot | None]:
    """Snapshots of several groups; None for those that do not exist."""
    ensemble.zk.sync("/")
    slots = read_slot_count(ensemble)
    snapshots: dict[str, GroupSnapshot | None] = {}
    for start in range(0, len(groups), GROUPS_AT_ONCE):
        chunk = groups[start : start + GROUPS_AT_ONCE]
        for last_try in (*[False] * (TRIES - 1), True):
            read = _read_once(ensemble, chunk, also, slots)
            snapshots.update(read)
            chunk = [name for name in chunk if (snapshot := read[name]) and not snapshot.stood_still]
            if not chunk or last_try:
                break
    return snapshots


def read_permitted_snapshots(
    ensemble: Ensemble, groups: Sequence[str]
) -> tuple[dict[str, GroupSnapshot | None], dict[str, AccessDeniedError]]:
    """Snapshots as `read_snapshots`, and the error of each group that an ACL does not let us read.

    One request of a bulk read that is refused says nothing about the other groups: the list is halved until
    the refused ones are alone.
    """
    try:
        return read_snapshots(ensemble, groups), {}
    except AccessDeniedError as error:
        if len(groups) <= 1:
            return {}, dict.fromkeys(groups, error)
    half = len(groups) // 2
    first, first_denied = read_permitted_snapshots(ensemble, groups[:half])
    second, second_denied = read_permitted_snapshots(ensemble, groups[half:])
    return first | second, first_denied | second_denied


@dataclass(slots=True)
class _Pass:
    """The results of a pass; filled by rounds, each of one or two bulk reads for all groups."""

    groups: Sequence[str]
    slots: int | None
    """Number of slots; None without a coordinator."""
    before: dict[str, Znode | None] = field(default_factory=dict)
    names: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    leaves: dict[str, Znode | None] = field(default_factory=dict)
    after: dict[str, Znode | None] = field(default_factory=dict)

    def header_path(self, group: str) -> str | None:
        """Path at which the coordinator stores the group; None without one."""
        return None if self.slots is None else GroupHeader.path(slot_of(group, self.slots), group)

    def coordinated_paths(self, group: str) -> list[str]:
        """Marker and header, by which the members of the other kind are noticed."""
        header = self.header_path(group)
        return [] if header is None else [ProtocolMarker.path(group), header]


def _read_once(
    ensemble: Ensemble, groups: Sequence[str], also: Sequence[str], slots: int | None
) -> dict[str, GroupSnapshot | None]:
    zk = ensemble.zk
    seen = _Pass(groups, slots)
    coordinated = [path for g in groups for path in seen.coordinated_paths(g)]
    own = group_path, StoredAssignment.path, Freeze.path
    single = [path(g) for g in groups for path in own] + coordinated
    parents = [path for g in groups for path in _parents(g)]
    seen.before = zk.read_many([*single, *parents, topics_path()])
    parents += [path for g in groups if (path := seen.header_path(g)) is not None]
    present = [path for path in parents if seen.before[path] is not None]
    seen.names = zk.list_many([*present, topics_path()])
    topic_parents = [path for g in groups for path in _topic_parents(seen, g)]
    seen.before |= zk.read_many(topic_parents)
    seen.names |= zk.list_many(topic_parents)
    seen.leaves = zk.read_many([path for g in groups for path in _leaf_paths(seen, g)])
    seen.after = zk.read_many([*present, *topic_parents, *coordinated])
    drafts = {g: _snapshot(ensemble, seen, g) for g in groups}
    concerning = {g: frozenset(_concerning(draft)) for g, draft in drafts.items() if draft}
    wanted = sorted(frozenset(also).union(*concerning.values()))
    topics = {
        name: decode_or_error(znode, Topic.decode)
        for name, znode in ensemble.find_each(wanted, Topic.path).items()
    }
    racks: dict[int, str] = {}
    if any(draft and _has_racks(draft) for draft in drafts.values()):
        seen.before |= zk.read_many([broker_ids_path()])
        racks = _broker_racks(ensemble)
    return {
        g: replace(
            draft,
            as_of=ensemble.as_of(),
            topics=topics,
            marks=_marks(seen, draft, concerning[g], topics),
            broker_racks=racks if _has_racks(draft) else {},
        )
        if draft
        else None
        for g, draft in drafts.items()
    }


def _has_racks(draft: GroupSnapshot) -> bool:
    values = [entry.value for entry in draft.registrations.values() if entry.value]
    return bool(values) and all(value.rack is not None for value in values)


def _broker_racks(ensemble: Ensemble) -> dict[int, str]:
    """The racks of the registered brokers that have one."""
    brokers = ensemble.numbers_below(broker_ids_path())
    found = {
        broker: value_of(znode, BrokerRegistration.decode)
        for broker, znode in ensemble.find_each(brokers, BrokerRegistration.path).items()
    }
    return {broker: value.rack for broker, value in found.items() if value and value.rack}


def _marks(
    seen: _Pass, draft: GroupSnapshot, concerning: Iterable[str], topics: Mapping[str, DecodedZnode[Topic]]
) -> Marks:
    """Those of all that was read of the group, but for owners and offsets: no member sets the data of an
    owner once it has claimed the partition, so the parents show each change of owners."""
    group = draft.group
    paths = [group_path(group), StoredAssignment.path(group), *seen.coordinated_paths(group)]
    paths += _parents(group)
    marks = {path: mark_of(seen.before[path]) for path in (*paths, *_topic_parents(seen, group))}
    entries: tuple[Mapping[str, DecodedZnode[Any]], ...] = (draft.registrations, draft.views, draft.static)
    marks |= {entry.znode.path: mark_of(entry.znode) for found in entries for entry in found.values()}
    for name in concerning:
        marks[Topic.path(name)] = mark_of(topics[name].znode) if name in topics else None
    if any(one.value and one.value.pattern != STATIC for one in draft.registrations.values()):
        marks[topics_path()] = mark_of(seen.before[topics_path()])
    if _has_racks(draft):
        marks[broker_ids_path()] = mark_of(seen.before[broker_ids_path()])
    return marks


def _parents(group: str) -> tuple[str, ...]:
    """The parents that are listed."""
    kinds = ids_path, owners_path, offsets_path, views_path, static_path
    return tuple(path(group) for path in kinds)


def _topic_parents(seen: _Pass, group: str) -> list[str]:
    owners = [owners_topic_path(group, topic) for topic in seen.names.get(owners_path(group)) or ()]
    offsets = [offsets_topic_path(group, topic) for topic in seen.names.get(offsets_path(group)) or ()]
    return owners + offsets


def _leaf_paths(seen: _Pass, group: str) -> list[str]:
    """Registrations, then owners, then offsets, then views: offsets after the owners they belong to."""
    return [
        *(Registration.path(group, member) for member in seen.names.get(ids_path(group)) or ()),
        *(path for path, _ in _numbered(seen, owners_path(group), Owner, group)[0]),
        *(path for path, _ in _numbered(seen, offsets_path(group), Offset, group)[0]),
        *(View.path(group, member) for member in seen.names.get(views_path(group)) or ()),
        *(StaticMember.path(group, member) for member in seen.names.get(static_path(group)) or ()),
        *_chunk_paths(seen, group),
    ]


def _header(seen: _Pass, group: str) -> DecodedZnode[GroupHeader] | None:
    path = seen.header_path(group)
    znode = seen.before[path] if path is not None else None
    if znode is None:
        return None
    # Without data it is the parent of the metadata of offsets: clients that are no members have committed.
    return decode_or_error(znode, GroupHeader.decode) if znode.data else DecodedZnode(znode=znode, value=None)


def _chunk_paths(seen: _Pass, group: str) -> list[str]:
    """The chunks that the header names, as far as they are there."""
    header = _header(seen, group)
    if header is None or header.value is None:
        return []
    named = header.value
    numbers = range(named.first_chunk, named.first_chunk + named.chunks)
    present = filter(None, map(GroupChunk.parse, seen.names.get(header.znode.path) or ()))
    return [
        f"{header.znode.path}/rec-{generation}-{number}"
        for generation, number in sorted(present)
        if generation == named.generation and number in numbers
    ]


def _coordinated(seen: _Pass, group: str) -> CoordinatedGroup | None:
    if seen.slots is None:
        return None
    marker, header = seen.before[ProtocolMarker.path(group)], _header(seen, group)
    if marker is None and header is None:
        return None
    members: tuple[StoredMember, ...] = ()
    error = header.error if header else None
    if header is not None and header.value is not None:
        chunks = [
            GroupChunk(znode.data or b"")
            for path in _chunk_paths(seen, group)
            if (znode := seen.leaves[path])
        ]
        try:
            members = members_of(header.znode.path, header.value, chunks)
        except CorruptZnodeError as found:
            error = found
    return CoordinatedGroup(
        slot=slot_of(group, seen.slots),
        marker=decode_or_error(marker, ProtocolMarker.decode) if marker else None,
        header=header,
        members=members,
        error=error,
    )


def _numbered(
    seen: _Pass, parent: str, kind: type[Owner | Offset], group: str
) -> tuple[list[tuple[str, TopicPartition]], list[str]]:
    """Leaves of `owners` or `offsets` with their partitions, and the paths that name no partition."""
    found: list[tuple[str, TopicPartition]] = []
    strays: list[str] = []
    for topic in sorted(seen.names.get(parent) or ()):
        for name in seen.names.get(f"{parent}/{topic}") or ():
            number = number_of(name)
            if number is None:
                strays.append(f"{parent}/{topic}/{name}")
            else:
                tp = TopicPartition(topic, number)
                found.append((kind.path(group, tp), tp))
    return found, strays


def _snapshot(ensemble: Ensemble, seen: _Pass, group: str) -> GroupSnapshot | None:
    """The group without its topics: which concern it shows only then."""
    coordinated = _coordinated(seen, group)
    if seen.before[group_path(group)] is None and coordinated is None:
        return None
    owners, stray_owners = _numbered(seen, owners_path(group), Owner, group)
    offsets, stray_offsets = _numbered(seen, offsets_path(group), Offset, group)
    ids = seen.after.get(ids_path(group))
    plan, frozen = seen.before[StoredAssignment.path(group)], seen.before[Freeze.path(group)]
    # Members read the marker if the version of `owners` counts it, a coordinator when it loads the group.
    root = seen.before[owners_path(group)]
    is_obeyed = coordinated is not None or (root is not None and root.stat.version > 0)
    return GroupSnapshot(
        group=group,
        as_of=ensemble.as_of(),
        stood_still=_stood_still(seen, group),
        ids=ids.stat if ids else None,
        registrations=_members(seen, group, ids_path(group), Registration),
        owners={
            tp: decode_or_error(znode, Owner.decode) for path, tp in owners if (znode := seen.leaves[path])
        },
        offsets={
            tp: decode_or_error(znode, Offset.decode) for path, tp in offsets if (znode := seen.leaves[path])
        },
        strays=(*stray_owners, *stray_offsets),
        views=_members(seen, group, views_path(group), View),
        static=_members(seen, group, static_path(group), StaticMember),
        plan=decode_or_error(plan, StoredAssignment.decode) if plan else None,
        topics={},
        topic_names=frozenset(seen.names.get(topics_path()) or ()),
        frozen=decode_or_error(frozen, Freeze.decode) if frozen and is_obeyed else None,
        coordinated=coordinated,
    )


def _members(seen: _Pass, group: str, parent: str, kind: type[_Named]) -> Mapping[str, DecodedZnode[_Named]]:
    found = {}
    for member in seen.names.get(parent) or ():
        znode = seen.leaves[kind.path(group, member)]
        if znode is not None and (kind is not StaticMember or znode.data != StaticMember.NOTHING):
            found[member] = decode_or_error(znode, kind.decode)
    return found


def _stood_still(seen: _Pass, group: str) -> bool:
    """No member joined, left, claimed or released between the first and the last round; of a coordinated
    group neither marker nor header was written."""
    if any(
        _data_id(seen.before[path]) != _data_id(seen.after[path]) for path in seen.coordinated_paths(group)
    ):
        return False
    paths = [ids_path(group), owners_path(group), offsets_path(group), *_topic_parents(seen, group)]
    return all(_children_id(seen.before.get(path)) == _children_id(seen.after.get(path)) for path in paths)


def _children_id(znode: Znode | None) -> tuple[int, int] | None:
    stat: ZnodeStat | None = znode.stat if znode else None
    return (stat.czxid, stat.pzxid) if stat else None


def _data_id(znode: Znode | None) -> tuple[int, int] | None:
    return (znode.stat.czxid, znode.stat.version) if znode else None


def _concerning(snapshot: GroupSnapshot) -> Iterable[str]:
    """Topics that the group subscribes to, owns or has offsets of."""
    evaluated, _ = evaluate_members(snapshot)
    yield from (topic for member in evaluated for topic in member.threads)
    yield from (tp.topic for tp in (*snapshot.owners, *snapshot.offsets))
    if snapshot.coordinated is not None:
        yield from stored_membership(snapshot.coordinated).topics
