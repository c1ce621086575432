"""Requests whose handlers are coroutines that wait, and how a task finishes one."""

from __future__ import annotations

import types
from collections.abc import Coroutine, Generator
from typing import Any, NamedTuple


class StartedRequest(NamedTuple):
    """A request whose handler waits."""

    coroutine: Coroutine[Any, Any, None]
    waited: Any
    """What the coroutine has yielded: the future that it waits for, or None for the next turn of the loop."""


@types.coroutine
def finish(started: StartedRequest, error: BaseException | None = None) -> Generator[Any, None, None]:
    """Runs the rest of a request in the present task; `error` is raised where the request waits."""
    coroutine, waited = started
    try:
        while True:
            if error is None:
                try:
                    yield waited
                except BaseException as raised:  # noqa: BLE001  # passed on
                    error = raised
            waited = coroutine.send(None) if error is None else coroutine.throw(error)
            error = None
    except StopIteration:
        return
    finally:
        error = None  # else it and this frame would keep each other
