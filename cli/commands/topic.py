"""`zkgroup topic`: create, list, describe, alter, delete; and their `--wait`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import click

from zkgroup.admin import Compat, NotifyFormat
from zkgroup.admin.change import ChangeResult, default_undo_folder
from zkgroup.admin.cluster.brokers import by_role, readable, registrations
from zkgroup.admin.cluster.controller import hosts_topics
from zkgroup.admin.topics import creation
from zkgroup.admin.topics import listing as admin
from zkgroup.admin.topics.alteration import AddedPartitions, alter_topic_change, plan_alteration
from zkgroup.admin.topics.creation import LeadersSeen, until_led
from zkgroup.admin.topics.deletion import (
    DeletionSeen,
    TopicDeletionPlan,
    delete_topic_change,
    plan_topic_deletion,
)
from zkgroup.errors import ConflictError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import TopicPartition
from zkgroup.model.text import counted

from .. import cluster as shown
from ..app import check_read, fail_check, note_refusals, output
from ..app import group as make_group
from ..confirm import command_text, print_result, run_at_once, run_change
from ..context import connected
from ..param_types import REPLICA_LISTS
from ..params import (
    Consent,
    broker_options,
    compat_option,
    confirm_options,
    disable_racks_option,
    set_option,
    topic_argument,
    wait_options,
)
from ..render import Output, echo_err, progress_line
from ..watching import watch_option
from .config import notify_option

NO_TOPIC = "there is no topic; make one with `zkgroup topic create TOPIC --partitions N`"

topic = make_group(
    "topic",
    help="""Create, list, describe, alter and delete topics.

    \b
    Example:
      zkgroup topic create orders --partitions 12""",
)


@topic.command()
@topic_argument()
@click.option("--partitions", type=int, metavar="N", help="Number of partitions.")
@click.option(
    "--replication-factor", type=int, default=1, show_default=True, metavar="N", help="Replicas of each."
)
@click.option(
    "--replica-assignment",
    type=REPLICA_LISTS,
    metavar="B:B,B:B...",
    help="Brokers by partition, instead of --partitions.",
)
@set_option("configs", "Set an override", aliases=["--config"])
@disable_racks_option
@click.option("--if-not-exists", is_flag=True, help="An existing topic is no error (it stays as it is).")
@click.option("--dry-run", is_flag=True, help="Only show what would be created.")
@wait_options("every partition has a leader")
def create(
    topic: str,
    partitions: int | None,
    replication_factor: int,
    replica_assignment: list[list[int]] | None,
    configs: Sequence[tuple[str, str]],
    disable_rack_aware: bool,
    if_not_exists: bool,
    dry_run: bool,
    wait_s: float | None,
) -> None:
    """Create TOPIC. Acts at once.

    `zkgroup undo` deletes the topic again, with the records that it has by then, unless it was changed since.

    \b
    Example:
      zkgroup topic create orders --partitions 12 --replication-factor 3 --set retention.ms=86400000
    """
    out, seen, undo = output(), None, None
    new: creation.NewTopic | None = None
    with connected() as ensemble:
        if not (if_not_exists and admin.topic_exists(ensemble, topic)):
            try:
                new = creation.plan_topic(
                    ensemble,
                    topic,
                    partitions=partitions,
                    replication_factor=replication_factor,
                    replica_assignment=replica_assignment,
                    configs=dict(configs),
                    rack_mode="disabled" if disable_rack_aware else "enforced",
                )
                change = creation.create_topic_change(ensemble, new)
                undo = run_at_once(change, dry_run=dry_run).undo_id
            except ConflictError:  # created in the meantime
                new = None
                if not (if_not_exists and admin.topic_exists(ensemble, topic)):
                    raise
        created = new is not None and not dry_run
        whole = new or _existing(ensemble, topic)
        as_of = ensemble.as_of()
        if wait_s is not None and whole.unhosted:
            echo_err("note: no broker hosts the topic: there is nothing to wait for")
        elif wait_s is not None and not dry_run:
            with _leaders_progress() as progress:
                seen = until_led(ensemble, topic, whole.assignment, progress)(None, wait_s)
    made = shown.TopicOutcome(topic, whole.assignment, whole.configs, created, undo, seen)
    if not shown.TOPIC_CREATION.print(out, seen.as_of if seen else as_of, made):
        verb = "created" if created else "would create" if dry_run else "kept"
        out.line(f"{verb} {out.paint(topic, 'bold')} with {counted(len(whole.assignment), 'partition')}")
    end_of_creation(seen)


def _existing(ensemble: Ensemble, topic: str) -> admin.TopicDescription:
    """The topic that stays; raises what is wrong with it."""
    echo_err(f"topic {topic} exists already and stays as it is")
    _, described, unreadable = admin.describe_topics(ensemble, [topic])
    if unreadable:
        raise unreadable[0]
    return described[0]


@topic.command("list")
def list_() -> None:
    """List every topic.

    \b
    Example:
      zkgroup topic list
    """
    out = output()
    with connected() as ensemble:
        as_of, rows = admin.list_topics(ensemble)
    if not shown.TOPIC_LIST.print(out, as_of, topics=rows):
        shown.TOPIC_SUMMARY.table(out, rows)
        if not rows:
            echo_err(NO_TOPIC)


@topic.command()
@topic_argument(many=True)
@watch_option
@click.option("--under-replicated-partitions", "under_replicated", is_flag=True, help="Only short ISRs.")
@click.option(
    "--unavailable-partitions", "unavailable", is_flag=True, help="Only those without a live leader."
)
@click.option("--replicas", is_flag=True, help="Ask brokers for log end and high watermark of each replica.")
@broker_options
def describe(topics: tuple[str, ...], under_replicated: bool, unavailable: bool, replicas: bool) -> None:
    """Show partitions, replicas, leaders and overrides of topics.

    \b
    Example:
      zkgroup topic describe orders --under-replicated-partitions
    """
    out = output()
    with connected() as ensemble:
        as_of, whole, unreadable = admin.describe_topics(ensemble, topics)
        entries = registrations(ensemble)
        access = ensemble.access
    live, described = by_role(entries).data, whole
    if under_replicated:
        described = admin.only(described, admin.is_under_replicated)
    if unavailable:
        described = admin.only(described, lambda partition: admin.is_unavailable(partition, live))
    ends = None
    if replicas:
        from zkgroup.clients.leaders import find_brokers
        from zkgroup.clients.log_ends import read_log_ends

        ends = read_log_ends(find_brokers(readable(entries), access), _replicas(described))
    if ends is None:
        document = shown.TOPICS.json(as_of, topics=described)
    else:
        from ..replica_documents import topic_replicas

        document = topic_replicas(as_of, described, ends)
    if out.format == "csv":
        rows = [{"topic": one["topic"], **row} for one in document["topics"] for row in one["partitions"]]
        keys = ("topic", *shown.TOPIC_PARTITION.keys, *(["logs"] if replicas else []))
        out.document({"partitions": rows}, "partitions", keys)
    elif not out.document(document, "topics"):
        shown.described(out, described, ends, by_zkgroup=hosts_topics(readable(entries)))
        if not described and not unreadable:
            echo_err("no partition matches" if whole else NO_TOPIC)
    note_refusals(f"{tp}: {end.reason}" for (tp, _), end in (ends or {}).items())
    errors = [*unreadable, *(error for one in whole for error in one.unreadable)]
    check_read("described", errors, rows=whole)


def _replicas(described: Sequence[admin.TopicDescription]) -> list[tuple[TopicPartition, int]]:
    """Each with its broker."""
    return [
        (TopicPartition(one.topic, row.partition), broker)
        for one in described
        for row in one.partitions
        for broker in row.replicas
    ]


@topic.command()
@topic_argument()
@click.option("--partitions", type=int, metavar="N", help="New number of partitions, more than now.")
@click.option(
    "--replica-assignment",
    type=REPLICA_LISTS,
    metavar="B:B,B:B...",
    help="Brokers by partition, instead of --partitions; those of old ones are compared only where "
    "the topic was made without brokers.",
)
@set_option("configs", "Set an override", aliases=["--config"])
@click.option(
    "--delete-config", "removed", multiple=True, metavar="NAME", help="Remove an override; may be repeated."
)
@compat_option(
    "Which release places new partitions: 0.8 takes a broker id for a position and knows no racks."
)
@disable_racks_option
@notify_option
@wait_options("every new partition has a leader")
@confirm_options
def alter(
    topic: str,
    partitions: int | None,
    replica_assignment: list[list[int]] | None,
    configs: Sequence[tuple[str, str]],
    removed: tuple[str, ...],
    assignment_compat: Compat,
    disable_rack_aware: bool,
    notify_format: NotifyFormat | None,
    wait_s: float | None,
    consent: Consent,
) -> None:
    """Add partitions to TOPIC, or change its overrides.

    What is not named stays as it is. Records keep their partitions; a key may go to another partition from
    then on. Partitions cannot be removed.

    \b
    Example:
      zkgroup topic alter orders --partitions 24 --execute
    """
    growth = AddedPartitions(
        partitions=partitions,
        replica_assignment=replica_assignment,
        compat=assignment_compat,
        rack_mode="disabled" if disable_rack_aware else "enforced",
    )
    with connected() as ensemble, _leaders_progress() as progress:
        plan = plan_alteration(ensemble, topic, growth, dict(configs), removed, format=notify_format)
        if wait_s is not None and not plan.added:
            echo_err("note: brokers apply settings without an answer: there is nothing to wait for")
        change = alter_topic_change(ensemble, plan, progress)
        result = run_change(change, shown.alteration, consent, wait_s)
    print_result(shown.TOPIC_ALTERATION, result, shown.alteration)
    end_of_creation(result.outcome)


@topic.command()
@topic_argument()
@click.option(
    "--without-broker",
    "without",
    type=click.IntRange(0),
    multiple=True,
    metavar="ID",
    help="Do not wait for this broker: it is lost, and not registered; may be repeated.",
)
@wait_options("the topic is gone")
@confirm_options
def delete(topic: str, without: tuple[int, ...], wait_s: float | None, consent: Consent) -> None:
    """Delete TOPIC, through the controller where there is one.

    Without a controller its znodes are removed. Refused while a group has members on it. Also removes what an
    unfinished deletion has left.

    A deletion waits for every broker with a replica. It continues without a lost broker that --without-broker
    names, now or while it waits; if that broker returns, the controller has it delete its replicas. Its
    process must have ended: a Kafka broker that is only paused or cut off damages a new topic of the same
    name.

    \b
    Example:
      zkgroup topic delete orders --execute --wait
    """
    with connected() as ensemble, progress_line() as show:

        def progress(detail: str) -> None:
            show(f"{topic}: {detail}", detail)

        plan = plan_topic_deletion(ensemble, topic, without)
        change = delete_topic_change(
            ensemble, plan, command_text=lambda words: command_text(*words), progress=progress
        )
        if plan.was_asked and wait_s is not None and consent.execute:
            assert change.wait is not None
            result = replace(change.preview(), outcome=change.wait(None, wait_s))
        else:
            result = run_change(change, _show_deletion, consent, wait_s)
    print_result(shown.TOPIC_DELETION, result, _show_deletion)
    if result.undo_id and plan.controller is not None:
        echo_err(f"the znodes as they were are in {default_undo_folder().file(result.undo_id)}")
    end_of_deletion(topic, result.outcome)


def _show_deletion(out: Output, result: ChangeResult[TopicDeletionPlan, None, DeletionSeen]) -> None:
    seen = result.outcome
    out.line(_summary(result.plan, executed=result.executed, gone=seen is not None and seen.gone))


def _summary(plan: TopicDeletionPlan, *, executed: bool, gone: bool) -> str:
    """Returns a line about the changes, done or planned; `gone`: after a wait the topic no longer exists."""
    if gone and plan.controller is not None:
        return f"deleted topic {plan.topic}"
    if plan.was_asked:
        return f"controller {plan.controller} was asked before to delete topic {plan.topic}"
    if plan.controller is not None:
        verb = "asked" if executed else "would ask"
        without = f" without broker {', '.join(map(str, plan.without))}" if plan.without else ""
        return f"{verb} controller {plan.controller} to delete topic {plan.topic}{without}"
    what = f"what is left of topic {plan.topic}" if plan.leftover else f"topic {plan.topic}"
    return f"{'deleted' if executed else 'would delete'} {what}: {counted(len(plan.znodes), 'znode')}"


_NAMED = 8


@contextmanager
def _leaders_progress() -> Iterator[Callable[[int, int], None]]:
    """Shows the number of partitions with a leader during the wait for leaders."""
    with progress_line() as show:
        yield lambda led, total: show(f"{led} of {counted(total, 'partition')} led", led)


def end_of_creation(seen: LeadersSeen | None) -> None:
    """Ends the command where partitions have no leader, each named with why."""
    if seen is None or not seen.leaderless:
        return
    rows = sorted(seen.leaderless.items())
    for tp, why in rows[:_NAMED]:
        echo_err(f"{tp} has no leader: {why}")
    if len(rows) > _NAMED:
        echo_err(f"and {counted(len(rows) - _NAMED, 'partition')} more")
    fail_check()


def end_of_deletion(topic: str, seen: DeletionSeen | None) -> None:
    """Ends the command where the topic is not gone, with what that waits for."""
    if seen is None or seen.gone:
        return
    echo_err(f"{topic} still exists: {seen.detail or 'nothing is known to block it'}")
    echo_err(f"check again: {command_text('topic', 'describe', topic)}")
    fail_check()
