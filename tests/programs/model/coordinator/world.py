"""One slot with one group: ZooKeeper's znodes, two brokers, clients, ZooKeeper members, an operator.

Versions of znodes are kept relative to the present ones: 0 is the present version, -1 any older one, and a
write that is sent behind others expects a version above 0. So the number of states is bounded by what may
happen, not by how often.
"""

from __future__ import annotations

from typing import NamedTuple

BROKERS = "AB"
BLOCK = 2
"""Generations that one write reserves."""
DELETES = ("delete", "drop")
"""Writes that delete the offset: one that has expired, or one of a deleted topic."""
QUEUE_MAX = 2
"""Writes of a broker that are in flight."""

RULES = (
    "state check",
    "slot check",
    "slot check of commits",
    "fence first",
    "skip the block",
    "generation check",
    "marker first",
    "guard of the marker",
    "member asks for the marker",
    "empty takes the marker off",
    "load takes the marker off",
    "guard of deletes",
    "version of deletes",
    "check of topics",
    "check compares",
    "fetch compares",
    "topic read last",
    "operator fences",
    "load again when refused",
    "look at the slot at a new epoch",
    "watch of the slot",
    "watch of the members",
    "freeze sets the slot",
    "load reads the freeze",
    "end checks the slot",
    "end loads again",
)
"""The rules that a configuration can leave out."""


class Configuration(NamedTuple):
    """What may happen, and which rules are left out."""

    moves: int = 2
    """New leader epochs, for the other broker or for the same."""
    joins: int = 2
    commits: int = 1
    losses: int = 0
    """Connections that break: what was sent may or may not have been applied."""
    isr: int = 0
    """Changes of the ISR, which change the version of the partition's state."""
    crashes: int = 0
    deletes: int = 0
    """Offsets that the coordinator deletes because they have expired."""
    topics: int = 0
    """Deletions of the topic, which may be created again."""
    operators: int = 0
    """Operators that take the marker off where the leader is not alive."""
    unmarks: int = 0
    """Programs that delete the marker, without a word to the coordinator."""
    freezes: int = 0
    """Freezes of the group by operators, who may end them."""
    members: bool = True
    """Whether ZooKeeper members register and leave."""
    jvm: bool = False
    """Whether they are of Kafka 0.8, which know no marker."""
    without: tuple[str, ...] = ()
    goal: str = "protocol"
    """What must stay reachable: that a client can join (`protocol`), that a ZooKeeper member can register
    (`zookeeper`), or that a deleted topic has no offset (`no offset`).
    """


class Write(NamedTuple):
    """A transaction in flight."""

    kind: str
    is_slot_mine: bool
    """Whether the version of the slot that it checks is the present one."""
    header: int = 0
    """The version of the header that it expects; or of the offset."""
    generation: int = 0
    reserved: int = 0
    client: int = -1
    marks: bool = False


class Broker(NamedTuple):
    """A broker as the coordinator of the slot."""

    alive: bool = True
    phase: str = "-"
    """-: not mine; N: to be loaded; V: the partition's state is read; L: fenced; O: loaded; U: the outcome of
    a write is unknown.
    """
    epoch: int = 0
    """The last leader epoch that it was told."""
    state: int = 0
    """The version of the partition's state that it has read."""
    is_slot_mine: bool = False
    """Whether the slot still has the version that it has set."""
    header: int = 0
    """The version of the header that its next write expects."""
    generation: int = 0
    skipped: int = 0
    reserved: int = 0
    is_marked: bool = False
    status: str = "E"
    """E: no members; J: a join waits for a write; C: a generation is given; Y: its assignment is written;
    S: stable.
    """
    client: int = -1
    """The member, or the one that joins."""
    queue: tuple[Write, ...] = ()
    checked: tuple[int, str] | None = None
    """The offset as a check of deleted topics has read it: its version, and by whom it is."""
    fetched: str = ""
    """What a fetch has read first: by whom the offset is; or the topic, if the rule `topic read last` is left
    out.
    """
    is_frozen: bool = False
    """Whether the load has found the group frozen."""
    is_ending: bool = False
    """Whether it has found that the time of the freeze is over."""
    early: tuple[int, int, int, bool] | None = None
    """The group as it was read before the fence, where the rule `fence first` is left out."""

    @property
    def next_generation(self) -> int:
        return max(self.generation, self.skipped) + 1

    @property
    def can_send(self) -> bool:
        return self.alive and self.phase == "O" and len(self.queue) < QUEUE_MAX


