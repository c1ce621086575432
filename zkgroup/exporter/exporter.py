"""The exporter at work: reads the ensemble once an interval, and serves the last reading to everybody."""

from __future__ import annotations

import html
import json
import logging
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Final, NamedTuple, Self

from zkgroup import pages
from zkgroup.errors import StoreUnavailableError, ZkGroupError
from zkgroup.exporter.history import ReadingHistory
from zkgroup.exporter.metrics import CONTENT_TYPE, render
from zkgroup.exporter.reading import EnsembleReading, Reader, ReadingSettings, ask_servers
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.lag_verdict import LagWindows
from zkgroup.groups.reads import LogEndReader
from zkgroup.metrics.probes import Probe
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock
from zkgroup.model.text import iso_time, named
from zkgroup.runtime.http_server import HttpServer, Page, Users
from zkgroup.security.client import PLAIN_ACCESS, BrokerAccess
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.client import SystemClock, ZooKeeperClient
from zkgroup.zookeeper.settings import ClientSettings

_log = logging.getLogger("zkgroup.exporter")

JSON: Final = "application/json"
HTML: Final = "text/html; charset=utf-8"
HANGS_MS: Final = 60_000
"""A read that takes so long, and longer than three intervals, hangs."""
CLOSE_S: Final = 5.0


class EnsembleConnection(NamedTuple):
    """An ensemble with its connection."""

    ensemble: Ensemble
    packets: Callable[[], int | None]
    """Counts the requests that were sent to it."""
    close: Callable[[], object]
    """Ends the connection: a read that is under way fails."""


Connect = Callable[[], EnsembleConnection]
"""Opens a connection to the ensemble; need not wait for it."""
LogEnds = Callable[[Ensemble], AbstractContextManager[LogEndReader | None]]
"""Opens what is asked for log ends in place of the leaders of partitions."""
Document = Callable[[EnsembleReading, ReadingHistory, str | None], Mapping[str, object]]
"""Makes the document of a reading and those before; with the name of a group, all of it."""


@dataclass(frozen=True, kw_only=True)
class ExporterSettings:
    """What an exporter reads, how often, and to whom it shows it."""

    listen: tuple[str, int] = ("127.0.0.1", 0)
    """Host and port of the server; port 0 for a free one."""
    interval_ms: int = 15_000
    """From the beginning of a read to that of the next."""
    reading: ReadingSettings = field(default_factory=ReadingSettings)
    """The parts that are read."""
    tls: ssl.SSLContext | None = None
    """Of the server; None for plain text."""
    certificate_ends_s: float | None = None
    """End of the validity of the server's certificate, in epoch seconds; None in plain text."""
    users: Users | None = None
    """Those who may read what it serves; None for everybody."""


