"""The public names: a change here is a change for users."""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module, metadata

import pytest

import zkgroup
from docs.tools import library_pages
from tests.project import ROOT, files_below
from zkgroup.exports import homes

LAZY = ("admin", "broker", "metrics", "testing")

PUBLIC = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncGroupMember",
    "AsyncRebalanceListener",
    "Blacklist",
    "ClientSettings",
    "CommitResult",
    "Consumer",
    "FileSource",
    "GroupMember",
    "GroupSettings",
    "KafkaSource",
    "Lease",
    "RebalanceListener",
    "Record",
    "RecordSource",
    "TopicPartition",
    "Whitelist",
    "ZooKeeperClient",
    "__version__",
    "assign",
]


def test_public_names_are_these() -> None:
    """The list of public names is fixed; every other name is internal."""
    assert sorted(zkgroup.__all__) == PUBLIC


def test_public_name_exists() -> None:
    """Each public name can be imported from the package and is listed by dir()."""
    assert [name for name in PUBLIC if getattr(zkgroup, name, None) is None] == []
    assert [name for name in PUBLIC if name not in dir(zkgroup)] == []


def test_names_are_few() -> None:
    """What is public is promised; and no name is public twice."""
    listed = [
        (name, module)
        for modules in library_pages.PAGES.values()
        for module in (*modules, *library_pages.WITH_OWN_PAGE)
        for name in library_pages.public_names(module)
    ]
    names = [name for name, _ in set(listed)]

    assert len(names) <= 197
    assert {name for name, times in Counter(names).items() if times > 1} == {"Broker", "Target"}


@pytest.mark.parametrize("package", ["zkgroup", *(f"zkgroup.{name}" for name in LAZY)])
def test_each_name_of_a_stub_is_where_the_stub_says(package: str) -> None:
    """It is defined there, and the package gives it, lists it and names it in `dir()`."""
    loaded = import_module(package)

    for name, home in homes(package).items():
        assert getattr(loaded, name) is getattr(import_module(home), name), name
    assert {*homes(package)} <= {*loaded.__all__} <= {*dir(loaded)}


def _public_modules(text: str) -> dict[str, str]:
    """Module to its public names, as a row of the table in `text` has them."""
    rows = re.findall(r"^\| (`zkgroup[^|]*) \| ([^|]+) \|$", text, re.MULTILINE)
    return {module: names for modules, names in rows for module in re.findall(r"`([^`]+)`", modules)}


def test_the_page_and_the_package_list_the_same_public_modules() -> None:
    """Each row of the table can be imported, with the names in it."""
    of_package = _public_modules(str(zkgroup.__doc__))

    assert _public_modules((ROOT / "docs" / "library.md").read_text(encoding="utf-8")) == of_package
    for module, names in of_package.items():
        if module != "zkgroup.audit.spark.sources":  # needs pyspark
            loaded = import_module(module)
            assert [
                name for name in re.findall(r"`([A-Z]\w+|__all__)`", names) if not hasattr(loaded, name)
            ] == []


def test_examples_of_the_pages_use_public_names() -> None:
    """contributing.md shows files of the package itself."""
    public = _public_modules(str(zkgroup.__doc__))
    pages = [ROOT / "README.md", *files_below("docs", ending=".md")]
    wrong = [
        f"{page.name}: {module} {name}"
        for page in pages
        if page.name != "contributing.md"
        for module, names in re.findall(
            r"^from (zkgroup[\w.]*) import (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE
        )
        for name in names.split(", ")
        if not _is_public(module, name, public)
    ]

    assert wrong == []


def _is_public(module: str, name: str, public: dict[str, str]) -> bool:
    names = public.get(module, "")
    if "`__all__`" in names:
        listed: list[str] = import_module(module).__all__
        return name in listed
    return names.startswith("all errors") or f"`{name}`" in names


def test_version_is_that_of_the_installed_package() -> None:
    """`zkgroup.__version__` equals pip's version; otherwise the installation is older than the code."""
    assert zkgroup.__version__ == metadata.version("zkgroup")


def test_unknown_name_is_an_attribute_error() -> None:
    """A missing name fails as for any module."""
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(zkgroup, "nothing")  # noqa: B009 - a plain access would not type-check
