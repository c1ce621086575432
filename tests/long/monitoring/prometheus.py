"""Prometheus as Debian has it, where it is installed."""

from __future__ import annotations

import json
import re
import shutil
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.long.interop.processes import Process
from tests.waiting import PATIENCE_S, eventually
from zkgroup.exporter.alerts import rules
from zkgroup.zookeeper.embedded.server import ReservedPort


def program(name: str) -> str:
    """The path of `prometheus` or `promtool`; skips where there is none."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name}: install Debian's package prometheus")
    return found


class Prometheus:
    """A server that scrapes and evaluates rules all the time."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def get(self, path: str, **query: str) -> Any:
        """The data of an answer of its API."""
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of a query."""
        return list(self.get("query", query=expression)["result"])

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        alerts = self.get("alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}


@contextmanager
def alerting(server: Prometheus, *alerts: str) -> Iterator[None]:
    """These fire; the body mends what is wrong, and they end."""
    eventually(server.firing, lambda found: set(alerts) <= found)
    yield
    eventually(server.firing, lambda found: not set(alerts) & found)


@contextmanager
def prometheus(folder: Path, exporter: str, authority: Path | None = None) -> Iterator[Prometheus]:
    """One that scrapes an exporter, by TLS with an authority, and has its rules.

    Alerts fire at once, without the times for which they have to be true.
    """
    file, rules_file, held = folder / "prometheus.yml", folder / "rules.yml", ReservedPort()
    rules_file.write_text(re.sub(r"for: \d+m", "for: 0s", rules()).replace("[5m]", "[5s]"))
    target: dict[str, Any] = {"job_name": "zkgroup", "static_configs": [{"targets": [exporter]}]}
    if authority is not None:
        target |= {"scheme": "https", "tls_config": {"ca_file": str(authority)}}
    config = {
        "global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
        "rule_files": [str(rules_file)],
        "scrape_configs": [target],
    }
    file.write_text(json.dumps(config))
    held.release()
    command = [
        program("prometheus"),
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'series'}",
        f"--web.listen-address=127.0.0.1:{held.number}",
    ]
    process = Process(command, folder / "prometheus.log")
    server = Prometheus(held.number)

    def targets() -> Any:
        assert process.running, process.tail()
        return server.get("targets")

    try:
        eventually(targets, ignoring=(OSError,))
        yield server
    finally:
        process.end()
