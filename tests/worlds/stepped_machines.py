"""A ZooKeeper in memory and machines in their loops, run step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from zkgroup.model import Znode
from zkgroup.model.ports import Store
from zkgroup.model.requests import MultiDone, Operation
from zkgroup.runtime.loop import MachineLoop
from zkgroup.testing import FakeClock, MemoryZooKeeper
from zkgroup.testing.memory_zookeeper import Fault, ServerStep


class Looped(Protocol):
    """One machine in its loop, without a thread."""

    loop: MachineLoop[Any, Any]


N = TypeVar("N", bound=Looped)


class SteppedMachines(Generic[N]):
    """A server, a clock and nodes. Nothing happens until the test asks for it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.server = MemoryZooKeeper(self.clock, stepped=True)
        self.nodes: list[N] = []

    def looped(
        self, machine: Any, store: Store, perform: Callable[[Any], None], name: str
    ) -> MachineLoop[Any, Any]:
        """The machine's loop, which listens; an exception of the machine is raised in the test."""

        def crashed(error: BaseException) -> None:
            raise error

        loop: MachineLoop[Any, Any] = MachineLoop(
            machine,
            store,
            self.clock,
            perform=perform,
            after_step=lambda: None,
            on_crash=crashed,
            name=name,
        )
        loop.listen()
        return loop

    def run(self, until: Callable[[], object] = lambda: False) -> None:
        """Runs everything that happens without time passing, node by node; stops when `until` is true."""
        for _ in range(10_000):
            steps = self.server.pending()
            for step in steps:
                if until():
                    return
                self.deliver(step)
            if until():
                return
            if not steps and not sum(node.loop.run_pending() for node in self.nodes):
                return
        raise AssertionError(f"no rest: {self.server.pending()}")

    def deliver(self, step: ServerStep, fault: Fault | None = None) -> None:
        self.server.deliver(step, fault)
        for node in self.nodes:
            node.loop.run_pending()

    def advance(self, ms: int, step_ms: int = 250) -> None:
        """Advances time and runs everything that follows."""
        end_ms = self.clock.now_ms() + ms
        while self.clock.now_ms() < end_ms:
            self.clock.advance(min(step_ms, end_ms - self.clock.now_ms()))
            self.run()

    def write(self, *operations: Operation, session_id: int = 0) -> None:
        answer = self.server.write(*operations, session_id=session_id)
        assert isinstance(answer, MultiDone), answer

    def find(self, path: str) -> Znode:
        znode = self.server.find(path)
        assert znode is not None, path
        return znode
