"""Claims blocks of producer ids in `/latest_producer_id_block`, for the idempotent producers of a broker.

A claim reads the latest block and writes the next one at the version that was read. If another broker was
faster, it reads again. A write with an unknown outcome is not read back: its block may never be used, and the
next claim takes another one.

Source: kafka/coordinator/transaction/ProducerIdManager.scala@2.8.2, which waits for ZooKeeper where this
broker responds with error 14.
"""

from __future__ import annotations

from zkgroup.broker.machine.events import BrokerContext, ProducerIdsClaimed
from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import Znode
from zkgroup.model.requests import Create, MultiDone, SetData
from zkgroup.runtime.procedures import (
    ConnectionLossError,
    NoAuthError,
    Procedure,
    UnexpectedReplyError,
    Work,
    read_many,
    write,
)
from zkgroup.wire.messages import ErrorCode
from zkgroup.znodes.cluster import ProducerIdBlock


class ProducerIdClaims:
    """Performs `ClaimProducerIds`; one claim answers all events before it."""

    def __init__(self, core: BrokerContext) -> None:
        self._core = core
        self._is_wanted = False

    def wanted(self) -> None:
        """Notes that a block is needed."""
        self._is_wanted = True

    def refuse_without_connection(self) -> None:
        """Ends a claim that cannot be sent now."""
        if self._is_wanted and not self._core.connected:
            self._claimed(None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def next(self) -> Work | None:
        return ("claim producer ids", self._claim) if self._is_wanted else None

    def _claim(self) -> Procedure[None]:
        try:
            block = yield from self._next_block()
        except (ConnectionLossError, NoAuthError, UnexpectedReplyError):
            self._claimed(None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            raise
        except (CorruptZnodeError, ConfigError) as error:
            self._core.note("producer_ids.unreadable", path=ProducerIdBlock.path(), detail=str(error))
            self._claimed(None, ErrorCode.UNKNOWN)
            return
        self._claimed(block, ErrorCode.NONE)

    def _next_block(self) -> Procedure[ProducerIdBlock]:
        path, broker = ProducerIdBlock.path(), self._core.broker
        assert broker is not None
        while True:
            ((znode,),) = yield from read_many([path])
            block = ProducerIdBlock.after(_latest(znode), broker)
            if znode is None:
                operation: Create | SetData = Create(path, block.encode())
            else:
                operation = SetData(path, block.encode(), znode.stat.version)
            if isinstance((yield from write([operation], ())), MultiDone):
                return block

    def _claimed(self, block: ProducerIdBlock | None, error: ErrorCode) -> None:
        self._is_wanted = False
        self._core.emit(ProducerIdsClaimed(block, error))


def _latest(znode: Znode | None) -> ProducerIdBlock | None:
    """The latest block; None before the first one. Raises CorruptZnodeError."""
    if znode is None or not znode.data:
        return None
    return ProducerIdBlock.decode(znode.path, znode.data)
