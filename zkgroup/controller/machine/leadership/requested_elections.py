"""Preferred leader elections, on request and periodically, and unclean elections that an operator requests.

Preferred elections are those of kafka/controller/KafkaController.scala@0.8.2.2, mended as in 2.2: unknown
partitions keep no request. In an unclean election any live replica may lead; it comes before the transaction
that removes the request and records what became of it: a successor that finds the request repeats it, and
finds a leader where there is one already.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from zkgroup.controller.machine.context import ControllerContext
from zkgroup.controller.machine.event_manager import EventKind
from zkgroup.controller.machine.feature import Feature, SharedParts
from zkgroup.controller.machine.fenced_writes import Write
from zkgroup.controller.machine.leadership import selectors
from zkgroup.controller.machine.leadership.leader_election import LeaderElections, Led
from zkgroup.controller.machine.leadership.selectors import (
    Choice,
    NoChoice,
    NotNeeded,
    PartitionElection,
    election_of,
)
from zkgroup.controller.machine.pending_deletes import PendingDeletes
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Create, CreateMissing, Delete, ListChildren, Operation, Read
from zkgroup.runtime.procedures import Procedure, Query, ask, list_done, read_done
from zkgroup.znodes.admin_requests import (
    ELECTIONS_KEPT,
    PartitionVerdict,
    PreferredElection,
    UncleanElection,
    UncleanElectionDone,
    unclean_elections_path,
)
from zkgroup.znodes.brokers import PartitionState

PREFERRED_ELECTION: Final = EventKind("preferred election")
"""`/admin/preferred_replica_election`."""
BALANCE: Final = EventKind("balance")
"""The periodic check for partitions that are not led by their preferred replica."""
UNCLEAN_ELECTION: Final = EventKind("unclean election")
"""`/zkgroup/controller/elect`."""


class _RequestedElections(Feature):
    """Elections that a znode requests, which is deleted whatever came of them."""

    def __init__(self, parts: SharedParts, elections: LeaderElections) -> None:
        super().__init__(parts)
        self._elections = elections

    def _read(self, path: str, kind: EventKind) -> Procedure[Znode | None]:
        (outcome,) = yield from ask(self._reader.watched(Read(path), kind))
        znode = read_done(outcome)
        if znode is None:
            self._context.unreadable.pop(path, None)
        return znode

    def _delete(self, request: Znode, kind: EventKind, *more: Operation) -> Procedure[bool]:
        """Deletes the request, together with other operations. Whether that is done."""
        write = Write(request.path, (Delete(request.path, request.stat.version), *more))
        refusal = yield from self._states.commit(write)
        if refusal is None:
            self._context.unreadable.pop(request.path, None)
        return self._is_settled(refusal, kind)


class PreferredElections(_RequestedElections):
    """Elects preferred leaders, on request and periodically."""

    _is_balancing = False
    """The first check was enqueued; each enqueues the next one."""

    def loaded(self) -> None:
        self._events.enqueue(PREFERRED_ELECTION)
        if not self._is_balancing and self._settings.auto_rebalance:
            self._is_balancing = True
            self._events.enqueue_later(BALANCE, self._settings.rebalance_first_ms)

    def on_request(self) -> Procedure[None]:
        """Carries out `/admin/preferred_replica_election` and removes it, whatever came of it."""
        znode = yield from self._read(PreferredElection.path(), PREFERRED_ELECTION)
        if znode is None:
            return
        request = self._reader.decoded(znode, PreferredElection.decode)
        wanted = dict.fromkeys(request.partitions if request else ())
        known = [each for each in wanted if each in self._context and not self._context.is_going(each)]
        led = yield from self.elect_preferred(known)
        self._core.note(
            "election.preferred",
            elected=len(led.chosen),
            unneeded=len(led.unneeded),
            failed={str(each): why for each, why in led.failed.items()},
            unknown=tuple(str(each) for each in wanted if each not in known),
        )
        yield from self._delete(znode, PREFERRED_ELECTION)

    def check_balance(self) -> Procedure[None]:
        """One round of the automatic rebalance; loading has put off the first one, each puts off the next."""
        settings = self._settings
        if not settings.auto_rebalance:
            return
        yield from self._states.read_states(self._led_elsewhere())
        due = preferred_elections_due(self._context, self._pending_deletes, settings.rebalance_percentage)
        if due:
            led = yield from self.elect_preferred(due)
            self._core.note("rebalance", elected=len(led.chosen), failed=len(led.failed))
        self._events.enqueue_later(BALANCE, settings.rebalance_interval_ms)

    def _led_elsewhere(self) -> list[TopicPartition]:
        """Partitions whose leader is not the preferred one: leaders of 0.8.2.2 report no change of an ISR."""
        context = self._context
        return [
            each
            for each in context.partitions()
            if (leadership := context.leadership(each)) is not None
            and leadership.leader not in context.replicas(each)[:1]
            and not context.is_going(each)
        ]

    def elect_preferred(self, partitions: Iterable[TopicPartition]) -> Procedure[Led]:
        """Elects the first replica of each where it is live and in sync, and sends LeaderAndIsr."""
        batch = self._requests.batch()
        led = yield from self._elections.elect(partitions, lambda _, now: selectors.preferred(now), batch)
        self._requests.send(batch)
        return led


def preferred_elections_due(
    context: ControllerContext, pending_deletes: PendingDeletes, percentage: int
) -> tuple[TopicPartition, ...]:
    """Partitions to be led by their first replica, as one batch by topic and number; often none.

    A broker counts as out of balance when more than `percentage` of the partitions that prefer it are led by
    others. None while any reassignment is open. Left out is what an election would refuse: a preferred
    replica that is not live or not in sync, and topics that are being deleted.
    """
    if context.moves:
        return ()
    preferred_count: dict[int, int] = {}
    elsewhere: dict[int, list[TopicPartition]] = {}
    for topic_partition in context.partitions():
        replicas = context.replicas(topic_partition)
        if not replicas or context.is_going(topic_partition) or context.is_unhosted(topic_partition):
            continue
        preferred_count[replicas[0]] = preferred_count.get(replicas[0], 0) + 1
        leadership = context.leadership(topic_partition)
        if leadership and leadership.leader != replicas[0]:
            elsewhere.setdefault(replicas[0], []).append(topic_partition)
    live = context.live
    return tuple(
        sorted(
            topic_partition
            for broker, led_by_others in elsewhere.items()
            if broker in live and len(led_by_others) * 100 > percentage * preferred_count[broker]
            for topic_partition in led_by_others
            if _can_be_led_by_preferred(context, pending_deletes, topic_partition)
        )
    )


def _can_be_led_by_preferred(
    context: ControllerContext, pending_deletes: PendingDeletes, topic_partition: TopicPartition
) -> bool:
    leadership = context.leadership(topic_partition)
    return leadership is not None and isinstance(
        selectors.preferred(election_of(context, pending_deletes, topic_partition, leadership)), Choice
    )


class UncleanElections(_RequestedElections):
    """Carries out the requests for unclean elections."""

    def loaded(self) -> None:
        self._events.enqueue(UNCLEAN_ELECTION)

    def on_requests(self) -> Procedure[None]:
        """Carries out `/zkgroup/controller/elect`, and removes it with a record of what became of it."""
        znode = yield from self._read(UncleanElection.path(), UNCLEAN_ELECTION)
        if znode is None:
            return
        request = self._reader.decoded(znode, UncleanElection.decode)
        verdicts: tuple[PartitionVerdict, ...] = ()
        if request is not None:
            verdicts = yield from self._elect(request)
        reason = "" if request else "the request cannot be read"
        done = UncleanElectionDone(verdicts, self._identity.epoch, self._core.now.wall_ms, reason)
        yield from ask(Query(CreateMissing((unclean_elections_path(),))))
        record = Create(UncleanElectionDone.path(znode.stat.czxid), done.encode())
        if (yield from self._delete(znode, UNCLEAN_ELECTION, record)):
            yield from self._prune()

    def _elect(self, request: UncleanElection) -> Procedure[tuple[PartitionVerdict, ...]]:
        """The result for each partition, in the order of the request."""
        context = self._context
        batch = self._requests.batch()
        wanted = [each for each in dict.fromkeys(request.partitions) if self._obstacle(each) is None]

        def select(topic_partition: TopicPartition, now: PartitionElection) -> Choice | NoChoice | NotNeeded:
            live = self._context.live_or_shutting_down
            if now.leader in self._context.with_online_replica(topic_partition, live):
                return NotNeeded(now.leader)
            return selectors.offline(now, unclean=True)

        led = yield from self._elections.elect(wanted, select, batch)
        self._requests.send(batch)
        verdicts = []
        for each in dict.fromkeys(request.partitions):
            choice, leadership = led.chosen.get(each), context.leadership(each)
            if choice is not None:
                verdict = PartitionVerdict(each, "unclean" if choice.unclean else "elected", choice.leader)
            elif each in led.unneeded and leadership is not None:
                verdict = PartitionVerdict(each, "not_needed", leadership.leader, "it has a live leader")
            else:
                why = led.failed.get(each) or self._obstacle(each) or "it changed meanwhile"
                verdict = PartitionVerdict(each, "refused", None, why)
            verdicts.append(verdict)
        shown = {str(verdict.topic_partition): verdict.verdict for verdict in verdicts}
        self._core.note("election.asked", by=request.by, verdicts=shown)
        return tuple(verdicts)

    def _obstacle(self, topic_partition: TopicPartition) -> str | None:
        """Returns why no broker at all can be elected for it."""
        if topic_partition not in self._context:
            return "there is no such partition"
        if self._context.is_going(topic_partition):
            return "its topic is being deleted"
        if self._context.leadership(topic_partition) is None:
            if self._context.is_unhosted(topic_partition):
                return "no broker hosts its topic"
            path = PartitionState.path(topic_partition)
            return self._context.unreadable.get(
                path, "it has no state yet: it gets one when a replica is live"
            )
        return None

    def _prune(self) -> Procedure[None]:
        """The oldest records go; the names are in the order of the requests."""
        (outcome,) = yield from ask(Query(ListChildren(unclean_elections_path())))
        names = list_done(outcome).children
        kept = sorted(czxid for name in names if (czxid := UncleanElectionDone.czxid_of(name)) is not None)
        surplus = kept[:-ELECTIONS_KEPT]
        found = yield from self._reader.read_many(map(UncleanElectionDone.path, surplus))
        for path, znode in found.items():
            yield from self._states.commit(Write(path, (Delete(path, znode.stat.version),)))
