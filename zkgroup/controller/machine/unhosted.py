"""Topics that were made without brokers: left alone until somebody names brokers. Source: ADR 0029.

Theory of operation
-------------------
A topic for sharing partitions alone has `[0]` as every replica list, and no broker is meant by it. A mark
that was made with it says so; where the tree was made before there were marks, its look does
(`znodes.unhosted_topics`). As long as it stands nobody makes a state, so nothing is ever sent of it, and its
deletion has nobody to wait for.

    judge     which topics these are, whenever topics and their states have been read
    host      a request names brokers: the mark goes and the lists come in one write

`zkgroup topic alter` does what `host` does. The lists of a topic that nobody hosts are therefore taken as
they are found, not put back as those of others are (`topics`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.fence import Write
from zkgroup.controller.machine.picture import Brokers, TopicSeen
from zkgroup.controller.machine.reign import Reign
from zkgroup.controller.machine.states import commit
from zkgroup.errors import ConfigError
from zkgroup.machinery.procedures import Procedure
from zkgroup.model.requests import Check, Delete, Operation, SetData
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.unhosted_topics import (
    PLACEHOLDER,
    Signs,
    UnhostedTopic,
    is_unhosted,
    may_be_unhosted,
    unhosted_topics_path,
)

AGAIN_MS: Final = 1_000
"""Pause before a topic that somebody has written meanwhile gets its brokers."""


def judge(reign: Reign, names: Iterable[str]) -> Procedure[None]:
    """Notes in the picture which of these topics nobody hosts. Their states have just been read.

    Nothing is asked where no topic looks so. A mark that an ACL hides counts: what it may say is kept to.
    """
    picture = reign.picture
    asked = list(names)
    bare = {name: seen for name in asked if (seen := _bare(reign, name)) is not None}
    if not bare:
        picture.unhosted.difference_update(asked)
        return
    parent = unhosted_topics_path()
    paths = [path for name in bare for path in (Topic.path(name), UnhostedTopic.path(name))]
    found = yield from reign.read_many([parent, *paths])
    broker = picture.brokers.get(PLACEHOLDER[0])
    picture.unhosted.difference_update(asked)
    for name, seen in bare.items():
        topic, mark = found.get(Topic.path(name)), found.get(UnhostedTopic.path(name))
        if topic is None:
            continue
        signs = Signs(
            made=topic.stat.czxid,
            written=topic.stat.mzxid,
            mark=mark.stat.czxid if mark else None,
            marks=found[parent].stat.czxid if parent in found else None,
            broker=broker.epoch if broker else None,
        )
        is_changed = topic.stat.version != seen.version
        if is_changed:  # by somebody who has named brokers, perhaps: his lists are to be read first
            reign.look(Look.TOPIC, name)
        if is_changed or is_unhosted(signs) or UnhostedTopic.path(name) in picture.unreadable:
            picture.unhosted.add(name)


def host(reign: Reign) -> Procedure[None]:
    """Gives the topics that nobody hosts the brokers that moves of their partitions name.

    The others of their partitions are broker 0's from then on, as their lists say. Nothing is copied: their
    first states are made as those of new topics are (`Look.TOPIC`), and then the moves are looked at again.
    """
    picture, wanted = reign.picture, dict[str, dict[int, Brokers]]()
    for each, move in reign.moves.items():
        if picture.is_unhosted(each):
            wanted.setdefault(each.topic, {})[each.partition] = move.target
    if not wanted or reign.moves.request is None:
        return
    marks = yield from reign.read_many(map(UnhostedTopic.path, wanted))
    for name, targets in wanted.items():
        seen, mark = picture.topic(name), marks.get(UnhostedTopic.path(name))
        assert seen is not None
        operations: list[Operation] = [Check(Reassignment.path(), reign.moves.request.version)]
        if mark is not None:
            operations.append(Delete(mark.path, mark.stat.version))
        topic = seen.topic.with_all_replicas({number: (told, (), ()) for number, told in targets.items()})
        try:
            operations.append(SetData(Topic.path(name), topic.encode(), seen.version))
        except ConfigError as error:
            reign.report(Topic.path(name), str(error))
            continue
        refusal = yield from commit(reign, Write(name, tuple(operations)))
        if refusal is None:
            picture.unhosted.discard(name)
            reign.look(Look.TOPIC, name)
            reign.look(Look.REASSIGNMENT)
            reign.core.note("topic.hosted", topic=name, partitions=len(targets))
        elif refusal.is_conflict:
            reign.later(Look.REASSIGNMENT, AGAIN_MS)
        else:
            reign.rest(str(refusal), [f"move of {name}-{number}" for number in targets])


def _bare(reign: Reign, name: str) -> TopicSeen | None:
    """The topic, if its lists are those of one without brokers, and there is no state, nor one unreadable."""
    seen, unreadable = reign.picture.topic(name), reign.picture.unreadable
    if seen is None or seen.standings or seen.hosts.keys() != set(PLACEHOLDER):
        return None
    paths = PartitionState.paths_of(name, seen.topic.numbers)
    return seen if may_be_unhosted(seen.topic) and unreadable.keys().isdisjoint(paths) else None
