"""The step that the move of one partition has reached, from the znodes in ZooKeeper. Pure."""

from __future__ import annotations

from zkgroup.znodes.brokers import PartitionState

Brokers = tuple[int, ...]

MOVE_STEPS = ("asked", "union", "announced", "in sync", "led", "shrunk", "ended")
"""The writes of a move, in order. For a target with one replica removed and one added, each is a separate
write: by the operator, the controller, the leader ("in sync") and the controller again."""


def step_of(
    target: Brokers, *, asked: bool, replicas: Brokers, state: PartitionState, epoch_before: int
) -> str:
    """The last of `MOVE_STEPS` that is written.

    Args:
        target: the requested replica list.
        asked: whether the request still contains it.
        replicas: as the topic's znode has them.
        state: of the partition.
        epoch_before: its leader epoch when the move was requested; "announced" and "led" raise it by one.
    """
    risen = state.leader_epoch - epoch_before
    if not asked:
        return "ended"
    if not set(target) <= set(replicas):
        return "asked"
    if risen < 1:
        return "union"
    if not set(target) <= set(state.isr):
        return "announced"
    if set(target) == set(state.isr):
        return "shrunk"
    return "led" if risen > 1 and state.leader in target else "in sync"


def exchange(now: Brokers, brokers: Brokers, number: int) -> Brokers | None:
    """A target in which one replica is replaced by a broker that has none; `number` chooses both.

    None where every broker has a replica, as within a move.
    """
    away = [each for each in brokers if each not in now]
    if not away:
        return None
    gone = now[number % len(now)]
    return (away[number % len(away)], *(each for each in now if each != gone))
