"""Measures the memory that decoding takes, in a separate process, since other threads allocate in this one.

python -m tests.pure.properties.frame_memory    pickled arguments of `peaks` on stdin, results on stdout
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from tests.project import ROOT
from tests.waiting import PATIENCE_S
from zkgroup.errors import CorruptFrameError
from zkgroup.wire.messages import decode_rest


def peaks(kind: type[Any], payloads: Sequence[bytes], version: int = 0) -> list[int]:
    """The most bytes allocated while each payload is decoded or refused, without what a kind caches."""
    found = []
    for payload in payloads[:1]:  # of a message without fields there is none
        with suppress(CorruptFrameError):
            decode_rest(kind, version, payload, 0)
    tracemalloc.start()
    try:
        for payload in payloads:
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            with suppress(CorruptFrameError):
                decode_rest(kind, version, payload, 0)
            found.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    return found


class MemoryMeter:
    """Calls `peaks` in the separate process."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.pure.properties.frame_memory"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=PATIENCE_S)

    def peaks(self, kind: type[Any], payloads: Sequence[bytes], version: int = 0) -> list[int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((kind, list(payloads), version), self._process.stdin)
        self._process.stdin.flush()
        found: list[int] = pickle.load(self._process.stdout)
        return found


def main() -> None:
    with suppress(EOFError):
        while True:
            kind, payloads, version = pickle.load(sys.stdin.buffer)
            pickle.dump(peaks(kind, payloads, version), sys.stdout.buffer)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
