"""Records of finished reassignments, and stored plans that controllers execute.

They are below `/zkgroup`, which Kafka does not read. Numbers that may not fit 32 bits are stored as text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Self, TypeVar, get_args

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition, ZnodeStat
from zkgroup.znodes.admin_requests import Move, read_moves
from zkgroup.znodes.ids import check_once, sequence_of, sequential, validate_group
from zkgroup.znodes.json_fields import (
    INT32,
    INT64,
    check_number,
    check_size,
    check_text,
    decimal,
    integer_of,
    integer_text_of,
    others,
    read_object,
    show,
    text_of,
    write_object,
)
from zkgroup.znodes.paths import zkgroup_path

Outcome = Literal["done", "cancelled", "dropped"]
PlanState = Literal["running", "paused", "done", "cancelled", "failed"]
"""The state of a stored plan; the last three are final."""

FINISHED_KEPT: Final = 1000
PLANS_KEPT: Final = 100
ENDED: Final[frozenset[PlanState]] = frozenset({"done", "cancelled", "failed"})
FINISHED_PREFIX: Final = "done-"
THROTTLES_OFF: Final = "off"

_Word = TypeVar("_Word", bound=str)
_OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)
_STATES: Final[tuple[PlanState, ...]] = get_args(PlanState)
_PLAN_KEYS: Final = ("version", "state", "next", "phases", "time", "by", "reason", "throttle", "throttles")
_NUMBERS: Final = range(INT32[-1] + 1)


def finished_reassignments_path() -> str:
    """Its children are the last finished reassignments, `FINISHED_KEPT` of them."""
    return f"{zkgroup_path()}/reassignments"


def plans_path() -> str:
    """Its children are the plans; of the ended ones the last `PLANS_KEPT`."""
    return f"{zkgroup_path()}/plans"


@dataclass(frozen=True, slots=True)
class FinishedReassignment:
    """`/zkgroup/reassignments/done-<n>`: a finished reassignment. Persistent, sequential; every value a text.

    Created in the transaction that writes the final replica list and removes the entry from the request, so
    that a tool can read the outcome later.
    """

    topic_partition: TopicPartition
    before: tuple[int, ...]
    """Replicas at the start of the reassignment."""
    target: tuple[int, ...]
    """Replicas in the request, which may be empty."""
    outcome: Outcome
    """`done`, `cancelled` by an operator, or `dropped` as invalid."""
    reason: str
    epoch: int
    """Epoch of the controller that finished it."""
    left: tuple[int, ...] = ()
    """Other brokers that may have a stray replica: it was added, and then removed again."""
    czxid: int | None = None
    """czxid of the topic's znode, 0 for no topic. Then `/zkgroup/strays` has the stray replicas; None: a
    controller of an earlier version finished it, and every earlier replica may still exist."""

    @staticmethod
    def path(sequence: int) -> str:
        return sequential(FinishedReassignment.prefix(), sequence)

    @staticmethod
    def prefix() -> str:
        """Returns the path for a sequential create."""
        return f"{finished_reassignments_path()}/{FINISHED_PREFIX}"

    @staticmethod
    def sequence_of(name: str) -> int | None:
        """The number of a child, or None for a foreign name."""
        return sequence_of(FINISHED_PREFIX, name)

    def encode(self) -> bytes:
        """Raises ConfigError for an unknown outcome, and for text that is not UTF-8.

        Names and lists are not checked: they are from the request, which may have been invalid.
        """
        if self.outcome not in _OUTCOMES:
            raise ConfigError(f"outcome {self.outcome!r}: expected one of {', '.join(_OUTCOMES)}")
        fields = {
            "version": "1",
            "topic": check_text("topic", self.topic_partition.topic),
            "partition": str(self.topic_partition.partition),
            "from": _joined(self.before),
            "to": _joined(self.target),
            "outcome": self.outcome,
            "reason": check_text("reason", self.reason),
            "epoch": str(check_number("controller epoch", self.epoch)),
        }
        if self.left:
            fields["left"] = _joined(self.left)
        if self.czxid is not None:
            fields["czxid"] = str(self.czxid)
        return write_object(fields)

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "a finished reassignment")
        partition = integer_text_of(path, fields, "partition", _NUMBERS)
        return cls(
            topic_partition=TopicPartition(text_of(path, fields, "topic"), partition),
            before=_brokers(path, fields, "from"),
            target=_brokers(path, fields, "to"),
            outcome=_word(path, fields, "outcome", _OUTCOMES),
            reason=text_of(path, fields, "reason"),
            epoch=integer_text_of(path, fields, "epoch", INT32),
            left=_brokers(path, fields, "left") if "left" in fields else (),
            czxid=integer_text_of(path, fields, "czxid", INT64) if "czxid" in fields else None,
        )


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """`/zkgroup/plans/<id>`: a reassignment plan in phases, submitted one at a time. Persistent.

    `{"version":1,"state":"running","next":0,"phases":[[{"topic":"t","partition":0,"replicas":[3]}]],...}`.
    A zkgroup controller submits the next phase when `/admin/reassign_partitions` is free.
    """

    phases: tuple[tuple[Move, ...], ...]
    """For each phase, the moves that are submitted together."""
    state: PlanState
    """The state of the plan."""
    next_phase: int
    """The phase to submit next, from 0; the number of phases when all were submitted."""
    time_ms: int
    """Epoch milliseconds of its creation."""
    by: str
    """The user who created it, for people."""
    reason: str = ""
    """The reason for its state."""
    throttle: int | None = None
    """Bytes a second for each broker, or None for no limit."""
    throttles_off: bool = False
    """True if the plan has ended and its throttles were removed; a resumed plan has them again."""
    extensions: Mapping[str, object] = field(default_factory=dict)
    """Keys of later zkgroup versions, kept by every rewrite."""

    @staticmethod
    def path(plan: str) -> str:
        """The path of the plan with this id."""
        return f"{plans_path()}/{plan}"

    @staticmethod
    def validate_id(plan: str) -> str:
        """Returns the id. Raises ConfigError unless it is letters, digits, `.`, `_` and `-`."""
        try:
            return validate_group(plan)
        except ConfigError as error:
            raise ConfigError(f"plan {plan!r}: expected letters, digits, '.', '_' and '-'") from error

    @property
    def is_over(self) -> bool:
        """True if it has ended and its throttles are removed."""
        return self.state in ENDED and (self.throttle is None or self.throttles_off)

    def at(self, next_phase: int, state: PlanState, reason: str = "") -> Self:
        """The plan with another next phase and state."""
        off = self.throttles_off and state != "running"
        return dataclasses.replace(self, next_phase=next_phase, state=state, reason=reason, throttles_off=off)

    def encode(self) -> bytes:
        """Raises ConfigError for an empty phase, a duplicate partition in one, and too much data."""
        for phase in self.phases:
            check_once("phase of a plan", (move.topic_partition for move in phase))
        if self.state not in _STATES:
            raise ConfigError(f"plan state {self.state!r}: expected one of {', '.join(_STATES)}")
        fields: dict[str, object] = {
            "version": 1,
            "state": self.state,
            "next": check_number("next phase", self.next_phase, 0, len(self.phases)),
            "phases": [[move.entry() for move in phase] for phase in self.phases],
            "time": str(self.time_ms),
            "by": check_text("by", self.by),
            "reason": check_text("reason", self.reason),
        }
        if self.throttle is not None:
            fields["throttle"] = str(check_number("throttle", self.throttle, 1, INT64[-1]))
        if self.throttles_off:
            fields["throttles"] = THROTTLES_OFF
        moves = sum(map(len, self.phases))
        return check_size(f"plan of {moves} moves", write_object({**fields, **self.extensions}))

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """The plan. Raises CorruptZnodeError."""
        fields = read_object(path, data, "a plan of moves")
        phases = fields.get("phases")
        if not isinstance(phases, list):
            raise CorruptZnodeError(path, "a list in 'phases'", show(phases))
        return cls(
            phases=tuple(read_moves(path, {"phases": phase}, "phases") for phase in phases),
            state=_word(path, fields, "state", _STATES),
            next_phase=integer_of(path, fields, "next", range(len(phases) + 1)),
            time_ms=integer_text_of(path, fields, "time"),
            by=text_of(path, fields, "by"),
            reason=text_of(path, fields, "reason"),
            throttle=integer_text_of(path, fields, "throttle") if "throttle" in fields else None,
            throttles_off=fields.get("throttles") == THROTTLES_OFF,
            extensions=others(fields, *_PLAN_KEYS),
        )


def surplus_plans(over: Mapping[str, ZnodeStat]) -> tuple[str, ...]:
    """Ids of the ended plans except the last `PLANS_KEPT`, the oldest first.

    Args:
        over: id to the Stat of the znode, of ended plans: the last write is their end.
    """
    by_end = sorted(over, key=lambda plan: (over[plan].mzxid, plan))
    return tuple(by_end[:-PLANS_KEPT])


def _word(path: str, fields: Mapping[str, object], key: str, allowed: tuple[_Word, ...]) -> _Word:
    text = text_of(path, fields, key)
    for word in allowed:
        if word == text:
            return word
    raise CorruptZnodeError(path, f"one of {', '.join(allowed)} in {key!r}", show(text))


def _joined(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))


def _brokers(path: str, fields: Mapping[str, object], key: str) -> tuple[int, ...]:
    found = []
    for item in filter(None, text_of(path, fields, key).split(",")):
        broker = decimal(item, INT32)
        if broker is None:
            raise CorruptZnodeError(path, f"broker ids joined by commas in {key!r}", show(fields[key]))
        found.append(broker)
    return tuple(found)
