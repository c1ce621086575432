"""Many rebalances of one group in an hour: one row over the whole time in which it was so.

More than `per_hour` of them within sixty minutes; what a rebalance is stands with `rebalance`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from zkgroup.audit.facts import Facts
from zkgroup.audit.key_rows import KeyRows
from zkgroup.audit.keys import BY_MEMBERSHIP, Key
from zkgroup.audit.rebalances import QUIET_MS, Rebalance, group_rebalances
from zkgroup.audit.rules import Bounds, Finding, Rule
from zkgroup.audit.sliding_window import Burst, SlidingWindow

NAME = "rebalance_storm"
_HOUR_MS = 3_600_000


def _find(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    most = int(bounds["per_hour"])
    window = SlidingWindow(most + 1, _HOUR_MS)
    causes: Counter[str] = Counter()
    for rebalance in rows.once(group_rebalances, key, facts, bounds["quiet_ms"]):
        burst = window.add_moment(rebalance.from_zxid, rebalance.from_ms)
        if burst is not None:
            yield _finding(key[0], burst, most, causes)
            causes.clear()
        causes.update(iter(_causes(rebalance)))
    burst = window.end()
    if burst is not None:
        yield _finding(key[0], burst, most, causes)


def _finding(group: str, burst: Burst, most: int, causes: Mapping[str, int]) -> Finding:
    often = sorted(causes.items(), key=lambda item: (-item[1], item[0]))
    named = ", ".join(f"{cause} {count} times" for cause, count in often[:3])
    return Finding(
        NAME,
        "warning",
        group,
        from_zxid=burst.first.zxid,
        to_zxid=burst.last.zxid,
        from_ms=burst.first.time_ms,
        to_ms=burst.last.time_ms,
        detail=f"{burst.times} rebalances, more than {most} an hour; among their causes: {named}",
    )


def _causes(rebalance: Rebalance) -> Iterable[str]:
    """Each cause once."""
    return dict.fromkeys(trigger.cause for trigger in rebalance.triggers) or ("no cause in the log",)


RULE = Rule(
    name=NAME,
    severity="warning",
    question="Did a group rebalance again and again?",
    needs=("log",),
    act=(
        "Each one stops a JVM group for seconds. The causes show which members come and go (member_flapping),"
        " and whether sessions expire: a longer `zookeeper.session.timeout.ms` bridges pauses."
    ),
    keys=BY_MEMBERSHIP,
    find=_find,
    bounds={"per_hour": 20, "quiet_ms": QUIET_MS},
)
