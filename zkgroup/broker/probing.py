"""What brokers and controllers answer to a probe: whether they do their work, and whether their parts run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Any, Final

from zkgroup.controller.controller import Controller
from zkgroup.metrics.probes import Probe

ANSWER_S: Final = 0.8
"""Longest wait for the threads of a broker: Kubernetes waits a second for a probe."""


def silent_parts(beats: Mapping[str, Future[Any]]) -> list[str]:
    """The names of the parts whose futures are not done in time: these threads hang, or have ended."""
    wait(beats.values(), ANSWER_S)
    return [part for part, beat in beats.items() if not beat.done() or beat.cancelled() or beat.exception()]


def probe_of(
    part: str,
    status: str,
    beats: Mapping[str, Future[Any]],
    *,
    failure: BaseException | None,
    is_leaving: bool,
    not_ready: Callable[[], str | None],
) -> Probe:
    """The answer of a broker or a controller that was started.

    Args:
        part: its name.
        status: what it does.
        beats: its parts; a future is done once the part has come to it.
        failure: the error that stopped it.
        is_leaving: it is being closed: its parts end one after another.
        not_ready: tells why it does not do its work; called once all parts have come to their futures.
    """
    unhealthy = unready = None
    if failure is not None:
        unhealthy = f"has failed: {failure}"
    elif is_leaving:
        unready = "leaves the cluster"
    elif silent := silent_parts(beats):
        unhealthy = f"no answer within {ANSWER_S:g} s from its {', '.join(silent)}"
    else:
        unready = not_ready()
    return Probe(part=part, status=status, unhealthy=unhealthy, not_ready=unready, is_leaving=is_leaving)


def not_in_control(controller: Controller | None) -> str | None:
    """Why the controller of this process does not do its work; None also where another one is active."""
    if controller is None:
        return "takes no part in elections of the controller yet"
    return "is the controller, and loads the cluster" if controller.is_loading else None
