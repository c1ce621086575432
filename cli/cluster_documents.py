"""The JSON documents of brokers, controllers, configurations, elections and usage. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from zkgroup.admin import NotifyFormat, PartitionVerdict, UncleanElectionDone
from zkgroup.admin.cluster.brokers import BrokerSummary, ForgettingPlan, LeftReplicas
from zkgroup.admin.cluster.controller import (
    ControllerDescription,
    PastController,
    Resignation,
    ResignationPlan,
)
from zkgroup.admin.cluster.usage import ClusterUsage, Counts, Usage
from zkgroup.admin.configs import ConfigDescription, ConfigPlan, shown
from zkgroup.admin.elections import Candidate, ElectionPlan, Leaderless, UncleanPlan
from zkgroup.admin.topics.alteration import AlterationPlan
from zkgroup.admin.topics.creation import LeadersSeen
from zkgroup.groups.ensemble import AsOf
from zkgroup.zookeeper.four_letter_words import ServerStatus

from .documents import NewPartition, PartitionWithoutLeader, leaderless
from .schema import BROKERS, INTEGER, STRING, Document, Json, JsonKey, Shape, given, nullable, word

_KIND = word("zkgroup", "kafka")

BROKER = Shape(
    BrokerSummary,
    *("broker", "host", given("port", INTEGER), "registered_at_ms", "version", "epoch"),
    *(given("kind", _KIND), given("role", word("data", "controller")), "controller"),
)
CONTROLLER = Document(
    "controller",
    Shape(
        ControllerDescription,
        *("controller", "epoch", "elected_at_ms", "session", given("kind", _KIND), "last_processed_zxid"),
    ),
)
EPOCH = Shape(
    PastController,
    *("epoch", "record.broker", "record.session", "record.reason", "record.from_ms", "record.until_ms"),
    *("record.load_ms", "record.ended"),
)
LEFT_REPLICAS = Shape(LeftReplicas, "topic", given("czxid", nullable(INTEGER)), "partitions", "is_there")
CONFIG = Shape(
    ConfigDescription,
    JsonKey("entity_type", STRING, lambda row: row.entity.kind),
    JsonKey("entity", STRING, lambda row: entity_name(row)),
    "configs",
)
CANDIDATE = Shape(
    Candidate,
    *("topic_partition", given("leader", nullable(INTEGER)), given("preferred", nullable(INTEGER))),
    given(
        "outcome",
        word(
            *("elects", "leads", "not_live", "not_in_isr", "no_state", "unreadable", "being_deleted"),
            "unhosted",
        ),
    ),
)
COUNTS = Shape(Counts)
SERVER = Shape(ServerStatus)
USAGE = Shape(
    Usage,
    given("quantity", word("connections", "watches", "leaf_znodes", "znodes")),
    *("early=early.value", "early_formula=early.formula"),
    *("corrected=corrected.value", "corrected_formula=corrected.formula"),
    *("measured", "measured_by", "reason"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokersDocument:
    """`broker list`."""

    brokers: Sequence[BrokerSummary]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryDocument:
    """`controller history`."""

    epochs: Sequence[PastController]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgettingDocument:
    """`broker forget`."""

    broker: int
    executed: bool
    left: Sequence[LeftReplicas]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResignationDocument:
    """`controller resign`; the last two are null where it was not waited for a successor."""

    controller: int
    epoch: int | None
    czxid: int
    executed: bool
    resigned: bool | None
    successor: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigsDocument:
    """`config describe`."""

    configs: Sequence[ConfigDescription]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChange:
    """A setting before and after; null where it is not set."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAlterationDocument:
    """`config alter`; `notification` is the format in which brokers are notified."""

    entity_type: str
    entity: str
    executed: bool
    undo: str | None
    notification: NotifyFormat
    configs: Sequence[SettingChange]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAlterationDocument:
    """`topic alter`; the last two are null where it was not waited for leaders."""

    topic: str
    executed: bool
    undo: str | None
    partitions_before: int
    partitions_after: int
    added: Sequence[NewPartition]
    configs: Sequence[SettingChange]
    converged: bool | None
    leaderless: Sequence[PartitionWithoutLeader] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionDocument:
    """`elect preferred`."""

    election: Literal["preferred"]
    executed: bool
    converged: bool | None
    partitions: Sequence[Candidate]


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanPartition:
    """A partition of an unclean election: how it was, and what the controller reported, if it did."""

    candidate: Leaderless
    result: PartitionVerdict | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElectionDocument:
    """`elect unclean`; `epoch` is that of the controller that carried it out."""

    executed: bool
    converged: bool | None
    epoch: int | None
    partitions: Sequence[UncleanPartition]


