"""How a stopping broker has its leaderships taken: ControlledShutdown to the controller.

Source: controller.md 5.9, kafka/server/KafkaServer.scala@0.8.2.2 (`controlledShutdown`). The controller is
asked of ZooKeeper, and of the metadata cache where that does not tell, so that a broker also stops while
ZooKeeper is away (KAFKA-9189).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from zkgroup.broker.node.link import Link
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import WireError
from zkgroup.wire.control import Broker, ControlledShutdownRequest, ControlledShutdownResponse
from zkgroup.wire.error_codes import ErrorCode, describe

log = logging.getLogger("zkgroup.broker")

Pause = Callable[[float], Awaitable[None]]


async def shut_down(
    broker: int,
    find_controller: Callable[[], Awaitable[Broker | None]],
    settings: BrokerSettings,
    pause: Pause = asyncio.sleep,
) -> bool:
    """Asks until nothing stands in the way, as often as the settings say. Whether that was so in the end."""
    attempts = settings.controlled_shutdown_max_retries
    for attempt in range(1, attempts + 1):
        why = await _try(broker, await find_controller(), settings)
        if why is None:
            return True
        log.warning("broker %d: controlled shutdown, try %d of %d: %s", broker, attempt, attempts, why)
        if attempt < attempts:
            await pause(settings.controlled_shutdown_retry_backoff_ms / 1000)
    log.warning("broker %d stops all the same; its partitions wait for the end of its session", broker)
    return False


async def _try(broker: int, controller: Broker | None, settings: BrokerSettings) -> str | None:
    """None where it is done, else what stands in the way."""
    if controller is None:
        return "there is no controller"
    link = Link(
        controller.host,
        controller.port,
        client_id=f"broker-{broker}",
        timeout_ms=settings.controller_socket_timeout_ms,
    )
    try:
        answer = await link.ask(ControlledShutdownRequest(broker), ControlledShutdownResponse)
    except (OSError, EOFError, WireError) as error:
        return f"controller {controller.broker} did not answer: {str(error) or type(error).__name__}"
    finally:
        await link.close()
    if answer.error != ErrorCode.NONE:
        return f"controller {controller.broker} answered {describe(answer.error)}"
    if answer.remaining:
        named = ", ".join(map(str, answer.remaining[:5]))
        return f"it still leads {len(answer.remaining)} partitions: {named}"
    return None
