"""The page of every method of `Admin` and of the types that they take and return."""

from __future__ import annotations

import ast
import enum
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import zkgroup
from docs.tools import markdown
from docs.tools.znodes_page import attribute_docs
from zkgroup import Admin, admin

SECTION = re.compile(r"\n(Args|Raises|Example):\n")
TYPES_OF_ZKGROUP = ("ChangeResult", "ClientSettings", "GroupChange", "PlanRequest", "TopicPartition")
"""Of the package itself: described here too, since methods of `Admin` take or return them."""


@dataclass(frozen=True)
class Docstring:
    """The parts of a docstring of a method."""

    text: str
    arguments: dict[str, str]
    errors: dict[str, str]

    @classmethod
    def of(cls, method: Callable[..., Any]) -> Docstring:
        """Of a method of `Admin`, or of the class itself."""
        text, *rest = SECTION.split(inspect.getdoc(method) or "")
        sections = dict(zip(rest[::2], rest[1::2], strict=True))
        return cls(text.strip(), _items(sections.get("Args", "")), _items(sections.get("Raises", "")))


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
    kinds = [block for name in types() for block in _type(name)]
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
    signature, doc = inspect.signature(method), Docstring.of(method)
    yield [f"### `{name}`"]
    yield ["```python", *_signature(name, signature), "```"]
    yield doc.text.split("\n")
    if doc.arguments:
        yield markdown.table(
            ["argument", "meaning"], [(f"`{one}`", text) for one, text in doc.arguments.items()]
        )
    returned = _plain(signature.return_annotation)
    if returned != "None":
        yield [f"Returns {_linked(returned)}."]
    if doc.errors:
        yield ["Raises:", "", *(f"- `{error}`: {text}" for error, text in doc.errors.items())]


def _signature(name: str, signature: inspect.Signature) -> Iterator[str]:
    """One line where it is short, else one for each argument."""
    arguments: list[str] = []
    is_after_star = False
    for one in list(signature.parameters.values())[1:]:
        if one.kind is one.KEYWORD_ONLY and not is_after_star:
            arguments += ["*"]
        is_after_star = is_after_star or one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        default = "" if one.default is one.empty else f" = {one.default!r}"
        star = "*" if one.kind is one.VAR_POSITIONAL else ""
        arguments.append(f"{star}{one.name}: {_plain(one.annotation)}{default}")
    returned = _plain(signature.return_annotation)
    end = ")" if name == "Admin" else f") -> {returned}"
    whole = f"{name}({', '.join(arguments)}{end}"
    if len(whole) <= 90:
        yield whole
        return
    yield f"{name}("
    yield from (f"    {one}," for one in arguments)
    yield end


def members(name: str) -> list[tuple[str, ...]]:
    """The rows of the table of a type: a field, its type and its meaning, or a value and its meaning."""
    kind = getattr(_home(name), name)
    if not inspect.isclass(kind):
        return []
    if issubclass(kind, enum.Enum):
        docs = _docs(kind)
        return [(f"`{one.value}`", docs.get(one.name, "")) for one in kind]
    return [*_fields(kind), *_members(kind)]


def _home(name: str) -> ModuleType:
    return import_module(admin._HOMES.get(name) or zkgroup._HOMES[name])


def _type(name: str) -> Iterator[list[str]]:
    home = _home(name)
    kind = getattr(home, name)
    yield [f"### `{name}`"]
    if not inspect.isclass(kind):
        yield from _alias(name, home.__name__)
        return
    text = Docstring.of(kind).text
    yield (text.partition("\n\n")[0] if getattr(kind, "_is_protocol", False) else text).split("\n")
    if rows := members(name):
        heads = ["value", "meaning"] if issubclass(kind, enum.Enum) else ["field", "type", "meaning"]
        yield markdown.table(heads, rows)


def _alias(name: str, module: str) -> Iterator[list[str]]:
    """The right side of an assignment, and the string below it."""
    value, doc = _assignment(name, module)
    yield ["```python", f"{name} = {_plain(value)}", "```"]
    if doc:
        yield [doc]


def _assignment(name: str, module: str) -> tuple[str, str]:
    """Where a name is assigned, in a module or in the one that it takes it from."""
    source = inspect.getsource(import_module(module))
    tree = ast.parse(source).body
    for statement, below in zip(tree, [*tree[1:], ast.Pass()], strict=True):
        if isinstance(statement, ast.ImportFrom) and name in [one.name for one in statement.names]:
            return _assignment(name, statement.module or "")
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if name in [one.id for one in targets if isinstance(one, ast.Name)]:
            doc = below.value if isinstance(below, ast.Expr) else None
            text = str(doc.value) if isinstance(doc, ast.Constant) else ""
            return ast.get_source_segment(source, statement.value) or "", markdown.one_line(text)
    raise LookupError(f"{module}.{name}")


def _fields(kind: Any) -> Iterator[tuple[str, str, str]]:
    docs = _docs(kind)
    if is_dataclass(kind):
        for one in fields(kind):
            if not one.name.startswith("_"):
                yield (
                    f"`{one.name}`",
                    f"`{_plain(one.type)}`",
                    docs.get(one.name, one.metadata.get("doc", "")),
                )
    else:
        for name in getattr(kind, "_fields", ()):
            yield f"`{name}`", f"`{_plain(kind.__annotations__[name])}`", docs.get(name, "")


def _members(kind: type) -> Iterator[tuple[str, str, str]]:
    """Properties, and methods of ports, which a program may have to write itself."""
    is_port = bool(getattr(kind, "_is_protocol", False))
    for name, one in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(one, property):
            returned = _plain(inspect.signature(one.fget).return_annotation) if one.fget else ""
            yield f"`{name}`", f"`{returned}`", _first_paragraph(one)
        elif is_port and inspect.isfunction(one):
            text = " ".join(line.strip() for line in _signature(name, inspect.signature(one)))
            yield f"`{name}`", f"`{text.replace('( ', '(').replace(', )', ')')}`", _first_paragraph(one)


def _docs(kind: type) -> dict[str, str]:
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("zkgroup."):
            found |= attribute_docs(base)
    return found


def _first_paragraph(one: object) -> str:
    return markdown.one_line((inspect.getdoc(one) or "").partition("\n\n")[0])


def _items(section: str) -> dict[str, str]:
    """Of a section of a docstring: the text after each name."""
    found: dict[str, str] = {}
    for line in inspect.cleandoc(section).split("\n"):
        if line.startswith(" "):
            name = list(found)[-1]
            found[name] += f" {line.strip()}"
        elif line:
            name, _, text = line.partition(": ")
            found[name] = text
    return found


def _plain(annotation: Any) -> str:
    """An annotation without the modules of its names."""
    return re.sub(r"\b[a-z_]+\.(?=[A-Z])", "", str(annotation))


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
