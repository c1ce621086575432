"""The memory server against a real one: the same operations, the same outcomes, Stats and watches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zkgroup.model import Znode, ZnodeStat
from zkgroup.model.ports import Store
from zkgroup.model.requests import (
    Check,
    Create,
    CreateMissing,
    Delete,
    Exists,
    ListChildren,
    ListChildrenDone,
    ListMany,
    ListManyDone,
    Multi,
    MultiDone,
    Operation,
    Outcome,
    Read,
    ReadDone,
    ReadMany,
    ReadManyDone,
    Request,
    SetData,
)
from zkgroup.model.requests import ExistsDone as _ExistsDone
from zkgroup.testing import MemoryZooKeeper
from zkgroup.testing.conformance import Caller, Target
from zkgroup.testing.conformance.target import Pending
from zkgroup.testing.plugin import ServerTree
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

EXAMPLES = int(os.environ.get("ZKGROUP_EXAMPLES", "40"))
CLIENTS = 2
PATHS = ("/r/a", "/r/a/x", "/r/a/y", "/r/e", "/r/e/x")
"""Few, so that operations meet. The first two exist at the start, and `/r/e`, an ephemeral."""


@dataclass(frozen=True)
class Reopen:
    """A client ends its session and comes back with a new one."""


Step = tuple[int, Request | Reopen]

paths = st.sampled_from(PATHS)
versions = st.sampled_from((-1, -1, -1, 0, 0, 1))
operations: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Create, paths, st.sampled_from((None, b"", b"data")), st.booleans(), st.just(False)),
    st.builds(Create, st.sampled_from(("/r/s-", "/r/a/s-")), st.just(b""), st.booleans(), st.just(True)),
    st.builds(SetData, paths, st.sampled_from((b"", b"1", b"22")), versions),
    st.builds(Delete, paths, versions),
    st.builds(Check, paths, versions),
)
requests: st.SearchStrategy[Request | Reopen] = st.one_of(
    st.builds(Multi, st.lists(operations, min_size=2, max_size=4).map(tuple)),
    *[st.builds(Multi, st.lists(operations, min_size=1, max_size=1).map(tuple))] * 4,
    st.builds(Read, paths, st.booleans()),
    st.builds(Exists, paths, st.booleans()),
    st.builds(ListChildren, paths, st.booleans()),
    st.builds(CreateMissing, st.lists(paths, min_size=1, max_size=3).map(tuple)),
    st.just(ReadMany(("/r", *PATHS))),
    st.just(ListMany(("/r", *PATHS))),
    st.just(Reopen()),
)
steps = st.lists(st.tuples(st.integers(0, CLIENTS - 1), requests), min_size=20, max_size=40)


@dataclass(frozen=True)
class Zxid:
    """A transaction id that stands alone in an outcome."""

    value: int


@dataclass
class Transcript:
    """What one server did, with what differs by nature taken out."""

    lines: list[Any] = field(default_factory=list)
    zxids: set[int] = field(default_factory=set)
    sessions: dict[int, int] = field(default_factory=dict)

    def add(self, line: object) -> None:
        self.lines.append(line)

    def clean(self, outcome: Outcome) -> object:
        """Sessions by order of appearance, no times; children as sets."""
        match outcome:
            case MultiDone():
                assert outcome.zxid is not None
                self.zxids.add(outcome.zxid)
                stats = tuple(self._stat(stat) for stat in outcome.stats)
                return "done", Zxid(outcome.zxid), stats, outcome.created
            case ReadDone():
                return "read", self._znode(outcome.znode)
            case ReadManyDone():
                return "read many", tuple(self._znode(znode) for znode in outcome.znodes)
            case _ExistsDone():
                return "exists", self._stat(outcome.stat)
            case ListChildrenDone():
                return "children", sorted(outcome.children), self._stat(outcome.stat)
            case ListManyDone():
                return "many", [
                    sorted(names) if isinstance(names, tuple) else names for names in outcome.children
                ]
            case _:
                return outcome

    def _znode(self, znode: object) -> object:
        return (znode.path, znode.data, self._stat(znode.stat)) if isinstance(znode, Znode) else znode

    def _stat(self, stat: ZnodeStat | None) -> object:
        if stat is None:
            return None
        self.zxids.update((stat.czxid, stat.mzxid, stat.pzxid))
        owner = stat.ephemeral_owner and self.sessions[stat.ephemeral_owner]
        return stat._replace(ctime=0, mtime=0, ephemeral_owner=owner)

    def ranked(self) -> list[object]:
        """Transaction ids by their order: two servers do not start at the same one."""
        rank = {zxid: n for n, zxid in enumerate(sorted(self.zxids))}

        def replace(value: object) -> object:
            if isinstance(value, ZnodeStat):
                return value._replace(
                    czxid=rank[value.czxid], mzxid=rank[value.mzxid], pzxid=rank[value.pzxid]
                )
            if isinstance(value, Zxid):
                return rank[value.value]
            if isinstance(value, tuple | list):
                return [replace(one) for one in value]
            return value

        return [replace(line) for line in self.lines]


def play(open_store: Callable[[int], Store], script: list[Step]) -> Transcript:
    """Runs the steps one after another, each answered before the next.

    Watches count that belong to a client of the end: what a closing one still hears is chance.
    """
    with Target(open_store) as target:
        transcript = Transcript()
        callers = [_join(target, transcript) for _ in range(CLIENTS)]
        callers[0].make("/r", "/r/a", "/r/a/x")
        callers[0].write(Create("/r/e", b"", ephemeral=True))
        watches: list[tuple[int, Caller, Pending]] = []
        for number, (who, request) in enumerate(script):
            if isinstance(request, Reopen):
                callers[who].store.close()
                callers[who] = _join(target, transcript)
                continue
            pending = callers[who].submit(request)
            transcript.add((number, transcript.clean(pending.outcome())))
            if getattr(request, "watch", False):
                watches.append((number, callers[who], pending))
        for caller in callers:
            _flush(caller)
        alive = [(number, pending) for number, caller, pending in watches if caller in callers]
        transcript.add([(number, len(pending.watched)) for number, pending in alive])
    return transcript


def _join(target: Target, transcript: Transcript) -> Caller:
    caller = target.connect()
    transcript.sessions[caller.session().session_id] = len(transcript.sessions) + 1
    return caller


def _flush(caller: Caller) -> None:
    """Every watch event that is on its way has been delivered."""
    marker = caller.submit(Exists("/marker", watch=True))
    marker.outcome()
    caller.make("/marker")
    marker.fired()
    caller.write(Delete("/marker", -1))


@contextmanager
def _real(zookeeper: EmbeddedZooKeeper) -> Iterator[Callable[[int], Store]]:
    address = ServerTree(zookeeper).address
    yield lambda timeout: ZooKeeperClient(address, ClientSettings(session_timeout_ms=timeout))


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(script=steps)
def test_memory_does_what_a_real_server_does(
    zk_server_process: EmbeddedZooKeeper, script: list[Step]
) -> None:
    """Any sequence of operations of two clients, with sessions that end: equal transcripts."""
    memory = MemoryZooKeeper()
    ours = play(lambda timeout: memory.client(session_timeout_ms=timeout), script)
    with _real(zk_server_process) as open_store:
        theirs = play(open_store, script)
    assert ours.ranked() == theirs.ranked()
