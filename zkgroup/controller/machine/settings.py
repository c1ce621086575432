"""Settings of a controller, and the small values that a reign keeps."""

from __future__ import annotations

from dataclasses import dataclass

from zkgroup.znodes.controller import ControllerStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """What a controller is told once, beside what its election needs. Names as in Kafka's settings."""

    unclean_election: bool = False
    """`unclean.leader.election.enable`; a topic may say otherwise. True up to 0.10."""
    delete_topics: bool = True
    """`delete.topic.enable`. False at 0.8.2.2."""
    auto_rebalance: bool = True
    """`auto.leader.rebalance.enable`."""
    rebalance_first_ms: int = 5_000
    rebalance_interval_ms: int = 300_000
    """`leader.imbalance.check.interval.seconds`, in milliseconds."""
    rebalance_percentage: int = 10
    """`leader.imbalance.per.broker.percentage`."""
    status_interval_ms: int = 5_000
    """Shortest time between two writes of the status (recipes 18)."""


@dataclass(slots=True)
class Shown:
    """The status as this controller has written it last."""

    status: ControllerStatus | None = None
    version: int | None = None
    """Data version of the znode; None where it is not known to be of this rule."""
    not_before_ms: int = 0


@dataclass(slots=True)
class Recalled:
    """How far what former controllers have left behind is known (K16)."""

    all: bool = False
    """Nothing is left to be recalled."""
    moves: bool = False
    """The records of ended moves were read."""
    of_earlier: bool = False
    """Among them were some of controllers of earlier versions."""
    read: int = 0
    """So many were read."""
    last: int = -1
    """Number of the last one."""
    version: int | None = None
    """Of the znode that says up to which one none need be read; None where there is none."""
    is_noted: bool = False
    """What they name is recorded, and that they need not be read is noted."""
