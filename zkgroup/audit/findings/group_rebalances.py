"""The rebalances of a group, from a replay of its members, owners and stored assignment.

A rebalance begins with a change of the membership, or with the first owner that comes or goes. It is over
once nothing of the kind has happened for a while; earlier where every member owned what it is assigned
and the membership changes again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from zkgroup.assignment import agreed_strategy, assignment_diff
from zkgroup.audit.answers.partitions import OwnerLife, is_session_end, member_of_thread, thread_of
from zkgroup.audit.findings import membership
from zkgroup.audit.findings.membership import ExpectedOwners, expected_owners, least_moves, numbers_of
from zkgroup.audit.inputs.events import Event, Key
from zkgroup.audit.inputs.facts import DataChange, Facts, Life, decoded, registration_of
from zkgroup.model import TopicPartition
from zkgroup.model.text import hex_session
from zkgroup.znodes.consumers import Registration
from zkgroup.znodes.group_records import StoredAssignment
from zkgroup.znodes.paths import PathKind, partition_of, path_kind


class RegisteredMember(NamedTuple):
    session: int
    registration: Registration | None
    """The registration; None where JVM members cannot read it: its member owns nothing, and stops those."""


class GroupReplay:
    """The members, owners and stored assignment of a group. `apply` takes its rows in order."""

    def __init__(self, group: str, facts: Facts) -> None:
        self.group = group
        self.members: dict[str, RegisteredMember] = {}
        self.owners: dict[TopicPartition, OwnerLife] = {}
        self.freed: dict[TopicPartition, Event] = {}
        """The last deletion of an owner, for partitions that have none now."""
        self._facts = facts
        self._assignment_path = StoredAssignment.path(group)
        self._assignment: StoredAssignment | None = None

    def apply(self, event: Event, place: PathKind) -> None:
        if place.kind == "member":
            self._member(event, place.member)
        elif place.kind == "owner":
            self._owner(event, partition_of(event.path))
        elif event.path == self._assignment_path:
            gone = event.op == "delete"
            self._assignment = None if gone else decoded(StoredAssignment.decode, event.path, event.data)

    def registrations(self) -> dict[str, Registration]:
        """The registrations that can be read."""
        return {
            name: member.registration
            for name, member in self.members.items()
            if member.registration is not None
        }

    def threads(self) -> dict[TopicPartition, str]:
        """The owner of each owned partition, as a thread id."""
        return {tp: claim.thread for tp, claim in self.owners.items()}

    def foreign_claims(self) -> list[OwnerLife]:
        """The owners in another client's format: the id alone of a registration of the same session."""
        sessions = {name: member.session for name, member in self.members.items()}
        return [claim for claim in self.owners.values() if sessions.get(claim.thread) == claim.session]

    def expected_owners(self, zxid: int) -> ExpectedOwners | None:
        """The assignment for the topics of a zxid; None where it cannot be known.

        It is not known for other clients' members either: they share partitions in ways of their own.
        """
        if self.foreign_claims():
            return None
        return expected_owners(
            self.registrations(),
            membership.partitions_at(self._facts, zxid),
            self.threads(),
            self._assignment,
        )

    def is_at_rest(self, zxid: int) -> bool:
        """True if every member owns exactly what it is assigned."""
        if not self.owners and self._is_to_be_owned(zxid):
            return False
        plan = self.expected_owners(zxid)
        return plan is not None and plan.owners == self.threads()

    def _is_to_be_owned(self, zxid: int) -> bool:
        """True if the assignment is known and has an owner for something; False proves nothing."""
        if self._assignment is not None and not self._assignment.owners:
            return False
        partitions = membership.partitions_at(self._facts, zxid)
        return any(
            threads > 0 and partitions.get(topic)
            for registration in self.registrations().values()
            for topic, threads in (membership.topics_wanted(registration, tuple(partitions)) or {}).items()
        )

    def _member(self, event: Event, member: str) -> None:
        if event.op == "create":
            self.members[member] = RegisteredMember(event.session, registration_of(event.data))
        elif event.op == "set" and member in self.members:
            self.members[member] = self.members[member]._replace(registration=registration_of(event.data))
        elif event.op == "delete":
            self.members.pop(member, None)

    def _owner(self, event: Event, topic_partition: TopicPartition) -> None:
        if event.op == "create":
            claim = OwnerLife(thread_of(event), event.session, event.zxid, event.time_ms)
            self.owners[topic_partition] = claim
            self.freed.pop(topic_partition, None)
        elif event.op == "delete" and self.owners.pop(topic_partition, None) is not None:
            self.freed[topic_partition] = event


