"""Simulated schedules of a cluster: production controllers and brokers on a network in memory, by seed."""

from tests.simulation.cluster.setup import ClusterSetup as ClusterSetup
from tests.simulation.cluster.simulation import (
    ClusterRun,
    ClusterSimulation,
    ClusterSimulationError,
)

__all__ = ["ClusterRun", "ClusterSetup", "ClusterSimulation", "ClusterSimulationError"]
