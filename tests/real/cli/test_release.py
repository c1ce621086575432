"""`zkgroup coordinator release`, where the only broker of a group was killed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.programs.chaos.groups.brokers import CoordinatorBrokers
from tests.programs.raw_groups import OK, UNKNOWN_MEMBER, RawConnection, RawMember, find_coordinator
from tests.waiting import eventually
from tests.worlds.shell import Shell
from zkgroup.errors import RefusedError
from zkgroup.znodes.coordinated_groups import ProtocolMarker

GROUP = "billing"


async def joined(brokers: CoordinatorBrokers, member_id: str = "", generation: int = 0) -> RawMember:
    """A member of the group; with an id and a generation, those are asked for first, and are not known."""
    member = RawMember(await RawConnection.open(await find_coordinator(brokers.addresses, GROUP)), GROUP)
    if member_id:
        member.member_id, member.generation = member_id, generation
        assert await member.beat() == UNKNOWN_MEMBER
        member.member_id = ""
    await member.enter()
    assert await member.beat() == OK
    member.connection.close()
    return member


def test_a_group_whose_broker_was_killed_is_released(zk_server: Any, tmp_path: Path) -> None:
    """Refused while the broker lives; then marker and members are out, and no generation comes again."""
    shell = Shell(tmp_path, zk_server.address)
    with CoordinatorBrokers(zk_server.address, tmp_path, ids=(1,)) as brokers:
        before = asyncio.run(joined(brokers))
        refused = shell.run("coordinator", "release", GROUP, "--execute", "--yes")
        assert (refused.code, "broker 1 leads slot" in refused.err) == (RefusedError.exit_code, True), refused
        brokers.kill(1)

        released = eventually(
            lambda: shell.run("coordinator", "release", GROUP, "--execute", "--yes"),
            lambda ran: ran.code != RefusedError.exit_code,
        )
        assert released.out.startswith(f"released group {GROUP} of slot "), released
        assert released.out.endswith(": 1 stored member\n")
        assert brokers.zk.find(ProtocolMarker.path(GROUP)) is None

        brokers.start(1)
        after = asyncio.run(joined(brokers, before.member_id, before.generation))

    assert after.generation > before.generation
