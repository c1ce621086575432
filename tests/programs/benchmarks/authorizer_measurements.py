"""What ACLs cost: the CPU of a broker for a request, beside a broker without an authorizer, and their memory.

Both brokers run at the same time and are measured in turns, by the same client. It has its rights by ACLs
among many others, and is no super user, so every request is decided by them.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

from tests.programs.benchmarks.broker_client import Figures, ask
from tests.programs.benchmarks.broker_measurements import TOPIC, in_turns, lines_of
from tests.programs.benchmarks.broker_sides import BrokerSide, OurBrokers
from tests.programs.benchmarks.report import Line, Plan, Report
from tests.programs.raw_groups import find_coordinator
from tests.waiting import PATIENCE_S
from tests.worlds.batches import records_of
from zkgroup import Admin
from zkgroup.wire.groups import OffsetCommitRequest, OffsetToCommit, TopicToCommit
from zkgroup.wire.messages import SIZE, Request, encode_request
from zkgroup.wire.metadata import MetadataRequest
from zkgroup.wire.records import (
    CONSUMER_REPLICA,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ProducedPartition,
    ProducedTopic,
    ProduceRequest,
)

ACLS: Final = 1_000
MORE: Final = 9_000
MOST: Final = 1.1
"""The CPU of a request with so many ACLs, in that of one without an authorizer."""
OPEN: Final = "no authorizer"
GUARDED: Final = f"{ACLS:,} ACLs"
GROUP: Final = "bench"
CLIENT: Final = "User:ANONYMOUS"
AUTHORIZER: Final = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}


class GuardedBrokers(OurBrokers):
    """Brokers with an authorizer, whose ACLs are there when they start: their own requests need rights."""

    def start(self) -> None:
        with Admin(self.zookeeper) as admin:
            _allow(admin)
        super().start()


def authorizer(plan: Plan, report: Report) -> None:
    """A broker of each kind: the requests in turns, and then the memory of more ACLs."""
    with ExitStack() as stack:
        sides: dict[str, BrokerSide] = {
            OPEN: stack.enter_context(OurBrokers(1)),
            GUARDED: stack.enter_context(GuardedBrokers(1, AUTHORIZER)),
        }
        admin = stack.enter_context(Admin(sides[GUARDED].zookeeper))
        for side in sides.values():
            ask(side.bootstrap, "create", TOPIC)
            asyncio.run(find_coordinator([_address(side)], GROUP))
        _requests(plan, report, sides)
        _memory(plan, report, sides[GUARDED], admin)


def _allow(admin: Admin) -> None:
    """The rights of the broker and of the client, one by prefix, and those of many others."""
    admin.add_acls(CLIENT, "all", cluster=True)
    admin.add_acls(CLIENT, "all", topics=[TOPIC[:4]], prefixed=True)
    admin.add_acls(CLIENT, "all", topics=[TOPIC, "__consumer_offsets"], groups=[GROUP])
    _add_of_others(admin, "User:other", 0, ACLS - 5)


def _add_of_others(admin: Admin, principal: str, first: int, count: int) -> None:
    """As many ACLs, nine in ten of one topic each, the others of a prefix."""
    numbers = range(first, first + count)
    admin.add_acls(principal, "read", topics=[f"topic-{one}" for one in numbers if one % 10])
    prefixes = [f"{'pre' * (one % 7 + 1)}-{one}" for one in numbers if one % 10 == 0]
    admin.add_acls(principal, "read", topics=prefixes, prefixed=True)


def _address(side: BrokerSide) -> tuple[str, int]:
    return "127.0.0.1", side.ports[side.ids[0]]


def _frames() -> Mapping[str, bytes]:
    """The requests about one topic, as bytes."""
    batch = records_of([b"x" * 100], timestamp_ms=1_700_000_000_000)
    partition = FetchPartition(0, offset=0, max_bytes=1000)
    offset = OffsetToCommit(partition=0, offset=1, metadata=None)
    requests: dict[str, Request] = {
        "produce": ProduceRequest(1, 1000, (ProducedTopic(TOPIC, (ProducedPartition(0, batch),)),)),
        "fetch": FetchRequest(CONSUMER_REPLICA, 0, 0, topics=(FetchTopic(TOPIC, (partition,)),)),
        "metadata": MetadataRequest.of(TOPIC),
        "offset commit": OffsetCommitRequest(
            group=GROUP, topics=(TopicToCommit(topic=TOPIC, partitions=(offset,)),)
        ),
    }
    return {
        name: encode_request(request, 0, "bench", version=min(7, request.VERSIONS[-1]))
        for name, request in requests.items()
    }


def _requests(plan: Plan, report: Report, sides: Mapping[str, BrokerSide]) -> None:
    """The least CPU of each side counts: other work on the machine only adds to it."""
    count = 50 if plan.short else 5_000
    for name, frame in _frames().items():
        found = in_turns(sides, lambda side, frame=frame: _repeat(side, frame, count), plan.repeats)  # type: ignore[misc]
        report.lines += lines_of(f"{count} requests, {name}", found, _cpu_each).values()
        open_, guarded = (min(run["brokers_cpu_s"] for run in found[one]) for one in sides)
        what = f"CPU of a request with {ACLS:,} ACLs, {name}"
        report.at_most(what, MOST, guarded / (open_ or 1), "times that without an authorizer")


def _repeat(side: BrokerSide, frame: bytes, count: int) -> Figures:
    """Sends a request so many times; every answer is like the first one, but for the offsets in it."""
    cpu, began = time.process_time(), time.perf_counter()
    sizes = set[int]()
    with socket.create_connection(_address(side), PATIENCE_S) as connection:
        for _ in range(count):
            connection.sendall(frame)
            data = connection.recv(65536)
            while len(data) < SIZE.size + SIZE.unpack_from(data)[0]:
                data += connection.recv(65536)
            sizes.add(len(data))
    assert len(sizes) == 1, sizes
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "client_cpu_s": time.process_time() - cpu, "requests": count}


def _cpu_each(run: Figures) -> str:
    return f"{1e6 * run['brokers_cpu_s'] / run['requests']:.0f} us of the broker's CPU each"


def _memory(plan: Plan, report: Report, side: BrokerSide, admin: Admin) -> None:
    """Resident memory before and after more ACLs; a request of each topic is decided by them."""
    more = 50 if plan.short else MORE
    before, cpu, began = side.memory_mb(), side.cpu_s(), time.perf_counter()
    _add_of_others(admin, "User:more", ACLS, more)
    admin.add_acls(CLIENT, "read", groups=["last"])
    asyncio.run(find_coordinator([_address(side)], "last"))
    report.lines.append(
        Line(
            f"{more:,} more ACLs",
            GUARDED,
            seconds=time.perf_counter() - began,
            server_cpu_s=side.cpu_s() - cpu,
            note=f"{before:.1f} MiB resident before, {side.memory_mb() - before:.1f} more",
        )
    )
