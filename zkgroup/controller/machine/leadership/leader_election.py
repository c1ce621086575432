"""Elections: who leads, written and told. Source: controller.md 3, 5.1, 5.2; recipes.md 13, 15, 16."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from zkgroup.controller.machine.active import ActiveController
from zkgroup.controller.machine.context import Brokers, LeaderIsrAndControllerEpoch
from zkgroup.controller.machine.event_queue import EventKind
from zkgroup.controller.machine.leadership import selectors
from zkgroup.controller.machine.leadership.initial_state import initialise
from zkgroup.controller.machine.leadership.selectors import Choice, NoChoice, NotNeeded, without_replica
from zkgroup.controller.machine.requests.batch import RequestBatch
from zkgroup.controller.machine.state_machines import PartitionPhase
from zkgroup.controller.machine.state_writes import Decide, Written, read_states, write_states
from zkgroup.model import TopicPartition
from zkgroup.runtime.procedures import Procedure
from zkgroup.znodes.brokers import NO_LEADER, PartitionState
from zkgroup.znodes.config import TopicConfig

LEADERLESS: Final = frozenset({PartitionPhase.NEW, PartitionPhase.OFFLINE})

NAMED_MAX: Final = 5
"""Partitions without a leader that a log line names; the status names all."""

Select = Callable[[TopicPartition, LeaderIsrAndControllerEpoch], Choice | NoChoice | NotNeeded]


class Led(NamedTuple):
    """What became of an election."""

    chosen: dict[TopicPartition, Choice]
    """Partitions with a new leader epoch."""
    failed: dict[TopicPartition, str]
    """Why the others have none."""
    unneeded: frozenset[TopicPartition]
    """It is already so; nothing was written."""


def elect_offline(active: ActiveController, subject: str = "") -> Procedure[None]:
    """Elections for whoever has no leader, or one that cannot serve."""
    unfit = [
        each
        for each, brokers in active.context.unfit.items()
        if (standing := active.context.standing(each)) is not None and standing.leader in brokers
    ]
    active.move_partitions(unfit, PartitionPhase.OFFLINE)
    batch = active.requests.batch()
    yield from elect_leaderless(active, batch)
    yield from elect_restarted(active, batch)
    yield from start_new_leader_epochs(active, batch)
    active.requests.send(batch)


def elect(
    active: ActiveController,
    partitions: Iterable[TopicPartition],
    select: Select,
    batch: RequestBatch,
    replicas: Mapping[TopicPartition, Brokers] | None = None,
) -> Procedure[Led]:
    """Elects by a selector, writes, adds LeaderAndIsr to the recipients of each choice to the batch.

    Topics that are being deleted take no part. A partition with a leader becomes online, whatever it was.
    `replicas` are the lists to tell where they are not those of the picture (step 7 of a move). The caller
    tells the batch. Raises as `carry_out`.
    """
    choices: dict[TopicPartition, Choice] = {}
    unneeded: set[TopicPartition] = set()
    before: dict[TopicPartition, Brokers] = {}

    def decide(
        topic_partition: TopicPartition, standing: LeaderIsrAndControllerEpoch
    ) -> PartitionState | str:
        choices.pop(topic_partition, None)
        unneeded.discard(topic_partition)
        match select(topic_partition, standing):
            case Choice() as choice:
                choices[topic_partition] = choice
                before[topic_partition] = in_sync(active, topic_partition, standing)
                return standing.decided(choice.leader, choice.isr, active.epoch)
            case NoChoice(reason):
                return reason
            case NotNeeded(leader):
                unneeded.add(topic_partition)
                return f"{leader} leads it already"

    wanted = [each for each in partitions if not active.context.is_going(each)]
    carried = yield from _carry_out_afresh(active, wanted, decide, unneeded)
    chosen = {each: choices[each] for each in carried.written}
    for topic_partition, choice in chosen.items():
        batch.leader_and_isr(choice.recipients, topic_partition, (replicas or {}).get(topic_partition))
        if len(choice.isr) == 1 and not choice.unclean and set(before[topic_partition]) > set(choice.isr):
            active.unconfirmed_leaders.elected(topic_partition, choice.leader, before[topic_partition])
        else:
            active.unconfirmed_leaders.discard(topic_partition)
        if choice.unclean:
            active.core.note("election.unclean", partition=str(topic_partition), leader=choice.leader)
    online(active, chosen)
    failed = {each: why for each, why in carried.refused.items() if each not in unneeded}
    return Led(chosen, failed, frozenset(unneeded & carried.refused.keys()))


def elect_leaderless(
    active: ActiveController,
    batch: RequestBatch,
    unclean: Collection[TopicPartition] = (),
    put_off: Collection[TopicPartition] = (),
) -> Procedure[Led]:
    """Elects for every new and offline partition: first states, then the Offline selector.

    `unclean` are partitions for which an operator allows a leader that is not in sync; for the others the
    topic's configuration decides, which is read where it makes a difference, else the setting. What fails is
    noted in the status and tried again when a broker starts. What is `put_off` is left for another call. The
    caller tells the batch.
    """
    context = active.context
    leaderless = active.context.partition_phases.unusual(LEADERLESS)
    waiting = [
        each
        for each in leaderless
        if each in context and each not in put_off and not context.is_unhosted(each)
    ]
    mine = [each for each in waiting if not context.is_going(each)]
    # Of a topic that is being deleted the states may be gone already: none is made again, in the first epoch.
    new = [
        each
        for each in mine
        if context.partition_phases.phase(each) is PartitionPhase.NEW and each.topic not in context.deletions
    ]
    born = yield from initialise(active, new, batch)
    rest = [
        each
        for each in mine
        if context.standing(each) is not None and active.context.partition_phases.phase(each) in LEADERLESS
    ]
    allowed = set(unclean)
    looked_at: set[TopicPartition] = set()

    def select(topic_partition: TopicPartition, standing: LeaderIsrAndControllerEpoch) -> Choice | NoChoice:
        return selectors.offline(
            context.replicas(topic_partition),
            in_sync(active, topic_partition, standing),
            context.candidates(topic_partition, context.live),
            unclean=topic_partition in allowed,
            held=active.pending_deletes.of(context, topic_partition),
        )

    led = Led({}, dict.fromkeys(rest, ""), frozenset())
    # Twice where a conflict has shown an ISR that nobody of lives, unlike the one known before.
    for _ in range(2):
        left = [each for each in led.failed if each not in looked_at]
        doubtful = _without_isr(active, left)
        looked_at.update(doubtful)
        allowed |= yield from _unclean_allowed(active, doubtful)
        more = yield from elect(active, left, select, batch)
        failed = {each: why for each, why in led.failed.items() if each in looked_at and each not in left}
        led = Led(led.chosen | more.chosen, failed | more.failed, more.unneeded)
    failed = {each: why for each, why in born.refused.items() if each not in rest} | led.failed
    _note(active, waiting, failed)
    active.again(EventKind.ELECTIONS, failed.values())
    return Led(led.chosen, failed, led.unneeded)


def remove_from_isr(
    active: ActiveController, removals: Iterable[tuple[TopicPartition, int]], batch: RequestBatch
) -> Procedure[None]:
    """Replicas that have gone offline leave the ISR; the other replicas are told (controller.md 3.4).

    Of topics that are being deleted the ISR is written and nobody is told. The caller tells the batch.
    """
    gone: dict[TopicPartition, list[int]] = {}
    for topic_partition, broker in removals:
        gone.setdefault(topic_partition, []).append(broker)

    def decide(
        topic_partition: TopicPartition, standing: LeaderIsrAndControllerEpoch
    ) -> PartitionState | str:
        now = standing
        for broker in gone[topic_partition]:
            if (less := without_replica(now, broker, active.context.replicas(topic_partition))) is not None:
                now = now._replace(state=replace(now.state, leader=less[0], isr=less[1]))
        if now is standing:
            return "it is not in sync"
        return standing.decided(now.leader, now.isr, active.epoch)

    carried = yield from _carry_out_afresh(active, gone, decide)
    for topic_partition, standing in carried.written.items():
        if standing.leader == NO_LEADER:  # of a topic that is being deleted too: a move can put that off
            active.move_partitions([topic_partition], PartitionPhase.OFFLINE)
        if active.context.is_going(topic_partition):
            active.requests.unsent.discard(topic_partition)
            continue
        others = [
            each for each in active.context.replicas(topic_partition) if each not in gone[topic_partition]
        ]
        batch.leader_and_isr(others, topic_partition)


def in_sync(
    active: ActiveController, topic_partition: TopicPartition, standing: LeaderIsrAndControllerEpoch
) -> Brokers:
    """The ISR; and where its only member was elected, and could not serve, who was in sync before that.

    It has never led, so nothing was acknowledged since: the others still have everything.
    """
    unfit = active.context.unfit.get(topic_partition, ())
    return active.unconfirmed_leaders.in_sync(topic_partition, standing.isr, unfit)


def elect_restarted(active: ActiveController, batch: RequestBatch) -> Procedure[None]:
    """Each state that a foreign controller decided gets our epoch and a new leader epoch (recipes 13).

    A real controller that has lost its znode can go on with a batch; this makes its versions void. Leader and
    ISR stay where the leader lives, otherwise it becomes none. After `elect_leaderless`, whose choices are
    ours already. The caller tells the batch.
    """
    context, last = active.context, active.foreign_epoch
    if not last:
        return
    foreign = [
        each
        for each in context.partitions()
        if (standing := context.standing(each)) and standing.controller_epoch <= last
    ]
    live = context.reachable

    def decide(
        topic_partition: TopicPartition, standing: LeaderIsrAndControllerEpoch
    ) -> PartitionState | str:
        if standing.controller_epoch > last:
            return "it is ours"
        leader = standing.leader if standing.leader in live else NO_LEADER
        return standing.decided(leader, standing.isr, active.epoch)

    carried = yield from write_states(active, foreign, decide)
    active.again(EventKind.ELECTIONS, carried.refused.values())
    # Whose topic is being deleted may have deleted its replica: told of a role it would have one again.
    active.requests.to_replicas(batch, [each for each in carried.written if not context.is_going(each)])
    if foreign:
        active.core.note("recovery", foreign_epoch=last, written=len(carried.written))


def start_new_leader_epochs(
    active: ActiveController, batch: RequestBatch, put_off: Collection[TopicPartition] = ()
) -> Procedure[None]:
    """A broker of ours that has started since it was chosen as a leader leads on in a new term, or another.

    A controller that sees it go and come ends the term at once; this is for a start that none has seen. It
    derives from ZooKeeper alone: the registration is younger than the state. Leaders that are not ours are
    not touched. After `recover`, which writes anew whatever it finds. What is `put_off` is left for another
    call. The caller tells the batch.
    """
    context = active.context

    def select(
        topic_partition: TopicPartition, standing: LeaderIsrAndControllerEpoch
    ) -> Choice | NoChoice | NotNeeded:
        if topic_partition not in active.context.restarted_leaders:
            return NotNeeded(standing.leader)
        able = context.candidates(topic_partition, context.live)
        held = active.pending_deletes.of(context, topic_partition)
        return selectors.started_again(context.replicas(topic_partition), standing, able, held)

    mine = [
        each
        for each in active.context.restarted_leaders
        if each not in put_off and not context.is_going(each)
    ]
    if mine:
        led = yield from elect(active, mine, select, batch)
        active.again(EventKind.ELECTIONS, led.failed.values())
        active.core.note("terms.ended", written=len(led.chosen), failed=len(led.failed))


def online(active: ActiveController, partitions: Iterable[TopicPartition]) -> None:
    """These have a living leader now."""
    for topic_partition in active.move_partitions(partitions, PartitionPhase.ONLINE):
        active.wait(_subject(topic_partition), None)


def _without_isr(active: ActiveController, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Those of which nobody in sync lives, as far as is known."""
    context, live = active.context, active.context.live
    return [
        each
        for each in partitions
        if (standing := context.standing(each))
        and not context.candidates(each, live) & set(in_sync(active, each, standing))
    ]


