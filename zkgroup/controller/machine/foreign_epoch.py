"""The last epoch that no controller of ours had. Source: recipes.md 13, recovery; docs/adr/0028.

Each record of the history says it for its own epoch, so older records need not be kept. One that does not
say it, or that cannot be read, says only that its epoch was ours: then the record below it is asked, and
below the last of them is an epoch without a record, which was a controller's of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from zkgroup.controller.machine import candidacy as acts
from zkgroup.machinery.procedures import Procedure, Query, read_done
from zkgroup.model.requests import Outcome, Read
from zkgroup.znodes.controller_records import ControllerRecord

READ_AT_ONCE: Final = 100
"""Records read together, once the newest has not said it."""

Asked = Callable[..., Procedure[tuple[Outcome, ...]]]
"""Carries out queries, as `procedures.ask` does."""


def last_foreign_epoch(asked: Asked, epoch: int, recorded: Collection[int]) -> Procedure[int]:
    """The greatest epoch up to this one that a controller of Kafka had; 0 for none.

    `recorded` are the epochs of which there is a record.
    """
    ours = acts.ours_up_to(epoch, recorded)
    begin, count = 0, 1
    while begin < len(ours):
        some = ours[begin : begin + count]
        outcomes = yield from asked(*(Query(Read(ControllerRecord.path(each))) for each in some))
        for each, outcome in zip(some, outcomes, strict=True):
            if (told := acts.foreign_epoch_told(each, read_done(outcome))) is not None:
                return told
        begin, count = begin + count, READ_AT_ONCE
    return epoch - len(ours)
