"""Checks at every step: accepted writes (as in the model's `audit`), and the order of a member's effects.

Writes are checked at every transaction, against the tree just before it, so that a violation is found at its
step. The history checker decides about the same runs again from the records, with other code.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from tests.simulation.group.setup import MOVES_MAX
from tests.simulation.schedule import ScheduleRecording
from zkgroup.consumer.machine import events as ef
from zkgroup.consumer.machine import events as ev
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Check, Create, Delete, Multi, MultiDone, Operation, SetData
from zkgroup.runtime.events import Answered, Submit
from zkgroup.testing.memory_zookeeper.leader import LoggedTransaction
from zkgroup.testing.memory_zookeeper.server import MemoryZooKeeper
from zkgroup.testing.memory_zookeeper.tree import AnyOperation, CreatedNode, DataSet, DataTree, Deleted
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.group_history import GroupHistory
from zkgroup.znodes.group_records import Freeze, StoredAssignment
from zkgroup.znodes.ids import split_thread_id


class GroupAuditError(AssertionError):
    """An accepted write that violates an invariant."""


class GroupAudit:
    """Replays the log one transaction at a time, and checks each before applying it."""

    def __init__(
        self,
        server: MemoryZooKeeper,
        group: str,
        recording: ScheduleRecording,
        has_let_go: Callable[[str, TopicPartition], bool] = lambda member, tp: True,
        *,
        keeps_history: bool = True,
    ) -> None:
        """Takes the group and what to check in it.

        Args:
            has_let_go: whether a member may release a partition of a frozen group.
            keeps_history: whether all rows of the history fit into a packet.
        """
        self._keeps_history = keeps_history
        self._server = server
        self._has_let_go = has_let_go
        self._frozen = Freeze.path(group)
        self._history = GroupHistory.path(group)
        self._plan = StoredAssignment.path(group)
        self._recording = recording
        self._records_seen = 0
        self._applied: set[tuple[str, str, int]] = set()
        """Resets that a member has recorded as applied: member, offset path, mzxid of the marker."""
        self._stored: dict[str, set[bytes]] = {}
        """All values that an offset znode ever had."""
        self._last_write: dict[str, int] = {}
        """Transaction of the last accepted write or claim of a zkgroup member, by offset path."""
        self._prefix = f"/consumers/{group}"
        self._tree = DataTree()
        self._seen = 0
        self._sought: set[tuple[str, str, int]] = set()
        """Claims in which the application, or its reset policy, has sought: member, offset path, token."""
        self._planned: dict[str, deque[Mapping[str, list[int]]]] = {}
        """Topics with their partitions, as in each member's last assignments."""
        self._deleted_topics: set[str] = set()
        """Offset znodes that were ever deleted: their versions start again and prove less."""
        self._unregistered: set[str] = set()
        """Members whose registration a foreign writer deleted: their owner znodes remain without one."""
        self.figures: Counter[str] = Counter()

    def catch_up(self) -> None:
        """Checks what was written since the last call."""
        log = self._server.log
        while self._seen < len(log):
            entry = log[self._seen]
            self._seen += 1
            self._check_before(entry)
            self._tree.zxid = entry.zxid
            for change in entry.changes:
                self._tree.apply(change, entry.zxid, entry.time_ms)
            self._check_after(entry)

    def acknowledged(self, committed: Mapping[TopicPartition, int]) -> None:
        """S6: a commit reported as done is in the tree, or was."""
        self.catch_up()
        for tp, value in committed.items():
            path = f"{self._prefix}/offsets/{tp.topic}/{tp.partition}"
            if str(value).encode() not in self._stored.get(path, ()):
                raise GroupAuditError(f"S6: commit of {tp} at {value} was acknowledged and never written")

    def _check_before(self, entry: LoggedTransaction) -> None:
        if entry.session_id == 0:
            gone = [c.path for c in entry.changes if isinstance(c, Deleted) and self._is_registration(c.path)]
            self._unregistered.update(path.rpartition("/")[2] for path in gone)
        if entry.kind != "write" or entry.session_id == 0:
            return
        member = self._member(entry.operations)
        if member is None or entry.client.startswith("jvm"):
            return
        if entry.refused is not None:
            self.figures["writes refused"] += 1
            if any(self._is_offset(o.path) for o in entry.operations if isinstance(o, SetData)):
                self.figures["fenced writes refused"] += 1
            return
        created = {o.path for o in entry.operations if isinstance(o, Create) and self._is_owner(o.path)}
        self.figures["ownership changes"] += len(created)
        self._check_freeze(entry, member, created)
        self._check_history(entry)
        for operation in entry.operations:
            if isinstance(operation, SetData) and operation.path == self._plan:
                self._check_step(entry, operation)
            self._check_operation(entry, operation, member, created)

    def _check_step(self, entry: LoggedTransaction, operation: SetData) -> None:
        """At most so many moves at a time, and the next ones when these are done (recipes 4)."""
        before = self._tree.read(self._plan)
        assert before is not None
        last = StoredAssignment.decode(self._plan, before.data)
        step = StoredAssignment.decode(self._plan, operation.data)
        self.figures["moves in steps"] += len(step.moving)
        if len(step.moving) > MOVES_MAX:
            self._fail(entry, f"{len(step.moving)} moves at a time")
        if step.generation != last.generation or step.inputs != last.inputs:
            return
        for tp in last.moving:
            path = f"{self._prefix}/owners/{tp.topic}/{tp.partition}"
            owner = self._tree.read(path)
            if owner is not None and (owner.data or b"").decode() != last.owners[tp]:
                self._fail(entry, f"a step before {tp} has moved to {last.owners[tp]}: {self._text(path)}")

    def _check_freeze(self, entry: LoggedTransaction, member: str, created: set[str]) -> None:
        """Nothing moves in a frozen group but by leaving, and by claims where it allows them (recipes 26)."""
        marker = self._tree.read(self._frozen)
        if marker is None:
            return
        freeze = Freeze.decode(marker.path, marker.data)
        self.figures["writes in a frozen group"] += 1
        deleted = {o.path for o in entry.operations if isinstance(o, Delete)}
        if self._frozen in deleted and entry.time_ms < freeze.until_ms(marker.stat):
            self._fail(entry, f"{member} ended the freeze before its time")
        gone = {path for path in deleted if self._is_owner(path)}
        if created - gone and not freeze.allows_takeover:
            self._fail(entry, f"{member} claimed in a frozen group")
        for path in gone - created:
            topic, number = path.split("/")[4:]
            if not self._has_let_go(member, TopicPartition(topic, int(number))):
                self._fail(entry, f"{member} released {path} for a rebalance of a frozen group")

    def _check_history(self, entry: LoggedTransaction) -> None:
        """The rows of the history stay, and lead from the members before to those after (recipes 25)."""
        written = next((o for o in entry.operations if o.path == self._history), None)
        if not isinstance(written, (SetData, Create)) or not self._keeps_history:
            return
        znode, after = self._tree.read(self._history), GroupHistory.decode(self._history, written.data)
        before = GroupHistory.decode(self._history, znode.data) if znode is not None else None
        rows = before.rebalances if before is not None else ()
        kept = [replace(row, took_ms=None) for row in after.rebalances[: len(rows)]]
        if kept != [replace(row, took_ms=None) for row in rows]:
            self._fail(entry, "rows of the history are lost")
        members = set(before.members) if before is not None else set()
        for row in after.rebalances[len(rows) :]:
            gone, came = set(row.left), set(row.joined)
            if gone - members or came & (members - gone):
                self._fail(entry, f"the history has {row} after {sorted(members)}")
            members = (members - gone) | came
        if members != set(after.members):
            self._fail(entry, f"the history leads to {sorted(members)}, and has {sorted(after.members)}")
        self.figures["rebalances in the history"] += len(after.rebalances) - len(rows)

    def _check_operation(
        self, entry: LoggedTransaction, operation: AnyOperation, member: str | None, created: set[str]
    ) -> None:
        if isinstance(operation, Delete) and self._is_owner(operation.path):  # noqa: SIM102
            if not self._owns(operation.path, entry.session_id, member):
                self._fail(entry, f"release by {member} deleted the owner znode {self._text(operation.path)}")
        if not isinstance(operation, (SetData, Create)) or not self._is_offset(operation.path):
            return
        owner = operation.path.replace("/offsets/", "/owners/")
        before = self._tree.read(operation.path)
        if owner in created:
            if not (self._moves(entry, owner) and self._tree.read(self._frozen)):
                self._check_plan(entry, operation.path, member)
            if before is not None and before.data != operation.data and not self._moves(entry, owner):
                self._fail(entry, f"claim changed the offset {before.data!r} to {operation.data!r}")
            return
        if not self._owns(owner, entry.session_id, member):
            self._fail(entry, f"S2: commit of {member} accepted, owner is {self._text(owner)}")
        self.figures["commits accepted"] += 1
        self._check_reset(entry, operation.path, member)
        self._check_no_way_back(entry, operation, member)

    def _check_plan(self, entry: LoggedTransaction, path: str, member: str | None) -> None:
        """A claim must follow from the topic's present number of partitions."""
        self._read_records()
        topic = path.rpartition("/offsets/")[2].partition("/")[0]
        znode = self._tree.read(Topic.path(topic))
        stored = list(Topic.decode(Topic.path(topic), znode.data).numbers) if znode is not None else []
        known = [plan.get(topic, []) for plan in self._planned.get(member or "", ())]
        if known and stored not in known and topic not in self._deleted_topics:
            self._fail(
                entry, f"claim of {member} by an assignment for {known[-1]} of {topic}, which has {stored}"
            )

    def _check_no_way_back(
        self, entry: LoggedTransaction, operation: SetData | Create, member: str | None
    ) -> None:
        """S4: only a seek in the same claim sets a zkgroup member's offset back, in a release too."""
        path, before = operation.path, self._tree.read(operation.path)
        owner = self._tree.read(path.replace("/offsets/", "/owners/"))
        if before is None or owner is None or before.stat.mzxid != self._last_write.get(path):
            return
        self._read_records()
        goes_back = int(operation.data or b"-1") < int(before.data or b"-1")
        if goes_back and (member or "", path, owner.stat.czxid) not in self._sought:
            self._fail(entry, f"S4: {member} goes back from {before.data!r} without a seek")

    def _check_reset(self, entry: LoggedTransaction, path: str, member: str | None) -> None:
        """A marked reset is applied before the next commit (recipes.md 6)."""
        topic, _, number = path.rpartition("/offsets/")[2].partition("/")
        marker = self._tree.read(f"{self._prefix}/resets/{topic}-{number}")
        if marker is None or marker.stat.mzxid < self._last_write.get(path, 0):
            return
        self._read_records()
        if (member, path, marker.stat.mzxid) not in self._applied:
            self._fail(entry, f"reset of {path} ignored by {member}")

    def _read_records(self) -> None:
        records = self._recording.records
        for record in records[self._records_seen :]:
            fields = record.fields
            if record.kind == "rebalance.begin":
                plans = self._planned.setdefault(record.member, deque(maxlen=2))
                plans.append(fields["partitions"])
            elif record.kind in ("reset.applied", "seek"):
                path = f"{self._prefix}/offsets/{fields['topic']}/{fields['partition']}"
                if record.kind == "seek":
                    self._sought.add((record.member, path, fields["token"]))
                else:
                    self._applied.add((record.member, path, fields["mzxid"]))
        self._records_seen = len(records)

    def _moves(self, entry: LoggedTransaction, owner: str) -> bool:
        return any(isinstance(o, Delete) and o.path == owner for o in entry.operations)

    def _check_after(self, entry: LoggedTransaction) -> None:
        """S1: a claiming member is registered in the same session; a leaving member owns nothing."""
        for change in entry.changes:
            if isinstance(change, (CreatedNode, DataSet)) and self._is_offset(change.path):
                self._stored.setdefault(change.path, set()).add(change.data or b"")
            if isinstance(change, Deleted) and change.path.startswith("/brokers/topics/"):
                self._deleted_topics.add(change.path.split("/")[3])
        if entry.session_id == 0 or entry.client.startswith("jvm"):
            return
        for change in entry.changes:
            if isinstance(change, (CreatedNode, DataSet)) and self._is_offset(change.path):
                self._last_write[change.path] = entry.zxid
        for change in entry.changes:
            if isinstance(change, CreatedNode) and self._is_owner(change.path):
                self._check_owner(entry, change.path)
        left = {c.path for c in entry.changes if isinstance(c, Deleted) and self._is_registration(c.path)}
        if any(self._tree.read(path) is None for path in left):
            for path, node in self._tree.nodes.items():
                if self._is_owner(path) and node.owner == entry.session_id:
                    self._check_owner(entry, path)

    def _check_owner(self, entry: LoggedTransaction, path: str) -> None:
        owner = self._tree.read(path)
        if (
            owner is None or owner.stat.version == 0
        ):  # released in the same transaction, or owned by a JVM member
            return
        member = split_thread_id((owner.data or b"").decode())[0]
        registration = self._tree.read(f"{self._prefix}/ids/{member}")
        was_unregistered = member in self._unregistered
        if was_unregistered and registration is None:
            return
        if registration is None or registration.stat.ephemeral_owner != owner.stat.ephemeral_owner:
            self._fail(entry, f"S1: {path} is owned by {member}, whose session has no registration")

    def _member(self, operations: Iterable[AnyOperation]) -> str | None:
        """The writing member: its transaction checks, creates or deletes its registration."""
        for operation in operations:
            if operation.path.startswith(f"{self._prefix}/ids/") and isinstance(
                operation, (Check, Create, Delete)
            ):
                return operation.path.rpartition("/")[2]
        return None

    def _owns(self, owner_path: str, session_id: int, member: str | None) -> bool:
        owner = self._tree.read(owner_path)
        if owner is None or owner.stat.ephemeral_owner != session_id:
            return False
        return member is not None and split_thread_id((owner.data or b"").decode())[0] == member

    def _is_owner(self, path: str) -> bool:
        return path.startswith(f"{self._prefix}/owners/") and path.count("/") == 5

    def _is_registration(self, path: str) -> bool:
        return path.startswith(f"{self._prefix}/ids/")

    def _is_offset(self, path: str) -> bool:
        return path.startswith(f"{self._prefix}/offsets/") and path.count("/") == 5

    def _text(self, path: str) -> str:
        znode: Znode | None = self._tree.read(path)
        return f"{znode.data!r} of 0x{znode.stat.ephemeral_owner:x}" if znode is not None else "absent"

    def _fail(self, entry: LoggedTransaction, what: str) -> None:
        raise GroupAuditError(f"zxid {entry.zxid} by 0x{entry.session_id:x}: {what}: {entry.operations}")


