"""One zxid, and different records on two servers.

The records of the servers' logs are compared one by one; digests alone that differ are `digest_mismatch`.
Only the first thousand such zxids are reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from zkgroup.audit.disagreements import disagreements
from zkgroup.audit.facts import Facts
from zkgroup.audit.rules import Bounds, Finding, WholeRule
from zkgroup.audit.texts import count_text
from zkgroup.zkfiles.history import History


def _find(history: History, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    for each in disagreements(history):
        if not each.is_of_digests_only:
            how_many = count_text(each.size, "record is", "records are")
            yield Finding(
                RULE.name,
                RULE.severity,
                from_zxid=each.from_zxid,
                to_zxid=each.to_zxid,
                from_ms=each.from_ms,
                to_ms=each.to_ms,
                detail=f"{how_many} not the same on all servers: {each.sides}",
            )


RULE = WholeRule(
    name="split_history",
    severity="error",
    question="Which transactions are different on different servers of one ensemble?",
    needs=("log",),
    act="Two servers applied different histories, which ZooKeeper rules out: files of two ensembles in one"
    " folder, a restored or edited log, or a server that lost its disk and voted. What most servers have is"
    " taken here. Stop the odd one, and let it start with an empty data folder.",
    find=_find,
)
