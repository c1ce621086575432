"""Where the project's own files are, for tests that look at the project itself."""

from __future__ import annotations

import ast
import configparser
import functools
import gc
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@functools.cache
def setup_cfg() -> configparser.ConfigParser:
    """The project's one configuration file."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def python_files(*folders: str) -> list[Path]:
    """Every Python file below these folders, sorted."""
    return sorted(
        file
        for folder in folders
        for file in (ROOT / folder).rglob("*.py")
        if "__pycache__" not in file.parts
    )


@functools.cache
def walked(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All nodes of the tree, kept for all the rules: a walk takes longer than the parser."""
    return tuple(ast.walk(tree))


@functools.cache
def parsed(file: Path) -> ast.Module:
    """Its syntax tree, made once for all the rules that read it.

    All trees are two million objects that stay: to search them for garbage takes three times as long as to
    make them.
    """
    text = file.read_text(encoding="utf-8")
    gc.disable()
    try:
        return ast.parse(text, filename=str(file))
    finally:
        gc.freeze()
        gc.enable()


def package_folders() -> Iterator[tuple[str, Path]]:
    """Import name and folder of every package that is shipped."""
    for top, name in (("zkgroup", "zkgroup"), ("cli", "zkgroup_cli")):
        for init in sorted((ROOT / top).rglob("__init__.py")):
            parts = init.parent.relative_to(ROOT / top).parts
            yield ".".join((name, *parts)), init.parent
