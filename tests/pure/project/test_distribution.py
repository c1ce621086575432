"""What the processes of a run share, and when what is shared ends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests import distribution
from tests.distribution import Scheduler


class Fixture:
    """A session fixture that notes its end."""

    def __init__(self, argname: str) -> None:
        self.argname = argname
        self.ends = 0

    def finish(self, request: object) -> None:
        self.ends += 1


def _item(nodeid: str) -> pytest.Item:
    return cast("pytest.Item", SimpleNamespace(nodeid=nodeid, _request=None))


@pytest.mark.parametrize(
    ("here", "following", "ended"),
    [
        ("tests/real/zookeeper/test_a.py::test_b", "tests/real/audit/test_c.py::test_d", []),
        ("tests/real/audit/test_c.py::test_d", "tests/pure/wire/test_e.py::test_f", ["zk_chaos_processes"]),
        ("tests/pure/wire/test_e.py::test_f", "tests/real/audit/test_c.py::test_d", []),
    ],
)
def test_costly_fixtures_end_with_the_last_test_of_their_folders(
    here: str, following: str, ended: list[str]
) -> None:
    """The others end with the run."""
    fixtures = [Fixture(name) for name in ("zk_chaos_processes", "zk_server_process")]

    distribution.end_costly(cast("Any", fixtures), _item(here), _item(following))

    assert [each.argname for each in fixtures if each.ends] == ended


def test_tests_with_ensembles_are_run_by_one_process() -> None:
    """Each process that met one would start the servers anew."""
    scheduler = object.__new__(Scheduler)
    folders = ("real/zookeeper", "real/consumer", "real/audit", "real/conformance")
    folders += ("long/chaos", "long/consumer")
    scopes = {scheduler._split_scope(f"tests/{folder}/test_a.py::test_b") for folder in folders}

    assert len(scopes) == 1
    assert scheduler._split_scope("tests/real/cli/test_a.py::test_b") == "tests/real/cli"
    assert scheduler._split_scope("tests/pure/wire/test_a.py::test_b") == "tests/pure/wire/test_a.py"


def test_the_tests_of_real_kafka_are_run_by_two_processes() -> None:
    """In one they would take longer than all others together take in the rest."""
    scheduler = object.__new__(Scheduler)
    files = ("client_groups", "group_tools", "real_tools", "tools")
    scopes = [scheduler._split_scope(f"tests/long/interop/test_{file}.py::test_a") for file in files]

    assert scopes[0] == scopes[1] != scopes[2] == scopes[3]
