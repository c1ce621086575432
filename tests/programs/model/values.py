"""The parts of a state of the model: the tree, the members' beliefs, the faults that are still allowed.

Everything is an immutable tuple, because a state is compared, hashed and kept by the hundred thousand.
Members, partitions and clients are numbers; a transaction id is an int that only ever grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

Where = Literal["ids", "owner", "offset", "marker", "static", "root", "frozen", "over", "plan"]
"""Kinds of znodes. The key is a member for `ids` and `static`, a partition for those between them, 0 for
the others: `owners`, the marker of a freeze, the plan. `over` is no znode: it is there if the time of the
freeze is over."""

Fault = Literal[
    "commit", "expire", "abandon", "lost", "leave", "resubscribe", "steal", "write", "wipe", "reset", "guard",
    "jvm_commit", "freeze", "takeover", "unfreeze", "early", "crash", "handover",
]  # fmt: skip
"""Steps that need not happen, each with a budget: a commit as well as an expired session."""
FAULTS: tuple[Fault, ...] = get_args(Fault)

Rule = Literal[
    "adopt offset first", "bump", "count away", "create offset", "cversion", "deaf", "empty entry",
    "entry first", "freeze bump", "freeze claim", "freeze end", "freeze order", "freeze release",
    "freeze transit", "freeze wake", "handover as read", "ids check", "life check", "lost on refusal",
    "marker by equality", "obey owner", "offset first", "owner check", "plan by members", "plan znode",
    "release check", "session read", "text", "touch ids",
]  # fmt: skip
"""Rules of the recipes that a configuration can leave out, to show that each is needed."""
RULES: tuple[Rule, ...] = get_args(Rule)

NO_OFFSET = -1
ClientSession = tuple[int, int]
"""A client, and how many sessions it had before this one."""


class Node(NamedTuple):
    """One znode. `session` is None for a persistent one. `data`: see `Op`."""

    data: Any
    version: int
    czxid: int
    mzxid: int
    session: ClientSession | None


class Tree(NamedTuple):
    """All znodes that the recipes touch, in a fixed order, and the Stat of `ids`."""

    nodes: tuple[Node | None, ...]
    czxid: int
    cversion: int
    pzxid: int


class Held(NamedTuple):
    """A claim as its member believes in it; the fields of `machine.ownership.OwnedPartition`."""

    value: int
    fence: int | None
    token: int
    life: int | None
    last: int


class Freeze(NamedTuple):
    """What a member knows of a freeze."""

    fence: int | None = None
    """Version of `owners`, read before the marker; None until it is read (again)."""
    kind: str | None = None
    """"frozen", or "takeover" where partitions that nobody owns may be claimed; None: no freeze."""
    version: int | None = None
    """Of the marker."""


class Pc:
    """Where a member is in its recipes. "Idle" is between them."""

    NOT_STARTED = "not started"
    UNREGISTERED = "unregistered"
    REGISTER = "register, its static entry read"
    ATTEND = "away member: read the other znode"
    ATTEND_WRITE = "away member: mark or end"
    IDLE = "idle"
    CLAIM = "claim"
    CLAIM_READS_OFFSETS = "claim: read back offsets"
    CLAIM_READS_OWNERS = "claim: read back owners"
    CLAIM_READS_OFFSETS_LAST = "claim: read back offsets last"
    BLOCKED_READS_OFFSETS = "blocked claim: read offsets"
    BLOCKED_READS_OWNERS = "blocked claim: read owners"
    COMMIT_READS_OFFSETS = "commit: read back offsets"
    COMMIT_READS_OWNERS = "commit: read back owners"
    COMMIT_AGAIN = "commit again"
    RELEASE_READS_FIRST = "release: first read"
    RELEASE_READS_SECOND = "release: second read"
    RELEASE_AGAIN = "release again"
    RELEASE_WITHOUT_COMMIT = "release without commit"
    HANDOVER_READS_OFFSET = "handover: read offset"
    HANDOVER_READS_OWNER = "handover: read owner"
    HANDOVER_AGAIN = "handover again"
    FREEZE = "read the marker of a freeze"
    FREEZE_END = "end the freeze"
    PLAN = "plan"
    PLAN_WRITE = "write the plan"
    JVM_CLAIM = "JVM claim"
    GONE = "gone"


class Member(NamedTuple):
    """What one member knows and is about to do."""

    pc: str
    known: int
    """Number of the session that it believes to be in."""
    gen: int | None
    """pzxid of `ids` at its last snapshot."""
    cache: tuple[int, int, tuple[int | None, ...]] | None
    """czxid and cversion of `ids` at that snapshot, and what it knows of each registration."""
    target: tuple[bool, ...]
    held: tuple[Held | None, ...]
    blocked: tuple[int, ...]
    todo: tuple[Any, ...]
    """Partitions of the recipe under way; with the intended values where it is a commit."""
    reads: tuple[Node | None, ...]
    """Offset znodes, as read in this recipe."""
    plan: Any
    """The plan's version; while it is to be written, its version and owners as read."""
    leaving: bool
    freeze: Freeze
    counted: tuple[int | None, ...] = ()
    """Whether each member subscribes, of those that its last snapshot counts in the assignment."""


class Client(NamedTuple):
    """One ZooKeeper client: its present session, and a former one that is abandoned and still alive."""

    serial: int
    alive: bool
    orphan: int | None


