"""The consumers of a demo as processes of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from zkgroup.demo.child import Child
from zkgroup.demo.members.orders import Orders, encode
from zkgroup.errors import MemberFailedError


class MemberProcess(Child):
    """One consumer in a process of its own."""

    def __init__(self, orders: Orders, log: Path) -> None:
        """Starts it. `log` receives what it writes to standard error."""
        self.output = Path(orders.output)
        self.processed = 0
        self.lost_session = False
        super().__init__(orders.name, "zkgroup.demo.members.worker", log)
        self.give(encode(orders))

    def note(self, event: dict[str, Any]) -> None:
        """Brings state and count up to date."""
        match event["event"]:
            case "state":
                self.state = event["after"]
            case "lost":
                self.lost_session = True
            case "progress":
                self.processed = event["processed"]

    def check(self) -> None:
        """Raises `MemberFailedError` where it ended by itself."""
        if self.ended and not self.killed and self.state not in ("left", "closed"):
            raise MemberFailedError(f"{self.name} ended with exit code {self.exit_code}: {self.last_words}")
