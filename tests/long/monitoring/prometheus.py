"""Prometheus as Debian has it, where it is installed."""

from __future__ import annotations

import json
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

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        alerts = self.get("alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}


@contextmanager
def prometheus(folder: Path, config: str) -> Iterator[Prometheus]:
    """One that runs with this configuration."""
    file, held = folder / "prometheus.yml", ReservedPort()
    file.write_text(config)
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
