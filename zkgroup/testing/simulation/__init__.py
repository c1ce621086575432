"""Many members' real machines over a memory ZooKeeper, under faults, from one seed."""

from zkgroup.testing.simulation.simulation import Report, Simulation, SimulationError

__all__ = ["Report", "Simulation", "SimulationError"]
