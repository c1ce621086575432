"""Compares two readers of one history: the audit's rows, and the history checker of groups.

They share no code beyond the codecs of the znodes, so what both count the same is counted right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tests.worlds.record_by_record import rows_by_partition
from zkgroup.audit.answers.partitions import OffsetWrite, OwnerLife, partition_steps
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.facts import Facts, facts_of, registration_of
from zkgroup.history import ServerTransaction
from zkgroup.history.group.replay import GroupEvidence
from zkgroup.history.group.server_invariants import GroupLogChecker
from zkgroup.history.report import Figures
from zkgroup.model import TopicPartition

Episode = tuple[str, int, str, int, int]
"""Topic, partition, thread, session and zxid of a claim of a zkgroup member."""


class Tally(NamedTuple):
    """Claims and commits of zkgroup members, and offset writes of others."""

    claims: int
    commits: int
    foreign_member_writes: int
    foreign_writes: int
    owners: Counter[Episode]


class Sessions(NamedTuple):
    """The kind of each session, by the registrations made in it."""

    ours: frozenset[int]
    foreign: frozenset[int]


def sessions_of(facts: Facts, group: str) -> Sessions:
    """Sessions of the group's members."""
    lives = facts.members.get(group, ())
    ours = frozenset(life.session for life in lives if _is_ours(life.data)) - {0}
    return Sessions(ours, frozenset(life.session for life in lives if not _is_ours(life.data)) - ours - {0})


def deeds_of_rows(
    events: Iterable[Event], facts: Facts, group: str
) -> Iterator[tuple[TopicPartition, OwnerLife | OffsetWrite]]:
    """Every owner that was created in a group, and every write of an offset, partition by partition."""
    applied = (event for event in events if event.applied)
    for where, rows in rows_by_partition(applied).items():
        for step in partition_steps(rows, (group,), facts) if where.group == group else ():
            if step.write is not None:
                yield where.topic_partition, step.write
            elif step.is_owner and step.holder is not None and step.event.op == "create":
                yield where.topic_partition, step.holder


def tally_of_rows(events: Sequence[Event], group: str) -> Tally:
    """The account from the rows of an audit."""
    facts = facts_of(events)
    ours, foreign = sessions_of(facts, group)
    writes: Counter[str] = Counter()
    episodes: Counter[Episode] = Counter()
    for tp, deed in deeds_of_rows(events, facts, group):
        if isinstance(deed, OwnerLife):
            if deed.session in ours:
                episodes[tp.topic, tp.partition, deed.thread, deed.session, deed.from_zxid] += 1
        elif deed.event.session in ours:
            writes["ours"] += deed.is_commit
        else:
            writes["foreign member" if deed.event.session in foreign else "stranger"] += 1
    return Tally(episodes.total(), writes["ours"], writes["foreign member"], writes["stranger"], episodes)


def tally_of_checker(transactions: Iterable[ServerTransaction], group: str) -> Tally:
    """The account of the history checker, from the log alone."""
    figures = Figures()
    audit = GroupLogChecker(GroupEvidence((), tuple(transactions), group), figures)
    for _ in audit.run():
        pass
    episodes = Counter(
        (tp.topic, tp.partition, owned.text, owned.session, owned.czxid) for tp, owned, _ in audit.episodes
    )
    return Tally(
        figures.claims,
        figures.commits,
        figures.foreign_member_writes,
        figures.foreign_writes,
        episodes,
    )


def _is_ours(data: bytes | None) -> bool:
    registration = registration_of(data)
    return registration is not None and registration.is_zkgroup
