"""What a long step calls while it goes on."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called at every step with what is being done, and how much of it was; who shows it writes seldom."""

    def __call__(self, what: str, count: int | None = None) -> None: ...


def quiet(what: str, count: int | None = None) -> None:
    """Shows nothing."""
