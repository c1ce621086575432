"""What a series of snapshots shows of the cluster, of topics and configurations, and of the tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from zkgroup.audit.findings import controller, files, load, replicas, states
from zkgroup.audit.findings.cluster import brokers_text, state_of, topic_of
from zkgroup.audit.findings.rules import Bounds, StateRule
from zkgroup.audit.findings.states import SeriesView, Shown, Stretch, lives, session_in, state_in, stretches
from zkgroup.audit.inputs.facts import decoded
from zkgroup.model import TopicPartition
from zkgroup.model.text import counted, hex_session, named
from zkgroup.zkfiles.records import StoredZnode
from zkgroup.znodes.admin_requests import Reassignment, TopicDeletion
from zkgroup.znodes.brokers import NO_LEADER, BrokerRegistration, PartitionState, Topic
from zkgroup.znodes.config import config_path
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration
from zkgroup.znodes.json_fields import read_object
from zkgroup.znodes.paths import partition_of, path_kind

_NAMED_MAX: Final = 5
_TURNED: Final = ("made", "deleted", "deleted and made again")


@StateRule.of(controller.controller_election)
def controller_election(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """A controller that is not that of the snapshot before, by the `czxid` of `/controller`, or that is gone.

    There may have been others in between: the epochs tell (controller_epoch_gap).
    """
    for change in of.changes("controller"):
        if not change.is_same:
            before = "" if change.old is None else f"; before it {_controller(change.old)}"
            now = "no controller" if change.new is None else f"{_controller(change.new)} elected"
            yield change.shown(now + before, "info")


def _controller(state: StoredZnode) -> str:
    value, session = decoded(ControllerRegistration.decode, state.path, state.data), session_in(state)
    held = f" (session {hex_session(session)})" if session else ""
    return ("a controller that cannot be read" if value is None else f"broker {value.broker}") + held


@StateRule.of(controller.controller_epoch_gap)
def controller_epoch_gap(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """Controller epochs that passed between two snapshots.

    An error where the epoch fell, or its znode was written another number of times than it rose: not every
    write raised it by exactly one. Info where several did: elections, or a tool.
    """
    for change in of.changes("controller_epoch", bool):
        was, now = (decoded(ControllerEpoch.decode, change.path, state_in(each).data) for each in change[1:])
        if was is None or now is None or change.grown("mzxid") <= 0:
            continue
        rose, writes = now.epoch - was.epoch, change.grown() if change.is_same else None
        is_right = rose >= 0 and writes in (None, rose)
        if rose < 0:
            what = ": it went back"
        elif not is_right:
            what = f" in {counted(writes or 0, 'write')}"
        else:
            what = f": raised {rose} times" if writes else ", and the znode was made again"
        if not is_right or rose > 1:
            found = change.shown(f"epoch {was.epoch} -> {now.epoch}{what}", "info" if is_right else "error")
            yield found if change.is_same else found._replace(at_zxid=None)


@StateRule(
    severity="info",
    question="Which brokers registered anew from one snapshot to the next, came, or are gone?",
    act="Nothing, if they were restarted, started or stopped then. Otherwise look at the broker's own log:"
    " its session may have expired.",
)
def broker_changed(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """A broker whose registration is not that of the snapshot before; there may have been others between."""
    for change in of.changes("broker"):
        if not change.is_same:
            what = change.turned("registered", "is gone", "registered anew")
            yield change.shown(f"broker {path_kind(change.path).name} {what}")


def _state(state: StoredZnode | None) -> PartitionState | None:
    return None if state is None else state_of(state.path, state.data)


def _topic(state: StoredZnode | None) -> Topic | None:
    return None if state is None else topic_of(state.path, state.data)


def _rewritten(of: SeriesView) -> Iterator[tuple[states.StateChange, PartitionState, PartitionState]]:
    """The states of partitions that were written in one life, each with what it was and is."""
    for change in of.changes("partition_state"):
        was, now = _state(change.old), _state(change.new)
        if was is not None and now is not None and change.is_same and change.grown():
            yield change, was, now


@StateRule(
    severity="info",
    question="Which partitions have another leader or other replicas in sync than in the snapshot before?",
    act="Nothing, for a few: leaders move when brokers stop. Many writes of one state mean a follower that"
    " falls behind again and again.",
)
def leadership_changed(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """A partition whose leader or ISR moved; the version of its state counts all writes."""
    for change, was, now in _rewritten(of):
        what = _moved(was, now)
        yield change.shown(f"{counted(change.grown(), 'write')}{f': {what}' if what else ''}")


def _moved(old: PartitionState, new: PartitionState) -> str:
    """The change of a state in words; empty where it is as it was."""
    isrs = brokers_text(old.isr), brokers_text(new.isr)
    pairs = ("leader", old.leader, new.leader), ("epoch", old.leader_epoch, new.leader_epoch), ("ISR", *isrs)
    return ", ".join(f"{name} {was} -> {now}" for name, was, now in pairs if was != now)


@StateRule.of(replicas.leader_epoch_not_rising)
def leader_epoch_not_rising(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """A leader epoch that is lower than in the snapshot before, or the same for another leader."""
    for change, was, now in _rewritten(of):
        if (detail := replicas.epoch_fault(was, now)) is not None:
            yield change.shown(detail)


@StateRule.of(replicas.under_replicated, {"snapshots": 2})
def under_replicated(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """A partition whose ISR lacked some of its replicas in `snapshots` of them or more, one after the other.

    A topic that is being deleted is left out.
    """
    for path, of_path in of.of_kind("partition_state").items():
        others = (of.runs(each.path(partition_of(path).topic)) for each in (Topic, TopicDeletion))
        for between, times, found in of.lasting(stretches(of_path, *others), _missing, bounds["snapshots"]):
            brokers = brokers_text(sorted({broker for each in found for broker in each}))
            yield Shown(between, f"not in sync: {brokers}{times}", path, lasts=True)


def _missing(*of_paths: StoredZnode | None) -> list[int] | None:
    """The replicas that are not in sync; None where all are."""
    of_state, of_topic, deletion = of_paths
    state, topic = _state(of_state), _topic(of_topic)
    if of_state is None or state is None or topic is None or deletion is not None:
        return None
    assigned = topic.partitions.get(partition_of(of_state.path).partition, ())
    return [broker for broker in assigned if broker not in state.isr] or None


@StateRule.of(replicas.offline_partition, {"snapshots": 2})
def offline_partition(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """A partition without a leader in `snapshots` of them or more, one after the other.

    Its state names none, or a broker that is not registered. A topic that is being deleted is left out.
    """
    for path, of_path in of.of_kind("partition_state").items():
        known = list[Stretch]()
        deletion = of.runs(TopicDeletion.path(partition_of(path).topic))
        for seen in of_path:
            if (state := _state(seen.state)) is not None:
                broker = of.runs(BrokerRegistration.path(state.leader))
                gone = [[each for each in broker if each.state is None]]
                known += stretches([seen], deletion, *([] if state.leader == NO_LEADER else gone))
        for between, times, leaders in of.lasting(known, _missing_leader, bounds["snapshots"]):
            what = f"leader {brokers_text(sorted({*leaders}))} not registered"
            detail = "no leader" if {*leaders} == {NO_LEADER} else what
            yield Shown(between, detail + times, path, lasts=True)


def _missing_leader(of_state: StoredZnode | None, deletion: StoredZnode | None, *_: object) -> int | None:
    state = _state(of_state)
    return None if state is None or deletion is not None else state.leader


def _moves(state: StoredZnode | None) -> Mapping[TopicPartition, str]:
    """The moves that a request asks for, or that are under way in a topic, in words."""
    if state is None:
        return {}
    if state.path == Reassignment.path():
        request = decoded(Reassignment.decode, state.path, state.data)
        targets = request.targets if request else {}
        return {each: f"to be moved to {brokers_text(to)}" for each, to in targets.items()}
    topic, name = _topic(state), path_kind(state.path).name
    return {TopicPartition(name, number): "is being moved" for number in (topic.moving if topic else ())}


@StateRule.of(controller.stuck_reassignment, {"snapshots": 2})
def stuck_reassignment(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """A move that was asked for, or under way, in `snapshots` of them or more, one after the other.

    By one `/admin/reassign_partitions`, or by the topic itself.
    """
    of_paths = of.of_kind("admin").get(Reassignment.path(), ()), *of.of_kind("topic").values()
    for life, _ in (each for of_path in of_paths for each in lives(of_path)):
        moves = [(seen, _moves(seen.state)) for seen in life]
        for partition in {partition for _, of_seen in moves for partition in of_seen}:
            some = stretches([seen for seen, of_seen in moves if partition in of_seen])
            for between, times, _ in of.lasting(some, lambda _: True, bounds["snapshots"]):
                text = next(of_seen[partition] for seen, of_seen in moves if seen.last == between[1])
                yield Shown(between, f"{text}{times}", PartitionState.path(partition), lasts=True)


@StateRule.of(controller.stuck_topic_deletion, {"snapshots": 2})
def stuck_topic_deletion(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """A topic that stays in `snapshots` of them or more, though its deletion was asked for in each."""
    for path, life in ((path, life) for path, runs in of.of_kind("topic").items() for life, _ in lives(runs)):
        known = stretches(life, of.runs(TopicDeletion.path(path_kind(path).name)))
        for between, times, _ in of.lasting(known, lambda *both: all(both) or None, bounds["snapshots"]):
            yield Shown(between, f"deletion asked for{times}, and the topic is still there", path, lasts=True)


@StateRule(
    severity="info",
    question="Which topics were made, grew, or were deleted from one snapshot to the next?",
    act="Nothing, if that was meant. Offsets of a topic that was deleted stay (offset_of_missing_partition),"
    " and keyed records of one that grew go to other partitions from then on.",
)
def topic_changed(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """A topic that is not as in the snapshot before: made, deleted, made again, or with other partitions."""
    for change in of.changes("topic"):
        was, now = _topic(change.old), _topic(change.new)
        if not change.is_same:
            size = f" with {counted(len(now.partitions), 'partition')}" if now else ""
            yield change.shown(change.turned(*_TURNED) + size)
        elif was and now and was.partitions != now.partitions:
            size = f"{counted(len(was.partitions), 'partition')} -> {len(now.partitions)}"
            old = was.partitions
            moved = [number for number, some in now.partitions.items() if old.get(number, some) != some]
            yield change.shown(f"{size}, other replicas of {moved}" if moved else size)


@StateRule(
    severity="info",
    question="Which configurations changed from one snapshot to the next?",
    act="Nothing, if that was meant. `zkgroup config describe` shows what is in force now.",
)
def config_changed(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """A configuration of a topic, broker, client, user or address that is not as in the snapshot before.

    Names only: values may be secrets.
    """
    for change in of.changes("config"):
        was, now = _settings(change.old), _settings(change.new)
        if change.path.count("/") < 3 or change.path.startswith(f"{config_path()}/changes"):
            continue
        names = named(sorted(name for name in was | now if was.get(name) != now.get(name)), _NAMED_MAX)
        if not change.is_same:
            names = named(sorted(now), _NAMED_MAX)
            yield change.shown(f"{change.path} was {change.turned(*_TURNED)}{': ' if now else ''}{names}")
        elif state_in(change.old).data != state_in(change.new).data:
            yield change.shown(f"{change.path} {f'changed: {names}' if was != now else 'was written'}")


def _settings(state: StoredZnode | None) -> dict[str, object]:
    def decode(path: str, data: bytes | None) -> dict[str, object]:
        return read_object(path, data, "a configuration")

    fields = None if state is None else decoded(decode, state.path, state.data)
    settings = (fields or {}).get("config")
    return settings if isinstance(settings, dict) else {}


@StateRule(
    severity="error",
    question="Which sessions have ephemeral znodes, though the servers do not know them?",
    act="Nothing ends such a session, so its znodes stay, and every client takes what they say for alive."
    " Find out how the server got this tree (a restored or edited snapshot), and delete the znodes.",
    is_whole=True,
)
def missing_session(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """An ephemeral whose session is missing in the list of sessions of the same snapshot.

    Of servers' snapshots: an export has no such list.
    """
    from zkgroup.audit.findings.series_columns import ephemerals_in

    for path, of_path in ephemerals_in(of.series):
        for life, state in lives(of_path):
            session, some = session_in(state) or 0, of.series.snapshots[life[0].first : life[-1].last + 1]
            # The list is written first: sessions that are younger than that are not in it.
            lists = [each for each in some if each.sessions is not None and state.stat.czxid <= each.zxid]
            missing = [each.number for each in lists if session and session not in (each.sessions or ())]
            if missing:
                detail = f"{path} is of session {hex_session(session)}, which is in no list of sessions"
                yield Shown((missing[0], missing[-1]), detail, path, session, lasts=True)


@StateRule.of(load.open_acl, is_beside=True, is_whole=True)
def open_acl(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """A znode that any client may change, and that was closed in the snapshot before."""
    from zkgroup.audit.findings.series_columns import opened

    for path, *between in opened(of.series):
        yield Shown((between[0], between[1]), f"any client may change {path}, which was closed before")


@StateRule.of(files.growth, files.growth.bounds, is_whole=True)
def growth(of: SeriesView, bounds: Bounds) -> Iterator[Shown]:
    """What came and went from one snapshot to the next, by subtree; where both know it."""
    from zkgroup.audit.findings.series_columns import growth_in

    series = of.series
    for number, detail in growth_in(series.table, series.runs, int(bounds["depth"])):
        yield Shown((number - 1, number), detail)
