"""Findings about the controller of a Kafka cluster: elections, writes, and requests that stay open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from zkgroup.audit.findings import cluster
from zkgroup.audit.findings.rules import Bounds, Finding, KeyRows, Rule, Severity, is_alive, runs
from zkgroup.audit.inputs.events import ADMIN, BY_DECISION, CONTROLLER, Event, Key
from zkgroup.audit.inputs.facts import Facts, Life, brokers_of, change_at, client, decoded
from zkgroup.model import TopicPartition
from zkgroup.model.text import counted, duration_text, named
from zkgroup.znodes.admin_requests import Reassignment, TopicDeletion
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration
from zkgroup.znodes.json_fields import JvmJsonError, parse
from zkgroup.znodes.paths import path_kind

_NAMED_MAX: Final = 5
_Targets = Mapping[TopicPartition, tuple[int, ...]]


@Rule(
    question="When was which broker elected controller, how long was there none, and did elections come in"
    " storms?",
    act="One election after a controller's death is as it should be. A storm means that every winner fails at"
    " once: find the registration or the topic that it cannot read, and delete that znode. Long without one:"
    " check whether brokers can reach ZooKeeper at all.",
    keys=CONTROLLER,
    bounds={"gap_ms": 30_000, "storm_elections": 5, "storm_gap_ms": 1_000},
)
def controller_election(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """The controllers by time, the times without one, and storms of elections.

    A row for each life of `/controller` that began in the log, with the epoch that its session raised, how it
    ended, and the time without a controller before it; a warning where that was longer than `gap_ms`. A storm
    is `storm_elections` or more of which none is later than `storm_gap_ms` after the one before: it is one
    row, and its elections are in it.
    """
    elections = _elections(rows, facts)
    close = runs(elections, lambda one, other: other.from_ms - one.from_ms <= bounds["storm_gap_ms"])
    storms = [run for run in close if len(run) >= bounds["storm_elections"]]
    alone = {*elections}.difference(*storms)
    before: Life | None = None
    for life in facts.controllers:
        if life in alone:
            yield _election_finding(life, before, facts, bounds["gap_ms"])
        before = life
    gone = cluster.end_of(before) if before else None
    if gone is not None and cluster.lasted_ms(gone, None, facts) > bounds["gap_ms"]:
        detail = f"no controller for {duration_text(cluster.lasted_ms(gone, None, facts))}, up to the end"
        yield Finding.between("controller_election", "warning", gone, None, detail)
    for run in storms:
        unreadable = "".join(f"; no JVM can read {path}" for path in _unreadable_brokers(run, facts))
        lasted = duration_text(run[-1].from_ms - run[0].from_ms)
        detail = f"a storm of {len(run)} elections in {lasted}{unreadable}"
        ends = cluster.begin_of(run[0]), cluster.begin_of(run[-1])
        yield Finding.between("controller_election", "warning", *ends, detail)


def _elections(rows: KeyRows, facts: Facts) -> list[Life]:
    """The lives of `/controller` that began in the log; the one in a snapshot was elected before."""
    path = ControllerRegistration.path()
    in_log = {event.zxid for event in rows if event.op == "create" and event.path == path and not event.seed}
    return [life for life in facts.controllers if life.from_zxid in in_log]


def _raised(life: Life, facts: Facts) -> list[int]:
    """The zxids at which the session of a controller wrote the epoch."""
    epochs = facts.controller_epochs
    return [each.zxid for each in epochs if is_alive(life, each.zxid) and each.session == life.session]


def _election_finding(life: Life, before: Life | None, facts: Facts, longest_ms: float) -> Finding:
    raised = _raised(life, facts)
    epoch = cluster.epoch_at(facts, raised[-1]) if raised else None
    detail = f"{cluster.controller_name(life)} elected, "
    detail += "epoch not raised" if epoch is None else f"epoch {epoch}"
    severity: Severity = "info"
    gone = cluster.end_of(before) if before else None
    if gone is not None:
        gap_ms = cluster.lasted_ms(gone, cluster.begin_of(life), facts)
        detail += f"; after {duration_text(gap_ms)} without a controller"
        severity = "warning" if gap_ms > longest_ms else "info"
    if life.to_zxid is not None:
        lived = duration_text(cluster.lasted_ms(cluster.begin_of(life), cluster.end_of(life), facts))
        detail += f"; {cluster.ending_text(facts, life)} after {lived}"
    return Finding.during("controller_election", severity, life, detail, session=life.session)


def _unreadable_brokers(storm: Sequence[Life], facts: Facts) -> Mapping[str, None]:
    """The registrations that a controller of 0.8.2.2 cannot load, so that each winner gives up at once."""
    found: dict[str, None] = {}
    for life in chain.from_iterable(lives for _, lives in sorted(facts.brokers.items())):
        if life.from_zxid <= storm[-1].from_zxid and (life.to_zxid or facts.end_zxid) >= storm[0].from_zxid:
            try:
                parse(life.data or b"")
            except JvmJsonError:
                found[life.path] = None
    return found


@Rule(
    severity="error",
    question="Did every election raise the controller epoch by exactly one?",
    act="A step of more than one, or back: the epoch was written by hand, or the tree was restored from a"
    " copy. A repeat: two controllers raised it from the same value. Restart the brokers one by one, so that"
    " all know the present epoch. A warning: the session that held `/controller` was no controller's, or"
    " ended at once.",
    keys=CONTROLLER,
    bounds={"raise_ms": 2_000},
)
def controller_epoch_gap(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Elections that did not raise the controller epoch by exactly one.

    An error for each write of `/controller_epoch` that is not one more than the value before. A warning
    for a controller that held `/controller` longer than `raise_ms` and never raised it: Kafka's
    controllers raise it after they are elected, zkgroup's in the same transaction.
    """
    before: int | None = None
    for event in rows:
        if event.path != ControllerEpoch.path() or event.op not in ("create", "set"):
            continue
        value = decoded(ControllerEpoch.decode, event.path, event.data)
        if value is None:
            detail = f"the epoch cannot be read: {(event.data or b'')[:40]!r}"
            yield cluster.change_finding("controller_epoch_gap", "error", event, event, detail)
            continue
        if before is not None and value.epoch != before + 1 and not event.seed:
            detail = f"epoch {value.epoch} follows {before}, by {client(facts, event.session)}"
            yield cluster.change_finding("controller_epoch_gap", "error", event, event, detail)
        before = value.epoch
    for life in _elections(rows, facts):
        won, until = cluster.begin_of(life), cluster.end_of(life)
        ms = cluster.lasted_ms(won, until, facts)
        if ms > bounds["raise_ms"] and not _raised(life, facts):
            held = f"{client(facts, won.session)} held /controller for {duration_text(ms)}"
            detail = f"{held} and never raised the epoch"
            yield cluster.change_finding("controller_epoch_gap", "warning", won, until, detail)


