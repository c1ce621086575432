"""Preferred leaders, on request and by themselves. Source: controller.md 5.7, 5.8.

(kafka/controller/KafkaController.scala@0.8.2.2, mended as in 2.2: unknown partitions keep no request.)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from zkgroup.controller.machine import selectors
from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.balance import preferred_elections_due
from zkgroup.controller.machine.fence import Write
from zkgroup.controller.machine.leading import Led, elect
from zkgroup.controller.machine.picture import Standing
from zkgroup.controller.machine.reign import Reign
from zkgroup.controller.machine.selectors import Choice, NoChoice, NotNeeded
from zkgroup.controller.machine.states import commit, read_states
from zkgroup.machinery.procedures import Procedure, ask, read_done
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Delete, Read
from zkgroup.znodes.admin_requests import PreferredElection

AGAIN_MS: Final = 1000
"""Pause before a request is looked at again that somebody has written meanwhile."""


def look(reign: Reign, subject: str = "") -> Procedure[None]:
    """Carries out `/admin/preferred_replica_election` and removes it, whatever came of it (K18)."""
    path = PreferredElection.path()
    (outcome,) = yield from ask(reign.watched(Read(path), Look.PREFERRED_ELECTION))
    znode = read_done(outcome)
    if znode is None:
        reign.picture.unreadable.pop(path, None)
        return
    request = reign.decoded(znode, PreferredElection.decode)
    wanted = dict.fromkeys(request.partitions if request else ())
    known = [each for each in wanted if each in reign.picture and not reign.picture.is_going(each)]
    led = yield from prefer(reign, known)
    reign.core.note(
        "election.preferred",
        elected=len(led.chosen),
        unneeded=len(led.unneeded),
        failed={str(each): why for each, why in led.failed.items()},
        unknown=tuple(str(each) for each in wanted if each not in known),
    )
    refusal = yield from commit(reign, Write(path, (Delete(path, znode.stat.version),)))
    if refusal is None:
        reign.picture.unreadable.pop(path, None)
    elif refusal.is_conflict:
        reign.later(Look.PREFERRED_ELECTION, AGAIN_MS)
    else:
        reign.rest(str(refusal))


def look_at_balance(reign: Reign, subject: str = "") -> Procedure[None]:
    """One round of the automatic rebalance; loading has put off the first one, each puts off the next."""
    settings = reign.settings
    if not settings.auto_rebalance:
        return
    yield from read_states(reign, _led_elsewhere(reign))
    due = preferred_elections_due(reign.picture, reign.holding, settings.rebalance_percentage)
    if due:
        led = yield from prefer(reign, due)
        reign.core.note("rebalance", elected=len(led.chosen), failed=len(led.failed))
    reign.later(Look.BALANCE, settings.rebalance_interval_ms)


def _led_elsewhere(reign: Reign) -> list[TopicPartition]:
    """Partitions with another leader than the preferred one: leaders of 0.8.2.2 tell nobody of an ISR."""
    picture = reign.picture
    return [
        each
        for each in picture.partitions()
        if (standing := picture.standing(each)) is not None
        and standing.leader not in picture.replicas(each)[:1]
        and not picture.is_going(each)
    ]


def prefer(reign: Reign, partitions: Iterable[TopicPartition]) -> Procedure[Led]:
    """Elects the first replica of each where it is live and in sync, and tells the brokers."""
    picture = reign.picture

    def select(topic_partition: TopicPartition, standing: Standing) -> Choice | NoChoice | NotNeeded:
        return selectors.preferred(
            picture.replicas(topic_partition),
            standing,
            picture.candidates(topic_partition, picture.live),
            reign.holding.of(picture, topic_partition),
        )

    batch = reign.batch()
    led = yield from elect(reign, partitions, select, batch)
    reign.tell(batch)
    return led
