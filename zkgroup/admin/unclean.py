"""Unclean elections: a live replica leads although it may lack records, by a request to the controller.

Only a controller of ours has such a request (recipes 15). A real one has a setting before Kafka 2.4, and a
call of its brokers' own API from then on, so there it is refused with what to do instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zkgroup.admin.brokers import hosted_states, is_controller_only, notes_on_unreadable
from zkgroup.admin.elections import BEING_DELETED, UNHOSTED, UNREADABLE
from zkgroup.admin.ensemble import AsOf, Ensemble
from zkgroup.admin.guards import no_partitions_error, read_back
from zkgroup.admin.picture import Held, held
from zkgroup.admin.ruling import OURS_VERSION, Ruling, notes_on_requests, read_ruling, refuse_kraft
from zkgroup.admin.unhosted import unhosted_topics
from zkgroup.errors import (
    ConflictError,
    OperationRefusedError,
    OutcomeUnknownError,
    RefusedError,
)
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Check, Create
from zkgroup.znodes.audit import zkgroup_path
from zkgroup.znodes.brokers import PartitionState
from zkgroup.znodes.controller import Controller
from zkgroup.znodes.controller_records import controller_state_path
from zkgroup.znodes.topics import delete_topics_path
from zkgroup.znodes.unclean_elections import PartitionVerdict, UncleanElection, UncleanElectionDone

POLL_S = 0.5
"""Seconds between two looks for the outcome."""

NAMED = 5

UNCLEAN, CLEAN, LED = "unclean", "clean", "led"
"""What the request would come to; the other outcomes, as `not_live`, say why nothing can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaderless:
    """One partition, and what an unclean election makes of it."""

    topic_partition: TopicPartition
    replicas: tuple[int, ...]
    leader: int | None
    """-1: none; None: no controller has written a state yet, or it cannot be read."""
    isr: tuple[int, ...] | None
    live: tuple[int, ...]
    """Replicas whose broker is registered, in the order in which one is chosen."""
    outcome: str
    """`unclean`; `clean` where a replica in sync lives; `led` where the leader does; `not_live`, `no_state`,
    `unreadable`, `being_deleted`, `unhosted`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanPlan:
    """What would be asked for. Nothing has been."""

    as_of: AsOf
    rows: tuple[Leaderless, ...]
    notes: tuple[str, ...]

    @property
    def wanted(self) -> tuple[TopicPartition, ...]:
        """The partitions to ask for: those that can get a leader."""
        return tuple(row.topic_partition for row in self.rows if row.outcome in (UNCLEAN, CLEAN))

    @property
    def losing(self) -> tuple[TopicPartition, ...]:
        """Those of them that may lose acknowledged records."""
        return tuple(row.topic_partition for row in self.rows if row.outcome == UNCLEAN)


def plan_unclean(ensemble: Ensemble, partitions: Sequence[TopicPartition]) -> UncleanPlan:
    """Reads leaders, ISRs and who lives.

    Raises NotFoundError for a partition that does not exist, ConflictError while such a request waits,
    RefusedError where a real controller rules or none, ConfigError for more than one request holds.
    """
    ensemble.zk.sync("/")
    ruling = read_ruling(ensemble)
    refuse_kraft(ruling)
    _refuse_others(ruling)
    _refuse_second(ensemble)
    topics, entries = hosted_states(ensemble)
    chosen = sorted(set(partitions))
    if missing := [tp for tp in chosen if tp not in entries]:
        raise no_partitions_error(missing)
    marked = set(ensemble.zk.list_many([delete_topics_path()])[delete_topics_path()] or ())
    able = {number for number, one in ruling.brokers.items() if not is_controller_only(one)}
    named = {tp.topic: topics[tp.topic] for tp in chosen}
    bars = dict.fromkeys(unhosted_topics(ensemble, named, entries), UNHOSTED)
    bars |= dict.fromkeys(marked, BEING_DELETED)
    rows = tuple(
        _leaderless(tp, topics[tp.topic].partitions[tp.partition], entries[tp], able, bars.get(tp.topic))
        for tp in chosen
    )
    notes = [*notes_on_requests(ruling), *notes_on_unreadable(entries[tp] for tp in chosen)]
    plan = UncleanPlan(as_of=ensemble.as_of(), rows=rows, notes=tuple(notes))
    if plan.wanted:
        UncleanElection(plan.wanted, 0, "").encode()  # too many are refused now
    return plan


def elect_unclean(ensemble: Ensemble, plan: UncleanPlan, by: str) -> int:
    """Creates the request; the result is its `czxid`, by which the outcome is found.

    Raises ConflictError where another request has come up since the plan, RefusedError where a controller
    of ours rules no more.
    """
    ensemble.zk.create_missing(zkgroup_path(), controller_state_path())
    path = UncleanElection.path()
    data = UncleanElection(plan.wanted, ensemble.clock.wall_ms(), by).encode()
    try:
        done = ensemble.zk.multi(Check(Controller.path(), OURS_VERSION), Create(path, data))
    except OutcomeUnknownError as error:
        read_back(error, lambda: _czxid(ensemble, data) is not None)
        czxid = _czxid(ensemble, data)
    except OperationRefusedError as error:
        _refuse_others(read_ruling(ensemble))
        _refuse_second(ensemble)
        raise ConflictError(f"{error.path}: changed since it was read ({error.code}); run again") from error
    else:
        czxid = _czxid(ensemble, data) if done.zxid is None else done.zxid
    if czxid is None:
        raise ConflictError(
            f"{path}: was removed as soon as it was made; `zkgroup topic describe` shows who leads"
        )
    return czxid


def wait_for_verdicts(
    ensemble: Ensemble, czxid: int, timeout_s: float
) -> tuple[AsOf, UncleanElectionDone | None]:
    """Waits for what the controller says of the request; None where it has said nothing in time.

    Raises CorruptZnodeError.
    """
    end_ms = ensemble.clock.now_ms() + round(timeout_s * 1000)
    while True:
        ensemble.zk.sync("/")
        znode = ensemble.zk.find(UncleanElectionDone.path(czxid))
        left_ms = end_ms - ensemble.clock.now_ms()
        if znode is not None or left_ms <= 0:
            done = UncleanElectionDone.decode(znode.path, znode.data) if znode else None
            return ensemble.as_of(), done
        ensemble.pause(min(POLL_S, left_ms / 1000))


def all_led(verdicts: Sequence[PartitionVerdict], wanted: Sequence[TopicPartition]) -> bool:
    """Whether every partition that was asked for has a leader now."""
    led = {each.topic_partition for each in verdicts if each.verdict != "refused" and each.leader is not None}
    return set(wanted) <= led


def _czxid(ensemble: Ensemble, data: bytes) -> int | None:
    ensemble.zk.sync("/")
    found = ensemble.zk.find(UncleanElection.path())
    return found.stat.czxid if found is not None and found.data == data else None


def _refuse_others(ruling: Ruling) -> None:
    """Raises RefusedError where no controller of ours rules."""
    if ruling.is_ours:
        return
    path = UncleanElection.path()
    if ruling.controller_znode is None:
        raise RefusedError(
            f"{path}: no controller lives, and the next one may be a real one, which never looks; "
            "`zkgroup broker run` starts one that does"
        )
    ruler = ruling.controller.broker if ruling.controller else "?"
    raise RefusedError(
        f"{path}: broker {ruler} is a real Kafka controller, which has no such request in ZooKeeper; from "
        "Kafka 2.4 on ask its brokers (`kafka-leader-election --election-type unclean`); before, set "
        "unclean.leader.election.enable=true (`zkgroup config alter --topic T --add-config ...`), which the "
        "next election obeys: when a replica's broker starts, or another controller is elected"
    )


def _refuse_second(ensemble: Ensemble) -> None:
    znode = ensemble.zk.find(UncleanElection.path())
    if znode is None:
        return
    request = held(znode, UncleanElection.decode)
    found = ", ".join(map(str, request.value.partitions[:NAMED])) if request.value else str(request.error)
    raise ConflictError(
        f"{znode.path}: an unclean election is asked for already ({found}); wait until the controller has "
        f"taken it away (`zkgroup znode get {znode.path}` shows it)"
    )


def _leaderless(
    tp: TopicPartition,
    replicas: tuple[int, ...],
    entry: Held[PartitionState] | None,
    able: set[int],
    bar: str | None,
) -> Leaderless:
    live = tuple(broker for broker in replicas if broker in able)
    state = entry.value if entry else None
    if bar is not None:
        outcome = bar
    elif entry is None:
        outcome = "no_state"
    elif state is None:
        outcome = UNREADABLE
    elif state.leader in able:
        outcome = LED
    elif not live:
        outcome = "not_live"
    else:
        outcome = CLEAN if set(live) & set(state.isr) else UNCLEAN
    return Leaderless(
        topic_partition=tp,
        replicas=replicas,
        leader=state.leader if state else None,
        isr=state.isr if state else None,
        live=live,
        outcome=outcome,
    )
