"""Facts that a controller is told beside those of every machine: its connections to brokers, and who stops.

What belongs to another incarnation than the one whose channel was opened last is passed over.
"""

from __future__ import annotations

from dataclasses import dataclass

from zkgroup.wire.messages import Response


@dataclass(frozen=True, slots=True)
class ChannelUp:
    """A connection to the broker is made; nothing was sent on it yet."""

    broker: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class ChannelDown:
    """That connection is gone; what was sent on it and not answered may or may not have arrived."""

    broker: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class BrokerAnswered:
    """The response to the one request that was in flight, of the type that belongs to it."""

    broker: int
    incarnation: int
    response: Response


@dataclass(frozen=True, slots=True)
class ShutdownAsked:
    """A broker asks to be relieved of its leaderships; `ShutdownAnswered` with this id replies."""

    request_id: int
    broker: int


@dataclass(frozen=True, slots=True)
class Retire:
    """It shall rule no more, and stand for election no more; what stands of it is taken off."""

    reason: str


ControllerEvent = ChannelUp | ChannelDown | BrokerAnswered | ShutdownAsked | Retire
