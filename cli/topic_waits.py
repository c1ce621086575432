"""`--wait` of `topic create`, `alter` and `delete`: progress while it waits, and how it ended."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import click

from zkgroup.admin.ensemble import Ensemble
from zkgroup.admin.topic_deletion import TopicDeletionPlan
from zkgroup.admin.topic_waiting import DeletionSeen, LeadersSeen, wait_for_leaders, wait_until_gone
from zkgroup.model import TopicPartition

from .consent import command_words
from .output import say
from .progress import progress_line
from .units import counted

EXIT_CHECK_FAILED = 3

_NAMED = 8


def until_led(
    ensemble: Ensemble, topic: str, replicas: Mapping[int, Collection[int]], longest_s: float
) -> LeadersSeen:
    """Waits for leaders of these partitions of the topic, given with their replicas."""
    lists = {TopicPartition(topic, number): brokers for number, brokers in replicas.items()}
    with progress_line() as show:
        return wait_for_leaders(
            ensemble,
            lists,
            longest_s,
            lambda led, total: show(f"{led} of {counted(total, 'partition')} led", led),
        )


def until_gone(ensemble: Ensemble, plan: TopicDeletionPlan, longest_s: float) -> DeletionSeen:
    """Waits for the end of the deletion."""
    with progress_line() as show:
        return wait_until_gone(
            ensemble, plan, longest_s, lambda detail: show(f"{plan.topic}: {detail}", detail)
        )


def end_of_creation(seen: LeadersSeen | None) -> None:
    """Ends the command where partitions have no leader, each named with why."""
    if seen is None or not seen.leaderless:
        return
    rows = sorted(seen.leaderless.items())
    for tp, why in rows[:_NAMED]:
        say(f"{tp} has no leader: {why}")
    if len(rows) > _NAMED:
        say(f"and {counted(len(rows) - _NAMED, 'partition')} more")
    click.get_current_context().exit(EXIT_CHECK_FAILED)


def end_of_deletion(topic: str, seen: DeletionSeen | None) -> None:
    """Ends the command where the topic is not gone, with what that waits for."""
    if seen is None or seen.gone:
        return
    say(f"{topic} is not gone: {seen.detail or 'nothing is known to be in its way'}")
    say(f"look again: {command_words('topic', 'describe', topic)}")
    click.get_current_context().exit(EXIT_CHECK_FAILED)
