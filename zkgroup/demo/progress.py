"""What a demo prints while it runs, how it waits, and the checks it prints at its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar

from zkgroup.errors import StableTimeoutError

Tone = Literal["plain", "good", "bad"]
ViewT_contra = TypeVar("ViewT_contra", contravariant=True)
ViewT = TypeVar("ViewT")
READ_EVERY_S = 0.25


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """One line of the story; seconds since the start."""

    at_s: float
    text: str
    tone: Tone = "plain"


class Screen(Protocol[ViewT_contra]):
    """Where the story is told: a live view on a terminal, plain lines elsewhere."""

    def happened(self, happening: ProgressEvent) -> None:
        """Something to be told once."""

    def show(self, scene: ViewT_contra) -> None:
        """The present picture; the next one replaces it."""


@dataclass(kw_only=True)
class Progress(Generic[ViewT]):
    """One run of a demo: what is told, and the waiting. What is looked at is the demo's own."""

    screen: Screen[ViewT]
    patience_s: float
    """Longest time for the whole run."""
    story: list[ProgressEvent] = field(default_factory=list)
    headline: str = "starting"
    began_s: float = field(default_factory=time.monotonic)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.began_s

    def tell(self, text: str, tone: Tone = "plain") -> None:
        """Adds a line to the story."""
        happening = ProgressEvent(self.elapsed_s, text, tone)
        self.story.append(happening)
        self.screen.happened(happening)

    def until(self, what: str, reached: Callable[[], bool], look_every_s: float = READ_EVERY_S) -> None:
        """Looks at everything until it is so.

        Raises `StableTimeoutError` when the patience is over, and what `check` raises.
        """
        while True:
            self.look()
            if reached():
                return
            self.check()
            if self.elapsed_s > self.patience_s:
                raise StableTimeoutError(
                    f"{self.patience_s:g} s after the start it is still not so that {what}"
                )
            time.sleep(look_every_s)

    def look(self) -> None:
        """Reads everything and shows it."""
        raise NotImplementedError

    def check(self) -> None:
        """Raises where something has failed by itself, so that waiting is in vain."""
        raise NotImplementedError


NAMED_MAX = 5
"""So many offenders are named in a message; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Check:
    """One statement, whether it holds, and the figures that say so."""

    statement: str
    holds: bool
    evidence: str


def named(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    rest = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {rest} more" if rest > 0 else "")
