"""`MemoryZooKeeper`: a ZooKeeper server in memory, with a real server's responses and watches, and faults."""

from zkgroup.testing.memory_zookeeper.server import Fault, MemoryZooKeeper, ServerStep, StepKind

__all__ = ["Fault", "MemoryZooKeeper", "ServerStep", "StepKind"]
