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

`read_transactions` reads the transaction logs of real servers, which `check_history` takes, too. The demos
decide the invariants of brokers and controllers from them (`cluster`): S11 to S17, L6 and L7, and that no
acknowledged record is lost; and those of a group of Kafka's protocol (`coordinated_group`).
"""

from zkgroup.history.cluster.checker import check_cluster as check_cluster
from zkgroup.history.group.checker import check_history
from zkgroup.history.group.replay import CheckOptions
from zkgroup.history.recorder import HistoryFile, MemoryHistory, read_files
from zkgroup.history.records import HistoryRecord
from zkgroup.history.records import Recording as Recording
from zkgroup.history.records import parse as parse
from zkgroup.history.records import record_of as record_of
from zkgroup.history.report import ClusterFigures as ClusterFigures
from zkgroup.history.report import ClusterOptions as ClusterOptions
from zkgroup.history.report import ClusterReport as ClusterReport
from zkgroup.history.report import Figures, Report, Violation
from zkgroup.history.transactions import Change as Change
from zkgroup.history.transactions import ServerTransaction as ServerTransaction
from zkgroup.history.transactions import TransactionRefusal as TransactionRefusal
from zkgroup.history.transactions import read_transactions

__all__ = [
    "CheckOptions",
    "Figures",
    "HistoryFile",
    "HistoryRecord",
    "MemoryHistory",
    "Report",
    "Violation",
    "check_history",
    "read_files",
    "read_transactions",
]
