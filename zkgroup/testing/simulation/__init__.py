"""Simulated schedules of consumer groups and of clusters, drawn from a seed, on a ZooKeeper in memory."""

from zkgroup.testing.simulation.group import Report, Simulation, SimulationError

__all__ = ["Report", "Simulation", "SimulationError"]
