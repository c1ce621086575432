"""A walk of a real server and that server's own files say the same."""

from __future__ import annotations

from tests.worlds.server_files import connected
from tests.worlds.walked_trees import plant, walk_and_compare
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper


def test_a_walk_is_the_tree_in_the_servers_files() -> None:
    """Data, all numbers and ACLs, at the zxid that the walk names."""
    with EmbeddedZooKeeper(fsync=False) as server:
        client = connected(server.address)
        try:
            plant(client)
            found = walk_and_compare(server.address, server.data_dir / "server-0")
        finally:
            client.stop()
            client.close()

    assert sum(one.stat.ephemeral_owner != 0 for one in found.znodes) == 1
