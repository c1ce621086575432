"""The public names: a change here is a change for users."""

from __future__ import annotations

import ast
from importlib import metadata
from pathlib import Path

import pytest

import zkgroup

PUBLIC = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncGroupMember",
    "AsyncRebalanceListener",
    "Blacklist",
    "Bounds",
    "BrokerSource",
    "ChangeResult",
    "ClientSettings",
    "CommitResult",
    "Consumer",
    "FileSource",
    "GroupChange",
    "GroupMember",
    "GroupSettings",
    "HistoryFile",
    "KafkaSource",
    "Lease",
    "MemberState",
    "MemorySource",
    "PlanRequest",
    "RebalanceListener",
    "Record",
    "RecordSource",
    "Sasl",
    "SourceRecord",
    "Tls",
    "TopicPartition",
    "Whitelist",
    "ZooKeeperClient",
    "__version__",
    "assign",
]


def test_public_names_are_these() -> None:
    """The list of public names is fixed; every other name is internal."""
    assert sorted(zkgroup.__all__) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_exists(name: str) -> None:
    """Each public name can be imported from the package and is listed by dir()."""
    assert getattr(zkgroup, name) is not None
    assert name in dir(zkgroup)


def test_type_checkers_see_the_same_names() -> None:
    """Each lazy name is imported under TYPE_CHECKING from the module that the table names."""
    tree = ast.parse(Path(zkgroup.__file__).read_text(encoding="utf-8"))
    imports = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("zkgroup.")
        for alias in node.names
    }

    assert imports == zkgroup._HOMES
    assert {*zkgroup._HOMES, "__version__"} == set(zkgroup.__all__)


def test_version_is_that_of_the_installed_package() -> None:
    """`zkgroup.__version__` equals pip's version; otherwise the installation is older than the code."""
    assert zkgroup.__version__ == metadata.version("zkgroup")


def test_unknown_name_is_an_attribute_error() -> None:
    """A missing name fails as for any module."""
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(zkgroup, "nothing")  # noqa: B009 - a plain access would not type-check
