"""Many rebalances of one group in an hour: one row over the whole time in which it was so.

More than `per_hour` of them within sixty minutes; what a rebalance is stands with `rebalance`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import BY_MEMBERSHIP
from zkgroup.audit.rebalances import QUIET_MS, Rebalance, Rebalances
from zkgroup.audit.rules import Bounds, Finding, Key, Rule
from zkgroup.audit.sliding_window import Burst, SlidingWindow

NAME = "rebalance_storm"
_HOUR_MS = 3_600_000


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._group = key[0]
        self._rebalances = Rebalances(key[0], facts, bounds["quiet_ms"], with_least=False)
        self._most = int(bounds["per_hour"])
        self._window = SlidingWindow(self._most + 1, _HOUR_MS)
        self._causes: dict[str, int] = {}

    def see(self, event: Event) -> Iterator[Finding]:
        for rebalance in self._rebalances.see(event):
            yield from self._add(rebalance)

    def end(self) -> Iterator[Finding]:
        for rebalance in self._rebalances.end():
            yield from self._add(rebalance)
        burst = self._window.end()
        if burst is not None:
            yield self._finding(burst)

    def _add(self, rebalance: Rebalance) -> Iterator[Finding]:
        burst = self._window.add_moment(rebalance.from_zxid, rebalance.from_ms)
        if burst is not None:
            yield self._finding(burst)
            self._causes.clear()
        for cause in _causes(rebalance):
            self._causes[cause] = self._causes.get(cause, 0) + 1

    def _finding(self, burst: Burst) -> Finding:
        often = sorted(self._causes.items(), key=lambda item: (-item[1], item[0]))
        causes = ", ".join(f"{cause} {count} times" for cause, count in often[:3])
        return Finding(
            NAME,
            "warning",
            self._group,
            from_zxid=burst.first.zxid,
            to_zxid=burst.last.zxid,
            from_ms=burst.first.time_ms,
            to_ms=burst.last.time_ms,
            detail=f"{burst.times} rebalances, more than {self._most} an hour; among their causes: {causes}",
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
    fold=_Fold,
    bounds={"per_hour": 20, "quiet_ms": QUIET_MS},
)
