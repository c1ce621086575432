"""Preferred elections: partitions go back to their first replica, by a request to the controller."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from zkgroup.admin.brokers import held_states, held_topics, notes_on_unreadable, partitions_of
from zkgroup.admin.configs import write
from zkgroup.admin.ensemble import AsOf, Ensemble
from zkgroup.admin.guards import no_partitions_error
from zkgroup.admin.picture import Held
from zkgroup.admin.ruling import Ruling, notes_on_requests, read_ruling, refuse_kraft
from zkgroup.admin.unhosted import unhosted_topics
from zkgroup.errors import ConflictError, CorruptZnodeError, PartlyDoneError, RefusedError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create
from zkgroup.znodes.admin_requests import PreferredElection, admin_path
from zkgroup.znodes.brokers import PartitionState
from zkgroup.znodes.topics import delete_topics_path

POLL_S = 0.5
"""Seconds between two looks at a request."""

NAMED = 5

ELECTS, LEADS = "elects", "leads"
"""What an election does to a partition; other outcomes say why it stays: `not_live`, `not_in_isr`, ..."""

UNREADABLE, BEING_DELETED, UNHOSTED = "unreadable", "being_deleted", "unhosted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One partition and what a preferred election makes of it."""

    topic_partition: TopicPartition
    leader: int | None
    """-1: none; None: no controller has written a state yet, or it cannot be read."""
    preferred: int | None
    """Its first replica; None where the list is empty."""
    outcome: str
    """`elects`, `leads` (already), `not_live`, `not_in_isr`, `no_state`, `unreadable`, `being_deleted`,
    `unhosted`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionPlan:
    """What would be asked for. Nothing has been."""

    as_of: AsOf
    rows: tuple[Candidate, ...]
    notes: tuple[str, ...]
    unreadable: tuple[CorruptZnodeError, ...] = ()
    """Topics of which not even the partitions are known, where all are meant."""

    @property
    def wanted(self) -> tuple[TopicPartition, ...]:
        """The partitions to ask for: those whose leader would change."""
        return tuple(row.topic_partition for row in self.rows if row.outcome == ELECTS)


def plan_preferred(ensemble: Ensemble, partitions: Sequence[TopicPartition] | None) -> ElectionPlan:
    """Reads leaders and ISRs of these partitions, or of all (None) that brokers host.

    Controllers before 2.2 leave a request with an unknown partition for ever, so there must be none.

    Raises NotFoundError for a partition that does not exist, CorruptZnodeError for one whose topic cannot be
    read, ConflictError while an election runs, RefusedError on a migrated cluster, ConfigError for more than
    one request holds.
    """
    ensemble.zk.sync("/")
    ruling = read_ruling(ensemble)
    refuse_kraft(ruling)
    _refuse_second(ensemble)
    topics, broken = held_topics(ensemble)
    entries = held_states(ensemble, partitions_of(topics))
    unhosted = unhosted_topics(ensemble, topics, entries)
    hosted = (tp for tp in entries if tp.topic not in unhosted)
    chosen = sorted(hosted if partitions is None else set(partitions))
    if missing := [tp for tp in chosen if tp not in entries]:
        if hidden := [tp for tp in missing if tp.topic in broken]:
            raise broken[hidden[0].topic]
        raise no_partitions_error(missing)
    marked = set(ensemble.zk.list_many([delete_topics_path()])[delete_topics_path()] or ())
    rows = tuple(
        _candidate(tp, topics[tp.topic].partitions[tp.partition], entries[tp], ruling, marked, unhosted)
        for tp in chosen
    )
    asked = any(row.outcome == ELECTS for row in rows)
    notes = [*notes_on_requests(ruling, asked=asked), *notes_on_unreadable(entries[tp] for tp in chosen)]
    unreadable = tuple(broken.values()) if partitions is None else ()
    plan = ElectionPlan(as_of=ensemble.as_of(), rows=rows, notes=tuple(notes), unreadable=unreadable)
    if plan.wanted:
        PreferredElection(plan.wanted).encode()  # too many are refused now
    return plan


def elect_preferred(ensemble: Ensemble, plan: ElectionPlan) -> None:
    """Creates the request. Raises ConflictError where another one has come up since the plan."""
    ensemble.zk.create_missing(admin_path())
    data = PreferredElection(plan.wanted).encode()
    try:
        write(ensemble, [Create(PreferredElection.path(), data)], PreferredElection.path(), data)
    except ConflictError:
        _refuse_second(ensemble)
        raise


def wait_for_election(ensemble: Ensemble, plan: ElectionPlan, timeout_s: float) -> tuple[AsOf, bool]:
    """Waits until the controller has taken the request away and the leaders are the preferred ones.

    The result says whether they are; a controller removes a request whatever came of it.
    """
    end_ms = ensemble.clock.now_ms() + round(timeout_s * 1000)
    preferred = {row.topic_partition: row.preferred for row in plan.rows if row.outcome == ELECTS}
    while True:
        ensemble.zk.sync("/")
        waiting = ensemble.zk.exists(PreferredElection.path()) is not None
        znodes = ensemble.zk.read_many([PartitionState.path(tp) for tp in preferred])
        states = [
            PartitionState.decode(znode.path, znode.data)
            for tp in preferred
            if (znode := znodes[PartitionState.path(tp)])
        ]
        led = [state.leader for state in states] == list(preferred.values())
        left_ms = end_ms - ensemble.clock.now_ms()
        if not waiting or left_ms <= 0:
            return ensemble.as_of(), led and not waiting
        ensemble.pause(min(POLL_S, left_ms / 1000))


def check_outcomes(
    outcomes: Iterable[tuple[TopicPartition, str]],
    good: Collection[str],
    *,
    executed: bool,
    unreadable: Sequence[CorruptZnodeError] = (),
) -> None:
    """What becomes of an election in which not every partition was one to ask for.

    `good` are the outcomes of those asked for, and of those that are led already. The others are no error
    of a preview, but for what cannot be read.

    Raises:
        PartlyDoneError: something cannot be read, or, once it was executed, some were refused.
        RefusedError: once it was executed, all were.
    """
    told = list(outcomes)
    unread = [tp for tp, outcome in told if outcome == UNREADABLE]
    refused = [(tp, outcome) for tp, outcome in told if outcome not in {*good, UNREADABLE}]
    parts = []
    if executed and refused:
        named = ", ".join(f"{tp} ({outcome.replace('_', ' ')})" for tp, outcome in refused[:NAMED])
        parts.append(f"not elected: {named}{_more(refused)}")
    if unread:
        parts.append(f"cannot be read: {', '.join(map(str, unread[:NAMED]))}{_more(unread)}")
    parts += [f"not looked at: {error}" for error in unreadable]
    if not parts:
        return
    text = "; ".join(parts)
    raise RefusedError(text) if len(refused) == len(told) and not unreadable else PartlyDoneError(text)


def _more(rows: Sequence[object]) -> str:
    return f" and {len(rows) - NAMED} more" if len(rows) > NAMED else ""


def _refuse_second(ensemble: Ensemble) -> None:
    if ensemble.zk.exists(PreferredElection.path()) is not None:
        raise ConflictError(
            f"{PreferredElection.path()}: an election is asked for already; wait until the controller has "
            f"taken it away (`zkgroup znode get {PreferredElection.path()}` shows it)"
        )


def _candidate(
    tp: TopicPartition,
    replicas: tuple[int, ...],
    entry: Held[PartitionState] | None,
    ruling: Ruling,
    marked: Collection[str],
    unhosted: Collection[str],
) -> Candidate:
    preferred = replicas[0] if replicas else None
    state = entry.value if entry else None
    if tp.topic in marked:
        outcome = BEING_DELETED
    elif tp.topic in unhosted:
        outcome = UNHOSTED
    elif entry is None:
        outcome = "no_state"
    elif state is None:
        outcome = UNREADABLE
    elif state.leader == preferred:
        outcome = LEADS
    elif preferred not in ruling.brokers:
        outcome = "not_live"
    else:
        outcome = ELECTS if preferred in state.isr else "not_in_isr"
    leader = state.leader if state else None
    return Candidate(topic_partition=tp, leader=leader, preferred=preferred, outcome=outcome)
