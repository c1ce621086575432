"""Problems, state and description of a group of Kafka's group protocol, as operators see it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from zkgroup.groups.descriptions import GroupState, MemberDescription, Problem, ProblemKind
from zkgroup.groups.freezes import freeze_text, stands
from zkgroup.groups.membership import (
    DEAD,
    EMPTY,
    STABLE,
    ClientMember,
    ClientMembership,
    LiveGroup,
    membership,
)
from zkgroup.groups.slots import SlotView
from zkgroup.groups.snapshot import CoordinatedGroup, GroupSnapshot
from zkgroup.groups.verify import YOUNG_MS, is_young, persistent_problems
from zkgroup.model import TopicPartition
from zkgroup.znodes.consumers import ids_path
from zkgroup.znodes.coordinated_groups import GroupHeader, ProtocolMarker
from zkgroup.znodes.sessions import is_leftover


@dataclass(frozen=True)
class CoordinatedView:
    """A group of Kafka's protocol: its znodes, its slot, and what its coordinator reports."""

    snapshot: GroupSnapshot
    slot: SlotView
    live: LiveGroup | None
    was_asked: bool
    """True if the coordinator was asked, so that no answer is one."""

    def with_offsets(self, snapshot: GroupSnapshot) -> CoordinatedView:
        """The same with other offsets, of which as many cannot be read: what was found out is kept."""
        made = replace(self, snapshot=snapshot)
        found = ("membership", "wanted", "problems")
        made.__dict__.update({name: self.__dict__[name] for name in found if name in self.__dict__})
        return made

    @property
    def stored(self) -> CoordinatedGroup:
        assert self.snapshot.coordinated is not None
        return self.snapshot.coordinated

    @cached_property
    def membership(self) -> ClientMembership:
        """The members as the coordinator reports them, else as they are stored."""
        return membership(self.stored, self.live)

    @property
    def is_silent(self) -> bool:
        """Returns whether the coordinator was asked and has not answered."""
        return self.was_asked and self.live is None and self.slot.is_led

    @property
    def protocol_state(self) -> str | None:
        """Kafka's word; None where the coordinator has not answered, or no broker coordinates a group that
        has members.
        """
        if self.live is not None:
            return self.live.state
        if self.was_asked and self.stored.has_members:
            return None
        return self.membership.state

    @property
    def has_members(self) -> bool:
        """Returns whether members of either kind are there, or are about to be."""
        return bool(self.membership.members or self.snapshot.registrations or self.stored.marker)

    @cached_property
    def wanted(self) -> frozenset[TopicPartition]:
        """The partitions of the topics that members subscribe to."""
        return frozenset(
            TopicPartition(topic, number)
            for topic in self.membership.subscribed
            for number in self.snapshot.partitions(topic)
        )

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that is wrong, in the order of `ProblemKind`; empty when the group has converged."""
        found = [
            *persistent_problems(self.snapshot),
            *_unreadable(self),
            *_coordination(self),
            *_two_kinds(self),
            *_assignment(self),
        ]
        order = list(ProblemKind)
        return tuple(
            sorted(found, key=lambda p: (order.index(p.kind), p.topic or "", p.partition or 0, p.detail))
        )

    def state(self, now_ms: int) -> GroupState:
        """The state in the words for all groups."""
        if not self.has_members:
            return GroupState.FROZEN if stands(self.snapshot.frozen, now_ms) else GroupState.EMPTY
        if self.snapshot.frozen is not None:
            return GroupState.FROZEN
        if not self.problems:
            return GroupState.STABLE
        is_rebalancing = self.membership.state not in (STABLE, EMPTY)
        if is_rebalancing or not self.snapshot.stood_still or self._is_young(now_ms):
            return GroupState.REBALANCING
        return GroupState.INCONSISTENT

    def _is_young(self, now_ms: int) -> bool:
        changes = [self.stored.newest_change_ms]
        if self.slot.state is not None:
            changes.append(self.slot.state.stat.mtime)
        return now_ms - max(changes) < YOUNG_MS or is_young(self.snapshot, now_ms)

    def members(self) -> tuple[MemberDescription, ...]:
        """The clients, by member id."""
        return tuple(map(_member, self.membership.members))


def _member(member: ClientMember) -> MemberDescription:
    topics = dict.fromkeys(member.topics or (), 1)
    return MemberDescription(
        member=member.member_id,
        session_id=None,
        threads=topics,
        pattern=None,
        subscription=topics,
        registered_at_ms=None,
        kind="client",
        host=member.host or None,
        agrees=None,
        client_id=member.client_id,
        instance_id=member.instance_id,
    )


def _unreadable(view: CoordinatedView) -> Iterator[Problem]:
    stored, snapshot = view.stored, view.snapshot
    marker_error = stored.marker.error if stored.marker else None
    for error in (stored.error, marker_error, view.slot.error):
        if error is not None:
            yield Problem(
                kind=ProblemKind.UNREADABLE_GROUP,
                expected=error.expected,
                found=error.found,
                detail=str(error),
            )
    for member in view.membership.members:
        for text in member.errors:
            yield Problem(
                kind=ProblemKind.UNREADABLE_MEMBER,
                found=member.member_id,
                detail=f"{_header_path(view)}: member {member.member_id}: {text}",
            )
    for topic, entry in snapshot.topics.items():
        if entry.error and topic in view.membership.topics:
            yield Problem(kind=ProblemKind.UNREADABLE_TOPIC, topic=topic, detail=str(entry.error))
    for tp, offset in snapshot.offsets.items():
        if offset.error:
            yield Problem(
                kind=ProblemKind.UNREADABLE_OFFSET,
                topic=tp.topic,
                partition=tp.partition,
                expected=offset.error.expected,
                found=offset.error.found,
                since_ms=offset.stat.mtime,
                detail=str(offset.error),
            )


def _coordination(view: CoordinatedView) -> Iterator[Problem]:
    """Returns whether a coordinator leads the group, and says the same as ZooKeeper."""
    live, stored, where = view.live, view.stored, _header_path(view)
    if view.has_members and (reason := view.slot.reason_not_led):
        yield Problem(kind=ProblemKind.SLOT_NOT_LED, detail=reason)
    if view.is_silent:
        yield Problem(
            kind=ProblemKind.COORDINATOR_SILENT,
            detail=f"{where}: its coordinator, broker {view.slot.leader}, does not answer for it",
        )
    if live is None:
        return
    if live.state not in (STABLE, EMPTY, DEAD):
        yield Problem(
            kind=ProblemKind.NOT_STABLE,
            expected=STABLE,
            found=live.phase or live.state,
            detail=f"{where}: its coordinator, broker {view.slot.leader}, reports {live.phase or live.state}",
        )
        return
    if view.snapshot.frozen is not None:
        return  # members that came or went are stored at the end of the freeze
    reported = tuple(sorted(member.member_id for member in live.members))
    generation = stored.header.value.generation if stored.header and stored.header.value else None
    if reported != stored.names or (live.state == STABLE and live.generation not in (None, generation)):
        yield Problem(
            kind=ProblemKind.STORED_GROUP_DIFFERS,
            expected=_named(live.generation, len(reported)),
            found=_named(generation, len(stored.names)),
            since_ms=stored.newest_change_ms,
            detail=(
                f"{where}: its coordinator, broker {view.slot.leader}, reports "
                f"{_named(live.generation, len(reported))}, ZooKeeper has "
                f"{_named(generation, len(stored.names))}"
            ),
        )


def _named(generation: int | None, members: int) -> str:
    return f"generation {'unknown' if generation is None else generation} with {members} members"


def _two_kinds(view: CoordinatedView) -> Iterator[Problem]:
    """Marker, protocol members and ZooKeeper members have to fit together (the marker, recipes 22)."""
    stored, group = view.stored, view.snapshot.group
    is_at_rest = view.live is None or view.live.state in (STABLE, EMPTY, DEAD)
    if stored.marker is not None and not view.membership.members and is_at_rest:
        yield Problem(
            kind=ProblemKind.MARKER_WITHOUT_MEMBERS,
            since_ms=stored.marker.stat.ctime,
            detail=f"{stored.marker.znode.path}: no members, and ZooKeeper consumers are refused",
        )
    if stored.marker is None and stored.members:
        yield Problem(
            kind=ProblemKind.MEMBERS_WITHOUT_MARKER,
            since_ms=stored.newest_change_ms,
            detail=f"{ProtocolMarker.path(group)}: expected the marker of Kafka's protocol, found none",
        )
    for member, entry in sorted(view.snapshot.registrations.items()):
        if is_leftover(entry.znode):
            continue  # no consumer is there to be stopped: `persistent_problems` has it
        yield Problem(
            kind=ProblemKind.ZOOKEEPER_MEMBER,
            found=member,
            since_ms=entry.stat.ctime,
            detail=f"{ids_path(group)}/{member}: stop this ZooKeeper consumer: it consumes beside the others",
        )


def _assignment(view: CoordinatedView) -> Iterator[Problem]:
    """Every partition of every subscribed topic is to be assigned exactly once, while the group is stable."""
    found = view.membership
    if found.state != STABLE or not found.is_known:
        return
    where = _header_path(view)
    members: dict[TopicPartition, list[str]] = defaultdict(list)
    for tp, member in found.assignments:
        members[tp].append(member)
    for tp, owners in members.items():
        if len(owners) > 1:
            yield _at(tp, ProblemKind.ASSIGNED_TWICE, where, " and ".join(owners), "assigned to each of them")
        topic = view.snapshot.topics.get(tp.topic)
        readable = topic is None or topic.value is not None
        if readable and tp.partition not in view.snapshot.partitions(tp.topic):
            missing = "no such topic" if topic is None else f"no partition {tp.partition} of {tp.topic}"
            yield _at(tp, ProblemKind.OWNER_OF_UNKNOWN_PARTITION, where, owners[0], f"there is {missing}")
        elif tp.topic not in found.subscribed:
            yield _at(
                tp, ProblemKind.OWNER_OF_UNSUBSCRIBED_TOPIC, where, owners[0], "no member subscribes to it"
            )
    frozen = view.snapshot.frozen
    kind = ProblemKind.UNOWNED if frozen is None else ProblemKind.FROZEN
    why = "assigned to no member" if frozen is None else f"assigned to no member, and {freeze_text(frozen)}"
    for tp in sorted(view.wanted - members.keys()):
        yield _at(tp, kind, where, None, why)


def _at(tp: TopicPartition, kind: ProblemKind, where: str, owner: str | None, why: str) -> Problem:
    who = f"{owner}: " if owner else ""
    return Problem(
        kind=kind, topic=tp.topic, partition=tp.partition, found=owner, detail=f"{where}: {tp}: {who}{why}"
    )


def _header_path(view: CoordinatedView) -> str:
    return GroupHeader.path(view.slot.slot, view.snapshot.group)
