"""Raw members of groups, for measurements: the same for all sides, in a process of their own.

    python -m tests.programs.benchmarks.group_client BROKERS ORDER NAME=NUMBER...

It performs one order (a coroutine of this module) and prints one JSON line.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from tests.programs.raw_groups import (
    CLIENT_ID,
    COMMIT,
    HEARTBEAT,
    OK,
    REBALANCING,
    SYNC,
    Address,
    RawConnection,
    RawMember,
    find_coordinator,
)
from zkgroup.wire import groups as wire
from zkgroup.wire.messages import Request, encode_request

Found = dict[str, Any]
COMMITTED: Final = "committed"
"""The topic whose offsets are committed; it has a partition for each member."""
BEAT_S: Final = 3.0
"""`heartbeat.interval.ms` of Kafka's consumers."""
LONG_SESSION_MS: Final = 300_000
CONNECTS_AT_ONCE: Final = 200
LOOK_S: Final = 0.005
MOVING: Final = (14, 15, 16)
"""Errors of a broker that does not coordinate a group yet; a sync has 27 while it loads."""


def run(brokers: str, order: str, **numbers: float) -> Found:
    """Performs an order in a process of its own."""
    process = begin(brokers, order, **numbers)
    return end(process)


def begin(brokers: str, order: str, **numbers: float) -> subprocess.Popen[bytes]:
    """Starts an order in a process of its own."""
    words = [brokers, order, *(f"{name}={number}" for name, number in numbers.items())]
    command = [sys.executable, "-m", "tests.programs.benchmarks.group_client", *words]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def end(process: subprocess.Popen[bytes]) -> Found:
    """What an order has found, once it is done."""
    out, _ = process.communicate(timeout=900)
    assert process.returncode == 0, f"an order ended with code {process.returncode}"
    found: Found = json.loads(out.splitlines()[-1])
    return found


async def _members(brokers: Sequence[Address], group: str, count: int, **fields: int) -> list[RawMember]:
    """Members of a group that are connected and have not joined."""
    address = await find_coordinator(brokers, group)
    connections = await asyncio.gather(*(RawConnection.open(address) for _ in range(count)))
    return [RawMember(connection, group, **fields) for connection in connections]


def _close(members: Sequence[RawMember]) -> None:
    for member in members:
        member.connection.close()


async def form(brokers: Sequence[Address], members: int, rounds: int, run: int = 0) -> Found:
    """Seconds from the first join of an empty group to the last sync of all members, and its generations."""
    seconds, generations = [], []
    for number in range(rounds):
        group = await _members(brokers, f"form-{run}-{number}", members)
        began = time.perf_counter()
        await asyncio.gather(*(member.enter(members) for member in group))
        seconds.append(time.perf_counter() - began)
        generations.append(group[0].generation)
        _close(group)
    return {"seconds": seconds, "generations": generations}


async def grow(brokers: Sequence[Address], members: int, rounds: int, run: int = 0) -> Found:
    """Seconds from the first join of one more member to the last sync.

    The others send a heartbeat once the joiner has got its id, and join at its error.
    """
    group = await _members(brokers, f"grow-{run}", members + rounds)
    within, more = group[:members], group[members:]
    await asyncio.gather(*(member.enter(members) for member in within))
    seconds = []
    for joiner in more:
        began = time.perf_counter()
        others = [_follow(member, len(within) + 1) for member in within]
        await asyncio.gather(joiner.enter(len(within) + 1), *others)
        seconds.append(time.perf_counter() - began)
        within.append(joiner)
    _close(group)
    return {"seconds": seconds, "generations": [group[0].generation]}


async def _follow(member: RawMember, members: int) -> None:
    while await member.beat() == OK:
        await asyncio.sleep(0.01)
    await member.enter(members)


async def heartbeats(brokers: Sequence[Address], members: int, seconds: float, run: int = 0) -> Found:
    """Heartbeats of one group's members, each sent when the former one is answered."""
    group = await _members(brokers, f"beats-{run}", members)
    await asyncio.gather(*(member.enter(members) for member in group))
    return await _closed_loop(group, [member.heartbeat() for member in group], HEARTBEAT, seconds)


async def commits(brokers: Sequence[Address], members: int, seconds: float, run: int = 0) -> Found:
    """Commits of one group's members, each of a partition of its own."""
    group = await _members(brokers, f"commits-{run}", members)
    await asyncio.gather(*(member.enter(members) for member in group))
    requests = [member.commit(COMMITTED, number, 1) for number, member in enumerate(group)]
    return await _closed_loop(group, requests, COMMIT, seconds)


async def _closed_loop(
    group: Sequence[RawMember], requests: Sequence[Request], version: int, seconds: float
) -> Found:
    frames = [encode_request(request, 0, CLIENT_ID, version=version) for request in requests]
    answers = [await member.connection.send(frame) for member, frame in zip(group, frames, strict=True)]
    assert len(set(answers)) <= len(answers)
    for member, frame, answer in zip(group, frames, answers, strict=True):
        _require_no_error(answer)
        member.connection.repeat(frame, answer)
    _said("measured")
    cpu, began = time.process_time(), time.perf_counter()
    await asyncio.sleep(seconds)
    took, client_cpu = time.perf_counter() - began, time.process_time() - cpu
    count = sum(member.connection.answers for member in group)
    assert not any(member.connection.wrong for member in group), "an answer had an error"
    _said("over")
    for member in group:
        member.connection.stop()
    _close(group)
    return {"seconds": took, "count": count, "client_cpu_s": client_cpu}