def replayed_group(rows: Iterable[Event], key: Key, facts: Facts) -> Iterator[GroupReplay]:
    """The group after its last row, as the only value of a tuple. Several rules share it."""
    replay = GroupReplay(key[0], facts)
    for event in rows:
        replay.apply(event, path_kind(event.path))
    yield replay


QUIET_MS = 5_000

Cause = Literal[
    "join",
    "unreadable registration",
    "clean leave",
    "expiry",
    "crash",
    "removal",
    "subscribe",
    "unsubscribe",
    "partition growth",
    "topic deletion",
    "stolen claim",
]


class Trigger(NamedTuple):
    """A cause of a rebalance, before it or in it.

    `expiry` is the end of a session whose member came back later in the history, `crash` of one whose
    member did not. `removal` is a registration that another session deleted, `unreadable registration` one
    that stops the JVM members. `unsubscribe` gives up a topic or threads, `subscribe` only asks for more.
    """

    cause: Cause
    what: str
    """The member, topic or session."""
    zxid: int
    time_ms: int


class PartitionChange(NamedTuple):
    """A partition that was released or claimed in a rebalance."""

    topic_partition: TopicPartition
    before: str | None
    """The thread that owned it before the rebalance."""
    after: str | None
    down_ms: int | None
    """The time from its last owner to the next; None where there is no next one, or was no last one."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One rebalance, from its first to its last row."""

    group: str
    from_zxid: int
    from_ms: int
    to_zxid: int
    to_ms: int
    triggers: tuple[Trigger, ...]
    """The causes by zxid; none where the log does not have them."""
    changes: tuple[PartitionChange, ...]
    retaken: tuple[TopicPartition, ...]
    """Released, and claimed again by the same thread in the same session."""
    members: int
    """The members that were registered at its end."""
    retaken_by_zkgroup: int
    """The number of these by zkgroup members; JVM members always release everything."""
    is_sticky: bool
    moved: int
    """The partitions whose thread is not the one before, if they had one before and have one now."""
    least: int | None
    """The fewest moves known: those to the most even assignment, or the real ones where they were fewer, for
    `range` assigns less evenly. None where that cannot be known."""

    @property
    def down_ms_max(self) -> int:
        """The longest time without an owner, of partitions that have one again."""
        return max((change.down_ms or 0 for change in self.changes), default=0)

    @property
    def unowned(self) -> int:
        """The number of touched partitions without an owner at its end."""
        return sum(change.after is None for change in self.changes)


@dataclass(slots=True)
class _Open:
    from_zxid: int
    from_ms: int
    to_zxid: int
    to_ms: int
    before: dict[TopicPartition, str]
    members: dict[str, RegisteredMember]
    triggers: list[Trigger] = field(default_factory=list)
    touched: dict[TopicPartition, int | None] = field(default_factory=dict)
    """Each with its time without an owner; None while that lasts."""
    released: dict[TopicPartition, OwnerLife] = field(default_factory=dict)
    retaken: dict[TopicPartition, bool] = field(default_factory=dict)
    """Each with True if a zkgroup member retook it."""


def group_rebalances(
    rows: Iterable[Event], key: tuple[str, ...], facts: Facts, quiet_ms: float
) -> Iterator[Rebalance]:
    """The rebalances of a group, from its rows in order. Several rules share them."""
    return _Rebalances(key[0], facts, quiet_ms).found(rows)


