"""Controllers' requests that brokers accepted, from their records (S11)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from zkgroup.history import HistoryRecord, Violation


def check_accepted_requests(records: Iterable[HistoryRecord]) -> Iterator[Violation]:
    """One controller per epoch; a broker accepts no older epoch than before, in one start.

    Fields of `control.accepted`: broker, incarnation (it differs between two starts), controller, epoch.
    """
    controllers: dict[int, int] = {}
    epochs: dict[tuple[int, Any], int] = {}
    for fields in (record.fields for record in records if record.kind == "control.accepted"):
        epoch, controller, broker = fields["epoch"], fields["controller"], fields["broker"]
        if controllers.setdefault(epoch, controller) != controller:
            detail = f"epoch {epoch} belongs to {controllers[epoch]}, and broker {broker} accepted"
            yield Violation("S11", f"{detail} requests of {controller} in it")
        key = broker, fields["incarnation"]
        if epoch < epochs.get(key, epoch):
            yield Violation("S11", f"broker {broker} accepted epoch {epoch} after {epochs[key]}")
        epochs[key] = epoch
