"""ACLs that a broker with an authorizer follows, by notification and at its start."""

from __future__ import annotations

from tests.pure.broker.stepped_brokers import BrokerNode, SteppedBrokers
from tests.worlds import golden_data
from tests.worlds.acls import UNREADABLE as HIDDEN
from tests.worlds.guarded_handlers import binding
from zkgroup.broker.machine.acl_changes import UNREADABLE
from zkgroup.broker.machine.events import AclsChanged, Registered
from zkgroup.model.requests import Create, Delete, ReadMany
from zkgroup.security.acls import PatternType
from zkgroup.znodes.acls import AclChangeNode, ResourceAcls, acl_folders
from zkgroup.zookeeper.settings import OPEN_ACL

MINUTE_MS = 60_000
READ = "allow alice READ topic orders"
DENY = "deny alice READ topic orders"
PREFIXED = "deny alice READ topic ord..."


def _put(world: SteppedBrokers, text: str) -> None:
    pattern, entry = binding(text)
    world.server.put(ResourceAcls.path(pattern), ResourceAcls({entry: {}}).encode())


def _notify(world: SteppedBrokers, text: str) -> None:
    """Creates a notification of the pattern in an ACL."""
    pattern = binding(text).pattern
    prefix = AclChangeNode.prefix(pattern.pattern_type)
    world.write(Create(prefix, AclChangeNode(pattern).encode(), sequential=True))


def _delete(world: SteppedBrokers, text: str) -> None:
    world.write(Delete(ResourceAcls.path(binding(text).pattern), -1))


def _told(node: BrokerNode) -> list[dict[str, list[str]]]:
    """What was emitted each time: pattern to entries."""
    return [
        {str(pattern): [str(entry) for entry in entries] for pattern, entries in effect.acls.items()}
        for effect in node.emitted(AclsChanged)
    ]


def of(*texts: str) -> dict[str, list[str]]:
    """The same of ACLs; a pattern alone, `-topic orders`, has no entry any more."""
    found = {}
    for text in texts:
        pattern, entry = binding(text.replace("-", "allow x READ ", 1) if text.startswith("-") else text)
        found[str(pattern)] = [] if text.startswith("-") else [str(entry)]
    return found


def _following(*texts: str) -> tuple[SteppedBrokers, BrokerNode]:
    world = SteppedBrokers()
    for text in texts:
        _put(world, text)
    node = world.node(follows_acls=True)
    world.run()
    return world, node


def test_acls_are_read_before_the_broker_registers() -> None:
    """All at once; a type of resource that is not known here is reported."""
    world = SteppedBrokers()
    world.server.put("/kafka-acl/User/alice", b"")
    for text in (READ, PREFIXED):
        _put(world, text)
    node = world.node(follows_acls=True)
    world.run()

    assert _told(node) == [of(READ, PREFIXED)]
    assert isinstance(node.effects[-1], Registered)
    assert [note.fields["path"] for note in node.notes("acl.unreadable")] == ["/kafka-acl/User"]


def test_the_folders_are_those_of_kafka() -> None:
    """Only with an authorizer; Kafka 2.8.2 has created them on an empty ZooKeeper."""
    created = {
        write.path
        for write in golden_data.writes("kafka-2.8.2")
        if write.path.startswith("/kafka-acl") and write.data is None and write.op == "create"
    }
    world, _ = _following()
    assert {path for path in created if world.server.find(path)} == created == set(acl_folders())

    other = SteppedBrokers()
    node = other.node()
    other.run()
    assert other.server.find("/kafka-acl") is None
    assert _told(node) == []


def test_each_change_is_read_when_it_is_notified_of() -> None:
    """Of literal and prefixed patterns; one that is gone has no entry."""
    world, node = _following()
    for text in (READ, PREFIXED, DENY):
        _put(world, text)
        _notify(world, text)
        world.run()
    _delete(world, READ)
    _notify(world, READ)
    world.run()
    _notify(world, READ)
    world.run()

    assert _told(node) == [{}, of(READ), of(PREFIXED), of(DENY), of("-topic orders"), {}]


def test_a_notification_that_cannot_be_read_stops_no_later_one() -> None:
    """Nor does a name that has no znode."""
    world, node = _following()
    for data in (b"", b"TOPIC", b"Sing:a", b"TOPIC:a/b", b"TOPIC:.."):
        world.write(Create(AclChangeNode.prefix(PatternType.LITERAL), data, sequential=True))
    _put(world, READ)
    _notify(world, READ)
    world.run()

    assert _told(node)[1:] == [of(READ)]
    assert len(node.notes("acl_change.unreadable")) == 5


def test_an_acl_that_cannot_be_read_denies_everything() -> None:
    """It may deny anything to anybody: every broker decides the same, whatever it has read before."""
    world, node = _following(READ)
    path = ResourceAcls.path(binding(READ).pattern)
    denied = {str(binding(READ).pattern): [str(entry) for entry in UNREADABLE]}
    world.server.put(path, b"{")
    _notify(world, READ)
    world.run()
    assert _told(node)[1:] == [denied]
    assert [note.fields["path"] for note in node.notes("acl.unreadable")] == [path]

    _put(world, READ)
    world.server.set_acl(path, HIDDEN)
    _notify(world, READ)
    world.run()
    assert _told(node)[2:] == [{}]
    world.server.set_acl(path, *OPEN_ACL)
    _notify(world, READ)
    world.run()
    assert _told(node)[3:] == [of(READ)]


def test_what_has_changed_while_the_broker_was_away_counts_in_the_next_session() -> None:
    """Without a notification too; nothing is forgotten meanwhile."""
    world, node = _following(READ, PREFIXED)
    world.server.expire(node.client.name)
    world.server.cut(node.client.name, hold=True)
    world.run()
    assert len(_told(node)) == 1

    _delete(world, PREFIXED)
    _put(world, DENY)
    world.server.resume(node.client.name)
    world.run()

    assert _told(node)[1:] == [of(DENY, "-topic ord...")]


def test_a_mixture_of_acls_that_never_was_is_not_emitted() -> None:
    """A denial moves to another pattern between a list and a read of a new session: both are read again."""
    world, node = _following(DENY)
    world.server.expire(node.client.name)
    path = ResourceAcls.path(binding(DENY).pattern)
    reads = ReadMany((path,))
    world.run(lambda: any(flight.request == reads for flight in node.client.requests))
    assert len(_told(node)) == 1
    for write, text in ((_put, PREFIXED), (_delete, DENY)):
        write(world, text)
        _notify(world, text)
    world.run()

    assert _told(node)[1:] == [of(PREFIXED, "-topic orders")]


def test_old_notifications_of_both_folders_go() -> None:
    """As those of configurations; younger ones stay."""
    world, _ = _following()
    for text in (READ, PREFIXED):
        _notify(world, text)
    world.run()
    world.advance(10 * MINUTE_MS, step_ms=MINUTE_MS)
    _notify(world, READ)
    world.run()
    world.advance(6 * MINUTE_MS, step_ms=MINUTE_MS)
    _notify(world, READ)
    world.run()

    paths = [AclChangeNode.path(kind, number) for kind in PatternType if kind > 2 for number in range(3)]
    assert [path for path in paths if world.server.find(path)] == [
        AclChangeNode.path(PatternType.LITERAL, 1),
        AclChangeNode.path(PatternType.LITERAL, 2),
    ]
