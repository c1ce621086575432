"""Results that the members of one process share instead of computing each for itself.

After a change of the group every member decodes the same registrations and computes the same assignment from
them. A process with hundreds of members would do that hundreds of times, and keep as many copies. All results
are pure functions of their arguments, and nobody changes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, ParamSpec, Self, TypeVar
from weakref import WeakValueDictionary

from zkgroup import assignment
from zkgroup.assignment import strategies
from zkgroup.model import EvaluatedMember, StaticSubscription, Subscription
from zkgroup.model.assignors import Preference
from zkgroup.model.requests import ListChildrenDone
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import Registration
from zkgroup.znodes.group_records import StoredAssignment

P = ParamSpec("P")
R = TypeVar("R")

RESULTS_MAX = 2
"""Results of one function that are remembered: the members of a process are at most a change apart."""
TOPICS_MAX = 32


def remembered(function: Callable[P, R], most: int = RESULTS_MAX) -> Callable[P, R]:
    """The function with its newest results, for calls with equal arguments. Errors are not remembered."""
    recent: tuple[tuple[object, object, R], ...] = ()

    def call(*args: P.args, **named: P.kwargs) -> R:
        nonlocal recent
        for known, known_names, result in recent:
            if known == args and known_names == named:
                return result
        result = function(*args, **named)
        recent = ((args, named, result), *recent[: most - 1])
        return result

    return call


assign = remembered(assignment.assign)
inputs_digest = remembered(strategies.inputs_digest)
result_digest = remembered(strategies.result_digest)
decoded_assignment = remembered(StoredAssignment.decode)
decoded_topic = remembered(Topic.decode, TOPICS_MAX)


class Terms(NamedTuple):
    """What a registration says about how the group is shared out; most members of a group say the same."""

    is_zkgroup: bool
    preference: Preference
    exclude_internal: bool | None

    @classmethod
    def of(cls, registration: Registration) -> Self:
        return cls(registration.is_zkgroup, registration.preference, registration.exclude_internal)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class DecodedMember:
    """A registration as read, with its subscription and, unless it is a wildcard, its topics."""

    registration: Registration
    subscription: Subscription
    evaluated: EvaluatedMember | None
    """None for a wildcard, whose topics depend on those that exist."""
    terms: Terms


_decoded: WeakValueDictionary[tuple[str, bytes | None], DecodedMember] = WeakValueDictionary()
"""By path and data; each as long as a member of this process has it."""


def decoded_member(name: str, path: str, data: bytes | None) -> DecodedMember:
    """The registration of a member. Raises CorruptZnodeError."""
    known = _decoded.get((path, data))
    if known is not None:
        return known
    decoded = _decoded[(path, data)] = member_of(name, Registration.decode(path, data))
    return decoded


def member_of(name: str, registration: Registration) -> DecodedMember:
    """The member with this registration."""
    subscription = registration.wanted()
    evaluated = None
    if isinstance(subscription, StaticSubscription):
        evaluated = registration.evaluated(name, subscription.topics)
    return DecodedMember(registration, subscription, evaluated, Terms.of(registration))


@dataclass(frozen=True, slots=True)
class KnownMembers:
    """The registrations of a group as read after one listing of `ids`."""

    czxid: int
    """czxid of `ids`."""
    cversion: int
    """cversion of `ids` in the listing."""
    registrations: Mapping[str, DecodedMember | None] = field(default_factory=dict)
    """The peer of each name; None for a registration that cannot be read."""
    created_ms: Mapping[str, int] = field(default_factory=dict)
    """ctime of each registration, in epoch milliseconds."""
    created: Mapping[str, int] = field(default_factory=dict)
    """czxid of each registration."""

    def is_valid(self, listing: ListChildrenDone) -> bool:
        """Returns whether each of them that is listed is still the same (snapshots, recipes 3)."""
        stat = listing.stat
        if stat is None or self.czxid != stat.czxid:
            return False
        return stat.cversion - self.cversion == len(self.registrations.keys() ^ set(listing.children))
