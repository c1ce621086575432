"""Simulated schedules of a cluster: production controllers and brokers on a network in memory, by seed."""

from zkgroup.testing.simulation.cluster.setup import ClusterSetup as ClusterSetup
from zkgroup.testing.simulation.cluster.simulation import (
    ClusterRun,
    ClusterSimulation,
    ClusterSimulationError,
)

__all__ = ["ClusterRun", "ClusterSetup", "ClusterSimulation", "ClusterSimulationError"]
