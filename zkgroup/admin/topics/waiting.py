"""Waits until controllers have done what was asked of a topic: leaders for partitions, its deletion."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from zkgroup.admin.cluster.brokers import by_role, held_states, registrations
from zkgroup.admin.cluster.controller_info import ControllerHealth, read_controller_health
from zkgroup.admin.topics.deletion import TopicDeletionPlan
from zkgroup.admin.topics.listing import read_pending_deletions
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.groups.snapshot import DecodedZnode, decode_or_error
from zkgroup.model import TopicPartition
from zkgroup.placement.types import brokers_named
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import NO_LEADER, PartitionState, Topic
from zkgroup.znodes.config import TopicConfig

POLL_S = 0.5
"""Seconds between two reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadersSeen:
    """What the last look found."""

    as_of: AsOf
    leaderless: Mapping[TopicPartition, str]
    """Partitions without a live leader, each with why; with none, the wait was not in vain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionSeen:
    """What the last look found."""

    as_of: AsOf
    gone: bool
    detail: str | None
    """What it waits for, or why it will not end; None where nothing is known to be in its way."""


def wait_for_leaders(
    ensemble: Ensemble,
    replicas: Mapping[TopicPartition, Collection[int]],
    timeout_s: float,
    on_progress: Callable[[int, int], object],
) -> LeadersSeen:
    """Waits until each of these partitions has a leader that is registered.

    `on_progress` is called after every read: how many are led, of how many.
    """
    end_ms = ensemble.clock.now_ms() + round(timeout_s * 1000)
    while True:
        ensemble.zk.sync("/")
        states = held_states(ensemble, replicas)
        able = by_role(registrations(ensemble)).data
        unled = [tp for tp, entry in states.items() if not _is_led(entry, able)]
        on_progress(len(replicas) - len(unled), len(replicas))
        left_ms = end_ms - ensemble.clock.now_ms()
        if not unled or left_ms <= 0:
            info = read_controller_health(ensemble) if unled else None
            reasons = {
                tp: "; ".join(_why_unled(tp, replicas[tp], states[tp], able, info)) for tp in unled if info
            }
            return LeadersSeen(as_of=ensemble.as_of(), leaderless=reasons)
        ensemble.pause(min(POLL_S, left_ms / 1000))


def wait_until_gone(
    ensemble: Ensemble, plan: TopicDeletionPlan, timeout_s: float, on_change: Callable[[str], object]
) -> DeletionSeen:
    """Waits until nothing is left of the topic, or the controller has dropped the request.

    `on_change` is called with what the deletion waits for, each time that is something else.
    """
    end_ms = ensemble.clock.now_ms() + round(timeout_s * 1000)
    last: str | None = None
    while True:
        seen, is_over = _read_deletion(ensemble, plan)
        if not is_over and seen.detail is not None and seen.detail != last:
            on_change(seen.detail)
        last = seen.detail
        left_ms = end_ms - ensemble.clock.now_ms()
        if is_over or left_ms <= 0:
            return seen
        ensemble.pause(min(POLL_S, left_ms / 1000))


def _is_led(entry: DecodedZnode[PartitionState] | None, able: Collection[int]) -> bool:
    return entry is not None and entry.value is not None and entry.value.leader in able


def _why_unled(
    tp: TopicPartition,
    replicas: Collection[int],
    entry: DecodedZnode[PartitionState] | None,
    able: Collection[int],
    info: ControllerHealth,
) -> Iterator[str]:
    """What the znodes show, and what the ruling controller says."""
    if entry is not None and entry.error:
        yield str(entry.error)
        return
    if info.kind is None:
        yield "no controller lives"
    state = entry.value if entry else None
    candidates = state.isr if state and state.isr else replicas
    if set(candidates).isdisjoint(able):
        yield f"{brokers_named(sorted(candidates), 'is', 'are')} not registered, or hosting nothing"
    elif told := info.waiting.get(f"leader of {tp}"):
        yield told
    elif state is not None and state.leader != NO_LEADER:
        yield f"its leader {state.leader} is not registered"
    elif info.kind is not None:
        yield "the controller has not elected a leader yet"


def _read_deletion(ensemble: Ensemble, plan: TopicDeletionPlan) -> tuple[DeletionSeen, bool]:
    """What is left of the topic, and whether that changes no more.

    The request is read first: every controller takes it away after the topic, so that a topic which is read
    after the request was gone stays.
    """
    ensemble.zk.sync("/")
    path = Topic.path(plan.topic)
    request = ensemble.zk.find(TopicDeletion.path(plan.topic))
    found = ensemble.zk.read_many([path, TopicConfig.path(plan.topic)])
    topic, config = found.values()
    former = next((znode.stat.czxid for znode in plan.znodes if znode.path == path), None)
    made_again = topic is not None and topic.stat.czxid != former
    gone = made_again or (topic is None and config is None and request is None)
    detail = None
    if topic is not None and not gone:
        known = decode_or_error(topic, Topic.decode)
        if request is None:
            detail = "the controller has dropped the request and kept the topic (delete.topic.enable is off?)"
        elif known.error:
            detail = str(known.error)
        else:
            assert known.value is not None
            pending = read_pending_deletions(ensemble, {plan.topic: known.value}).get(plan.topic)
            detail = pending.detail if pending else None
    elif config is not None and request is None and not gone:
        detail = f"{config.path} is left; `zkgroup topic delete {plan.topic} --execute` removes it"
    return DeletionSeen(as_of=ensemble.as_of(), gone=gone, detail=detail), gone or request is None
