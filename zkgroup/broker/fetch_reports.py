"""The progress of followers for the machine, a few times a second instead of at each fetch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from zkgroup.broker.machine.events import FollowerFetched, FollowerFetches

REPORTED_S: Final = 0.02
"""Longest delay of a report. By it the machine decides whether a follower joins the ISR, or lags."""


class FetchReports:
    """Collects fetches of followers, and posts them together. Used on one event loop."""

    def __init__(self, post: Callable[[FollowerFetches], None], delay_s: float = REPORTED_S) -> None:
        """`post` posts an event to the machine: each one wakes its thread."""
        self._post = post
        self._delay_s = delay_s
        self._fetched: list[FollowerFetched] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, fetched: Sequence[FollowerFetched]) -> None:
        """Posts these fetches within the delay."""
        self._fetched += fetched
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._delay_s, self.flush)

    def flush(self) -> None:
        """Posts at once what was added: an event follows for which the fetches were before."""
        self.close()
        if self._fetched:
            fetched, self._fetched = tuple(self._fetched), []
            self._post(FollowerFetches(fetched))

    def close(self) -> None:
        """Posts nothing more by itself."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
