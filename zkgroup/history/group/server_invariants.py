"""Claims, commits (S1 to S4) and half claims (S22), decided from the server's log alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from zkgroup.history.group.replay import GroupEvidence, GroupZnode, OwnerZnode, ReplayedGroup, number_in
from zkgroup.history.report import Figures, Violation
from zkgroup.history.transactions import Change, ServerTransaction, decoded
from zkgroup.model import TopicPartition
from zkgroup.znodes.consumers import Registration
from zkgroup.znodes.group_records import Reset

DECIDED = frozenset({"S1", "S2", "S3", "S4"})
NO_SESSION = 0
"""Session of a test's writes without a client, and of records before a member's first session."""


class Writer(Enum):
    """The writer of a transaction. Invariants bind zkgroup's members; writes of others are counted."""

    ZKGROUP_MEMBER = "a member of zkgroup"
    FOREIGN_MEMBER = "a member that is not of zkgroup"
    NON_MEMBER = "a client that is no member"


@dataclass(frozen=True, slots=True)
class LoggedOffsetWrite:
    """An accepted write of an offset, as the log has it."""

    topic_partition: TopicPartition
    zxid: int
    session: int
    members: frozenset[str]
    """The member whose registration the transaction checks."""
    value: int | None
    """None where the data is no number."""
    version: int
    is_claim: bool


