"""What became of the lines of `produce`: as a document, and as text for a person."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import documents
from .output import Output
from .tables import Column

if TYPE_CHECKING:
    from zkgroup.admin.ensemble import AsOf
    from zkgroup.lines.producing import Delivery

_TAKEN = {"1": "acknowledged by their leaders", "all": "acknowledged by all in-sync replicas"}


@dataclass
class _Partition:
    lines: int = 0
    first_offset: int | None = None
    last_offset: int | None = None


@dataclass
class Summary:
    """Counts of lines."""

    topic: str
    acks: str
    lines: int = 0
    """Taken from the input."""
    acknowledged: int = 0
    may_be_repeated: int = 0
    """Of those acknowledged: may be in the log once more, since an answer was lost."""
    sent: int = 0
    """With --acks 0."""
    failed: int = 0
    """Surely not in the log."""
    unknown: int = 0
    """Neither acknowledged nor surely not in the log."""
    first_failed_line: int | None = None
    """Number of the first line of the input, from 1 on, that is one of these or failed."""
    partitions: dict[int, _Partition] = field(default_factory=dict)

    KEYS = ("partition", "lines", "first_offset", "last_offset")

    def delivered(self, delivery: Delivery) -> None:
        """Counts what became of some lines."""
        count = len(delivery.numbers)
        match delivery.outcome.value:
            case "acknowledged":
                self.acknowledged += count
                self.may_be_repeated += count if delivery.may_be_repeated else 0
                self._place(delivery, count)
            case "sent":
                self.sent += count
                self._of(delivery).lines += count
            case _:
                self._failed(delivery, count)

    def document(self, as_of: AsOf, error: str | None) -> documents.Json:
        """`zkgroup.produce/1`."""
        rows: list[dict[str, Any]] = [
            {
                "partition": number,
                "lines": one.lines,
                "first_offset": one.first_offset,
                "last_offset": one.last_offset,
            }
            for number, one in sorted(self.partitions.items())
        ]
        return documents.document(
            "produce",
            as_of,
            topic=self.topic,
            acks=self.acks,
            lines=self.lines,
            acknowledged=self.acknowledged,
            may_be_repeated=self.may_be_repeated,
            sent=self.sent,
            failed=self.failed,
            unknown=self.unknown,
            first_failed_line=self.first_failed_line,
            error=error,
            partitions=rows,
        )

    def show(self, out: Output) -> None:
        """As text."""
        if self.partitions:
            columns = [
                Column(header="PARTITION", right=True),
                Column(header="LINES", right=True),
                Column(header="FIRST", right=True),
                Column(header="LAST", right=True),
            ]
            rows = [
                (number, one.lines, one.first_offset, one.last_offset)
                for number, one in sorted(self.partitions.items())
            ]
            out.table(columns, rows)
        out.line(progress_text(self))

    def _of(self, delivery: Delivery) -> _Partition:
        return self.partitions.setdefault(delivery.topic_partition.partition, _Partition())

    def _failed(self, delivery: Delivery, count: int) -> None:
        if delivery.may_be_repeated:
            self.unknown += count
        else:
            self.failed += count
        first = min(delivery.numbers) + 1
        self.first_failed_line = min(first, self.first_failed_line or first)

    def _place(self, delivery: Delivery, count: int) -> None:
        one, last = self._of(delivery), delivery.base_offset + count - 1
        one.lines += count
        one.first_offset = delivery.base_offset if one.first_offset is None else one.first_offset
        one.last_offset = last


def progress_text(summary: Summary) -> str:
    """`12 lines read, 10 acknowledged by all in-sync replicas`."""
    told = [f"{_lines(summary.lines)} read"]
    if summary.acks == "0":
        told.append(f"{summary.sent} sent")
    else:
        told.append(f"{summary.acknowledged} {_TAKEN[summary.acks]}")
    for count, what in (
        (summary.may_be_repeated, "of those perhaps twice in the log"),
        (summary.failed, "not appended"),
        (summary.unknown, "of which nobody knows"),
    ):
        if count:
            told.append(f"{count} {what}")
    if summary.first_failed_line is not None:
        told.append(f"the first of these is line {summary.first_failed_line}")
    return ", ".join(told)


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"
