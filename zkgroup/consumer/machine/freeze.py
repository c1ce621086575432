"""A freeze of the group (recipes 26): while its marker stands, nothing moves but by leaving and death.

The data version of `owners` counts the freezes of the group. Each pass reads it, and after it the marker, but
only if the version is another one than in the last pass: a group that is not frozen costs no packet. Claims,
and releases for a rebalance, check that version: a freeze that this member has not read refuses them.

In a frozen group the member keeps the assignment that it carries out: what it owns, and, where the freeze
allows a takeover, partitions of the new assignment that nobody owns. Nothing that it owns is revoked. A
partition whose release was refused goes back to its thread, under a new token.

The freeze ends by ZooKeeper's clock: a member that takes it to be over sets the marker to its own data, and
deletes it if the `mtime` of that write is late enough. Both writes check `owners`, which names the freeze:
the version of a marker that was deleted and created meanwhile may be the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zkgroup.consumer.machine.machine_context import GroupPaths, MemberContext
from zkgroup.consumer.machine.transactions import guard
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Check, Delete, MultiDone, Read, SetData
from zkgroup.runtime.events import Watch
from zkgroup.runtime.procedures import Procedure, Query, ask, read_done, write
from zkgroup.znodes.group_records import Freeze

FREEZE_TIMER: Final = "freeze"
SPREAD_MS: Final = 500
"""The members of a group find the end of its freeze in up to twice this time, one of them first."""
RETRY_MS: Final = 5000
"""Milliseconds after which a member that could not end a freeze looks again."""
UNREADABLE: Final = Freeze(reason="unreadable", by="", for_ms=2**62, allows_takeover=False)
"""What a marker that cannot be read counts as: an operator removes it."""


class GroupFreeze:
    """The freeze of the group, as this member has read it."""

    def __init__(
        self,
        context: MemberContext,
        paths: GroupPaths,
        on_change: Callable[[], None],
        report_corrupt: Callable[[Znode, CorruptZnodeError], None],
    ) -> None:
        """
        Args:
            on_change: makes another pass due.
            report_corrupt: reports a marker that cannot be read.
        """
        self._context = context
        self._paths = paths
        self._on_change = on_change
        self._report_corrupt = report_corrupt
        self._fence: int | None = None
        """Data version of `owners`, read before the marker; None until a pass reads it (again)."""
        self._marker: Znode | None = None
        self._watch: Watch | None = None
        self._end_ms = 0
        """When the freeze is over at the latest, on this member's clock."""
        self.newest: Freeze | None = None
        """The freeze that stands; None if the group is not frozen."""
        self.is_end_due = False

    @property
    def allows_moves(self) -> bool:
        """Returns whether partitions may be released for a rebalance, as far as this member has read."""
        return self._fence is not None and self.newest is None

    @property
    def allows_claims(self) -> bool:
        """Returns whether partitions may be claimed, as far as this member has read."""
        return self._fence is not None and (self.newest is None or self.newest.allows_takeover)

    @property
    def check(self) -> Check:
        """The check of claims and of releases for a rebalance; after a pass alone."""
        assert self._fence is not None, "no pass has read the version of owners"
        return Check(self._paths.owners_root, self._fence)

    def refused(self) -> None:
        """Notes a refusal at the check: nothing moves until another pass has read the marker."""
        self._fence = None
        self._on_change()

    def forget_watches(self) -> None:
        """Drops the watch on the marker: a disconnect has ended it."""
        self._watch = None

    def forget(self) -> None:
        """Drops everything: the registration is gone."""
        self._fence = self._marker = self._watch = self.newest = None
        self.is_end_due = False
        self._context.cancel_timer(FREEZE_TIMER)

    def kept(self) -> dict[TopicPartition, int]:
        """What stays with this member, each with its thread: all that it owns and has not handed back."""
        owned = self._context.owned
        return {tp: one.thread for tp, one in owned.partitions.items() if tp not in owned.handed_back}

    def read(self, owners: Znode | None) -> Procedure[None]:
        """Reads the marker, if `owners`, as read in this pass, says that it may have changed."""
        fence = owners.stat.version if owners is not None else 0
        is_watched = self._watch is not None and not self._watch.fired
        if fence == self._fence and (self.newest is None or is_watched):
            return
        marker = None
        if fence:
            watch = Watch(self._on_change)
            (outcome,) = yield from ask(Query(Read(self._paths.frozen, watch=True), watch))
            marker, self._watch = read_done(outcome), watch  # without an answer no server has the watch
        self._fence, self._marker = fence, marker
        self._take(marker)

    def _take(self, marker: Znode | None) -> None:
        self.is_end_due = False
        if marker is None:
            self.newest = None
            self._context.cancel_timer(FREEZE_TIMER)
            return
        try:
            self.newest = Freeze.decode(marker.path, marker.data)
        except CorruptZnodeError as error:
            self._report_corrupt(marker, error)
            self.newest = UNREADABLE
        until_ms = self.newest.until_ms(marker.stat)
        # The clock of this machine may be late: the server's was at least `mtime` at this read.
        left_ms = min(until_ms - self._context.now.wall_ms, until_ms - marker.stat.mtime)
        self._wait(left_ms)

    def _wait(self, left_ms: int) -> None:
        """Waits for the end; a watch that was lost is found before it."""
        context = self._context
        self._end_ms = context.now.ms + max(left_ms, 0) + context.jittered(SPREAD_MS, 1.0)
        next_ms = context.now.ms + context.jittered(context.config.settings.verify_interval_ms, 0.3)
        context.set_timer(FREEZE_TIMER, min(self._end_ms, next_ms))

    def timer_fired(self) -> None:
        """Looks at the marker again, or tries to end the freeze, if it may be over."""
        if self.newest is None:
            return
        self.is_end_due = self._context.now.ms >= self._end_ms
        if not self.is_end_due:
            self._watch = None
            self._on_change()

    def end(self) -> Procedure[None]:
        """Deletes the marker if the freeze is over by ZooKeeper's clock."""
        self.is_end_due = False
        marker, freeze = self._marker, self.newest
        if marker is None or freeze is None or self._fence is None:
            return
        self._end_ms = self._context.now.ms + RETRY_MS
        self._context.set_timer(FREEZE_TIMER, self._end_ms)
        checks, own = (guard(self._paths), self.check), (self._paths.own,)
        answer = yield from write([*checks, SetData(marker.path, marker.data or b"", -1)], own)
        if isinstance(answer, MultiDone):
            stat = answer.stats[-1]
            assert stat is not None
            left_ms = freeze.until_ms(stat) - stat.mtime
            if left_ms > 0:
                self._wait(left_ms)
                return
            yield from write([*checks, Delete(marker.path, -1)], own)
        self._watch = None
        self._on_change()
