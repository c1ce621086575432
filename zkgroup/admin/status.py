"""The ensemble on one screen, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zkgroup.admin.brokers import Brokers, live_brokers
from zkgroup.admin.ensemble import AsOf, Ensemble
from zkgroup.admin.groups import list_groups
from zkgroup.admin.picture import held
from zkgroup.admin.topics import (
    TopicDescription,
    TopicSummary,
    describe_topics,
    is_unavailable,
    is_under_replicated,
    list_topics,
)
from zkgroup.admin.values import GroupState, GroupSummary
from zkgroup.znodes.controller import Controller, ControllerEpoch

NUMBERS_SHOWN = 8
"""Partitions that a finding names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    as_of: AsOf
    session_timeout_ms: int
    """As granted to us just now."""
    brokers: Brokers
    controller: int | None
    controller_epoch: int | None
    topics: tuple[TopicSummary, ...]
    groups: tuple[GroupSummary, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a person should know, and what to type next."""

    severity: str
    """`error`, `warning` or `info`."""
    subject: str
    detail: str
    next: str | None = None
    """The command to run."""


def read_status(ensemble: Ensemble) -> Status:
    """Brokers, controller, topics and groups. Takes 2 s more when a group is wrong and looks still."""
    session = ensemble.zk.wait_connected()
    found = ensemble.zk.read_many([Controller.path(), ControllerEpoch.path()])
    controller, epoch = found[Controller.path()], found[ControllerEpoch.path()]
    ruler = held(controller, Controller.decode).value if controller else None
    count = held(epoch, ControllerEpoch.decode).value if epoch else None
    brokers = live_brokers(ensemble)
    _, topics = list_topics(ensemble)
    as_of, groups = list_groups(ensemble)
    return Status(
        as_of=as_of,
        session_timeout_ms=session.timeout_ms,
        brokers=brokers,
        controller=ruler.broker if ruler else None,
        controller_epoch=count.epoch if count else None,
        topics=topics,
        groups=groups,
    )


def read_findings(ensemble: Ensemble, *, wanted_timeout_ms: int) -> tuple[AsOf, tuple[Finding, ...]]:
    """Reads everything that `doctor` judges."""
    status = read_status(ensemble)
    _, topics, _ = describe_topics(ensemble)
    leaving = {topic.topic for topic in status.topics if topic.marked_for_deletion}
    staying = [topic for topic in topics if topic.topic not in leaving]
    partitions = diagnose_partitions(staying, status.brokers.data)
    return status.as_of, diagnose(status, partitions, wanted_timeout_ms=wanted_timeout_ms)


def diagnose(
    status: Status, partitions: Sequence[Finding] = (), *, wanted_timeout_ms: int
) -> tuple[Finding, ...]:
    """What is wrong or worth knowing, the worst first; `partitions` as `diagnose_partitions` says."""
    order = {"error": 0, "warning": 1, "info": 2}
    found = [
        *_groups(status.groups),
        *_topics(status),
        *partitions,
        *_brokers(status),
        *_session(status, wanted_timeout_ms),
    ]
    return tuple(sorted(found, key=lambda finding: order[finding.severity]))


def diagnose_partitions(topics: Sequence[TopicDescription], live: Sequence[int]) -> tuple[Finding, ...]:
    """Partitions without a live leader, and those with replicas missing from the ISR.

    One that no controller has written a state of is wrong only where brokers are registered.
    """
    offline: list[Finding] = []
    short: list[Finding] = []
    for topic in topics:
        known = [row for row in topic.partitions if live or row.leader is not None]
        gone = [row.partition for row in known if is_unavailable(row, live)]
        behind = [row.partition for row in known if row.partition not in gone and is_under_replicated(row)]
        describe = f"zkgroup topic describe {topic.topic}"
        if gone:
            detail = f"no live leader for partition {_listed(gone)}"
            offline.append(Finding("error", f"topic {topic.topic}", detail, describe))
        if behind:
            detail = f"replicas are not in sync for partition {_listed(behind)}"
            short.append(Finding("warning", f"topic {topic.topic}", detail, describe))
    return (*offline, *short)


def _listed(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:NUMBERS_SHOWN]))
    rest = len(numbers) - NUMBERS_SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown


def _groups(groups: Sequence[GroupSummary]) -> Iterator[Finding]:
    for group in groups:
        subject, verify = f"group {group.group}", f"zkgroup group verify {group.group}"
        if group.state is GroupState.INCONSISTENT:
            detail = f"owners are missing ({group.unowned}) or wrong, and nothing moves"
            yield Finding("error", subject, detail, verify)
        elif group.state is GroupState.REBALANCING:
            yield Finding("info", subject, "is rebalancing", f"{verify} --wait")
        elif group.state is GroupState.FROZEN:
            yield Finding("warning", subject, "is frozen: nothing moves")
        elif group.members and not group.partitions:
            wanted = ", ".join(group.topics) or "no topic that exists"
            create = f"zkgroup topic create {group.topics[0]} --partitions N" if group.topics else None
            yield Finding("warning", subject, f"has nothing to share: it subscribes to {wanted}", create)


def _topics(status: Status) -> Iterator[Finding]:
    for topic in status.topics:
        subject = f"topic {topic.topic}"
        if topic.partitions is None:
            yield Finding(
                "error", subject, "its znode cannot be read", f"zkgroup topic describe {topic.topic}"
            )
        if topic.marked_for_deletion and status.controller is None:
            detail = "waits to be deleted, but no controller lives"
            yield Finding("warning", subject, detail, f"zkgroup topic delete {topic.topic}")
        elif topic.marked_for_deletion:
            detail = "is being deleted; that waits for every broker with a replica"
            yield Finding("info", subject, detail, f"zkgroup topic describe {topic.topic}")


def _brokers(status: Status) -> Iterator[Finding]:
    for text in status.brokers.unreadable:
        yield Finding("error", "broker", f"{text}: every JVM member fails its rebalances on it")
    if status.brokers.data and status.controller is None:
        yield Finding("error", "controller", "brokers are registered, but none is controller")
    if not status.brokers.data:
        yield Finding("info", "brokers", "none is registered: JVM members wait for one, ours need none")


def _session(status: Status, wanted_ms: int) -> Iterator[Finding]:
    granted = status.session_timeout_ms
    if granted != wanted_ms:
        limits = "minSessionTimeout and maxSessionTimeout of the servers"
        yield Finding("warning", "session", f"asked for {wanted_ms} ms, granted {granted} ms: see {limits}")
