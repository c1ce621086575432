"""The group `zkgroup audit`: what the files of an ensemble, an export or a live ensemble show."""

from __future__ import annotations

from ...app import group as make_group

audit = make_group(
    "audit",
    lazy={
        "summary": (
            ".commands.audit.summary:summary",
            "Show a history on one screen: each group and its worst incident",
        ),
        "inspect": (".commands.audit.inspect:inspect", "Check how far snapshots, logs and exports are good"),
        "tree": (".commands.audit.tree:tree", "Show PATH and everything below it as it was at a moment"),
        "diff": (".commands.audit.tree:diff", "Show what differs at and below PATH between two moments"),
        "owners": (
            ".commands.audit.history:owners",
            "Show who owned the partitions of a group when, and how that ended",
        ),
        "offsets": (
            ".commands.audit.history:offsets",
            "Show every write of an offset, and which session wrote it",
        ),
        "sessions": (".commands.audit.history:sessions", "Show the life of every session and how it ended"),
        "findings": (
            ".commands.audit.findings:findings",
            "Find what went wrong with groups, brokers and the ensemble",
        ),
        "report": (
            ".commands.audit.report:report",
            "Write what happened and the findings as one HTML file",
        ),
        "run": (
            ".commands.audit.report:run",
            "Convert logs or tree snapshots to Parquet and find what went wrong",
        ),
        "export": (".commands.audit.tree:export", "Write the whole tree into the file or folder OUTPUT"),
    },
    help="""Reconstruct what happened from ZooKeeper's own files.

    Nothing here writes to an ensemble or to its files. --input names a server's version-2 folder (a copy is
    best) or the folder above it, several for the servers of one ensemble; or a file that `audit export`
    wrote. Without it the live ensemble is read.

    A moment is a zxid, decimal or 0x hex, or a time such as 2026-01-31T14:03:00Z.

    \b
    Example:
      zkgroup audit findings --input copy/version-2""",
)
