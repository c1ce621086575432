"""Loading: a new controller reads the cluster, elects leaders and sends the states to all brokers.

Source: failover order (controller.md 2.3); recovery, Kafka brokers and batches (recipes 13, 15, 16). On a new
connection of the same session, where all watches are gone, and after a missing reply everything is read as
well: it is then compared with the context, and only what is new is sent.

First leader epochs are sent again to brokers that may not have received them (ADR 0018). A controller that
dies between the first state and the first LeaderAndIsr, together with the leader, leaves replicas that do not
know the partition. Elected, they could not be distinguished from emptied ones, and would refuse to lead for
ever (storage error 56). So they get the first leader epoch before another one is decided.

A broker gets it only where it cannot have been emptied: it is in the ISR of a state that was not written
since it was created, and its registration is older than that, so its process has not been restarted.
Then the high watermark has waited for it all the time: what it does not have was never acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from zkgroup.controller.machine import event_manager
from zkgroup.controller.machine.context import Brokers, ControllerContext, LeaderIsrAndControllerEpoch
from zkgroup.controller.machine.controller_election.history import ControllerHistory
from zkgroup.controller.machine.deletion.stray_replicas import StrayReplicaDeletion
from zkgroup.controller.machine.failover.brokers import BrokerChanges
from zkgroup.controller.machine.failover.slots import Slots
from zkgroup.controller.machine.failover.topics import TopicChanges
from zkgroup.controller.machine.feature import Feature, SharedParts
from zkgroup.controller.machine.leadership.leader_election import LeaderElections
from zkgroup.controller.machine.state_writes import Alike
from zkgroup.model import TopicPartition
from zkgroup.model.requests import ListChildren, Outcome, Read, ReadMany, ReadManyDone, Sync
from zkgroup.runtime.procedures import (
    PipelinedStep,
    Procedure,
    Query,
    ask,
    list_done,
    read_done,
    run_pipelined,
)
from zkgroup.znodes.admin_requests import Reassignment, delete_topics_path
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic, topics_path

STATES_AT_ONCE: Final = 1000
"""In one request: a packet of a client with the usual settings."""


class Loading(Feature):
    """Loads the cluster into the context, and elects and sends what follows."""

    def __init__(
        self,
        parts: SharedParts,
        brokers: BrokerChanges,
        topics: TopicChanges,
        strays: StrayReplicaDeletion,
        elections: LeaderElections,
        slots: Slots,
    ) -> None:
        super().__init__(parts)
        self._brokers = brokers
        self._topics = topics
        self._strays = strays
        self._elections = elections
        self._slots = slots
        self._began_ms = self._core.now.ms

    def _unannounced(self) -> dict[TopicPartition, Brokers]:
        """Partitions to be elected only after these brokers were sent the first leader epoch. Called once,
        when everything is loaded and nothing is sent or decided yet."""
        context = self._context
        recipients: dict[TopicPartition, Brokers] = {}
        others: dict[TopicPartition, frozenset[int]] = {}
        for each, zxid in context.first_states.items():
            leadership = context.leadership(each)
            if leadership is None or not self._may_be_unannounced(each, leadership):
                continue
            live = context.live_or_shutting_down.intersection(context.replicas(each))
            never_away = {one for one in live if one in leadership.isr and _is_older(context, one, zxid)}
            if never_away:
                recipients[each], others[each] = tuple(sorted(never_away)), live - never_away
        context.first_states.clear()
        # The first LeaderAndIsr names all that a broker has: it must not send the first leader epoch to the
        # others.
        while True:
            brokers = frozenset(one for each in recipients.values() for one in each)
            wrong = [each for each in recipients if others[each] & brokers]
            if not wrong:
                return recipients
            for each in wrong:
                del recipients[each]

    def _announce(self, partitions: Mapping[TopicPartition, Brokers]) -> None:
        batch = self._requests.batch()
        for each, ids in partitions.items():
            batch.leader_and_isr(ids, each)
        self._requests.send(batch)
        self._core.note("first_leader_epochs.sent", partitions=len(partitions))

    def _may_be_unannounced(self, each: TopicPartition, leadership: LeaderIsrAndControllerEpoch) -> bool:
        """Returns whether its state is still the first one, of a zkgroup controller, and its topic stays."""
        return (
            (leadership.leader_epoch, leadership.version) == (0, 0)
            and leadership.controller_epoch > self._identity.foreign_epoch
            and not self._context.is_going(each)
        )

    def load(self) -> Procedure[None]:
        """Reads everything, each watch before what it watches. After a ConnectionLossError it runs again."""
        yield from ask(Query(Sync("/")))
        if self._context.was_loaded:
            yield from self._load_again()
        else:
            yield from self._load_first()
        self._context.is_loaded = self._context.was_loaded = True
        self._hooks.loaded()

    def _load_first(self) -> Procedure[None]:
        context = self._context
        found = yield from self._brokers.registered()
        for gone in context.set_brokers(found).gone:  # since a first attempt
            self._requests.queues.close(gone)
        self._brokers.open_channels(context.live_or_shutting_down)
        # At once, whatever there is to lead: from its first request on a broker obeys no older controller.
        first = self._requests.batch()
        first.update_metadata()
        self._requests.send(first)
        yield from self._name_predecessor()
        names = yield from self._list_topics()
        requests: list[Outcome] = []
        yield from run_pipelined(
            [*TopicLoader(self._parts, self._topics, names).steps(), *_requests_step(requests)]
        )
        yield from self._slots.find()
        self._take_requests_in(*requests)
        yield from self._strays.read_abandoned_records()
        yield from self._topics.find_unhosted(context.topics)
        self._topics.enter_all_partitions()
        batch = self._requests.batch()
        unannounced = self._unannounced()
        yield from self._elections.elect_where_needed(batch, put_off=unannounced)
        if unannounced:
            self._announce(unannounced)
            yield from self._elections.elect_leaderless(batch)
            yield from self._elections.start_new_leader_epochs(batch)
        # The first LeaderAndIsr to each broker names all that it has (leading Kafka brokers, recipes 15).
        batch.leader_and_isr_of_all()
        batch.update_metadata_of_all()
        self._requests.send(batch)
        load_ms = self._core.now.ms - self._began_ms
        self._core.note(
            "controller.loaded", epoch=self._identity.epoch, partitions=context.size, load_ms=load_ms
        )
        yield from ControllerHistory(self._identity.election).loaded(load_ms)

    def _name_predecessor(self) -> Procedure[None]:
        """Reports a predecessor of Kafka that saw `/controller` change, not vanish, and may be active until
        it restarts (replaced controller goes on, K1). States that it still writes are written again."""
        former = self._identity.election.former
        if former is None or not former.is_real or former.broker is None:
            return
        path = BrokerRegistration.path(former.broker)
        found = yield from self._reader.read_many([path])
        if path in found and found[path].stat.ephemeral_owner == former.session:
            why = "was the controller, and may still act as the controller: restart it"
            self._events.set_blocked(f"broker {former.broker}", why)

    def _load_again(self) -> Procedure[None]:
        """Compares everything with the context; sends what has changed, and elects where it is needed."""
        context = self._context
        found = yield from self._brokers.registered()
        yield from self._strays.read_abandoned_records()
        names = yield from self._list_topics()
        fresh = yield from self._topics.read_topics(names)
        yield from self._slots.find()
        before = {each: context.leadership(each) for each in context.partitions()}
        yield from self._states.read_states(before)
        yield from self._topics.find_unhosted(context.topics)
        changed = [each for each, leadership in before.items() if context.leadership(each) != leadership]
        # Without a state: perhaps read by a handler that did not finish, and not created.
        without_state = [each for each in before if context.leadership(each) is None]
        entered = {*changed, *fresh, *without_state}
        self._topics.enter_partitions(
            [each for each in before if each in entered and not context.is_going(each)]
        )
        batch = self._requests.batch()
        batch.update_metadata(changed)
        self._requests.send(batch)
        yield from self._brokers.apply_changes(found)
        self._events.enqueue(event_manager.ELECTIONS)

    def broker_gone(self, broker: int) -> None:
        """A predecessor that restarts notices that it is no controller any more."""
        self._events.set_blocked(f"broker {broker}", None)

    def _list_topics(self) -> Procedure[list[str]]:
        """The names of all topics; the others are forgotten."""
        (outcome,) = yield from ask(self._reader.watched(ListChildren(topics_path()), event_manager.TOPICS))
        names = list_done(outcome).children
        self._reader.only(topics_path(), names)
        self._topics.forget_missing(set(names))
        return sorted(names)

    def _take_requests_in(self, listed: Outcome, asked: Outcome) -> None:
        """Notes which topics are being deleted and which partitions reassigned: they take no part in what
        follows. Their handlers read them again; a topic that is both waits for its reassignments."""
        context = self._context
        if self._settings.delete_topics:
            context.deletions.update(
                name
                for name in list_done(listed).children
                if name in context.topics and not context.is_slots(name)
            )
        request = self._reader.decoded(read_done(asked), Reassignment.decode)
        targets: Iterable[TopicPartition] = request.targets if request else ()
        context.moves.update(each for each in targets if each in context)
        for name in context.topics:
            if (seen := context.topic(name)) is not None:
                context.moves.update(TopicPartition(name, number) for number in seen.topic.moving)


def _is_older(context: ControllerContext, broker: int, zxid: int) -> bool:
    """Returns whether this zkgroup broker was registered before that zxid, and is still."""
    found = context.brokers[broker]
    return found.epoch < zxid and found.registration.is_zkgroup


def _requests_step(found: list[Outcome]) -> Iterable[PipelinedStep]:

    def keep(outcome: Outcome) -> Iterable[PipelinedStep]:
        found.append(outcome)
        return ()

    return [
        PipelinedStep(Query(each), keep)
        for each in (ListChildren(delete_topics_path()), Read(Reassignment.path()))
    ]


class TopicLoader:
    """Reads all topics and states, pipelined; after the steps everything is in the context."""

    def __init__(self, parts: SharedParts, topics: TopicChanges, names: Sequence[str]) -> None:
        """`names`: the topics that are listed; others are no longer in the context."""
        self._parts = parts
        self._topics = topics
        self._names = names
        self._topics_left = len(names)
        self._unasked: list[tuple[str, Sequence[int]]] = []
        """Partitions whose states are yet to be asked for."""
        self._waiting = 0
        self._alike: Alike = {}

    def steps(self) -> Iterator[PipelinedStep]:
        """To read all topics, each with a watch. The states follow from them."""
        for name in self._names:
            query = self._parts.reader.watched(Read(Topic.path(name)), event_manager.TOPIC, name)
            yield PipelinedStep(query, partial(self._topic, name))

    def _topic(self, name: str, outcome: Outcome) -> Iterable[PipelinedStep]:
        self._topics.topic_read(name, read_done(outcome))
        seen = self._parts.context.topic(name)
        numbers = () if seen is None else seen.topic.numbers
        steps = []
        while numbers:
            room = STATES_AT_ONCE - self._waiting
            part, numbers = numbers[:room], numbers[room:]
            self._unasked.append((name, part))
            self._waiting += len(part)
            if self._waiting == STATES_AT_ONCE:
                steps.append(self._ask())
        self._topics_left -= 1
        if not self._topics_left and self._waiting:
            steps.append(self._ask())
        return steps

    def _ask(self) -> PipelinedStep:
        parts, self._unasked, self._waiting = self._unasked, [], 0
        paths = tuple([path for part in parts for path in PartitionState.paths_of(*part)])
        return PipelinedStep(Query(ReadMany(paths)), partial(self._states, parts, paths))

    def _states(
        self, parts: list[tuple[str, Sequence[int]]], paths: Sequence[str], outcome: Outcome
    ) -> Iterable[PipelinedStep]:
        assert isinstance(outcome, ReadManyDone), outcome
        found = self._parts.reader.allowed(paths, outcome.znodes)
        at = 0
        for topic, numbers in parts:
            self._parts.states.states_read(topic, numbers, found[at : at + len(numbers)], self._alike)
            at += len(numbers)
        return ()
