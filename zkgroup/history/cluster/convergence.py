"""L6 and L7: after the faults there is one active controller, and everything that can be done is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zkgroup.history.cluster.replay import ReplayedCluster
from zkgroup.history.report import ClusterOptions, Violation
from zkgroup.history.transactions import ServerTransaction
from zkgroup.znodes.brokers import PartitionState

DECIDED = frozenset({"L6", "L7"})
CALM_MS = 60_000
"""For so long no other controller may be elected (L6)."""


def check_settled(log: Sequence[ServerTransaction], options: ClusterOptions) -> Iterator[Violation]:
    """Decides by the picture at each deadline, and by every change of `/controller` after the first.

    `quiet_from_ms` is known. What is left of the log after a deadline decides; a log that ends before it is
    judged by its end.
    """
    assert options.quiet_from_ms is not None
    ruled_at_ms = options.quiet_from_ms + options.takeover_ms
    settled_at_ms = options.quiet_from_ms + options.recovery_ms
    picture = ReplayedCluster()
    has_ruler = is_settled = False
    for transaction in log:
        if not has_ruler and transaction.at_ms > ruled_at_ms:
            has_ruler = True
            yield from _ruled(picture)
        if not is_settled and transaction.at_ms > settled_at_ms:
            is_settled = True
            yield from left_undone(picture, options)
        if transaction.refusal is not None:
            continue
        before = picture.controller
        for change in transaction.changes:
            picture.apply(transaction, change)
        if (
            has_ruler
            and before is not None
            and before != picture.controller
            and transaction.at_ms <= ruled_at_ms + CALM_MS
        ):
            detail = f"another controller {transaction.at_ms - ruled_at_ms} ms after all was well"
            yield Violation("L6", detail, zxid=transaction.zxid)
    if not has_ruler:
        yield from _ruled(picture)
    if not is_settled:
        yield from left_undone(picture, options)


def _ruled(picture: ReplayedCluster) -> Iterator[Violation]:
    ruler = picture.controller
    if ruler is None:
        yield Violation("L6", "nobody is controller")
    elif picture.epoch_session not in (0, ruler.session):
        yield Violation("L6", f"epoch {picture.epoch} is not of the session that holds /controller")


def left_undone(picture: ReplayedCluster, options: ClusterOptions) -> Iterator[Violation]:
    """What could be done with the brokers there are, and is not. All of it is named L7.

    A move waits for its targets, and for a replica that they can copy from. A topic that was made without
    brokers needs no leaders, no deletion of replicas and no replica to copy from.
    """
    live = {id_ for id_, held in picture.brokers.items() if held.hosts} - set(options.down)
    for tp, target in sorted(picture.moves.items()):
        state, able = picture.state(tp), live.difference(options.unserved.get(tp, ()))
        source = able.intersection((picture.replicas(tp) or ()) if state is None else state.isr)
        if picture.is_unhosted(tp.topic):
            source = able
        if tp.topic not in picture.topics or (source and set(target) <= able):
            yield Violation("L7", f"the move to {_list(target)} is still open", tp)
    for topic in sorted(picture.deletions):
        known = picture.topics.get(topic)
        hosts = {each for replicas in known.partitions.values() for each in replicas} if known else set()
        if picture.is_unhosted(topic):
            hosts = set()
        if hosts <= live and not any(tp.topic == topic for tp in picture.moves):
            yield Violation("L7", f"topic {topic} is still to be deleted")
    if picture.preferred:
        yield Violation("L7", "the preferred election is still asked for")
    unhosted = {topic for topic in picture.topics if picture.is_unhosted(topic)}
    for tp in picture.partitions():
        if tp.topic not in picture.deletions and tp.topic not in unhosted:
            state, able = picture.state(tp), live.difference(options.unserved.get(tp, ()))
            yield from _leaderless(tp, picture.replicas(tp) or (), able, state, tp in picture.states)


def _leaderless(
    tp: object, replicas: Sequence[int], live: set[int], state: PartitionState | None, known: bool
) -> Iterator[Violation]:
    if state is None:
        if not known and live.intersection(replicas):
            yield Violation("L7", f"{tp} has no state, and {_list(live.intersection(replicas))} live")
        return
    if state.leader in live:
        return
    if able := live.intersection(state.isr).intersection(replicas):
        detail = f"{tp} is led by {state.leader}, which is gone, and {_list(able)} could"
        yield Violation("L7", detail)


def _list(brokers: Sequence[int] | set[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))
