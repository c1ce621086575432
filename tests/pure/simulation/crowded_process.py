"""Many members in one process whose work takes time: while it works, leases and sessions run out."""

from __future__ import annotations

from tests.worlds.stepped_group import Member, SteppedGroup
from zkgroup.consumer.machine import events as ev
from zkgroup.consumer.machine.events import MemberState
from zkgroup.model.ports import Instant
from zkgroup.model.requests import ListChildrenDone, MultiDone, ReadManyDone
from zkgroup.runtime.events import Answered


class CrowdedProcess:
    """A process with one core, and members that start one after another.

    Each entry that a member's loop handles takes `entry_ms` of the core, and `znode_ms` for each znode in it,
    and the loops take turns. The network and the server take no time.
    """

    def __init__(
        self,
        members: int,
        partitions: int,
        *,
        entry_ms: float,
        znode_ms: float,
        every_ms: int,
        shared: int | None = None,
    ) -> None:
        """shared: members of each client; None: each has its own."""
        self.group = SteppedGroup({"t": partitions})
        self.members: list[Member] = []
        self._wanted, self._partitions, self._shared = members, partitions, shared
        self._entry_ms, self._znode_ms, self._every_ms = entry_ms, znode_ms, every_ms
        self._next_ms = 0
        self._worked_ms = 0.0
        """Work that the clock does not show yet."""

    def run_until_converged(self, within_ms: int) -> int | None:
        """Milliseconds until every partition is owned as assigned; None if that takes longer."""
        clock = self.group.clock
        began_ms = clock.now_ms()
        while clock.now_ms() - began_ms < within_ms:
            self._start()
            busy = [member for member in self.members if self._turn(member)]
            if not busy and self.has_converged():
                return clock.now_ms() - began_ms
            if not busy:
                self._idle(began_ms + within_ms)
        return None

    def has_converged(self) -> bool:
        return (
            len(self.members) == self._wanted
            and all(member.state is MemberState.STABLE for member in self.members)
            and sum(len(member.grants()) for member in self.members) == self._partitions
        )

    def count(self, kind: str) -> int:
        """How many records of this kind the members have made."""
        return len(self.group.notes(kind))

    def _start(self) -> None:
        """Starts the next member if its time has come."""
        now_ms, number = self.group.clock.now_ms(), len(self.members)
        if now_ms < self._next_ms or number == self._wanted:
            return
        self._next_ms = now_ms + self._every_ms
        client = f"shared-{number // self._shared}" if self._shared else None
        member = self.group.join(f"{number:03d}", client=client, run_ms=None)
        step = member.machine.step

        def work(event: ev.Event, now: Instant) -> tuple[ev.Effect, ...]:
            self._worked_ms += self._entry_ms + self._znode_ms * _znodes(event)
            return step(event, now)

        member.machine.step = work  # type: ignore[method-assign]
        self.members.append(member)

    def _turn(self, member: Member) -> bool:
        """One entry of a member's loop, and all that the network and the server do meanwhile."""
        server = self.group.server
        if member.runner.can_begin:
            member.runner.begin()
        if member.runner.can_return:
            member.runner.finish()
        if not member.run() and not server.pending():
            return False
        while steps := server.pending():
            for step in steps:
                if step in server.pending():
                    server.deliver(step)
        server.ping(member.client.name)
        whole_ms = int(self._worked_ms)
        if whole_ms:
            self._worked_ms -= whole_ms
            self.group.clock.advance(whole_ms)
            self._expire()
        return True

    def _idle(self, until_ms: int) -> None:
        timers = [at_ms for member in self.members if (at_ms := member.next_timer_ms()) is not None]
        now_ms = self.group.clock.now_ms()
        self.group.clock.advance_to(max(now_ms + 1, min([*timers, until_ms, now_ms + self._every_ms])))
        for member in self.members:
            self.group.server.ping(member.client.name)
        self._expire()

    def _expire(self) -> None:
        for session_id in self.group.server.overdue():
            self.group.server.expire_session(session_id)


def _znodes(event: ev.Event) -> int:
    """How many znodes the answer in an event is about."""
    outcome = event.outcome if isinstance(event, Answered) else None
    match outcome:
        case ListChildrenDone(children=children):
            return len(children)
        case ReadManyDone(znodes=znodes):
            return len(znodes)
        case MultiDone(stats=stats):
            return len(stats)
    return 0
