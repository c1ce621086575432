"""Compares the members' own records with the rows of the audit. Pure.

Each acknowledged write must be in the log at its zxid; a write that is in the log and was never acknowledged
must belong to an operation whose outcome its member did not learn. Refusals have no path in the log, so they
are counted by session: at least those that a member got, at most those plus its unknown outcomes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tests.worlds.audit_agreement import deeds_of_rows, sessions_of
from zkgroup.audit.answers.partitions import OffsetWrite
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.facts import Facts
from zkgroup.history import HistoryRecord
from zkgroup.history.records import partition_of
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Code
from zkgroup.znodes.consumers import views_path
from zkgroup.znodes.coordinated_groups import ProtocolMarker

_OPERATIONS: Final = ("claim", "commit", "release")
_LEAST_PARTS: Final = 3
"""Operations of a claim, commit or release: the check of the registration, and two on a partition. A
registration has three; the first two create and delete the marker of a coordinator, so that it is refused
where there is one. A member's published view has two, and more with the history of the group."""
_CODES: Final = {code.value for code in Code}


class Claimed(NamedTuple):
    topic_partition: TopicPartition
    zxid: int


class Committed(NamedTuple):
    topic_partition: TopicPartition
    zxid: int
    offset: int | None


Open = Counter[tuple[int | None, TopicPartition]]
"""Operations without an outcome, by session and partition."""


@dataclass(slots=True)
class Account:
    """The operations of a group's members, from one of the two sources."""

    claims: dict[Claimed, int | None] = field(default_factory=dict)
    """With the session in which it was done."""
    commits: dict[Committed, int | None] = field(default_factory=dict)
    refused: Counter[int | None] = field(default_factory=Counter)
    """Transactions by session."""
    open_claims: Open = field(default_factory=Counter)
    open_commits: Open = field(default_factory=Counter)
    open: Counter[int | None] = field(default_factory=Counter)
    """Transactions without an outcome, by session."""


def account_of_records(records: Iterable[HistoryRecord]) -> Account:
    """The account from the members' records, in order."""
    account = Account()
    for record, outcome in _operations(records):
        kind = record.kind.partition(".")[0]
        rows = record.fields["offsets" if kind == "commit" else "partitions"]
        if outcome is None:
            account.open[record.session] += 1
            for row in rows:
                place = record.session, partition_of(row)
                account.open_claims[place] += kind != "commit"  # a release may be a move between threads
                account.open_commits[place] += kind != "claim"
        elif outcome.kind.endswith(".fail"):
            account.refused[record.session] += outcome.fields["reason"].partition(" at ")[0] in _CODES
        elif kind == "claim":
            for row in outcome.fields["grants"]:
                account.claims[Claimed(partition_of(row), row["token"])] = record.session
        elif outcome.fields["zxid"] is not None:
            for row in rows:
                if row["offset"] is not None:
                    written = Committed(partition_of(row), outcome.fields["zxid"], row["offset"])
                    account.commits[written] = record.session
    for record in records:
        if record.kind == "own.begin":  # adopted after a lost answer, or moved between threads
            account.claims[Claimed(record.topic_partition, record.fields["token"])] = record.session
    return account


def _operations(records: Iterable[HistoryRecord]) -> Iterator[tuple[HistoryRecord, HistoryRecord | None]]:
    """Every invocation with its outcome; None where the outcome is unknown or was not recorded any more."""
    begun: dict[tuple[str, int, str, Any], HistoryRecord] = {}
    for record in records:
        operation, _, step = record.kind.partition(".")
        if operation not in _OPERATIONS:
            continue
        key = record.member, record.pid, operation, record.fields["id"]
        if step == "invoke":
            begun[key] = record
        elif step in ("ok", "fail", "info"):
            yield begun.pop(key), None if step == "info" else record
    for record in begun.values():
        yield record, None


def account_of_rows(events: Sequence[Event], facts: Facts, group: str) -> Account:
    """The account from the rows of the audit."""
    account, ours = Account(), sessions_of(facts, group).ours
    for tp, deed in deeds_of_rows(events, facts, group):
        if not isinstance(deed, OffsetWrite):
            if deed.session in ours:
                account.claims[Claimed(tp, deed.from_zxid)] = deed.session
        elif deed.is_commit and deed.event.session in ours:
            account.commits[Committed(tp, deed.event.zxid, deed.offset)] = deed.event.session
    account.refused.update(_refused(events, ours, group))
    return account


def _refused(events: Iterable[Event], ours: Container[int], group: str) -> Counter[int | None]:
    """How many claims, commits and releases of each session the log refused."""
    parts: Counter[tuple[int, int]] = Counter()
    others: set[tuple[int, int]] = set()
    """Registrations, and the views with the history: of two members that write it one is refused."""
    for event in events:
        if not event.applied and event.session in ours:
            parts[event.session, event.zxid] += 1
            if event.path == ProtocolMarker.path(group) or event.path.startswith(f"{views_path(group)}/"):
                others.add((event.session, event.zxid))
    return Counter(
        session
        for (session, zxid), count in parts.items()
        if count >= _LEAST_PARTS and (session, zxid) not in others
    )


def disagreements(told: Account, found: Account) -> Iterator[str]:
    """The contradictions between the members' records (`told`) and the log (`found`)."""
    for what, one, other, open_ in (
        ("claim", told.claims, found.claims, told.open_claims),
        ("commit", told.commits, found.commits, told.open_commits),
    ):
        for place in sorted(one.keys() - other.keys()):
            yield f"{what} {place} was acknowledged and is not in the log"
        untold = Counter((other[place], place.topic_partition) for place in other.keys() - one.keys())
        for (session, tp), count in sorted((untold - open_).items()):
            yield f"session 0x{session or 0:x}: {count} {what}s of {tp} in the log that no member recorded"
    for session in sorted(set(told.refused) | set(found.refused), key=lambda each: each or 0):
        least, most = told.refused[session], told.refused[session] + told.open[session]
        if not least <= found.refused[session] <= most:
            yield (
                f"session 0x{session or 0:x}: {found.refused[session]} transactions were refused by the log,"
                f" expected {least} to {most} by its member"
            )
