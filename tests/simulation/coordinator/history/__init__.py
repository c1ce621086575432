"""The checker of groups with a coordinator (S23-S34), from servers' log and members' records."""

from tests.simulation.coordinator.history.checker import CoordinatorReport, check_coordinator

__all__ = ["CoordinatorReport", "check_coordinator"]