def _require_no_error(answer: bytes) -> None:
    """The last two bytes of an answer to a heartbeat, and to a commit of one partition, are its error."""
    assert answer[-2:] == b"\0\0", answer


def _said(word: str) -> None:
    """Tells the measuring process, and waits until it has read its counters."""
    print(word, flush=True)
    sys.stdin.buffer.readline()


async def scale(brokers: Sequence[Address], groups: int, members: int, seconds: float, run: int = 0) -> Found:
    """Members of many groups: all join, then send heartbeats as consumers do."""
    began = time.perf_counter()
    gate = asyncio.Semaphore(CONNECTS_AT_ONCE)

    async def one_group(number: int) -> list[RawMember]:
        async with gate:
            made = await _members(brokers, f"scale-{run}-{number}", members, session_ms=LONG_SESSION_MS)
        await asyncio.gather(*(member.enter(members) for member in made))
        return made

    every = [member for some in await asyncio.gather(*map(one_group, range(groups))) for member in some]
    formed = time.perf_counter() - began
    generations = [member.generation for member in every]
    late: list[float] = []
    errors: list[int] = []
    _said("measured")
    until = time.perf_counter() + seconds
    cpu = time.process_time()
    await asyncio.gather(
        *(_beat(each, number / len(every), until, late, errors) for number, each in enumerate(every))
    )
    client_cpu = time.process_time() - cpu
    _said("over")
    changed = sum(
        member.generation != generation for member, generation in zip(every, generations, strict=True)
    )
    _close(every)
    late.sort()
    return {
        "formed_s": formed,
        "heartbeats": len(late),
        "errors": len(errors),
        "changed": changed,
        "p50_ms": 1000 * late[len(late) // 2],
        "p99_ms": 1000 * late[len(late) * 99 // 100],
        "client_cpu_s": client_cpu,
        "client_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


async def _beat(member: RawMember, share: float, until: float, late: list[float], errors: list[int]) -> None:
    await asyncio.sleep(share * BEAT_S)
    while (sent := time.perf_counter()) < until:
        if error := await member.beat():
            errors.append(error)
            await member.join()
        now = time.perf_counter()
        late.append(now - sent)
        await asyncio.sleep(max(0.0, BEAT_S - (now - sent)))


async def take_over(brokers: Sequence[Address], groups: int, run: int = 0) -> Found:
    """Groups of one member each; then their coordinator changes.

    One member asks the other broker for its assignment, until the groups are loaded: heartbeats are answered
    as good before that. Then all groups send heartbeats in their generations. Wall times in seconds.
    """
    address = await find_coordinator(brokers, f"load-{run}-0")
    (other,) = [each for each in brokers if each != address]
    lanes = 50
    connections = [await RawConnection.open(address) for _ in range(lanes)]
    made = [
        RawMember(connections[number % lanes], f"load-{run}-{number}", session_ms=LONG_SESSION_MS)
        for number in range(groups)
    ]

    async def join_lane(lane: int) -> None:
        for member in made[lane::lanes]:
            await member.enter()

    await asyncio.gather(*map(join_lane, range(lanes)))
    asked = [await RawConnection.open(other) for _ in range(lanes)]
    for number, member in enumerate(made):
        member.connection = asked[number % lanes]
    _said("measured")
    while not await _is_loaded(made[0]):
        await asyncio.sleep(LOOK_S)
    served = [time.time()]
    await asyncio.gather(*(_serve(made[lane::lanes], served) for lane in range(lanes)))
    _said("over")
    for connection in (*connections, *asked):
        connection.close()
    return {"first": served[0], "last": max(served), "served": len(served) - 1}


async def _is_loaded(member: RawMember) -> bool:
    """Whether the broker knows the assignment of a member."""
    request = wire.SyncGroupRequest(
        group=member.group, generation=member.generation, member_id=member.member_id
    )
    answer = await member.connection.ask(request, wire.SyncGroupResponse, SYNC)
    assert answer.error in (OK, *MOVING, REBALANCING), (
        f"error {answer.error} after its coordinator has changed"
    )
    return answer.error == OK


async def _serve(members: Sequence[RawMember], served: list[float]) -> None:
    """Sends the heartbeats of some groups one after the other."""
    for member in members:
        error = await member.beat()
        assert error == OK, f"{member.group}: error {error} after its coordinator has changed"
        served.append(time.time())


ORDERS: dict[str, Callable[..., Awaitable[Found]]] = {
    "form": form,
    "grow": grow,
    "heartbeats": heartbeats,
    "commits": commits,
    "scale": scale,
    "take_over": take_over,
}


def main() -> None:
    addresses, order, *words = sys.argv[1:]
    pairs = (word.partition("=") for word in words)
    numbers = {name: float(number) if "." in number else int(number) for name, _, number in pairs}
    brokers = [(host, int(port)) for host, port in (each.split(":") for each in addresses.split(","))]
    print(json.dumps(asyncio.run(ORDERS[order](brokers, **numbers))))


if __name__ == "__main__":
    main()
