"""How far the move of one partition is, by what ZooKeeper has of it. Pure."""

from __future__ import annotations

from zkgroup.znodes.brokers import PartitionState

Brokers = tuple[int, ...]

MOVE_STEPS = ("asked", "union", "announced", "in sync", "led", "shrunk", "ended")
"""What is written down of a move, one after the other. Of a target that leaves somebody out and takes
somebody in each is a write of its own: of the operator, the controller, the leader ("in sync") and the
controller again."""


def step_of(
    target: Brokers, *, asked: bool, replicas: Brokers, state: PartitionState, epoch_before: int
) -> str:
    """The last of `MOVE_STEPS` that is written down.

    Args:
        target: the replica list that was asked for.
        asked: whether the request still has it.
        replicas: as the topic's znode has them.
        state: of the partition.
        epoch_before: its leader epoch when the move was asked for; "announced" and "led" raise it by one.
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
    """A target with one replica less and another one in its place; `number` chooses which.

    None where every broker has a replica, as within a move.
    """
    away = [each for each in brokers if each not in now]
    if not away:
        return None
    gone = now[number % len(now)]
    return (away[number % len(away)], *(each for each in now if each != gone))
