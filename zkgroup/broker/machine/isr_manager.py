"""The ISRs of the partitions that a broker leads: their writes, and the notifications for the controller.

    read followers -> propose (`Isr`) -> set the maximal ISR -> write (unknown outcome: read back)
    -> the host counts what holds

Everything is done for many partitions at once: the return of one broker changes thousands of ISRs.
Source: controller.md 8.3, 8.4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
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
from zkgroup.runtime.machine import Work
from zkgroup.runtime.procedures import ConnectionLossError, Procedure, Query, ask, read_allowed
from zkgroup.wire.control import PartitionStateInfo
from zkgroup.znodes.brokers import PartitionState
from zkgroup.znodes.notifications import IsrChange, isr_changes_path

LAG_TIMER: Final = "lag"
PROPAGATION_TIMER: Final = "isr notices"
WRITES_AT_ONCE: Final = 500
"""Transactions that are on their way together."""


class IsrManager:
    """The partitions that this broker leads."""

    def __init__(self, core: BrokerContext) -> None:
        self._core = core
        self._isrs: dict[TopicPartition, Isr] = {}
        self._propagation = IsrChangePropagation(core.now.ms, core.config.notices)
        self._reading_followers: set[TopicPartition] = set()
        self._awaiting_maximal_isr: dict[int, list[IsrWrite]] = {}
        self._ready: dict[TopicPartition, IsrWrite] = {}
        """Proposed, and counted by the host."""
        self._unconfirmed: set[TopicPartition] = set()
        """To be read before they are written: the outcome of a write is unknown, or the znode was not read in
        this session, or not since LeaderAndIsr, which lacks the keys of later versions.
        """
        self._unsent: list[IsrChange] = []

    def isr(self, topic_partition: TopicPartition) -> tuple[int, ...] | None:
        """In force as far as is known; None where this broker does not lead."""
        isr = self._isrs.get(topic_partition)
        return None if isr is None else isr.isr

    # --- what happens -----------------------------------------------------------------------------

    def led(self, state: PartitionStateInfo) -> None:
        """A leader epoch begins. What was under way for an older one is dropped."""
        core = self._core
        assert core.broker is not None
        self.left(state.topic_partition)
        self._isrs[state.topic_partition] = Isr(core.broker, state, core.now.ms)
        if not core.has_timer(LAG_TIMER):
            core.set_timer(LAG_TIMER, core.now.ms + core.config.lag_max_ms // 2)

    def reassigned(self, state: PartitionStateInfo) -> None:
        """The term goes on with other replicas, and so does what is under way in it."""
        isr = self._isrs.get(state.topic_partition)
        if isr is not None and isr.leader_epoch == state.leader_epoch:
            isr.set_replicas(state.replicas)

    def left(self, topic_partition: TopicPartition) -> None:
        self._isrs.pop(topic_partition, None)
        self._ready.pop(topic_partition, None)
        self._unconfirmed.discard(topic_partition)

    def fetched(self, event: FollowerFetched) -> None:
        """Notes how far a follower is; one that may join, or has lost lines, is looked at."""
        isr = self._isrs.get(event.topic_partition)
        if isr is None:
            return
        isr.fetched(event.follower, event.offset, event.log_end_offset, self._core.now.ms)
        is_below = event.offset < event.high_watermark
        if is_below if event.follower in isr.maximal_isr else not is_below:
            self._read_followers([event.topic_partition])

    def session_over(self) -> None:
        """Whatever this broker leads may have been decided anew, or be of another topic of that name.

        Versions of a topic that is made again begin anew as well: the state is read before it is written.
        """
        self._ready.clear()
        self._awaiting_maximal_isr.clear()
        self._unconfirmed.update(self._isrs)

    def connected(self) -> None:
        """What could not be written while ZooKeeper was away is looked at again."""
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
        """Proposes what the followers make necessary, and has the host count it first."""
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
        """The host waits for the new members too: the writes may go out.

        Not those of partitions `behind`: after the followers were read and before the maximal ISR was set, a
        line was acknowledged that a new member lacks. It joins at one of its next fetches.
        """
        withdrawn = []
        for write in self._awaiting_maximal_isr.pop(batch, ()):
            isr = self._isrs.get(write.topic_partition)
            if isr is None or isr.leader_epoch != write.state.leader_epoch:
                continue
            if write.topic_partition in behind:
                isr.written(NotSent("lines were acknowledged meanwhile"))
                withdrawn.append(self._maximal_isr(write.topic_partition))
            else:
                self._ready[write.topic_partition] = write
        if withdrawn:
            self._core.emit(SetMaximalIsrs(None, tuple(withdrawn)))

    def _maximal_isr(self, topic_partition: TopicPartition) -> MaximalIsr:
        isr = self._isrs[topic_partition]
        return MaximalIsr(topic_partition, isr.leader_epoch, isr.maximal_isr, isr.joining)

    # --- what is next -----------------------------------------------------------------------------

    def next(self) -> Work | None:
        if self._unconfirmed:
            return "read ISRs back", self._read_back
        if self._ready:
            return "write ISRs", self._write
        if self._unsent:
            return "tell of changed ISRs", self._send_changes
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
                # An ACL answers before the version does: there may be a new decision of a controller.
                self._unconfirmed.add(tp)
        self._settle(settled)
        _require_answers(outcomes)

    def _read_back(self) -> Procedure[None]:
        """After a refusal or a missing answer, and in a new session: what the znodes say decides."""
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
        """What stands in ZooKeeper is other than it was."""
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
        # Mostly the controller wrote it. It knows a state that a foreign writer wrote by this notification
        # only.
        self._changed(changed + deposed)
        self._read_followers([tp for tp, meaning in settled if meaning is IsrOutcome.ADOPTED])

    # --- telling ----------------------------------------------------------------------------------

    def _send_changes(self) -> Procedure[None]:
        changes, self._unsent = self._unsent, []
        try:
            outcomes = yield tuple(Query(isr_change_request(change)) for change in changes)
        except GeneratorExit:
            self._changed([tp for change in changes for tp in change.partitions])
            raise
        untold = [
            change
            for change, outcome in zip(changes, outcomes, strict=True)
            if not isinstance(outcome, MultiDone)
        ]
        self._changed([tp for change in untold for tp in change.partitions])
        _require_answers(outcomes)
        if untold:
            yield from ask(Query(CreateMissing((isr_changes_path(),))))

    def _changed(self, partitions: list[TopicPartition]) -> None:
        self._propagation.changed(partitions, self._core.now.ms)
        self._arm_propagation()

    def _arm_propagation(self) -> None:
        if self._propagation.waiting:
            at_ms = max(self._propagation.next_check_ms, self._core.now.ms + 1)
            self._core.set_timer_sooner(PROPAGATION_TIMER, at_ms)


def _require_answers(outcomes: tuple[Outcome, ...]) -> None:
    """Raises where one is missing, so that the machine backs off before it asks again."""
    for outcome in outcomes:
        if isinstance(outcome, (Unanswered, NotSent)):
            raise ConnectionLossError(outcome)
