"""What a finding is, and what decides it: a key, and a pure fold over the rows of one key.

The laptop keeps the folds of all keys open and hands each row to those it is for. Spark brings the rows of a
key together, sorts them, and folds. Both call the same code with the same rows in the same order, so they
find the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts

if TYPE_CHECKING:
    from zkgroup.zkfiles.history import History

Severity = Literal["error", "warning", "info"]
Key = tuple[str, ...]
Input = Literal["snapshot", "log"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found. What does not apply is None. `to_zxid` is None for what lasts to the end."""

    finding: str
    severity: Severity
    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    session: int | None = None
    from_zxid: int | None = None
    to_zxid: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    detail: str = ""


class Fold(Protocol):
    """Sees the rows of one key, by zxid and place; says what it finds as soon as it is sure."""

    def see(self, event: Event) -> Iterable[Finding]: ...

    def end(self) -> Iterable[Finding]:
        """The history is over; `Facts.end_zxid` and `Facts.end_ms` say when."""
        ...


@dataclass(frozen=True, slots=True)
class Keys:
    """How rows are brought together. Findings with the same keys are folded in one pass.

    A row for which `key` gives None is for none of them.
    """

    name: str
    key: Callable[[Event], Key | None]


Bounds = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Rule:
    """One finding: what it asks, what it needs, and how it is decided."""

    name: str
    severity: Severity
    """The worst that it says."""
    question: str
    needs: Sequence[Input]
    """What it cannot do without: a snapshot alone, or the log."""
    act: str
    """What an operator does about it."""
    keys: Keys
    fold: Callable[[Key, Facts, Bounds], Fold]
    bounds: Bounds = field(default_factory=dict)
    """Numbers that the user may set, with their defaults; milliseconds end in `_ms`."""


@dataclass(frozen=True, slots=True)
class WholeRule:
    """A finding about the whole tree or the files themselves: it reads the history, not rows."""

    name: str
    severity: Severity
    """The worst that it says."""
    question: str
    needs: Sequence[Input]
    act: str
    find: Callable[[History, Facts, Bounds], Iterable[Finding]]
    bounds: Bounds = field(default_factory=dict)


AnyRule = Rule | WholeRule
