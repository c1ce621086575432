"""The units and manifests of docs/deployment.md: what they start answers probes, and notifies systemd."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.project import ROOT
from tests.waiting import PATIENCE_S, becomes, eventually, next_like
from tests.worlds.processes import Process
from tests.worlds.service_manager import service_manager
from tests.worlds.shell import Shell

yaml = pytest.importorskip("yaml", reason="comes with the extra dev")

PAGE = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def units() -> dict[str, str]:
    """The units by their file names."""
    return {re.search(r"([\w-]+\.service)\n", text)[1]: text for text in blocks("ini")}  # type: ignore[index]


def workloads() -> list[dict[str, Any]]:
    """The documents of the manifests that have pods."""
    documents = (one for text in blocks("yaml") for one in yaml.safe_load_all(text))
    return [one for one in documents if "template" in one["spec"]]


def here(words: Sequence[str], folder: Path) -> list[str]:
    """The arguments of a unit or a manifest for this machine: loopback, free ports, an own folder, and
    no records, so that a member waits for no broker."""
    config = folder / "broker.properties"
    config.touch()
    line = shlex.join(words).replace("$(POD_NAME).broker", "127.0.0.1")
    for found, own in (
        (r" (--port|--metrics-port)[= ]\d+", r" \1=0"),
        (r" --(metrics-)?host=0\.0\.0\.0", r" --\1host=127.0.0.1"),
        (r" --data[= ]\S+", f" --data={folder / 'data'}"),
        (r" --source[= ]brokers", " --source=none"),
        (r" --config \S+", f" --config={config}"),
        (r"^-z \S+ ", ""),
    ):
        line = re.sub(found, own, line)
    return shlex.split(line.replace("'", ""))


def get(process: Process, path: str) -> int:
    url = eventually(lambda: re.search(r"serving (\S+)/metrics", process.errors), what="its address")[1]  # type: ignore[index]
    try:
        with urllib.request.urlopen(url + path, timeout=PATIENCE_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize("document", workloads(), ids=lambda one: one["kind"])
def test_a_pod_answers_its_probes(document: Mapping[str, Any], shell: Shell, tmp_path: Path) -> None:
    """With 200 once it does its work; SIGTERM ends it cleanly. Below systemd it says the same by notices."""
    (container,) = document["spec"]["template"]["spec"]["containers"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert f"--metrics-port={ports['metrics']}" in container["args"]
    shell.run("topic", "create", "orders", "--partitions", "2")
    with service_manager(str(tmp_path / "notify")) as notices:
        shell.environment |= {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "20000"}
        with shell.start(*here(container["args"], tmp_path)) as process:
            ready = next_like(notices, lambda found: "READY=1" in found)
            assert ready[-1] == "WATCHDOG=1"
            for name in ("readinessProbe", "livenessProbe"):
                probe = container[name]["httpGet"]
                assert probe["port"] == "metrics"
                becomes(lambda path=probe["path"]: get(process, path), 200)  # type: ignore[misc]
            assert get(process, "/metrics") == 200
            next_like(notices, ["WATCHDOG=1"].__eq__)
            assert process.stop() == 0
        next_like(notices, lambda found: "STOPPING=1" in found)


@pytest.mark.parametrize("name", units())
def test_a_unit_starts_what_can_be_started(name: str, shell: Shell, tmp_path: Path) -> None:
    """Its command has no wrong option."""
    command = re.search(r"^ExecStart=\S+ (.*)$", units()[name], re.MULTILINE)
    assert command is not None

    ran = shell.run(*here(shlex.split(command[1]), tmp_path), "--dry-run")

    assert (ran.code, "would " in ran.err) == (0, True), ran


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_finds_no_fault_in_the_units(tmp_path: Path) -> None:
    """Of their sections, names and values; only the command is one that this machine has."""
    for name, text in units().items():
        (tmp_path / name).write_text(re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={sys.executable}", text))
    command = ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / name) for name in units())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert [line for line in done.stderr.splitlines() if str(tmp_path) in line or ".service" in line] == []
