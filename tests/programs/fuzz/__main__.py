"""Runs one target under atheris, which is no dependency of zkgroup: `pip install atheris`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Fuzzes for the given time; prints the path of an input that fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs.fuzz", description=__doc__)
    parser.add_argument("target", choices=["log", "snapshot", "snappy", "export"])
    parser.add_argument("--seconds", type=int, default=60, help="how long  [60]")
    parser.add_argument("--corpus", type=Path, help="where inputs are kept from run to run")
    parser.add_argument("--max-bytes", type=int, default=8192, help="the largest input  [8192]")
    arguments = parser.parse_args()
    try:
        import atheris
    except ImportError:
        sys.exit("python -m tests.programs.fuzz: atheris is not installed: pip install atheris")
    with atheris.instrument_imports(include=["zkgroup.zkfiles"]):
        from tests.programs.fuzz.targets import TARGETS, seeds
    with tempfile.TemporaryDirectory(prefix="zkgroup-fuzz-corpus-") as scratch:
        begun = Path(scratch)
        for number, seed in enumerate(seeds(arguments.target)):
            (begun / f"seed-{number}").write_bytes(seed[: arguments.max_bytes])
        corpus = arguments.corpus or begun / "found"
        corpus.mkdir(parents=True, exist_ok=True)
        options = [
            f"-max_total_time={arguments.seconds}",
            f"-max_len={arguments.max_bytes}",
            f"-artifact_prefix={arguments.target}-",
            "-timeout=10",
            "-rss_limit_mb=1024",
            "-print_final_stats=1",
        ]
        atheris.Setup([sys.argv[0], *options, str(corpus), str(begun)], TARGETS[arguments.target])
        atheris.Fuzz()


if __name__ == "__main__":
    main()
