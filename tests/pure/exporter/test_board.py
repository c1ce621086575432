"""The board and the alert rules: what they name exists. Prometheus itself reads them in `tests/long`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from prometheus_client.parser import text_string_to_metric_families
from zkgroup_cli.app import root

from tests.project import ROOT
from tests.worlds.shell import Shell
from zkgroup.exporter.alerts import ALERTS, rules
from zkgroup.exporter.board import BOARD, dashboard

SCRAPED = {"job", "instance"}
"""Labels that Prometheus adds."""
QUERIES = [query for panels in BOARD.values() for panel in panels for query in panel.queries.values()]


def metrics_of(query: str) -> set[str]:
    return set(re.findall(r"\bzkgroup_\w+", query))


def labels_of(query: str) -> Iterator[str]:
    for chosen in re.findall(r"\{([^}]*)\}", query):
        yield from re.findall(r"(\w+)\s*=", chosen)
    for named in re.findall(r"\b(?:by|on|without) \(([^)]*)\)", query):
        yield from named.split(", ")


def test_they_name_metrics_and_labels_that_the_exporter_has(everything: bytes) -> None:
    """And no metric is on neither."""
    labels: Mapping[str, set[str]] = {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(everything.decode())
        for sample in family.samples
    }
    told: dict[str, list[str]] = {alert.expression: [alert.summary, alert.command] for alert in ALERTS}
    for panel in (one for panels in BOARD.values() for one in panels):
        for legend, query in panel.queries.items():
            told[query] = [re.sub(r"\{\{(\w+)\}\}", r"$labels.\1", legend)]
    for query, texts in told.items():
        assert metrics_of(query) <= labels.keys(), query
        own = SCRAPED.union(*(labels[name] for name in metrics_of(query)))
        assert set(labels_of(query)) <= own, query
        named = {name for text in texts for name in re.findall(r"\$labels\.(\w+)", text)}
        for how, chosen in re.findall(r"\b(by|without) \(([^)]*)\)", query):
            own = own & set(chosen.split(", ")) if how == "by" else own - set(chosen.split(", "))
        assert named <= own, (query, texts)
    assert set().union(*map(metrics_of, told)) == labels.keys()


def test_an_alert_names_the_next_command() -> None:
    """One that there is. The page lists the alerts, with time and severity."""
    for alert in ALERTS:
        command: click.Command | None = root
        for word in alert.command.split()[1:]:
            if isinstance(command, click.Group):
                command = command.get_command(click.Context(command), word)
        assert command is not None, alert.command
    page = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(Zkgroup\w+)` \| .* \| (\w+) \| (\w+) \|$", page, re.MULTILINE)
    assert rows == [(alert.name, alert.lasts, alert.severity) for alert in ALERTS]


def test_panels_have_places_of_their_own() -> None:
    """On 24 columns; each row and panel has an id."""
    board = json.loads(dashboard())
    cells = [
        (x, y)
        for panel in board["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    assert [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())] == QUERIES


def test_both_are_printed_without_an_ensemble(tmp_path: Path) -> None:
    """One at a time."""
    shell = Shell(tmp_path, None)
    assert shell.run("exporter", "--rules").out == rules()
    assert shell.run("exporter", "--dashboard").out == dashboard()
    both = shell.run("exporter", "--rules", "--dashboard")
    assert (both.code, "found both" in both.err) == (2, True)
