"""The page of every znode, from the dataclasses that read and write them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any
from urllib.parse import unquote

from docs.tools import markdown
from zkgroup import znodes
from zkgroup.security.acls import PatternType, ResourcePattern, ResourceType


@dataclass(frozen=True)
class _Placeholder:
    """Stands for a TopicPartition in a path."""

    topic: str = "<topic>"
    partition: str = "<partition>"

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class _Number(int):
    """Stands for a number in a path, and passes for one."""

    name: str

    @classmethod
    def of(cls, name: str) -> _Number:
        made = cls()
        made.name = f"<{name}>"
        return made

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return str(self)


def page() -> str:
    """`reference/znodes.md`."""
    intro = [
        "Every znode that zkgroup reads or writes is one frozen dataclass with `path`, `encode` and `decode`;",
        "znodes that it only reads have no `encode`.",
        "Paths, keys and data are those of Kafka 0.8.2.2 where it has the znode; `resets`, `views`, `plan`",
        "and everything below `/zkgroup` are of zkgroup, and Kafka's members and tools ignore them.",
        "Numbers of zkgroup that may exceed 32 bits are JSON strings: Kafka 0.8 reads no larger JSON numbers.",
        "Unknown keys are kept when a znode is written again, except in `/admin/reassign_partitions`.",
        "An impossible name, id or epoch, or data too large for a request, raises `ConfigError` on `encode`.",
        "A znode with other data than its path requires raises `CorruptZnodeError` with path, expected and found.",
    ]
    blocks = [block for kind in kinds() for block in _blocks(kind)]
    return markdown.page("Znodes", intro, *blocks)


def kinds() -> list[type]:
    """Every znode dataclass, below `/consumers` first."""
    found: dict[str, type] = {}
    for module in pkgutil.iter_modules(znodes.__path__):
        for kind in vars(importlib.import_module(f"{znodes.__name__}.{module.name}")).values():
            if inspect.isclass(kind) and hasattr(kind, "path") and hasattr(kind, "decode"):
                found[kind.__name__] = kind
    return sorted(
        found.values(), key=lambda kind: (not path_of(kind).startswith("/consumers"), path_of(kind))
    )


def path_of(kind: Any) -> str:
    """The path with placeholders."""
    arguments = [
        _Placeholder()
        if name == "topic_partition"
        else ResourcePattern(ResourceType.TOPIC, "<name>")
        if name == "pattern"
        else PatternType.LITERAL
        if name == "pattern_type"
        else _Number.of(name)
        if str(parameter.annotation).startswith("int")
        else f"<{name}>"
        for name, parameter in inspect.signature(kind.path).parameters.items()
    ]
    return unquote(str(kind.path(*arguments)))


def _blocks(kind: type) -> Iterator[list[str]]:
    yield [f"## `{path_of(kind)}`"]
    yield [f"*zkgroup.znodes: {kind.__name__}*"]
    yield inspect.cleandoc(kind.__doc__ or "").split("\n")
    rows = list(_fields(kind))
    if rows:
        yield markdown.items(rows)


def _fields(kind: type) -> Iterator[tuple[str, str, str]]:
    texts = {
        name: text
        for base in reversed(kind.__mro__[:-1])
        if base is not tuple
        for name, text in attribute_docs(base).items()
    }
    if is_dataclass(kind):
        types = {each.name: each.type for each in fields(kind)}
    else:
        types = {name: each.__forward_arg__ for name, each in kind.__annotations__.items()}
    for name, each in types.items():
        yield f"`{name}`", f"`{each}`", texts.get(name, "")


def attribute_docs(kind: type) -> dict[str, str]:
    """The string below each field, which Python itself does not keep."""
    import ast
    import textwrap

    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign | ast.Assign):
            continue
        target = field.target if isinstance(field, ast.AnnAssign) else field.targets[0]
        if (
            isinstance(target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            found[target.id] = markdown.one_line(str(text.value.value))
    return found
