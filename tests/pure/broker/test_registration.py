"""How a broker registers in `/brokers/ids`, and what can prevent it."""

from __future__ import annotations

import pytest

from tests.pure.broker.stepped_brokers import BrokerNode, SteppedBrokers, alone
from zkgroup.broker.machine.events import BrokerEffect, Failed, Prepared, Registered
from zkgroup.errors import AccessDeniedError, BrokerIdInUseError, ForeignBrokersError
from zkgroup.model.requests import Create, Delete
from zkgroup.testing.memory_zookeeper import ServerStep
from zkgroup.znodes.brokers import BrokerRegistration, broker_ids_path
from zkgroup.znodes.cluster import BrokerSequence, ClusterId, common_parents, later_parents
from zkgroup.znodes.config import entities_path
from zkgroup.zookeeper.settings import Acl

PATH = BrokerRegistration.path(1)
WAIT_MS = 6000 + 2000
"""The session timeout and the slack."""


def _story(node: BrokerNode) -> list[type[BrokerEffect]]:
    return [type(effect) for effect in node.effects if isinstance(effect, Prepared | Registered | Failed)]


def _else(world: SteppedBrokers, broker: int, host: str = "h", port: int = 1, **extensions: object) -> str:
    """A registration of another client; returns the name of that client."""
    name = f"else-{broker}"
    client = world.server.client(name)
    world.server.deliver(ServerStep("connect", name))
    assert client.session is not None
    world.server.put(broker_ids_path())
    made = BrokerRegistration(host, port, 1, 0, extensions=extensions).encode()
    world.write(Create(BrokerRegistration.path(broker), made, True), session_id=client.session.session_id)
    return name


@pytest.mark.parametrize("version", range(1, 6))
def test_every_format_can_be_written(version: int) -> None:
    """Each has address, time and zkgroup's key."""
    world = SteppedBrokers()
    world.node(registration_version=version)
    world.run()
    found = world.registration(1)

    assert (found.version, found.host, found.port) == (version, "h", 9001)
    assert found.timestamp_ms == world.clock.wall_ms()
    assert found.is_zkgroup
    assert found.role == "data"


def test_the_epoch_of_a_broker_is_the_czxid_of_its_registration() -> None:
    """Parents and cluster id are created before it."""
    world, node = alone()

    assert _story(node) == [Prepared, Registered]
    assert node.emitted(Registered)[0].epoch == world.find(PATH).stat.czxid
    for path in (*common_parents(), *later_parents()):
        world.find(path)
    assert (
        ClusterId.decode(ClusterId.path(), world.find(ClusterId.path()).data).id == ClusterId.of(bytes(16)).id
    )


def test_a_cluster_id_that_stands_is_taken() -> None:
    """The first broker creates it, the others read it."""
    world = SteppedBrokers()
    theirs = ClusterId.of(bytes(range(16)))
    world.server.put(ClusterId.path(), theirs.encode())
    node = world.node()
    world.run()

    assert node.emitted(Prepared)[0].cluster_id == theirs.id


def test_a_registration_whose_reply_was_lost_is_adopted() -> None:
    """It is found in the own session."""
    world = SteppedBrokers()
    node = world.node()
    world.until_asked(node, PATH)
    world.lose(node, "lost_reply")
    world.advance(1000)

    assert _story(node) == [Prepared, Registered]
    assert node.emitted(Registered)[0].epoch == world.find(PATH).stat.czxid


def test_after_an_expiry_the_own_stale_registration_is_deleted_at_once() -> None:
    """The former session still lives by the server's clock (KAFKA-7165)."""
    world, node = alone()
    stale = world.find(PATH).stat
    node.client.abandon(node.client.incarnation, "given up")
    while len(node.emitted(Registered)) < 2:
        for step in world.server.pending():
            if step.kind != "orphan":  # the goodbye is on its way
                world.deliver(step)

    assert world.server.leader.sessions[stale.ephemeral_owner].alive
    assert world.find(PATH).stat.czxid > stale.czxid
    assert node.emitted(Registered)[1].epoch == world.find(PATH).stat.czxid


def test_what_may_be_the_own_stale_registration_is_waited_for() -> None:
    """A restarted broker does not know its former session; its address can be of no other process."""
    world = SteppedBrokers()
    name = _else(world, 1, "h", 9001, zkgroup={"role": "data"})
    node = world.node()
    world.run()
    assert _story(node) == [Prepared]
    world.server.expire(name)
    world.run()

    assert _story(node) == [Prepared, Registered]


def test_a_registration_with_the_own_folder_is_waited_for_too() -> None:
    """The port may differ, but only one process at a time can use the data directory."""
    world = SteppedBrokers()
    name = _else(world, 1, "h", 5, zkgroup={"role": "data", "folder": "f"})
    node = world.node(folder="f")
    world.run()
    assert _story(node) == [Prepared]
    world.server.expire(name)
    world.run()

    assert world.registration(1).extensions == {"zkgroup": {"role": "data", "folder": "f"}}


