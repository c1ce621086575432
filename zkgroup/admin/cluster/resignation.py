"""An operator asks the controller to give up `/controller`, which nobody but its owner deletes (recipes 13).

The request names the `czxid` of the `/controller` that is meant, so that a successor never obeys it. A real
controller looks at no such request: there it is refused with the reason, before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zkgroup.admin.cluster.brokers import is_controller_only
from zkgroup.admin.cluster.controller_info import (
    ZKGROUP_VERSION,
    ControllerInfo,
    read_controller_info,
    refuse_kraft,
)
from zkgroup.admin.configs import write
from zkgroup.errors import ConflictError, NotFoundError, RefusedError
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.groups.snapshot import decode_or_error
from zkgroup.model import Znode
from zkgroup.model.requests import Check, Create, Operation, SetData
from zkgroup.znodes.controller import (
    Controller,
    ControllerEpoch,
    ResignRequest,
    controller_state_path,
    standby_controllers_path,
)
from zkgroup.znodes.ids import number_of
from zkgroup.znodes.paths import zkgroup_path

POLL_S = 0.5
"""Seconds between two reads at `/controller`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResignationPlan:
    """Who would be asked. Nothing has been."""

    as_of: AsOf
    controller: int
    epoch: int | None
    czxid: int
    """Of its `/controller`."""
    standing: Znode | None
    """A request that meant an earlier `/controller`: it is written over."""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resignation:
    """What became of it."""

    as_of: AsOf
    resigned: bool
    """The `/controller` that was meant is gone."""
    successor: int | None
    """Who rules now; the same broker may have been elected again where nobody else stands."""


def plan_resignation(ensemble: Ensemble) -> ResignationPlan:
    """Finds the controller.

    Raises NotFoundError where there is none, RefusedError where it is one of Kafka or cannot be read,
    ConflictError where it has been asked already.
    """
    ensemble.zk.sync("/")
    info = read_controller_info(ensemble)
    refuse_kraft(info)
    found = ensemble.zk.read_many([ControllerEpoch.path(), ResignRequest.path()])
    epoch, request = found[ControllerEpoch.path()], found[ResignRequest.path()]
    controller = _refuse_others(info)
    assert info.controller_znode is not None
    czxid = info.controller_znode.stat.czxid
    if request is not None and _means(request, czxid):
        raise ConflictError(
            f"{request.path}: broker {controller.broker} has been asked already and has not resigned yet; "
            "`zkgroup controller describe` shows how far it has come"
        )
    number = decode_or_error(epoch, ControllerEpoch.decode).value if epoch else None
    return ResignationPlan(
        as_of=ensemble.as_of(),
        controller=controller.broker,
        epoch=number.epoch if number else None,
        czxid=czxid,
        standing=request,
        notes=tuple(_notes(ensemble, info, controller.broker)),
    )


def ask_to_resign(ensemble: Ensemble, plan: ResignationPlan) -> None:
    """Writes the request, if a controller of zkgroup still rules.

    Raises ConflictError where another request has come up, or the controller changed, since the plan.
    """
    ensemble.zk.create_missing(zkgroup_path(), controller_state_path())
    path, data = ResignRequest.path(), ResignRequest(plan.czxid).encode()
    asked: Operation = Create(path, data)
    if plan.standing is not None:
        asked = SetData(path, data, plan.standing.stat.version)
    write(ensemble, [Check(Controller.path(), ZKGROUP_VERSION), asked], path, data)


def wait_for_successor(ensemble: Ensemble, plan: ResignationPlan, timeout_s: float) -> Resignation:
    """Waits until the controller has resigned and somebody rules; the last read is the result."""
    end_ms = ensemble.clock.now_ms() + round(timeout_s * 1000)
    while True:
        ensemble.zk.sync("/")
        znode = ensemble.zk.find(Controller.path())
        resigned = znode is None or znode.stat.czxid != plan.czxid
        left_ms = end_ms - ensemble.clock.now_ms()
        if (resigned and znode is not None) or left_ms <= 0:
            ruler = decode_or_error(znode, Controller.decode).value if resigned and znode else None
            return Resignation(
                as_of=ensemble.as_of(), resigned=resigned, successor=ruler.broker if ruler else None
            )
        ensemble.pause(min(POLL_S, left_ms / 1000))


def _refuse_others(info: ControllerInfo) -> Controller:
    """The controller, which is one of ours."""
    path = Controller.path()
    if info.controller_znode is None:
        raise NotFoundError(f"{path}: there is no controller to resign")
    if info.controller is None:
        told = "; ".join(info.unreadable)
        raise RefusedError(f"{path}: expected a controller of zkgroup, found what cannot be read: {told}")
    if not info.is_ours:
        raise RefusedError(
            f"{path}: broker {info.controller.broker} is a real Kafka controller, which looks at no such "
            "request, and nobody but its owner may delete its znode (it would go on writing beside the next "
            "one); stop that broker instead, and another one is elected"
        )
    return info.controller


def _means(request: Znode, czxid: int) -> bool:
    found = decode_or_error(request, ResignRequest.decode).value
    return found is not None and found.czxid == czxid


def _notes(ensemble: Ensemble, info: ControllerInfo, controller: int) -> Iterator[str]:
    """Who may follow."""
    names = ensemble.zk.list_many([standby_controllers_path()])[standby_controllers_path()] or ()
    waiting = sorted(number for name in names if (number := number_of(name)) is not None)
    hosts = sorted(
        number for number, one in info.brokers.items() if number != controller and not is_controller_only(one)
    )
    real = [number for number in hosts if not info.brokers[number].is_zkgroup]
    if real:
        yield f"broker {_numbers(real)} runs real Kafka and may be elected next"
    if not waiting and not hosts:
        yield f"nobody else is registered: broker {controller} will be elected again"


def _numbers(brokers: list[int]) -> str:
    return ", ".join(map(str, brokers))
