"""`zkgroup topic`: create, list, describe, alter, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from zkgroup.admin import topic_creation
from zkgroup.admin import topics as admin
from zkgroup.admin.brokers import by_role, readable, registrations
from zkgroup.admin.ensemble import Ensemble
from zkgroup.admin.topic_deletion import TopicDeletionPlan, delete_topic, plan_topic_deletion
from zkgroup.admin.topic_growth import Growth, alter_topic, plan_alteration
from zkgroup.admin.undoing import replica_lists
from zkgroup.admin.words import Compat, NotifyFormat
from zkgroup.errors import ConflictError, PartlyDoneError
from zkgroup.model import TopicPartition

from . import cluster_documents, documents, topic_tables, topic_waits
from .config_changes import config_way_back, notify_option
from .connection import connected
from .consent import (
    NO_WAY_BACK_OF_BROKERS,
    as_they_are,
    command_words,
    is_wanted,
    made_at,
    recorded,
    say_no_way_back,
    undo_folder,
)
from .frame import group as make_group
from .frame import output
from .options import consent_options, disable_racks_option, topic_argument, wait_options, wait_s
from .output import say
from .parameters import Assignment, ReplicaLists
from .units import counted

NO_WAY_BACK = "partitions cannot be taken away"

NO_RECORDS = "brokers drop the records"

NO_UNHOSTED = "next to brokers no topic is made without them"

NO_TOPIC = "there is no topic; make one with `zkgroup topic create TOPIC --partitions N`"

topic = make_group("topic", help="Create, look at, alter and delete topics.")


@topic.command()
@topic_argument()
@click.option("--partitions", type=int, metavar="N", help="Number of partitions.")
@click.option(
    "--replication-factor", type=int, default=1, show_default=True, metavar="N", help="Replicas of each."
)
@click.option(
    "--replica-assignment", type=ReplicaLists(), metavar="B:B,B:B...", help="Brokers by partition, instead."
)
@click.option(
    "--set",
    "--config",
    "configs",
    type=Assignment("NAME", "VALUE"),
    multiple=True,
    metavar="NAME=VALUE",
    help="An override; may be repeated. --config is an alias.",
)
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
    wait: bool,
    timeout_ms: int | None,
) -> None:
    """Create TOPIC. Acts at once.

    `zkgroup undo` deletes it again, with the records that it has by then, unless somebody has changed it.
    """
    out, longest, seen, undo = output(), wait_s(wait, timeout_ms), None, None
    with connected() as ensemble:
        described = None
        if not (if_not_exists and admin.topic_exists(ensemble, topic)):
            new = topic_creation.plan_topic(
                ensemble,
                topic,
                partitions=partitions,
                replication_factor=replication_factor,
                replica_assignment=replica_assignment,
                configs=dict(configs),
                rack_mode="disabled" if disable_rack_aware else "enforced",
            )
            for note in new.notes:
                say(f"note: {note}")
            if dry_run:
                topic_creation.check_new(ensemble, topic)
            made = False
            if not dry_run:
                made, undo = _made(ensemble, new, if_not_exists=if_not_exists)
            if dry_run or made:
                described = topic_creation.describe_new(new)
        created = described is not None and not dry_run
        described = described or _as_it_is(ensemble, topic)
        as_of = ensemble.as_of()
        if longest is not None and described.unhosted:
            say("note: no broker hosts the topic: there is nothing to wait for")
        elif longest is not None and not dry_run:
            lists = {row.partition: row.replicas for row in described.partitions}
            seen = topic_waits.until_led(ensemble, topic, lists, longest)
    document = documents.topic_creation(as_of, described, created=created, undo=undo, seen=seen)
    if not out.document(document):
        verb = "created" if created else "would create" if dry_run else "kept"
        out.line(f"{verb} {out.paint(topic, 'bold')} with {counted(len(described.partitions), 'partition')}")
    topic_waits.end_of_creation(seen)


def _made(
    ensemble: Ensemble, new: topic_creation.NewTopic, *, if_not_exists: bool
) -> tuple[bool, str | None]:
    """Creates the topic, with the id of its undo; False where somebody was faster and that is no error."""
    back = "topic", "delete", new.topic
    try:
        with recorded(ensemble, needed=False, command_back=back, left=new.znodes) as act:
            zxid = topic_creation.create_topic(ensemble, new)
    except ConflictError:
        if if_not_exists and admin.topic_exists(ensemble, new.topic):
            return False, None
        raise
    return True, made_at(act, zxid)


def _as_it_is(ensemble: Ensemble, topic: str) -> admin.TopicDescription:
    """The topic that stays; raises what is wrong with it."""
    say(f"topic {topic} exists already and stays as it is")
    _, described, unreadable = admin.describe_topics(ensemble, [topic])
    if unreadable:
        raise unreadable[0]
    return described[0]


@topic.command("list")
def list_() -> None:
    """Every topic."""
    out = output()
    with connected() as ensemble:
        as_of, rows = admin.list_topics(ensemble)
    if not out.document(documents.topic_list(as_of, rows), "topics", topic_tables.LIST_KEYS):
        topic_tables.topics(out, rows)
        if not rows:
            say(NO_TOPIC)


@topic.command()
@topic_argument(many=True)
@click.option("--under-replicated-partitions", "under_replicated", is_flag=True, help="Only short ISRs.")
@click.option(
    "--unavailable-partitions", "unavailable", is_flag=True, help="Only those without a live leader."
)
@click.option(
    "--replicas", is_flag=True, help="Ask our brokers for log end and high watermark of each replica."
)
def describe(topics: tuple[str, ...], under_replicated: bool, unavailable: bool, replicas: bool) -> None:
    """Partitions, replicas, leaders and overrides of TOPIC, or of all topics."""
    out = output()
    with connected() as ensemble:
        as_of, whole, unreadable = admin.describe_topics(ensemble, topics)
        entries = registrations(ensemble)
    live, described = by_role(entries).data, whole
    if under_replicated:
        described = admin.only(described, admin.is_under_replicated)
    if unavailable:
        described = admin.only(described, lambda partition: admin.is_unavailable(partition, live))
    ends = None
    if replicas:
        from zkgroup.lines.log_ends import read_log_ends

        ends = read_log_ends(readable(entries), _replicas(described))
    document = documents.topics(as_of, described, ends)
    if out.format == "csv":
        rows = [{"topic": one["topic"], **row} for one in document["topics"] for row in one["partitions"]]
        keys = (*topic_tables.PARTITION_KEYS, *(["logs"] if replicas else []))
        out.document({"partitions": rows}, "partitions", keys)
    elif not out.document(document, "topics"):
        topic_tables.described(out, described, ends)
        if not described and not unreadable:
            say("no partition is so" if whole else NO_TOPIC)
    errors = [*unreadable, *(error for one in whole for error in one.unreadable)]
    if errors:
        told = "; ".join(map(str, errors))
        raise PartlyDoneError(f"not described: {told}") if whole else errors[0]


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
@click.option("--partitions", type=int, metavar="N", help="So many partitions, more than there are.")
@click.option(
    "--replica-assignment",
    type=ReplicaLists(),
    metavar="B:B,B:B...",
    help="Brokers by partition, instead of --partitions; those of old ones are looked at only where "
    "the topic was made without brokers.",
)
@click.option(
    "--set",
    "--config",
    "configs",
    type=Assignment("NAME", "VALUE"),
    multiple=True,
    metavar="NAME=VALUE",
    help="Set an override; may be repeated. --config is an alias.",
)
@click.option(
    "--delete-config", "removed", multiple=True, metavar="NAME", help="Remove an override; may be repeated."
)
@click.option(
    "--assignment-compat",
    type=click.Choice(["0.8", "0.10"]),
    default="0.10",
    show_default=True,
    help="Whose rule places new partitions: 0.8 takes a broker id for a position and knows no racks.",
)
@disable_racks_option
@notify_option
@wait_options("every new partition has a leader")
@consent_options
def alter(
    topic: str,
    partitions: int | None,
    replica_assignment: list[list[int]] | None,
    configs: Sequence[tuple[str, str]],
    removed: tuple[str, ...],
    assignment_compat: Compat,
    disable_rack_aware: bool,
    notify_format: NotifyFormat | None,
    wait: bool,
    timeout_ms: int | None,
    execute: bool,
    yes: bool,
) -> None:
    """Give TOPIC more partitions, or other overrides. What is not named stays as it is.

    Records keep their partitions; a key may go to another one from then on. Partitions cannot be taken away.
    """
    out, longest, seen = output(), wait_s(wait, timeout_ms), None
    growth = Growth(
        partitions=partitions,
        replica_assignment=replica_assignment,
        compat=assignment_compat,
        rack_mode="disabled" if disable_rack_aware else "enforced",
    )
    with connected() as ensemble:
        plan = plan_alteration(ensemble, topic, growth, dict(configs), removed, format=notify_format)
        for note in plan.notes:
            say(f"note: {note}")
        why = NO_WAY_BACK_OF_BROKERS if plan.gets_brokers else NO_WAY_BACK
        if plan.added:
            say_no_way_back(why)
        elif longest is not None:
            say("note: brokers apply settings without a word: there is nothing to wait for")
        changes = bool(plan.added or (plan.config and plan.config.changes))
        act = None
        how = {"way_back": why} if plan.config is None or plan.added else config_way_back(plan.config)
        if changes and is_wanted(
            execute, yes, f"Alter topic {topic}?", lambda aside: topic_tables.alteration(aside, plan)
        ):
            before = as_they_are(plan.znode, plan.config.znode if plan.config else None)
            with recorded(ensemble, znodes=before, **how) as act:
                alter_topic(ensemble, plan)
            if longest is not None and plan.added and not plan.unhosted:
                seen = topic_waits.until_led(ensemble, topic, plan.added, longest)
    document = cluster_documents.topic_alteration(
        plan, executed=act is not None, undo=act.undo_id if act else None, seen=seen
    )
    if not out.document(document):
        topic_tables.alteration(out, plan, executed=act is not None)
    topic_waits.end_of_creation(seen)


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
@consent_options
def delete(
    topic: str,
    without: tuple[int, ...],
    wait: bool,
    timeout_ms: int | None,
    execute: bool,
    yes: bool,
) -> None:
    """Delete TOPIC: through the controller where one lives, else by removing its znodes.

    Refused while a group has members on it. Also removes what a deletion in part has left.

    A deletion waits for every broker with a replica. It goes on without a lost one that --without-broker
    names, now or while it waits; should that broker come back, it is told to delete what it has. Its process
    has to have ended: one of Kafka that is only paused or cut off spoils a new topic of that name.
    """
    out, longest, seen = output(), wait_s(wait, timeout_ms), None
    with connected() as ensemble:
        plan = plan_topic_deletion(ensemble, topic, without)
        if plan.users:
            delete_topic(ensemble, plan)  # raises: says who is on it
        for note in plan.notes:
            say(f"note: {note}")
        if plan.idle_groups:
            kept = f"offsets of {topic}, where a new topic of that name would resume"
            say(f"note: left in {', '.join(plan.idle_groups)}: {kept}")
        if plan.controller is not None:
            say_no_way_back(NO_UNHOSTED if plan.unhosted else NO_RECORDS)
        undo = None
        if plan.was_asked and longest is not None and execute:
            seen = topic_waits.until_gone(ensemble, plan, longest)
        elif is_wanted(
            execute,
            yes,
            f"Delete topic {topic}{_without(plan)}?",
            lambda aside: aside.line(_told(plan, executed=False)),
        ):
            how: dict[str, Any] = {} if plan.controller is None else {"way_back": _made_anew(plan)}
            with recorded(ensemble, znodes=as_they_are(*plan.znodes), **how) as act:
                delete_topic(ensemble, plan)
            undo = act.undo_id
            if longest is not None:
                seen = topic_waits.until_gone(ensemble, plan, longest)
    if not out.document(documents.topic_deletion(plan, undo=undo, seen=seen)):
        out.line(_told(plan, executed=undo is not None))
    if undo and plan.controller is not None:
        say(f"the znodes as they were are in {undo_folder().file(undo)}")
    topic_waits.end_of_deletion(topic, seen)


def _made_anew(plan: TopicDeletionPlan) -> str:
    """Why there is no way back, and how the topic is made again as far as that goes."""
    lists = replica_lists(plan.znodes)
    if lists is None:
        return NO_RECORDS
    if plan.unhosted:
        count = str(len(lists.split(",")))
        words = command_words("topic", "create", plan.topic, "--partitions", count)
        return f"{NO_UNHOSTED}; `{words}` makes it anew, on brokers"
    words = command_words("topic", "create", plan.topic, "--replica-assignment", lists)
    return f"{NO_RECORDS}; `{words}` makes it anew, empty"


def _told(plan: TopicDeletionPlan, *, executed: bool) -> str:
    if plan.was_asked:
        return f"controller {plan.controller} was asked before to delete topic {plan.topic}"
    if plan.controller is not None:
        verb = "asked" if executed else "would ask"
        return f"{verb} controller {plan.controller} to delete topic {plan.topic}{_without(plan)}"
    what = f"what is left of topic {plan.topic}" if plan.leftover else f"topic {plan.topic}"
    return f"{'deleted' if executed else 'would delete'} {what}: {counted(len(plan.znodes), 'znode')}"


def _without(plan: TopicDeletionPlan) -> str:
    """Whom the deletion does not wait for, as the end of a phrase."""
    return f" without broker {', '.join(map(str, plan.without))}" if plan.without else ""
