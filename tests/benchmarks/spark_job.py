"""One job of the audit on Spark in a process of its own; prints what each part took, as JSON.

python -m tests.benchmarks.spark_job MASTER FOLDER OUTPUT
"""

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise

from zkgroup.audit.findings import RULES
from zkgroup.audit.spark.job import run
from zkgroup.audit.spark.session import session


def main(master: str, folder: str, output: str) -> None:
    started = time.monotonic()
    moments: list[tuple[str, float]] = []
    with session(master, {"spark.driver.memory": "4g"}) as spark:
        spark.range(1).count()
        moments.append(("start", time.monotonic()))
        (audited,) = run(
            spark,
            [folder],
            output,
            rules=RULES,
            progress=lambda what, count: moments.append((what, time.monotonic())),
        )
        moments.append(("end", time.monotonic()))
    seconds = {what: round(ended - begun, 2) for (what, begun), (_, ended) in pairwise(moments[1:])}
    print(
        json.dumps(
            {
                "start_s": round(moments[0][1] - started, 2),
                "job_s": round(moments[-1][1] - moments[0][1], 2),
                "parts_s": seconds,
                "findings": len(audited.findings),
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
