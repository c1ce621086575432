"""The process that forks Spark's Python workers: pyspark's, without a traceback for a reader that was enough.

Spark closes the connection to a worker as soon as it has the rows of a `limit`. pyspark's daemon prints the
BrokenPipeError of the worker's last flush. Run as `spark.python.daemon.module`.

It imports what tasks of an audit need before it forks, so that workers need not. They do not need pandas;
functions of users that do import it in their worker.
"""

from __future__ import annotations

import gc
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from zkgroup.audit.spark.archives import forget_archives, prefer_installed
from zkgroup.audit.without_pandas import leave_pandas_out

prefer_installed()
from pyspark import daemon  # noqa: E402  # from where it is compiled

TASKS: Final = (
    "pyspark.worker",
    "zkgroup.audit.columns.commits",
    "zkgroup.audit.columns.groups",
    "zkgroup.audit.columns.minutes",
    "zkgroup.audit.spark.decoding",
    "zkgroup.audit.spark.folding",
    "zkgroup.zkfiles.compiled",
)
"""What tasks import, also what they import late."""

_worker = daemon.worker


def worker(sock: Any, authenticated: bool) -> int:
    """pyspark's worker; one whose reader has gone ends as any that is not used again."""
    try:
        return int(_worker(sock, authenticated))
    except BrokenPipeError:
        return 1


def main() -> None:
    """Runs pyspark's daemon with this worker."""
    leave_pandas_out()
    for name in TASKS:
        with suppress(ImportError):  # a task says what is missing
            import_module(name)
    forget_archives()
    gc.collect()
    gc.freeze()  # no worker walks what all share, which would copy it
    daemon.worker = worker
    daemon.manager()


if __name__ == "__main__":
    main()
