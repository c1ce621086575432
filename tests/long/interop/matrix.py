"""Every operation with every release of Kafka: `python -m tests.long.interop.matrix [--write]`.

Runs the tests of `test_real_tools.py` and `test_operating_brokers.py` with all releases, prints a table for
each kind of cluster, and with `--write` puts them into `docs/interop.md`. Exits as pytest does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.project import ROOT

PAGE = ROOT / "docs" / "interop.md"
BEGIN = "<!-- Written by `python -m tests.long.interop.matrix --write`. -->\n"
END = "<!-- Until here. -->\n"
FILES = ("test_real_tools.py", "test_operating_brokers.py")

TABLES = {
    "ours": "Kafka's tools, by release, at zkgroup brokers",
    "0.8.2.2": "Kafka's tools, by release, at Kafka 0.8.2.2 brokers that a zkgroup controller leads",
    "": "zkgroup's commands at Kafka brokers with their own controller, by the brokers' release",
}
"""By whose brokers they are."""

Place = tuple[str, str, str]
"""Whose brokers, operation, release."""


class Outcomes:
    """A plugin of pytest that collects the outcome of each operation."""

    def __init__(self) -> None:
        self.places: dict[str, Place] = {}
        self.found: dict[Place, str] = {}

    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        for item in items:
            assert isinstance(item, pytest.Function)
            params = item.callspec.params
            release = str(params["tools"] if "tools" in params else params["operated"])
            self.places[item.nodeid] = (str(params.get("led", "")), operation(item.originalname), release)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        place = self.places[report.nodeid]
        if report.failed:
            self.found[place] = "fails"
        elif report.skipped:
            self.found[place] = "not run"
        else:
            self.found.setdefault(place, "yes")


def operation(test: str) -> str:
    """The operation that a test shows, from its name."""
    return test.removeprefix("test_").replace("_", " ")


def tables(found: dict[Place, str]) -> Iterator[str]:
    """The lines of all tables; a dash where a release has no such tool or option."""
    for kind, title in TABLES.items():
        releases = sorted({release for of, _, release in found if of == kind})
        operations = dict.fromkeys(name for of, name, _ in found if of == kind)
        yield from (f"| {title} | {' | '.join(releases)} |", f"| --- |{' --- |' * len(releases)}")
        for name in sorted(operations):
            yield f"| {name} | {' | '.join(found.get((kind, name, one), '-') for one in releases)} |"
        yield ""


def main() -> None:
    outcomes = Outcomes()
    words = ["-q", "-p", "no:cacheprovider", *(str(Path(__file__).parent / name) for name in FILES)]
    code = int(pytest.main(words, plugins=[outcomes]))
    text = "\n".join(tables(outcomes.found))
    print(text)
    if "--write" in sys.argv[1:]:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    sys.exit(code)


if __name__ == "__main__":
    os.environ.update(ZKGROUP_INTEROP_RELEASES="all", ZKGROUP_TEST_INTEROP="required")
    main()