class GroupLogChecker:
    """Decides the invariants of claims and commits (S1 to S4) in one pass over the log."""

    def __init__(self, evidence: GroupEvidence, figures: Figures) -> None:
        self._evidence = evidence
        self._figures = figures
        self._replayed = ReplayedGroup(evidence.group)
        self._zkgroup_sessions, self._foreign = _sessions(evidence)
        self._floors: dict[TopicPartition, int] = {}
        """The lowest value that a zkgroup member may write without a seek."""
        self._claimed_at: dict[TopicPartition, tuple[int, int]] = {}
        """czxid and version of the offset znode at the last claim."""
        self._last_owner: dict[TopicPartition, str] = {}
        self._now: ServerTransaction
        """The present transaction, and who writes it."""
        self._writer: Writer
        self.writes: list[LoggedOffsetWrite] = []
        """Every accepted write of an offset."""
        self.episodes: list[tuple[TopicPartition, OwnerZnode, int]] = []
        """Deleted owner znodes of zkgroup's members, each with the time of its deletion."""

    def run(self) -> Iterator[Violation]:
        for transaction in self._evidence.transactions:
            yield from self._transaction(transaction)
        end_ms = self._evidence.transactions[-1].at_ms if self._evidence.transactions else 0
        for tp, owned in self._replayed.owners.items():
            self._episode_over(tp, owned, end_ms)

    def _transaction(self, transaction: ServerTransaction) -> Iterator[Violation]:
        self._now, self._writer = transaction, self._writer_of(transaction.session)
        self._figures.transactions += 1
        if transaction.refusal is not None:
            self._refused()
            return
        for change in transaction.changes:
            place = self._replayed.place(change.path)
            if place is not None and change.action != "check":
                yield from self._change(change, place)
            self._replayed.apply(transaction, change)
        if transaction.kind == "close_session":
            yield from self._closed()
        elif self._writer is Writer.ZKGROUP_MEMBER:
            yield from self._unregistered()
            yield from self._claims()

    def _change(self, change: Change, place: GroupZnode) -> Iterator[Violation]:
        """Checks a change against the state before it, with the transaction's earlier changes applied."""
        tp, replayed = place.topic_partition, self._replayed
        match place.kind, change.action:
            case "owner", "create":
                yield from self._owner_created(change, tp)
            case "owner", "delete" if tp in replayed.owners:
                self._episode_over(tp, replayed.owners[tp], self._now.at_ms)
            case "offset", "delete":
                self._floors.pop(tp, None)
                self._claimed_at.pop(tp, None)
                if self._writer is Writer.ZKGROUP_MEMBER:
                    yield self._violation("S2", "a member deleted the offset", tp)
            case "offset", _:
                yield from self._offset_written(change, tp)
            case "reset", "create" | "set":
                self._reset(change, tp)

    def _owner_created(self, change: Change, tp: TopicPartition) -> Iterator[Violation]:
        text = (change.data or b"").decode("utf-8", "replace")
        if self._writer is Writer.ZKGROUP_MEMBER:
            self._figures.claims += 1
            member = text.rpartition("-")[0]
            registered = self._replayed.ids.get(member)
            if change.ephemeral_owner != self._now.session:
                yield self._violation("S1", f"the owner {text!r} is not ephemeral", tp)
            elif registered is None or registered.session != self._now.session:
                yield self._violation("S1", f"{text!r} claimed without a registration in its session", tp)
        if self._last_owner.get(tp, text) != text:
            self._figures.ownership_changes += 1
        self._last_owner[tp] = text

    def _unregistered(self) -> Iterator[Violation]:
        """A member that leaves deletes its owners before its registration; one that renews it keeps them."""
        gone = {
            place.member
            for change in self._now.changes
            if change.action == "delete"
            and (place := self._replayed.place(change.path))
            and place.kind == "id"
            and place.member not in self._replayed.ids
        }
        for tp, owned in self._replayed.owners.items():
            if owned.member in gone and owned.session == self._now.session:
                yield self._violation("S1", f"{owned.text!r} owns without a registration", tp)

    def _closed(self) -> Iterator[Violation]:
        for tp, owned in self._replayed.owners.items():
            if owned.session == self._now.session:
                yield self._violation("S1", f"{owned.text!r} outlived its session", tp)

    def _offset_written(self, change: Change, tp: TopicPartition) -> Iterator[Violation]:
        value, writer, is_claim = number_in(change.data), self._writer, self._is_claim(change, tp)
        place = tp, self._now.zxid, self._now.session, frozenset(self._named())
        self.writes.append(LoggedOffsetWrite(*place, value, change.version or 0, is_claim))
        floor = self._floors.get(tp)
        if writer is Writer.ZKGROUP_MEMBER:
            yield from self._fenced(tp)
            self._figures.commits += not is_claim
            if value is None:
                yield self._violation("S4", f"a member wrote {change.data!r}", tp)
            elif floor is not None and value < floor and (tp, change.version) not in self._evidence.rewinds:
                yield self._violation("S4", f"the offset went back from {floor} to {value}", tp)
            stored = self._replayed.offsets.get(tp)
            if value is not None and stored is not None and stored.value is not None:
                self._figures.reasserted += value < stored.value
        elif writer is Writer.FOREIGN_MEMBER:
            self._figures.foreign_member_writes += 1
        else:
            self._figures.foreign_writes += 1
        if value is not None:
            # Over a foreign value a member may write its own, or go on from the foreign one.
            self._floors[tp] = (
                value if writer is Writer.ZKGROUP_MEMBER or floor is None else min(floor, value)
            )

    def _fenced(self, tp: TopicPartition) -> Iterator[Violation]:
        """The writer owns the partition at this moment, whether or not the transaction checks that (S2)."""
        owned = self._replayed.owners.get(tp)
        if owned is None or owned.session != self._now.session:
            holder = f"{owned.text!r} owns it" if owned else "no member owns it"
            yield self._violation("S2", f"written by session 0x{self._now.session:x}, but {holder}", tp)
            return
        named = self._named()
        shared = sum(one.session == self._now.session for one in self._replayed.ids.values()) > 1
        if (named and owned.member not in named) or (shared and not named):
            who = " and ".join(sorted(named)) or "an unnamed member of the session"
            yield self._violation("S2", f"written by {who}, but {owned.text!r} owns it", tp)

    def _named(self) -> set[str]:
        """Members whose registration the transaction checks: it is theirs, even on a shared client."""
        places = (self._replayed.place(c.path) for c in self._now.changes if c.action == "check")
        return {place.member for place in places if place is not None and place.kind == "id"}

    def _reset(self, change: Change, tp: TopicPartition) -> None:
        if (reset := decoded(Reset.decode, change)) is not None:
            self._floors[tp] = min(self._floors.get(tp, reset.offset), reset.offset)

    def _claims(self) -> Iterator[Violation]:
        for change in self._now.changes:
            place = self._replayed.place(change.path)
            if change.action != "create" or place is None or place.kind != "owner":
                continue
            tp = place.topic_partition
            if not self._writes_offset(tp):
                yield self._violation("S3", "the claim does not advance the offset's version", tp)
            stored = self._replayed.offsets.get(tp)
            if stored is None:
                continue
            life, version = self._claimed_at.get(tp, (stored.czxid, -1))
            if life == stored.czxid and stored.version <= version:
                yield self._violation("S3", f"claimed again at version {stored.version}", tp)
            self._claimed_at[tp] = (stored.czxid, stored.version)

    def _writes_offset(self, tp: TopicPartition) -> bool:
        places = (self._replayed.place(c.path) for c in self._now.changes if c.action in ("create", "set"))
        return any(p is not None and p.kind == "offset" and p.topic_partition == tp for p in places)

    def _is_claim(self, written: Change, tp: TopicPartition) -> bool:
        """Returns whether the owner was created before; in a handover between threads it is created after."""
        before = self._now.changes[: self._now.changes.index(written)]
        places = (self._replayed.place(c.path) for c in before if c.action == "create")
        return any(p is not None and p.kind == "owner" and p.topic_partition == tp for p in places)

    def _refused(self) -> None:
        """Counts refused commits and releases, and those whose sender no longer owned the partition."""
        if self._writer is not Writer.ZKGROUP_MEMBER:
            return
        asked = [(c, p) for c in self._now.changes if (p := self._replayed.place(c.path)) is not None]
        if any(place.kind == "owner" and change.action == "create" for change, place in asked):
            return
        written = {p.topic_partition for c, p in asked if p.kind == "offset" and c.action == "set"}
        if not written:
            return
        self._figures.refused_commits += 1
        owners = [self._replayed.owners.get(tp) for tp in written]
        if any(owned is None or owned.session != self._now.session for owned in owners):
            self._figures.refused_stale_commits += 1

    def _episode_over(self, tp: TopicPartition, owned: OwnerZnode, at_ms: int) -> None:
        if owned.session in self._zkgroup_sessions:
            self.episodes.append((tp, owned, at_ms))

    def _writer_of(self, session: int) -> Writer:
        if session in self._zkgroup_sessions:
            return Writer.ZKGROUP_MEMBER
        return Writer.FOREIGN_MEMBER if session in self._foreign else Writer.NON_MEMBER

    def _violation(self, invariant: str, detail: str, tp: TopicPartition) -> Violation:
        return Violation(invariant, detail, tp, self._now.zxid)


