"""Reads the files that a run of `zkgroup demo coordinator` has left, and checks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zkgroup.coordinator.slots import slot_of
from zkgroup.demo.brokers.checks import at_rest_from, records_of
from zkgroup.demo.brokers.demo_cluster import values_of
from zkgroup.demo.coordinator.checks import CoordinatorEvidence, HandedOver, check_group
from zkgroup.demo.coordinator.cluster import GROUP, CoordinatorCluster
from zkgroup.demo.coordinator.stored_group import check_generations_of_commits, read_history
from zkgroup.demo.flight_data import PARTITIONS, TOPIC, decode_line, reduce
from zkgroup.demo.progress import CheckResult
from zkgroup.groups.ensemble import AsOf
from zkgroup.history import ClusterFigures, check_cluster, check_history, read_files
from zkgroup.history.transactions import read_transactions


@dataclass(frozen=True, slots=True)
class CoordinatorOutcome:
    """The checks and the figures of the report."""

    checks: tuple[CheckResult, ...]
    records: int
    twice: int
    records_of: Mapping[str, int]
    """Member to the number of records that it processed."""
    generations: int
    coordinators: tuple[int, ...]
    figures: ClusterFigures
    as_of: AsOf


def collect(
    stage: CoordinatorCluster,
    logs: Sequence[Path],
    *,
    handed_over: HandedOver,
    problems: Sequence[str],
    zookeeper_members: Sequence[str],
    quiet_from_ms: int,
) -> CoordinatorOutcome:
    """Stops the brokers, and reads their files, the members' files and ZooKeeper's log."""
    stage.headline = "the end"
    stage.ensemble.zk.sync("/")
    stage.refresh()
    as_of = stage.ensemble.as_of()
    stage.log("nothing changes any more; reading the brokers' files and ZooKeeper's own log")
    processes = (*stage.former, *stage.brokers.values())
    terms = [(one.broker, *term) for one in processes for term in one.terms]
    stage.stop_brokers()
    leaders = {n: one.leader for n, one in stage.seen.partitions.items() if one.leader is not None}
    kept = {n: values_of(stage.data_of(leader), n) for n, leader in leaders.items()}
    log = [one for one in read_transactions(logs) if one.zxid <= as_of.zxid]
    files = {one.name: one.output for one in stage.clients} | {one.name: one.output for one in stage.members}
    outputs = [decode_line(name, file.read_bytes()) for name, file in files.items()]
    reduction = reduce(outputs)
    stored = read_history(log, GROUP, slot_of(GROUP, len(stage.slots)), TOPIC)
    cluster = check_cluster(
        log,
        records_of(TOPIC, stage.acknowledged, kept, leaders, terms),
        at_rest_from(quiet_from_ms),
    )
    checks = check_group(
        CoordinatorEvidence(
            lines=len(stage.lines),
            acknowledged=len(_numbered(stage)),
            input_lines=[kept.get(number, ()) for number in range(PARTITIONS)],
            outputs=outputs,
            reduction=reduction,
            stored=stored,
            handed_over=handed_over,
            committed=stage.offsets,
            zookeeper_members=zookeeper_members,
            verify_problems=problems,
            members=check_history(read_files(sorted(stage.folder.glob("*.history.jsonl")))),
            cluster=cluster,
            coordinator=check_generations_of_commits(log, stored, GROUP),
        )
    )
    return CoordinatorOutcome(
        checks=checks,
        records=len(reduction.processed),
        twice=len(reduction.repeated),
        records_of={one.member: len(one.records) for one in outputs},
        generations=len({one.generation for one in stored.generations}),
        coordinators=stored.coordinators,
        figures=cluster.figures,
        as_of=as_of,
    )


def _numbered(stage: CoordinatorCluster) -> set[int]:
    """The numbers of the acknowledged records in the whole input."""
    found: set[int] = set()
    before = 0
    for producer in stage.producers:
        found |= {before + one.number for one in producer.acknowledged}
        before = len(stage.lines) - stage.options.held_back
    return found
