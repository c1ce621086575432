"""The progress of followers as the machine gets it: together, in order, and before what follows."""

from __future__ import annotations

import asyncio

from tests.worlds.serving import on_a_loop, until
from zkgroup.broker.machine.events import FollowerFetched, FollowerFetches
from zkgroup.broker.network import FetchReports
from zkgroup.model import TopicPartition

FETCHED = [FollowerFetched(TopicPartition("t", number), 2, number, number, number) for number in range(4)]


@on_a_loop
async def test_fetches_wake_the_machine_once_in_a_while() -> None:
    """In their order, and again for later ones."""
    posted: list[FollowerFetches] = []
    reports = FetchReports(posted.append, 0.0)
    for one in FETCHED:
        reports.add([one])
    assert posted == []
    await until(lambda: posted)
    assert posted == [FollowerFetches(tuple(FETCHED))]
    reports.add(FETCHED[:1])
    await until(lambda: len(posted) == 2)
    assert posted[1] == FollowerFetches((FETCHED[0],))


@on_a_loop
async def test_what_follows_comes_after_them() -> None:
    """They are posted at once then, and not a second time; after the end nothing is posted."""
    posted: list[FollowerFetches] = []
    reports = FetchReports(posted.append, 0.0)
    reports.flush()
    assert posted == []
    reports.add(FETCHED)
    reports.flush()
    assert posted == [FollowerFetches(tuple(FETCHED))]
    reports.add(FETCHED)
    reports.close()
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(posted) == 1
