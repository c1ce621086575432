"""What makes a broker of ours one of Kafka, for all that others see of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from zkgroup.broker.machine.preparing import Preparing
from zkgroup.model import Znode
from zkgroup.model.ports import Store
from zkgroup.model.requests import Create, Multi, Outcome, Request, SetData
from zkgroup.znodes.brokers import BrokerRegistration


class AmongKafka(Preparing):
    """Of a broker of Kafka: other brokers of Kafka are no obstacle."""

    def _is_foreign(self, znode: Znode) -> bool:
        return False


class WithoutKey:
    """A store that registers a broker as Kafka does: without our key."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.listen, self.abandon, self.close = store.listen, store.abandon, store.close

    @property
    def last_zxid(self) -> int:
        return self._store.last_zxid

    def submit(
        self,
        request: Request,
        *,
        incarnation: int,
        on_outcome: Callable[[Outcome], None],
        on_watch: Callable[[str], None] | None = None,
    ) -> None:
        """See `Store`."""
        if isinstance(request, Multi):
            request = Multi(tuple(_without_key(each) for each in request.operations))
        self._store.submit(request, incarnation=incarnation, on_outcome=on_outcome, on_watch=on_watch)


def _without_key(operation: Any) -> Any:
    is_ours = isinstance(operation, Create | SetData) and operation.path.startswith("/brokers/ids/")
    if not is_ours:
        return operation
    told = BrokerRegistration.decode(operation.path, operation.data)
    plain = dataclasses.replace(told, extensions={})
    return dataclasses.replace(operation, data=plain.encode())
