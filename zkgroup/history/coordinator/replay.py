"""The znodes of coordinated groups, replayed from the servers' log: S25 to S28 at each transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from zkgroup.history.report import Violation
from zkgroup.history.transactions import Change, ServerTransaction
from zkgroup.model import TopicPartition
from zkgroup.znodes.consumers import Offset, consumers_path
from zkgroup.znodes.coordinated_groups import GroupHeader, OffsetMetadata, groups_path, slots_path

OUTSIDE: Final = -1
"""Generation of a commit of a client that is no member."""
NO_OPERATOR: Final = 0
"""Session of writes of an operator, in simulation."""


@dataclass(frozen=True, slots=True)
class SentCommit:
    """A commit as its client sent it."""

    group: str
    generation: int
    owner: str


@dataclass(frozen=True, slots=True)
class _Written:
    """An offset and who wrote it: a commit, or the session of another client."""

    offset: int
    commit: SentCommit | int


@dataclass(slots=True)
class _Group:
    """What stands of a group."""

    ids: set[str] = field(default_factory=set)
    is_marked: bool = False
    header: GroupHeader | None = None
    offsets: dict[TopicPartition, _Written] = field(default_factory=dict)

    @property
    def has_members(self) -> bool:
        """Whether members of a coordinator are stored."""
        return self.header is not None and self.header.chunks > 0


class CoordinatedGroupsReplay:
    """Replays transactions in their order. `violations` has what they broke."""

    def __init__(self, sent: Mapping[str, SentCommit], figures: Counter[str]) -> None:
        """sent: the clients' commits, by the metadata that they wrote."""
        self.violations: list[Violation] = []
        self._sent, self._figures = sent, figures
        self._groups: dict[str, _Group] = {}
        self._slot_sessions: dict[int, int] = {}
        self.stored: dict[tuple[str, TopicPartition], list[int]] = {}
        """By group and partition, the times at which clients' commits were stored."""
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
        commits: dict[tuple[str, TopicPartition], str] = {}
        for change in transaction.changes:
            if change.action == "check":
                continue
            self._slot_changed(transaction, change)
            if (group := self._header_changed(transaction, change, commits)) is not None:
                touched[group] = None
            if (group := self._group_changed(change, offsets)) is not None:
                touched[group] = None
        for group in touched:
            self._check_kinds(transaction, group)
        for key, offset in offsets.items():
            self._offset_written(transaction, key, offset, commits.get(key))

    def _group(self, name: str) -> _Group:
        return self._groups.setdefault(name, _Group())

    def _violated(self, rule: str, detail: str, transaction: ServerTransaction) -> None:
        self.violations.append(Violation(rule, detail, zxid=transaction.zxid))

    # --- znodes -----------------------------------------------------------------------------------

    def _slot_changed(self, transaction: ServerTransaction, change: Change) -> None:
        below = _below(change.path, slots_path())
        if len(below) == 1:
            self._figures["slots taken"] += transaction.session != NO_OPERATOR
            self._slot_sessions[int(below[0])] = transaction.session

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
        if transaction.session not in (owner, NO_OPERATOR):
            detail = f"{change.path} is written by session {transaction.session:#x}, the slot is of {owner}"
            self._violated("S26", detail, transaction)
        if len(below) > 2:
            if len(below) == 5 and change.action != "delete":
                partition = TopicPartition(below[3], int(below[4]))
                commits[below[1], partition] = OffsetMetadata.decode(change.path, change.data).metadata
            return None
        if change.action == "delete":
            self.removed.setdefault(below[1], []).append(transaction.at_ms)
        is_there = change.action != "delete" and bool(change.data)
        self._group(below[1]).header = GroupHeader.decode(change.path, change.data) if is_there else None
        return below[1]

    def _group_changed(self, change: Change, offsets: dict[tuple[str, TopicPartition], int]) -> str | None:
        """A znode of a group in `/consumers`; the group, if its members or its marker have changed."""
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
                    self._group(name).offsets.pop(tp, None)
                else:
                    offsets[name, tp] = Offset.decode(change.path, change.data).value
        return None

    # --- rules ------------------------------------------------------------------------------------

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
        if isinstance(commit, SentCommit):
            assert number is not None
            self.stored.setdefault(key, []).append(transaction.at_ms)
            self._commit_stored(transaction, group, commit, number)
        else:
            self._figures["commits of ZooKeeper members"] += 1
        before = group.offsets.get(tp)
        if before is not None and offset < before.offset and not _may_go_back(commit, before.commit):
            detail = f"{tp} of {name} goes back from {before.offset} ({before.commit}) to {offset} ({commit})"
            self._violated("S28", detail, transaction)
        group.offsets[tp] = _Written(offset, commit)

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
        if stored != commit.generation or not group.has_members:
            detail = f"commit {number} of generation {commit.generation} is stored in generation {stored}"
            self._violated("S25", detail, transaction)


def _may_go_back(commit: SentCommit | int, before: SentCommit | int) -> bool:
    """Whether a commit may lower the offset of the one before: requests of one member may change places."""
    return isinstance(commit, SentCommit) and (commit.generation == OUTSIDE or commit == before)


def _below(path: str, parent: str) -> list[str]:
    """The names below a parent; empty for other paths."""
    return path[len(parent) + 1 :].split("/") if path.startswith(f"{parent}/") else []
