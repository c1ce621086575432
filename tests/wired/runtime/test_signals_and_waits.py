"""A signal handler runs soon, also where the signal itself does not wake the thread that waits."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S, eventually
from zkgroup.model.ports import after, seconds_until, wait_for
from zkgroup.zookeeper.client import SystemClock


def _is_blocked(thread: threading.Thread) -> bool:
    """Whether it sleeps in `threading.Event.wait`."""
    assert thread.ident is not None
    frame = sys._current_frames()[thread.ident]
    fields = Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(") ")[2]
    return frame.f_globals["__name__"] == "threading" and fields.startswith("S")


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="no /proc tells what a thread does")
def test_a_handler_runs_while_the_main_thread_waits() -> None:
    """The past bug: a member that had not connected took a Ctrl-C only after its whole connection timeout.

    The signal goes to another thread: for the main thread this is the same as one that comes just before it
    blocks, and that cannot be had at will.
    """
    clock, main = SystemClock(), threading.main_thread()
    assert threading.current_thread() is main
    received: list[int] = []
    never = threading.Event()

    def signal_itself() -> None:
        eventually(lambda: _is_blocked(main), what="the main thread blocks")
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    helper = threading.Thread(target=signal_itself)
    former = signal.signal(signal.SIGUSR1, lambda number, frame: received.append(number))
    try:
        until_ms = after(clock, PATIENCE_S)
        helper.start()
        over = wait_for(clock, lambda: received, until_ms, never.wait)
        left_s = seconds_until(clock, until_ms)
        helper.join()
    finally:
        signal.signal(signal.SIGUSR1, former)

    assert (over, received) == (True, [signal.SIGUSR1])
    assert left_s > 0
