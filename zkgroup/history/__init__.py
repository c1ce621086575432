"""Histories that members and brokers record, and checkers that decide the protocol's invariants from them.

    sink = HistoryFile("member-1.jsonl")     # give it to a GroupMember or Consumer
    ...
    report = check_history(read_files(["member-1.jsonl", "member-2.jsonl"]))
    assert report.holds, report.violations

Invariants of a group (`group`): S1 owner alive, S2 commits fenced, S3 chain of claims, S4 offsets never go
back, S5 commit means processed, S6 truthful acknowledgement, S7 no delivery without a lease, S8 disjoint
delivery, S9 right start, S10 same view same answer, S22 no half claim; and after the group had time to
converge, L1 all partitions owned, L2 no owner that is not a member, L3 every member has its share, L4 no more
changes.

`check_cluster` decides the invariants of brokers and controllers (`cluster`): S11 to S17, L6 and L7, and that
no acknowledged record is lost (`records`); `coordinator` those of groups with a coordinator, S23 to S34, in
simulation. `read_transactions` reads the transaction logs of real
servers.
"""

from zkgroup.history.cluster.checker import check_cluster
from zkgroup.history.group.checker import check_history
from zkgroup.history.group.replay import CheckOptions
from zkgroup.history.recorder import HistoryFile, MemoryHistory, read_files
from zkgroup.history.records import HistoryRecord, Recording, parse, record_of
from zkgroup.history.report import ClusterFigures, ClusterOptions, ClusterReport, Figures, Report, Violation
from zkgroup.history.transactions import Change, ServerTransaction, TransactionRefusal, read_transactions

__all__ = [
    "Change",
    "CheckOptions",
    "ClusterFigures",
    "ClusterOptions",
    "ClusterReport",
    "Figures",
    "HistoryFile",
    "HistoryRecord",
    "MemoryHistory",
    "Recording",
    "Report",
    "ServerTransaction",
    "TransactionRefusal",
    "Violation",
    "check_cluster",
    "check_history",
    "parse",
    "read_files",
    "read_transactions",
    "record_of",
]
