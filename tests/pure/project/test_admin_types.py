"""The types of `Admin`'s methods: each is public, by the name that signatures use."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable
from typing import Any

import pytest

import zkgroup
from docs.tools import admin_page
from zkgroup import Admin, AsyncAdmin, admin, errors, security

NAMES = [
    "__init__",
    *(name for name in dir(Admin) if inspect.isfunction(getattr(Admin, name)) and name[0] != "_"),
]
NOT_CONNECTED = object.__new__(AsyncAdmin)
"""Its methods can be had, not called."""

FOREIGN = {"Any", "Collection", "Iterable", "Mapping", "None", "Path", "Sequence"}
"""Names in annotations that are Python's."""


def _methods(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return getattr(Admin, name), getattr(NOT_CONNECTED, name)


def _is_public(kind: type) -> bool:
    """Whether a package that users import exports it by its name."""
    homes = zkgroup, admin, errors, security
    return any(getattr(home, kind.__name__, None) is kind for home in homes)


def test_types_of_arguments_are_exported() -> None:
    """Of `Admin` and of `AsyncAdmin`: by a package with public names. A program makes these values."""
    found = {
        (name, kind)
        for name in NAMES
        for method in _methods(name)
        for argument, hint in typing.get_type_hints(method).items()
        if argument != "return"
        for kind in admin_page.classes(hint)
    }

    assert len(found) > 20
    assert [each for each in found if not _is_public(each[1])] == []


def test_names_of_arguments_types_are_exported() -> None:
    """Those of aliases too, which the hints no longer name."""
    methods = [method for name in NAMES for method in _methods(name)]
    text = " ".join(
        str(one)
        for method in methods
        for argument, one in method.__annotations__.items()
        if argument != "return"
    )
    words = set(re.findall(r"\b[A-Z]\w+", text))

    assert words - FOREIGN - {*zkgroup.__all__, *admin.__all__, *security.__all__} == set()


def test_a_described_class_has_a_docstring_of_its_own() -> None:
    """The reference is made of them; a dataclass without one would get its signature."""
    kinds = {name: getattr(admin_page.home_of(name), name) for name in admin_page.types()}
    classes = {name: kind.__doc__ for name, kind in kinds.items() if inspect.isclass(kind)}

    assert len(classes) > 90
    assert [name for name, text in classes.items() if (text or f"{name}(").startswith(f"{name}(")] == []


def test_unknown_name_is_an_attribute_error() -> None:
    """A name that does not exist fails as for any module."""
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(admin, "nothing")  # noqa: B009 - a plain access would not type-check
