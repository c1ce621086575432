"""The pages of every public name, one page for each row of `library.md`'s table that has no page yet."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import zkgroup
from docs.tools import api, markdown

ROOT = Path(__file__).resolve().parent.parent.parent

PAGES = {
    "api-zkgroup": ("zkgroup",),
    "api-broker": ("zkgroup.broker", "zkgroup.sources", "zkgroup.security"),
    "api-placement": ("zkgroup.model", "zkgroup.placement"),
    "api-history": ("zkgroup.history",),
    "api-zookeeper": ("zkgroup.zookeeper", "zkgroup.zookeeper.embedded"),
    "api-testing": ("zkgroup.testing", "zkgroup.testing.conformance"),
    "api-extras": ("zkgroup.metrics", "zkgroup.audit.spark.sources"),
}
"""Page to the modules on it; `zkgroup.admin` and `zkgroup.errors` have pages of their own."""

WITH_OWN_PAGE = {"zkgroup.admin": "admin.md", "zkgroup.errors": "errors.md"}

WITHOUT_IMPORT = {"zkgroup.audit.spark.sources"}
"""Read from the source, since they need a package that only an extra installs."""

LIKE = {
    "AsyncAdmin": "Admin",
    "AsyncBroker": "Broker",
    "AsyncConsumer": "Consumer",
    "AsyncGroupMember": "GroupMember",
    "AsyncRebalanceListener": "RebalanceListener",
}
"""Classes whose methods and arguments are those of another, as coroutines."""


def public_names(module: str) -> list[str]:
    """The public names of a module, as the table in the package's docstring has them."""
    rows = re.findall(r"^\| (`zkgroup[^|]*) \| ([^|]+) \|$", str(zkgroup.__doc__), re.MULTILINE)
    cell = next(names for modules, names in rows if f"`{module}`" in modules)
    if "__all__" in cell:
        listed: list[str] = import_module(module).__all__
        return sorted(listed, key=lambda name: (name.lower(), name))
    return re.findall(r"`(\w+)`", cell)


def pages() -> dict[str, Callable[[], str]]:
    """File name to the function that makes it."""
    return {
        "reference/api.md": index,
        **{f"reference/{name}.md": lambda name=name: _page(name) for name in PAGES},
    }


def index() -> str:
    """`reference/api.md`."""
    intro = [
        "Every public name, by module, with a link to its description; all other names are internal.",
        "Signatures name a few types that are internal: a program passes or gets their values, and does not",
        "import them. [The library](../library.md) explains the names with examples.",
    ]
    rows = [(f"`{module}`", ", ".join(_links(module))) for modules in PAGES.values() for module in modules]
    own = [
        (
            "`zkgroup.admin`",
            ", ".join(f"[`{name}`](admin.md#{name.lower()})" for name in public_names("zkgroup.admin")),
        ),
        ("`zkgroup.errors`", "[all errors](errors.md)"),
    ]
    return markdown.page(
        "Public names", intro, markdown.table(["module", "names"], [*rows[:1], *own, *rows[1:]])
    )


def _links(module: str) -> Iterator[str]:
    for name in public_names(module):
        yield _link(module, name)


def _link(module: str, name: str, here: str = "") -> str:
    page, _ = described_on(module, name)
    file = "" if page == here else f"{page}.md"
    return f"[`{name}`]({file}#{_anchor(page, name)})" if name[0] != "_" else f"`{name}`"


def _anchor(page: str, name: str) -> str:
    """As MyST numbers headings that differ only in case, such as `Spread` and `spread`."""
    alike = [one for module in PAGES[page] for one in public_names(module) if one.lower() == name.lower()]
    number = list(dict.fromkeys(alike)).index(name)
    return f"{name.lower()}-{number}" if number else name.lower()


def described_on(module: str, name: str) -> tuple[str, str]:
    """The page and module that describe a name: the first that exports the same object."""
    if module in WITHOUT_IMPORT:
        return "api-extras", module
    wanted = getattr(import_module(module), name)
    for page, modules in PAGES.items():
        for other in modules:
            if other in WITHOUT_IMPORT or name not in public_names(other):
                continue
            if getattr(import_module(other), name) is wanted:
                return page, other
    raise LookupError(f"{module}.{name}")


def _page(page: str) -> str:
    blocks = [block for module in PAGES[page] for block in _module(page, module)]
    title = " and ".join(f"`{module}`" for module in PAGES[page])
    intro = [f"Names that {title} export. [Public names](api.md) lists those of all modules."]
    if len(PAGES[page]) == 1:
        intro = [intro[0].replace(" export.", " exports.")]
    return markdown.page(title, intro, *blocks)


def _module(page: str, module: str) -> Iterator[list[str]]:
    if len(PAGES[page]) > 1:
        yield [f"## `{module}`"]
    else:
        yield ["## Names"]
    if module in WITHOUT_IMPORT:
        yield from _unimported(module)
        return
    loaded = import_module(module)
    elsewhere: list[str] = []
    for name in public_names(module):
        if described_on(module, name) == (page, module):
            yield from _described(page, name, api.home_of(loaded, name))
        else:
            elsewhere.append(_link(module, name, page))
    if elsewhere:
        yield [f"Also exported here: {', '.join(elsewhere)}."]


def _described(page: str, name: str, home: Any) -> Iterator[list[str]]:
    if name == "__version__":
        yield [f"### `{name}`"]
        yield ["The version of the installed package, a `str`."]
        return
    if name == "Admin":
        yield [f"### `{name}`"]
        yield ["Has a page of its own: [Methods of `Admin`](admin.md)."]
        return
    yield from api.described(name, home, lambda kind: _base_link(page, kind), _like(name))


def _like(name: str) -> type | None:
    """The class whose methods a class has as coroutines."""
    like = LIKE.get(name)
    modules = (module for page in PAGES.values() for module in page if module not in WITHOUT_IMPORT)
    return next((getattr(import_module(one), like) for one in modules if like in public_names(one)), None)


def _base_link(page: str, kind: type) -> str:
    """A link to a class that is public by the name that it has in the source, else ""."""
    for modules in PAGES.values():
        for module in modules:
            if module in WITHOUT_IMPORT or kind.__name__ not in public_names(module):
                continue
            if getattr(import_module(module), kind.__name__) is kind:
                return _link(module, kind.__name__, page)
    return ""


def _unimported(module: str) -> Iterator[list[str]]:
    for name, node in unimported(module).items():
        yield [f"### `{name}`"]
        result = ast.unparse(node.returns) if node.returns else "None"
        yield ["```python", f"{name}({ast.unparse(node.args)}) -> {result}", "```"]
        yield inspect.cleandoc(ast.get_docstring(node) or "").split("\n")


def unimported(module: str) -> dict[str, ast.FunctionDef]:
    """The public functions of a module that is not imported here."""
    tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    found = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    return {name: found[name] for name in public_names(module)}
