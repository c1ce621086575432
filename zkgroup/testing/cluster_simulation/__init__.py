"""Controllers and brokers, the very code, over a ZooKeeper and a network in memory, under faults, by seed."""

from zkgroup.testing.cluster_simulation.setup import Setup as ClusterSetup
from zkgroup.testing.cluster_simulation.simulation import (
    ClusterRun,
    ClusterSimulation,
    ClusterSimulationError,
)

__all__ = ["ClusterRun", "ClusterSetup", "ClusterSimulation", "ClusterSimulationError"]
