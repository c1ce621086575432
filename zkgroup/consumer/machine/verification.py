"""Are the owner znodes of what we hold still ours? No watch a partition, one bulk read (recipes.md 5).

After each rebalance, again after 2 s and 8 s while members that are not ours are registered (a JVM
member deletes by path), and every `verify_interval_ms` plus or minus 30 %. The periodic read also looks
at `ids` and the topics: a change that no watch has told is a watch gap, counted and acted on.
"""

from __future__ import annotations

from collections.abc import Mapping

from zkgroup.consumer.machine.group_snapshot import SnapshotReader
from zkgroup.consumer.machine.machine_context import MemberContext, Paths
from zkgroup.consumer.machine.transactions import MemberIdentity
from zkgroup.model import Znode
from zkgroup.runtime.procedures import GuardRefusedError, Procedure, read_many

VERIFY_TIMER = "verify"
AGAIN_TIMERS = ("verify.2s", "verify.8s")
AGAIN_MS = (2000, 8000)
GAP_TIMER = "verify.gap"
GAP_MS = 1000
"""A change that the watch has not told yet may still be on its way; after this time it is a gap."""
SPREAD = 0.3


class OwnerVerification:
    """The schedule of looking at what we own."""

    def __init__(self, context: MemberContext, paths: Paths, snapshot: SnapshotReader) -> None:
        self._context = context
        self._paths = paths
        self._snapshot = snapshot
        self.is_due = False
        self._suspicion: object = None

    def start(self) -> None:
        """From the registration on."""
        interval_ms = self._context.config.settings.verify_interval_ms
        self._context.set_timer(
            VERIFY_TIMER, self._context.now.ms + self._context.jittered(interval_ms, SPREAD)
        )

    def stop(self) -> None:
        self.is_due, self._suspicion = False, None
        for name in (VERIFY_TIMER, GAP_TIMER, *AGAIN_TIMERS):
            self._context.cancel_timer(name)

    def timer_fired(self, name: str) -> None:
        self.is_due = True
        if name == VERIFY_TIMER:
            self.start()

    def after_rebalance(self, *, claimed: bool) -> None:
        """A snapshot without consequences was verified by its own bulk read."""
        self.is_due = self.is_due or claimed
        snapshot = self._snapshot.newest
        if snapshot is not None and snapshot.has_foreign_members and self._context.owned.held:
            for name, after_ms in zip(AGAIN_TIMERS, AGAIN_MS, strict=True):
                self._context.set_timer(name, self._context.now.ms + after_ms)

    def verify(self) -> Procedure[None]:
        """One bulk read; what is not ours any more is lost, and claimed again where the plan names it."""
        paths, topics = self._paths, self._snapshot.topic_facts
        owners = paths.owners(self._context.owned.held)
        (znodes,) = yield from read_many([*owners, paths.own, paths.ids, *topics])
        own, ids, *found = znodes[len(owners) :]
        session = self._context.session
        assert session is not None
        if own is None or own.stat.ephemeral_owner != session.session_id:
            raise GuardRefusedError(paths.own)
        self.is_due = False
        self.judge(dict(zip(owners, znodes, strict=False)))
        self._look_for_gaps(ids, dict(zip(topics, found, strict=True)))

    def judge(self, owners: Mapping[str, Znode | None]) -> None:
        """Compares what is held with owner znodes read while nothing of this member was being written."""
        session = self._context.session
        assert session is not None
        mine = MemberIdentity(self._context.config.member_id, session.session_id)
        gone = [
            tp
            for tp, held in self._context.owned.held.items()
            if (path := self._paths.owner(tp)) in owners and not mine.holds(held, owners[path])
        ]
        if gone:
            self._context.lose(gone, "owner_gone")

    def _look_for_gaps(self, ids: Znode | None, topics: Mapping[str, Znode | None]) -> None:
        settling, snapshot = self._snapshot.settling, self._snapshot.newest
        suspicion, self._suspicion = self._suspicion, None
        if settling.is_dirty or snapshot is None or ids is None:
            return
        facts = self._snapshot.topic_facts
        gaps = [path for path, znode in topics.items() if (znode.stat.mzxid if znode else 0) != facts[path]]
        if ids.stat.pzxid == snapshot.generation and not gaps:
            return
        if suspicion != (snapshot.generation, gaps):
            self._suspicion = (snapshot.generation, gaps)
            self._context.set_timer(GAP_TIMER, self._context.now.ms + GAP_MS)
            return
        self._context.note("watch_gap")
        self._snapshot.forget_watches()
        settling.mark_changed_now()