def test_a_registration_that_stays_ends_the_wait() -> None:
    """A client keeps its session alive, so the registration is not stale."""
    world = SteppedBrokers()
    name = _else(world, 1, "h", 9001, zkgroup={"role": "data"})
    node = world.node()
    for _ in range(WAIT_MS // 250 - 1):
        world.server.ping(name)
        world.advance(250)
    assert _story(node) == [Prepared]
    world.server.ping(name)
    world.advance(500)

    assert _story(node) == [Prepared, Failed]


def test_a_stale_registration_lives_longer_where_the_servers_have_a_new_leader() -> None:
    """It gives every session its whole time again, and all connections break: the wait begins anew."""
    world = SteppedBrokers()
    name = _else(world, 1, "h", 9001, zkgroup={"role": "data"})
    node = world.node()
    for number in range(3):
        for _ in range(WAIT_MS // 250 - 1):
            world.server.ping(name)
            world.advance(250)
        assert _story(node) == [Prepared], number
        world.server.cut(node.client.name)
        world.run()
    world.server.expire(name)
    world.run()

    assert _story(node) == [Prepared, Registered]


def test_an_id_in_use_names_session_and_host() -> None:
    """Another live owner; nothing of it is touched and nothing more is asked."""
    world = SteppedBrokers()
    name = _else(world, 1, "other", 9001, zkgroup={"role": "data"})
    session = world.server.clients[name].session
    node = world.node()
    world.run()
    before = world.find(PATH)
    (failed,) = node.emitted(Failed)
    error = failed.error

    assert isinstance(error, BrokerIdInUseError)
    assert session is not None
    assert f"0x{session.session_id:x} on host other" in str(error)
    assert error.exit_code == 6
    world.advance(WAIT_MS)
    assert world.find(PATH) == before


def test_among_brokers_of_kafka_a_zkgroup_broker_does_not_start() -> None:
    """Refused with their ids; unreadable registrations and zkgroup controllers do not count (recipes 15)."""
    world = SteppedBrokers()
    _else(world, 12)
    _else(world, 3)
    _else(world, 4, zkgroup={"role": "controller"})
    world.server.put(BrokerRegistration.path(5), b"{")
    node = world.node()
    world.run()
    (failed,) = node.emitted(Failed)

    assert isinstance(failed.error, ForeignBrokersError)
    assert failed.error.brokers == ("3", "12")
    assert failed.error.exit_code == 6
    assert [note.fields["path"] for note in node.notes("registration.unreadable")] == ["/brokers/ids/5"]
    assert world.server.find(PATH) is None


@pytest.mark.parametrize("folder", [None, "/data"])
def test_a_persistent_registration_ends_the_broker_at_once(folder: str | None) -> None:
    """No session ends it, though it has the broker's own address and folder; the error says what to do."""
    world = SteppedBrokers()
    own = {"role": "data"} if folder is None else {"role": "data", "folder": folder}
    data = BrokerRegistration("h", 9001, 1, 0, extensions={"zkgroup": own}).encode()
    world.server.put(PATH, data)
    node = world.node()
    world.run()
    (failed,) = node.emitted(Failed)

    assert isinstance(failed.error, BrokerIdInUseError)
    assert str(failed.error).startswith(f"{PATH}: ")
    assert "`zkgroup doctor --fix`" in str(failed.error)


def test_brokers_of_kafka_that_no_session_holds_are_told_apart() -> None:
    """Kafka's brokers of a restored tree: refused as long as they are there, with the command."""
    world = SteppedBrokers()
    world.server.put(BrokerRegistration.path(3), BrokerRegistration("k", 9092, 1, 0).encode())
    node = world.node()
    world.run()
    (failed,) = node.emitted(Failed)

    assert isinstance(failed.error, ForeignBrokersError)
    assert "/brokers/ids/3: " in str(failed.error)
    assert "`zkgroup doctor --fix`" in str(failed.error)


def test_a_generated_id_is_given_to_one_broker() -> None:
    """Above 1000, and never an id that an operator has assigned."""
    world = SteppedBrokers()
    world.server.put(BrokerSequence.path())
    _else(world, 1001, zkgroup={"role": "data"})
    nodes = [world.node(None) for _ in range(3)]
    world.run()

    found = [node.emitted(Prepared)[0].broker for node in nodes]
    assert len(set(found)) == 3
    assert 1001 not in found
    assert min(found) > 1000


def test_a_broker_whose_session_is_lost_registers_in_the_next_one() -> None:
    """Its roles are its own affair; its epoch is a new one, and so is its owner."""
    world, node = alone()
    world.server.expire("n0")
    world.server.cut("n0")
    world.run()
    first, second = node.emitted(Registered)

    assert second.epoch > first.epoch
    assert second.incarnation == first.incarnation + 1
    assert world.find(PATH).stat.czxid == second.epoch


def test_missing_parents_are_made_again() -> None:
    """The tree was deleted while the broker was disconnected."""
    world, node = alone()
    world.server.expire("n0")
    world.write(Delete(broker_ids_path(), 0))
    world.server.cut("n0")
    world.run()

    assert len(node.emitted(Registered)) == 2


@pytest.mark.parametrize("path", [broker_ids_path(), entities_path("brokers")])
def test_a_broker_that_an_acl_refuses_at_its_start_fails(path: str) -> None:
    """At once, with the path and the options that help; it would retry for ever in a closed cluster."""
    world = SteppedBrokers()
    for parent in (*common_parents(), *later_parents()):
        world.server.put(parent)
    world.server.set_acl(path, Acl("cdrwa", "digest", "ada:hash"))
    node = world.node()
    world.run()

    (failed,) = node.emitted(Failed)
    assert isinstance(failed.error, AccessDeniedError)
    assert str(failed.error).startswith(f"{path}: expected")
    assert "--zk-digest-file" in str(failed.error)
    assert not node.notes("unexpected_reply")


def test_a_broker_that_an_acl_refuses_later_tries_again() -> None:
    """It serves as before, and registers once it may."""
    world, node = alone()
    world.server.set_acl(broker_ids_path(), Acl("r", "world", "anyone"))
    world.server.expire(node.client.name)
    world.server.cut(node.client.name)
    world.advance(1000)
    assert node.notes("unexpected_reply")
    world.server.set_acl(broker_ids_path(), Acl("cdrwa", "world", "anyone"))
    world.advance(60_000)

    assert _story(node) == [Prepared, Registered, Registered]
