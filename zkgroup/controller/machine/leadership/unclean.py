"""Unclean elections that an operator requests: any live replica may lead. Source: recipes.md 15.

The elections come before the transaction that removes the request and records what became of it: a
successor that finds the request repeats it, and finds a leader where there is one already.
"""

from __future__ import annotations

from typing import Final

from zkgroup.controller.machine.context import LeaderIsrAndControllerEpoch
from zkgroup.controller.machine.event_queue import EventKind
from zkgroup.controller.machine.fenced_writes import Write
from zkgroup.controller.machine.leadership import selectors
from zkgroup.controller.machine.leadership.leader_election import LeaderElections
from zkgroup.controller.machine.leadership.selectors import Choice, NoChoice, NotNeeded
from zkgroup.controller.machine.ports import Feature, Ports
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, CreateMissing, Delete, ListChildren, Read
from zkgroup.runtime.procedures import Procedure, Query, ask, list_done, read_done
from zkgroup.znodes.admin_requests import (
    ELECTIONS_KEPT,
    PartitionVerdict,
    UncleanElection,
    UncleanElectionDone,
    unclean_elections_path,
)
from zkgroup.znodes.brokers import PartitionState

UNCLEAN_ELECTION: Final = EventKind("unclean election")
"""`/zkgroup/controller/elect`."""
AGAIN_MS: Final = 1000
"""Pause before a request is read again that another client has written meanwhile."""


class UncleanElections(Feature):
    """Carries out the requests for unclean elections."""

    def __init__(self, ports: Ports, elections: LeaderElections) -> None:
        super().__init__(ports)
        self._elections = elections

    def loaded(self) -> None:
        self._events.enqueue(UNCLEAN_ELECTION)

    def on_requests(self, subject: str = "") -> Procedure[None]:
        """Carries out `/zkgroup/controller/elect`, and removes it with a record of what became of it."""
        path = UncleanElection.path()
        (outcome,) = yield from ask(self._reader.watched(Read(path), UNCLEAN_ELECTION))
        znode = read_done(outcome)
        if znode is None:
            self._context.unreadable.pop(path, None)
            return
        request = self._reader.decoded(znode, UncleanElection.decode)
        verdicts: tuple[PartitionVerdict, ...] = ()
        if request is not None:
            verdicts = yield from self._elect(request)
        reason = "" if request else "the request cannot be read"
        done = UncleanElectionDone(verdicts, self._identity.epoch, self._core.now.wall_ms, reason)
        yield from ask(Query(CreateMissing((unclean_elections_path(),))))
        record = Create(UncleanElectionDone.path(znode.stat.czxid), done.encode())
        refusal = yield from self._states.commit(Write(path, (Delete(path, znode.stat.version), record)))
        if refusal is None:
            self._context.unreadable.pop(path, None)
            yield from self._prune()
        elif refusal.is_conflict:
            self._events.enqueue_later(UNCLEAN_ELECTION, AGAIN_MS)
        else:
            self._events.back_off(str(refusal))

    def _elect(self, request: UncleanElection) -> Procedure[tuple[PartitionVerdict, ...]]:
        """The result for each partition, in the order of the request."""
        context = self._context
        batch = self._requests.batch()
        wanted = [each for each in dict.fromkeys(request.partitions) if self._obstacle(each) is None]

        def select(
            topic_partition: TopicPartition, leadership: LeaderIsrAndControllerEpoch
        ) -> Choice | NoChoice | NotNeeded:
            if self._has_leader(topic_partition, leadership):
                return NotNeeded(leadership.leader)
            deleting = self._pending_deletes.of(context, topic_partition)
            return selectors.offline(
                context.replicas(topic_partition),
                context.electable(topic_partition, leadership, deleting).isr,
                context.candidates(topic_partition, context.live),
                unclean=True,
                deleting=deleting,
            )

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
        """Why no broker at all can be elected for it."""
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

    def _has_leader(self, topic_partition: TopicPartition, leadership: LeaderIsrAndControllerEpoch) -> bool:
        return leadership.leader in self._context.candidates(topic_partition, self._context.reachable)

    def _prune(self) -> Procedure[None]:
        """The oldest records go; the names are in the order of the requests."""
        (outcome,) = yield from ask(Query(ListChildren(unclean_elections_path())))
        names = list_done(outcome).children
        kept = sorted(czxid for name in names if (czxid := UncleanElectionDone.czxid_of(name)) is not None)
        surplus = kept[:-ELECTIONS_KEPT]
        found = yield from self._reader.read_many(map(UncleanElectionDone.path, surplus))
        for path, znode in found.items():
            yield from self._states.commit(Write(path, (Delete(path, znode.stat.version),)))
