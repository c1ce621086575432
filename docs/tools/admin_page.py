"""The page of every method of `Admin` and of the types that they take and return."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import zkgroup
from docs.tools import api, markdown
from docs.tools.api import Docstring
from zkgroup import Admin, admin

TYPES_OF_ZKGROUP = ("ChangeResult", "ClientSettings", "GroupChange", "PlanRequest", "TopicPartition")
"""Of the package itself: described here too, since methods of `Admin` take or return them."""


def page() -> str:
    """`reference/admin.md`."""
    intro = [
        "Every method of `zkgroup.Admin`, by subject; `zkgroup.AsyncAdmin` has the same methods as coroutines.",
        "[Operating from a program](../admin.md) explains both with examples.",
        "Errors are those of [`zkgroup.errors`](errors.md).",
        f"The types below are exported by `zkgroup.admin`; {_names(TYPES_OF_ZKGROUP)} by `zkgroup`.",
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
    """Names of the types described, sorted."""
    return sorted({*admin.__all__, *TYPES_OF_ZKGROUP})


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
