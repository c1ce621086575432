"""What members of groups saw, as lines of JSON. Times are of the machine's monotonic clock, in ns.

A request that was answered has both times; one without an answer (`error` null) may have had its effect.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Seen:
    """One request of a member, with what was answered."""

    kind: str
    """joined, synced, beat, committed, fetched, or left."""
    group: str
    client: str
    """The client, whatever its member id is."""
    member_id: str
    generation: int
    """As answered to a join, as named in the others."""
    sent_ns: int
    answered_ns: int
    error: int | None = 0
    leader: str = ""
    members: tuple[str, ...] = ()
    """To a leader: the members of the generation."""
    partitions: tuple[int, ...] = ()
    """Assigned to the member."""
    offsets: tuple[tuple[int, int], ...] = ()
    """Partition and offset: committed, or fetched (-1 for none)."""

    def line(self) -> str:
        return json.dumps(asdict(self))


class HistoryFile:
    """A file of such lines, read while it is written."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._seen: list[Seen] = []
        self._bytes = 0

    def read(self) -> list[Seen]:
        """All lines so far; the last one may not be whole yet."""
        if not self.file.exists():
            return self._seen
        with self.file.open("rb") as file:
            file.seek(self._bytes)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._bytes += len(whole)
        self._seen += map(_seen, whole.splitlines())
        return self._seen


def _seen(line: bytes) -> Seen:
    fields = json.loads(line)
    fields["offsets"] = tuple((partition, offset) for partition, offset in fields["offsets"])
    fields["members"], fields["partitions"] = tuple(fields["members"]), tuple(fields["partitions"])
    return Seen(**fields)
