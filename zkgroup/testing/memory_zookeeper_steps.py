"""What can happen next on the ZooKeeper in memory, and how it can go wrong."""

from __future__ import annotations

from typing import Literal, NamedTuple

StepKind = Literal["request", "reply", "watch", "session", "connect", "orphan", "catch_up"]
Fault = Literal["lost_reply", "lost_request", "late"]


class Step(NamedTuple):
    """Something that can happen next to a client."""

    kind: StepKind
    """`request`: its oldest request is executed. `reply`, `watch`, `session`: its oldest outcome, watch
    event or session event is delivered. `connect`: it reaches a server. `orphan`: a request of a
    connection that is gone is executed after all. `catch_up`: its server applies one more transaction."""
    client: str
