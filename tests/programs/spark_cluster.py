"""Runs the job on a standalone cluster of Spark with two workers, by `--master` and by `spark-submit`.

    python -m tests.programs.spark_cluster

Master and workers are processes from pyspark itself, on loopback; the results must equal those of `local[*]`.
It takes some minutes, so it is run by hand. Do not edit the tree meanwhile: each process imports it anew.
Exit code 3 where the results differ.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.waiting import eventually
from tests.worlds.audit_folders import HEALTHY, INCIDENTS, folder
from tests.worlds.cut_histories import cuts_of, history_of, write_series

_HOST = "127.0.0.1"
_WORKERS = 2
_JOB_S = 3600.0
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_DEFAULTS = {
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.executor.extraJavaOptions": _JAVA,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "4",
}
"""Little data: what is compiled for it costs more than it gives."""


def main() -> int:
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # ends the cluster, too
    with tempfile.TemporaryDirectory(prefix="zkgroup-spark-") as name, ExitStack() as stack:
        place = Path(name)
        defaults = [f"{key} {value}\n" for key, value in _DEFAULTS.items()]
        (place / "spark-defaults.conf").write_text("".join(defaults))
        world = history_of(5)
        write_series(place / "series", world, cuts_of(5, world, 14), random.Random(5))
        url = stack.enter_context(_cluster(place))
        ways = {
            "local[*]": [sys.executable, "-m", "zkgroup_cli.commands.audit.submit", "--master", "local[*]"],
            "--master": [sys.executable, "-m", "zkgroup_cli.commands.audit.submit", "--master", url],
            "spark-submit": [str(_home() / "bin" / "spark-submit"), "--master", url, _submit()],
        }
        answers = {}
        for way, command in ways.items():
            started = time.monotonic()
            answers[way] = _answer(command, place / way.strip("-[*]"), place)
            count = len(answers[way]["findings"])
            print(f"{way}: {count} findings in {time.monotonic() - started:.0f} s", flush=True)
    expected = answers["local[*]"]
    for way, answer in answers.items():
        for line in _differences(expected, answer):
            print(f"{way}: {line}")
    same = all(answer == expected for answer in answers.values())
    print("all the same" if same else "they differ")
    return 0 if same and expected["findings"] else 3


def _differences(expected: Any, found: Any) -> Iterator[str]:
    """The differences: every field of every finding, and of each ensemble's facts."""
    for name in sorted(expected.keys() | found.keys()):
        ours, theirs = (_lines(each.get(name)) for each in (expected, found))
        yield from (f"{name}: not found: {line}" for line in (ours - theirs).elements())
        yield from (f"{name}: not expected: {line}" for line in (theirs - ours).elements())


def _lines(value: Any) -> Counter[str]:
    return Counter(
        json.dumps(each, sort_keys=True) for each in (value if isinstance(value, list) else [value])
    )


def _answer(command: Sequence[str], output: Path, place: Path) -> Any:
    inputs = [word for name in (*HEALTHY, INCIDENTS) for word in ("--input", f"{name}={folder(name)}")]
    inputs += ["--input", f"series={place}/series/*"]
    program, *options = command
    if options[-2:-1] == ["--master"]:
        words = [program, *options[:-2], "audit", "run", *options[-2:], *inputs]
    else:
        words = [program, *options, "audit", "run", *inputs]
    ended = subprocess.run(
        [*words, "--output", str(output)],
        env=_environment(place),
        capture_output=True,
        text=True,
        timeout=_JOB_S,
        check=False,
    )
    if ended.returncode != 3:  # the incidents are errors
        print(ended.stdout, ended.stderr, file=sys.stderr)
        raise SystemExit(f"expected exit code 3, found {ended.returncode}: {' '.join(words)}")
    return json.loads((output / "findings.json").read_text())


@contextmanager
def _cluster(place: Path) -> Iterator[str]:
    with ExitStack() as stack:
        log = place / "master.log"
        stack.enter_context(_process("master.Master", log, place, "--port", "0", "--webui-port", "0"))
        url = _line_with(log, "Starting Spark master at ").rpartition(" at ")[2].strip()
        for number in range(_WORKERS):
            stack.enter_context(
                _process(
                    "worker.Worker",
                    place / f"worker-{number}.log",
                    place,
                    *("--cores", "1", "--memory", "1g", "--webui-port", "0"),
                    *("--work-dir", str(place / f"work-{number}"), url),
                )
            )
        for number in range(_WORKERS):
            _line_with(place / f"worker-{number}.log", "Successfully registered with master")
        yield url


@contextmanager
def _process(name: str, log: Path, place: Path, *words: str) -> Iterator[None]:
    command = [str(_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", _HOST]
    with log.open("w") as file:
        process = subprocess.Popen(
            [*command, *words], env=_environment(place), stdout=file, stderr=subprocess.STDOUT
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def _line_with(log: Path, text: str) -> str:
    def found() -> list[str]:
        return [line for line in log.read_text().splitlines() if text in line]

    return eventually(found, what=lambda: f"{log.name}: a line with {text!r}, in:\n{log.read_text()}")[0]


def _environment(place: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": _HOST,
        "SPARK_LOCAL_DIRS": str(place / "scratch"),
        "SPARK_CONF_DIR": str(place),
        "SPARK_HOME": str(_home()),
        "SPARK_DAEMON_JAVA_OPTS": _JAVA,
    }


def _home() -> Path:
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def _submit() -> str:
    found = find_spec("zkgroup_cli.commands.audit.submit")
    assert found is not None
    return str(found.origin)


if __name__ == "__main__":
    sys.exit(main())
