"""The pure machine of one member. See `machine` for how it works."""

from zkgroup.consumer.machine.machine import MemberDescription, MemberMachine
from zkgroup.consumer.machine.machine_context import MemberConfig

__all__ = ["MemberConfig", "MemberDescription", "MemberMachine"]
