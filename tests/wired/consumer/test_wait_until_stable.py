"""What holds for the caller once `wait_until_stable` has returned."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tests.waiting import PATIENCE_S
from tests.worlds.public_apis import Api, MemberWorld
from tests.worlds.stores import OnOutcome, WrappedStore
from zkgroup.model.ports import Store
from zkgroup.model.requests import Multi, Outcome, Request
from zkgroup.testing import FakeClock
from zkgroup.znodes.brokers import Topic

LATE_MS = 300


class Late(WrappedStore):
    """A store on which the topic grows just before the next read that is not by the member's own thread.

    The answer to the claim of the new partition comes late.
    """

    def __init__(self, world: MemberWorld, store: Store) -> None:
        super().__init__(store)
        self._world = world
        self._held_back = False
        self._own_thread: int | None = None
        self.armed = False

    def submit(self, request: Request, *, on_outcome: OnOutcome, **named: Any) -> None:
        self._own_thread = self._own_thread or threading.get_ident()
        if isinstance(request, Multi) and self._held_back:
            self._held_back = False
            on_outcome = _delayed(self._world.clock, on_outcome)
        if self.armed and threading.get_ident() != self._own_thread:
            self.armed, self._held_back = False, True
            topic = self._world.server.find(Topic.path("orders"))
            assert topic is not None
            self._world.server.put(topic.path, Topic(dict.fromkeys(range(5), (0,))).encode())
            self._world.until(lambda: 4 in self._world.owners())
        super().submit(request, on_outcome=on_outcome, **named)


def _delayed(clock: FakeClock, on_outcome: Callable[[Outcome], None]) -> Callable[[Outcome], None]:
    def later(outcome: Outcome) -> None:
        clock.call_at(clock.now_ms() + LATE_MS, lambda: on_outcome(outcome))

    return later


def test_a_claim_that_the_server_shows_is_a_lease_here(api: Api, world: MemberWorld) -> None:
    """Past bug: the group was read as converged before the member had the answer to its own claim."""
    client = Late(world, world.client("a"))
    with api.member(client=client) as member:
        member.wait_until_stable(PATIENCE_S)
        client.armed = True

        member.wait_until_stable(PATIENCE_S)

        assert len(member.leases()) == 5
