"""The pure machine of one member. See `member` for how it works."""

from zkgroup.consumer.machine.config import MemberConfig
from zkgroup.consumer.machine.description import MemberDescription
from zkgroup.consumer.machine.member import MemberMachine

__all__ = ["MemberConfig", "MemberDescription", "MemberMachine"]
