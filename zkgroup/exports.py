"""Names of a package that are loaded when first used (PEP 562); its `__init__.pyi` is their only list."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module


def homes(package: str) -> dict[str, str]:
    """Public name to the module that defines it: the stub's lines `from MODULE import NAME as NAME`."""
    module = sys.modules[package]
    assert module.__spec__ is not None
    loader = module.__spec__.loader
    stub = loader.get_data(f"{module.__path__[0]}/__init__.pyi").decode()  # type: ignore[union-attr]  # all have it
    words = [line.split() for line in stub.splitlines() if line.startswith("from ")]
    return {name: home for _, home, _, name, *_ in words}


def lazy(package: str, *more: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package; `more`: public names that it has already."""
    known = homes(package)
    loaded = vars(sys.modules[package])

    def get(name: str) -> object:
        if name not in known:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        loaded[name] = getattr(import_module(known[name]), name)
        return loaded[name]

    public = sorted({*known, *more})
    return get, lambda: sorted({*loaded, *public}), public
