"""Descriptions of public classes, functions and values, from signatures and docstrings."""

from __future__ import annotations

import ast
import enum
import inspect
import itertools
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from docs.tools import markdown
from docs.tools.znodes_page import attribute_docs
from zkgroup.broker.settings import BrokerSettings
from zkgroup.exports import homes
from zkgroup.settings import GroupSettings

SECTION = re.compile(r"\n?(Args|Raises|Example):\n")
REPR_MAX = 40
"""A default with a longer `repr` is shown as the source has it."""
Link = Callable[[type], str]
"""Gives the link to a class that is described, or an empty text."""


@dataclass(frozen=True)
class Docstring:
    """The parts of a docstring."""

    text: str
    arguments: dict[str, str]
    errors: dict[str, str]
    example: str = ""

    @classmethod
    def of(cls, described: object) -> Docstring:
        """The docstring of a class, a function or a property."""
        text, *rest = SECTION.split(inspect.getdoc(described) or "")
        sections = dict(zip(rest[::2], rest[1::2], strict=True))
        arguments, _, after = sections.get("Args", "").partition("\n\n")
        return cls(
            "\n\n".join(part for part in (text.strip(), after.strip()) if part),
            _items(arguments),
            _items(sections.get("Raises", "")),
            textwrap.dedent(sections.get("Example", "")).replace("  # doctest: +SKIP", "").strip(),
        )


def home_of(module: ModuleType, name: str) -> ModuleType:
    """The module in which a package finds one of its names."""
    if not inspect.isfunction(getattr(module, "__getattr__", None)):
        return module
    return import_module(homes(module.__name__).get(name, module.__name__))


def _no_link(_: type) -> str:
    return ""


def described(
    name: str, home: ModuleType, public: Link = _no_link, like: type | None = None
) -> Iterator[list[str]]:
    """The whole description of a public name below a heading of the third level.

    `public` gives the link to a described base, or an empty text; `like` is the class whose methods this
    one has as coroutines.
    """
    one = getattr(home, name)
    yield [f"### `{name}`"]
    if inspect.isclass(one):
        yield from class_blocks(name, one, public, like)
    elif inspect.isfunction(one):
        yield from function_blocks(name, one)
    else:
        yield from alias_blocks(name, home.__name__)


def class_blocks(name: str, kind: Any, public: Link, like: type | None) -> Iterator[list[str]]:
    """Constructor, text, fields or members, methods."""
    if like:
        yield from coroutine_blocks(kind, like)
        return
    doc = Docstring.of(kind)
    if constructor := constructor_of(kind):
        yield ["```python", *signature_lines(name, constructor, has_result=False), "```"]
    yield doc.text.split("\n")
    if constructor:
        yield from _constructor(kind)
    if doc.example:
        yield ["```python", *doc.example.split("\n"), "```"]
    if is_settings(kind):
        yield ["The fields are described in [Settings](settings.md)."]
    elif rows := members(kind):
        yield markdown.items(rows)
    bases = [link for base in kind.__mro__[1:] if (link := public(base))]
    if bases:
        yield [f"Also has the methods of {' and '.join(bases)}."]
    for method, function in methods(kind, public).items():
        yield [f"#### `{method}`"]
        yield from function_blocks(method, function)


def coroutine_blocks(kind: Any, like: type) -> Iterator[list[str]]:
    """A class whose methods are those of another as coroutines: only what differs."""
    doc = Docstring.of(kind)
    yield doc.text.split("\n")
    yield [f"Arguments, attributes and methods are those of [`{like.__name__}`](#{like.__name__.lower()})."]
    if doc.example:
        yield ["```python", *doc.example.split("\n"), "```"]
    known = {row[0] for row in members(like)}
    found = {name: one for name, one in methods(kind).items() if inspect.iscoroutinefunction(one)}
    if len(found) > 1:
        yield [f"Coroutines: {', '.join(f'`{name}`' for name in found)}."]
    rows = [(f"`{name}`", _beyond(one)) for name, one in found.items()]
    own = [row for row in members(kind) if row[0] not in known]
    yield markdown.items([*own, *(row for row in rows if row[1])])


def _beyond(coroutine: Any) -> str:
    """What a docstring says besides `See X.y`; empty where it has no such reference."""
    text = markdown.one_line(_text(coroutine))
    return re.sub(r"\s*See `[\w.]+`\.\s*", " ", text).strip() if "See `" in text else ""


def _constructor(kind: type) -> Iterator[list[str]]:
    init = constructor_of(kind)
    doc = Docstring.of(init)
    if vars(kind).get("__init__", init) is init and doc.text:
        yield doc.text.split("\n")
    known = argument_docs(kind)
    rows = [(f"`{name}`", known.get(name, "")) for name in list(inspect.signature(init).parameters)[1:]]
    if rows:
        yield markdown.items(rows)
    yield from _errors(doc)


