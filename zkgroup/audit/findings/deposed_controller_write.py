"""Writes that only the controller may make, by another session, or by a controller of an older epoch.

Decisions are: making a state, changing its leader or leader epoch, changing the replica list of a
partition, taking off a request below `/admin` or an entry of it, and the epoch. They are the business of the
session that made the present `/controller`, and states have to carry the present epoch. What leaders write
of the ISR alone is none: it repeats the epoch of the last decision. A request that was taken off by hand, by
a session of no broker, is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator

from zkgroup.audit.controller_lookup import controller_name, epoch_at, life_at
from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import BY_DECISION, Key
from zkgroup.audit.partitions import brokers_text, decoded, state_of, topic_of
from zkgroup.audit.rules import Bounds, Finding, Rule, Severity, folded
from zkgroup.audit.texts import count_text, who
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration
from zkgroup.znodes.paths import PathKind, path_kind


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._facts = facts
        self._states: dict[int, PartitionState | None] = {}
        """By partition: its last state; None where that could not be read."""
        self._topic: Topic | None = None
        self._asked: frozenset[TopicPartition] | None = None
        """Whose moves are asked for; None where there is no request, or it cannot be read."""

    def see(self, event: Event) -> Iterator[Finding]:
        if event.op not in ("create", "set", "delete"):
            return
        place = path_kind(event.path)
        match place.kind:
            case "partition_state":
                yield from self._see_state(event, place)
            case "topic" if event.path == Topic.path(place.name):
                yield from self._see_lists(event, place)
            case "admin":
                yield from self._see_admin(event)
            case "controller_epoch":
                yield from self._see_epoch(event)

    def end(self) -> Iterator[Finding]:
        yield from ()

    # --- what is a decision -----------------------------------------------------------------------

    def _see_state(self, event: Event, place: PathKind) -> Iterator[Finding]:
        """A leader's own ISR write keeps leader, leader epoch, and the epoch of the last decision."""
        before = self._states.get(place.partition)
        if event.op == "delete":
            self._states.pop(place.partition, None)
            return
        after = self._states[place.partition] = state_of(event.path, event.data)
        if event.seed or after is None:
            return
        if event.op == "create":
            what = f"state made with leader {after.leader}"
        elif before is None or (before.leader, before.leader_epoch) == (after.leader, after.leader_epoch):
            return
        else:
            what = (
                f"leader {before.leader} -> {after.leader},"
                f" leader epoch {before.leader_epoch} -> {after.leader_epoch}"
            )
        epoch = self._epoch_in_force(event.zxid)
        stale = epoch is not None and after.controller_epoch < epoch
        why = self._stranger(event)
        if why is None and stale:
            why = f"controller epoch {epoch} was in force"
        if why is not None:
            detail = f"{what}, in controller epoch {after.controller_epoch}"
            yield self._finding("error", event, place, detail, why)

    def _see_lists(self, event: Event, place: PathKind) -> Iterator[Finding]:
        """Tools make topics and let them grow; only a controller changes the list of a partition."""
        before, self._topic = self._topic, None
        if event.op != "delete":
            self._topic = topic_of(event.path, event.data)
        if event.op != "set" or before is None or self._topic is None:
            return
        why = self._stranger(event)
        if why is None:
            return
        for partition, replicas in sorted(before.partitions.items()):
            now = self._topic.partitions.get(partition, ())
            if now != replicas:
                what = f"replicas {brokers_text(replicas)} -> {brokers_text(now)}"
                yield self._finding("error", event, place._replace(partition=partition), what, why)

    def _see_admin(self, event: Event) -> Iterator[Finding]:
        """Tools make requests, and may change them; taking off all or a part is the controller's."""
        what = f"{event.path} deleted" if event.op == "delete" else None
        if event.path == Reassignment.path():
            before, self._asked = self._asked, _asked_for(event)
            gone = len((before or frozenset()) - self._asked) if self._asked is not None else 0
            if event.op == "set" and gone:
                what = f"{count_text(gone, 'entry', 'entries')} taken off {event.path}"
        if event.seed or what is None:
            return
        why = self._stranger(event)
        by_hand = not self._is_brokers(event.session)
        if why is None or (by_hand and life_at(self._facts.controllers, event.zxid) is None):
            return  # with no controller at all tools do it themselves
        severity: Severity = "warning" if by_hand else "error"
        yield self._finding(severity, event, PathKind("admin"), what, why)

    def _see_epoch(self, event: Event) -> Iterator[Finding]:
        value = decoded(ControllerEpoch.decode, event.path, event.data)
        made = event.op == "create" and value is not None and value.epoch == 0
        if event.seed or made:  # from 2.1 on it is made before the first election
            return
        why = self._stranger(event)
        if why is not None:
            what = "deleted" if event.op == "delete" else f"set to {value.epoch if value else 'no number'}"
            yield self._finding("error", event, PathKind("controller_epoch"), f"{event.path} {what}", why)

    # --- who wrote it -----------------------------------------------------------------------------

    def _stranger(self, event: Event) -> str | None:
        """Who ruled, if it was not the writer; None also where that is not known."""
        ruler = life_at(self._facts.controllers, event.zxid)
        if ruler is None:
            began = self._facts.controllers and self._facts.controllers[0].from_zxid <= event.zxid
            return "there was no /controller" if began or self._facts.is_whole else None
        return None if ruler.session == event.session else f"{controller_name(ruler)} held /controller"

    def _epoch_in_force(self, zxid: int) -> int | None:
        """A KRaft controller that rules during a migration (from 3.4 on) writes its own into states."""
        ruler = life_at(self._facts.controllers, zxid)
        value = None if ruler is None else decoded(ControllerRegistration.decode, ruler.path, ruler.data)
        if value is not None and value.kraft_epoch is not None:
            return value.kraft_epoch
        return epoch_at(self._facts, zxid)

    def _is_brokers(self, session: int) -> bool:
        """Session 0 has no client: it is that of registrations that are persistent znodes."""
        lives = [*self._facts.controllers, *(life for each in self._facts.brokers.values() for life in each)]
        return session != 0 and any(life.session == session for life in lives)

    def _finding(self, severity: Severity, event: Event, place: PathKind, what: str, why: str) -> Finding:
        return Finding(
            RULE.name,
            severity,
            topic=place.name or None,
            partition=None if place.partition < 0 else place.partition,
            session=event.session,
            from_zxid=event.zxid,
            to_zxid=event.zxid,
            from_ms=event.time_ms,
            to_ms=event.time_ms,
            detail=f"{what}, by {who(self._facts, event.session)}, while {why}",
        )


def _asked_for(event: Event) -> frozenset[TopicPartition] | None:
    """Whose moves a request asks for; None where it is gone or cannot be read."""
    value = None if event.op == "delete" else decoded(Reassignment.decode, event.path, event.data)
    return None if value is None else frozenset(value.targets)


RULE = Rule(
    name="deposed_controller_write",
    severity="error",
    question="Which states, replica lists, requests and epochs were written by a session that was not the"
    " controller's, or in an older controller epoch?",
    needs=("log",),
    act="A controller of Kafka 0.8.2.2 that does not learn of its successor continues to write: restart"
    " the broker named, then let the present controller elect again what it wrote. Controllers of zkgroup"
    " cannot do this: each of their writes checks `/controller` and the epoch. A warning: a request was"
    " removed by hand, which no controller hears of before the next election.",
    keys=BY_DECISION,
    find=folded(_Fold),
)
