"""The common part of member programs (see `members`): commands on stdin, events on stdout."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping

_printing = threading.Lock()


def say(event: str, **fields: object) -> None:
    line = json.dumps({"event": event, "at_ms": int(time.time() * 1000), **fields})
    with _printing:
        print(line, flush=True)


def together(acts: Iterable[Callable[[], object]]) -> None:
    """Runs each function in its own thread and waits for all."""
    threads = [threading.Thread(target=act) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run(make: Callable[[Mapping[str, str]], object], silent: Collection[str]) -> None:
    """Runs commands until `halt`; `silent`: those that are not reported as done."""
    program = make(dict(word.split("=", 1) for word in sys.argv[1:]))
    say("ready")
    for line in sys.stdin:
        command, *words = line.split()
        if command == "halt":
            break
        getattr(program, command)(words)
        if command not in silent:
            say("done", command=command)
    os._exit(0)
