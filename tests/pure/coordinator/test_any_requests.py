"""Any requests in any order, with writes that fail and slots that move: what always holds of the groups."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.worlds.coordinators import GROUP, SETTINGS, Coordinator
from zkgroup.coordinator.effects import CommitOffsetsResult, ReserveGenerations, WriteGroup, WriteOffsets
from zkgroup.coordinator.events import SlotUnloaded, WriteOutcome
from zkgroup.coordinator.group import ConsumerGroupState
from zkgroup.coordinator.records import GroupRecord
from zkgroup.model.error_codes import ErrorCode
from zkgroup.wire.groups import JoinGroupResponse, SyncGroupResponse

PROTOCOLS = st.lists(
    st.sampled_from([("range", b"r"), ("range", b"s"), ("rr", b"x"), ("", b"e")]), max_size=4
).map(tuple)
"""Also a name twice, an empty name, and none."""
OUTCOMES = st.sampled_from([WriteOutcome.STORED] * 4 + [WriteOutcome.UNKNOWN, WriteOutcome.TOO_LARGE])
INDEX = st.integers(0, 7)


class Groups(RuleBasedStateMachine):
    """Clients of one group, a coordinator that may move, and what ZooKeeper has of it."""

    def __init__(self) -> None:
        super().__init__()
        self.coordinator = Coordinator(stores=False)
        self.epoch = 0
        self.record: GroupRecord | None = None
        self.stored_reservation = 0
        self.requests: dict[int, str] = {}
        self.ids = [""]

    @rule(who=INDEX, protocols=PROTOCOLS, v4=st.booleans(), instance=st.sampled_from([None, None, "a", "b"]))
    def join(self, who: int, protocols: Any, v4: bool, instance: str | None) -> None:
        member = self.ids[who % len(self.ids)]
        number = self.coordinator.send_join(member, protocols=protocols, v4=v4, instance=instance)
        self.requests[number] = "join"

    @rule(who=INDEX, back=st.sampled_from([0, 0, 0, 1]))
    def sync(self, who: int, back: int) -> None:
        member, generation = self.ids[who % len(self.ids)], self._generation() - back
        number = self.coordinator.send_sync(member, generation, dict.fromkeys(self.ids, b"a"))
        self.requests[number] = "sync"

    @rule(who=INDEX, back=st.sampled_from([0, 0, 1]))
    def heartbeat(self, who: int, back: int) -> None:
        self.coordinator.beat(self.ids[who % len(self.ids)], self._generation() - back)

    @rule(who=INDEX)
    def leave(self, who: int) -> None:
        self.coordinator.leave(self.ids[who % len(self.ids)])

    @rule(who=INDEX, back=st.sampled_from([0, 0, 1]))
    def commit(self, who: int, back: int) -> None:
        """A commit of an older generation, or of none while there are members, is never written."""
        before = len(self.coordinator.written)
        group = self.coordinator.machine.group(GROUP)
        generation = self._generation() - back
        member = self.ids[who % len(self.ids)]
        number = self.coordinator.send_commit(member, generation)
        self.requests[number] = "commit"
        if len(self.coordinator.written) > before:
            assert isinstance(self.coordinator.written[-1], WriteOffsets)
            if generation < 0:
                assert group is None or not group.members
            else:
                assert group is not None
                assert member in group.members
                assert generation == group.generation

    @rule(syncs=st.booleans())
    def all_join(self, syncs: bool) -> None:
        """A rebalance in which nothing goes wrong, up to the assignment or to its end."""
        group = self.coordinator.machine.group(GROUP)
        statics = {} if group is None else {each: name for name, each in group.static_members.items()}
        for member in [""] if group is None or not group.members else list(group.members):
            self.requests[self.coordinator.send_join(member, instance=statics.get(member))] = "join"
        self._writes_end()
        self.coordinator.advance(100)
        self.answers_are_taken()
        group = self.coordinator.machine.group(GROUP)
        for member in list(group.members) if group is not None and syncs else ():
            self.requests[self.coordinator.send_sync(member, self._generation())] = "sync"
        self._writes_end()

    def _writes_end(self) -> None:
        while self.coordinator.unwritten:
            self._store(self.coordinator.unwritten[0])
            self.coordinator.complete()

    @rule(ms=st.sampled_from([1, 50, 200, 500]))
    def time_passes(self, ms: int) -> None:
        self.coordinator.advance(ms)

    @rule(outcome=OUTCOMES)
    def write_ends(self, outcome: WriteOutcome) -> None:
        """An unknown outcome may have been stored all the same."""
        if not self.coordinator.unwritten:
            return
        write = self.coordinator.unwritten[0]
        if outcome is not WriteOutcome.TOO_LARGE:
            self._store(write)
        self.coordinator.complete(outcome)

    def _store(self, write: Any) -> None:
        if isinstance(write, WriteGroup):
            self.record = write.record
            self.stored_reservation = write.record.reserved_generation
        elif isinstance(write, ReserveGenerations):
            self.stored_reservation = write.reserved_generation

    @rule()
    def slot_moves(self) -> None:
        """Every write in flight is lost; the next coordinator has what is stored."""
        machine = self.coordinator
        machine.do(SlotUnloaded(0, None))
        while machine.unwritten:
            machine.complete(WriteOutcome.NOT_OWNER)
        self.epoch += 1
        groups = () if self.record is None else (self._loaded(self.record),)
        if self.record is None and self.stored_reservation:
            groups = (self._loaded(_nothing()),)
        machine.load(*groups, epoch=self.epoch)

    def _loaded(self, record: GroupRecord) -> GroupRecord:
        fields = {name: getattr(record, name) for name in GroupRecord.__dataclass_fields__}
        return GroupRecord(**{**fields, "reserved_generation": self.stored_reservation})

    def _generation(self) -> int:
        group = self.coordinator.machine.group(GROUP)
        return 0 if group is None else group.generation

    @invariant()
    def answers_are_taken(self) -> None:
        """A generation is given only after ZooKeeper has its number."""
        for number in [each for each in self.requests if each in self.coordinator.answers]:
            del self.requests[number]
            result = self.coordinator.answers[number]
            if isinstance(result, JoinGroupResponse):
                if result.member_id and result.member_id not in self.ids:
                    self.ids = ["", *self.ids[1:], result.member_id][-8:]
                if result.error is ErrorCode.NONE:
                    assert result.generation <= self.stored_reservation
            else:
                assert isinstance(result, SyncGroupResponse | CommitOffsetsResult)

    @invariant()
    def no_generation_begins_twice(self) -> None:
        """Whichever coordinator begins it."""
        begun = [
            each.fields["generation"]
            for each in self.coordinator.logged
            if each.kind == "group_state" and each.fields["after"] == "CompletingRebalance"
        ]
        assert len(begun) == len(set(begun))

    @invariant()
    def counts_agree(self) -> None:
        group = self.coordinator.machine.group(GROUP)
        if group is None:
            return
        members = list(group.members.values())
        assert group.joined_count == sum(each.parked_join is not None for each in members)
        assert not group.pending_members.keys() & group.members.keys()
        assert group.pending_sync <= group.members.keys()
        assert set(group.static_members.values()) <= group.members.keys()
        assert (group.leader in group.members) if members else group.leader is None
        recount: dict[str, int] = {}
        for each in members:
            for name in {name for name, _ in each.protocols}:
                recount[name] = recount.get(name, 0) + 1
        assert dict(group.supported_protocols) == recount
        assert not members or len(members) in recount.values()
        assert all(each.parked_sync is None for each in members if group.state in _WITHOUT_SYNCS)
        assert (group.state is ConsumerGroupState.EMPTY) <= (not members)
        assert len(members) <= SETTINGS.group_max_size + 2

    @invariant()
    def no_group_is_stuck(self) -> None:
        """A timer runs, or a write is in flight, wherever members wait."""
        group = self.coordinator.machine.group(GROUP)
        if group is None:
            return
        in_flight = bool(self.coordinator.unwritten)
        if group.state is ConsumerGroupState.PREPARING_REBALANCE:
            assert group.join_timer.deadline_ms is not None or (group.reservation is not None and in_flight)
        if group.state is ConsumerGroupState.COMPLETING_REBALANCE:
            assert group.sync_timer.deadline_ms is not None or in_flight
        for member in group.members.values():
            assert member.session_timer.deadline_ms is not None or member.is_parked

    def teardown(self) -> None:
        """All writes end, and clients that go away leave an empty group without timers, all answered."""
        coordinator = self.coordinator
        for _ in range(20):
            self._writes_end()
            coordinator.advance(1000)
        coordinator.advance(400_000)
        self._writes_end()
        group = coordinator.machine.group(GROUP)
        assert group is None or not group.members
        assert coordinator.machine.next_deadline_ms is None
        unanswered = set(self.requests) - set(coordinator.answers) - coordinator.dropped
        assert not unanswered


_WITHOUT_SYNCS = (ConsumerGroupState.EMPTY, ConsumerGroupState.PREPARING_REBALANCE, ConsumerGroupState.STABLE)


def _nothing() -> GroupRecord:
    """A header that only reserves generations."""
    return GroupRecord(
        group_id=GROUP,
        generation=0,
        reserved_generation=0,
        protocol_type=None,
        protocol=None,
        leader=None,
        state_timestamp_ms=0,
        members=(),
    )


Groups.TestCase.settings = settings(
    max_examples=30, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)
TestGroups = Groups.TestCase
