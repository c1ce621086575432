"""Numbers and brokers in sentences."""

from __future__ import annotations

from collections.abc import Collection


def count(number: int, noun: str) -> str:
    """`1 replica`, `2 replicas`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def brokers_named(brokers: Collection[int], one: str = "", many: str = "") -> str:
    """`broker 77`, `brokers 77, 78`; with the verbs `is` and `are`: `broker 77 is`, `brokers 77, 78 are`."""
    noun, verb = ("broker", one) if len(brokers) == 1 else ("brokers", many)
    return f"{noun} {', '.join(map(str, brokers))} {verb}".rstrip()
