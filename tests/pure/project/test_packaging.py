"""What `pip install .` installs."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.project import (
    ROOT,
    files_below,
    package_folders,
    python_files,
    setup_cfg,
    tracked_files,
)

FIXED_TOP_LEVEL = {
    *("setup.cfg", "zkgroup", "cli", "tests", "docker-compose.yml", "docs", "README.md"),
    *("pyproject.toml", ".ci", "LICENSE", "CHANGELOG.md", ".gitignore", ".git-blame-ignore-revs"),
}


def test_package_list_names_every_folder_and_nothing_else() -> None:
    """setup.cfg lists each package, since no automatic search can express the folder cli."""
    listed = setup_cfg()["options"]["packages"].split()

    assert sorted(listed) == sorted(name for name, _ in package_folders())


def test_every_folder_with_python_files_is_a_package() -> None:
    """A folder without `__init__.py` would be missing from the wheel without any warning."""
    packages = {folder for _, folder in package_folders()}
    folders = {file.parent for file in python_files("zkgroup", "cli")}

    assert sorted(folders - packages) == []


def test_the_script_starts_where_an_interruption_is_waited_for() -> None:
    """`zkgroup_cli.entry` imports no zkgroup module before it handles SIGINT."""
    scripts = setup_cfg()["options.entry_points"]["console_scripts"].split("\n")

    assert [line for line in scripts if line] == ["zkgroup = zkgroup_cli.entry:main"]


def test_core_install_needs_four_packages() -> None:
    """Every package except kazoo, tenacity, click and rich is an extra."""
    lines = setup_cfg()["options"]["install_requires"].split("\n")

    names = {re.split(r"[ <>=~]", line)[0] for line in lines if line}

    assert names == {"kazoo", "tenacity", "click", "rich"}


def test_extras_are_those_documented() -> None:
    """The names of the extras are public."""
    assert set(setup_cfg()["options.extras_require"]) == {
        *("kafka", "embedded", "audit", "spark", "metrics", "sasl", "broker", "security", "oauth"),
        *("all", "test", "dev"),
    }


def test_no_page_installs_from_an_index_what_is_not_released() -> None:
    """Where zkgroup is installed, pip finds its extras by this name: errors and the reference may say it."""
    pages = [
        ROOT / "README.md",
        *(page for page in files_below("docs", ending=".md") if "reference" not in page.parts),
    ]
    install = re.compile(r"pip install [^\n`&|]*(?<![/.\w])zkgroup\b")

    assert [page.name for page in pages if install.search(page.read_text("utf-8"))] == []


def test_pyproject_holds_what_setup_cfg_cannot() -> None:
    """One configuration file: the build system, ruff, and the extension, which needs a bare project table."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text())

    assert set(content) == {"build-system", "project", "tool"}
    assert set(content["project"]) == {"name", "dynamic"}
    assert set(content["tool"]) == {"ruff", "setuptools"}


def test_each_c_file_is_an_extension_without_which_the_install_goes_on() -> None:
    """Named by its place, with a stub, within the stable interface of the oldest Python."""
    modules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
    sources = sorted(path.relative_to(ROOT).as_posix() for path in files_below("zkgroup", ending=".c"))

    assert sources == sorted(source for module in modules for source in module["sources"])
    for module in modules:
        (source,) = module["sources"]
        assert module["name"] == source.removesuffix(".c").replace("/", ".")
        assert (ROOT / source).with_suffix(".pyi").exists()
        assert module["optional"] is True
        assert module["py-limited-api"] is True
        assert module["define-macros"] == [["Py_LIMITED_API", "0x030B0000"]]
    assert setup_cfg()["bdist_wheel"]["py_limited_api"] == "cp311"
    assert "**/*.pyi" in setup_cfg()["options.package_data"]["*"]


def test_a_stray_file_does_not_belong_to_the_project(tmp_path: Path) -> None:
    """Only what git tracks does, so a note or a log beside it fails no test."""
    for name in ("stray.py", "tracked.py", "gone.py"):
        (tmp_path / name).touch()
    for command in ("init -q", "add tracked.py gone.py"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    (tmp_path / "gone.py").unlink()

    assert tracked_files(tmp_path) == (tmp_path / "tracked.py",)


@pytest.mark.skipif(not tracked_files(), reason="only git knows which files belong to the project")
def test_top_level_is_fixed() -> None:
    """The tracked top-level names are a closed set: the project's first page does not grow by accident."""
    found = {file.relative_to(ROOT).parts[0] for file in tracked_files()}

    assert found <= FIXED_TOP_LEVEL, sorted(found - FIXED_TOP_LEVEL)
