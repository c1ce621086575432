"""Groups that rebalance as JVM members do, for the tests of rebalances."""

from __future__ import annotations

from collections.abc import Iterator

from tests.worlds.audit_log import AuditLog
from zkgroup.audit.findings.group_rebalances import QUIET_MS, Rebalance, group_rebalances
from zkgroup.audit.inputs.keys import BY_MEMBERSHIP

OURS = {"zkgroup": "1", "strategy": "sticky"}
T = [("t", number) for number in range(4)]


def alone(partitions: int = 4, owned: int = 4, **extensions: str) -> AuditLog:
    """Member a of session 1 owns the first partitions of t."""
    log = AuditLog()
    log.topic("t", partitions)
    log.come("g", "g_a", 1, **extensions)
    for partition in T[: min(partitions, owned)]:
        log.claim("g", partition, "g_a-0", 1)
    return log


def rested() -> AuditLog:
    """The same, ten seconds later."""
    log = alone()
    log.wait(10_000)
    return log


def shared(**extensions: str) -> AuditLog:
    """Then b of session 2 comes, a lets go of everything, and each claims two."""
    log = alone(**extensions)
    log.wait(10_000)
    log.come("g", "g_b", 2, **extensions)
    for partition in T:
        log.release("g", partition, 1)
    log.wait(300)
    for partition in T:
        thread, session = ("g_a-0", 1) if partition[1] < 2 else ("g_b-0", 2)
        log.claim("g", partition, thread, session)
    return log


def rebalances(log: AuditLog, group: str = "g") -> list[Rebalance]:
    key = (group,)
    rows = [event for event in log.events() if BY_MEMBERSHIP.key(event) == key]
    return list(group_rebalances(rows, key, log.facts(), QUIET_MS))


def causes(log: AuditLog) -> list[list[tuple[str, str]]]:
    """Cause and subject of each rebalance's triggers."""
    return [list(_told(rebalance)) for rebalance in rebalances(log)]


def _told(rebalance: Rebalance) -> Iterator[tuple[str, str]]:
    for trigger in rebalance.triggers:
        yield trigger.cause, trigger.what
