"""The machine's transactions of static members are those of the model (static members, recipes 24)."""

from __future__ import annotations

from collections.abc import Sequence

from tests.programs.model import recipes
from tests.programs.model.model_and_server import ModelAndServer
from tests.programs.model.static_members import AWAY, KEPT, NOTHING, Watching, end_ops, keep_ops, mark_ops
from tests.programs.model.values import Configuration, Op, set_data
from tests.worlds.stepped_group import GROUP, Member, SteppedGroup, multis
from zkgroup.consumer.machine import events as ev
from zkgroup.settings import GroupSettings
from zkgroup.znodes.group_records import StaticMember

CFG = Configuration(members=3, static=frozenset({0, 1, 2}))
GRACE_MS = 8000


def _sent(worlds: ModelAndServer, actor: Member) -> list[Sequence[Op]]:
    """The transactions that write an entry, as the model has them."""
    return [
        [worlds.op(one) for one in operations if one.path in worlds.places]
        for operations in multis(actor.asked)
        if any("/static/" in one.path for one in operations)
    ]


def test_each_transaction_is_the_models() -> None:
    """Register, mark, end, register again, leave."""
    worlds, stage = ModelAndServer(CFG), SteppedGroup({"t": 3})
    settings = GroupSettings(consumer_id="m", restart_grace_ms=GRACE_MS)
    first, second, third = (stage.join(f"m{m}", settings=settings) for m in range(3))
    third.kill()
    del stage.actors["m2"], stage.server.clients[third.client.name]
    stage.run(3 * GRACE_MS)
    second.post(ev.CloseRequested(True, stage.clock.now_ms() + 5000))
    stage.run(1000)
    again = stage.join("m2", settings=settings)

    registered = [*recipes.register_ops(2), *keep_ops(2, 1, None)]
    ended = end_ops(CFG, 0, Watching(2, 1, (AWAY, 1)))
    assert _sent(worlds, third) == [registered]
    assert _sent(worlds, first)[1:] == [mark_ops(0, Watching(2, 0, (KEPT, 1))), ended]
    assert _sent(worlds, second)[1:][0][1:] == [set_data("static", 1, (NOTHING, 0), 0)]
    assert _sent(worlds, again) == [[*recipes.register_ops(2), *keep_ops(2, 1, 2)]]
    assert stage.server.find(StaticMember.path(GROUP, f"{GROUP}_m1")) is not None
