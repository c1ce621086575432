"""The findings as a Parquet table; pyarrow is a part of the extra `audit`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zkgroup.audit.rules import Finding
from zkgroup.audit.words import session_text

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    pa = None

FINDINGS = "findings.parquet"


def is_there() -> bool:
    """Whether pyarrow is."""
    return pa is not None


def write_findings(path: Path, findings: Sequence[Finding]) -> None:
    """The columns of `findings.json`; times are timestamps in UTC. Raises OSError."""
    time = pa.timestamp("ms", tz="UTC")
    columns = {
        "finding": ([one.finding for one in findings], pa.string()),
        "severity": ([one.severity for one in findings], pa.string()),
        "group": ([one.group for one in findings], pa.string()),
        "topic": ([one.topic for one in findings], pa.string()),
        "partition": ([one.partition for one in findings], pa.int64()),
        "session": ([session_text(one.session) if one.session else None for one in findings], pa.string()),
        "from_zxid": ([one.from_zxid for one in findings], pa.int64()),
        "to_zxid": ([one.to_zxid for one in findings], pa.int64()),
        "from": ([one.from_ms for one in findings], time),
        "to": ([one.to_ms for one in findings], time),
        "detail": ([one.detail for one in findings], pa.string()),
    }
    table = pa.table({name: pa.array(values, type_) for name, (values, type_) in columns.items()})
    pq.write_table(table, path)
