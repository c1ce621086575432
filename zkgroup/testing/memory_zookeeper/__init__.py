"""A ZooKeeper server in memory, with the answers, Stats, watches and ACLs of a real one, and faults."""

from zkgroup.testing.memory_zookeeper.server import Fault, MemoryZooKeeper, Step, StepKind

__all__ = ["Fault", "MemoryZooKeeper", "Step", "StepKind"]
