"""The znodes of coordinated groups, replayed from the servers' log: commits (S25-S28), removals (S30-S33)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.simulation.coordinator.history.administration import Absences, RemovedMember
from zkgroup.assignment import consumer_protocol
from zkgroup.history.report import Violation
from zkgroup.history.transactions import Change, ServerTransaction
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import delete_topics_path
from zkgroup.znodes.brokers import topics_path
from zkgroup.znodes.consumers import Offset, consumers_path
from zkgroup.znodes.coordinated_groups import (
    GroupChunk,
    GroupHeader,
    OffsetAndMetadata,
    groups_path,
    members_of,
    slots_path,
)

OUTSIDE: Final = -1
"""Generation of a commit of a client that is no member."""
INFINITE_MS: Final = float("inf")
OPERATOR: Final = 0
"""Session of writes of an operator, in simulation."""


@dataclass(frozen=True, slots=True)
class SentCommit:
    """A commit as its client sent it."""

    group: str
    generation: int
    owner: str
    member_id: str = field(default="", compare=False)
    sent_ms: float = field(default=0, compare=False)
    kept: frozenset[TopicPartition] = field(default=frozenset(), compare=False)
    """The partitions that its sender has kept when it joined the generation."""


@dataclass(frozen=True, slots=True)
class _Written:
    """An offset and who wrote it: a commit, or the session of another client."""

    offset: int
    commit: SentCommit | int
    zxid: int


@dataclass(slots=True)
class _TopicLife:
    """The creation of a topic, and its existence, also of one of which the log has nothing."""

    created: list[tuple[int, float]] = field(default_factory=list)
    """Transaction and time of each creation."""
    is_there: bool = True
    is_requested: bool = False
    """True if its deletion is requested."""

    def is_former(self, zxid: int) -> bool:
        """Returns whether a transaction was before the topic was created last."""
        return bool(self.created) and zxid < self.created[-1][0]


@dataclass(frozen=True, slots=True)
class _Deprived:
    """An offset that was deleted although a stored member subscribes to its topic.

    The member may have left, or its session may have ended: the coordinator knows that before it is stored.
    """

    tp: TopicPartition
    generation: int
    at_ms: float


@dataclass(slots=True)
class _Group:
    """The present state of a group."""

    ids: set[str] = field(default_factory=set)
    is_marked: bool = False
    header: GroupHeader | None = None
    chunks: dict[str, bytes] = field(default_factory=dict)
    """The chunks with the stored members, by path."""
    offsets: dict[TopicPartition, _Written] = field(default_factory=dict)
    is_removed_now: bool = False
    """True if this transaction has removed it."""
    former_ms: float = 0
    """Time at which the group was removed last: commits that were sent before are of a former one."""
    changed_ms: dict[TopicPartition, float] = field(default_factory=dict)
    """Time at which an operator last changed an offset."""
    deprived: dict[str, _Deprived] = field(default_factory=dict)
    """By member id; forgotten when another coordinator loads the stored members."""

    @property
    def is_bare(self) -> bool:
        """True if nothing of it is there but what ZooKeeper members keep."""
        return not self.offsets and not self.is_marked and self.header is None

    def subscribers(self, topic: str) -> list[str]:
        """The ids of the stored members that subscribe to a topic."""
        if self.header is None or not self.has_members:
            return []
        numbers = range(self.header.first_chunk, self.header.first_chunk + self.header.chunks)
        prefix = f"/rec-{self.header.generation}-"
        chunks = [
            GroupChunk(data)
            for number in numbers
            for path, data in self.chunks.items()
            if path.endswith(f"{prefix}{number}")
        ]
        protocol = self.header.protocol or ""
        return [
            member.member_id
            for member in members_of("", self.header, chunks)
            if topic in consumer_protocol.subscribed_topics(dict(member.protocols).get(protocol, b""))
        ]

    @property
    def has_members(self) -> bool:
        """True if members of a coordinator are stored."""
        return self.header is not None and self.header.chunks > 0


class CoordinatedGroupsReplay:
    """Replays transactions in their order. `violations` has what they broke."""

    def __init__(
        self,
        sent: Mapping[str, SentCommit],
        figures: Counter[str],
        removed_members: Mapping[tuple[str, str], RemovedMember] | None = None,
        begun: Mapping[tuple[str, int], float] | None = None,
    ) -> None:
        """
        Args:
            sent: the clients' commits, by the metadata that they wrote.
            removed_members: static members that administrators removed, by group and member id.
            begun: when the join phase of a generation first ended, by group and generation.
        """
        self.violations: list[Violation] = []
        self._sent, self._figures = sent, figures
        self._removed_members = removed_members or {}
        self._begun = begun or {}
        self.absences = Absences()
        """The times at which groups and offsets were not there."""
        self._slot_set_ms: float = 0
        self._groups: dict[str, _Group] = {}
        self._slot_sessions: dict[int, int] = {}
        self.stored: dict[tuple[str, TopicPartition], list[int]] = {}
        """By group and partition, the times at which clients' commits were stored."""
        self.commit_zxids: dict[tuple[str, TopicPartition, str], int] = {}
        """By group, partition and commit, the transaction that stored it."""
        self._topics: dict[str, _TopicLife] = {}
        self.removed: dict[str, list[int]] = {}
        """By group, the times at which it was removed: it begins again at generation 1."""

    def apply(self, transaction: ServerTransaction) -> None:
        """Applies one transaction, and checks it."""
        if transaction.refusal is not None:
            if transaction.refusal.path.startswith(f"{slots_path()}/"):
                self._figures["refused by the slot's check"] += 1
            return
        touched: dict[str, None] = {}
        offsets: dict[tuple[str, TopicPartition], int] = {}
        deleted: dict[tuple[str, TopicPartition], int] = {}
        commits: dict[tuple[str, TopicPartition], str] = {}
        for change in transaction.changes:
            if change.action == "check":
                continue
            self._slot_changed(transaction, change)
            self._topic_changed(transaction, change)
            if (group := self._header_changed(transaction, change, commits)) is not None:
                touched[group] = None
            if (group := self._group_changed(change, offsets, deleted)) is not None:
                touched[group] = None
        for group in touched:
            self._check_kinds(transaction, group)
            self._check_subscribers(transaction, group)
        for key, offset in offsets.items():
            self._offset_written(transaction, key, offset, commits.get(key))
        for key, zxid in deleted.items():
            self._offset_deleted(transaction, key, zxid)
        for group in touched:
            self._check_removal(transaction, group)
            self.absences.group(group).change(transaction.at_ms, self._group(group).is_bare)

    def _group(self, name: str) -> _Group:
        return self._groups.setdefault(name, _Group())

    def _violated(self, rule: str, detail: str, transaction: ServerTransaction) -> None:
        self.violations.append(Violation(rule, detail, zxid=transaction.zxid))

    def _slot_changed(self, transaction: ServerTransaction, change: Change) -> None:
        below = _below(change.path, slots_path())
        if len(below) == 1:
            self._figures["slots taken"] += transaction.session != OPERATOR
            self._slot_sessions[int(below[0])] = transaction.session
            self._slot_set_ms = transaction.at_ms
            for group in self._groups.values():
                group.deprived.clear()

    def _topic(self, name: str) -> _TopicLife:
        return self._topics.setdefault(name, _TopicLife())

    def topic_created(self, name: str) -> Sequence[tuple[int, float]]:
        """Transaction and time of each creation of a topic."""
        return self._topic(name).created

    def _topic_changed(self, transaction: ServerTransaction, change: Change) -> None:
        is_there = change.action != "delete"
        match _below(change.path, topics_path()), _below(change.path, delete_topics_path()):
            case [name], []:
                topic = self._topic(name)
                topic.is_there = is_there
                self._figures["topics deleted"] += not is_there
                if change.action == "create":
                    self._figures["topics created again"] += bool(topic.created)
                    topic.created.append((transaction.zxid, transaction.at_ms))
            case [], [name]:
                self._topic(name).is_requested = is_there

    def _header_changed(
        self,
        transaction: ServerTransaction,
        change: Change,
        commits: dict[tuple[str, TopicPartition], str],
    ) -> str | None:
        """A znode below a slot: only the slot's owner writes there (S26). The group, if it is its header."""
        below = _below(change.path, groups_path())
        if len(below) < 2:
            return None
        owner = self._slot_sessions.get(int(below[0]))
        if transaction.session not in (owner, OPERATOR):
            detail = f"{change.path} is written by session {transaction.session:#x}, the slot is of {owner}"
            self._violated("S26", detail, transaction)
        if len(below) > 2:
            if len(below) == 3 and change.action != "delete":
                self._group(below[1]).chunks[change.path] = change.data or b""
            elif len(below) == 3:
                self._group(below[1]).chunks.pop(change.path, None)
            if len(below) == 5 and change.action != "delete":
                partition = TopicPartition(below[3], int(below[4]))
                commits[below[1], partition] = OffsetAndMetadata.decode(change.path, change.data).metadata
            return None
        group = self._group(below[1])
        if change.action == "delete":
            self.removed.setdefault(below[1], []).append(transaction.at_ms)
            group.former_ms, group.is_removed_now = transaction.at_ms, True
            self._figures["groups removed"] += 1
            if group.has_members:
                self._violated("S30", f"{below[1]} is removed with the members of a coordinator", transaction)
        is_there = change.action != "delete" and bool(change.data)
        group.header = GroupHeader.decode(change.path, change.data) if is_there else None
        return below[1]

    def _group_changed(
        self,
        change: Change,
        offsets: dict[tuple[str, TopicPartition], int],
        deleted: dict[tuple[str, TopicPartition], int],
    ) -> str | None:
        """A znode of a group in `/consumers`; the group, if its members, marker or offsets have changed."""
        below = _below(change.path, consumers_path())
        match below:
            case [name, "protocol"]:
                self._group(name).is_marked = change.action != "delete"
                self._figures["markers set"] += change.action == "create"
                return name
            case [name, "ids", member]:
                ids = self._group(name).ids
                (ids.discard if change.action == "delete" else ids.add)(member)
                self._figures["ZooKeeper members registered"] += change.action == "create"
                return name
            case [name, "offsets", topic, number]:
                tp = TopicPartition(topic, int(number))
                if change.action == "delete":
                    written = self._group(name).offsets.pop(tp, None)
                    deleted[name, tp] = 0 if written is None else written.zxid
                else:
                    offsets[name, tp] = Offset.decode(change.path, change.data).value
                return name
        return None

    def _check_kinds(self, transaction: ServerTransaction, name: str) -> None:
        group = self._group(name)
        if group.ids and (group.is_marked or group.has_members):
            detail = f"{name} has the ZooKeeper members {sorted(group.ids)} beside those of a coordinator"
            self._violated("S27", detail, transaction)
        if group.has_members and not group.is_marked:
            self._violated("S27", f"{name} has stored members without the marker", transaction)

    def _offset_written(
        self,
        transaction: ServerTransaction,
        key: tuple[str, TopicPartition],
        offset: int,
        number: str | None,
    ) -> None:
        name, tp = key
        group = self._group(name)
        commit: SentCommit | int = transaction.session if number is None else self._sent[number]
        self.absences.offset(name, tp).change(transaction.at_ms, False)
        if isinstance(commit, SentCommit):
            assert number is not None
            self.stored.setdefault(key, []).append(transaction.at_ms)
            self.commit_zxids[name, tp, number] = transaction.zxid
            self._commit_stored(transaction, group, commit, number)
            self._check_order(transaction, group, tp, commit, number)
        elif commit == OPERATOR:
            self._operator_changed(transaction, name, tp)
        else:
            self._figures["commits of ZooKeeper members"] += 1
        before = group.offsets.get(tp)
        if before is not None and (before.offset < 0 or self._topic(tp.topic).is_former(before.zxid)):
            before = None
        if before is not None and offset < before.offset and not _may_go_back(tp, commit, before.commit):
            detail = f"{tp} of {name} goes back from {before.offset} ({before.commit}) to {offset} ({commit})"
            self._violated("S28", detail, transaction)
        group.offsets[tp] = _Written(offset, commit, transaction.zxid)

    def _commit_stored(
        self, transaction: ServerTransaction, group: _Group, commit: SentCommit, number: str
    ) -> None:
        if commit.generation == OUTSIDE:
            self._figures["commits of clients outside"] += 1
            if group.ids or group.has_members:
                self._violated("S25", f"{number} is of a client outside, and there are members", transaction)
            return
        self._figures["commits of members"] += 1
        stored = group.header.generation if group.header is not None else None
        # A generation that has begun may end before its assignment is stored; its members commit meanwhile.
        has_begun = self._begun.get((commit.group, commit.generation), INFINITE_MS) <= transaction.at_ms
        is_next = stored is not None and stored < commit.generation and has_begun
        if not group.has_members or not (stored == commit.generation or is_next):
            detail = f"commit {number} of generation {commit.generation} is stored in generation {stored}"
            self._violated("S25", detail, transaction)
        deprived = group.deprived.get(commit.member_id)
        if deprived is not None and commit.sent_ms > deprived.at_ms:
            self._deleted_under(transaction, commit.member_id, deprived)
        removed = self._removed_members.get((commit.group, commit.member_id))
        if (
            removed is not None
            and commit.sent_ms > removed.answered_ms
            and self._slot_set_ms < removed.asked_ms  # the next coordinator loads what was stored before
        ):
            detail = f"commit {number} is stored, and its member {commit.member_id} was removed"
            self._violated("S33", detail, transaction)

    def _operator_changed(self, transaction: ServerTransaction, name: str, tp: TopicPartition) -> None:
        """An operator changes the offsets only of a group without members (S32)."""
        group = self._group(name)
        self._figures["offsets changed by operators"] += 1
        group.changed_ms[tp] = transaction.at_ms
        if group.ids or group.is_marked or group.has_members:
            self._violated("S32", f"an operator changes {tp} of {name}, which has members", transaction)

    def _check_order(
        self,
        transaction: ServerTransaction,
        group: _Group,
        tp: TopicPartition,
        commit: SentCommit,
        number: str,
    ) -> None:
        """A member that commits has joined after the last change of an operator (S30, S32)."""
        if commit.generation == OUTSIDE:
            return
        if commit.sent_ms < group.former_ms:
            self._violated("S30", f"{number} of a removed group is stored", transaction)
        if commit.sent_ms < group.changed_ms.get(tp, 0):
            self._violated("S32", f"{number} is older than an operator's change of {tp}", transaction)

    def _offset_deleted(
        self, transaction: ServerTransaction, key: tuple[str, TopicPartition], zxid: int
    ) -> None:
        """Nobody deletes an offset, written by the transaction `zxid`, that a member needs (S31)."""
        name, tp = key
        group = self._group(name)
        self._figures["offsets deleted"] += 1
        self.absences.offset(name, tp).change(transaction.at_ms, True)
        topic = self._topic(tp.topic)
        is_needed = topic.is_there and not topic.is_requested and not topic.is_former(zxid)
        self._figures["offsets of deleted topics deleted"] += not is_needed
        if group.ids:
            self._violated("S31", f"{tp} of {name} is deleted beside ZooKeeper members", transaction)
        elif group.header is not None and is_needed:
            deprived = _Deprived(tp, group.header.generation, transaction.at_ms)
            group.deprived.update(dict.fromkeys(group.subscribers(tp.topic), deprived))

    def _check_subscribers(self, transaction: ServerTransaction, name: str) -> None:
        """A member of the next generation, too, subscribed to an offset that was deleted (S31)."""
        group = self._group(name)
        generation = group.header.generation if group.header is not None else None
        for member_id, deprived in list(group.deprived.items()):
            if generation == deprived.generation:
                continue
            del group.deprived[member_id]
            if member_id in group.subscribers(deprived.tp.topic):
                self._deleted_under(transaction, member_id, deprived)

    def _deleted_under(self, transaction: ServerTransaction, member_id: str, deprived: _Deprived) -> None:
        detail = f"{deprived.tp} was deleted, and {member_id} goes on, which subscribes to it"
        self._violated("S31", detail, transaction)

    def _check_removal(self, transaction: ServerTransaction, name: str) -> None:
        """A group that is removed leaves nothing (S30)."""
        group = self._group(name)
        if group.is_removed_now:
            group.is_removed_now = False
            if not group.is_bare:
                kept = f"the offsets {sorted(group.offsets)}" if group.offsets else "the marker"
                self._violated("S30", f"{name} is removed, and {kept} are left", transaction)


def _may_go_back(tp: TopicPartition, commit: SentCommit | int, before: SentCommit | int) -> bool:
    """Returns whether a commit may lower the offset of the one before.

    Requests of one member may change places. A cooperative member that has missed a generation keeps what
    that one has given to another member, and commits it in the next one before it revokes it: the protocol
    has nothing to refuse that by. So may the other member, which has not read that commit.
    """
    if not isinstance(commit, SentCommit):
        return commit == OPERATOR
    if commit.generation == OUTSIDE or commit == before:
        return True
    if not isinstance(before, SentCommit) or before.owner == commit.owner:
        return False
    return tp in commit.kept or (tp in before.kept and before.generation == commit.generation)


def _below(path: str, parent: str) -> list[str]:
    """The names below a parent; empty for other paths."""
    return path[len(parent) + 1 :].split("/") if path.startswith(f"{parent}/") else []
