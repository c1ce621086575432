"""What a series of snapshots shows of the cluster, of topics and configurations, and of the tree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from zkgroup.audit.findings import controller, files, load, replicas
from zkgroup.audit.findings.cluster import brokers_text, state_of, topic_of
from zkgroup.audit.findings.load import is_open
from zkgroup.audit.findings.rules import Bounds, Severity, StateRule
from zkgroup.audit.findings.states import (
    NOWHERE,
    Between,
    Rewrite,
    Shown,
    Stretch,
    by_pair,
    lasting,
    rewrites,
    runs_of,
    session_in,
    state_in,
    stretches,
    times_text,
    turns,
)
from zkgroup.audit.inputs.events import ADMIN, BY_SUBTREE, BY_TOPIC, CONTROLLER, Event, Key, Keys
from zkgroup.audit.inputs.facts import decoded
from zkgroup.audit.inputs.series import Seen, SeriesFacts, States, ZnodeState
from zkgroup.model import TopicPartition
from zkgroup.model.text import counted, hex_session, named
from zkgroup.znodes.admin_requests import Reassignment, TopicDeletion
from zkgroup.znodes.brokers import NO_LEADER, BrokerRegistration, PartitionState, Topic
from zkgroup.znodes.config import config_path, entities_path
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration
from zkgroup.znodes.json_fields import read_object
from zkgroup.znodes.paths import path_kind, subtree_text

_NAMED_MAX: Final = 5


def _broker(event: Event) -> Key | None:
    place = path_kind(event.path)
    return (place.name,) if place.kind == "broker" and event.path.count("/") == 3 else None


BY_BROKER: Final = Keys("broker", _broker, frozenset(("broker",)))
"""`/brokers/ids/<id>`; key: the id."""


@StateRule.of(controller.controller_election, CONTROLLER)
def controller_election(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """A controller that is not that of the snapshot before, by the `czxid` of `/controller`, or that is gone.

    There may have been others in between: the epochs tell (controller_epoch_gap).
    """
    for between, old, new in turns(states.get(ControllerRegistration.path(), ())):
        before = "" if old is None else f"; before it {_controller(old)}"
        detail = f"no controller{before}" if new is None else f"{_controller(new)} elected{before}"
        at_zxid = None if new is None else new.stat.czxid
        yield Shown(between, detail, NOWHERE, session_in(new), at_zxid, "info")


def _controller(state: ZnodeState) -> str:
    value, session = decoded(ControllerRegistration.decode, state.path, state.data), session_in(state)
    held = f" (session {hex_session(session)})" if session else ""
    return ("a controller that cannot be read" if value is None else f"broker {value.broker}") + held


@StateRule.of(controller.controller_epoch_gap, CONTROLLER)
def controller_epoch_gap(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """Controller epochs that passed between two snapshots.

    An error where the epoch fell, or its znode was written another number of times than it rose: not every
    election raised it by exactly one. Info where more than one passed, each with an election.
    """
    there = [seen for seen in states.get(ControllerEpoch.path(), ()) if seen.state is not None]
    for before, after in pairwise(there):
        step = Rewrite((before.last, after.first), state_in(before), state_in(after))
        was, now = (decoded(ControllerEpoch.decode, each.path, each.data) for each in step[1:])
        if was is None or now is None or step.old.stat.mzxid >= step.new.stat.mzxid:
            continue
        rose, is_same = now.epoch - was.epoch, step.old.stat.czxid == step.new.stat.czxid
        severity: Severity = "error"
        detail = f"epoch {was.epoch} -> {now.epoch}"
        if rose < 0:
            detail += ": it went back"
        elif is_same and step.writes != rose:
            detail += f" in {counted(step.writes, 'write')}"
        elif rose > 1:
            severity = "info"
            detail += f": at least {rose} elections" if is_same else ", and the znode was made again"
        else:
            continue
        yield Shown(step.between, detail, NOWHERE, None, step.at_zxid if is_same else None, severity)


@StateRule(
    severity="info",
    question="Which brokers registered anew from one snapshot to the next, came, or are gone?",
    act="Nothing, if they were restarted, started or stopped then. Otherwise look at the broker's own log:"
    " its session may have expired.",
    keys=BY_BROKER,
)
def broker_restarted(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """A broker whose registration is not that of the snapshot before.

    `at_zxid` is its new registration (`czxid`); there may have been others in between.
    """
    for of_path in states.values():
        for between, old, new in turns(of_path):
            what = "is gone" if new is None else "registered" if old is None else "registered anew"
            at_zxid = None if new is None else new.stat.czxid
            yield Shown(between, f"broker {key[0]} {what}", NOWHERE, session_in(new), at_zxid)


def _partitions(states: States) -> Iterator[tuple[int, Sequence[Seen]]]:
    """The states of the partitions of a topic, by number."""
    for path, of_path in sorted(states.items(), key=lambda item: path_kind(item[0]).partition):
        if path_kind(path).kind == "partition_state":
            yield path_kind(path).partition, of_path


def _state(state: ZnodeState | None) -> PartitionState | None:
    return None if state is None else state_of(state.path, state.data)


def _topic(state: ZnodeState | None) -> Topic | None:
    return None if state is None else topic_of(state.path, state.data)


def _rewritten(states: States) -> Iterator[tuple[int, Rewrite, PartitionState, PartitionState]]:
    """The states of partitions that were written in one life, each with what it was and is."""
    for number, of_path in _partitions(states):
        for rewrite in rewrites(of_path):
            old, new = _state(rewrite.old), _state(rewrite.new)
            if rewrite.writes and old is not None and new is not None:
                yield number, rewrite, old, new


@StateRule(
    severity="info",
    question="Which partitions have another leader or other replicas in sync than in the snapshot before?",
    act="Nothing, for a few: leaders move when brokers stop. Many writes of one state mean a follower that"
    " falls behind again and again.",
    keys=BY_TOPIC,
)
def leadership_changed(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """Leaders and ISRs that moved between two snapshots: a row for each topic.

    The leader epoch counts elections, and the version of the state all writes.
    """
    written = ((each[1].between, each) for each in _rewritten(states))
    for between, some in by_pair(written):
        parts = [f"{number}: {what}" for number, _, old, new in some if (what := _moved(old, new))]
        writes = sum(rewrite.writes for _, rewrite, _, _ in some)
        detail = f"{counted(writes, 'write')} of {counted(len(some), 'state')}"
        detail += f"; {named(parts, _NAMED_MAX)}" if parts else ""
        yield Shown(between, detail, (None, key[0], some[0][0] if len(some) == 1 else None))


def _moved(old: PartitionState, new: PartitionState) -> str:
    """The change of a state in words; empty where it is as it was."""
    parts = []
    if (old.leader, old.leader_epoch) != (new.leader, new.leader_epoch):
        parts.append(f"leader {old.leader} -> {new.leader}, epoch {old.leader_epoch} -> {new.leader_epoch}")
    if old.isr != new.isr:
        parts.append(f"ISR {brokers_text(old.isr)} -> {brokers_text(new.isr)}")
    return ", ".join(parts)


@StateRule.of(replicas.leader_epoch_not_rising, BY_TOPIC)
def leader_epoch_not_rising(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """A leader epoch that is lower than in the snapshot before, or the same for another leader."""
    for number, rewrite, old, new in _rewritten(states):
        if new.leader_epoch < old.leader_epoch:
            detail = f"leader epoch fell from {old.leader_epoch} to {new.leader_epoch}"
        elif new.leader != old.leader and new.leader_epoch == old.leader_epoch:
            detail = f"leader {old.leader} became {new.leader} within leader epoch {new.leader_epoch}"
        else:
            continue
        yield Shown(rewrite.between, detail, (None, key[0], number), None, rewrite.at_zxid)


@StateRule.of(replicas.under_replicated, BY_TOPIC, {"snapshots": 2})
def under_replicated(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """A partition whose ISR lacked some of its replicas in `snapshots` of them or more, one after the other.

    From the first that shows it to the last. A topic that is being deleted is left out.
    """
    others = [runs_of(states, path, facts) for path in (Topic.path(key[0]), TopicDeletion.path(key[0]))]

    def missing(stretch: Stretch) -> list[int] | None:
        of_state, of_topic, deletion = (seen.state for seen in stretch.seen)
        state, topic = _state(of_state), _topic(of_topic)
        if of_state is None or state is None or topic is None or deletion is not None:
            return None
        replicas = topic.partitions.get(path_kind(of_state.path).partition, ())
        return [broker for broker in replicas if broker not in state.isr] or None

    for number, of_path in _partitions(states):
        for between, found in lasting(stretches(of_path, *others), missing, facts, bounds["snapshots"]):
            brokers = sorted({broker for each in found for broker in each})
            detail = f"not in sync: {brokers_text(brokers)}{times_text(between, facts)}"
            yield Shown(between, detail, (None, key[0], number), lasts=True)


@StateRule.of(replicas.offline_partition, BY_TOPIC, {"snapshots": 2})
def offline_partition(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """A partition without a leader in `snapshots` of them or more, one after the other.

    Its state names none, or a broker that is not registered. From the first that shows it to the last. A
    topic that is being deleted is left out.
    """
    deletion = runs_of(states, TopicDeletion.path(key[0]), facts)
    for number, of_path in _partitions(states):
        some = list[Stretch]()
        for seen in of_path:
            state = _state(seen.state)
            if state is not None:
                of_broker = facts.brokers.get(str(state.leader))
                if of_broker is None:
                    of_broker = runs_of({}, BrokerRegistration.path(state.leader), facts)
                gone = [[each for each in of_broker if each.state is None]]
                some += stretches([seen], deletion, *([] if state.leader == NO_LEADER else gone))
        for between, leaders in lasting(some, _missing_leader, facts, bounds["snapshots"]):
            what = f"leader {brokers_text(sorted({*leaders}))} not registered"
            detail = "no leader" if {*leaders} == {NO_LEADER} else what
            yield Shown(between, detail + times_text(between, facts), (None, key[0], number), lasts=True)


def _missing_leader(stretch: Stretch) -> int | None:
    state = _state(stretch.seen[0].state)
    return None if state is None or stretch.seen[1].state is not None else state.leader


_Moves = Mapping[TopicPartition, str]
"""What is asked for, by partition, in words."""


def _requested(state: ZnodeState) -> _Moves:
    request = decoded(Reassignment.decode, state.path, state.data)
    targets = {} if request is None else request.targets
    return {partition: f"to {brokers_text(to)}" for partition, to in targets.items()}


def _moving(state: ZnodeState) -> _Moves:
    topic, name = _topic(state), path_kind(state.path).name
    moving = () if topic is None else topic.moving
    return {TopicPartition(name, number): "is being moved" for number in moving}


@StateRule.of(controller.stuck_reassignment, ADMIN, {"snapshots": 2})
def stuck_reassignment(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """Moves that were asked for, or under way, in `snapshots` of them or more, one after the other.

    By `/admin/reassign_partitions`, or by the topic itself. From the first that shows it to the last.
    """
    least = bounds["snapshots"]
    yield from _pending(states.get(Reassignment.path(), ()), _requested, facts, least)
    for topic in facts.topics.values():
        yield from _pending(topic, _moving, facts, least)


def _pending(
    of_path: Sequence[Seen], moves_in: Callable[[ZnodeState], _Moves], facts: SeriesFacts, least: float
) -> Iterator[Shown]:
    """Moves that stayed; those with the same first and last snapshot are one row."""
    there = [seen for seen in of_path if seen.state is not None]
    moves = [moves_in(state_in(seen)) for seen in there]
    found = list[tuple[Between, tuple[TopicPartition, str]]]()
    for partition in sorted(set[TopicPartition]().union(*moves)):
        some = [
            Stretch(seen.first, seen.last, (seen,))
            for seen, of_seen in zip(there, moves, strict=True)
            if partition in of_seen
        ]
        for between, _ in lasting(some, lambda _: True, facts, least):
            text = next(of_seen[partition] for of_seen in reversed(moves) if partition in of_seen)
            found.append((between, (partition, text)))
    for between, some_moves in by_pair(found):
        texts = [f"{partition} {text}" for partition, text in some_moves]
        place = (None, *some_moves[0][0]) if len(some_moves) == 1 else NOWHERE
        what = f"{counted(len(texts), 'partition')} to be moved{times_text(between, facts)}"
        yield Shown(between, f"{what}: {named(texts, _NAMED_MAX)}", place, lasts=True)


@StateRule.of(controller.stuck_topic_deletion, BY_TOPIC, {"snapshots": 2})
def stuck_topic_deletion(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """A topic that is there in `snapshots` of them or more, though its deletion was asked for in each.

    From the first that shows it to the last.
    """
    both = (states.get(path, ()) for path in (Topic.path(key[0]), TopicDeletion.path(key[0])))
    some = stretches(*([seen for seen in each if seen.state is not None] for each in both))
    for between, _ in lasting(some, lambda _: True, facts, bounds["snapshots"]):
        detail = f"deletion asked for{times_text(between, facts)}, and the topic is still there"
        yield Shown(between, detail, (None, key[0], None), lasts=True)


@StateRule(
    severity="info",
    question="Which topics were made, grew, or were deleted from one snapshot to the next?",
    act="Nothing, if that was meant. Offsets of a topic that was deleted stay (offset_of_missing_partition),"
    " and keyed records of one that grew go to other partitions from then on.",
    keys=BY_TOPIC,
)
def topic_changed(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """A topic that is not as in the snapshot before: made, deleted, made again, or with other partitions.

    `at_zxid` is its create, or its last write where that was the only one.
    """
    place, of_path = (None, key[0], None), states.get(Topic.path(key[0]), ())
    for between, old, new in turns(of_path):
        topic = None if new is None else topic_of(new.path, new.data)
        size = "" if topic is None else f" with {counted(len(topic.partitions), 'partition')}"
        yield Shown(between, f"{_turned(old, new)}{size}", place, None, new and new.stat.czxid)
    for rewrite in rewrites(of_path):
        was, now = (topic_of(state.path, state.data) for state in rewrite[1:])
        if was is not None and now is not None and (detail := _topic_text(was, now)):
            yield Shown(rewrite.between, detail, place, None, rewrite.at_zxid)


def _turned(old: ZnodeState | None, new: ZnodeState | None) -> str:
    return "deleted" if new is None else "made" if old is None else "deleted and made again"


def _topic_text(old: Topic, new: Topic) -> str:
    """What is otherwise, in words; empty where nothing is."""
    parts = []
    if len(old.partitions) != len(new.partitions):
        parts.append(f"{counted(len(old.partitions), 'partition')} -> {len(new.partitions)}")
    moved = [
        f"{number} {brokers_text(replicas)} -> {brokers_text(new.partitions[number])}"
        for number, replicas in sorted(old.partitions.items())
        if new.partitions.get(number, replicas) != replicas
    ]
    if moved:
        parts.append(f"other replicas: {named(moved, _NAMED_MAX)}")
    return "; ".join(parts)


def _config(event: Event) -> Key | None:
    place = path_kind(event.path)
    is_one = place.kind == "config" and not event.path.startswith(f"{config_path()}/changes")
    return (event.path,) if is_one and event.path.count("/") > 2 else None


BY_CONFIG: Final = Keys("config", _config, frozenset(("config",)))
"""Each configuration below `/config`, without the notifications; key: its path."""


@StateRule(
    severity="info",
    question="Which configurations changed from one snapshot to the next?",
    act="Nothing, if that was meant. `zkgroup config describe` shows what is in force now.",
    keys=BY_CONFIG,
)
def config_changed(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """A configuration of a topic, broker, client, user or address that is not as in the snapshot before.

    Names only: values may be secrets. `at_zxid` is its create, or its write where that was the only one.
    """
    for path, of_path in states.items():
        place = (None, path_kind(path).name if path.startswith(f"{entities_path('topics')}/") else None, None)
        for between, old, new in turns(of_path):
            names = sorted({} if new is None else _settings(new))
            detail = f"{path} was {_turned(old, new)}{': ' if names else ''}{named(names, _NAMED_MAX)}"
            yield Shown(between, detail, place, None, new and new.stat.czxid)
        for rewrite in rewrites(of_path):
            if rewrite.old.data != rewrite.new.data:
                was, now = _settings(rewrite.old), _settings(rewrite.new)
                names = sorted(name for name in was | now if was.get(name) != now.get(name))
                what = f"changed: {named(names, _NAMED_MAX)}" if names else "was written"
                yield Shown(rewrite.between, f"{path} {what}", place, None, rewrite.at_zxid)


def _settings(state: ZnodeState) -> dict[str, object]:
    fields = decoded(lambda path, data: read_object(path, data, "a configuration"), state.path, state.data)
    settings = (fields or {}).get("config")
    return settings if isinstance(settings, dict) else {}


@StateRule.of(load.open_acl, BY_SUBTREE, is_beside=True)
def open_acl(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """Znodes that any client may change, and that were closed in the snapshot before."""
    found = list[tuple[Between, str]]()
    for path, of_path in states.items():
        there = [seen for seen in of_path if seen.state is not None and seen.state.acl is not None]
        for before, after in pairwise(there):
            old, new = state_in(before).acl or (), state_in(after).acl or ()
            if old != new and is_open(new) and not is_open(old):
                found.append(((before.last, after.first), path))
    for between, paths in by_pair(found):
        what = f"any client may change {counted(len(paths), 'znode')} closed before"
        yield Shown(between, f"{what}: {named(sorted(paths), _NAMED_MAX)}")


class _Counts(NamedTuple):
    """By subtree, of each snapshot or of each two that follow each other."""

    znodes: Counter[str]
    size: Counter[str]
    added: Counter[str]
    removed: Counter[str]
    written: Counter[str]


@StateRule.of(files.growth, BY_SUBTREE)
def growth(states: States, key: Key, facts: SeriesFacts, bounds: Bounds) -> Iterator[Shown]:
    """What came and went from one snapshot to the next, by subtree of `depth` names; as of files.

    A path is left out where one of the two does not know it.
    """
    depth = int(bounds["depth"])
    counts: dict[int, _Counts] = defaultdict(lambda: _Counts(*(Counter() for _ in _Counts._fields)))
    for path, of_path in states.items():
        subtree = subtree_text(path, depth)
        for seen in of_path:
            if seen.state is not None:
                size = len(seen.state.data or b"")
                for number, sign in ((seen.first, 1), (seen.last + 1, -1)):
                    counts[number].znodes[subtree] += sign
                    counts[number].size[subtree] += sign * size
        _count_changes(of_path, subtree, counts)
    before = Counter[str](), Counter[str]()
    for number in range(len(facts.snapshots)):
        at = counts[number]
        after = Counter(before[0]), Counter(before[1])
        after[0].update(at.znodes)
        after[1].update(at.size)
        for subtree in sorted(at.added | at.removed | at.written) if number else ():
            sizes = [counted(each[1][subtree], "byte") for each in (before, after)]
            detail = (
                f"{subtree}: {at.added[subtree]} added, {at.removed[subtree]} removed,"
                f" {at.written[subtree]} changed; {counted(before[0][subtree], 'znode')},"
                f" {sizes[0]} of data -> {after[0][subtree]}, {sizes[1]}"
            )
            yield Shown((number - 1, number), detail)
        before = after


def _count_changes(of_path: Sequence[Seen], subtree: str, counts: Mapping[int, _Counts]) -> None:
    for old, new in pairwise(of_path):
        if old.last + 1 != new.first:
            continue
        at = counts[new.first]
        if old.state is None or new.state is None:
            at.added[subtree] += old.state is None and new.state is not None
            at.removed[subtree] += old.state is not None and new.state is None
        elif old.state.stat.mzxid != new.state.stat.mzxid:
            at.written[subtree] += 1
