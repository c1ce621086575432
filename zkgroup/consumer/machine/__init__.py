"""The pure machine of one member. See `machine` for how it works."""

from zkgroup.consumer.machine.machine import MemberMachine, MemberSnapshot
from zkgroup.consumer.machine.machine_context import MemberConfig

__all__ = ["MemberConfig", "MemberMachine", "MemberSnapshot"]
