"""Simulated schedules of consumer groups and of clusters on a ZooKeeper in memory, drawn from a seed."""

from tests.simulation.group import Report, Simulation, SimulationError

__all__ = ["Report", "Simulation", "SimulationError"]
