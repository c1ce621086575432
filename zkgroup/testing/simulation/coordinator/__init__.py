"""Simulated schedules of coordinated groups: production brokers, controllers and coordinators, by seed."""

from zkgroup.testing.simulation.coordinator.setup import CoordinatorSetup as CoordinatorSetup
from zkgroup.testing.simulation.coordinator.simulation import (
    CoordinatorSimulation,
    CoordinatorSimulationError,
)

__all__ = ["CoordinatorSetup", "CoordinatorSimulation", "CoordinatorSimulationError"]
