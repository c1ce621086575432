"""Writes the ISRs of the partitions that a broker leads, and the notifications for the controller.

    read followers -> propose (`Isr`) -> set the maximal ISR -> write (unknown outcome: read back)
    -> set the maximal ISR again

Everything is done for many partitions at once: the return of one broker changes thousands of ISRs.
Source: a leader's ISR writes (controller.md 8.3, 8.4).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from zkgroup.broker.machine.events import (
    BrokerContext,
    FollowerFetched,
    FollowersRead,
    IsrChanged,
    MaximalIsr,
    ReadFollowers,
    SetMaximalIsrs,
)
from zkgroup.broker.machine.isr import Isr, IsrChangePropagation, IsrOutcome, IsrWrite, isr_change_request
from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import (
    Code,
    CreateMissing,
    MultiDone,
    MultiRefused,
    NotSent,
    Outcome,
    ReadDone,
    Refused,
    Sync,
    Unanswered,
)
from zkgroup.runtime.procedures import ConnectionLossError, Procedure, Query, Work, ask, read_allowed
from zkgroup.wire.control import PartitionStateInfo
from zkgroup.znodes.brokers import PartitionState
from zkgroup.znodes.notifications import IsrChange, isr_changes_path

LAG_TIMER: Final = "lag"
PROPAGATION_TIMER: Final = "isr notices"
WRITES_AT_ONCE: Final = 500
"""Most transactions that are sent together."""


class IsrManager:
    """The ISRs of all partitions that this broker leads."""

    def __init__(self, core: BrokerContext) -> None:
        self._core = core
        self._isrs: dict[TopicPartition, Isr] = {}
        self._propagation = IsrChangePropagation(core.now.ms, core.config.notices)
        self._reading_followers: set[TopicPartition] = set()
        self._awaiting_maximal_isr: dict[int, list[IsrWrite]] = {}
        self._ready: dict[TopicPartition, IsrWrite] = {}
        """Proposed writes whose members are in the replica manager's maximal ISR."""
        self._unconfirmed: set[TopicPartition] = set()
        """To be read before they are written: the outcome of a write is unknown, or the znode was not read in
        this session, or not since LeaderAndIsr, which lacks the keys of later versions.
        """
        self._unsent: list[IsrChange] = []

    def led(self, state: PartitionStateInfo) -> None:
        """Starts a leader epoch; work of an older one is dropped."""
        core = self._core
        assert core.broker is not None
        self.left(state.topic_partition)
        self._isrs[state.topic_partition] = Isr(core.broker, state, core.now.ms)
        if not core.has_timer(LAG_TIMER):
            core.set_timer(LAG_TIMER, core.now.ms + core.config.lag_max_ms // 2)

    def reassigned(self, state: PartitionStateInfo) -> None:
        """Sets the replicas of a leader epoch; its running work continues."""
        isr = self._isrs.get(state.topic_partition)
        if isr is not None and isr.leader_epoch == state.leader_epoch:
            isr.set_replicas(state.replicas)

    def left(self, topic_partition: TopicPartition) -> None:
        self._isrs.pop(topic_partition, None)
        self._ready.pop(topic_partition, None)
        self._unconfirmed.discard(topic_partition)

    def fetched(self, fetched: Sequence[FollowerFetched]) -> None:
        """Notes a follower's fetch; reads the followers where it may join the ISR or has lost records."""
        concerned = []
        for each in fetched:
            isr = self._isrs.get(each.topic_partition)
            if isr is None:
                continue
            isr.fetched(each.follower, each.offset, each.log_end_offset, self._core.now.ms)
            is_below = each.offset < each.high_watermark
            if is_below if each.follower in isr.maximal_isr else not is_below:
                concerned.append(each.topic_partition)
        if concerned:
            self._read_followers(concerned)

    def session_over(self) -> None:
        """Makes every state be read before it is written: it may have changed, or be another topic's.

        The versions of a topic that is created again start anew as well.
        """
        self._ready.clear()
        self._awaiting_maximal_isr.clear()
        self._unconfirmed.update(self._isrs)

    def connected(self) -> None:
        """Reads the followers of all partitions, for changes that could not be written while disconnected."""
        self._read_followers(self._isrs)

    def timer_fired(self, name: str) -> None:
        core = self._core
        if name == LAG_TIMER:
            if self._isrs:
                core.set_timer(LAG_TIMER, core.now.ms + core.config.lag_max_ms // 2)
            self._read_followers(self._isrs)
        else:
            self._unsent += self._propagation.take_due(core.now.ms)
            self._arm_propagation()

    def _read_followers(self, partitions: Iterable[TopicPartition]) -> None:
        wanted = tuple(tp for tp in partitions if tp not in self._reading_followers)
        if wanted and self._core.connected:
            self._reading_followers.update(wanted)
            self._core.emit(ReadFollowers(wanted))

    def seen(self, event: FollowersRead) -> None:
        """Proposes changes of the ISRs, and emits their maximal ISRs before they are written."""
        core = self._core
        self._reading_followers.difference_update(event.partitions)
        if not core.connected:
            return
        writes: list[IsrWrite] = []
        for topic_partition, (leader_epoch, followers) in event.followers.items():
            isr = self._isrs.get(topic_partition)
            if isr is None or isr.leader_epoch != leader_epoch or topic_partition in self._unconfirmed:
                continue
            write = isr.propose(followers, core.now.ms, core.config.lag_max_ms)
            if write is None:
                continue
            if not isr.knows_other_keys:
                isr.written(NotSent("the znode is read first"))
                self._unconfirmed.add(topic_partition)
            elif self._may_be_written(isr, write):
                writes.append(write)
        if writes:
            batch = core.next_id()
            self._awaiting_maximal_isr[batch] = writes
            core.emit(
                SetMaximalIsrs(batch, tuple(self._maximal_isr(write.topic_partition) for write in writes))
            )

    def _may_be_written(self, isr: Isr, write: IsrWrite) -> bool:
        try:
            write.request()
        except ConfigError as error:
            isr.refused()
            self._core.note("isr.unwritable", partition=str(write.topic_partition), detail=str(error))
            return False
        return True

    def maximal_isrs_set(self, batch: int, behind: Collection[TopicPartition]) -> None:
        """Makes the proposed writes ready: the high watermark waits for the joining replicas.

        Those of partitions `behind` are withdrawn: after the followers were read and before the maximal ISR
        was set, a record was acknowledged that a joining replica lacks. It joins at one of its next fetches.
        """
        withdrawn = []
        for write in self._awaiting_maximal_isr.pop(batch, ()):
            isr = self._isrs.get(write.topic_partition)
            if isr is None or isr.leader_epoch != write.state.leader_epoch:
                continue
            if write.topic_partition in behind:
                isr.written(NotSent("records were acknowledged meanwhile"))
                withdrawn.append(self._maximal_isr(write.topic_partition))
            else:
                self._ready[write.topic_partition] = write
        if withdrawn:
            self._core.emit(SetMaximalIsrs(None, tuple(withdrawn)))

    def _maximal_isr(self, topic_partition: TopicPartition) -> MaximalIsr:
        isr = self._isrs[topic_partition]
        return MaximalIsr(topic_partition, isr.leader_epoch, isr.maximal_isr, isr.joining)

    def next(self) -> Work | None:
        if self._unconfirmed:
            return "read ISRs back", self._read_back
        if self._ready:
            return "write ISRs", self._write
        if self._unsent:
            return "notify of changed ISRs", self._send_changes
        return None

    def _write(self) -> Procedure[None]:
        batch = [self._ready.pop(tp) for tp in list(self._ready)[:WRITES_AT_ONCE]]
        isrs = [self._isrs[write.topic_partition] for write in batch]
        self._unconfirmed.update(write.topic_partition for write in batch)
        outcomes = yield tuple(Query(write.request()) for write in batch)
        settled: list[tuple[TopicPartition, IsrOutcome]] = []
        for write, isr, outcome in zip(batch, isrs, outcomes, strict=True):
            tp = write.topic_partition
            if self._isrs.get(tp) is not isr:
                continue
            before = isr.isr
            meaning = isr.written(outcome)
            self._note_change(tp, before, isr)
            if meaning is not IsrOutcome.READ_BACK:
                self._unconfirmed.discard(tp)
                settled.append((tp, meaning))
            if isinstance(outcome, MultiRefused) and meaning is IsrOutcome.KEPT:
                self._core.note("isr.refused", partition=str(tp), code=outcome.code.value)
                # The ACL is checked before the version: a controller may have written a new state.
                self._unconfirmed.add(tp)
        self._settle(settled)
        _require_answers(outcomes)

    def _read_back(self) -> Procedure[None]:
        """Reads the states after refusals, missing replies, a new session and a new leader epoch."""
        partitions = sorted(self._unconfirmed)[:WRITES_AT_ONCE]
        isrs = [self._isrs[tp] for tp in partitions]
        paths = [PartitionState.path(tp) for tp in partitions]
        yield from ask(Query(Sync(paths[0])))
        found = yield from read_allowed(paths)
        settled = []
        for tp, isr, znode in zip(partitions, isrs, found, strict=True):
            if self._isrs.get(tp) is isr:
                self._unconfirmed.discard(tp)
                path = PartitionState.path(tp)
                outcome = Refused(znode, path) if isinstance(znode, Code) else ReadDone(znode)
                before = isr.isr
                settled.append((tp, isr.read_back(outcome)))
                self._note_change(tp, before, isr)
        self._settle(settled)
        self._read_followers([tp for tp, meaning in settled if meaning is IsrOutcome.KEPT])

    def _note_change(self, tp: TopicPartition, before: tuple[int, ...], isr: Isr) -> None:
        """Emits log events for replicas that left or joined the stored ISR."""
        if set(before) - set(isr.isr):
            self._core.note("isr.shrank", partition=str(tp), isr=isr.isr, was=before)
        if set(isr.isr) - set(before):
            self._core.note("isr.expanded", partition=str(tp), isr=isr.isr, was=before)

    def _settle(self, settled: list[tuple[TopicPartition, IsrOutcome]]) -> None:
        core = self._core
        if not settled:
            return
        core.emit(SetMaximalIsrs(None, tuple(self._maximal_isr(tp) for tp, _ in settled)))
        changed = [tp for tp, meaning in settled if meaning in (IsrOutcome.STORED, IsrOutcome.ADOPTED)]
        for tp in changed:
            isr = self._isrs[tp]
            core.emit(IsrChanged(tp, isr.leader_epoch, isr.isr))
        for tp, meaning in settled:
            if meaning in (IsrOutcome.DEPOSED, IsrOutcome.UNREADABLE):
                core.note(f"isr.{meaning.value}", partition=str(tp), leader_epoch=self._isrs[tp].leader_epoch)
        deposed = [tp for tp, meaning in settled if meaning is IsrOutcome.DEPOSED]
        # Usually the controller wrote it. It learns of a foreign writer's state only by this notification.
        self._changed(changed + deposed)
        self._read_followers([tp for tp, meaning in settled if meaning is IsrOutcome.ADOPTED])

    def _send_changes(self) -> Procedure[None]:
        changes, self._unsent = self._unsent, []
        try:
            outcomes = yield tuple(Query(isr_change_request(change)) for change in changes)
        except GeneratorExit:
            self._changed([tp for change in changes for tp in change.partitions])
            raise
        unsent = [
            change
            for change, outcome in zip(changes, outcomes, strict=True)
            if not isinstance(outcome, MultiDone)
        ]
        self._changed([tp for change in unsent for tp in change.partitions])
        _require_answers(outcomes)
        if unsent:
            yield from ask(Query(CreateMissing((isr_changes_path(),))))

    def _changed(self, partitions: list[TopicPartition]) -> None:
        self._propagation.changed(partitions, self._core.now.ms)
        self._arm_propagation()

    def _arm_propagation(self) -> None:
        if self._propagation.waiting:
            at_ms = max(self._propagation.next_check_ms, self._core.now.ms + 1)
            self._core.set_timer_sooner(PROPAGATION_TIMER, at_ms)


def _require_answers(outcomes: tuple[Outcome, ...]) -> None:
    """Raises ConnectionLossError if a reply is missing, so that the machine backs off before it retries."""
    for outcome in outcomes:
        if isinstance(outcome, (Unanswered, NotSent)):
            raise ConnectionLossError(outcome)
