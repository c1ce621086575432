"""Loading: a new controller reads the cluster, elects leaders and sends the states to all brokers.

Taking over: everything is read, what nobody leads is elected, and all brokers hear of it.

Source: controller.md 2.3; recipes.md 13 (recovery), 15, 16. The same happens in small on a new connection of
the same session, where all watches are gone, and after a missing answer: what was read is then compared with
the picture, and what is new is told.

The first term of a partition, told to those that may never have heard of it. Source: ADR 0018.

A controller that dies between the first state and the first LeaderAndIsr, and takes the leader with it,
leaves replicas that know nothing of the partition. Elected, they could not be told from emptied ones, and
would refuse to lead for good (storage error 56). So they hear of the first term before another is decided.

A broker is told so only where it cannot have been emptied: it is in the ISR of a state that nobody has
written since it was made, and its registration is older than that, so its process has not been restarted.
Then the high watermark has waited for it all the time: what it has not got was never acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from zkgroup.controller.machine.active import ActiveController
from zkgroup.controller.machine.context import Brokers, ControllerContext, LeaderIsrAndControllerEpoch
from zkgroup.controller.machine.controller_election.epochs import ControllerHistory
from zkgroup.controller.machine.deletion import stray_replicas
from zkgroup.controller.machine.event_queue import EventKind
from zkgroup.controller.machine.failover import brokers, topics
from zkgroup.controller.machine.failover.topics import topic_read
from zkgroup.controller.machine.leadership.leader_election import (
    elect_leaderless,
    elect_restarted,
    start_new_leader_epochs,
)
from zkgroup.controller.machine.state_writes import Alike, read_states, states_read
from zkgroup.model import TopicPartition
from zkgroup.model.requests import ListChildren, Outcome, Read, ReadMany, ReadManyDone, Sync
from zkgroup.runtime.procedures import Procedure, Query, Step, ask, list_done, read_done, run_pipelined
from zkgroup.znodes.admin_requests import Reassignment, delete_topics_path
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic, topics_path


def unannounced(active: ActiveController) -> dict[TopicPartition, Brokers]:
    """Partitions to be elected only when these brokers of theirs were told of the first term.

    To be called once, when everything is loaded and nothing is told or decided yet.
    """
    context, reachable = active.context, active.context.reachable
    told: dict[TopicPartition, Brokers] = {}
    others: dict[TopicPartition, frozenset[int]] = {}
    for each, zxid in context.first_states.items():
        standing = context.standing(each)
        if standing is None or not _may_be_unannounced(active, each, standing):
            continue
        live = reachable.intersection(context.replicas(each))
        never_away = {one for one in live if one in standing.isr and _is_older(context, one, zxid)}
        if never_away:
            told[each], others[each] = tuple(sorted(never_away)), live - never_away
    context.first_states.clear()
    # The first LeaderAndIsr names all that a broker has: it must not say the first term to the others.
    while True:
        brokers = frozenset(one for each in told.values() for one in each)
        wrong = [each for each in told if others[each] & brokers]
        if not wrong:
            return told
        for each in wrong:
            del told[each]


def announce(active: ActiveController, partitions: Mapping[TopicPartition, Brokers]) -> None:
    """The states as they are, to these brokers: what is decided next reaches them after it."""
    batch = active.requests.batch()
    for each, ids in partitions.items():
        batch.leader_and_isr(ids, each)
    active.requests.send(batch)
    active.core.note("first_terms.told", partitions=len(partitions))


def _may_be_unannounced(
    active: ActiveController, each: TopicPartition, standing: LeaderIsrAndControllerEpoch
) -> bool:
    """Its state is still the first one, of a controller of ours, and nothing else is under way with it."""
    return (
        (standing.leader_epoch, standing.version) == (0, 0)
        and standing.controller_epoch > active.foreign_epoch
        and not active.context.is_going(each)
    )


def _is_older(context: ControllerContext, broker: int, zxid: int) -> bool:
    """Whether this broker of ours was registered before that, and is still."""
    found = context.brokers[broker]
    return found.epoch < zxid and found.registration.is_zkgroup


AFTER: tuple[EventKind, ...] = (
    EventKind.ISR_CHANGES,
    EventKind.CONFIG_CHANGES,
    EventKind.REASSIGNMENT,
    EventKind.PREFERRED_ELECTION,
    EventKind.UNCLEAN_ELECTION,
    EventKind.DELETIONS,
    EventKind.PLANS,
    EventKind.STRAYS,
    EventKind.ABANDONED,
    EventKind.STRAY_RECORDS,
    EventKind.STATUS,
)
"""What is looked at once everything is loaded; each arms its own watches."""


def load(active: ActiveController, subject: str = "") -> Procedure[None]:
    """Reads everything; the watches are armed before what they watch is read.

    `subject` is not used. Raises NoAnswerError, after which it is done again.
    """
    yield from ask(Query(Sync("/")))
    if active.was_loaded:
        yield from _load_again(active)
    else:
        yield from _load_first(active)
    active.is_loaded = active.was_loaded = True
    for look in AFTER:
        active.enqueue(look)


def _load_first(active: ActiveController) -> Procedure[None]:
    context = active.context
    found = yield from brokers.registered(active)
    for gone in context.set_brokers(found).gone:  # since a first attempt
        active.requests.queues.close(gone)
    brokers.open_channels(active, context.reachable)
    # At once, whatever there is to lead: from its first request on a broker obeys no older controller.
    first = active.requests.batch()
    first.update_metadata()
    active.requests.send(first)
    yield from _name_predecessor(active)
    names = yield from _list_topics(active)
    requests: list[Outcome] = []
    yield from run_pipelined([*TopicLoader(active, names).steps(), *_requests_step(requests)])
    _take_requests_in(active, *requests)
    yield from stray_replicas.read_abandoned_records(active)
    yield from topics.find_unhosted(active, context.topics)
    topics.enter_all_partitions(active)
    batch = active.requests.batch()
    unheard = unannounced(active)
    yield from elect_leaderless(active, batch, put_off=unheard)
    yield from elect_restarted(active, batch)
    yield from start_new_leader_epochs(active, batch, put_off=unheard)
    if unheard:
        announce(active, unheard)
        yield from elect_leaderless(active, batch)
        yield from start_new_leader_epochs(active, batch)
    # The first LeaderAndIsr to each broker names all that it has (recipes 15).
    batch.leader_and_isr_of_all()
    batch.update_metadata_of_all()
    active.requests.send(batch)
    load_ms = active.core.now.ms - active.began_ms
    active.core.note("controller.loaded", epoch=active.epoch, partitions=context.size, load_ms=load_ms)
    if active.settings.auto_rebalance:
        active.enqueue_later(EventKind.BALANCE, active.settings.rebalance_first_ms)
    yield from ControllerHistory(active.election).loaded(load_ms)


def _name_predecessor(active: ActiveController) -> Procedure[None]:
    """A real controller that saw `/controller` change, and not go, rules on for all it knows (K1).

    What it still makes is made ours as it is found; only its restart ends it (recipes 13).
    """
    former = active.election.former
    if former is None or not former.is_real or former.broker is None:
        return
    path = BrokerRegistration.path(former.broker)
    found = yield from active.read_many([path])
    if path in found and found[path].stat.ephemeral_owner == former.session:
        why = "was the controller, and may not have noticed that it is no more: restart it"
        active.wait(f"broker {former.broker}", why)


def _load_again(active: ActiveController) -> Procedure[None]:
    """What has changed since the picture was right: told, and elected where it needs to be."""
    context = active.context
    found = yield from brokers.registered(active)
    yield from stray_replicas.read_abandoned_records(active)
    names = yield from _list_topics(active)
    fresh = yield from topics.read_topics(active, names)
    before = {each: context.standing(each) for each in context.partitions()}
    yield from read_states(active, before)
    yield from topics.find_unhosted(active, context.topics)
    changed = [each for each, standing in before.items() if context.standing(each) != standing]
    # Without a state: seen, perhaps, by a look that got no further, and never begun.
    unborn = [each for each in before if context.standing(each) is None]
    entered = {*changed, *fresh, *unborn}
    topics.enter_partitions(
        active, [each for each in before if each in entered and not context.is_going(each)]
    )
    batch = active.requests.batch()
    batch.update_metadata(changed)
    active.requests.send(batch)
    yield from brokers.apply_changes(active, found)
    active.enqueue(EventKind.ELECTIONS)


def _list_topics(active: ActiveController) -> Procedure[list[str]]:
    """The names of all topics; the others are forgotten."""
    (outcome,) = yield from ask(active.watched(ListChildren(topics_path()), EventKind.TOPICS))
    names = list_done(outcome).children
    active.only(topics_path(), names)
    topics.forget_missing(active, set(names))
    return sorted(names)


def _requests_step(found: list[Outcome]) -> Iterable[Step]:
    """Steps that read which topics are to be deleted, and the request to move partitions, into the list."""

    def keep(outcome: Outcome) -> Iterable[Step]:
        found.append(outcome)
        return ()

    return [
        Step(Query(each), keep) for each in (ListChildren(delete_topics_path()), Read(Reassignment.path()))
    ]


def _take_requests_in(active: ActiveController, listed: Outcome, asked: Outcome) -> None:
    """Which topics are being deleted and which partitions moved: they take no part in what follows.

    Nothing is decided about them yet; their duties read them again, with their watches. A topic that is both
    is not deleted before its moves have been looked at.
    """
    context = active.context
    if active.settings.delete_topics:
        context.deletions.update(name for name in list_done(listed).children if name in context.topics)
    request = active.decoded(read_done(asked), Reassignment.decode)
    targets: Iterable[TopicPartition] = request.targets if request else ()
    context.moves.update(each for each in targets if each in context)
    for name in context.topics:
        if (seen := context.topic(name)) is not None:
            context.moves.update(TopicPartition(name, number) for number in seen.topic.moving)


STATES_AT_ONCE: Final = 1000
"""In one request: a packet of a client with the usual settings."""


class _Part(NamedTuple):
    """Partitions of one topic."""

    topic: str
    numbers: Sequence[int]


class TopicLoader:
    """What is on its way. Whoever carries the steps out has everything in the picture."""

    def __init__(self, active: ActiveController, names: Sequence[str]) -> None:
        """`names`: the topics that are listed; others are not in the picture any more."""
        self._reign = active
        self._names = names
        self._topics_left = len(names)
        self._parts: list[_Part] = []
        """Partitions whose states are yet to be asked for."""
        self._waiting = 0
        """So many."""
        self._alike: Alike = {}

    def steps(self) -> Iterator[Step]:
        """To read all topics, each with a watch. The states follow from them."""
        for name in self._names:
            query = self._reign.watched(Read(Topic.path(name)), EventKind.TOPIC, name)
            yield Step(query, partial(self._topic, name))

    def _topic(self, name: str, outcome: Outcome) -> Iterable[Step]:
        topic_read(self._reign, name, read_done(outcome))
        seen = self._reign.context.topic(name)
        numbers = () if seen is None else seen.topic.numbers
        steps = []
        while numbers:
            room = STATES_AT_ONCE - self._waiting
            part, numbers = _Part(name, numbers[:room]), numbers[room:]
            self._parts.append(part)
            self._waiting += len(part.numbers)
            if self._waiting == STATES_AT_ONCE:
                steps.append(self._ask())
        self._topics_left -= 1
        if not self._topics_left and self._waiting:
            steps.append(self._ask())
        return steps

    def _ask(self) -> Step:
        parts, self._parts, self._waiting = self._parts, [], 0
        paths = tuple([path for part in parts for path in PartitionState.paths_of(*part)])
        return Step(Query(ReadMany(paths)), partial(self._states, parts, paths))

    def _states(self, parts: list[_Part], paths: Sequence[str], outcome: Outcome) -> Iterable[Step]:
        assert isinstance(outcome, ReadManyDone), outcome
        found = self._reign.allowed(paths, outcome.znodes)
        at = 0
        for topic, numbers in parts:
            states_read(self._reign, topic, numbers, found[at : at + len(numbers)], self._alike)
            at += len(numbers)
        return ()
