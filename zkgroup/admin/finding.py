"""`DoctorFinding`: what `doctor` reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """Something that an operator should know, and the command to run next."""

    severity: Literal["error", "warning", "info"]
    """`error`, `warning` or `info`."""
    subject: str
    """Says what the finding is about: `brokers`, `controller`, `orders`, ..."""
    detail: str
    """Says what is wrong, in one sentence."""
    next: str | None = None
    """The command to run."""
