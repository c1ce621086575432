"""The end of the demo of brokers: what everybody has left is read, and judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zkgroup.admin.reassignments import MoveStatus, list_moves
from zkgroup.admin.throttling import read_throttles
from zkgroup.demo.brokers import sight
from zkgroup.demo.brokers.proof import (
    Evidence,
    Reign,
    UnderFire,
    judge,
    records_of,
    summarise,
)
from zkgroup.demo.brokers.stage import PARTITIONS, REPLICATION, Stage
from zkgroup.demo.checks import Check
from zkgroup.demo.flights import TOPIC
from zkgroup.demo.members import proof as consumers
from zkgroup.demo.members.output import decode, reduce
from zkgroup.history import ClusterFigures, ClusterOptions, check_cluster, check_history, read_files
from zkgroup.history.transaction_log import read_transactions

CONSUMED_MIN = {"claims": PARTITIONS, "commits": PARTITIONS, "deliveries": 1}
"""What the consumers' history must hold at least: none of them is killed, so owners need not change."""


@dataclass(frozen=True, slots=True)
class Acts:
    """What the acts have left in memory."""

    under_fire: UnderFire
    verified: Sequence[MoveStatus]
    quiet_from_ms: int
    """When the last of them was over, on the wall clock."""
    leaver: int
    """The broker that was decommissioned."""
    group_problems: Sequence[str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict, and the figures of the report."""

    checks: tuple[Check, ...]
    figures: ClusterFigures
    acknowledged: int
    repeated: int
    """Of these, lines that may be in the log twice, as an answer was lost."""
    consumed: int
    epochs: int
    leader_epochs: int
    """The highest of a partition."""


def close_the_books(stage: Stage, acts: Acts, logs: Sequence[Path]) -> Outcome:
    """Looks for the last time, has the brokers leave, and reads their files and the ensemble's logs."""
    stage.headline = "the end"
    stage.ensemble.zk.sync("/")
    stage.look()
    stuck = left_undone(stage, acts)
    until_zxid = stage.ensemble.as_of().zxid
    processes = (*stage.former, *stage.brokers.values())
    terms = [(one.broker, *term) for one in processes for term in one.terms]
    accounts = [Reign(epoch, one.broker) for one in processes for epoch in one.reigns]
    stage.tell("everything is at rest; reading the brokers' files and ZooKeeper's own log")
    stage.dismiss()
    leaders = {n: one.leader for n, one in stage.seen.partitions.items() if one.leader is not None}
    kept = {n: sight.lines_of(stage.data_of(leader), n) for n, leader in leaders.items()}
    log = [one for one in read_transactions(logs) if one.zxid <= until_zxid]
    verdict = check_cluster(
        log,
        records_of(TOPIC, stage.acknowledged, kept, leaders, terms),
        ClusterOptions(quiet_from_ms=acts.quiet_from_ms),
    )
    summary = summarise(log, TOPIC)
    evidence = Evidence(
        lines=len(stage.lines),
        acknowledged=stage.acknowledged,
        kept=kept,
        replication=REPLICATION,
        log=summary,
        accounts=accounts,
        verdict=verdict,
        under_fire=acts.under_fire,
        verified=[(str(row.topic_partition), row.status) for row in acts.verified],
        stuck=stuck,
    )
    consumed, checks = _consumers(stage, acts, kept)
    return Outcome(
        checks=(*judge(evidence), *checks),
        figures=verdict.figures,
        acknowledged=len(stage.acknowledged),
        repeated=sum(one.may_be_repeated for one in stage.acknowledged),
        consumed=consumed,
        epochs=len(summary.reigns),
        leader_epochs=max((one.leader_epoch for one in stage.seen.partitions.values()), default=-1),
    )


def left_undone(stage: Stage, acts: Acts) -> list[str]:
    """What is not as it should be when all is over, while everybody still runs."""
    seen, leaver = stage.seen, acts.leaver
    found = [f"{TOPIC}-{n}: {_told(one)}" for n, one in sorted(seen.partitions.items()) if not one.is_whole]
    if len(seen.partitions) != PARTITIONS:
        found.append(f"{len(seen.partitions)} of {PARTITIONS} partitions")
    _, moving, unreadable = list_moves(stage.ensemble)
    found += [f"{row.topic_partition} is still being moved" for row in moving]
    found += map(str, unreadable)
    if read_throttles(stage.ensemble, [TOPIC]):
        found.append("a throttle is left")
    if hosted := seen.hosts(leaver):
        found.append(f"broker {leaver} is in the lists of {hosted} partitions")
    if code := stage.brokers[leaver].exit_code:
        found.append(f"broker {leaver} has left with exit code {code}")
    if files := stage.files_of(leaver):
        found.append(f"broker {leaver} has kept {len(files)} files")
    return found


def _told(one: sight.PartitionSight) -> str:
    leader = "nobody leads" if one.leader is None else f"led by {one.leader}"
    return f"{leader}, in sync {len(one.isr)} of {len(one.replicas)}"


def _consumers(stage: Stage, acts: Acts, kept: dict[int, tuple[bytes, ...]]) -> tuple[int, tuple[Check, ...]]:
    """The checks of the group's demo, over what the final leaders hold."""
    reduction = reduce(decode(one.name, one.output.read_bytes()) for one in stage.members)
    histories = sorted(stage.folder.glob("*.history.jsonl"))
    evidence = consumers.Evidence(
        dealt=[kept.get(number, ()) for number in range(PARTITIONS)],
        reduction=reduction,
        committed=stage.group.offsets,
        verdict=check_history(read_files(histories)),
        group_problems=acts.group_problems,
        gone={one.name: "its session ended" for one in stage.members if one.lost_session},
        events_min=CONSUMED_MIN,
    )
    return len(reduction.processed), consumers.judge(evidence)
