"""How a message names several things: the first few of them, and how many more there are."""

from __future__ import annotations

from collections.abc import Iterable

NAMED = 5
"""How many of several things one message names."""


def named(things: Iterable[object]) -> str:
    """`orders-0, orders-1 and 48 more`; empty for none."""
    texts = [str(thing) for thing in things]
    more = f" and {len(texts) - NAMED} more" if len(texts) > NAMED else ""
    return ", ".join(texts[:NAMED]) + more