SETTING_CHANGE = Shape(SettingChange)
BROKERS_DOCUMENT = Document("brokers", Shape(BrokersDocument))
CONTROLLER_HISTORY = Document("controller_history", Shape(HistoryDocument))
FORGETTING = Document("broker_forgetting", Shape(ForgettingDocument))
RESIGNATION = Document("controller_resignation", Shape(ResignationDocument))
CONFIGS = Document("configs", Shape(ConfigsDocument))
CONFIG_ALTERATION = Document("config_alteration", Shape(ConfigAlterationDocument))
TOPIC_ALTERATION = Document("topic_alteration", Shape(TopicAlterationDocument))
ELECTION = Document("election", Shape(ElectionDocument))
UNCLEAN_PARTITION = Shape(
    UncleanPartition,
    *("candidate.topic_partition", given("replicas", BROKERS, "candidate.replicas")),
    given("leader", nullable(INTEGER), "candidate.leader"),
    given("isr", nullable(BROKERS), "candidate.isr"),
    given("live", BROKERS, "candidate.live"),
    given(
        "outcome",
        word(*("unclean", "clean", "led", "not_live", "no_state", "unreadable", "being_deleted", "unhosted")),
        "candidate.outcome",
    ),
    *("result.verdict", "elected=result.leader"),
    JsonKey("reason", nullable(STRING), lambda row: (row.result and row.result.reason) or None),
)
UNCLEAN_ELECTION = Document("unclean_election", Shape(UncleanElectionDocument))
CLUSTER_USAGE = Document(
    "cluster_usage",
    Shape(
        ClusterUsage,
        *("counts", given("release", nullable(word("0.8.2", "1.1-2.6", "2.7+", "zkgroup")))),
        *("usage=rows", "servers", "unreadable"),
    ),
)


def brokers(as_of: AsOf, rows: Sequence[BrokerSummary]) -> Json:
    """`broker list`."""
    return BROKERS_DOCUMENT.json(as_of, BrokersDocument(brokers=rows))


def controller(as_of: AsOf, one: ControllerDescription) -> Json:
    """`controller describe`."""
    return CONTROLLER.json(as_of, one)


def controller_history(as_of: AsOf, rows: Sequence[PastController]) -> Json:
    """`controller history`."""
    return CONTROLLER_HISTORY.json(as_of, HistoryDocument(epochs=rows))


def forgetting(plan: ForgettingPlan, *, executed: bool) -> Json:
    """`broker forget`."""
    made = ForgettingDocument(broker=plan.broker, executed=executed, left=plan.left)
    return FORGETTING.json(plan.as_of, made)


def resignation(plan: ResignationPlan, outcome: Resignation | None, *, executed: bool) -> Json:
    """`controller resign`."""
    made = ResignationDocument(
        controller=plan.controller,
        epoch=plan.epoch,
        czxid=plan.czxid,
        executed=executed,
        resigned=outcome.resigned if outcome else None,
        successor=outcome.successor if outcome else None,
    )
    return RESIGNATION.json(outcome.as_of if outcome else plan.as_of, made)


def configs(as_of: AsOf, rows: Sequence[ConfigDescription]) -> Json:
    """`config describe`."""
    return CONFIGS.json(as_of, ConfigsDocument(configs=rows))


def entity_name(row: ConfigDescription | ConfigPlan) -> str:
    """The owner of a configuration as below its kind: `orders`, `alice/clients/<default>`."""
    return row.entity.entity_path.partition("/")[2]


def config_alteration(plan: ConfigPlan, *, executed: bool, undo: str | None) -> Json:
    """`config alter`."""
    made = ConfigAlterationDocument(
        entity_type=plan.entity.kind,
        entity=entity_name(plan),
        executed=executed,
        undo=undo,
        notification=plan.format,
        configs=_changes(plan),
    )
    return CONFIG_ALTERATION.json(plan.as_of, made)


def topic_alteration(
    plan: AlterationPlan, *, executed: bool, undo: str | None, seen: LeadersSeen | None = None
) -> Json:
    """`topic alter`; `seen` where it was waited for leaders."""
    converged, without = leaderless(seen)
    made = TopicAlterationDocument(
        topic=plan.topic,
        executed=executed,
        undo=undo,
        partitions_before=len(plan.before.partitions),
        partitions_after=len(plan.after.partitions),
        added=[
            NewPartition(partition=number, replicas=lists) for number, lists in sorted(plan.added.items())
        ],
        configs=_changes(plan.config) if plan.config else [],
        converged=converged,
        leaderless=without,
    )
    return TOPIC_ALTERATION.json(seen.as_of if seen else plan.as_of, made)


def election(plan: ElectionPlan, *, executed: bool, converged: bool | None) -> Json:
    """`elect preferred`."""
    made = ElectionDocument(
        election="preferred", executed=executed, converged=converged, partitions=plan.rows
    )
    return ELECTION.json(plan.as_of, made)


def unclean_partitions(plan: UncleanPlan, done: UncleanElectionDone | None) -> list[UncleanPartition]:
    """The partitions of a plan; with the results once there are some."""
    results = {each.topic_partition: each for each in done.partitions} if done else {}
    return [UncleanPartition(candidate=row, result=results.get(row.topic_partition)) for row in plan.rows]


def unclean_election(
    plan: UncleanPlan, done: UncleanElectionDone | None, *, executed: bool, converged: bool | None
) -> Json:
    """`elect unclean`."""
    made = UncleanElectionDocument(
        executed=executed,
        converged=converged,
        epoch=done.epoch if done else None,
        partitions=unclean_partitions(plan, done),
    )
    return UNCLEAN_ELECTION.json(plan.as_of, made)


def usage(found: ClusterUsage) -> Json:
    """`cluster usage`."""
    return CLUSTER_USAGE.json(found.as_of, found)


def _changes(plan: ConfigPlan) -> list[SettingChange]:
    old, new = shown(plan.before.overrides), shown(plan.after.overrides)
    return [
        SettingChange(name=name, before=old.get(name), after=new.get(name)) for name, _, _ in plan.changes
    ]
