"""What the members recorded themselves, beside the rows of the audit. Pure.

What was acknowledged must be in the log, each write at its zxid; what is in the log and was never
acknowledged must be explained by an operation whose outcome its member never learnt. Refusals show no path,
so those are counted by session: at least what a member was told, at most what it could not know on top.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tests.worlds.audit_agreement import deeds_of_rows, sessions_of
from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.partition_offsets import OffsetWrite
from zkgroup.history import Record
from zkgroup.history.records import partition_of
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Code

_OPERATIONS: Final = ("claim", "commit", "release")
_LEAST_PARTS: Final = 3
"""Of a claim, commit or release: the check of the registration, and two about a partition. A registration has
one part, and what a member tells of its view two."""
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
    """What members of ours did, by one of the two."""

    claims: dict[Claimed, int | None] = field(default_factory=dict)
    """With the session in which it was done."""
    commits: dict[Committed, int | None] = field(default_factory=dict)
    refused: Counter[int | None] = field(default_factory=Counter)
    """Transactions by session."""
    open_claims: Open = field(default_factory=Counter)
    open_commits: Open = field(default_factory=Counter)
    open: Counter[int | None] = field(default_factory=Counter)
    """Transactions without an outcome, by session."""


def account_of_records(records: Iterable[Record]) -> Account:
    """By what the members wrote down, in order."""
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


def _operations(records: Iterable[Record]) -> Iterator[tuple[Record, Record | None]]:
    """Every invocation with its outcome; None where it is not known, or was not written down any more."""
    begun: dict[tuple[str, int, str, Any], Record] = {}
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
    """By the rows of the audit."""
    account, ours = Account(), sessions_of(facts, group).ours
    for tp, deed in deeds_of_rows(events, facts, group):
        if not isinstance(deed, OffsetWrite):
            if deed.session in ours:
                account.claims[Claimed(tp, deed.from_zxid)] = deed.session
        elif deed.is_commit and deed.event.session in ours:
            account.commits[Committed(tp, deed.event.zxid, deed.offset)] = deed.event.session
    refused: defaultdict[int, set[int]] = defaultdict(set)
    for event in events:
        if not event.applied and event.session in ours and event.sub >= _LEAST_PARTS - 1:
            refused[event.session].add(event.zxid)
    account.refused.update({session: len(zxids) for session, zxids in refused.items()})
    return account


def disagreements(told: Account, found: Account) -> Iterator[str]:
    """Where the members (`told`) and the log (`found`) cannot both be right."""
    for what, one, other, open_ in (
        ("claim", told.claims, found.claims, told.open_claims),
        ("commit", told.commits, found.commits, told.open_commits),
    ):
        for place in sorted(one.keys() - other.keys()):
            yield f"{what} {place} was acknowledged and is not in the log"
        untold = Counter((other[place], place.topic_partition) for place in other.keys() - one.keys())
        for (session, tp), count in sorted((untold - open_).items()):
            yield f"session 0x{session or 0:x}: {count} {what}s of {tp} in the log that nobody knew of"
    for session in sorted(set(told.refused) | set(found.refused), key=lambda each: each or 0):
        least, most = told.refused[session], told.refused[session] + told.open[session]
        if not least <= found.refused[session] <= most:
            yield (
                f"session 0x{session or 0:x}: {found.refused[session]} transactions were refused by the log,"
                f" expected {least} to {most} by its member"
            )
