"""When to look at the group: soon, but a burst of changes is looked at once (recipes.md 3).

A change waits `settle_ms` for company. Where the look then finds more than one change at once, a burst
is under way, and it is waited for until `settle_ms` pass without another one, at most until
`settle_max_ms` after the first. The members of a group that has only just begun wait, once each, until
the oldest registration is `initial_rebalance_delay_ms` old, so that those started with it are counted.
"""

from __future__ import annotations

from zkgroup.consumer.machine.core import Core
from zkgroup.model.requests import ListChildrenDone

SNAPSHOT_TIMER = "snapshot"


class Settling:
    """The timing of snapshots."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.marks = 0
        """How often something was found to have changed; a pass remembers the number it began with."""
        self.is_dirty = False
        self._since_ms = 0
        self._due_ms = 0
        self._is_burst = False
        self._joined_ms: int | None = None
        self._listed_cversion: int | None = None

    @property
    def is_due(self) -> bool:
        return self.is_dirty and self._core.now.ms >= self._due_ms

    def mark(self) -> None:
        """Something may have changed."""
        settings, now_ms = self._core.config.settings, self._core.now.ms
        self.marks += 1
        if not self.is_dirty:
            self.is_dirty, self._since_ms = True, now_ms
            self._wait_until(now_ms + settings.settle_ms)

    def mark_now(self) -> None:
        """Something has changed, and waiting would tell nothing."""
        self.marks += 1
        if not self.is_dirty:
            self.is_dirty, self._since_ms = True, self._core.now.ms
        self._due_ms = self._core.now.ms
        self._core.cancel_timer(SNAPSHOT_TIMER)

    def breathe(self) -> None:
        """The group moved during every pass: a pause, so that other work and other members come to theirs."""
        self._wait_until(self._core.now.ms + self._core.config.settings.settle_max_ms)

    def joined(self) -> None:
        """A new registration of ours: look at once."""
        self._joined_ms = self._core.now.ms
        self.mark_now()

    def must_wait_for_company(self, group_age_ms: int) -> bool:
        """Once after joining: whether the whole group has only just begun; sets the time of the next look."""
        joined_ms, self._joined_ms = self._joined_ms, None
        if joined_ms is None:
            return False
        until_ms = joined_ms + self._core.config.settings.initial_rebalance_delay_ms - group_age_ms
        if until_ms <= self._core.now.ms:
            return False
        self._wait_until(until_ms)
        return True

    def must_wait(self, listing: ListChildrenDone, known_cversion: int | None) -> bool:
        """Whether the group is still moving; sets the time of the next look if so."""
        settings, now_ms = self._core.config.settings, self._core.now.ms
        assert listing.stat is not None
        if self._joined_ms is not None:
            return False
        before = self._listed_cversion if self._listed_cversion is not None else known_cversion
        rise = listing.stat.cversion - before if before is not None else 0
        self._is_burst = rise > 1 or (self._is_burst and rise > 0)
        until_ms = min(now_ms + settings.settle_ms, self._since_ms + settings.settle_max_ms)
        self._listed_cversion = listing.stat.cversion
        if self._is_burst and until_ms > now_ms:
            self._wait_until(until_ms)
            return True
        return False

    def done(self, marks: int) -> None:
        """A picture was taken that contains every change up to this mark."""
        self._is_burst, self._listed_cversion = False, None
        self.is_dirty = False
        if marks != self.marks:
            self.mark()

    def _wait_until(self, at_ms: int) -> None:
        self._due_ms = at_ms
        self._core.set_timer(SNAPSHOT_TIMER, at_ms)
