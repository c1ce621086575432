"""What a cluster of 10,000 partitions costs its controller, on a real server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.programs.benchmarks.cluster_tree import FIRST_BROKER, ClusterTree
from tests.real.conftest import CountingZooKeeper
from tests.real.controller.server_controllers import ServerControllers
from tests.waiting import PATIENCE_S, eventually
from tests.worlds.clients import opener
from tests.worlds.controller_clusters import tp
from tests.worlds.stepped_controllers import Host
from zkgroup.model.requests import Exists, ListChildren, Read, ReadMany, Request
from zkgroup.testing.conformance import Target
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking

TREE = ClusterTree(topics=100, partitions=100)


@pytest.fixture
def chaos(zk_chaos_server: CountingZooKeeper) -> Iterator[CountingZooKeeper]:
    """With the tree on it."""
    with TREE.laid_out(zk_chaos_server.direct_address):
        yield zk_chaos_server


def test_a_failover_reads_each_znode_once_within_the_window(chaos: CountingZooKeeper) -> None:
    """B + T + P + 20 reads until it has loaded, and never more unanswered than were set.

    What it looks at afterwards (requests of operators, changed configs) is not counted in the sum: how far it
    has come with that when the last broker knows its leaders is a matter of luck.
    """
    window = 8
    reads: Counter[str] = Counter()
    loading: Counter[str] = Counter()

    def before(request: Request) -> None:
        paths: tuple[str, ...] = ()
        if isinstance(request, ReadMany):
            paths = request.paths
        elif isinstance(request, Read | Exists | ListChildren):
            paths = (request.path,)
        reads.update(paths)
        if not any(each.notes("controller.loaded") for each in country.controllers):
            loading.update(paths)

    connection = ClientSettings(session_timeout_ms=20_000, bulk_paths=100, max_in_flight=window)
    with Target(opener(chaos.direct_address)) as target:
        country = ServerControllers(chaos.address, target.connect(20_000), connection=connection)
        country.hosts = {FIRST_BROKER + number: Host(FIRST_BROKER + number) for number in range(TREE.brokers)}
        chaos.most_unanswered()
        with closing(country):
            controller = country.new_controller(before=before)
            assert controller.notes("controller.loaded")[0]["partitions"] == TREE.size
            last, leader = tp(99, "t99"), TREE.replicas(99, 99)[0]
            eventually(lambda: all(h.metadata.get(last) == leader for h in country.hosts.values()))

    assert {reads[path] for path in TREE.paths()} == {1}
    assert loading.total() <= TREE.brokers + TREE.topics + TREE.size + 20
    assert chaos.most_unanswered() == window


def test_a_window_of_ten_hides_most_of_the_way_to_the_server(chaos: CountingZooKeeper) -> None:
    """Beyond a slow way, all is read at least three times as fast as one by one.

    Counted, not timed: it is so many times faster as requests are under way at once, on average.
    """
    assert _at_once(chaos, 1) == 1
    chaos.delay(0.02)
    assert _at_once(chaos, 10) >= 3


def _at_once(chaos: CountingZooKeeper, window: int) -> float:
    """In packets of 100 znodes, so that there are a hundred of them: those of 1,000 would be ten."""
    paths = list(TREE.paths())
    settings = ClientSettings(session_timeout_ms=60_000, bulk_paths=100, max_in_flight=window)
    with ZooKeeperClient(chaos.address, settings) as client, Blocking(client, PATIENCE_S) as zk:
        zk.wait_connected()
        chaos.unanswered()
        found = zk.read_many(paths)
        counts = chaos.unanswered()
    assert len(found) == len(paths)
    assert max(counts) == window
    return sum(counts) / len(counts)
