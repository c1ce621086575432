"""What a member's machine is told once, at its start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from zkgroup.model import Subscription
from zkgroup.settings import GroupSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberConfig:
    """Everything `MemberMachine` knows beside its events."""

    group: str
    member_id: str
    """The consumer id string `<group>_<...>`: the name of the registration znode."""
    subscription: Subscription
    settings: GroupSettings = field(default_factory=GroupSettings)
    """`require_brokers` must be resolved by the caller: only True makes the member wait for brokers."""
    version: str = ""
    """Of this library; published in the registration as `"zkgroup"`."""
    host: str | None = None
    """Published in the registration; None where the id tells it already."""
    jitter: Callable[[], float] = lambda: 0.5
    """Draws a number in [0, 1). The only source of randomness of the machine."""
    owns_client: bool = True
    """The client serves this member alone: a machine that ends by itself may have its session closed."""
    request_bytes_max: int = 800_000
    """Bound of one multi, well below the server's default `jute.maxbuffer` of 1,048,575 bytes."""
