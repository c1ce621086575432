"""What a broker tells about itself, out of the effects of its machine."""

from __future__ import annotations

import logging
from typing import Final

from zkgroup.machinery.effects import Note

log = logging.getLogger("zkgroup.broker")
state_log = logging.getLogger("zkgroup.state_change")

_STATE_CHANGES: Final = frozenset({"isr.shrank", "isr.expanded"})
_WARNINGS: Final = frozenset(
    {"odd_answer", "isr.refused", "isr.unwritable", "isr.deposed", "topic.not_followed"}
)


def log_note(note: Note) -> None:
    """Changes of ISRs to the log of changes; what a person should see as warnings; the rest for a search."""
    told = " ".join(f"{name}={value}" for name, value in note.fields.items())
    if note.kind in _STATE_CHANGES:
        state_log.info("%s %s", note.kind, told)
        return
    is_bad = note.kind in _WARNINGS or note.kind.endswith(".unreadable")
    log.log(logging.WARNING if is_bad else logging.DEBUG, "%s %s", note.kind, told)
