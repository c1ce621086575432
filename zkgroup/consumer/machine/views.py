"""What others can see of our plan: `views/<c>`, for `group verify` (recipes.md 11).

Ephemeral, written lazily: only once the member is stable, only when it changed, at most every
`publish_interval_ms`. Nothing depends on it; a refusal is answered by looking again later.
"""

from __future__ import annotations

from zkgroup.consumer.machine.core import Core
from zkgroup.consumer.machine.paths import Paths
from zkgroup.consumer.machine.plan import Planning
from zkgroup.consumer.machine.writes import guard
from zkgroup.machinery.procedures import Procedure, Query, ask, read_done, write
from zkgroup.model.requests import Create, CreateMissing, Delete, MultiDone, Operation, Read, SetData
from zkgroup.znodes.consumers import View, views_path

PUBLISH_TIMER = "publish"


class Views:
    """The published view of this member."""

    def __init__(self, core: Core, paths: Paths, planning: Planning) -> None:
        self._core = core
        self._paths = paths
        self._planning = planning
        self.is_due = False
        self._published: tuple[int, str] | None = None
        self._version: int | None = None
        """Data version of our znode; None where we have none."""
        self._next_ms = 0

    def stop(self) -> None:
        """The registration is gone, and with its session the view."""
        self.is_due, self._published, self._version = False, None, None
        self._core.cancel_timer(PUBLISH_TIMER)

    def stable(self) -> None:
        """The member has carried its plan out: publish it, not before the interval has passed."""
        planned = self._planning.planned
        if planned is None or self._published == (planned.generation, planned.inputs):
            return
        at_ms = max(self._next_ms, self._core.now.ms + self._core.jittered(self._interval_ms() / 2, 0.5))
        self._core.set_timer_sooner(PUBLISH_TIMER, at_ms)

    def timer_fired(self) -> None:
        self.is_due = True

    def publish(self) -> Procedure[None]:
        """One guarded write; on a refusal the znode is read and the next stable moment tries again."""
        planned = self._planning.planned
        if planned is None:
            self.is_due = False
            return
        self._next_ms = self._core.now.ms + self._interval_ms()
        data = View(planned.generation, planned.inputs, planned.result()).encode()
        change: Operation = (
            Create(self._paths.view, data, ephemeral=True)
            if self._version is None
            else SetData(self._paths.view, data, self._version)
        )
        answer = yield from write([guard(self._paths), change], (self._paths.own,))
        self.is_due = False
        if isinstance(answer, MultiDone):
            self._version = 0 if self._version is None else self._version + 1
            self._published = (planned.generation, planned.inputs)
        else:
            yield from self._look()

    def remove(self) -> Procedure[None]:
        """Before a member that shares its client leaves."""
        version, self._version = self._version, None
        if version is not None:
            yield from write([guard(self._paths), Delete(self._paths.view, version)], (self._paths.own,))

    def _look(self) -> Procedure[None]:
        (outcome,) = yield from ask(Query(Read(self._paths.view)))
        znode, session = read_done(outcome), self._core.session
        if znode is None:
            yield from ask(Query(CreateMissing((views_path(self._core.config.group),))))
        mine = znode is not None and session is not None and znode.stat.ephemeral_owner == session.session_id
        self._version = znode.stat.version if mine and znode is not None else None
        self._core.set_timer_sooner(PUBLISH_TIMER, self._next_ms)

    def _interval_ms(self) -> int:
        return self._core.config.settings.publish_interval_ms
