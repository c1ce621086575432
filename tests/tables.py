"""Tests of a table: in a run of several processes the cases of such a test are one item.

An item costs more than many cases: its fixtures, the search for what it left behind, and three reports to the
process that started this one. A case that needs nothing but its values needs none of that for itself. Where
files are named, and with `-n 0`, each case is an item with a name of its own; so it is in `tests/long`, whose
items are spread one by one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

_SPREAD = "tests/long/"
_EVERY_TEST = {"_leaves_nothing_behind", "preforked", "request"}
"""Fixtures that a test has without asking for them, and that are as good around all cases of a table."""


class Tables:
    """A pytest plugin of the processes that another one started."""

    @pytest.hookimpl(trylast=True, wrapper=True)
    def pytest_pycollect_makeitem(self, collector: Any, name: str, obj: object) -> Any:
        """Puts one item in the place of a table's cases."""
        collected = yield
        if not isinstance(collected, list) or len(collected) < 2 or collector.nodeid.startswith(_SPREAD):
            return collected
        if not all(map(_needs_only_values, collected)):
            return collected
        return [Table.from_parent(collector, name=name, callobj=_run_of(collected))]


class Table(pytest.Function):
    """All cases of one parametrized test."""

    def reportinfo(self) -> tuple[str, int, str]:
        """Where the test is, not where its cases are run."""
        test = self.obj.test
        return test.__code__.co_filename, test.__code__.co_firstlineno - 1, self.name


def _needs_only_values(item: pytest.Item) -> bool:
    """Whether it asks for no fixture, and its case has no mark of its own."""
    if not isinstance(item, pytest.Function) or item.cls is not None:
        return False
    if hasattr(item.obj, "is_hypothesis_test"):  # Hypothesis counts examples by item
        return False
    if len(item.own_markers) > len(getattr(item.obj, "pytestmark", ())):  # a case has marks of its own
        return False
    marks = list(item.iter_markers("parametrize"))
    if any(mark.kwargs.get("indirect") or len(mark.args) > 2 for mark in marks):
        return False
    values = {name for mark in marks for name in _names(mark.args[0])}
    if not values >= {*inspect.signature(item.obj).parameters, *item.callspec.params}:
        return False
    return values | _EVERY_TEST >= {*item.fixturenames}


def _names(names: str | Sequence[str]) -> list[str]:
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def _run_of(items: Sequence[pytest.Function]) -> Callable[[], None]:
    """A test that runs these cases."""
    test = items[0].obj

    def whole_table() -> None:
        run_table({each.callspec.id: partial(test, **each.callspec.params) for each in items})

    whole_table.__doc__ = test.__doc__
    whole_table.__module__ = test.__module__
    whole_table.__dict__["test"] = test
    whole_table.__dict__["pytestmark"] = [mark for mark in test.pytestmark if mark.name != "parametrize"]
    return whole_table


def run_table(cases: dict[str, Callable[[], object]]) -> None:
    """Runs all cases, also after one has failed, and raises what they raised, with the name of each.

    Skipped if all were.
    """
    failed: list[BaseException] = []
    skipped: list[BaseException] = []
    for name, case in cases.items():
        try:
            case()
        except pytest.skip.Exception as error:
            skipped.append(error)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - raised below
            error.add_note(f"in the case [{name}]")
            failed.append(error)
    if len(failed) > 1:
        raise BaseExceptionGroup(f"{len(failed)} of {len(cases)} cases", failed)
    for error in failed or (skipped if len(skipped) == len(cases) else ()):
        raise error
