"""Deletion of topics, carried out as `deleting` decides it. Source: controller.md 5.5, 5.6; recipes.md 17.

Theory of operation
-------------------
A marker below `/admin/delete_topics` queues its topic: from then on clients do not see it, and it takes part
in nothing else. What remains is asked of `deleting.decide`, for all topics, until each waits or is gone; a
broker's answer and every other change make it look again.

    Start     ISR and leader go from the states, then StopReplica and StopReplica with deletion, in one batch
    answers   `heard`: deleted, or ineligible until a broker starts or a reassignment ends
    Finish    the znodes, in transactions of which the last has the topic, its configuration and the marker

A marker may name brokers that an operator does not wait for. While such a one is not registered the topic
goes without it, and `abandoned` sees to what the broker has kept (K20). It does so for what moves have left
behind, too (`strays`): no replica list names that, so only an answer that is on its way is waited for.

Nothing else is remembered that another controller would need: it finds the marker and begins anew, and
brokers answer success for what they no longer have. A marker that is taken off by hand ends a deletion that
has not begun; one that has begun is finished, as its records are gone already.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from zkgroup.controller.machine import deleting, removal, strays
from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.deleting import Finish, GiveUp, RemoveMarker, Situation, Start, Wait
from zkgroup.controller.machine.leading import remove_from_isr
from zkgroup.controller.machine.reign import Reign
from zkgroup.controller.machine.rule_books import Answer
from zkgroup.controller.machine.states import commit
from zkgroup.controller.machine.transitions import Replica, ReplicaPhase
from zkgroup.machinery.procedures import Procedure, ask, list_done
from zkgroup.model import Znode
from zkgroup.model.requests import ListChildren
from zkgroup.wire.control import StopReplicaRequest, StopReplicaResponse
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.topics import TopicDeletion, delete_topics_path

ROUNDS_MAX: Final = 10
"""Steps of one topic at one look; more only follow where somebody else keeps writing its znodes."""
AGAIN_MS: Final = 1000
"""Pause before a topic is looked at again that others keep writing, or that is not known yet."""

_Phase = ReplicaPhase
_BEGUN: Final = frozenset({_Phase.DELETION_STARTED, _Phase.DELETION_SUCCESSFUL})


def look(reign: Reign, subject: str = "") -> Procedure[None]:
    """Brings every queued topic as far as it goes now."""
    markers = yield from _read_markers(reign)
    for what in [each for each in reign.waiting if each.startswith(_name(""))]:
        if what.removeprefix(_name("")) not in markers:
            reign.wait(what, None)
    yield from _queue(reign, markers)
    _give_up(reign, markers)
    if reign.picture.deletions:
        yield from strays.recall(reign)
    yield from _advance(reign)


def has_begun(reign: Reign, topic: str) -> bool:
    """Whether a replica of the topic is deleted, or was asked to be, by this controller."""
    return not _BEGUN.isdisjoint(_phases(reign, topic).values())


def heard(reign: Reign, answer: Answer) -> None:
    """Takes the answer to a StopReplica with deletion; of queued topics alone, moves have their own."""
    request, response = answer.request.request, answer.response
    if not (isinstance(request, StopReplicaRequest) and request.delete):
        return
    assert isinstance(response, StopReplicaResponse)
    picture = reign.picture
    asked = [
        each
        for each in request.partitions
        if picture.is_going(each) and answer.broker in picture.replicas(each)
    ]
    if not asked:
        return
    deleted, failed, reason = deleting.answers(answer.broker, asked, response)
    _move(reign, _started(reign, deleted), _Phase.DELETION_SUCCESSFUL)
    _move(reign, _started(reign, failed), _Phase.DELETION_INELIGIBLE)
    if reason is not None:
        for topic in {replica.topic_partition.topic for replica in failed}:
            picture.ineligible[topic] = reason
        reign.core.note("deletion.refused", broker=answer.broker, detail=reason)
    reign.look(Look.DELETIONS)


# --- what is asked for ----------------------------------------------------------------------------


def _read_markers(reign: Reign) -> Procedure[Mapping[str, Znode]]:
    """Topic to the request to delete it."""
    query = reign.watched(ListChildren(delete_topics_path()), Look.DELETIONS)
    (outcome,) = yield from ask(query)
    names = list_done(outcome).children
    reign.only(delete_topics_path(), names)
    found = yield from reign.read_many(TopicDeletion.path(name) for name in names)
    return {name: znode for name in sorted(names) if (znode := found.get(TopicDeletion.path(name)))}


def _queue(reign: Reign, markers: Mapping[str, Znode]) -> Procedure[None]:
    """What is asked for now and was not, and what was and is no more."""
    picture, enabled = reign.picture, reign.settings.delete_topics
    unknown = {topic: Topic.path(topic) for topic in markers if topic not in picture.topics}
    there = yield from reign.read_many(unknown.values())
    yield from _pass_over_younger(reign, markers)
    for topic, marker in markers.items():
        if enabled and topic in unknown and unknown[topic] in there:
            # It was made a moment ago, or its znode cannot be read: what it has is not known.
            reign.wait(_name(topic), "waits for its znode to be readable")
            reign.look(Look.TOPICS)
            reign.later(Look.DELETIONS, AGAIN_MS)
        elif not enabled or topic in unknown:
            yield from _remove_marker(reign, topic, marker)
    batch = reign.batch()
    mine = [each for each in markers if enabled and each in picture.topics and each in reign.markers]
    fresh = [each for each in mine if each not in picture.deletions]
    for topic in fresh:
        picture.deletions.add(topic)
        reign.core.note("deletion.queued", topic=topic)
        batch.update_metadata()
    if any(each.topic in fresh for each in picture.moves):  # one that nobody can lead is not waited for
        reign.look(Look.REASSIGNMENT)
    for topic in sorted(picture.deletions - markers.keys()):
        if topic not in picture.topics:
            _forget(reign, topic)
        elif not has_begun(reign, topic):
            _forget(reign, topic)
            reign.core.note("deletion.withdrawn", topic=topic)
            batch.update_metadata(picture.partitions(topic))
            reign.look(Look.ELECTIONS)
    reign.tell(batch)


def _give_up(reign: Reign, markers: Mapping[str, Znode]) -> None:
    """Whom the markers name as lost; a move to one of them will have no end."""
    read = {topic: reign.decoded(marker, TopicDeletion.decode) for topic, marker in markers.items()}
    named = {topic: asked.without_brokers for topic, asked in read.items() if asked and asked.without_brokers}
    if named != reign.picture.given_up:
        reign.picture.given_up = named
        reign.look(Look.REASSIGNMENT)


def _pass_over_younger(reign: Reign, markers: Mapping[str, Znode]) -> Procedure[None]:
    """Markers seen for the first time; one that is older than its topic was meant for an earlier one (K21).

    Tools mark topics that there are, so somebody has deleted that one and left the marker.
    """
    picture = reign.picture
    new = [each for each in markers if reign.markers.get(each) != markers[each].stat.czxid]
    topics = yield from reign.read_many(Topic.path(each) for each in new)
    batch = reign.batch()
    for topic in new:
        found, marker = topics.get(Topic.path(topic)), markers[topic]
        if found is None or found.stat.czxid <= marker.stat.czxid:
            reign.markers[topic] = marker.stat.czxid
            continue
        reign.core.note("deletion.dropped", topic=topic, detail="the topic was made after it")
        _forget(reign, topic)
        batch.update_metadata(picture.partitions(topic))
        reign.look(Look.ELECTIONS)
        yield from _take_off(reign, topic, marker)
    reign.tell(batch)


def _take_off(reign: Reign, topic: str, marker: Znode) -> Procedure[None]:
    refusal = yield from commit(reign, deleting.remove_marker(topic, marker.stat.version))
    if refusal is None:
        reign.wait(_name(topic), None)
    elif refusal.is_conflict:
        reign.later(Look.DELETIONS, AGAIN_MS)
    else:
        reign.rest(str(refusal), [_name(topic)])


def _remove_marker(reign: Reign, topic: str, marker: Znode) -> Procedure[None]:
    """The request comes to nothing: deletion is disabled (K19), or there is no such topic."""
    now = Situation(topic, topic in reign.picture.topics, reign.settings.delete_topics, {}, ())
    step = deleting.decide(now)
    assert isinstance(step, RemoveMarker), step
    reign.core.note("deletion.dropped", topic=topic, detail=step.reason)
    _forget(reign, topic)
    yield from _take_off(reign, topic, marker)


# --- one topic ------------------------------------------------------------------------------------


def _advance(reign: Reign) -> Procedure[None]:
    """All topics together: one batch to the brokers, one bulk read, few writes, however many they are."""
    left = sorted(reign.picture.deletions)
    for _ in range(ROUNDS_MAX):
        starts: dict[str, Start] = {}
        ends: dict[str, tuple[Replica, ...]] = {}
        given_up = []
        for topic in [each for each in left if each in reign.picture.topics]:
            without = reign.picture.given_up.get(topic, ())
            step = deleting.decide(_situation(reign, topic)._replace(without=without))
            match step:
                case Start():
                    starts[topic] = step
                case GiveUp(replicas):
                    _move(reign, replicas, _Phase.DELETION_INELIGIBLE)
                    given_up.append(topic)
                case Finish(lost):
                    ends[topic] = (*lost, *strays.of_topic(reign, topic))
                case Wait(reason):
                    reign.wait(_name(topic), reason)
                case RemoveMarker():
                    raise AssertionError(f"{topic} is queued although {step.reason}")
        if starts:
            yield from _start(reign, starts)
        done = (yield from _finish(reign, ends)) if ends else ends.keys()
        left = [*given_up, *starts, *(topic for topic in ends if topic not in done)]
        if not left:
            return
    for topic in left:
        reign.wait(_name(topic), "its znodes keep changing")
    reign.later(Look.DELETIONS, AGAIN_MS)


def _situation(reign: Reign, topic: str) -> Situation:
    picture = reign.picture
    phases = _phases(reign, topic)
    asked = reign.holding.all_deleting()
    lost = [
        replica
        for replica, phase in phases.items()
        if phase is _Phase.DELETION_STARTED and replica.broker not in asked.get(replica.topic_partition, ())
    ]
    if lost:
        # The broker has bounced, or the request was never sent: nobody will answer (5.6).
        _move(reign, lost, _Phase.DELETION_INELIGIBLE)
        _move(reign, [each for each in lost if each.broker in picture.reachable], _Phase.OFFLINE)
        phases = _phases(reign, topic)
    moving = [each for each in picture.partitions(topic) if each in picture.moves]
    if moving:
        # What was refused is asked again once the reassignment is over; the start of a broker does the same.
        picture.ineligible.pop(topic, None)
    refused = picture.ineligible.get(topic)
    left = [
        replica
        for each in picture.partitions(topic)
        for broker in asked.get(each, ())
        if (replica := Replica(each, broker)) not in phases
    ]
    return Situation(topic, True, True, phases, picture.reachable, moving, refused, strays=left)


def _start(reign: Reign, steps: Mapping[str, Start]) -> Procedure[None]:
    """Hides the topics, takes their replicas out of the ISRs, stops them, has them deleted."""
    replicas = [each for step in steps.values() for each in step.replicas]
    blocked = [each for step in steps.values() for each in step.blocked]
    fresh = [each for each in (*replicas, *blocked) if _phase(reign, each) is _Phase.NON_EXISTENT]
    _move(reign, fresh, _Phase.NEW)
    _move(reign, (*blocked, *replicas), _Phase.OFFLINE)
    _move(reign, blocked, _Phase.DELETION_INELIGIBLE)
    batch = reign.batch()
    batch.update_metadata()
    # A partition that never got a state has nobody in its ISR (K24).
    in_isr = [each for each in replicas if reign.picture.standing(each.topic_partition) is not None]
    yield from remove_from_isr(reign, in_isr, batch)
    for topic_partition, broker in replicas:
        batch.stop_replica([broker], topic_partition, delete=False)
        batch.stop_replica([broker], topic_partition, delete=True)
    _move(reign, replicas, _Phase.DELETION_STARTED)
    for topic, step in steps.items():
        counts = {"replicas": len(step.replicas), "waits": len(step.blocked)}
        reign.core.note("deletion.started", topic=topic, **counts)
    reign.tell(batch)


def _finish(reign: Reign, ends: Mapping[str, Collection[Replica]]) -> Procedure[Collection[str]]:
    """The znodes of these topics go; of the replicas that stay a record is made.

    Returns of which no more is to be done now: they are gone, or wait for what refuses it.
    """
    gone, refused = yield from removal.remove(reign, ends)
    for topic, why in refused.items():
        reign.rest(why, [_name(topic)])
    reign.forget_topics(gone)
    for topic in gone:
        _gone(reign, topic, ends[topic])
    if any(ends[topic] for topic in gone):
        reign.look(Look.ABANDONED)
    return {*gone, *refused}


def _gone(reign: Reign, topic: str, left: Collection[Replica]) -> None:
    """The topic is forgotten, but for the replicas of which a record was made."""
    _forget(reign, topic)
    strays.topic_gone(reign, topic)
    reign.forget(topic)
    brokers = tuple(sorted({each.broker for each in left}))
    reign.core.note("deletion.finished", topic=topic, **({"without": brokers} if brokers else {}))


# --- the books ------------------------------------------------------------------------------------


def _phases(reign: Reign, topic: str) -> dict[Replica, ReplicaPhase]:
    """Of its replicas; a topic that nobody hosts has none."""
    picture = reign.picture
    if topic in picture.unhosted:
        return {}
    return {
        replica: _phase(reign, replica)
        for each in picture.partitions(topic)
        for replica in (Replica(each, broker) for broker in picture.replicas(each))
    }


def _phase(reign: Reign, replica: Replica) -> ReplicaPhase:
    return reign.replicas.phase(replica)


def _started(reign: Reign, replicas: Iterable[Replica]) -> list[Replica]:
    """Those that are being deleted: an answer can come when its replica was given up."""
    return [each for each in replicas if _phase(reign, each) is _Phase.DELETION_STARTED]


def _move(reign: Reign, replicas: Iterable[Replica], after: ReplicaPhase) -> None:
    for illegal in reign.replicas.move(replicas, after).illegal:
        reign.core.note("transition.illegal", detail=str(illegal))


def _forget(reign: Reign, topic: str) -> None:
    """The topic is queued no more."""
    reign.picture.deletions.discard(topic)
    if reign.holding.book.has_topic(topic):
        reign.look(Look.STRAY_RECORDS)
    reign.markers.pop(topic, None)
    reign.picture.ineligible.pop(topic, None)
    reign.wait(_name(topic), None)


def _name(topic: str) -> str:
    return f"deletion of {topic}"