class EffectOrderError(AssertionError):
    """The machine emitted an effect too early or too late."""


class EffectOrderChecker:
    """Follows one member's events and effects; raises `EffectOrderError` at the first wrong one."""

    def __init__(self, group: str) -> None:
        self._owners = f"/consumers/{group}/owners/"
        self._offsets = f"/consumers/{group}/offsets/"
        self._ids = f"/consumers/{group}/ids/"
        self._delivering: set[TopicPartition] = set()
        self._called: dict[int, set[TopicPartition]] = {}
        """Partitions of each open `Revoke`: the application may still commit them."""
        self._given_up: set[TopicPartition] = set()
        """Revoked by a rebalance and not released yet."""
        self._claimed: set[TopicPartition] = set()
        """Claims requested and not reported to the application yet."""
        self._held: set[TopicPartition] = set()
        self._tokens: dict[TopicPartition, int] = {}
        """The last token that the application got."""
        self._writes: set[int] = set()
        """Transactions under way."""
        self.acknowledged = Counter[str]()
        """Of the members on one client: how many of their transactions were accepted."""
        self._extended_by = 0
        """How many were when the lease was extended."""

    def event(self, event: ev.Event) -> None:
        """Called before the step that handles the event."""
        if isinstance(event, Answered) and event.request_id in self._writes:
            self._writes.remove(event.request_id)
            self.acknowledged["writes"] += isinstance(event.outcome, MultiDone)
        elif isinstance(event, ev.Revoked):
            self._called.pop(event.call_id, None)

    def effect(self, effect: ef.Effect) -> None:
        """Called before the effect is performed."""
        match effect:
            case Submit(request_id, Multi(operations)):
                self._writes.add(request_id)
                self._write(operations)
            case ef.Assign(grants):
                gained = {grant.topic_partition for grant in grants}
                self._demand(gained <= self._claimed, f"assigned without a claim: {gained - self._claimed}")
                self._claimed -= gained
                for grant in grants:
                    last = self._tokens.get(grant.topic_partition, 0)
                    self._demand(last < grant.token, f"{grant}: token {last} was assigned before")
                    self._tokens[grant.topic_partition] = grant.token
                self._held |= gained
                self._delivering |= gained
            case ef.Revoke(call_id, partitions, _, reason):
                self._delivering.difference_update(partitions)
                self._called[call_id] = set(partitions)
                if reason == "rebalance":
                    self._given_up.update(partitions)
            case ef.EndOverdue(call_id, _):
                self._called.pop(call_id, None)
            case ef.EndLease(partitions) | ef.Lose(partitions, _):
                for over in (self._delivering, self._given_up, self._held, *self._called.values()):
                    over.difference_update(partitions)
            case ef.ExtendLease():
                accepted, before = self.acknowledged["writes"], self._extended_by
                self._demand(accepted > before, "lease extended without an acknowledged write")
                # the step may take the write of another member before the one that its event acknowledges
                self._extended_by = max(before + 1, accepted - 1)
            case _:
                pass

    def _write(self, operations: tuple[Operation, ...]) -> None:
        created = self._partitions(operations, Create, self._owners)
        deleted = self._partitions(operations, Delete, self._owners)
        written = self._partitions(operations, SetData, self._offsets)
        early = deleted & self._delivering.union(*self._called.values())
        self._demand(not early, f"released before the application returned: {early}")
        registers = any(isinstance(o, Create) and o.path.startswith(self._ids) for o in operations)
        replaces = any(isinstance(o, Delete) and o.path.startswith(self._ids) for o in operations)
        self._demand(replaces or not (registers and self._held), f"registers again and owns {self._held}")
        gained, waits_for = created - deleted, self._given_up
        self._demand(not (gained and waits_for), f"claims {gained} before the release of {waits_for}")
        lost = written - created - self._held - self._claimed
        self._demand(not lost, f"commits a lost partition: {lost}")
        self._claimed |= created

    @staticmethod
    def _partitions(
        operations: tuple[Operation, ...], kind: type[Operation], prefix: str
    ) -> set[TopicPartition]:
        found = set()
        for operation in operations:
            if isinstance(operation, kind) and operation.path.startswith(prefix):
                topic, slash, number = operation.path.removeprefix(prefix).partition("/")
                if slash:
                    found.add(TopicPartition(topic, int(number)))
        return found

    @staticmethod
    def _demand(holds: bool, what: str) -> None:
        if not holds:
            raise EffectOrderError(what)
