"""The page of every method of `Admin` and of the types that they take and return."""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import zkgroup
from docs.tools import api, markdown
from docs.tools.api import Docstring
from zkgroup import Admin, admin
from zkgroup.errors import ZkGroupError

TYPES_OF_ZKGROUP = ("ClientSettings", "TopicPartition")
"""Of the package itself: described here too, since methods of `Admin` take them."""


def page() -> str:
    """`reference/admin.md`."""
    intro = [
        "Every method of `zkgroup.Admin`, by subject; `zkgroup.AsyncAdmin` has the same methods as coroutines.",
        "[Operating from a program](../admin.md) explains both with examples.",
        "Errors are those of [`zkgroup.errors`](errors.md).",
        f"Of the types below `zkgroup.admin` exports {_names(tuple(sorted(admin.__all__)))},",
        f"and `zkgroup` {_names(TYPES_OF_ZKGROUP)}; the others a program gets, and does not import.",
    ]
    opening = [
        ["## Opening"],
        Docstring.of(Admin).text.split("\n"),
        *_method("Admin", Admin.__init__),
        *_method("close", Admin.close),
    ]
    blocks = [block for subject in subjects() for block in _subject(subject)]
    kinds = [block for name in types() for block in api.described(name, home_of(name))]
    return markdown.page("Methods of `Admin`", intro, *opening, *blocks, ["## Types"], *kinds)


def subjects() -> list[type]:
    """The classes that `Admin` is made of, each with the methods of a subject."""
    return list(Admin.__bases__)


def methods(subject: type) -> dict[str, Callable[..., Any]]:
    """The public methods of a subject, in the order of the file."""
    return {
        name: one
        for name, one in vars(subject).items()
        if inspect.isfunction(one) and not name.startswith("_")
    }


def types() -> list[str]:
    """Names of the types described, sorted: the exported ones, those of methods, and those of their fields."""
    return sorted({*admin.__all__, *TYPES_OF_ZKGROUP, *_met()})


@functools.cache
def _met() -> dict[str, type]:
    """The classes of zkgroup in hints of `Admin`, and in fields of these classes at any depth, by name."""
    found: dict[str, type] = {}
    todo: list[Any] = [method for subject in subjects() for method in methods(subject).values()]
    todo += [kind for name in admin.__all__ if is_dataclass(kind := getattr(admin, name))]
    while todo:
        for hint in typing.get_type_hints(todo.pop()).values():
            for kind in classes(hint):
                if kind.__name__ in found or issubclass(kind, ZkGroupError):
                    continue
                found[kind.__name__] = kind
                todo += [kind] if is_dataclass(kind) else []
    return found


def classes(hint: Any) -> Iterator[type]:
    """The classes of zkgroup in a hint, at any depth."""
    origin = typing.get_origin(hint) or hint
    if inspect.isclass(origin) and origin.__module__.startswith("zkgroup"):
        yield origin
    for argument in typing.get_args(hint):
        for one in argument if isinstance(argument, list) else [argument]:
            yield from classes(one)


def _subject(subject: type) -> Iterator[list[str]]:
    yield [f"## {(subject.__doc__ or '').rstrip('.')}"]
    for name, method in methods(subject).items():
        yield from _method(name, method)


def _method(name: str, method: Callable[..., Any]) -> Iterator[list[str]]:
    doc = Docstring.of(method)
    yield [f"### `{name}`"]
    yield ["```python", *api.signature_lines(name, method, has_result=name != "Admin"), "```"]
    yield doc.text.split("\n")
    if doc.arguments:
        yield markdown.items((f"`{one}`", text) for one, text in doc.arguments.items())
    returned = api.plain(inspect.signature(method).return_annotation)
    if returned != "None":
        yield [f"Returns {_linked(returned)}."]
    if doc.errors:
        yield ["Raises:", "", *(f"- `{error}`: {text}" for error, text in doc.errors.items())]


def members(name: str) -> list[tuple[str, ...]]:
    """The rows of the table of a type; none for a value."""
    kind = getattr(home_of(name), name)
    return api.members(kind) if inspect.isclass(kind) else []


def home_of(name: str) -> ModuleType:
    """The module that defines a type."""
    if name in _met():
        return import_module(_met()[name].__module__)
    return api.home_of(admin if name in admin.__all__ else zkgroup, name)


def _linked(annotation: str) -> str:
    """An annotation with links to the types that it names."""
    known = types()
    if annotation in known:
        return f"[`{annotation}`](#{annotation.lower()})"
    names = [name for name in dict.fromkeys(re.findall(r"\w+", annotation)) if name in known]
    links = ", ".join(f"[{name}](#{name.lower()})" for name in names)
    return f"`{annotation}`: {links}" if links else f"`{annotation}`"


def _names(names: tuple[str, ...]) -> str:
    return f"{', '.join(f'`{name}`' for name in names[:-1])} and `{names[-1]}`"
