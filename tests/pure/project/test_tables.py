"""Tests of a table are one item where that spares something: what they show, and whose cases stay apart."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from tests.tables import Tables, run_table


def fails() -> None:
    raise ValueError("wrong")


def skips() -> None:
    pytest.skip("without the kernel")


class Collection:
    """What is collected of a function in this file."""

    def __init__(self, request: pytest.FixtureRequest, patches: pytest.MonkeyPatch) -> None:
        self._module = request.node.parent
        self._hook = request.config.hook.pytest_pycollect_makeitem
        self._patches = patches

    def of(self, function: Callable[..., None]) -> list[pytest.Item]:
        """Its items."""
        self._patches.setattr(sys.modules[__name__], "test_it", function, raising=False)
        made = self._hook(collector=self._module, name="test_it", obj=function)
        tables = Tables().pytest_pycollect_makeitem(self._module, "test_it", function)
        next(tables)
        with pytest.raises(StopIteration) as end:
            tables.send(made)
        items: list[pytest.Item] = end.value.value
        return items


@pytest.fixture
def collection(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Collection:
    return Collection(request, monkeypatch)


def test_cases_of_values_are_one_item(collection: Collection) -> None:
    """It runs all of them, and keeps its other marks and its docstring."""
    seen = []

    @pytest.mark.timeout(900)
    @pytest.mark.parametrize("second", "xy")
    @pytest.mark.parametrize(("first", "unused"), [(1, None), (2, None)])
    def test_it(first: int, unused: None, second: str) -> None:
        """What it shows."""
        seen.append((first, second))

    (item,) = collection.of(test_it)
    assert isinstance(item, pytest.Function)
    item.obj()

    assert sorted(seen) == [(1, "x"), (1, "y"), (2, "x"), (2, "y")]
    assert (item.name, item.obj.__doc__) == ("test_it", "What it shows.")
    assert [mark.name for mark in item.iter_markers()] == ["timeout"]
    assert item.location[2] == "test_it"


def test_cases_that_need_more_stay_apart(collection: Collection) -> None:
    """A fixture of a test's own, the request, a mark of one case."""

    @pytest.mark.parametrize("value", "xy")
    def with_fixture(value: str, tmp_path: object) -> None: ...

    @pytest.mark.parametrize("value", "xy")
    def with_request(value: str, request: object) -> None: ...

    @pytest.mark.parametrize("value", ["x", pytest.param("y", marks=pytest.mark.xfail)])
    def with_mark(value: str) -> None: ...

    @pytest.mark.parametrize("tmp_path", "xy", indirect=True)
    def indirect(tmp_path: object) -> None: ...

    for function in (with_fixture, with_request, with_mark, indirect):
        assert len(collection.of(function)) == 2, function


def test_a_case_that_fails_is_named_and_the_others_run() -> None:
    """One error is raised as it is, several as a group."""
    ran: list[int] = []
    with pytest.raises(ValueError, match="wrong") as one:
        run_table({"a-1": fails, "b-2": lambda: ran.append(2)})
    assert one.value.__notes__ == ["in the case [a-1]"]
    assert ran == [2]

    with pytest.raises(BaseExceptionGroup, match="2 of 3 cases") as several:
        run_table({"a-1": fails, "b-2": lambda: ran.append(2), "c-3": lambda: pytest.fail("no")})
    assert [each.__notes__ for each in several.value.exceptions] == [
        ["in the case [a-1]"],
        ["in the case [c-3]"],
    ]


def test_a_table_is_skipped_where_all_of_its_cases_are() -> None:
    """Otherwise it passes or fails by the others."""
    with pytest.raises(pytest.skip.Exception):
        run_table({"a": skips, "b": skips})
    run_table({"a": skips, "b": lambda: None})
