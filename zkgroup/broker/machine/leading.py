"""The ISRs of the partitions that a broker leads: what is written, and what the controller is told of it.

    look at followers -> propose (`Isr`) -> the host counts old and new -> write (in doubt: read back)
    -> the host counts what holds

Everything is done for many partitions at once: the return of one broker changes thousands of ISRs.
Source: controller.md 8.3, 8.4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from zkgroup.broker.isr import Isr, IsrWrite, Meaning
from zkgroup.broker.isr_notices import IsrNotices, notice_request
from zkgroup.broker.machine.core import Core
from zkgroup.broker.machine.effects import Counted, CountIsrs, IsrChanged, LookAtFollowers
from zkgroup.broker.machine.events import FollowerFetched, FollowersSeen
from zkgroup.errors import ConfigError
from zkgroup.machinery.machine import Work
from zkgroup.machinery.procedures import NoAnswerError, Procedure, Query, ask, read_allowed
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
from zkgroup.wire.control import PartitionStateInfo
from zkgroup.znodes.notifications import IsrChange, isr_changes_path
from zkgroup.znodes.partitions import PartitionState

LAG_TIMER: Final = "lag"
NOTICES_TIMER: Final = "isr notices"
WRITES_AT_ONCE: Final = 500
"""Transactions that are on their way together."""


class Leading:
    """The partitions that this broker leads."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._isrs: dict[TopicPartition, Isr] = {}
        self._notices = IsrNotices(core.now.ms, core.config.notices)
        self._looked_at: set[TopicPartition] = set()
        self._counting: dict[int, list[IsrWrite]] = {}
        self._ready: dict[TopicPartition, IsrWrite] = {}
        """Proposed, and counted by the host."""
        self._in_doubt: set[TopicPartition] = set()
        """Written, and the outcome is not known; or not looked at in this session yet."""
        self._to_tell: list[IsrChange] = []

    def isr(self, topic_partition: TopicPartition) -> tuple[int, ...] | None:
        """In force as far as is known; None where this broker does not lead."""
        isr = self._isrs.get(topic_partition)
        return None if isr is None else isr.isr

    # --- what happens -----------------------------------------------------------------------------

    def led(self, state: PartitionStateInfo) -> None:
        """A term begins. What was under way for an older one is nobody's concern any more."""
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
            isr.assign(state.replicas)

    def left(self, topic_partition: TopicPartition) -> None:
        self._isrs.pop(topic_partition, None)
        self._ready.pop(topic_partition, None)
        self._in_doubt.discard(topic_partition)

    def fetched(self, event: FollowerFetched) -> None:
        """Notes how far a follower is; one that may join, or has lost lines, is looked at."""
        isr = self._isrs.get(event.topic_partition)
        if isr is None:
            return
        isr.fetched(event.follower, event.offset, event.log_end_offset, self._core.now.ms)
        is_below = event.offset < event.high_watermark
        if is_below if event.follower in isr.counted else not is_below:
            self._look([event.topic_partition])

    def session_over(self) -> None:
        """Whatever this broker leads may have been decided anew, or be of another topic of that name.

        Versions of a topic that is made again begin anew as well: the state is read before it is written.
        """
        self._ready.clear()
        self._counting.clear()
        self._in_doubt.update(self._isrs)

    def connected(self) -> None:
        """What could not be written while ZooKeeper was away is looked at again."""
        self._look(self._isrs)

    def timer_fired(self, name: str) -> None:
        core = self._core
        if name == LAG_TIMER:
            if self._isrs:
                core.set_timer(LAG_TIMER, core.now.ms + core.config.lag_max_ms // 2)
            self._look(self._isrs)
        else:
            self._to_tell += self._notices.look(core.now.ms)
            self._arm_notices()

    def _look(self, partitions: Iterable[TopicPartition]) -> None:
        wanted = tuple(tp for tp in partitions if tp not in self._looked_at)
        if wanted and self._core.connected:
            self._looked_at.update(wanted)
            self._core.emit(LookAtFollowers(wanted))

    def seen(self, event: FollowersSeen) -> None:
        """Proposes what the followers make necessary, and has the host count it first."""
        core = self._core
        self._looked_at.difference_update(event.partitions)
        if not core.connected:
            return
        writes: list[IsrWrite] = []
        for topic_partition, (leader_epoch, followers) in event.followers.items():
            isr = self._isrs.get(topic_partition)
            if isr is None or isr.leader_epoch != leader_epoch or topic_partition in self._in_doubt:
                continue
            write = isr.propose(followers, core.now.ms, core.config.lag_max_ms)
            if write is not None and self._may_be_written(isr, write):
                writes.append(write)
        if writes:
            batch = core.next_id()
            self._counting[batch] = writes
            core.emit(CountIsrs(batch, tuple(self._counted(write.topic_partition) for write in writes)))

    def _may_be_written(self, isr: Isr, write: IsrWrite) -> bool:
        try:
            write.request()
        except ConfigError as error:
            isr.refused()
            self._core.note("isr.unwritable", partition=str(write.topic_partition), detail=str(error))
            return False
        return True

    def counted(self, batch: int, behind: Collection[TopicPartition]) -> None:
        """The host waits for the new members too: the writes may go out.

        Not those of partitions `behind`: between the look at the followers and the count a line was
        acknowledged that a new member lacks. It joins at one of its next fetches.
        """
        given_up = []
        for write in self._counting.pop(batch, ()):
            isr = self._isrs.get(write.topic_partition)
            if isr is None or isr.leader_epoch != write.state.leader_epoch:
                continue
            if write.topic_partition in behind:
                isr.written(NotSent("lines were acknowledged meanwhile"))
                given_up.append(self._counted(write.topic_partition))
            else:
                self._ready[write.topic_partition] = write
        if given_up:
            self._core.emit(CountIsrs(None, tuple(given_up)))

    def _counted(self, topic_partition: TopicPartition) -> Counted:
        isr = self._isrs[topic_partition]
        return Counted(topic_partition, isr.leader_epoch, isr.counted, isr.joining)

    # --- what is next -----------------------------------------------------------------------------

    def next(self) -> Work | None:
        if self._in_doubt:
            return "read ISRs back", self._read_back
        if self._ready:
            return "write ISRs", self._write
        if self._to_tell:
            return "tell of changed ISRs", self._tell
        return None

    def _write(self) -> Procedure[None]:
        batch = [self._ready.pop(tp) for tp in list(self._ready)[:WRITES_AT_ONCE]]
        isrs = [self._isrs[write.topic_partition] for write in batch]
        self._in_doubt.update(write.topic_partition for write in batch)
        outcomes = yield tuple(Query(write.request()) for write in batch)
        settled: list[tuple[TopicPartition, Meaning]] = []
        for write, isr, outcome in zip(batch, isrs, outcomes, strict=True):
            tp = write.topic_partition
            if self._isrs.get(tp) is not isr:
                continue
            before = isr.isr
            meaning = isr.written(outcome)
            self._note_change(tp, before, isr)
            if meaning is not Meaning.READ_BACK:
                self._in_doubt.discard(tp)
                settled.append((tp, meaning))
            if isinstance(outcome, MultiRefused) and meaning is Meaning.KEPT:
                self._core.note("isr.refused", partition=str(tp), code=outcome.code.value)
                # An ACL answers before the version does: it may be that somebody has decided anew.
                self._in_doubt.add(tp)
        self._settle(settled)
        _require_answers(outcomes)

    def _read_back(self) -> Procedure[None]:
        """After a refusal or a missing answer, and in a new session: what the znodes say decides."""
        partitions = sorted(self._in_doubt)[:WRITES_AT_ONCE]
        isrs = [self._isrs[tp] for tp in partitions]
        paths = [PartitionState.path(tp) for tp in partitions]
        yield from ask(Query(Sync(paths[0])))
        found = yield from read_allowed(paths)
        settled = []
        for tp, isr, znode in zip(partitions, isrs, found, strict=True):
            if self._isrs.get(tp) is isr:
                self._in_doubt.discard(tp)
                path = PartitionState.path(tp)
                outcome = Refused(znode, path) if isinstance(znode, Code) else ReadDone(znode)
                before = isr.isr
                settled.append((tp, isr.read_back(outcome)))
                self._note_change(tp, before, isr)
        self._settle(settled)
        self._look([tp for tp, meaning in settled if meaning is Meaning.KEPT])

    def _note_change(self, tp: TopicPartition, before: tuple[int, ...], isr: Isr) -> None:
        """What stands in ZooKeeper is other than it was."""
        if set(before) - set(isr.isr):
            self._core.note("isr.shrank", partition=str(tp), isr=isr.isr, was=before)
        if set(isr.isr) - set(before):
            self._core.note("isr.expanded", partition=str(tp), isr=isr.isr, was=before)

    def _settle(self, settled: list[tuple[TopicPartition, Meaning]]) -> None:
        core = self._core
        if not settled:
            return
        core.emit(CountIsrs(None, tuple(self._counted(tp) for tp, _ in settled)))
        changed = [tp for tp, meaning in settled if meaning in (Meaning.STORED, Meaning.ADOPTED)]
        for tp in changed:
            isr = self._isrs[tp]
            core.emit(IsrChanged(tp, isr.leader_epoch, isr.isr))
        for tp, meaning in settled:
            if meaning in (Meaning.DEPOSED, Meaning.UNREADABLE):
                core.note(f"isr.{meaning.value}", partition=str(tp), leader_epoch=self._isrs[tp].leader_epoch)
        deposed = [tp for tp, meaning in settled if meaning is Meaning.DEPOSED]
        # It is the controller's doing mostly. A state that somebody else wrote it would not know without us.
        self._changed(changed + deposed)
        self._look([tp for tp, meaning in settled if meaning is Meaning.ADOPTED])

    # --- telling ----------------------------------------------------------------------------------

    def _tell(self) -> Procedure[None]:
        changes, self._to_tell = self._to_tell, []
        try:
            outcomes = yield tuple(Query(notice_request(change)) for change in changes)
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
        self._notices.changed(partitions, self._core.now.ms)
        self._arm_notices()

    def _arm_notices(self) -> None:
        if self._notices.waiting:
            at_ms = max(self._notices.next_look_ms, self._core.now.ms + 1)
            self._core.set_timer_sooner(NOTICES_TIMER, at_ms)


def _require_answers(outcomes: tuple[Outcome, ...]) -> None:
    """Raises where one is missing, so that the machine rests before it asks again."""
    for outcome in outcomes:
        if isinstance(outcome, (Unanswered, NotSent)):
            raise NoAnswerError(outcome)
