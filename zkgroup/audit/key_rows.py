"""The rows of one key, as a rule gets them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts

_Item = TypeVar("_Item")


class _Again(Protocol):
    """What can be iterated over more than once."""

    def __iter__(self) -> Iterator[Event]: ...


class KeyRows:
    """Rows in order, to be iterated over any number of times; what rules share of them is computed once."""

    def __init__(self, rows: _Again) -> None:
        self._rows = rows
        self._known: dict[tuple[Any, ...], Sequence[Any]] = {}

    def __iter__(self) -> Iterator[Event]:
        return iter(self._rows)

    def once(
        self, make: Callable[..., Iterable[_Item]], key: tuple[str, ...], facts: Facts, *bounds: float
    ) -> Sequence[_Item]:
        """All that `make(rows, key, facts, *bounds)` gives; the rules of a key share it."""
        known = self._known.get((make, *bounds))
        if known is None:
            known = self._known[make, *bounds] = list(make(self, key, facts, *bounds))
        return known
