"""Simulated schedules of a consumer group: production machines, a ZooKeeper in memory, faults by seed."""

from tests.simulation.group.simulation import Report, Simulation, SimulationError

__all__ = ["Report", "Simulation", "SimulationError"]
