"""The machine moves as the model does, wherever the walk through the model comes."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.programs.model.controller.reassign_following import T0, Following
from tests.programs.model.controller.tree import explore
from zkgroup.controller.machine import state_writes
from zkgroup.controller.machine.fenced_writes import Fence, Packet, Write
from zkgroup.controller.machine.open_reassignments import OpenReassignments
from zkgroup.controller.machine.reassignment import rounds, transactions
from zkgroup.controller.machine.requests import batch as requests_batch
from zkgroup.controller.machine.requests.batch import RequestBatch
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Check, Create, Multi, SetData
from zkgroup.znodes.brokers import Topic

SHORT = (
    "--moves 1/2 --crashes 1 --produces 1",
    "--moves 1/2 --expiries 1",
    "--moves 1/2 --cancels 1",
    "--moves 1/1,2 --expiries 1",
    "--moves 1/2/1 --breaks 1",
    "--moves 1,2/2,3 --crashes 1 --max-states 1500",
)
LONG = (
    "--moves 1/2 --cancels 1 --crashes 1",
    "--moves 1/2 --expiries 1 --crashes 1",
    "--moves 1/2 --lost 1 --expiries 1",
    "--moves 1/2/1 --crashes 1",
    "--moves 1/2/1 --expiries 1",
    "--moves 1,2/2,3 --cancels 1",
    "--moves 1,2/2,3 --crashes 1",
    "--moves 1,2/2,3 --lags 1 --produces 1",
)
STEPS = {
    "step 1",
    "step 2",
    "step 7",
    "step 8",
    "step 9",
    "steps 10+11",
    "elects leader",
    "raises its",
    "waits",
}
"""What a controller does in the model; each is compared somewhere, or it is there on paper only."""


def compared(faults: str) -> Counter[str]:
    """Everything within these faults, or up to a bound on the states; what was compared how often."""
    model = Following(faults)
    found = explore(model, model.a.max_states, max_seconds=500, progress=False)
    assert found.violations == {}
    return model.met


def test_machine_does_what_the_model_does() -> None:
    """The same transactions, requests to brokers and memory, at every step and wait (recipes 17)."""
    met: Counter[str] = Counter()
    for faults in (*SHORT, *LONG) if os.environ.get("ZKGROUP_MODEL") == "all" else SHORT:
        met += compared(faults)

    assert set(met) == STEPS


def without_check(path: str) -> Callable[[Write], Write]:
    """Of the znodes whose paths end so."""
    return lambda write: write._replace(
        operations=tuple(
            each for each in write.operations if not (isinstance(each, Check) and each.path.endswith(path))
        )
    )


def whatever_version(write: Write) -> Write:
    """A write without a version check."""
    operations = tuple(
        dataclasses.replace(each, version=-1) if isinstance(each, SetData) else each
        for each in write.operations
    )
    return write._replace(operations=operations)


def without_records(write: Write) -> Write:
    """Nothing is created."""
    return write._replace(operations=tuple(e for e in write.operations if not isinstance(e, Create)))


def backwards(write: Write) -> Write:
    """The last operation first."""
    return write._replace(operations=write.operations[::-1])


def lighter(name: str, change: Callable[[Write], Write]) -> tuple[Any, str, Any]:
    """The writes of this function, changed."""
    made = getattr(transactions, name)

    def other(*args: Any, **kwargs: Any) -> Any:
        write = made(*args, **kwargs)
        return change(write) if isinstance(write, Write) else write._replace(write=change(write.write))

    return transactions, name, other


def unfenced(fence: Fence, write: Write) -> Packet:
    return Packet((write,), Multi((fence.checks()[0], Check("/controller_epoch", -1), *write.operations)))


def leaderless(
    batch: RequestBatch, brokers: Any, topic_partition: TopicPartition, replicas: Any = None
) -> None:
    """Without the first of them."""
    TOLD(batch, tuple(brokers)[1:], topic_partition, replicas)


def stops_only(batch: RequestBatch, brokers: Any, topic_partition: TopicPartition, *, delete: bool) -> None:
    """Nothing is deleted."""
    STOPPED(batch, brokers, topic_partition, delete=False)


TOLD, STOPPED, STATE_SET = RequestBatch.leader_and_isr, RequestBatch.stop_replica, rounds.set_state
BROKEN: dict[str, tuple[Any, str, Any]] = {
    "a list that rests on no request": lighter("write_unions", without_check("/reassign_partitions")),
    "a list of any version": lighter("write_unions", whatever_version),
    "a shrink that rests on no request": lighter("shrink", without_check("/reassign_partitions")),
    "a shrink that checks no state": lighter("shrink", without_check("/state")),
    "a shrink of any version": lighter("shrink", whatever_version),
    "an end that checks no state": lighter("finish", without_check("/state")),
    "an end that checks no lists": lighter("finish", without_check(Topic.path(T0.topic))),
    "an end of any version": lighter("finish", whatever_version),
    "an end backwards": lighter("finish", backwards),
    "an end without a record": lighter("finish", without_records),
    "an end leaves the request": (transactions, "_request", lambda request, now, version: ()),
    "an end leaves the lists": (transactions, "_topics", lambda context, completions: ()),
    "an end behind half a fence": (state_writes, "single", unfenced),
    "an announcement of any version": (
        rounds,
        "set_state",
        lambda *args: whatever_version(STATE_SET(*args)),
    ),
    "a leader gets no request": (RequestBatch, "leader_and_isr", leaderless),
    "nobody deletes": (RequestBatch, "stop_replica", stops_only),
    "all get requests to the end": (OpenReassignments, "late", property(lambda open_ones: {})),
    "held replicas get requests": (
        requests_batch._View,
        "replicas",
        lambda view, each, given: given or view.late.get(each) or view.context.replicas(each),
    ),
    "who was left out is forgotten": (OpenReassignments, "was_left_out", lambda moves, each: False),
    "interruptions are passed over": (
        OpenReassignments,
        "interrupted",
        lambda moves, led, context, pending_deletes: (),
    ),
}
"""Where it is, its name, and what stands there instead."""
SHOWN_BY = {
    "an end that checks no lists": "--moves 1/2 --cancels 1",
    "held replicas get requests": "--moves 1,2/2,3 --crashes 1",
    "who was left out is forgotten": "--moves 1/1,2 --expiries 1",
}
"""The others continue wherever one dies."""


@pytest.mark.parametrize("won", BROKEN)
def test_a_machine_without_a_rule_differs_from_the_model(won: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison has teeth: each change of a write, or of what brokers are sent, is noticed."""
    monkeypatch.setattr(*BROKEN[won])

    with pytest.raises(AssertionError):
        compared(SHOWN_BY.get(won, SHORT[0]))
