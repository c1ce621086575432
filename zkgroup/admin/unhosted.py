"""Which topics no broker hosts: they were made without brokers, and nobody has named one since (ADR 0029)."""

from __future__ import annotations

from collections.abc import Mapping

from zkgroup.admin.ensemble import Ensemble
from zkgroup.model import TopicPartition, Znode
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic
from zkgroup.znodes.unhosted_topics import (
    PLACEHOLDER,
    Signs,
    UnhostedTopic,
    is_unhosted,
    may_be_unhosted,
    unhosted_topics_path,
)


def unhosted_topics(
    ensemble: Ensemble, topics: Mapping[str, Topic], states: Mapping[TopicPartition, object] | None = None
) -> frozenset[str]:
    """Those of these topics that no broker hosts. Nothing is read where no topic looks so.

    `states` are what is known of those of their partitions, None for one that has none yet; not given, they
    are read.
    """
    alike = {name: topic for name, topic in topics.items() if may_be_unhosted(topic)}
    if not alike:
        return frozenset()
    known = _states(ensemble, alike) if states is None else states
    bare = [
        name
        for name, topic in alike.items()
        if all(known.get(TopicPartition(name, number)) is None for number in topic.numbers)
    ]
    if not bare:
        return frozenset()
    parent, broker = unhosted_topics_path(), BrokerRegistration.path(PLACEHOLDER[0])
    paths = [path for name in bare for path in (Topic.path(name), UnhostedTopic.path(name))]
    found = ensemble.zk.read_many([parent, broker, *paths])
    return frozenset(
        name
        for name in bare
        if (topic := found[Topic.path(name)]) is not None
        and is_unhosted(
            Signs(
                made=topic.stat.czxid,
                written=topic.stat.mzxid,
                mark=_czxid(found[UnhostedTopic.path(name)]),
                marks=_czxid(found[parent]),
                broker=_czxid(found[broker]),
            )
        )
    )


def _states(ensemble: Ensemble, topics: Mapping[str, Topic]) -> dict[TopicPartition, object]:
    paths = {
        tp: PartitionState.path(tp)
        for name, topic in topics.items()
        for tp in (TopicPartition(name, number) for number in topic.numbers)
    }
    found = ensemble.zk.read_many(list(paths.values()))
    return {tp: found[path] for tp, path in paths.items()}


def _czxid(znode: Znode | None) -> int | None:
    return None if znode is None else znode.stat.czxid
