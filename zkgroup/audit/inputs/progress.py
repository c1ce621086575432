"""The function that a long step calls while it goes on."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called at every step with what is being done; who shows it writes seldom."""

    def __call__(self, what: str, count: int | None = None, total: int | None = None) -> None:
        """`count`: how much was done. `total`: how much there is in all, as far as that can be estimated."""
        ...


def quiet(what: str, count: int | None = None, total: int | None = None) -> None:
    """Shows nothing."""
