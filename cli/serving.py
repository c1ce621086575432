"""The parts that serving commands share until SIGINT or SIGTERM: the signals, and events on stdout."""

from __future__ import annotations

import ctypes
import gc
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from types import FrameType, TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

from zkgroup.metrics.probes import Probed
from zkgroup.model.ports import MetricsSink
from zkgroup.model.text import iso_time

from .params import NO_METRICS, Metrics
from .render import Output, echo_err
from .schema import COUNT, STRING, JsonEvent, JsonKey, Schema, Shape, list_of

T = TypeVar("T")


M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
"""Of mallopt(3)."""
OBJECTS_BEFORE_COLLECTION: Final = 10_000
"""Python's own threshold is 700: the requests that wait in a busy broker are more objects than that."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """While the block runs, Python's garbage collector leaves out what there is now, and runs rarely.

    A program that serves has loaded its code by now, some 90,000 objects that stay until its end. To walk
    over them again and again took a sixth of a broker's CPU.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def keep_freed_memory() -> None:
    """Has glibc keep 64 MiB of freed memory, for the next answer to a fetch. Without effect elsewhere.

    An answer has megabytes. To give them back to the system, and have them cleared page by page for the next
    answer, took half of a broker's CPU.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_TRIM_THRESHOLD, 64 * 1024 * 1024)
        mallopt(M_MMAP_THRESHOLD, 32 * 1024 * 1024)


class StopSignals:
    """While the block runs, the first SIGINT or SIGTERM is remembered; a second one interrupts or hurries.

    The handler only writes a byte into a pipe: taking a lock in it could deadlock with its own thread.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, on_stop: Callable[[], None] | None = None, *, interrupts: bool = True) -> None:
        """`on_stop` runs in the handler, once: it must not block.

        `interrupts`: a second signal raises KeyboardInterrupt; else it sets `again`.
        """
        self._on_stop = on_stop
        self._interrupts = interrupts
        self.again = False
        self._former: dict[signal.Signals, Any] = {}
        self.received = False

    def __enter__(self) -> Self:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._former = {number: signal.signal(number, self._handle) for number in self._SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)
        os.close(self._read)
        os.close(self._write)

    def wait(self, timeout_s: float) -> bool:
        """Waits for a signal, this long at most; returns whether one was received."""
        if not self.received:
            select.select([self._read], [], [], timeout_s)
        return self.received

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received:
            if self._interrupts:
                raise KeyboardInterrupt
            self.again = True
            return
        self.received = True
        os.write(self._write, b"!")
        if self._on_stop:
            self._on_stop()


def metrics_sink(metrics: Metrics) -> MetricsSink | None:
    """Where the metrics of this process go: to the server of `supervised`, if there is one."""
    if metrics.port is None:
        return None
    from zkgroup.metrics import PrometheusMetrics

    return PrometheusMetrics()


@contextmanager
def supervised(part: Probed, metrics: Metrics = NO_METRICS) -> Iterator[None]:
    """Serves metrics and probes where they are asked for, and notifies systemd where it waits for that."""
    if metrics.port is None and "NOTIFY_SOCKET" not in os.environ:
        yield
        return
    from zkgroup.metrics import serve_metrics

    with serve_metrics(part, host=metrics.host, port=metrics.port) as served:
        if served.address is not None:
            echo_err(f"serving http://{address_text(*served.address)}/metrics")
        yield


def address_text(host: str, port: int) -> str:
    """`HOST:PORT`, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class EventLines:
    """Writes events whole and in order, from any thread."""

    STYLES: Mapping[str, str] = {}
    """Style of an event's name, for people."""
    WIDTH = 9
    """Of the column of names."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._gone: BrokenPipeError | None = None
        self.when_gone: Callable[[], None] = lambda: None
        """Called when the reader of the events has closed the pipe; must not wait."""

    def check(self) -> None:
        """Raises BrokenPipeError where the reader of the events has closed the pipe."""
        if self._gone is not None:
            raise self._gone

    def print(self, event: JsonEvent[T], value: T, message: str) -> None:
        """One event: its fields, from `value`, for programs, `message` for people."""
        now = iso_time(time.time_ns() // 1_000_000)
        assert now is not None
        with self._lock:
            if self._gone is not None:
                return
            try:
                self._write(event, now, value, message)
            except BrokenPipeError as error:  # `| head`: the command ends, and nothing failed
                self._gone = error
                self.when_gone()

    def _write(self, event: JsonEvent[T], now: str, value: T, message: str) -> None:
        if not self._out.is_table:
            self._out.event(event.json(value, now))
            return
        label = f"{event.name:<{self.WIDTH}}"
        label = self._out.paint(label, self.STYLES[event.name]) if event.name in self.STYLES else label
        self._out.event_line(f"{self._out.paint(now[11:23], 'dim')}  {label} {message}")


class Ready(NamedTuple):
    """A process serves. None: the key is left out."""

    zookeeper: str | None = None
    pids: Sequence[int] | None = None
    heap_bytes: int | None = None
    """Of each ZooKeeper server, the largest heap."""
    listen: str | None = None
    """`HOST:PORT`."""


def _given(key: str, schema: Schema) -> JsonKey:
    return JsonKey(key, schema, attrgetter(key), is_optional=True)


READY = JsonEvent(
    "ready",
    Shape(
        Ready,
        *(_given("zookeeper", STRING), _given("pids", list_of(COUNT)), _given("heap_bytes", COUNT)),
        _given("listen", STRING),
    ),
    is_timed=False,
)
"""`zookeeper start` says where its servers are, `exporter` where it listens."""
