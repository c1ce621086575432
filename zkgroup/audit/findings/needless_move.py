"""Partitions that a rebalance took from a thread for nothing.

Released and claimed again by the same thread, or moved beyond the fewest known. Info where JVM members did
it, which always release everything, and where range or round robin cost it; a warning where a
zkgroup member took back what it had released, or the strategy is `sticky`.
"""

from __future__ import annotations

from collections.abc import Iterator

from zkgroup.audit.facts import Facts
from zkgroup.audit.findings.rebalance import moves_text
from zkgroup.audit.key_rows import KeyRows
from zkgroup.audit.keys import BY_MEMBERSHIP, Key
from zkgroup.audit.rebalances import QUIET_MS, Rebalance, group_rebalances
from zkgroup.audit.rules import Bounds, Finding, Rule

NAME = "needless_move"


def _find(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    for rebalance in rows.once(group_rebalances, key, facts, bounds["quiet_ms"]):
        yield from _judge(rebalance)


def _judge(rebalance: Rebalance) -> Iterator[Finding]:
    """JVM members always release everything, and range and round robin move what they must: info."""
    retaken = len(rebalance.retaken)
    beyond = 0 if rebalance.least is None else max(rebalance.moved - rebalance.least, 0)
    if not retaken and not beyond:
        return
    parts = []
    if retaken:
        parts.append(f"{retaken} released and claimed again by the same thread")
    if beyond:
        parts.append(moves_text(rebalance))
    yield Finding(
        NAME,
        "warning" if rebalance.retaken_by_zkgroup or (beyond and rebalance.is_sticky) else "info",
        rebalance.group,
        from_zxid=rebalance.from_zxid,
        to_zxid=rebalance.to_zxid,
        from_ms=rebalance.from_ms,
        to_ms=rebalance.to_ms,
        detail="; ".join(parts),
    )


RULE = Rule(
    name=NAME,
    severity="warning",
    question="Which rebalances took partitions from threads for nothing?",
    needs=("log",),
    act=(
        "Info: that is how JVM members rebalance, and what range and round robin cost; zkgroup members with"
        " the strategy `sticky` keep what they can. Warning: a zkgroup member released what it was to keep;"
        " check its log for what it read in between."
    ),
    keys=BY_MEMBERSHIP,
    find=_find,
    bounds={"quiet_ms": QUIET_MS},
)
