"""What docs/deployment.md shows, with packages installed beside the environment: the service with FastAPI and
uvicorn, the manifests with the schemas of Kubernetes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from tests.project import ROOT
from tests.waiting import PATIENCE_S, ended, eventually
from tests.worlds.shell import Shell
from zkgroup.zookeeper.embedded.server import ReservedPort

PAGE = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")


def get(port: int, path: str) -> Any:
    """The JSON of an answer; None while nobody answers, or with an error."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_S) as answer:
            return json.load(answer)
    except OSError:
        return None


def installed(folder: Path, *packages: str) -> dict[str, str]:
    """The environment of a process that has these packages too."""
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), *packages]
    subprocess.run(command, check=True)
    return {**os.environ, "PYTHONPATH": str(folder)}


def test_the_manifests_are_those_of_kubernetes(tmp_path: Path) -> None:
    """Every key and value is one that its schema has: strictly, as `kubectl apply --validate=strict`."""
    manifests = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    files = [tmp_path / f"{number}.yaml" for number in range(len(manifests))]
    for file, text in zip(files, manifests, strict=True):
        file.write_text(text)
    environment = installed(tmp_path / "packages", "kubernetes-validate")
    command = [sys.executable, "-m", "kubernetes_validate", "--strict", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"passed for resource (\w+)/", done.stdout + done.stderr) == [
        "deployment",
        "service",
        "statefulset",
    ]


def test_a_service_owns_its_share_until_sigterm(zk_server: Any, tmp_path: Path) -> None:
    """It serves requests beside its work; SIGTERM commits what it handled, and leaves the group at once."""
    environment, records = (
        installed(tmp_path / "packages", "fastapi", "uvicorn"),
        tmp_path / "records" / "orders",
    )
    records.mkdir(parents=True)
    (records / "0.log").write_bytes(b"two apples\na pear\n")
    shell = Shell(tmp_path, zk_server.address)
    assert shell.run("topic", "create", "orders", "--partitions", "1").code == 0
    code = re.search(r"^cat > service\.py <<'EOF'\n(.*?)^EOF$", PAGE, re.DOTALL | re.MULTILINE)
    assert code is not None
    ports = ReservedPort(), ReservedPort()
    requests, probes = (one.number for one in ports)
    text = code[1].replace("localhost:2181", zk_server.address).replace("9402", str(probes))
    (tmp_path / "service.py").write_text(text)
    command = [sys.executable, "-m", "uvicorn", "service:app", "--port", str(requests)]
    service = subprocess.Popen(command, cwd=tmp_path, env=environment)
    try:
        eventually(lambda: get(probes, "/readyz"), what="it is ready")
        done = {"handled": ["two apples", "a pear"], "owns": ["orders-0"]}
        eventually(lambda: get(requests, "/orders"), done.__eq__, what="it has handled all records")
        service.send_signal(signal.SIGTERM)
        assert ended(service) in (0, -signal.SIGTERM)  # uvicorn ends by the signal once it has shut down
    finally:
        service.kill()
        service.wait()
        for one in ports:
            one.release()
    group = shell.json("group", "describe", "billing", "--source", "none")
    assert group["members"] == []
    assert [row["offset"] for row in group["partitions"]] == [2]
