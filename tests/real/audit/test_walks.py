"""A walk of a real server and that server's own files say the same."""

from __future__ import annotations

from tests.real.audit.walked_trees import plant, walk_and_compare
from tests.worlds.other_clients import kazoo_on
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper


def test_a_walk_is_the_tree_in_the_servers_files() -> None:
    """Data, all numbers and ACLs, at the zxid that the walk names."""
    with EmbeddedZooKeeper(fsync=False) as server, kazoo_on(server.address) as client:
        plant(client)
        znodes = walk_and_compare(server.address, server.data_dir / "server-0")

    assert sum(one.stat.ephemeral_owner != 0 for one in znodes) == 1
