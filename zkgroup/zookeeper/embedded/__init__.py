"""Real ZooKeeper servers as child processes, from the jars that the pyspark wheel carries.

>>> with EmbeddedZooKeeper(servers=3) as zookeeper:      # doctest: +SKIP
...     client = ZooKeeperClient(zookeeper.address)
...     zookeeper.server(0).kill()

The default of the demo, the tests and the benchmarks; for development, not for production.
"""

from zkgroup.zookeeper.embedded.ensemble import EmbeddedZooKeeper
from zkgroup.zookeeper.embedded.server import EmbeddedServer, ServerState

__all__ = ["EmbeddedServer", "EmbeddedZooKeeper", "ServerState"]
