"""Evaluates a subscription against the topics that exist (kafka/consumer/TopicFilter.scala@0.8.2.2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, assert_never

from zkgroup.java_regex import compile_java, normalise
from zkgroup.model import Blacklist, StaticSubscription, Subscription, Whitelist

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets"})

_ZNODE_NAME: Final = re.compile(r"(?!\.{1,2}$)[^/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]+")
"""A valid name in a path (org.apache.zookeeper.common.PathUtils); Java reads pairs of surrogates."""

__all__ = ["INTERNAL_TOPICS", "compile_java", "evaluate", "normalise"]


def evaluate(subscription: Subscription, topics: Iterable[str], exclude_internal: bool) -> Mapping[str, int]:
    """Topic to thread count: the topics of a static subscription, or those that a wildcard matches.

    A static subscription keeps its topics whether they exist or not, except names that no znode can have: a
    registration of another client may contain them, and a request for their znodes would be an error. A
    whitelist accepts and a blacklist refuses by the whole name. Both leave out internal topics when
    `exclude_internal` is set, which is the setting of the member that evaluates. Raises as `compile_java`.
    """
    match subscription:
        case StaticSubscription(named):
            return {topic: threads for topic, threads in named.items() if _ZNODE_NAME.fullmatch(topic)}
        case Whitelist(expression, threads):
            accepted = True
        case Blacklist(expression, threads):
            accepted = False
        case _:
            assert_never(subscription)
    pattern = compile_java(normalise(expression))
    hidden = INTERNAL_TOPICS if exclude_internal else frozenset()
    return {
        topic: threads
        for topic in sorted(topics)
        if topic not in hidden and (pattern.fullmatch(topic) is not None) is accepted
    }
