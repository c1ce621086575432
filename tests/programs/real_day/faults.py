"""The faults of a group in a day, drawn from a seed, and how each begins and ends."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from tests.programs.real_day.cast import Cast
from tests.programs.real_day.member import SESSION_MS, TOPICS
from zkgroup.errors import EmbeddedServerError, ZkGroupError

MEMBER_FAULTS: Final = (
    "kill",
    "kill, same name",
    "leave",
    "pause",
    "expire",
    "swallow",
    "cut",
    "delay",
    "lose answer",
    "lose request",
)
SERVER_FAULTS: Final = ("kill leader", "kill follower", "pause leader", "isolate follower", "lose quorum")
ACTS: Final = ("grow", "set back")

End = Callable[[], None]


class Fault(NamedTuple):
    """One fault; `number` chooses its victim and its kind of execution."""

    kind: str
    number: int
    hold_s: float


def draw(seed: int) -> Iterator[tuple[Fault, ...]]:
    """Endless: one or two faults that overlap, all kinds in turn. The same seed draws the same."""
    rng = random.Random(f"day {seed}")
    while True:
        kinds = [*MEMBER_FAULTS, *MEMBER_FAULTS, *SERVER_FAULTS, *ACTS]
        rng.shuffle(kinds)
        while kinds:
            together = [kinds.pop() for _ in range(min(rng.randint(1, 2), len(kinds)))]
            yield tuple(_fault(rng, kind) for kind in sorted(together, key=ACTS.__contains__, reverse=True))


def _fault(rng: random.Random, kind: str) -> Fault:
    long = kind in ("pause", "swallow", "pause leader")
    return Fault(kind, rng.randrange(1 << 30), rng.choice((0.4, 2.0, 6.0) if long else (0.5, 2.0)))


class Faults:
    """Begins faults and counts those that took effect. One thread uses it."""

    def __init__(self, cast: Cast) -> None:
        self.cast = cast
        self.bitten: Counter[str] = Counter()
        self.expired: list[int] = []
        """The sessions that were ended before their time."""

    def begin(self, fault: Fault) -> End:
        """Begins a fault; the returned function ends it. Operations need healthy servers and end at once."""
        if fault.kind in ACTS:
            return self._act(fault)
        if fault.kind in SERVER_FAULTS:
            return self._server(fault)
        return self._member(fault)

    def _act(self, fault: Fault) -> End:
        with suppress(ZkGroupError):
            did = (
                self.cast.grow(TOPICS[fault.number % len(TOPICS)])
                if fault.kind == "grow"
                else self.cast.set_back(fault.number)
            )
            self.bitten[fault.kind] += did
        return _nothing

    def _member(self, fault: Fault) -> End:
        seat = self.cast.seats[fault.number % len(self.cast.seats)]
        network, way = seat.network, fault.number // 16
        if not seat.is_running:
            return seat.start
        kind = fault.kind
        match kind:
            case "kill" | "kill, same name":
                seat.kill()
                self.bitten[kind] += 1
                return lambda: seat.start(same_name=kind != "kill")
            case "leave":
                seat.signal(signal.SIGTERM)
                self.bitten[kind] += 1

                def left() -> None:
                    seat.wait_left()
                    seat.start()

                return left
            case "pause":
                seat.signal(signal.SIGSTOP)
                self.bitten["pause beyond the session" if fault.hold_s * 1000 > SESSION_MS else kind] += 1
                return lambda: seat.signal(signal.SIGCONT)
            case "expire":
                with suppress(KeyError, StopIteration, OSError):
                    for session in network.sessions():
                        self.expired.append(session)
                        network.expire_session(session)
                        self.bitten[kind] += 1
                return _nothing
            case "lose answer" | "lose request":
                dropped = (
                    network.drop_reply("multi", then_refuse=way % 2 == 0)
                    if kind == "lose answer"
                    else network.drop_request("multi")
                )

                def end() -> None:
                    with suppress(TimeoutError):
                        dropped.wait(0.1)
                        self.bitten[kind] += 1
                    network.heal()

                return end
        self.bitten[kind] += bool(network.sessions())
        if kind == "swallow":
            network.swallow(to_server=way % 3 != 1, to_client=way % 3 != 2)
            return lambda: network.heal(cut=way % 2 == 0)
        if kind == "delay":
            network.delay(0.3)
        else:
            network.cut(refuse=way % 2 == 0)
        return network.heal

    def _server(self, fault: Fault) -> End:
        leader = self.cast.leader()
        if leader is None:
            return _nothing
        followers = [server.number for server in self.cast.zookeeper.servers if server.number != leader]
        follower = followers[fault.number % len(followers)]
        match fault.kind:
            case "kill leader":
                self.cast.zookeeper.server(leader).kill()
            case "kill follower":
                self.cast.zookeeper.server(follower).kill()
            case "pause leader":
                self.cast.zookeeper.server(leader).pause()
            case "isolate follower":
                self.cast.network.isolate(follower)
                self.bitten[fault.kind] += 1
                return lambda: self.cast.network.heal(cut=True)
            case "lose quorum":
                with suppress(EmbeddedServerError):
                    self.cast.network.lose_quorum()
        self.bitten[fault.kind] += 1
        return self.cast.revive


def _nothing() -> None:
    """The fault ends by itself."""
