"""The configurations: the recipes as they are, each rule left out, and what no recipe excludes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tests.programs.model.controller.tree import Result, explore
from tests.programs.model.coordinator.recipes import Model
from tests.programs.model.coordinator.world import Configuration


class Expected(NamedTuple):
    """A configuration and its expected answer."""

    configuration: Configuration
    verdict: str = "holds"
    """`holds`, `violated` or `stuck`; "holds" includes that no group is stuck."""
    violation: str | None = None
    is_short: bool = True
    """Explored in every run of the tests; the others with `ZKGROUP_MODEL=all`."""


def _of(*, is_short: bool = True, **fields: object) -> Expected:
    return Expected(Configuration(**fields), is_short=is_short)  # type: ignore[arg-type]


AS_WRITTEN: Final[Mapping[str, Expected]] = {
    "one-broker": _of(moves=0, joins=2, deletes=1),
    "one-broker-loses": _of(moves=0, joins=2, losses=1),
    "operator": _of(moves=0, joins=1, commits=0, crashes=1, operators=1),
    "operator-zookeeper": _of(moves=0, joins=1, commits=0, crashes=1, operators=1, goal="zookeeper"),
    "unmarked": _of(moves=0, joins=2, commits=0, unmarks=1),
    "unmarked-to-zookeeper": _of(moves=0, joins=1, unmarks=1, goal="zookeeper"),
    "unmarked-and-commit": _of(moves=0, joins=2, unmarks=1, is_short=False),
    "unmarked-and-move": _of(moves=1, joins=1, commits=0, unmarks=1, is_short=False),
    "unmarked-and-loss": _of(moves=1, joins=1, commits=0, losses=1, unmarks=1, is_short=False),
    "move-to-zookeeper": _of(joins=1, moves=1, commits=0, goal="zookeeper"),
    "move": _of(moves=1, joins=1),
    "move-and-delete": _of(moves=1, joins=1, deletes=1, is_short=False),
    "move-and-isr": _of(moves=1, joins=1, commits=0, isr=1, is_short=False),
    "move-and-loss": _of(moves=1, joins=1, commits=0, losses=1, is_short=False),
    "move-and-loss-zookeeper": _of(moves=1, joins=1, commits=0, losses=1, goal="zookeeper", is_short=False),
    "move-and-crash": _of(moves=1, joins=1, commits=0, crashes=1, operators=1, is_short=False),
    "move-two-generations": _of(moves=1, joins=2, members=False, is_short=False),
    "move-and-two-losses": _of(moves=1, joins=1, losses=2, members=False, is_short=False),
    "deleted-topic": _of(moves=0, joins=1, commits=2, topics=1, members=False, goal="no offset"),
    "deleted-topic-and-members": _of(moves=0, joins=1, topics=1, goal="no offset"),
    "deleted-topic-and-move": _of(
        moves=1, joins=1, topics=1, members=False, goal="no offset", is_short=False
    ),
    "deleted-topic-and-loss": _of(moves=0, joins=1, losses=1, topics=1, members=False, goal="no offset"),
    "freeze": _of(moves=0, joins=2, commits=0, freezes=2),
    "freeze-and-move": _of(moves=1, joins=1, commits=0, freezes=1, members=False),
    "freeze-and-crash": _of(moves=0, joins=2, commits=0, crashes=1, freezes=1, members=False, is_short=False),
    "two-moves": _of(moves=2, joins=1, is_short=False),
}
"""The recipes of part IV, and of freezes; every one holds."""

TWICE = "a generation is given twice"
OLD = "a commit of an old generation is accepted"
DEPOSED = "a commit of a deposed coordinator is accepted"
BOTH = "both kinds of members at once"
DELETED = "the offset of a ZooKeeper member is deleted"
STALE = "an offset of a deleted topic is served for the new one"
NEW = "the offset of a new topic is deleted"
FROZEN = "a frozen group begins a generation"
EARLY = "a freeze ends before its time"
NOT_LEADING = "a broker that does not lead takes the slot"


def _without(rule: str, violation: str | None, *, is_short: bool = True, **fields: object) -> Expected:
    configuration = Configuration(without=(rule,), **fields)  # type: ignore[arg-type]
    return Expected(configuration, "stuck" if violation is None else "violated", violation, is_short)


BROKEN: Final[Mapping[str, Expected]] = {
    "no-state-check": _without("state check", NOT_LEADING, moves=1, joins=1, commits=0),
    "no-slot-check": _without("slot check", BOTH, moves=1, joins=1, commits=0),
    "no-slot-check-of-commits": _without(
        "slot check of commits", DEPOSED, moves=1, joins=2, members=False, is_short=False
    ),
    "read-before-fence": _without("fence first", BOTH, moves=1, joins=1, commits=0),
    "same-block": _without("skip the block", TWICE, moves=1, joins=2, members=False),
    "no-generation-check": _without("generation check", OLD, moves=0, joins=2, members=False),
    "answer-before-marker": _without("marker first", BOTH, moves=0, joins=2, commits=0),
    "marker-unguarded": _without("guard of the marker", BOTH, moves=0, joins=1),
    "member-ignores-marker": _without("member asks for the marker", BOTH, moves=0, joins=1),
    "marker-stays-when-empty": _without("empty takes the marker off", None, moves=0, joins=1),
    "marker-stays-at-load": _without("load takes the marker off", None, moves=1, joins=1, commits=0),
    "delete-unguarded": _without("guard of deletes", DELETED, moves=0, joins=1, deletes=1),
    "topics-not-checked": _without(
        "check of topics", None, moves=0, joins=1, topics=1, members=False, goal="no offset"
    ),
    "new-topic-not-compared": _without("check compares", NEW, moves=0, joins=1, topics=1, members=False),
    "delete-without-version": _without(
        "version of deletes", NEW, moves=0, joins=1, commits=2, topics=1, members=False
    ),
    "fetch-compares-nothing": _without("fetch compares", STALE, moves=0, joins=1, topics=1, members=False),
    "fetch-reads-topic-first": _without("topic read last", STALE, moves=0, joins=1, topics=1, members=False),
    "operator-does-not-fence": _without(
        "operator fences", BOTH, moves=0, joins=1, commits=0, crashes=1, operators=1
    ),
    "no-load-when-refused": _without(
        "load again when refused", None, moves=0, joins=1, commits=0, crashes=1, operators=1
    ),
    "members-not-watched": _without("watch of the members", BOTH, moves=0, joins=1, commits=0, unmarks=1),
    "freeze-without-slot": _without("freeze sets the slot", FROZEN, moves=0, joins=2, commits=0, freezes=1),
    "freeze-not-loaded": _without("load reads the freeze", FROZEN, moves=0, joins=2, commits=0, freezes=1),
    "freeze-ended-unchecked": _without("end checks the slot", EARLY, moves=0, joins=2, commits=0, freezes=2),
    "freeze-ended-unnoticed": _without("end loads again", None, moves=0, joins=1, commits=0, freezes=1),
    "slot-not-watched": _without(
        "watch of the slot", None, moves=0, joins=1, commits=0, crashes=1, operators=1
    ),
}
"""Each rule left out: the search finds what it prevents. `stuck`: the group, or its ZooKeeper members."""

OUTSIDE: Final[Mapping[str, Expected]] = {
    "jvm-member": Expected(Configuration(moves=0, joins=1, jvm=True), "violated", BOTH),
}
"""What no recipe excludes: a member of Kafka 0.8 knows no marker. It is noticed and reported."""

NOT_NEEDED: Final = frozenset({"look at the slot at a new epoch"})
"""Safe without it, as every write checks the slot. Answers from an old memory are not modelled."""

CONFIGURATIONS: Final[Mapping[str, Expected]] = {**AS_WRITTEN, **BROKEN, **OUTSIDE}


def answer(expected: Expected, limit_s: float = 600) -> Result:
    """Explores a configuration; where something wrong is expected, up to the first of it."""
    return explore(
        Model(expected.configuration),
        max_states=20_000_000,
        max_seconds=limit_s,
        stop=expected.violation is not None,
    )
