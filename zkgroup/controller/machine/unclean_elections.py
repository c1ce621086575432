"""An operator's request to lead partitions by whoever lives. Source: recipes.md 15.

The elections come before the transaction that removes the request and records what became of it: a
successor that finds the request repeats it, and finds a leader where there is one already.
"""

from __future__ import annotations

from typing import Final

from zkgroup.controller.machine import selectors
from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.fence import Write
from zkgroup.controller.machine.leading import elect
from zkgroup.controller.machine.picture import Standing
from zkgroup.controller.machine.reign import Reign
from zkgroup.controller.machine.selectors import Choice, NoChoice, NotNeeded
from zkgroup.controller.machine.states import commit
from zkgroup.machinery.procedures import Procedure, Query, ask, list_done, read_done
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, CreateMissing, Delete, ListChildren, Read
from zkgroup.znodes.brokers import PartitionState
from zkgroup.znodes.unclean_elections import (
    ELECTIONS_KEPT,
    PartitionVerdict,
    UncleanElection,
    UncleanElectionDone,
    unclean_elections_path,
)

AGAIN_MS: Final = 1000
"""Pause before a request is looked at again that somebody has written meanwhile."""


def look(reign: Reign, subject: str = "") -> Procedure[None]:
    """Carries out `/zkgroup/controller/elect`, and removes it with a record of what became of it."""
    path = UncleanElection.path()
    (outcome,) = yield from ask(reign.watched(Read(path), Look.UNCLEAN_ELECTION))
    znode = read_done(outcome)
    if znode is None:
        reign.picture.unreadable.pop(path, None)
        return
    request = reign.decoded(znode, UncleanElection.decode)
    verdicts: tuple[PartitionVerdict, ...] = ()
    if request is not None:
        verdicts = yield from _elect(reign, request)
    reason = "" if request else "the request cannot be read"
    done = UncleanElectionDone(verdicts, reign.epoch, reign.core.now.wall_ms, reason)
    yield from ask(Query(CreateMissing((unclean_elections_path(),))))
    record = Create(UncleanElectionDone.path(znode.stat.czxid), done.encode())
    refusal = yield from commit(reign, Write(path, (Delete(path, znode.stat.version), record)))
    if refusal is None:
        reign.picture.unreadable.pop(path, None)
        yield from _prune(reign)
    elif refusal.is_conflict:
        reign.later(Look.UNCLEAN_ELECTION, AGAIN_MS)
    else:
        reign.rest(str(refusal))


def _elect(reign: Reign, request: UncleanElection) -> Procedure[tuple[PartitionVerdict, ...]]:
    """What became of each partition, in the order of the request."""
    picture = reign.picture
    batch = reign.batch()
    wanted = [each for each in dict.fromkeys(request.partitions) if _obstacle(reign, each) is None]

    def select(topic_partition: TopicPartition, standing: Standing) -> Choice | NoChoice | NotNeeded:
        if _has_leader(reign, topic_partition, standing):
            return NotNeeded(standing.leader)
        return selectors.offline(
            picture.replicas(topic_partition),
            standing.isr,
            picture.candidates(topic_partition, picture.live),
            unclean=True,
            held=reign.holding.of(picture, topic_partition),
        )

    led = yield from elect(reign, wanted, select, batch)
    reign.tell(batch)
    verdicts = []
    for each in dict.fromkeys(request.partitions):
        choice, standing = led.chosen.get(each), picture.standing(each)
        if choice is not None:
            verdict = PartitionVerdict(each, "unclean" if choice.unclean else "elected", choice.leader)
        elif each in led.unneeded and standing is not None:
            verdict = PartitionVerdict(each, "not_needed", standing.leader, "it has a live leader")
        else:
            why = led.failed.get(each) or _obstacle(reign, each) or "it changed meanwhile"
            verdict = PartitionVerdict(each, "refused", None, why)
        verdicts.append(verdict)
    told = {str(verdict.topic_partition): verdict.verdict for verdict in verdicts}
    reign.core.note("election.asked", by=request.by, verdicts=told)
    return tuple(verdicts)


def _obstacle(reign: Reign, topic_partition: TopicPartition) -> str | None:
    """Why nobody can be elected for it at all."""
    if topic_partition not in reign.picture:
        return "there is no such partition"
    if reign.picture.is_going(topic_partition):
        return "its topic is being deleted"
    if reign.picture.standing(topic_partition) is None:
        if reign.picture.is_unhosted(topic_partition):
            return "no broker hosts its topic"
        path = PartitionState.path(topic_partition)
        return reign.picture.unreadable.get(path, "it has no state yet: it begins when a replica lives")
    return None


def _has_leader(reign: Reign, topic_partition: TopicPartition, standing: Standing) -> bool:
    return standing.leader in reign.picture.candidates(topic_partition, reign.picture.reachable)


def _prune(reign: Reign) -> Procedure[None]:
    """The oldest records go; the names are in the order of the requests."""
    (outcome,) = yield from ask(Query(ListChildren(unclean_elections_path())))
    names = list_done(outcome).children
    kept = sorted(czxid for name in names if (czxid := UncleanElectionDone.czxid_of(name)) is not None)
    doomed = kept[:-ELECTIONS_KEPT]
    found = yield from reign.read_many(map(UncleanElectionDone.path, doomed))
    for path, znode in found.items():
        yield from commit(reign, Write(path, (Delete(path, znode.stat.version),)))
