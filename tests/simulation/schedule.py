"""What simulated schedules of groups and of clusters share: seed, steps, faults, report and recording.

Everything follows from the seed. A schedule injects faults for a number of steps, ends the faults, requires
convergence, and has the history checker decide about the whole history.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Protocol, TypeVar

from zkgroup.history import HistoryRecord
from zkgroup.testing.clock import FakeClock
from zkgroup.testing.memory_zookeeper import Fault, MemoryZooKeeper, ServerStep

Action = Callable[[], object]
"""One possible next event of a schedule."""
TRACE_LINES_MAX = 40
"""Longest trace in the message of a failure."""
_MOMENTS_MS = (1, 5, 20, 100)


class ScheduleSetup(Protocol):
    """What the setups of groups and of clusters have in common."""

    @property
    def steps(self) -> int: ...

    @property
    def stale(self) -> bool:
        """Whether servers of clients lag behind by any amount."""
        ...

    @property
    def weights(self) -> Mapping[str, float]:
        """Chance of each fault in a thousand steps."""
        ...


class ScheduleWorld(Protocol):
    """What the worlds of groups and of clusters have in common."""

    clock: FakeClock
    server: MemoryZooKeeper

    def next_due_ms(self) -> int | None:
        """When the next timer fires."""
        ...

    def advance(self, ms: int) -> None: ...


SetupT = TypeVar("SetupT", bound=ScheduleSetup)
WorldT = TypeVar("WorldT", bound=ScheduleWorld)


@dataclass(slots=True)
class ScheduleReport(Generic[SetupT]):
    """Counts of what happened in a schedule, so that a batch can show that its faults had effects."""

    seed: int
    setup: SetupT
    figures: Counter[str] = field(default_factory=Counter)
    converged_ms: int | None = None
    """From the end of the faults; None in a group with JVM members, which need not converge."""


class Schedule(ABC, Generic[SetupT, WorldT]):
    """One schedule: draws its setup, injects faults, requires convergence. A subclass has the events."""

    error: ClassVar[type[AssertionError]]
    """Raised where a schedule breaks an invariant; its message names the seed."""
    world: WorldT

    def __init__(
        self, seed: int, steps: int, setup: SetupT | None, draw: Callable[[int, int], SetupT]
    ) -> None:
        self.seed = seed
        arguments = f"steps={steps}" if setup is None else "setup=..."  # which is printed, too
        self._replay = f"{type(self).__name__}({seed}, {arguments}).run()"
        self.setup = setup if setup is not None else draw(seed, steps)
        self.rng = random.Random(f"schedule {seed}")
        self.report = ScheduleReport(seed, self.setup)
        self.trace: list[str] = []

    def _run(self, faults: Action) -> ScheduleReport[SetupT]:
        """Runs faults, convergence and the history check. Raises `error`."""
        try:
            faults()
            self.converge()
            self.check_history()
        except Exception as error:
            raise self.error(self._describe(f"{type(error).__name__}: {error}")) from error
        self._count()
        return self.report

    def _steps(self) -> None:
        for _ in range(self.setup.steps):
            self.step()

    @abstractmethod
    def step(self) -> None:
        """Perhaps a fault, then one of the possible events."""

    @abstractmethod
    def converge(self) -> None:
        """Ends the faults, and requires convergence within a bound and no change afterwards."""

    @abstractmethod
    def check_history(self) -> None:
        """Runs the history checker. Raises AssertionError for a violation."""

    @abstractmethod
    def _happen(self, what: str) -> tuple[str, object]:
        """Injects a fault or an operation: its kind, and what was done; False where it is not possible."""

    @abstractmethod
    def _count(self) -> None:
        """Adds the figures that are known at the end."""

    @abstractmethod
    def _state(self) -> Iterable[str]:
        """Lines about members or controllers, for a failure's message."""

    def inject(self, what: str) -> None:
        """Injects one fault, operation or foreign write now, where it is possible."""
        kind, did = self._happen(what)
        if did is not False:
            self.report.figures[f"{kind} {what}"] += 1
            self.trace.append(f"{self.world.clock.now_ms()} {what}: {did}")

    def _disturb(self, by: Iterable[str]) -> None:
        """Injects each of these by its weight."""
        weights = self.setup.weights
        for what in by:
            if (weight := weights.get(what, 0)) and self.rng.random() < weight / 1000:
                self.inject(what)

    def _catch_up(self) -> None:
        if not self.setup.stale:
            for name in self.world.server.clients:
                self.world.server.catch_up(name)

    def _advance(self, is_busy: Callable[[], bool]) -> None:
        """Advances the clock a little, or to the next timer where nothing else can happen."""
        moments = [*_MOMENTS_MS]
        due_ms = self.world.next_due_ms()
        if due_ms is not None and not is_busy():
            moments.append(max(1, due_ms - self.world.clock.now_ms()))
        self.world.advance(self.rng.choice(moments))

    def _describe(self, what: str) -> str:
        lines = (
            f"seed {self.seed}: {what}",
            f"replay: {self._replay}",
            f"setup: {self.setup}",
            *(f"  {line}" for line in self.trace[-TRACE_LINES_MAX:]),
            *(f"  {line}" for line in self._state()),
        )
        return "\n".join(lines)


class ScheduleFaults(ABC):
    """The faults of one schedule. Each method injects one and returns what it did; False: not possible."""

    def __init__(self, server: MemoryZooKeeper, rng: random.Random) -> None:
        self._server = server
        self._rng = rng

    def inject(self, fault: str) -> object:
        """Injects the fault of that name; False where it is not possible."""
        return getattr(self, fault)()

    def lost_reply(self) -> object:
        return self._deliver("lost_reply")

    def lost_request(self) -> object:
        return self._deliver("lost_request")

    def late(self) -> object:
        return self._deliver("late")

    def _deliver(self, fault: Fault) -> object:
        """Delivers one of the waiting requests with a fault."""
        waiting = [step for step in self._waiting() if step.kind == "request"]
        if not waiting:
            return False
        step = self._rng.choice(waiting)
        self._server.deliver(step, fault)
        return step.client

    @abstractmethod
    def _waiting(self) -> Iterable[ServerStep]:
        """Possible next steps between clients and ZooKeeper."""


class ScheduleRecording:
    """Collects the records of all processes, in the order in which they were made."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.records: list[HistoryRecord] = []

    def record(self, pid: int, member: str, session: int, kind: str, fields: Mapping[str, object]) -> None:
        seq = len(self.records) + 1
        ts = self._clock.now_ms() * 1_000_000
        self.records.append(HistoryRecord(ts, seq, pid, member, session, kind, fields))