def half_claims(evidence: GroupEvidence, audit: GroupLogChecker) -> Iterator[Violation]:
    """No owner znode exists for long without an ownership in its member's own records (S22)."""
    held: dict[tuple[TopicPartition, int], list[tuple[float, float]]] = {}
    for holding in evidence.ownerships:
        end_ms = holding.end.ms if holding.end is not None else float("inf")
        spans = held.setdefault((holding.topic_partition, holding.token), [])
        spans.append((holding.begin.ms, end_ms))
    for tp, owned, gone_ms in audit.episodes:
        loose_since = float(owned.since_ms)
        for begin_ms, end_ms in [*sorted(held.get((tp, owned.czxid), [])), (gone_ms, gone_ms)]:
            loose_ms = min(begin_ms, gone_ms) - loose_since
            if loose_ms > evidence.options.half_claim_ms:
                detail = f"{owned.text!r} existed for {loose_ms:.0f} ms without a recorded ownership"
                yield Violation("S22", detail, tp, owned.czxid)
            loose_since = max(loose_since, end_ms)


def _sessions(evidence: GroupEvidence) -> tuple[set[int], set[int]]:
    """Sessions of zkgroup's members, and of other members."""
    zkgroup_sessions = {record.session for record in evidence.records if record.session is not None}
    zkgroup_sessions.update(evidence.options.member_sessions)
    foreign: set[int] = set()
    replayed = ReplayedGroup(evidence.group)
    for transaction in evidence.transactions:
        for change in transaction.changes:
            place = replayed.place(change.path)
            if change.action == "create" and place is not None and place.kind == "id":
                (zkgroup_sessions if _is_zkgroup(change) else foreign).add(transaction.session)
    return zkgroup_sessions - {NO_SESSION}, foreign - zkgroup_sessions - {NO_SESSION}


def _is_zkgroup(change: Change) -> bool:
    registration = decoded(Registration.decode, change)
    return registration is not None and registration.is_zkgroup
