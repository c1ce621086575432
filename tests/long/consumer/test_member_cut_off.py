"""Members at a server that is cut off, as a leader or in one direction only, and the tree of that server."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

import pytest

from tests.real.consumer.cut_off_members import FIRST, Work, cut_off_a_member, cut_off_and_rest, shares, taken
from tests.waiting import becomes, happened
from tests.worlds.clients import opener
from tests.worlds.other_clients import witness_on
from tests.worlds.public_apis import Application
from zkgroup.model.requests import Read, ReadDone
from zkgroup.testing.chaos import ChaosZooKeeper
from zkgroup.testing.conformance import Target
from zkgroup.testing.proxies import PeerLinks
from zkgroup.znodes.consumers import Owner
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper


@pytest.fixture
def patient() -> Iterator[ChaosZooKeeper]:
    """Servers of this test's own: one that is cut off answers its clients for 30 s."""
    with (
        PeerLinks() as links,
        EmbeddedZooKeeper(3, fsync=False, route=links.route, config={"syncLimit": "60"}) as zookeeper,
        ChaosZooKeeper(zookeeper, "", links) as chaos,
    ):
        yield chaos


@pytest.mark.parametrize(
    ("role", "ways"),
    [
        ("follower", {"from_peers": False}),
        ("follower", {"to_peers": False}),
        ("leader", {}),
        ("leader", {"from_peers": False}),
    ],
    ids=["follower unheard", "follower deaf", "leader", "leader unheard"],
)
def test_a_member_at_a_server_cut_off_stops_before_others_begin(
    zk_chaos: ChaosZooKeeper, witness: Blocking, role: str, ways: Mapping[str, bool]
) -> None:
    """F13, F14: as at a follower that is cut off in both directions (tests/real/consumer)."""
    cut_off_a_member(zk_chaos, Work(zk_chaos, witness), role, **ways)


def test_its_own_server_still_shows_it_as_the_owner(patient: ChaosZooKeeper) -> None:
    """faults.md, finding 6: others deliver already, and no read at its server shows it to the member."""
    cut_off, rest = cut_off_and_rest(patient, "follower")
    begun = threading.Event()
    app = Application({"assigned": lambda new: begun.set() if taken(new) else None})
    with Target(opener(patient.addresses[cut_off])) as here, witness_on(patient.direct_address) as zk:
        work = Work(patient, zk)
        neighbour = here.connect(60_000)
        with work.consumer("a", [cut_off], Application()) as first:
            becomes(lambda: shares(first), (4,))
            with work.consumer("b", rest, app) as second:
                becomes(lambda: shares(first, second), (2, 2))

                patient.isolate(cut_off)
                happened(begun)
                valid = shares(first)  # by the clock: the leases may still be listed for a moment
                shown = neighbour.ask(Read(Owner.path("g", FIRST)), ReadDone).znode

                assert valid == (0,)
                becomes(first.leases, ())
                assert shown is not None
                assert shown.data == b"g_a-0"
                patient.heal()
                work.feed()