class _Rebalances:
    def __init__(self, group: str, facts: Facts, quiet_ms: float) -> None:
        self._facts = facts
        self._quiet_ms = quiet_ms
        self._replay = GroupReplay(group, facts)
        self._lives: dict[str, list[Life]] = {}
        """The registrations of the group by path, later ones too."""
        for life in facts.members.get(group, ()):
            self._lives.setdefault(life.path, []).append(life)
        self._since_zxid = facts.start_zxid - 1
        """Changes of topics up to this zxid were counted in earlier rebalances."""

    def found(self, rows: Iterable[Event]) -> Iterator[Rebalance]:
        current: _Open | None = None
        for event in rows:
            place = path_kind(event.path)
            if event.op in ("create", "delete") and place.kind in ("owner", "member") and not event.seed:
                if current and event.zxid != current.to_zxid and self._is_over(current, event, place):
                    yield self._closed(current)
                    current = None
                current = current or self._opened(event)
                self._note(current, event, place)
            self._replay.apply(event, place)
        if current:
            yield self._closed(current)

    def _is_over(self, current: _Open, event: Event, place: PathKind) -> bool:
        if event.time_ms - current.to_ms >= self._quiet_ms:
            return True
        return self._is_trigger(event, place) and self._replay.is_at_rest(current.to_zxid)

    def _is_trigger(self, event: Event, place: PathKind) -> bool:
        """True if a row changes the membership, or ends a claim that its member did not release.

        The end of a session may list its claims before its registration.
        """
        if place.kind == "member" or event.op != "delete":
            return place.kind == "member"
        claim = self._replay.owners.get(partition_of(event.path))
        return claim is not None and (claim.session != event.session or is_session_end(self._facts, event))

    def _opened(self, event: Event) -> _Open:
        moment = event.zxid, event.time_ms
        return _Open(*moment, *moment, self._replay.threads(), dict(self._replay.members))

    def _note(self, current: _Open, event: Event, place: PathKind) -> None:
        """Adds a row to the rebalance, while the group is as it was before that row."""
        current.to_zxid = event.zxid
        current.to_ms = max(current.to_ms, event.time_ms)
        if place.kind == "member":
            cause = self._cause(event, place.member)
            if cause is not None:
                current.triggers.append(Trigger(cause, place.member, event.zxid, event.time_ms))
            return
        tp = partition_of(event.path)
        if event.op == "create":
            freed = self._replay.freed.get(tp)
            down = None if freed is None else max(event.time_ms - freed.time_ms, 0)
            earlier = current.touched.get(tp)
            current.touched[tp] = down if earlier is None or down is None else earlier + down
            was = current.released.pop(tp, None)
            if was is not None and (was.thread, was.session) == (thread_of(event), event.session):
                current.retaken[tp] = self._is_zkgroup(was.thread)
            return
        claim = self._replay.owners.get(tp)
        if claim is None:
            return
        current.touched.setdefault(tp, None)
        if claim.session == event.session:
            if not is_session_end(self._facts, event):
                current.released[tp] = claim
            return
        thief = hex_session(event.session)
        if ("stolen claim", thief) not in {(trigger.cause, trigger.what) for trigger in current.triggers}:
            current.triggers.append(Trigger("stolen claim", thief, event.zxid, event.time_ms))

    def _is_zkgroup(self, thread: str) -> bool:
        member = self._replay.members.get(member_of_thread(thread) or "")
        return member is not None and member.registration is not None and member.registration.is_zkgroup

    def _cause(self, event: Event, member: str) -> Cause | None:
        """The cause in a row of a member; a registration made again at once counts when it is made."""
        lives = self._lives.get(event.path, [])
        at = bisect_left(lives, event.zxid, key=lambda life: life.from_zxid)
        if event.op == "create":
            return self._of_registration(event, lives[at - 1] if at else None)
        was, next_life = self._replay.members.get(member), lives[at] if at < len(lives) else None
        if was is None:
            return None
        if was.session != event.session:
            return "removal"
        if not is_session_end(self._facts, event):
            if next_life is None or next_life.session != event.session:
                return "clean leave"
            return None if next_life.from_ms - event.time_ms < self._quiet_ms else "clean leave"
        session = self._facts.sessions.get(event.session)
        if session is not None and session.expired is False:
            return "clean leave"
        return "crash" if next_life is None else "expiry"

    def _of_registration(self, event: Event, last: Life | None) -> Cause | None:
        """The cause in a registration; one that is new in the same session changes topics or threads."""
        if registration_of(event.data) is None:
            return "unreadable registration"
        if last is None or last.to_ms is None or last.ended_by != event.session:
            return "join"
        if event.time_ms - last.to_ms >= self._quiet_ms:
            return "join"
        partitions = membership.partitions_at(self._facts, event.zxid)
        before, after = _wants(last.data, partitions), _wants(event.data, partitions)
        if before == after:
            return None
        is_less = any(threads > after.get(topic, 0) for topic, threads in before.items())
        return "unsubscribe" if is_less else "subscribe"

    def _of_topics(self, current: _Open) -> Iterator[Trigger]:
        """The causes in topics that changed in the rebalance or shortly before, and that a member wanted."""
        before = self._wanted(current.members)
        later = before | self._wanted(self._replay.members)
        for topic in sorted(later & self._facts.topics.keys()):
            last: DataChange | None = None
            for change in self._facts.topics[topic]:
                is_early = change.zxid < current.from_zxid
                if (
                    self._since_zxid < change.zxid <= current.to_zxid
                    and change.time_ms >= current.from_ms - self._quiet_ms
                    and topic in (before if is_early else later)
                    and (cause := _of_topic(last, change)) is not None
                ):
                    yield Trigger(cause, topic, change.zxid, change.time_ms)
                last = change

    def _wanted(self, members: Mapping[str, RegisteredMember]) -> set[str]:
        names = tuple(self._facts.topics)
        return {
            topic
            for member in members.values()
            if member.registration is not None
            for topic in membership.topics_wanted(member.registration, names) or ()
        }

    def _closed(self, current: _Open) -> Rebalance:
        after = self._replay.threads()
        triggers = sorted([*current.triggers, *self._of_topics(current)], key=lambda each: each.zxid)
        is_topic_first = bool(triggers) and triggers[0].zxid < current.from_zxid
        self._since_zxid = current.to_zxid
        registrations = self._replay.registrations()
        moved = len(assignment_diff(current.before, after).moved)
        return Rebalance(
            group=self._replay.group,
            from_zxid=triggers[0].zxid if is_topic_first else current.from_zxid,
            from_ms=triggers[0].time_ms if is_topic_first else current.from_ms,
            to_zxid=current.to_zxid,
            to_ms=current.to_ms,
            triggers=tuple(triggers),
            changes=tuple(
                PartitionChange(tp, current.before.get(tp), after.get(tp), down_ms if tp in after else None)
                for tp, down_ms in sorted(current.touched.items())
            ),
            retaken=tuple(sorted(current.retaken)),
            members=len(self._replay.members),
            retaken_by_zkgroup=sum(current.retaken.values()),
            is_sticky=agreed_strategy(one.preference for one in registrations.values()) == "sticky",
            moved=moved,
            least=least_moves(
                registrations, membership.partitions_at(self._facts, current.to_zxid), current.before, moved
            ),
        )


def _wants(data: bytes | None, partitions: Iterable[str]) -> Mapping[str, int]:
    """Topic to thread count; empty where that cannot be known."""
    registration = registration_of(data)
    return (membership.topics_wanted(registration, partitions) if registration else None) or {}


def _of_topic(before: DataChange | None, change: DataChange) -> Cause | None:
    old = () if before is None else numbers_of(before.data)
    new = numbers_of(change.data)
    if set(new) - set(old):
        return "partition growth"
    return "topic deletion" if set(old) - set(new) else None
