"""The history that members on threads record, checked by the checker."""

from __future__ import annotations

import threading
from typing import Any

from tests.waiting import PATIENCE_S
from tests.wired.consumer.recording import Recorder
from tests.worlds.public_apis import Api, MemberWorld, orders, settings
from zkgroup.history import CheckOptions, check_history
from zkgroup.sources.memory import MemorySource
from zkgroup.testing.memory_zookeeper.leader import server_transactions


def test_a_life_with_joins_losses_and_resets_breaks_no_rule(api: Api, world: MemberWorld) -> None:
    """S1-S4, S7-S10 and S22 hold over a join, a lost session, a seek and a leave, deliveries included."""
    recorder, source = Recorder(world.clock), MemorySource()
    seen: set[tuple[int, int]] = set()

    def consumer(name: str) -> Any:
        return api.consumer(
            client=world.client(name, session_timeout_ms=4000),
            source=source,
            settings=settings(
                consumer_id=name, auto_commit_interval_ms=20, session_timeout_ms=4000, server_tick_ms=500
            ),
            history=recorder.sink(f"g_{name}"),
        )

    def work(consuming: Any) -> None:
        for record in consuming:
            seen.add((record.partition, record.offset))

    def feed(rounds: int) -> None:
        for _ in range(rounds):
            for partition in range(4):
                source.append("orders", partition, b"")
        end = 4 * source.bounds(orders(0)[0]).end
        world.until(lambda: len(seen) == end, lambda: f"{len(seen)} of {end}")

    with consumer("a") as first, consumer("b") as second:
        threads = [threading.Thread(target=work, args=(one,)) for one in (first, second)]
        for thread in threads:
            thread.start()
        feed(20)
        second.wait_until_stable(PATIENCE_S)
        feed(20)
        leases = first.leases()
        assert leases
        world.server.suspend("a")
        # No server ends a session earlier; if it did, S8 would rest on how soon the member is told.
        world.until(lambda: not any(lease.is_valid for lease in leases))
        world.server.expire("a")
        world.server.resume("a")
        feed(20)
        first.wait_until_stable(PATIENCE_S)
        first.seek(orders(0)[0], 5)
        feed(20)
        second.stop()
        world.join(threads[1])
        second.close()
        feed(20)
        first.stop()
        world.join(threads[0])

    transactions = server_transactions(world.server.log, world.server.clock)
    report = check_history(recorder.records, transactions, CheckOptions(group="g"))
    assert report.violations == ()
    assert {"S1", "S2", "S3", "S4", "S7", "S8", "S9", "S22"} <= report.decided
    assert len(seen) == 400
    assert report.figures.deliveries >= 400
    assert report.figures.ownership_changes > 0
    assert report.figures.commits > 0