class Header(NamedTuple):
    generation: int = 0
    reserved: int = 0
    client: int = -1
    """The member of a stable group."""


class Left(NamedTuple):
    """What may still happen."""

    moves: int
    joins: int
    commits: int
    losses: int
    isr: int
    crashes: int
    deletes: int
    topics: int
    operators: int
    unmarks: int
    freezes: int


class World(NamedTuple):
    """One state."""

    leader: int
    epoch: int
    header: Header
    marker: bool
    member: bool
    """Whether a ZooKeeper member is registered."""
    offset: str
    """By whom the committed offset is: k (a client of the coordinator), n (such a client, since the topic is
    new), z (a ZooKeeper member), or nobody.
    """
    topic: str
    """t: there; d: to be deleted; -: gone; n: a new one of that name."""
    brokers: tuple[Broker, Broker]
    clients: tuple[tuple[int, int] | None, tuple[int, int] | None]
    """The broker and generation that each client believes in; it may send with them at any time."""
    given: tuple[tuple[int, int], ...]
    """Generations that were given, each with the broker, in order of their numbers."""
    told: frozenset[tuple[int, int, bool]]
    """Requests of the controller under way: to which broker, epoch, whether it leads."""
    notice: bool
    """Whether a change of the registrations was not yet noticed by the coordinator that watches them."""
    operator: tuple[int, int] | None
    """The versions of state and header that an operator has read."""
    left: Left
    frozen: str = ""
    """f: the group is frozen; o: and the time of that is over."""


def first(cfg: Configuration) -> World:
    """Broker A leads and has not loaded anything."""
    return World(
        leader=0,
        epoch=1,
        header=Header(),
        marker=False,
        member=False,
        offset="",
        topic="t",
        brokers=(Broker(), Broker()),
        clients=(None, None),
        given=(),
        told=frozenset({(0, 1, True), (1, 1, False)}),
        notice=False,
        operator=None,
        left=Left(
            cfg.moves,
            cfg.joins,
            cfg.commits,
            cfg.losses,
            cfg.isr,
            cfg.crashes,
            cfg.deletes,
            cfg.topics,
            cfg.operators,
            cfg.unmarks,
            cfg.freezes,
        ),
    )


def _older(version: int) -> int:
    return max(version - 1, -1)


def state_changed(world: World, leader: int, epoch: int) -> World:
    """The partition's state is set: every version that was read is an older one."""
    brokers = tuple(each._replace(state=-1) if each.phase == "V" else each for each in world.brokers)
    operator = None if world.operator is None else (-1, world.operator[1])
    return world._replace(leader=leader, epoch=epoch, brokers=brokers, operator=operator)


def slot_set(world: World, by: int | None) -> World:
    """The slot is set: whoever had set it before has an old version, writes in flight included."""
    brokers = []
    for number, each in enumerate(world.brokers):
        queue = tuple(write._replace(is_slot_mine=False) for write in each.queue)
        brokers.append(each._replace(is_slot_mine=number == by, queue=queue))
    return world._replace(brokers=tuple(brokers))


def header_set(world: World, header: Header) -> World:
    """The header is set: every expected version is one nearer."""
    brokers = []
    for each in world.brokers:
        queue = tuple(
            write if write.kind in DELETES else write._replace(header=_older(write.header))
            for write in each.queue
        )
        brokers.append(each._replace(header=_older(each.header), queue=queue))
    operator = None if world.operator is None else (world.operator[0], -1)
    return world._replace(header=header, brokers=tuple(brokers), operator=operator)


def offset_set(world: World, by: str) -> World:
    """The offset is set or deleted: a delete in flight, or after a read, expects an old version."""
    brokers = []
    for each in world.brokers:
        queue = tuple(write._replace(header=-1) if write.kind in DELETES else write for write in each.queue)
        checked = None if each.checked is None else (-1, each.checked[1])
        brokers.append(each._replace(queue=queue, checked=checked))
    return world._replace(offset=by, brokers=tuple(brokers))


def with_broker(world: World, number: int, broker: Broker) -> World:
    brokers = list(world.brokers)
    brokers[number] = broker
    return world._replace(brokers=tuple(brokers))
