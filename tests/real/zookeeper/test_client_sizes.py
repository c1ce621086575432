"""Large requests and large answers on real servers."""

from __future__ import annotations

from tests.waiting import becomes
from tests.worlds.clients import opener, session_events
from zkgroup.model.requests import (
    Check,
    Code,
    Create,
    Multi,
    MultiRefused,
    NotSent,
    ReadMany,
    ReadManyDone,
    SetData,
    Suspended,
    Unanswered,
)
from zkgroup.testing.conformance import Target
from zkgroup.testing.plugin import ServerTree
from zkgroup.zookeeper import ClientSettings


def test_requests_up_to_the_bound_pass_a_real_server(zk_ensemble: ServerTree) -> None:
    """Through the leader to every follower: the bound leaves room for what they add."""
    with Target(opener(zk_ensemble.address)) as target:
        caller = target.connect(20_000)
        limit = ClientSettings().max_request_bytes
        caller.make("/n")
        overhead = 8 + 9 + 4 + len(zk_ensemble.chroot) + 2 + 4 + 4 + 9
        caller.write(SetData("/n", bytes(limit - overhead), 0))
        caller.ask(Multi((SetData("/n", bytes(limit - overhead + 1), 1),)), NotSent)
        assert caller.stat("/n").data_length == limit - overhead


def test_beyond_the_servers_bound_the_connection_would_break(zk_server: ServerTree) -> None:
    """faults.md, finding 14: what our bound is for; the write is not sent a second time."""
    with Target(opener(zk_server.address, max_request_bytes=3_000_000)) as target:
        caller = target.connect(20_000)
        caller.make("/n")
        write = caller.submit(Multi((SetData("/n", bytes(2_000_000), 0),)))
        assert isinstance(write.outcome(), Unanswered)
        caller.await_event(Suspended)
        becomes(lambda: session_events(caller), [("Connected", 1), ("Suspended", 1), ("Connected", 1)])
        assert caller.stat("/n").version == 0


def test_bulk_reads_of_any_size_are_cut_into_packets(zk_server: ServerTree) -> None:
    """5 MB in 300 znodes and 3,000 paths; one answer each, in order."""
    with Target(opener(zk_server.address)) as target:
        caller = target.connect(20_000)
        caller.make("/big")
        for start in range(0, 300, 20):
            caller.write(*(Create(f"/big/{n}", bytes([n % 256]) * 17_000) for n in range(start, start + 20)))
        paths = tuple(f"/big/{n % 400}" for n in range(3000))
        for _ in range(2):
            znodes = caller.ask(ReadMany(paths), ReadManyDone).znodes
            assert [znode is not None for znode in znodes] == [n % 400 < 300 for n in range(3000)]
            assert all(z is None or (not isinstance(z, Code) and z.data[0] == int(z.path[5:]) % 256)
                       for z in znodes)  # fmt: skip


def test_a_multi_of_a_thousand_fenced_commits_is_one_packet(zk_server: ServerTree) -> None:
    """Owner checked and offset written for each of 1,000 partitions, answered one by one (recipes 6)."""
    with Target(opener(zk_server.address)) as target:
        caller = target.connect(20_000)
        caller.make("/ids", "/own", "/off", "/out")
        names = [f"{n:04d}" for n in range(1000)]
        for kind in ("own", "off"):
            caller.write(*(Create(f"/{kind}/{name}", b"0") for name in names))
        server = zk_server.server(0)
        before = _packets(server.ask("mntr"))
        operations = [Check("/ids", 0)]
        for name in names:
            operations += [Check(f"/own/{name}", 0), SetData(f"/off/{name}", b"41", 0)]  # type: ignore[list-item]
        done = caller.write(*operations)
        assert _packets(server.ask("mntr")) - before <= 3
        assert [stat.version for stat in done.stats if stat is not None] == [1] * 1000
        refused = caller.ask(Multi((*operations[:3], Check("/own/0001", 7))), MultiRefused)
        assert refused == MultiRefused(2, Code.BAD_VERSION)


def _packets(mntr: str) -> int:
    return int(next(line.split()[1] for line in mntr.splitlines() if line.startswith("zk_packets_received")))
