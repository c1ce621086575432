"""A walk of a ZooKeeper 3.4.6, which has no multiRead, gives the tree of that server's own files."""

from __future__ import annotations

from kazoo.client import KazooClient

from tests.long.interop.servers import RealZooKeeper
from tests.real.audit.walked_trees import plant, walk_and_compare


def test_a_walk_is_the_tree_in_the_servers_files(real_zookeeper: RealZooKeeper, tree: KazooClient) -> None:
    """Data, all numbers and ACLs, at the zxid that the walk names."""
    plant(tree)
    try:
        walk_and_compare(real_zookeeper.address, real_zookeeper.data)
    finally:
        tree.delete("/walked", recursive=True)
