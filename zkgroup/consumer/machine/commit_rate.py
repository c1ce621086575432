"""The share of one member in the commits of its group (`commit_rate_max`, commits, recipes 6).

Members publish `commit_rate_max` in their registrations. The lowest rate is that of the group, and the
zkgroup members of the snapshot have equal shares of it: of n members each sends a transaction of commits
every n / rate seconds. Nobody coordinates: all members compute the same from the same registrations. What
waits for its turn becomes one batch, so nothing but the moment of the write changes.

Never delayed are the commits of a member that gives up partitions or leaves, and what is read back or sent
again to know the outcome of a batch. JVM members publish nothing and are neither limited nor counted.
"""

from __future__ import annotations

from math import ceil

from zkgroup.consumer.machine.group_snapshot import GroupSnapshotReader, MembershipSnapshot
from zkgroup.consumer.machine.machine_context import MemberContext

COMMIT_RATE_TIMER = "commit rate"
SESSIONS_MAX = 2
"""A commit waits at most for so many (requested) session timeouts: a call of `commit()` waits for three."""


class CommitRate:
    """When the next batch of commits may be sent."""

    def __init__(self, context: MemberContext, snapshot: GroupSnapshotReader) -> None:
        self._context = context
        self._snapshot = snapshot
        self._of: MembershipSnapshot | None = None
        """The snapshot that the period was computed from."""
        self._period_ms = 0
        self._next_ms = 0

    @property
    def has_turn(self) -> bool:
        """Returns whether a batch may begin now."""
        context = self._context
        return context.now.ms >= self._next_ms or context.is_leaving or context.owned.is_giving_up

    def sent(self, packets: int) -> None:
        """Counts transactions of commits: the next batch begins after the share of this member."""
        snapshot, context = self._snapshot.newest, self._context
        if snapshot is not None and snapshot is not self._of:
            self._of, self._period_ms = snapshot, period_ms(snapshot)
        if not self._period_ms:
            return
        due_ms = max(self._next_ms, context.now.ms) + packets * self._period_ms
        longest_ms = SESSIONS_MAX * context.config.settings.session_timeout_ms
        self._next_ms = min(due_ms, context.now.ms + longest_ms)
        context.set_timer(COMMIT_RATE_TIMER, self._next_ms)


def period_ms(snapshot: MembershipSnapshot) -> int:
    """Milliseconds between two transactions of one member; 0 where no member publishes a rate."""
    members = snapshot.registrations.values()
    rates = [rate for one in members if (rate := one.commit_rate_max) is not None]
    return ceil(1000 * sum(one.is_zkgroup for one in members) / min(rates)) if rates else 0