def constructor_of(kind: Any) -> Any:
    """`__init__` where a class defines its arguments itself, else None."""
    if is_dataclass(kind) or issubclass(kind, (enum.Enum, tuple)) or getattr(kind, "_is_protocol", False):
        return None
    return kind.__init__ if inspect.isfunction(kind.__init__) else None


def argument_docs(kind: type) -> dict[str, str]:
    """The meaning of each argument of a constructor, from its docstring or that of a base's constructor."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if inspect.isfunction(init := vars(base).get("__init__")):
            found |= Docstring.of(init).arguments
    return found


def function_blocks(name: str, found: Any) -> Iterator[list[str]]:
    """Signature, text, arguments and errors of a function or method."""
    doc = Docstring.of(found)
    yield ["```python", *signature_lines(name, found), "```"]
    yield doc.text.split("\n")
    if doc.arguments:
        yield markdown.items((f"`{one}`", text) for one, text in doc.arguments.items())
    yield from _errors(doc)


def _errors(doc: Docstring) -> Iterator[list[str]]:
    if doc.errors:
        yield ["Raises:", "", *(f"- `{error}`: {text}" for error, text in doc.errors.items())]


def alias_blocks(name: str, module: str) -> Iterator[list[str]]:
    """The right side of an assignment, if it is one line, and the string below it."""
    value, doc = assignment(name, module)
    if "\n" not in value:
        yield ["```python", f"{name} = {plain(value)}", "```"]
    if doc:
        yield [doc]


def methods(kind: type, public: Link = _no_link) -> dict[str, Any]:
    """The public methods of a class, its own first; without those that only a described base has."""
    found: dict[str, Any] = {}
    if getattr(kind, "_is_protocol", False):
        return found  # in the table of its members
    for base in kind.__mro__:
        if is_foreign(base) or (base is not kind and public(base)):
            continue
        for name, one in vars(base).items():
            is_method = inspect.isfunction(one) or isinstance(one, classmethod | staticmethod)
            if is_method and not name.startswith("_"):
                found.setdefault(name, one)
    return found


def is_foreign(kind: type) -> bool:
    """Whether a class is Python's own."""
    return kind.__module__.partition(".")[0] in sys.stdlib_module_names


def is_settings(kind: Any) -> bool:
    """Whether the page of settings describes the fields of a class."""
    return kind in (GroupSettings, BrokerSettings)


def gaps(name: str, home: ModuleType, like: str | None = None) -> list[str]:
    """What has no docstring: the name itself, an argument of its constructor, a member, a method."""
    one = getattr(home, name)
    if not inspect.isclass(one):
        has_text = inspect.getdoc(one) if inspect.isfunction(one) else assignment(name, home.__name__)[1]
        return [] if has_text else [name]
    own = vars(one).get("__doc__") or f"{name}("
    found = [name] if own.startswith(f"{name}(") else []
    if (constructor := constructor_of(one)) and not like:
        known = argument_docs(one)
        found += [
            f"{name}({given})"
            for given in list(inspect.signature(constructor).parameters)[1:]
            if given not in known
        ]
    if not is_settings(one):
        found += [f"{name}.{row[0].strip('`')}" for row in members(one) if not row[-1]]
    return found + [f"{name}.{each}()" for each, method in methods(one).items() if not _text(method)]


def _text(method: Any) -> str:
    return inspect.getdoc(method.__func__ if hasattr(method, "__func__") else method) or ""


def signature_lines(name: str, found: Any, *, has_result: bool = True) -> Iterator[str]:
    """One line where it is short, else one for each argument."""
    function = found.__func__ if isinstance(found, classmethod | staticmethod) else found
    signature = inspect.signature(function)
    is_bound = "." in function.__qualname__ and not isinstance(found, staticmethod)
    arguments: list[str] = []
    is_after_star = False
    for one in list(signature.parameters.values())[is_bound:]:
        if one.kind is one.KEYWORD_ONLY and not is_after_star:
            arguments += ["*"]
        is_after_star = is_after_star or one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        default = "" if one.default is one.empty else f" = {_default(function, one)}"
        star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        arguments.append(f"{star}{one.name}: {plain(one.annotation)}{default}")
    begin = f"{_prefix(found, function)}{name}"
    end = f") -> {plain(signature.return_annotation)}" if has_result else ")"
    whole = f"{begin}({', '.join(arguments)}{end}"
    if len(whole) <= 90:
        yield whole
        return
    yield f"{begin}("
    yield from (f"    {one}," for one in arguments)
    yield end


