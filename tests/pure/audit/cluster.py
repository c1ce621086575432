"""Histories of brokers and controllers made by hand, as real ones and ours write them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tests.worlds.audit_log import AuditLog, Partition
from zkgroup.zkfiles.records import Operation, TransactionType

CONTROLLER = "/controller"
EPOCH = "/controller_epoch"
REASSIGN = "/admin/reassign_partitions"


class Cluster(AuditLog):
    """A log with brokers. Session 1 is that of broker 1, and so on, unless a test says otherwise."""

    def start(self, *brokers: int, controller: int | None = None) -> int:
        """Opens sessions and registers; the first broker is elected, in epoch 1, unless another is named."""
        for broker in brokers:
            self.broker_comes(broker, broker)
        ruler = brokers[0] if controller is None else controller
        return self.elect(ruler, ruler, 1)

    def broker(self, broker: int, session: int, data: str | None = None) -> int:
        fields = {"jmx_port": -1, "timestamp": "1", "host": "h", "version": 1, "port": 9092}
        return self.create(f"/brokers/ids/{broker}", data or json.dumps(fields), session, ephemeral=True)

    def broker_comes(self, broker: int, session: int) -> int:
        """Opens the session and registers in it; the zxid of the registration."""
        self.open(session)
        return self.broker(broker, session)

    def elect(self, broker: int, session: int, epoch: int | None) -> int:
        """As 0.8.2.2 does it: `/controller`, then the epoch, which None leaves out."""
        zxid = self.create(CONTROLLER, controller(broker), session, ephemeral=True)
        if epoch is not None:
            self.raise_epoch(epoch, session)
        return zxid

    def elect_ours(self, broker: int, session: int, epoch: int) -> int:
        """As controllers of ours do it: all in one multi, `/controller` set once."""
        return self.multi(
            session,
            self.creation(CONTROLLER, controller(broker), ephemeral=True),
            Operation(TransactionType.SET_DATA, CONTROLLER, controller(broker).encode(), version=1),
            self.setting(EPOCH, str(epoch)),
            self.creation(f"/zkgroup/controller/history/{epoch}", "{}"),
        )

    def raise_epoch(self, epoch: int | str, session: int) -> int:
        if self.exists(EPOCH):
            return self.set(EPOCH, str(epoch), session)
        return self.create(EPOCH, str(epoch), session)

    def state(
        self,
        partition: Partition,
        leader: int,
        isr: Sequence[int],
        *,
        epoch: int = 0,
        controller_epoch: int = 1,
        session: int = 1,
    ) -> int:
        """Makes a state, or writes it again."""
        path, text = state_path(partition), state_text(leader, isr, epoch, controller_epoch)
        return self.set(path, text, session) if self.exists(path) else self.create(path, text, session)

    def reassign(self, targets: Mapping[Partition, Sequence[int]], session: int = 1) -> int:
        """Asks for moves, or writes again what is left of them."""
        moves = [
            {"topic": topic, "partition": number, "replicas": list(replicas)}
            for (topic, number), replicas in targets.items()
        ]
        text = json.dumps({"version": 1, "partitions": moves})
        if self.exists(REASSIGN):
            return self.set(REASSIGN, text, session)
        return self.create(REASSIGN, text, session)

    def exists(self, path: str) -> bool:
        return path in self._versions


def controller(broker: int) -> str:
    return json.dumps({"version": 1, "brokerid": broker, "timestamp": "1"})


def state_path(partition: Partition) -> str:
    return f"/brokers/topics/{partition[0]}/partitions/{partition[1]}/state"


def state_text(leader: int, isr: Sequence[int], epoch: int = 0, controller_epoch: int = 1) -> str:
    return json.dumps(
        {
            "controller_epoch": controller_epoch,
            "leader": leader,
            "version": 1,
            "leader_epoch": epoch,
            "isr": list(isr),
        }
    )
