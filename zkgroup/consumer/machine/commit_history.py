"""Records of who wrote each offset, `/consumers/<g>/commits/<t>-<p>` (history of commits, recipes 28).

A member with `commit_history` adds one operation to each write of an offset: it sets the record, in the
transaction of the commit or release. So the record is exact, and no packet is sent for it. Nothing depends on
a record: it has no version that is checked, because the fence of the offset is in the same transaction.

A record is created with the first commit of its partition. The member learns which exist with the read
before its claim. Where it does not know, after a refusal or an adopted claim, it reads them with its next
commit. A transaction that is refused at a record is sent again without records: they never stop a commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zkgroup.consumer.machine.machine_context import GroupPaths, MemberContext, OwnedPartition
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import (
    Code,
    Create,
    CreateMissing,
    MultiRefused,
    Operation,
    Outcome,
    SetData,
)
from zkgroup.runtime.procedures import Procedure, Query, ask, read_many
from zkgroup.znodes.group_records import CommitRecord


class CommitHistory:
    """The records of one member's commits."""

    def __init__(self, context: MemberContext, paths: GroupPaths) -> None:
        self._context = context
        self._paths = paths
        self.is_kept = context.config.settings.commit_history
        """True if this member writes records: it is set to, and no ACL or quota forbids it."""
        self._exists: dict[TopicPartition, bool] = {}
        """The partitions of which it is known whether they have a record."""

    @property
    def parents(self) -> tuple[str, ...]:
        """The parent of the records, which must exist; nothing without the setting."""
        return (self._paths.commits,) if self.is_kept else ()

    def unread(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of the partitions whose record must be read before it can be written."""
        return [tp for tp in partitions if tp not in self._exists] if self.is_kept else []

    def found(self, partitions: Sequence[TopicPartition], records: Iterable[Znode | None]) -> None:
        """Takes the records of partitions, read after their offsets: so a member that claims sees those of
        the members before it."""
        self._exists.update((tp, record is not None) for tp, record in zip(partitions, records, strict=True))

    def read(self, partitions: Iterable[TopicPartition]) -> Procedure[None]:
        """Reads the records that are not known, and creates their parent where it is missing."""
        unread = self.unread(partitions)
        if not unread:
            return
        ((parent, *records),) = yield from read_many([self._paths.commits, *map(self._paths.commit, unread)])
        if parent is None:
            yield from ask(Query(CreateMissing((self._paths.commits,))))
        self.found(unread, records)

    def operations(self, owned: OwnedPartition, value: int) -> list[Operation]:
        """What is added to the write of an offset; nothing where no record is kept, or it is not known."""
        exists = self._exists.get(owned.topic_partition)
        if exists is None or not self.is_kept:
            return []
        config, path = self._context.config, self._paths.commit(owned.topic_partition)
        record = CommitRecord(
            offset=value,
            member=config.member_id,
            host=config.host,
            version=config.version,
            token=owned.token,
        )
        return [SetData(path, record.encode(), -1) if exists else Create(path, record.encode())]

    def written(self, operations: Iterable[Operation]) -> None:
        """Takes an accepted transaction: the records that it created exist."""
        created = {o.path for o in operations if isinstance(o, Create)}
        if created:
            self._exists.update((tp, True) for tp in self._exists if self._paths.commit(tp) in created)

    def others(
        self, outcomes: Sequence[Outcome], sent: Sequence[list[Operation]]
    ) -> tuple[list[Outcome], list[list[Operation]]]:
        """The transactions that were not refused at a record, with their outcomes."""
        pairs = zip(outcomes, sent, strict=True)
        rest = [(one, operations) for one, operations in pairs if not self._takes(one, operations)]
        return [one for one, _ in rest], [operations for _, operations in rest]

    def _takes(self, outcome: Outcome, operations: Sequence[Operation]) -> bool:
        """Returns whether a transaction was refused at a record. An ACL or a quota ends the history of this
        member, which notes it; otherwise the records are read again."""
        path = operations[outcome.index].path if isinstance(outcome, MultiRefused) else ""
        if not isinstance(outcome, MultiRefused) or not path.startswith(f"{self._paths.commits}/"):
            return False
        self._exists.clear()
        if outcome.code not in (Code.NO_NODE, Code.NODE_EXISTS):
            self.is_kept = False
            self._context.note("commit_history_denied", path=path)
        return True
