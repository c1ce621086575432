"""Frozen dataclasses whose `__init__` is written out: they are made and behave as before."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError, dataclass, replace

import pytest

from zkgroup.model.values import quick_init


@dataclass(frozen=True, slots=True)
class Plain:
    """By position."""

    first: int
    second: tuple[int, ...] = (1,)


@quick_init
@dataclass(frozen=True, slots=True)
class Quick:
    """By position."""

    first: int
    second: tuple[int, ...] = (1,)


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """By name alone; a default may come first."""

    first: int = 1
    second: str


def test_it_is_made_as_before() -> None:
    """By position or by name, with defaults; `replace`, equality and hash are those of a dataclass."""
    assert (Quick(3), Quick(3, (4,))) == (Quick(first=3, second=(1,)), Quick(3, second=(4,)))
    assert str(inspect.signature(Quick)) == str(inspect.signature(Plain))
    assert Named(second="b") == Named(first=1, second="b")
    assert replace(Quick(3), first=4) == Quick(4)
    assert hash(Quick(3)) == hash(Plain(3))


def test_it_refuses_what_it_refused_before() -> None:
    """Arguments that are missing, those of the wrong kind, and changes."""
    with pytest.raises(TypeError):
        Quick()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Named(1, "b")  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        Quick(3).first = 4  # type: ignore[misc]
