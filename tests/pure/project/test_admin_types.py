"""The types of `Admin`'s methods: each is public, by the name that signatures use."""

from __future__ import annotations

import ast
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import pytest

import zkgroup
from zkgroup import Admin, AsyncAdmin, admin, errors

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


def _classes(hint: Any) -> Iterator[type]:
    """The classes of zkgroup in a hint, at any depth."""
    origin = typing.get_origin(hint) or hint
    if inspect.isclass(origin) and origin.__module__.startswith("zkgroup"):
        yield origin
    for argument in typing.get_args(hint):
        for one in argument if isinstance(argument, list) else [argument]:
            yield from _classes(one)


def _is_public(kind: type) -> bool:
    """Whether a package that users import exports it by its name."""
    homes = zkgroup, admin, errors
    return any(getattr(home, kind.__name__, None) is kind for home in homes)


def test_types_of_a_method_are_exported() -> None:
    """Of `Admin` and of `AsyncAdmin`: by `zkgroup` or `zkgroup.admin`."""
    found = {
        (name, kind)
        for name in NAMES
        for method in _methods(name)
        for hint in typing.get_type_hints(method).values()
        for kind in _classes(hint)
    }

    assert len(found) > len(NAMES)
    assert [each for each in found if not _is_public(each[1])] == []


def test_names_in_a_signature_are_exported() -> None:
    """Those of aliases too, which the hints no longer name."""
    methods = [method for name in NAMES for method in _methods(name)]
    text = " ".join(str(one) for method in methods for one in method.__annotations__.values())
    words = set(re.findall(r"\b[A-Z]\w+", text))

    assert words - FOREIGN - {*zkgroup.__all__, *admin.__all__} == set()


def test_types_of_fields_are_exported() -> None:
    """What a program reads in a result is public as well, at any depth."""
    kinds = {name: getattr(admin, name) for name in admin.__all__}
    hints = {
        (name, field): hint
        for name, kind in kinds.items()
        if is_dataclass(kind)
        for field, hint in typing.get_type_hints(kind).items()
    }

    assert len(hints) > 100
    assert [each for each, hint in hints.items() if not all(map(_is_public, _classes(hint)))] == []


def test_an_exported_class_has_a_docstring_of_its_own() -> None:
    """The reference is made of them; a dataclass without one would get its signature."""
    kinds = {name: getattr(admin, name) for name in admin.__all__}
    classes = {name: kind.__doc__ for name, kind in kinds.items() if inspect.isclass(kind)}

    assert len(classes) > 50
    assert [name for name, text in classes.items() if (text or f"{name}(").startswith(f"{name}(")] == []


def test_type_checkers_see_the_same_names() -> None:
    """Each lazy name is imported under TYPE_CHECKING from the module that the table names."""
    tree = ast.parse(Path(admin.__file__).read_text(encoding="utf-8"))
    imports = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("zkgroup.")
        for alias in node.names
    }

    assert imports == admin._HOMES
    assert set(admin._HOMES) == set(admin.__all__)


def test_unknown_name_is_an_attribute_error() -> None:
    """A name that does not exist fails as for any module."""
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(admin, "nothing")  # noqa: B009 - a plain access would not type-check