class Exporter:
    """Reads on a thread of its own, whatever happens; serves until it is closed.

    A failed read makes everything unknown until the next one succeeds, but for what the servers of ZooKeeper
    say of themselves. An error that ends the client of
    ZooKeeper for good, as refused credentials, ends only that client: the next read makes another.
    """

    def __init__(
        self,
        connect: Connect,
        settings: ExporterSettings,
        document: Document,
        *,
        log_ends: LogEnds = lambda ensemble: nullcontext(),
        clock: Clock | None = None,
    ) -> None:
        """Listens already. Raises ConfigError where it cannot.

        Args:
            connect: opens the connection to the ensemble.
            settings: what it reads and serves.
            document: makes what `/api/snapshot` serves.
            log_ends: is opened with each connection, for log ends that no leader is asked for.
            clock: for tests.
        """
        self._connect, self._settings, self._document = connect, settings, document
        self._log_ends, self._clock = log_ends, clock or SystemClock()
        self._changed = threading.Condition()
        self._stopped = False
        self._closing: Callable[[], object] = lambda: None
        self._reading: EnsembleReading | None = None
        self._errors = 0
        self._began_ms: int | None = None
        self._rendering = threading.Lock()
        self._rendered: tuple[EnsembleReading | None, bytes] | None = None
        self._snapped: tuple[EnsembleReading, bytes] | None = None
        self._history = ReadingHistory()
        self._page = page_for_people(settings)
        served = {
            "/": lambda query: Page(HTML, self._page),
            "/metrics": self._metrics,
            "/healthz": self._health,
            "/api/snapshot": self._snapshot,
        }
        self._server = HttpServer(
            settings.listen,
            served,
            tls=settings.tls,
            users=settings.users,
            open_paths=frozenset({"/healthz"}),
        )
        self._thread = threading.Thread(target=self._run, name="zkgroup-exporter-reads")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port at which it listens."""
        return self._server.address

    @property
    def reading(self) -> EnsembleReading | None:
        """The last reading; None before the first."""
        return self._reading

    def start(self) -> None:
        """Begins to read and to serve."""
        self._server.start()
        self._thread.start()

    def close(self) -> None:
        """Ends reads, server and connection."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
            closing = self._closing
        closing()
        self._server.close()
        self._thread.join()

    def _run(self) -> None:
        windows = LagWindows()
        while not self._stopped:
            try:
                with self._opened() as (ensemble, packets, _), self._opened_ends(ensemble) as log_ends:
                    reader = Reader(
                        ensemble, self._settings.reading, windows, log_ends=log_ends, packets=packets
                    )
                    while self._read(reader):
                        pass
            except Exception as error:  # noqa: BLE001 - whatever it is, the next read may succeed
                self._fail(error, self._clock.now_ms())

    @contextmanager
    def _opened(self) -> Iterator[EnsembleConnection]:
        opened = self._connect()
        with self._changed:
            self._closing = opened.close
            if self._stopped:
                opened.close()
        try:
            yield opened
        finally:
            opened.close()

    @contextmanager
    def _opened_ends(self, ensemble: Ensemble) -> Iterator[LogEndReader | None]:
        """The source of log ends. One that cannot be opened costs these alone; each read tries again."""
        with ExitStack() as stack:

            def opened() -> LogEndReader | None:
                return stack.enter_context(self._log_ends(ensemble))

            try:
                found = opened()
            except StoreUnavailableError:
                raise
            except ZkGroupError:
                found = _opening(opened)
            yield found

    def _read(self, reader: Reader) -> bool:
        """Reads once, and waits for the end of the interval; returns whether to read on."""
        began_ms = self._began_ms = self._clock.now_ms()
        try:
            reading = reader.read()
        except Exception as error:  # noqa: BLE001 - the same
            self._fail(error, began_ms)
            return False
        for reason in sorted(set(reading.unknown) - set(self._reading.unknown if self._reading else ())):
            _log.warning("not known: %s", reason)
        self._publish(reading, len(reading.unknown), began_ms)
        return not self._stopped

    def _fail(self, error: Exception, began_ms: int) -> None:
        if self._stopped:
            return  # the connection was closed under it
        is_ours = isinstance(error, ZkGroupError)
        reason = str(error) if is_ours else f"{type(error).__name__}: {error}"
        if self._reading is None or self._reading.unknown != (reason,):
            _log.warning("nothing is known: %s", reason, exc_info=None if is_ours else error)
        servers = ask_servers(self._settings.reading)
        took_s = (self._clock.now_ms() - began_ms) / 1000
        reading = EnsembleReading(
            time_ms=self._clock.wall_ms(), took_s=took_s, servers=servers, unknown=(reason,)
        )
        self._publish(reading, 1, began_ms)

    def _publish(self, reading: EnsembleReading, errors: int, began_ms: int) -> None:
        """Shows a reading, and waits until the next one is due."""
        self._history.add(reading)
        with self._changed:
            self._reading = reading
            self._errors += errors
            self._began_ms = None
            left_ms = began_ms + self._settings.interval_ms - self._clock.now_ms()
            self._changed.wait_for(lambda: self._stopped, max(0, left_ms) / 1000)

    def _metrics(self, query: Mapping[str, str]) -> Page:
        with self._changed:
            reading, errors = self._reading, self._errors
        with self._rendering:
            if self._rendered is None or self._rendered[0] is not reading:
                self._rendered = (
                    reading,
                    render(reading, errors, self._clock.wall_ms(), self._settings.certificate_ends_s),
                )
            return Page(CONTENT_TYPE, self._rendered[1])

    @property
    def _hangs(self) -> bool:
        began_ms = self._began_ms
        least_ms = max(HANGS_MS, 3 * self._settings.interval_ms)
        return began_ms is not None and self._clock.now_ms() - began_ms > least_ms

    def _probe(self) -> Probe:
        """See `serve_metrics`."""
        reading = self._reading
        unknown = reading.unknown if reading else ()
        return Probe(
            part="exporter",
            status=f"not known: {named(unknown, 1)}" if unknown else "all is known",
            unhealthy="a read hangs" if self._hangs else None,
            not_ready="nothing has been read yet" if reading is None else None,
            is_leaving=self._stopped,
        )

    def _health(self, query: Mapping[str, str]) -> Page:
        """It is well as long as its reads end, though ZooKeeper may be away: to restart it mends nothing."""
        reading, hangs = self._reading, self._hangs
        found = {
            "ok": not hangs,
            "read_at": iso_time(reading.time_ms) if reading else None,
            "is_known": reading is not None and not reading.unknown,
        }
        status = HTTPStatus.SERVICE_UNAVAILABLE if hangs else HTTPStatus.OK
        return Page(JSON, f"{json.dumps(found)}\n".encode(), status)

    def _snapshot(self, query: Mapping[str, str]) -> Page:
        reading, group = self._reading, query.get("group")
        if reading is None:
            return _error(HTTPStatus.SERVICE_UNAVAILABLE, "nothing has been read yet; ask again")
        if group is not None and group not in reading.groups:
            return _error(HTTPStatus.NOT_FOUND, f"there is no group {group!r}, or it is not read")
        if group is not None:
            return Page(JSON, self._json(reading, group))
        with self._rendering:
            if self._snapped is None or self._snapped[0] is not reading:
                self._snapped = (reading, self._json(reading, None))
            return Page(JSON, self._snapped[1])

    def _json(self, reading: EnsembleReading, group: str | None) -> bytes:
        return json.dumps(self._document(reading, self._history, group), separators=(",", ":")).encode()


