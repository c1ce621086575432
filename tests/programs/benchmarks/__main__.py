"""Measures zkgroup beside its peers on one server and prints a table.

    python -m tests.programs.benchmarks                        everything, some 20 minutes on two cores
    python -m tests.programs.benchmarks reads commits          only these
    python -m tests.programs.benchmarks --json results.json    the same figures for a program

Measurements: reads commits join-small join-large mass-start rolling pauses idle memory start kafka-cluster
acks-all; failover failover-loss controller-memory describe move-plan; exporter history; files replay series
series-spark; broker-fetch broker-produce broker-latency broker-connections broker-start broker-memory secured
authorizer quotas; group-joins group-rates group-scale group-load commit-calls; tree-at, audit and spark, by
names only.
`python -m tests.programs.benchmarks.crowd` shows hundreds of members in one process.
Real Kafka needs Maven and a JDK; without them its lines are missing. Exit code 3 when a goal was not reached.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from tests.programs.benchmarks.measurements import BY_NAME_ONLY, MEASUREMENTS
from tests.programs.benchmarks.report import Plan, Report


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[*MEASUREMENTS, []], metavar="NAME")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each side (default 3)")
    parser.add_argument(
        "--short", action="store_true", help="small sizes, without the peers that start slowly"
    )
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    logging.getLogger("kazoo").setLevel(logging.ERROR)
    report, plan = Report(), Plan(options.repeat, options.short)
    if not plan.peers():
        report.notes.append("No JVM members: Maven or the JDK is missing.")
    for name in options.names or [name for name in MEASUREMENTS if name not in BY_NAME_ONLY]:
        print(f"measuring {name}", file=sys.stderr, flush=True)
        MEASUREMENTS[name](plan, report)
    print(report.as_table())
    if options.json:
        options.json.write_text(report.as_json() + "\n")
    return 0 if all(goal.reached for goal in report.goals) else 3


if __name__ == "__main__":
    sys.exit(main())
