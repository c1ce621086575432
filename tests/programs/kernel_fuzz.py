"""Fuzzes the compiled kernel, built with gcc's sanitizers: `python -m tests.programs.kernel_fuzz`.

Builds the kernel with -fsanitize=address,undefined in a temporary folder, and runs a process with it: records
with changed bytes and right checksums, bytes in which records are looked for, and histories that are applied
to a tree. What the kernel gives must be what plain Python gives. A wrong access ends the process.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ROOT / "zkgroup" / "zkfiles"
_FLAGS: Final = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-DPy_LIMITED_API=0x030B0000")
SANITIZERS: Final = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def main() -> int:
    """Builds, and runs itself again with what was built."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs.kernel_fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long  [60]")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers  [1]")
    parser.add_argument("--built", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.built is not None:
        return fuzz(arguments.built, arguments.seed, arguments.seconds)
    with tempfile.TemporaryDirectory(prefix="zkgroup-kernel-") as folder:
        build(Path(folder))
        program = [sys.executable, "-m", "tests.programs.kernel_fuzz", "--built", folder]
        options = ["--seconds", str(arguments.seconds), "--seed", str(arguments.seed)]
        return subprocess.run([*program, *options], cwd=ROOT, env=_environment(), check=False).returncode


def build(folder: Path, sources: Path = SOURCES, flags: Sequence[str] = SANITIZERS) -> None:
    """The kernel as a module, by default with sanitizers."""
    include = sysconfig.get_paths()["include"]
    command = ["gcc", *_FLAGS, *flags, f"-I{include}", "-o", folder / "kernel.so", sources / "kernel.c"]
    subprocess.run(command, check=True)


def _environment() -> Mapping[str, str]:
    """Python has no sanitizers, so theirs are loaded first; its own allocator would hide errors."""
    found = [
        subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
        for name in ("libasan.so", "libubsan.so")
    ]
    preloaded = " ".join(each.stdout.strip() for each in found)
    own = {"LD_PRELOAD": preloaded, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    return os.environ | own


def fuzz(folder: Path, seed: int, seconds: float) -> int:
    """With the module of a folder, for a time."""
    spec = importlib.util.spec_from_file_location("zkgroup.zkfiles.kernel", folder / "kernel.so")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    draw, counts = random.Random(seed), Counter[str]()
    end = time.monotonic() + seconds
    while time.monotonic() < end or not counts:
        for target, times in ((records, 50), (places, 50), (trees, 1)):
            for _ in range(times):
                counts[f"{target.__name__} {target(draw)}"] += 1
    print("\n".join(f"{count:8,} {name}" for name, count in sorted(counts.items())))
    return 0


def changed(raw: bytes, draw: random.Random) -> bytes:
    """With some bytes set, cut out, doubled, or made a number that is too large."""
    bytes_ = bytearray(raw)
    for _ in range(draw.randrange(4)):
        at = draw.randrange(len(bytes_) + 1)
        match draw.randrange(5):
            case 0:
                bytes_[at : at + 1] = draw.randbytes(1)
            case 1:
                del bytes_[at : at + draw.choice((1, 4, 8, 40))]
            case 2:
                bytes_[at:at] = bytes_[at : at + draw.choice((1, 4, 8, 40))]
            case 3:
                number = draw.choice((-1, 0, 1, 2**31 - 1, -(2**31), len(raw), len(raw) - at))
                bytes_[at : at + 4] = number.to_bytes(4, "big", signed=True)
            case _:
                bytes_[at : at + 1] = bytes([draw.choice((0, 1, 0x2F, 0x42, 0xFF))])
    return bytes(bytes_)


def records(draw: random.Random) -> str:
    """Decodes records whose checksums are right, one of which was changed."""
    from tests.pure.zkfiles.test_kernel import ENTRIES, chunk_of, is_decoded_alike

    entries = draw.choices(ENTRIES, k=draw.randint(1, 5))
    entries[0] = changed(entries[0], draw)
    draw.shuffle(entries)
    chunk = chunk_of(*(entry for entry in entries if len(entry) >= 32))
    return "decoded alike" if len(chunk.starts) and is_decoded_alike(chunk) else "left to plain Python"


def places(draw: random.Random) -> str:
    """Looks for records in bytes that were changed."""
    from tests.pure.zkfiles.test_kernel import ENTRIES
    from tests.worlds import zkfiles_writer as writer
    from zkgroup.zkfiles.jute import find, whole_records

    data = changed(b"".join(writer.record(draw.choice(ENTRIES)) for _ in range(draw.randrange(6))), draw)
    at = draw.randrange(len(data) + 1) if draw.random() < 0.2 else 0
    starts, ends, needed = find(data, at)
    assert ([*starts], [*ends], needed) == whole_records(data, at)
    return "found alike"


def trees(draw: random.Random) -> str:
    """Applies a history, some of whose operations were changed."""
    from tests.pure.zkfiles.test_column_replay import exact, in_columns, random_history, state
    from zkgroup.zkfiles.column_replay import OddRowsError
    from zkgroup.zkfiles.tree import Tree

    world = random_history(draw.randrange(1 << 30), draw.randint(10, 80))
    for _ in range(draw.randrange(3)):
        place = draw.randrange(len(world.transactions))
        record = world.transactions[place]
        fields: list[dict[str, object]] = [
            {"path": draw.choice(("/", "/a", "/no", "/a/w", "//", "/a/", "/zookeeper/x"))},
            {"version": draw.choice((-1, 2**31 - 1, -(2**31)))},
            {"parent_cversion": draw.choice((-1, 0, 2**31 - 1))},
            {"is_ephemeral": True},
        ]
        operations = [each._replace(**draw.choice(fields)) for each in record.operations]  # type: ignore[arg-type]
        world.transactions[place] = record._replace(operations=tuple(operations))
    one_by_one, tree = Tree(), Tree()
    exact(world.transactions, one_by_one)
    with tempfile.TemporaryDirectory(prefix="zkgroup-kernel-log-") as folder:
        try:
            in_columns(world, Path(folder), tree, draw.choice((5, 25, 1000)))
        except OddRowsError:
            return "left to the exact way"
    assert state(tree) == state(one_by_one)
    return "applied alike"


if __name__ == "__main__":
    sys.exit(main())
