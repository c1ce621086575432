"""Where the project's own files are, for tests that look at the project itself."""

from __future__ import annotations

import ast
import configparser
import functools
import gc
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@functools.cache
def setup_cfg() -> configparser.ConfigParser:
    """The project's one configuration file."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


@functools.cache
def tracked_files(root: Path = ROOT) -> tuple[Path, ...]:
    """The files that git tracks in the checkout at `root`; none if there is no git, or no checkout."""
    try:
        done = subprocess.run(
            ["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ()
    return tuple(sorted(file for name in done.stdout.split("\0") if name and (file := root / name).is_file()))


def files_below(*folders: str, ending: str = "") -> list[Path]:
    """The project's files below these folders whose names end so, sorted.

    In an unpacked archive, which has no git, all files that are there belong to the project.
    """
    roots = [ROOT / folder for folder in folders]
    return [
        file
        for file in tracked_files()
        or sorted(each for root in roots for each in root.rglob("*") if each.is_file())
        if file.name.endswith(ending) and any(file.is_relative_to(root) for root in roots)
    ]


def python_files(*folders: str) -> list[Path]:
    """The project's Python files below these folders, sorted."""
    return files_below(*folders, ending=".py")


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
        for init in files_below(top, ending="__init__.py"):
            parts = init.parent.relative_to(ROOT / top).parts
            yield ".".join((name, *parts)), init.parent
