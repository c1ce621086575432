"""Every operation with every release of Kafka: `python -m tests.long.interop.matrix [--write] [FILE...]`.

Runs the tests of these files, by default all of `FILES`, with all releases, prints the tables, and with
`--write` puts them into `docs/interop.md`, where the other tables stay. Exits as pytest does.
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
FILES = (
    *("test_real_tools.py", "test_operating_brokers.py", "test_served_tools.py"),
    *("test_java_clients.py", "test_librdkafka.py", "test_kafka_python_releases.py"),
    *("test_client_groups.py", "test_group_tools.py", "test_secured_clients.py"),
    "test_clients_without_rights.py",
)

TABLES = {
    "test_served_tools": "Kafka's tools with `--bootstrap-server`, by release, at zkgroup brokers",
    "test_java_clients": "Kafka's Java clients, by release, at zkgroup brokers",
    "test_librdkafka": "librdkafka, by release, at zkgroup brokers",
    "test_kafka_python_releases": "kafka-python, by release, at zkgroup brokers",
    "test_client_groups": "Consumer groups, by client, at zkgroup brokers",
    "test_group_tools": "kafka-consumer-groups and kafka-verifiable-consumer, by release, at zkgroup brokers",
    "test_secured_clients": "Clients that prove who they are: each creates a topic, sends, reads in a group",
    "test_clients_without_rights": "Clients with too few rights: each tells its user what it may not",
    "ours": "Kafka's tools with `--zookeeper`, by release, at zkgroup brokers",
    "0.8.2.2": "Kafka's tools, by release, at Kafka 0.8.2.2 brokers that a zkgroup controller leads",
    "": "zkgroup's commands at Kafka brokers with their own controller, by the brokers' release",
}
"""By whose brokers they are, or by the file of the tests."""

RELEASE = (
    *("tools", "operated", "java_client", "librdkafka", "kafka_python", "group", "group_tools"),
    *("secured", "refusal"),
)
"""The parameter of a test that is a release of Kafka, or names the clients of a group."""
Place = tuple[str, str, str]
"""Table, operation, release."""


class Outcomes:
    """A plugin of pytest that collects the outcome of each operation."""

    def __init__(self) -> None:
        self.places: dict[str, Place] = {}
        self.found: dict[Place, str] = {}

    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        for item in items:
            assert isinstance(item, pytest.Function)
            params = item.callspec.params
            release = next(_release(name, str(params[name])) for name in RELEASE if name in params)
            file = item.path.stem
            kind = file if file in TABLES else str(params.get("led", ""))
            self.places[item.nodeid] = (kind, operation(item.originalname), release)

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


def _release(name: str, value: str) -> str:
    """The value of a parameter as a release."""
    from tests.long.interop import test_kafka_python_releases, test_librdkafka

    programs = {"librdkafka": test_librdkafka, "kafka_python": test_kafka_python_releases}
    return programs[name].version_of(value) if name in programs else value.partition(":")[0]


def merged(found: str, page: str) -> str:
    """The tables that were found, and those of the page for the other titles, in the order of `TABLES`."""
    by_title = {
        table.partition(" |")[0]: table for text in (page, found) for table in text.strip().split("\n\n")
    }
    titles = [f"| {title}" for title in TABLES.values()]
    return "\n\n".join(by_title[title] for title in titles if title in by_title) + "\n"


def tables(found: dict[Place, str]) -> Iterator[str]:
    """The lines of the tables of what was run; a dash where a release has no such tool or option."""
    for kind, title in TABLES.items():
        if not any(of == kind for of, _, _ in found):
            continue
        releases = sorted({release for of, _, release in found if of == kind})
        operations = dict.fromkeys(name for of, name, _ in found if of == kind)
        yield from (f"| {title} | {' | '.join(releases)} |", f"| --- |{' --- |' * len(releases)}")
        for name in sorted(operations):
            yield f"| {name} | {' | '.join(found.get((kind, name, one), '-') for one in releases)} |"
        yield ""


def main() -> None:
    outcomes = Outcomes()
    files = [word for word in sys.argv[1:] if word != "--write"] or FILES
    words = ["-q", "-p", "no:cacheprovider", *(str(Path(__file__).parent / name) for name in files)]
    code = int(pytest.main(words, plugins=[outcomes]))
    text = "\n".join(tables(outcomes.found))
    print(text)
    if "--write" in sys.argv[1:]:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        old, _, behind = rest.partition(END)
        PAGE.write_text(f"{before}{BEGIN}\n{merged(text, old)}\n{END}{behind}", encoding="utf-8")
    sys.exit(code)


if __name__ == "__main__":
    os.environ.update(ZKGROUP_INTEROP_RELEASES="all", ZKGROUP_TEST_INTEROP="required")
    main()