class _Decision(NamedTuple):
    """A write that only the controller may make."""

    event: Event
    what: str
    partition: int | None = None
    epoch: int | None = None
    """The controller epoch that it carries; None where it carries none."""


@Rule(
    severity="error",
    question="Which states, replica lists, requests and epochs were written by a session that was not the"
    " controller's, or in an older controller epoch?",
    act="A controller of Kafka 0.8.2.2 that does not learn of its successor continues to write: restart"
    " the broker named, then let the present controller elect again what it wrote. Controllers of zkgroup"
    " cannot do this: each of their writes checks `/controller` and the epoch. A warning: a request was"
    " removed by hand, which no controller hears of before the next election.",
    keys=BY_DECISION,
)
def deposed_controller_write(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Writes that only the controller may make, by another session, or by a controller of an older epoch.

    Decisions are: making a state, changing its leader or leader epoch, changing the replica list of a
    partition, taking off a request below `/admin` or an entry of it, and the epoch. They are the business
    of the session that made the present `/controller`, and states have to carry the present epoch. What
    leaders write of the ISR alone is none: it repeats the epoch of the last decision. A request that was
    taken off by hand, by a session of no broker, is a warning.
    """
    for event, what, partition, epoch in _decisions(rows):
        place = path_kind(event.path)
        why = _why_not(event, epoch, facts)
        by_hand = place.kind == "admin" and not _is_of_broker(event.session, facts)
        if why is None or (by_hand and facts.controller_at(event.zxid) is None):
            continue  # while there is no controller, tools delete requests themselves
        detail = f"{what}, by {client(facts, event.session)}, while {why}"
        severity: Severity = "warning" if by_hand else "error"
        topic = None if partition is None else place.name
        yield Finding.at("deposed_controller_write", severity, event, detail, (None, topic, partition))


def _decisions(rows: KeyRows) -> Iterator[_Decision]:
    states: dict[int, PartitionState | None] = {}
    topic: Topic | None = None
    asked: _Targets | None = None
    for event in rows:
        if event.op not in cluster.CHANGES:
            continue
        place, gone = path_kind(event.path), event.op == "delete"
        if place.kind == "partition_state":
            before = states.pop(place.partition, None)
            if not gone:
                after = states[place.partition] = cluster.state_of(event.path, event.data)
                yield from _state_decision(event, place.partition, before, after)
        elif place.kind == "topic" and event.path == Topic.path(place.name):
            listed, topic = topic, None if gone else cluster.topic_of(event.path, event.data)
            yield from _list_decisions(event, listed, topic)
        elif place.kind == "admin":
            what = f"{event.path} deleted" if gone else None
            if event.path == Reassignment.path():
                earlier, asked = asked or {}, _asked_for(event)
                taken = 0 if asked is None else len(earlier.keys() - asked.keys())
                if event.op == "set" and taken:
                    what = f"{counted(taken, 'entry', 'entries')} taken off {event.path}"
            if what is not None and not event.seed:  # tools create requests, and may change them
                yield _Decision(event, what)
        elif place.kind == "controller_epoch":
            value = decoded(ControllerEpoch.decode, event.path, event.data)
            made = event.op == "create" and value is not None and value.epoch == 0
            if not event.seed and not made:  # Kafka from 2.1 on creates it before the first election
                what = "deleted" if gone else f"set to {value.epoch if value else 'no number'}"
                yield _Decision(event, f"{event.path} {what}")


def _state_decision(
    event: Event, partition: int, before: PartitionState | None, after: PartitionState | None
) -> Iterator[_Decision]:
    """Yields the decision in a state; a leader's ISR write is none, and keeps leader and both epochs."""
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
    epoch = after.controller_epoch
    yield _Decision(event, f"{what}, in controller epoch {epoch}", partition, epoch)


def _list_decisions(event: Event, before: Topic | None, after: Topic | None) -> Iterator[_Decision]:
    """Yields the decisions in a topic; tools add topics and partitions, only a controller changes a list."""
    if event.op != "set" or before is None or after is None:
        return
    for partition, replicas in sorted(before.partitions.items()):
        now = after.partitions.get(partition, ())
        if now != replicas:
            yield _Decision(
                event, f"replicas {cluster.brokers_text(replicas)} -> {cluster.brokers_text(now)}", partition
            )


def _asked_for(event: Event) -> _Targets | None:
    value = None if event.op == "delete" else decoded(Reassignment.decode, event.path, event.data)
    return None if value is None else value.targets


def _why_not(event: Event, epoch: int | None, facts: Facts) -> str | None:
    controller, in_force = facts.controller_at(event.zxid), cluster.epoch_at(facts, event.zxid)
    if controller is None:
        began = facts.controllers and facts.controllers[0].from_zxid <= event.zxid
        if began or facts.is_whole:
            return "there was no /controller"
    elif controller.session != event.session:
        return f"{cluster.controller_name(controller)} held /controller"
    else:  # during a migration (from 3.4 on) the KRaft controller writes its own epoch into states
        value = decoded(ControllerRegistration.decode, controller.path, controller.data)
        if value is not None and value.kraft_epoch is not None:
            in_force = value.kraft_epoch
    is_older = epoch is not None and in_force is not None and epoch < in_force
    return f"controller epoch {in_force} was in force" if is_older else None


def _is_of_broker(session: int, facts: Facts) -> bool:
    """True if a broker or controller registered in the session; 0 stands for persistent registrations."""
    is_controller = any(life.session == session for life in facts.controllers)
    return session != 0 and (is_controller or bool(brokers_of(facts, session)))


@Rule(
    question="Which reassignments do not end, and which ended with the partition somewhere else?",
    needs=("tree", "log"),
    act="Standing: a replica that it moves to does not come into sync; start its broker, or `zkgroup reassign"
    " cancel`. Without an entry: delete the znode, no controller of 0.8.2.2 will. Given up: a controller of"
    " 0.8.2.2 drops what it cannot do when it takes over, and the partition keeps the replicas of both"
    " sides: reassign it again once the brokers are up.",
    keys=ADMIN,
    bounds={"standing_ms": 600_000, "endless_ms": 1_000},
)
def stuck_reassignment(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A reassignment that stays open for long, that no controller finishes, or that went without a record.

    Standing: longer than `standing_ms`. Never finished: a request without an entry, or one that cannot be
    read, after `endless_ms`. Given up: an entry that went while the replica list was another than it
    asked for, unless the topic is being deleted.
    """
    made: Event | None = None
    targets: _Targets | None = None  # its moves that are not done; None where it cannot be read
    since: dict[TopicPartition, Event] = {}  # the write that first requested each
    deleting: set[str] = set()  # topics to be deleted: a controller may give up their moves
    for event in rows:
        topic = path_kind(event.path).name
        if event.path == TopicDeletion.path(topic) and event.op in ("create", "delete"):
            (deleting.add if event.op == "create" else deleting.discard)(topic)
        elif event.path == Reassignment.path() and event.op in cluster.CHANGES:
            left = _asked_for(event)
            if made is not None:
                gone = {move: to for move, to in (targets or {}).items() if move not in (left or ())}
                yield from _given_up(gone, since, event, deleting, facts)
            if event.op == "delete":
                if made is not None:
                    yield from _stood_long(made, event, targets, since, facts, bounds)
                made = None
            elif made is None or event.op == "create":
                made = event
            targets = left
            since = {move: since.get(move, event) for move in left or ()}
    if made is not None:
        yield from _stood_long(made, None, targets, since, facts, bounds)


def _given_up(
    gone: _Targets, since: Mapping[TopicPartition, Event], event: Event, deleting: set[str], facts: Facts
) -> Iterator[Finding]:
    """Yields entries that were deleted although the replica list is not what they asked for."""
    for move, target in sorted(gone.items()):
        replicas = cluster.replicas_at(facts, move, event.zxid)
        if replicas not in (None, target) and move.topic not in deleting:
            asked, left = cluster.brokers_text(target), cluster.brokers_text(replicas or ())
            detail = f"given up: asked for {asked}, left at {left}"
            where, session = (None, *move), event.session
            yield Finding.between("stuck_reassignment", "warning", since[move], event, detail, where, session)


def _stood_long(
    made: Event,
    done: Event | None,
    targets: _Targets | None,
    since: Mapping[TopicPartition, Event],
    facts: Facts,
    bounds: Bounds,
) -> Iterator[Finding]:
    stood_ms = cluster.lasted_ms(made, done, facts)
    if stood_ms <= bounds["standing_ms" if targets else "endless_ms"]:
        return
    if targets is None:
        what = "the request cannot be read"
    elif not targets:
        what = "the request names no partition, and Kafka 0.8.2.2 never removes such a one"
    else:
        untouched = [str(move) for move in sorted(targets) if not _was_touched(move, since[move].zxid, facts)]
        begun = f"; not even begun: {named(untouched, _NAMED_MAX)}" if untouched else ""
        what = f"{counted(len(targets), 'partition')} to be moved{begun}"
    detail = f"{what}; {'stood' if done else 'has stood'} for {duration_text(stood_ms)}"
    yield cluster.change_finding("stuck_reassignment", "warning", made, done, detail)


def _was_touched(partition: TopicPartition, since: int, facts: Facts) -> bool:
    now = change_at(facts.topics.get(partition.topic, ()), facts.end_zxid)
    return now is not None and cluster.replicas_at(facts, partition, since) != cluster.replicas_at(
        facts, partition, now.zxid
    )


@Rule(
    question="Which topics should have been deleted long ago?",
    needs=("tree",),
    act="A controller deletes a topic once every broker of its replica lists is up and none of its partitions"
    " is being moved: start those brokers, or finish the move. Brokers with `delete.topic.enable=false`, the"
    " default of 0.8.2.2, never do it.",
    keys=ADMIN,
    bounds={"standing_ms": 600_000},
)
def stuck_topic_deletion(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """A topic whose deletion was requested long ago and that still exists, or did for long.

    Reported where the request existed longer than `standing_ms`.
    """
    asked: dict[str, Event] = {}
    done: list[tuple[str, Event, Event | None]] = []
    for event in rows:
        topic = path_kind(event.path).name
        if event.path != TopicDeletion.path(topic):
            continue
        if event.op == "create":
            asked[topic] = event
        elif event.op == "delete" and topic in asked:
            done.append((topic, asked.pop(topic), event))
    done += [(topic, request, None) for topic, request in sorted(asked.items())]
    for topic, request, end in done:
        stood_ms = cluster.lasted_ms(request, end, facts)
        last = change_at(facts.topics.get(topic, ()), facts.end_zxid)
        is_gone = last is None or last.data is None
        if stood_ms <= bounds["standing_ms"] or (end is None and is_gone):
            continue
        detail = f"deletion took {duration_text(stood_ms)}"
        if end is None:
            detail = f"deletion asked for {duration_text(stood_ms)} ago, and the topic is still there"
        yield cluster.change_finding("stuck_topic_deletion", "warning", request, end, detail, topic)
