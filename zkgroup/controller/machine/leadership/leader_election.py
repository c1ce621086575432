"""Leader elections: chosen, written and sent. Source: states, starts and failures of brokers (controller.md
3, 5.1, 5.2); fence, Kafka brokers and batches (recipes 13, 15, 16)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from zkgroup.controller.machine import event_manager
from zkgroup.controller.machine.context import Brokers, LeaderIsrAndControllerEpoch
from zkgroup.controller.machine.feature import Feature, SharedParts
from zkgroup.controller.machine.leadership import selectors
from zkgroup.controller.machine.leadership.initial_state import InitialStates
from zkgroup.controller.machine.leadership.selectors import (
    Choice,
    NoChoice,
    NotNeeded,
    PartitionElection,
    election_of,
    without_replica,
)
from zkgroup.controller.machine.requests.batch import RequestBatch
from zkgroup.controller.machine.requests.sender import BrokerResponse
from zkgroup.controller.machine.state_machines import PartitionPhase
from zkgroup.controller.machine.state_writes import Decide, Written
from zkgroup.model import TopicPartition
from zkgroup.runtime.procedures import Procedure
from zkgroup.wire.control import LeaderAndIsrResponse
from zkgroup.wire.messages import ErrorCode
from zkgroup.znodes.brokers import NO_LEADER, PartitionState
from zkgroup.znodes.config import TopicConfig

LEADERLESS: Final = frozenset({PartitionPhase.NEW, PartitionPhase.OFFLINE})

NAMED_MAX: Final = 5
"""Partitions without a leader that a log line names; the status names all."""

Select = Callable[[TopicPartition, PartitionElection], Choice | NoChoice | NotNeeded]


class Led(NamedTuple):
    """The result of an election, by partition."""

    chosen: dict[TopicPartition, Choice]
    """Partitions with a new leader epoch."""
    failed: dict[TopicPartition, str]
    """The reasons why the others have none."""
    unneeded: frozenset[TopicPartition]
    """It is already so; nothing was written."""


class UnconfirmedLeaders:
    """Leaders alone in the ISR of a new leader epoch that have not confirmed yet that they can serve.

    Partition to its leader and to the ISR before that epoch. Where such a leader cannot serve it has never
    led in this epoch, so nothing was acknowledged since the one before, and the brokers that were in sync
    then still have everything.
    """

    def __init__(self) -> None:
        self._leaders: dict[TopicPartition, tuple[int, Brokers]] = {}

    def __len__(self) -> int:
        return len(self._leaders)

    def elected(self, topic_partition: TopicPartition, leader: int, before: Brokers) -> None:
        """A leader that is alone in the ISR; `before` is the ISR that others were in as well."""
        self._leaders[topic_partition] = (leader, before)

    def discard(self, topic_partition: TopicPartition) -> None:
        """Another election, or the topic is gone."""
        self._leaders.pop(topic_partition, None)

    def confirmed(self, topic_partition: TopicPartition, broker: int) -> None:
        """The broker has answered LeaderAndIsr without an error for this partition."""
        if topic_partition in self._leaders and self._leaders[topic_partition][0] == broker:
            del self._leaders[topic_partition]

    def broker_gone(self, broker: int) -> None:
        """It may have led, and stopped before its response arrived."""
        for topic_partition in [each for each, (leader, _) in self._leaders.items() if leader == broker]:
            del self._leaders[topic_partition]

    def in_sync(self, topic_partition: TopicPartition, isr: Brokers, offline: Collection[int]) -> Brokers:
        """The ISR; and where its only member could not serve, the ISR before its election.

        offline: brokers whose replica of the partition is offline.
        """
        leader, before = self._leaders.get(topic_partition, (None, ()))
        if leader is None or isr != (leader,):
            return isr
        return before if leader in offline else isr


class LeaderElections(Feature):
    """Elects leaders and removes replicas from ISRs, for every reason."""

    def __init__(self, parts: SharedParts, initial_states: InitialStates) -> None:
        super().__init__(parts)
        self._initial_states = initial_states
        self._unconfirmed = UnconfirmedLeaders()

    def topic_forgotten(self, topic: str, partitions: Sequence[TopicPartition]) -> None:
        for each in partitions:
            self._unconfirmed.discard(each)
            self._events.set_blocked(_subject(each), None)

    def broker_gone(self, broker: int) -> None:
        self._unconfirmed.broker_gone(broker)

    def on_response(self, response: BrokerResponse) -> None:
        """A replica that its broker cannot serve (error 56) is offline to every election, and leaves the ISR.

        It is online again when its broker restarts, or when its leader adds it to the ISR: its files were
        opened again, and it has caught up (docs/adr/0018).

        The response to a request that was sent twice may hide that the broker has led since the first copy.
        """
        answer, broker = response.response, response.broker
        if not isinstance(answer, LeaderAndIsrResponse):
            return
        for each in answer.partitions:
            if response.was_sent_again or each.error == ErrorCode.NONE:
                self._unconfirmed.confirmed(each.topic_partition, broker)
        broken = [
            each.topic_partition
            for each in answer.partitions
            if each.error == ErrorCode.KAFKA_STORAGE_ERROR and each.topic_partition in self._context
        ]
        for topic_partition in broken:
            self._context.replica_offline(topic_partition, broker)
        if broken:
            self._core.note("replica.offline", broker=broker, partitions=tuple(map(str, broken)))
            self._events.enqueue(event_manager.ELECTIONS)
            # A deletion does not wait for a reassignment without a leader.
            self._events.enqueue(event_manager.REASSIGNMENT)

    def on_elections(self) -> Procedure[None]:
        """Elects where no leader can serve; followers that cannot serve leave the ISR."""
        offline = [
            each
            for each, brokers in self._context.offline_replicas.items()
            if (leadership := self._context.leadership(each)) is not None and leadership.leader in brokers
        ]
        self._set_partition_phase(offline, PartitionPhase.OFFLINE)
        batch = self._requests.batch()
        yield from self.elect_where_needed(batch)
        yield from self._remove_offline(batch)
        self._requests.send(batch)

    def elect_where_needed(
        self, batch: RequestBatch, put_off: Collection[TopicPartition] = ()
    ) -> Procedure[None]:
        """Every election that states and brokers call for. What is `put_off` is left for another call."""
        yield from self.elect_leaderless(batch, put_off)
        yield from self.take_over_foreign_states(batch)
        yield from self.start_new_leader_epochs(batch, put_off)

    def _remove_offline(self, batch: RequestBatch) -> Procedure[None]:
        """Removes followers that cannot serve from the ISRs of live leaders, as Kafka since 1.0 does. They
        get the new leader epoch too, in which they fetch again once their files can be opened."""
        context = self._context
        removals = [
            (each, broker)
            for each, brokers in context.offline_replicas.items()
            if not context.is_going(each)
            and (leadership := context.leadership(each)) is not None
            and leadership.leader in context.with_online_replica(each, context.live)
            for broker in sorted(brokers & set(leadership.isr))
        ]
        if removals:
            yield from self.remove_from_isr(removals, batch, notify_removed=True)

    def elect(
        self,
        partitions: Iterable[TopicPartition],
        select: Select,
        batch: RequestBatch,
        replicas: Mapping[TopicPartition, Brokers] | None = None,
    ) -> Procedure[Led]:
        """Elects by a selector, writes, adds LeaderAndIsr to the recipients of each choice to the batch.

        Topics that are being deleted take no part. A partition with a leader becomes online, whatever it was.
        `replicas` are the lists to send where they are not those of the context (step 7 of a reassignment).
        The caller sends the batch. Raises as `write_states`.
        """
        context = self._context
        choices: dict[TopicPartition, Choice] = {}
        unneeded: set[TopicPartition] = set()
        before: dict[TopicPartition, Brokers] = {}

        def decide(
            topic_partition: TopicPartition, leadership: LeaderIsrAndControllerEpoch
        ) -> PartitionState | str:
            choices.pop(topic_partition, None)
            unneeded.discard(topic_partition)
            now = self.election_of(topic_partition, leadership)
            match select(topic_partition, now):
                case Choice() as choice:
                    choices[topic_partition] = choice
                    before[topic_partition] = self._in_sync(topic_partition, now.isr)
                    return leadership.decided(choice.leader, choice.isr, self._identity.epoch)
                case NoChoice(reason):
                    return reason
                case NotNeeded(leader):
                    unneeded.add(topic_partition)
                    return f"{leader} leads it already"

        wanted = [each for each in partitions if not context.is_going(each)]
        carried = yield from self._write_decisions(wanted, decide, unneeded)
        chosen = {each: choices[each] for each in carried.written}
        for topic_partition, choice in chosen.items():
            listed = (replicas or {}).get(topic_partition)
            offline = self._offline_followers(topic_partition, listed or context.replicas(topic_partition))
            recipients = dict.fromkeys((*choice.recipients, *offline))
            batch.leader_and_isr(recipients, topic_partition, listed)
            if len(choice.isr) == 1 and not choice.unclean and set(before[topic_partition]) > set(choice.isr):
                self._unconfirmed.elected(topic_partition, choice.leader, before[topic_partition])
            else:
                self._unconfirmed.discard(topic_partition)
            if choice.unclean:
                self._core.note("election.unclean", partition=str(topic_partition), leader=choice.leader)
        self._mark_online(chosen)
        failed = {each: why for each, why in carried.refused.items() if each not in unneeded}
        return Led(chosen, failed, frozenset(unneeded & carried.refused.keys()))

    def _offline_followers(self, topic_partition: TopicPartition, replicas: Brokers) -> list[int]:
        """Live brokers that could not serve their replica: as followers they may fetch all of it again."""
        context = self._context
        offline = context.offline_replicas.get(topic_partition, ())
        deleting = self._pending_deletes.of(context, topic_partition) if offline else ()
        return [
            each for each in replicas if each in offline and each in context.live and each not in deleting
        ]

    def elect_leaderless(
        self, batch: RequestBatch, put_off: Collection[TopicPartition] = ()
    ) -> Procedure[Led]:
        """Elects for every new and offline partition: first states, then by `selectors.offline`.

        What fails is named in the status and tried again when a broker starts. `put_off` are partitions that
        are left for another call. The caller sends the batch.
        """
        context, phases = self._context, self._context.partition_phases
        waiting = [
            each
            for each in phases.unusual(LEADERLESS)
            if each in context and each not in put_off and not context.is_unhosted(each)
        ]
        mine = [each for each in waiting if not context.is_going(each)]
        # The states of a topic that is being deleted may be gone already: none is created again, as its
        # first leader epoch would be an old one.
        new = [
            each
            for each in mine
            if phases.phase(each) is PartitionPhase.NEW and each.topic not in context.deletions
        ]
        created = yield from self._initial_states.initialise(new, batch)
        rest = [
            each for each in mine if context.leadership(each) is not None and phases.phase(each) in LEADERLESS
        ]
        led = yield from self._elect_offline(rest, batch)
        failed = {each: why for each, why in created.refused.items() if each not in rest} | led.failed
        self._note(waiting, failed)
        self._events.retry_denied(event_manager.ELECTIONS, failed.values())
        return Led(led.chosen, failed, led.unneeded)

    def _elect_offline(self, partitions: Sequence[TopicPartition], batch: RequestBatch) -> Procedure[Led]:
        """Elects for partitions that have a state and no leader. Whether a topic allows an unclean election
        is read only where no replica that is in sync is live."""
        allowed: set[TopicPartition] = set()
        checked: set[TopicPartition] = set()

        def select(topic_partition: TopicPartition, now: PartitionElection) -> Choice | NoChoice:
            now = now._replace(isr=self._in_sync(topic_partition, now.isr))
            return selectors.offline(now, unclean=topic_partition in allowed)

        led = Led({}, dict.fromkeys(partitions, ""), frozenset())
        # Twice where a conflict has shown that no replica in the ISR is live, unlike in the ISR known before.
        for _ in range(2):
            left = [each for each in led.failed if each not in checked]
            without_isr = self._without_isr(left)
            checked.update(without_isr)
            allowed |= yield from self._unclean_allowed(without_isr)
            more = yield from self.elect(left, select, batch)
            failed = {each: why for each, why in led.failed.items() if each in checked and each not in left}
            led = Led(led.chosen | more.chosen, failed | more.failed, more.unneeded)
        return led

    def remove_from_isr(
        self,
        removals: Iterable[tuple[TopicPartition, int]],
        batch: RequestBatch,
        *,
        notify_removed: bool = False,
    ) -> Procedure[None]:
        """Replicas that have gone offline leave the ISR; the other replicas get LeaderAndIsr (ISR removals,
        controller.md 3.4).

        With `notify_removed` those that leave get it too: they live, and may follow. For topics that are
        being deleted the ISR is only written. The caller sends the batch.
        """
        before: dict[TopicPartition, Brokers] = {}
        gone: dict[TopicPartition, list[int]] = {}
        for topic_partition, broker in removals:
            gone.setdefault(topic_partition, []).append(broker)

        def decide(
            topic_partition: TopicPartition, leadership: LeaderIsrAndControllerEpoch
        ) -> PartitionState | str:
            now = leadership
            for broker in gone[topic_partition]:
                if (
                    less := without_replica(now, broker, self._context.replicas(topic_partition))
                ) is not None:
                    now = now._replace(state=replace(now.state, leader=less[0], isr=less[1]))
            if now is leadership:
                return "it is not in sync"
            before[topic_partition] = leadership.isr
            return leadership.decided(now.leader, now.isr, self._identity.epoch)

        carried = yield from self._write_decisions(gone, decide)
        for topic_partition, leadership in carried.written.items():
            if (
                leadership.leader == NO_LEADER
            ):  # of a topic that is being deleted too: a move can put that off
                self._set_partition_phase([topic_partition], PartitionPhase.OFFLINE)
            if self._context.is_going(topic_partition):
                self._requests.unsent.discard(topic_partition)
                continue
            recipients = [
                each
                for each in self._context.replicas(topic_partition)
                if notify_removed or each not in gone[topic_partition]
            ]
            batch.leader_and_isr(recipients, topic_partition)
            if notify_removed and leadership.isr == (leadership.leader,):
                self._unconfirmed.elected(topic_partition, leadership.leader, before[topic_partition])

    def election_of(
        self, topic_partition: TopicPartition, leadership: LeaderIsrAndControllerEpoch
    ) -> PartitionElection:
        return election_of(self._context, self._pending_deletes, topic_partition, leadership)

    def _in_sync(self, topic_partition: TopicPartition, isr: Brokers) -> Brokers:
        """The ISR, or the one before it where its only member could not serve (`UnconfirmedLeaders`)."""
        offline = self._context.offline_replicas.get(topic_partition, ())
        return self._unconfirmed.in_sync(topic_partition, isr, offline)

    def take_over_foreign_states(self, batch: RequestBatch) -> Procedure[None]:
        """Writes each state of a Kafka controller with this controller epoch and a new leader epoch.

        A real controller that has lost its znode can go on with a batch; this makes its versions void. Leader
        and ISR stay where the leader lives, otherwise it becomes none. After `elect_leaderless`, whose
        choices are already zkgroup's. The caller sends the batch.
        """
        context, last = self._context, self._identity.foreign_epoch
        if not last:
            return
        foreign = [
            each
            for each in context.partitions()
            if (leadership := context.leadership(each)) and leadership.controller_epoch <= last
        ]
        live = context.live_or_shutting_down

        def decide(
            topic_partition: TopicPartition, leadership: LeaderIsrAndControllerEpoch
        ) -> PartitionState | str:
            if leadership.controller_epoch > last:
                return "a zkgroup controller has decided it"
            leader = leadership.leader if leadership.leader in live else NO_LEADER
            return leadership.decided(leader, leadership.isr, self._identity.epoch)

        carried = yield from self._states.write_states(foreign, decide)
        self._events.retry_denied(event_manager.ELECTIONS, carried.refused.values())
        # Brokers may have deleted replicas of topics that are being deleted: LeaderAndIsr would create them
        # again.
        self._requests.to_replicas(batch, [each for each in carried.written if not context.is_going(each)])
        if foreign:
            self._core.note("recovery", foreign_epoch=last, written=len(carried.written))

    def start_new_leader_epochs(
        self, batch: RequestBatch, put_off: Collection[TopicPartition] = ()
    ) -> Procedure[None]:
        """Starts a new leader epoch where a zkgroup broker has restarted since it was elected.

        A controller that sees the restart starts a new leader epoch at once; this is for a restart that none
        has seen: the registration is younger than the state. Leaders of Kafka are not touched. What is
        `put_off` is left for another call. The caller sends the batch.
        """
        context = self._context

        def select(topic_partition: TopicPartition, now: PartitionElection) -> Choice | NoChoice | NotNeeded:
            if topic_partition not in context.restarted_leaders:
                return NotNeeded(now.leader)
            return selectors.started_again(now)

        mine = [
            each
            for each in self._context.restarted_leaders
            if each not in put_off and not context.is_going(each)
        ]
        if mine:
            led = yield from self.elect(mine, select, batch)
            self._events.retry_denied(event_manager.ELECTIONS, led.failed.values())
            self._core.note("leader_epochs.started", written=len(led.chosen), failed=len(led.failed))

    def _mark_online(self, partitions: Iterable[TopicPartition]) -> None:
        for topic_partition in self._set_partition_phase(partitions, PartitionPhase.ONLINE):
            self._events.set_blocked(_subject(topic_partition), None)

    def _without_isr(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those without a live broker in the ISR, as far as is known."""
        found = []
        for each in partitions:
            if (leadership := self._context.leadership(each)) is not None:
                now = self.election_of(each, leadership)
                if set(self._in_sync(each, now.isr)).isdisjoint(now.live):
                    found.append(each)
        return found

    def _write_decisions(
        self,
        partitions: Iterable[TopicPartition],
        decide: Decide,
        settled: Collection[TopicPartition] = (),
    ) -> Procedure[Written]:
        """`write_states`. What was not written, but for what is `settled`, is read again, and decided again
        where it has changed: leaders of 0.8.2.2 change an ISR without a notification."""
        context = self._context
        carried = yield from self._states.write_states(partitions, decide)
        before = {each: context.leadership(each) for each in carried.refused if each not in settled}
        yield from self._states.read_states(before)
        changed = [each for each, leadership in before.items() if context.leadership(each) != leadership]
        again = yield from self._states.write_states(changed, decide)
        refused = {each: why for each, why in carried.refused.items() if each not in again.written}
        return Written({**carried.written, **again.written}, {**refused, **again.refused})

    def _unclean_allowed(self, partitions: Iterable[TopicPartition]) -> Procedure[set[TopicPartition]]:
        """Those that replicas out of sync may lead. A configuration that cannot be read says no."""
        mine = list(partitions)
        paths = {each.topic: TopicConfig.path(each.topic) for each in mine}
        found = yield from self._reader.read_many(paths.values())
        words: dict[str, bool] = {}
        for topic, path in paths.items():
            config = self._reader.decoded(found.get(path), TopicConfig.decode)
            setting = self._settings.unclean_election and path not in self._context.unreadable
            words[topic] = selectors.unclean_allowed(config.overrides if config else {}, setting)
        return {each for each in mine if words[each.topic]}

    def _note(self, waiting: Iterable[TopicPartition], failed: Mapping[TopicPartition, str]) -> None:
        for topic_partition in waiting:
            why, leadership = failed.get(topic_partition), self._context.leadership(topic_partition)
            if why and leadership and not leadership.isr:
                topic, partition = topic_partition
                why = f"{why}: zkgroup elect unclean --topic {topic}:{partition} --execute"
            self._events.set_blocked(_subject(topic_partition), why)
        if failed:
            first = [f"{each}: {why}" for each, why in list(failed.items())[:NAMED_MAX]]
            self._core.note("election.failed", partitions=len(failed), detail="; ".join(first))


def _subject(topic_partition: TopicPartition) -> str:
    return f"leader of {topic_partition}"
