"""Each rebalance of a group: why, how long, what moved, what that cost.

It begins with a change of the membership or of an owner, and is over after `quiet_ms` without any; earlier
where every member owned what it is assigned and the next cause comes. A crash is the expiry of a
session whose member never came back. Moves beyond the least possible are reported beside the actual ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from zkgroup.audit.facts import Facts
from zkgroup.audit.key_rows import KeyRows
from zkgroup.audit.keys import BY_MEMBERSHIP, Key
from zkgroup.audit.rebalances import QUIET_MS, Rebalance, group_rebalances
from zkgroup.audit.rules import Bounds, Finding, Rule
from zkgroup.audit.texts import duration_text

NAME = "rebalance"
_TRIGGERS_NAMED = 4


def _find(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    for rebalance in rows.once(group_rebalances, key, facts, bounds["quiet_ms"]):
        yield _finding(rebalance)


def _finding(rebalance: Rebalance) -> Finding:
    return Finding(
        NAME,
        "info",
        rebalance.group,
        from_zxid=rebalance.from_zxid,
        to_zxid=rebalance.to_zxid,
        from_ms=rebalance.from_ms,
        to_ms=rebalance.to_ms,
        detail=describe(rebalance),
    )


def describe(rebalance: Rebalance) -> str:
    """One line: the cause, the duration, the moves, the longest time without an owner."""
    parts = [
        f"{triggers_text(rebalance)}; {duration_text(rebalance.to_ms - rebalance.from_ms)}",
        f"{_count(rebalance.members, 'member')} then",
        f"{_count(len(rebalance.changes), 'partition')} touched, {moves_text(rebalance)}",
    ]
    if any(change.down_ms for change in rebalance.changes):
        parts.append(f"without owner up to {duration_text(rebalance.down_ms_max)}")
    if rebalance.unowned:
        parts.append(f"{rebalance.unowned} without owner at its end")
    return "; ".join(parts)


def moves_text(rebalance: Rebalance) -> str:
    """How many moved, and how many had to."""
    if rebalance.least is None or rebalance.least == rebalance.moved:
        return f"{rebalance.moved} moved"
    return f"{rebalance.moved} moved where {rebalance.least} would have done"


def triggers_text(rebalance: Rebalance) -> str:
    """What set it off, in words."""
    if not rebalance.triggers:
        return "no cause in the log"
    named = [f"{trigger.cause} ({trigger.what})" for trigger in rebalance.triggers]
    return _few(named)


def _few(names: list[str]) -> str:
    more = len(names) - _TRIGGERS_NAMED
    return ", ".join(names[:_TRIGGERS_NAMED]) + (f" and {more} more" if more > 0 else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


RULE = Rule(
    name=NAME,
    severity="info",
    question="When did the group rebalance, why, for how long, and what moved?",
    needs=("log",),
    act=(
        "Nothing, for a few. Expiries and crashes among the causes call for a check of pauses and session"
        " timeouts; where the moves exceed the least possible, the strategy `sticky` avoids them."
    ),
    keys=BY_MEMBERSHIP,
    find=_find,
    bounds={"quiet_ms": QUIET_MS},
)