class State(NamedTuple):
    """One state of the whole group."""

    tree: Tree
    zxid: int
    """Of the next transaction."""
    clients: tuple[Client, ...]
    members: tuple[Member, ...]
    budget: tuple[int, ...]
    views: tuple[Tree, ...]
    """What the server of each client shows, where servers lag; else nothing."""


class Op(NamedTuple):
    """One operation of a transaction.

    `data` of `ids`: whether the member subscribes (1 or 0); of an owner: the member; of an offset or a
    marker: the value; of `frozen`: the kind of freeze; of the plan: its generation and the member of each
    partition.
    """

    kind: Literal["create", "set", "delete", "check"]
    where: Where
    key: int
    data: Any = None
    version: int = -1
    ephemeral: bool = False


def create(where: Where, key: int, data: Any, *, ephemeral: bool = False) -> Op:
    return Op("create", where, key, data, ephemeral=ephemeral)


def set_data(where: Where, key: int, data: Any, version: int) -> Op:
    return Op("set", where, key, data, version)


def delete(where: Where, key: int, version: int) -> Op:
    return Op("delete", where, key, version=version)


def check(where: Where, key: int, version: int) -> Op:
    return Op("check", where, key, version=version)


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """The participants, the faults and their numbers, the rule that is left out, and the expected answer."""

    members: int = 2
    partitions: int = 1
    clients: tuple[int, ...] = ()
    """The client of each member; empty: one each."""
    joined: tuple[int, ...] = ()
    """Members that have come in undisturbed before the walk begins."""
    late: frozenset[int] = frozenset()
    """Members that are started at any moment."""
    jvm: frozenset[int] = frozenset()
    static: frozenset[int] = frozenset()
    """Members with a restart grace."""
    old: frozenset[int] = frozenset()
    """Members that do not know static members."""
    sticky: bool = False
    policy: Literal["adopt", "reassert"] = "adopt"
    lagging: bool = False
    """Each client's server is behind by any amount."""
    without: frozenset[Rule] = frozenset()
    faults: Mapping[Fault, int] = field(default_factory=dict)
    expect: Literal["holds", "violated"] = "holds"
    liveness: bool = True
    starts: Mapping[str, int] = field(init=False, repr=False, compare=False)
    """Where each kind begins in `Tree.nodes`. This and the fields below follow from those above."""
    nodes_count: int = field(init=False, repr=False, compare=False)
    blank: tuple[None, ...] = field(init=False, repr=False, compare=False)
    parts: range = field(init=False, repr=False, compare=False)
    client: tuple[int, ...] = field(init=False, repr=False, compare=False)
    clients_count: int = field(init=False, repr=False, compare=False)
    is_absolute: bool = field(init=False, repr=False, compare=False)
    """Offset znodes can be deleted, or seen late: versions are not counted from the present one."""

    def __post_init__(self) -> None:
        unknown = (set(self.without) - set(RULES)) | (set(self.faults) - set(FAULTS))
        assert not unknown, f"no such rule or fault: {unknown}"
        counts = {
            "ids": self.members,
            "owner": self.partitions,
            "offset": self.partitions,
            "marker": self.partitions,
            "static": self.members if self.static else 0,
            "root": 1,
            "frozen": 1,
            "over": 1,
            "plan": 1,
        }
        starts, start = {}, 0
        for where, count in counts.items():
            starts[where] = start
            start += count
        client = self.clients or tuple(range(self.members))
        derived = {
            "starts": starts,
            "nodes_count": start,
            "blank": (None,) * self.partitions,
            "parts": range(self.partitions),
            "client": client,
            "clients_count": max(client) + 1,
            "is_absolute": self.lagging or bool(self.faults.get("wipe") or self.faults.get("guard")),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def at(self, where: Where, key: int = 0) -> int:
        """Position of a znode in `Tree.nodes`."""
        return self.starts[where] + key


def blank_nodes(cfg: Configuration) -> tuple[Node | None, ...]:
    """The znodes of a group that has nothing but its parents."""
    return swap((None,) * cfg.nodes_count, cfg.at("root"), Node(None, 0, 1, 1, None))


def initial(cfg: Configuration) -> State:
    """The first state: no member is registered, and `ids` is empty."""
    member = Member(
        pc=Pc.UNREGISTERED,
        known=0,
        gen=None,
        cache=None,
        target=(False,) * cfg.partitions,
        held=cfg.blank,
        blocked=(),
        todo=(),
        reads=cfg.blank,
        plan=None,
        leaving=False,
        freeze=Freeze(),
    )
    tree = Tree(blank_nodes(cfg), 1, 0, 1)
    return State(
        tree=tree,
        zxid=2,
        clients=(Client(0, True, None),) * cfg.clients_count,
        members=tuple(
            member._replace(pc=Pc.NOT_STARTED) if m in cfg.late else member for m in range(cfg.members)
        ),
        budget=tuple(cfg.faults.get(fault, 0) for fault in FAULTS),
        views=(tree,) * cfg.clients_count if cfg.lagging else (),
    )


def spend(s: State, fault: Fault) -> State | None:
    """The state with one such fault less; None where the budget is used up."""
    i = FAULTS.index(fault)
    return s._replace(budget=swap(s.budget, i, s.budget[i] - 1)) if s.budget[i] else None


def put(s: State, m: int, **changes: Any) -> State:
    """The state with other beliefs of member `m`."""
    return s._replace(members=swap(s.members, m, s.members[m]._replace(**changes)))


def swap(row: tuple[Any, ...], i: int, value: Any) -> tuple[Any, ...]:
    """The row with another value at `i`."""
    return (*row[:i], value, *row[i + 1 :])