def _opening(opened: Callable[[], LogEndReader | None]) -> LogEndReader:
    """Opens the source when it is asked, until that succeeds."""
    found: list[LogEndReader | None] = []

    def ask(partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | str]:
        if not found:
            found.append(opened())
        (reader,) = found
        return reader(partitions) if reader is not None else {}

    return ask


def _error(status: HTTPStatus, text: str) -> Page:
    return Page(JSON, f"{json.dumps({'error': text})}\n".encode(), status)


def page_for_people(settings: ExporterSettings) -> bytes:
    """The HTML of `/`, which asks for `api/snapshot` once an interval."""
    name = str(settings.reading.servers or "this ensemble")
    return pages.page(
        *("zkgroup.exporter", "live.html"),
        style="live.css",
        scripts=("live_groups.js", "live.js"),
        fetches=True,
        interval=str(settings.interval_ms),
        name=html.escape(name.replace(",", ", ")),
    ).encode()


def connection_to(
    address: str,
    settings: ClientSettings,
    *,
    access: BrokerAccess = PLAIN_ACCESS,
    timeout_s: float = 10.0,
) -> EnsembleConnection:
    """Opens a connection to a real ensemble, and does not wait for it. Raises ConfigError.

    Args:
        address: of ZooKeeper.
        settings: of the client.
        access: how brokers are reached.
        timeout_s: longest wait for the answer to a read.
    """
    client = ZooKeeperClient(address, settings)
    ensemble = Ensemble(zk=Blocking(client, timeout_s=timeout_s), clock=SystemClock(), access=access)
    return EnsembleConnection(ensemble, lambda: client.packets, lambda: client.close(CLOSE_S))
