"""Reads one of ZooKeeper's files into columns, again and again, in a process of its own.

    python -m tests.programs.benchmarks.read_files log|snapshot FILE lists|packed|arrow REPEATS

`lists` is of a log by plain Python, with the kernel switched off; `packed` is of a log by the kernel, of a
snapshot by numpy; `arrow` makes record batches of that. The first reading is not counted: it imports what it
needs. Prints one line of JSON: rows, CPU seconds and seconds of each reading, the most memory that the
process had, in MiB, and how many calls a reading makes.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from tests.programs.benchmarks.calls import calls_of


def main() -> None:
    kind, path, way, repeats = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    if kind == "log":
        from zkgroup.zkfiles.columns import log_columns as read
    else:
        from zkgroup.zkfiles.znode_columns import snapshot_columns as read  # type: ignore[assignment]
    if way == "arrow":
        from zkgroup.zkfiles.arrow import record_batch

    def reading() -> int:
        rows = 0
        for batch in read(path):
            rows += batch.rows
            if way == "arrow":
                record_batch(batch)
        return rows

    rows, cpu_s, seconds = 0, [], []
    for _ in range(repeats + 1):
        cpu, began = time.process_time(), time.perf_counter()
        rows = reading()
        cpu_s.append(time.process_time() - cpu)
        seconds.append(time.perf_counter() - began)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"rows": rows, "cpu_s": cpu_s[1:], "seconds": seconds[1:], "peak_mb": round(peak_mb)}
    print(json.dumps({**found, "calls": calls_of(reading)}))


if __name__ == "__main__":
    main()
