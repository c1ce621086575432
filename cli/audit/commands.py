"""The group `zkgroup audit`."""

from __future__ import annotations

from ..frame import group as make_group

audit = make_group(
    "audit",
    lazy={
        "inspect": (".audit.inspect_command:inspect", "Tell how far snapshots and logs are good."),
        "tree": (".audit.tree_command:tree", "Show the tree as it was at a moment."),
        "diff": (".audit.diff_command:diff", "Show what differs between two moments."),
        "owners": (".audit.owners_command:owners", "Tell who owned a partition when."),
        "offsets": (".audit.offsets_command:offsets", "Tell every write of an offset."),
        "sessions": (".audit.sessions_command:sessions", "Tell the life of every session."),
        "findings": (".audit.findings_command:findings", "Look for what went wrong."),
        "report": (".audit.report_command:report", "Write it all as one HTML page."),
        "run": (".audit.run_command:run", "Look for it in many folders, with Spark."),
        "export": (".audit.export_command:export", "Write a tree into a file of its own."),
    },
    help="""Ask ZooKeeper's own files what happened. Nothing here writes to an ensemble or to its files.

    --input names a server's version-2 folder (a copy is best) or the folder above it, several for the
    servers of one ensemble; or a file that `audit export` wrote. Without it the living ensemble is read.

    A moment is a zxid, decimal or 0x hex, or a time such as 2026-01-31T14:03:00Z.""",
)
