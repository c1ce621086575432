"""The controlled shutdown of a broker: it asks the controller that others lead its partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from zkgroup.broker.server.apis import BROKER_EPOCH_VERSION
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import BrokerAuthenticationError, ConfigError, WireError
from zkgroup.model.requests import Session
from zkgroup.runtime.logs import get_logger
from zkgroup.security.client import ClientSecurity
from zkgroup.wire.client import BrokerClient
from zkgroup.wire.control import BrokerEndPoint, ControlledShutdownRequest, ControlledShutdownResponse
from zkgroup.wire.messages import ErrorCode, describe

log = get_logger("zkgroup.broker")


class ZooKeeperAbsence:
    """Notes that ZooKeeper has not been reached for the session timeout. Used on one event loop.

    A controlled shutdown is of no use then: no controller can elect leaders, and the broker's session ends
    anyway. Kafka's broker waits for all its retries, 100 s by default.
    """

    def __init__(self, session_timeout_ms: int, on_long: Callable[[], None]) -> None:
        """
        Args:
            session_timeout_ms: until a server grants another one.
            on_long: called when it is so long.
        """
        self.is_long = False
        """On any thread."""
        self._timeout_s = session_timeout_ms / 1000
        self._on_long = on_long
        self._timer: asyncio.TimerHandle | None = None

    def __str__(self) -> str:
        return f"ZooKeeper has not been reached for the session timeout of {self._timeout_s:g} s"

    def connected(self, session: Session) -> None:
        """ZooKeeper is there."""
        self.is_long = False
        self._timeout_s = session.timeout_ms / 1000
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def disconnected(self) -> None:
        """The connection is lost."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._timeout_s, self._is_over)

    def _is_over(self) -> None:
        self.is_long = True
        self._on_long()


async def run_controlled_shutdown(
    request: ControlledShutdownRequest,
    find_controller: Callable[[], Awaitable[BrokerEndPoint | None]],
    settings: BrokerSettings,
    wait_while_others_live: Callable[[float], Awaitable[bool]],
    security: ClientSecurity | None = None,
) -> bool:
    """Requests a controlled shutdown until it is complete, is of no use or has no retry left; returns which.

    Once no other broker is live, none can lead its partitions, and a retry would only delay the end. Kafka
    retries nevertheless: its last broker takes 10 s more.

    Args:
        wait_while_others_live: waits so many seconds; returns False as soon as no other broker is live.
        security: how the controller is reached.
    """
    broker = request.broker
    attempts = settings.controlled_shutdown_max_retries
    for attempt in range(1, attempts + 1):
        why = await _try_controlled_shutdown(request, await find_controller(), settings, security)
        if why is None:
            return True
        log.warning("broker %d: controlled shutdown, try %d of %d: %s", broker, attempt, attempts, why)
        retry_s = settings.controlled_shutdown_retry_backoff_ms / 1000
        if attempt < attempts and not await wait_while_others_live(retry_s):
            log.warning("broker %d is the last live one: no other can lead its partitions", broker)
            return False
    log.warning("broker %d stops; its partitions get new leaders when its session ends", broker)
    return False


async def _try_controlled_shutdown(
    request: ControlledShutdownRequest,
    controller: BrokerEndPoint | None,
    settings: BrokerSettings,
    security: ClientSecurity | None,
) -> str | None:
    """Sends one request; returns None if the shutdown is complete, else the reason why not.

    A controller of Kafka 0.8.2.2 closes the connection of version 2, and gets version 0.
    """
    if controller is None:
        return "there is no controller"
    link = BrokerClient(
        controller.host,
        controller.port,
        client_id=f"broker-{request.broker}",
        timeout_ms=settings.controller_socket_timeout_ms,
        security=security,
    )
    try:
        try:
            answer = await link.ask(request, ControlledShutdownResponse, version=BROKER_EPOCH_VERSION)
        except (ConnectionResetError, EOFError):
            answer = await link.ask(request, ControlledShutdownResponse)
    except (OSError, EOFError, WireError, BrokerAuthenticationError, ConfigError) as error:
        return f"controller {controller.broker} did not answer: {str(error) or type(error).__name__}"
    finally:
        await link.close()
    if answer.error != ErrorCode.NONE:
        return f"controller {controller.broker} answered {describe(answer.error)}"
    if answer.remaining:
        named = ", ".join(map(str, answer.remaining[:5]))
        return f"it still leads {len(answer.remaining)} partitions: {named}"
    return None
