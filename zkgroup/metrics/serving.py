"""Serves the metrics of this process, and the state of its members and brokers to supervisors."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from zkgroup.errors import ConfigError
from zkgroup.metrics.probes import Probe, Probed, not_healthy, not_ready
from zkgroup.metrics.systemd import Notifier, NotifySocket
from zkgroup.runtime.http_server import HttpServer, Page

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

HOST: Final = "127.0.0.1"


def serve_metrics(
    *parts: Probed,
    host: str = HOST,
    port: int | None = 0,
    registry: CollectorRegistry | None = None,
    notify: bool = True,
) -> MetricsServer:
    """Serves `/metrics`, `/healthz` and `/readyz` from now on, until `close`, on threads of its own.

    `/healthz` and `/readyz` answer 200, or 503 where a part is not healthy or not ready, with
    `{"ok": false, "reasons": [...]}`. The parts need not be started yet. Where `NOTIFY_SOCKET` is set,
    systemd is notified as well: READY, STATUS, STOPPING, and WATCHDOG while all parts are healthy.

    ```python
    consumer = Consumer("host:2181", group="billing", topics=["orders"], metrics=PrometheusMetrics())
    with serve_metrics(consumer, port=9400), consumer:
        ...
    ```

    What it returns has the `address` (host and port), the reasons `not_healthy()` and `not_ready()`, and
    `close()`; it is a context manager, of asyncio too.

    Args:
        parts: members, consumers, brokers and controllers of this process.
        host: where to listen; by default only programs of this machine get an answer.
        port: 0 for a free one; None serves nothing and only notifies systemd.
        registry: whose metrics are served; by default those of the process, as `PrometheusMetrics` has it.
        notify: False where the program notifies systemd itself.

    Raises ConfigError where the address cannot be had, and without the extra `metrics` if there is a port.
    """
    for part in parts:
        if not callable(getattr(part, "_probe", None)):
            raise ConfigError(f"parts: expected members, consumers and brokers of zkgroup, found {part!r}")
    return MetricsServer(parts, None if port is None else (host, port), registry, notify=notify)


class MetricsServer:
    """What `serve_metrics` returns. Its methods may be called from any thread."""

    def __init__(
        self,
        parts: tuple[Probed, ...],
        listen: tuple[str, int] | None,
        registry: CollectorRegistry | None,
        *,
        notify: bool,
    ) -> None:
        """See `serve_metrics`."""
        self._parts = parts
        self._server: HttpServer | None = None
        if listen is not None:
            pages = {
                "/metrics": _metrics_page(registry),
                "/healthz": lambda query: _state(self.not_healthy()),
                "/readyz": lambda query: _state(self.not_ready()),
            }
            self._server = HttpServer(listen, pages)
            self._server.start()
        self._notifier = Notifier(NotifySocket(os.environ), self._probes) if notify else None

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port at which it listens; None if it serves nothing."""
        return None if self._server is None else self._server.address

    def not_healthy(self) -> tuple[str, ...]:
        """Why the process should be replaced; empty while it is healthy. May take a second."""
        return not_healthy(self._probes())

    def not_ready(self) -> tuple[str, ...]:
        """Why the process does not do its work now; empty while it is ready. May take a second."""
        return not_ready(self._probes())

    def close(self) -> None:
        """Serves no more, and notifies systemd that the service stops; call it when the parts are closed."""
        if self._notifier is not None:
            self._notifier.close()
        if self._server is not None:
            self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def _probes(self) -> list[Probe]:
        return [part._probe() for part in self._parts]


def _metrics_page(registry: CollectorRegistry | None) -> Callable[[Mapping[str, str]], Page]:
    from zkgroup.metrics.prometheus import process_metrics

    return lambda query: Page(*process_metrics(registry))


def _state(reasons: tuple[str, ...]) -> Page:
    """200 without reasons, else 503 with them."""
    body = f"{json.dumps({'ok': not reasons, 'reasons': reasons})}\n".encode()
    return Page("application/json", body, HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK)
