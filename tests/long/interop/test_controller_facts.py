"""How a Kafka 0.8.2.2 broker treats `/controller` and `/brokers/ids`, on which our recipes depend.

No zkgroup code takes part: the znodes are written by hand.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.long.interop.servers import VERSION, RealBroker, RealZooKeeper
from tests.long.interop.toolbox import Toolbox
from tests.waiting import eventually
from tests.worlds.other_clients import kazoo_on

CHROOT = "/controller-facts"
REAL, OURS = 1, 100


@pytest.fixture
def hand(real_zookeeper: RealZooKeeper) -> Iterator[KazooClient]:
    """A client that writes in the broker's chroot."""
    with kazoo_on(real_zookeeper.address) as client:
        client.create(CHROOT)
        client.chroot = CHROOT
        yield client


@pytest.fixture
def real(real_zookeeper: RealZooKeeper, hand: KazooClient, tmp_path: Path) -> Iterator[RealBroker]:
    """One broker alone, which finds a `/controller` that was created and set in one transaction."""
    elect = hand.transaction()
    elect.create("/controller", _controller_data(OURS), ephemeral=True)
    elect.set_data("/controller", _controller_data(OURS), 0)
    assert [result for result in elect.commit() if isinstance(result, Exception)] == []
    retries = {"controlled_shutdown_max_retries": 2, "controlled_shutdown_retry_backoff_ms": 500}
    server = RealBroker(real_zookeeper, tmp_path, REAL, CHROOT, **retries)
    try:
        server.wait_ready()
        yield server
    finally:
        server.stop()


def test_a_real_broker_and_a_controller_that_is_no_broker(
    real: RealBroker, hand: KazooClient, box: Toolbox
) -> None:
    """Recipes 13, as it reads `/controller`; recipes 14, with and without a registration."""
    _set_once_after_it_was_made(hand)
    _changed_instead_of_deleted(hand)
    _registered_it_gets_replicas(real, hand, box)
    _unregistered_it_is_not_found(real)


def _set_once_after_it_was_made(hand: KazooClient) -> None:
    """The broker accepts it, as it joins elections before it registers, and wins once it is deleted."""
    assert hand.exists("/controller_epoch") is None
    _make_topic(hand, "before")
    hand.delete("/controller", version=1)
    assert _await_state(hand, "before")["controller_epoch"] == 1
    assert _json(hand, "/controller")["brokerid"] == REAL


def _changed_instead_of_deleted(hand: KazooClient) -> None:
    """The broker does not resign: it writes on, with an epoch that is no longer the greatest."""
    hand.set("/controller", _controller_data(OURS), version=0)
    hand.set("/controller_epoch", b"2")
    _make_topic(hand, "changed")
    assert _await_state(hand, "changed")["controller_epoch"] == 1


def _registered_it_gets_replicas(real: RealBroker, hand: KazooClient, box: Toolbox) -> None:
    registration = {
        "version": 1,
        "host": "127.0.0.1",
        "port": 9,
        "jmx_port": -1,
        "timestamp": "1400000000000",
    }
    hand.create(f"/brokers/ids/{OURS}", json.dumps(registration).encode(), ephemeral=True)
    words = ("--zookeeper", real.zookeeper.address + CHROOT, "--create", "--topic", "spread")
    words += ("--partitions", "1", "--replication-factor", "2")
    box.run(VERSION, "kafka.admin.TopicCommand", *words)
    assert set(_json(hand, "/brokers/topics/spread")["partitions"]["0"]) == {REAL, OURS}
    hand.delete(f"/brokers/ids/{OURS}")


def _unregistered_it_is_not_found(real: RealBroker) -> None:
    """`/controller` names it, and the broker that shuts down finds no address for it."""
    real.process.signal(signal.SIGTERM)
    real.process.wait()
    log = real.process.tail(200)
    assert "Retrying controlled shutdown after the previous attempt failed" in log
    assert "Proceeding to do an unclean shutdown as all the controlled shutdown attempts failed" in log


def _make_topic(hand: KazooClient, name: str) -> None:
    """Makes a topic of one partition, on the broker."""
    hand.create(f"/brokers/topics/{name}", json.dumps({"version": 1, "partitions": {"0": [REAL]}}).encode())


def _await_state(hand: KazooClient, topic: str) -> Any:
    path = f"/brokers/topics/{topic}/partitions/0/state"
    eventually(lambda: hand.exists(path) is not None, what=f"a state of {topic}")
    return _json(hand, path)


def _controller_data(broker: int) -> bytes:
    return json.dumps({"version": 1, "brokerid": broker, "timestamp": "1400000000000"}).encode()


def _json(hand: KazooClient, path: str) -> Any:
    return json.loads(hand.get(path)[0])
