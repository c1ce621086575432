"""Simulated schedules of coordinated groups: production brokers, controllers and coordinators, by seed."""

from tests.simulation.coordinator.setup import CoordinatorSetup as CoordinatorSetup
from tests.simulation.coordinator.simulation import (
    CoordinatorSimulation,
    CoordinatorSimulationError,
)

__all__ = ["CoordinatorSetup", "CoordinatorSimulation", "CoordinatorSimulationError"]