def _carry_out_afresh(
    active: ActiveController,
    partitions: Iterable[TopicPartition],
    decide: Decide,
    settled: Collection[TopicPartition] = (),
) -> Procedure[Written]:
    """`carry_out`, where no decision to leave a state alone rests on an old picture either (K30).

    Leaders of 0.8.2.2 change an ISR without telling anybody. A write on an old state is refused; what was
    not written, but for what is `settled`, is read again, and decided again where it has changed.
    """
    context = active.context
    carried = yield from write_states(active, partitions, decide)
    before = {each: context.standing(each) for each in carried.refused if each not in settled}
    yield from read_states(active, before)
    changed = [each for each, standing in before.items() if context.standing(each) != standing]
    again = yield from write_states(active, changed, decide)
    refused = {each: why for each, why in carried.refused.items() if each not in again.written}
    return Written({**carried.written, **again.written}, {**refused, **again.refused})


def _unclean_allowed(
    active: ActiveController, partitions: Iterable[TopicPartition]
) -> Procedure[set[TopicPartition]]:
    """Those that may be led by a replica that is not in sync. A configuration that cannot be read says no."""
    mine = list(partitions)
    paths = {each.topic: TopicConfig.path(each.topic) for each in mine}
    found = yield from active.read_many(paths.values())
    words: dict[str, bool] = {}
    for topic, path in paths.items():
        config = active.decoded(found.get(path), TopicConfig.decode)
        setting = active.settings.unclean_election and path not in active.context.unreadable
        words[topic] = selectors.unclean_allowed(config.overrides if config else {}, setting)
    return {each for each in mine if words[each.topic]}


def _note(
    active: ActiveController, waiting: Iterable[TopicPartition], failed: Mapping[TopicPartition, str]
) -> None:
    for topic_partition in waiting:
        why, standing = failed.get(topic_partition), active.context.standing(topic_partition)
        if why and standing and not standing.isr:
            topic, partition = topic_partition
            why = f"{why}: zkgroup elect unclean --topic {topic}:{partition} --execute"
        active.wait(_subject(topic_partition), why)
    if failed:
        first = [f"{each}: {why}" for each, why in list(failed.items())[:NAMED_MAX]]
        active.core.note("election.failed", partitions=len(failed), detail="; ".join(first))


def _subject(topic_partition: TopicPartition) -> str:
    return f"leader of {topic_partition}"