def _prefix(found: Any, function: Any) -> str:
    if isinstance(found, classmethod):
        return "classmethod "
    if isinstance(found, staticmethod):
        return "staticmethod "
    is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    return "async " if is_async else ""


def _default(function: Any, parameter: inspect.Parameter) -> str:
    """A default as a user may write it: its `repr`, or as the source has it."""
    text = repr(parameter.default)
    if len(text) <= REPR_MAX and not text.startswith("<"):
        return text
    node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    positional = [*node.args.posonlyargs, *node.args.args]
    pairs = [
        *zip(positional[len(positional) - len(node.args.defaults) :], node.args.defaults, strict=True),
        *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
    ]
    return next(ast.unparse(value) for one, value in pairs if one.arg == parameter.name and value)


def members(kind: Any) -> list[tuple[str, ...]]:
    """The rows of the table of a class: a field, its type and its meaning, or a value and its meaning."""
    if issubclass(kind, enum.Enum):
        docs = _docs(kind)
        return [(f"`{_word(one)}`", docs.get(one.name, "")) for one in kind]
    return [*_fields(kind), *_set_attributes(kind), *_properties(kind)]


def _word(one: enum.Enum) -> object:
    """What stands for a value: its name where the value is only a number of Kafka's."""
    return one.name if isinstance(one, int) else one.value


def assignment(name: str, module: str) -> tuple[str, str]:
    """Where a name is assigned, in a module or in the one that it takes it from."""
    source = inspect.getsource(import_module(module))
    tree = ast.parse(source).body
    for statement, below in zip(tree, [*tree[1:], ast.Pass()], strict=True):
        if isinstance(statement, ast.ImportFrom) and name in [one.name for one in statement.names]:
            return assignment(name, statement.module or "")
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
                text = docs.get(one.name, one.metadata.get("doc", ""))
                yield f"`{one.name}`", f"`{plain(one.type)}{_field_default(one)}`", text
        return
    for name in getattr(kind, "_fields", ()):
        default = getattr(kind, "_field_defaults", {})
        shown = f" = {default[name]!r}" if name in default else ""
        yield f"`{name}`", f"`{plain(kind.__annotations__[name])}{shown}`", docs.get(name, "")


def _set_attributes(kind: type) -> Iterator[tuple[str, str, str]]:
    """Public attributes that a constructor sets and describes by the string below the assignment."""
    for base in kind.__mro__:
        init = vars(base).get("__init__")
        if is_foreign(base) or is_dataclass(base) or not inspect.isfunction(init):
            continue
        function = ast.parse(textwrap.dedent(inspect.getsource(init))).body[0]
        assert isinstance(function, ast.FunctionDef)
        for one, below in itertools.pairwise(function.body):
            target = one.target if isinstance(one, ast.AnnAssign) else None
            target = one.targets[0] if isinstance(one, ast.Assign) else target
            if (
                isinstance(target, ast.Attribute)
                and not target.attr.startswith("_")
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
            ):
                shown = f"`{ast.unparse(one.annotation)}`" if isinstance(one, ast.AnnAssign) else ""
                yield f"`{target.attr}`", shown, markdown.one_line(str(below.value.value))


def _field_default(one: Field[Any]) -> str:
    if one.default is MISSING:
        return ""
    text = repr(one.default)
    return f" = {text}" if len(text) <= REPR_MAX and not text.startswith("<") else " = ..."


def _properties(kind: type) -> Iterator[tuple[str, str, str]]:
    """Properties, and methods of ports, which a program may have to write itself."""
    is_port = bool(getattr(kind, "_is_protocol", False))
    shown: set[str] = set()
    for base in kind.__mro__:
        if is_foreign(base):
            continue
        for name, one in vars(base).items():
            if name.startswith("_") or name in shown:
                continue
            if isinstance(one, property):
                shown.add(name)
                returned = plain(inspect.signature(one.fget).return_annotation) if one.fget else ""
                yield f"`{name}`", f"`{returned}`", markdown.one_line(inspect.getdoc(one) or "")
            elif is_port and inspect.isfunction(one):
                shown.add(name)
                text = " ".join(line.strip() for line in signature_lines(name, one))
                text = text.replace("( ", "(").replace(", )", ")")
                yield f"`{name}`", f"`{text}`", markdown.one_line(inspect.getdoc(one) or "")


def _docs(kind: type) -> dict[str, str]:
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not is_foreign(base):
            found |= attribute_docs(base)
    return found


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


def plain(annotation: Any) -> str:
    """An annotation without the modules of its names."""
    return re.sub(r"\b[a-z_]+\.(?=[A-Z])", "", str(annotation))
