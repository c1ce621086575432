"""One round: members commit while their coordinators are killed and paused; then all is judged."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.long.interop.processes import Process
from tests.programs.chaos.groups.brokers import ENTRY, SESSION_MS, SLOTS, CoordinatorBrokers
from tests.programs.chaos.groups.clients import PARTITIONS, TOPIC
from tests.programs.chaos.groups.history import HistoryFile, Seen
from tests.programs.chaos.groups.judge import Judgement, judge, owners_at_the_end
from tests.programs.on_servers import hold
from tests.waiting import eventually
from zkgroup.history import read_transactions
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

MEMBERS_A_GROUP: Final = 5
PAUSES_S: Final = (1.0, SESSION_MS / 1000 + 3.0)
"""Below the session timeout of a coordinator, and beyond it, so that its slots move."""
DOWN_S: Final = (0.5, SESSION_MS / 1000 + 3.0)
"""Started again before its session is over, or after its slots have moved."""
BETWEEN_S: Final = (2.0, 5.0)
Say = Callable[[str], None]


class Members:
    """The processes of the members, each with members of several groups."""

    def __init__(self, bootstrap: str, home: Path, seed: int, clients: int, processes: int) -> None:
        groups = [f"group-{number}" for number in range(max(1, clients // MEMBERS_A_GROUP))]
        self.clients = {f"c{number}": groups[number % len(groups)] for number in range(clients)}
        self._histories = [HistoryFile(home / f"members-{number}.ndjson") for number in range(processes)]
        self._processes: list[Process] = []
        for number, history in enumerate(self._histories):
            names: dict[str, list[str]] = {}
            for client in list(self.clients)[number::processes]:
                names.setdefault(self.clients[client], []).append(client)
            words = [bootstrap, str(history.file), f"{seed}-{number}"]
            words += [f"{group}={','.join(some)}" for group, some in names.items()]
            command = [sys.executable, "-m", "tests.programs.chaos.groups.clients", *words]
            self._processes.append(Process(command, home / f"members-{number}.log", commands=True))

    def seen(self) -> list[Seen]:
        self.require_alive()
        return [each for history in self._histories for each in history.read()]

    def require_alive(self) -> None:
        for process in self._processes:
            assert process.running, f"members ended: {process.tail()}"

    def calm_down(self) -> None:
        """From now on every member stays in its group."""
        for process in self._processes:
            process.tell("calm")

    def kill(self) -> None:
        for process in self._processes:
            process.kill()
            process.end()


def run_round(
    zookeeper: EmbeddedZooKeeper,
    home: Path,
    seed: int,
    seconds: float,
    *,
    clients: int = 50,
    processes: int = 5,
    entry: Sequence[str] = ENTRY,
    faults: Sequence[str] = ("kill", "pause"),
    say: Say = lambda _: None,
) -> Judgement:
    """Faults for so many seconds on a running server, each of `faults` once at least.

    `entry`: the arguments with which Python is started as a broker.
    """
    chroot = f"/group-chaos-{seed}-{time.monotonic_ns()}"
    zookeeper.create_chroot(chroot)
    home.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        brokers = stack.enter_context(CoordinatorBrokers(zookeeper.address + chroot, home, entry))
        brokers.create_topic(TOPIC, PARTITIONS)
        members = Members(brokers.bootstrap, home, seed, clients, processes)
        stack.callback(members.kill)
        trouble = ""
        eventually(lambda: _are_in_one_generation(members), what=lambda: _stuck(members))
        bitten = _hurt(brokers, members, random.Random(f"groups {seed}"), seconds, faults, say)
        members.calm_down()
        try:
            since = time.monotonic_ns()
            eventually(lambda: _are_in_one_generation(members, since), what=lambda: _stuck(members, since))
        except AssertionError as error:
            trouble = f"L a group is stuck: {error}"
        brokers.died()
        seen = members.seen()
        members.kill()
    folders = [server.folder / "version-2" for server in zookeeper.servers]
    found = judge(seen, read_transactions(folders, chroot), SLOTS)
    found.figures.update(bitten)
    if trouble:
        found.wrong.append(trouble)
    if not (found.figures["committed"] and found.figures["fences"]):
        found.wrong.append(f"nothing happened that could prove anything: {found.figures}")
    return found


def _hurt(
    brokers: CoordinatorBrokers,
    members: Members,
    rng: random.Random,
    seconds: float,
    faults: Sequence[str],
    say: Say,
) -> dict[str, int]:
    """Kills and pauses coordinators until the time is over, and each fault was there; how often it did."""
    bitten: dict[str, int] = {}
    until_s = time.monotonic() + seconds
    number = 0
    while number < len(faults) or time.monotonic() < until_s:
        slot = rng.randrange(SLOTS)
        broker = eventually(lambda slot=slot: brokers.coordinator(slot), what="a coordinator")  # type: ignore[misc]
        fault = faults[number % len(faults)]
        number += 1
        say(f"{fault} broker {broker}, coordinator of slot {slot}")
        if fault == "kill":
            brokers.kill(broker)
            down_s = rng.choice(DOWN_S)
            hold(down_s)
            brokers.start(broker)
            name = "killed beyond the session" if down_s > SESSION_MS / 1000 else "killed below the session"
        else:
            brokers.pause(broker)
            paused_s = rng.choice(PAUSES_S)
            hold(paused_s)
            brokers.resume(broker)
            name = "paused beyond the session" if paused_s > SESSION_MS / 1000 else "paused below the session"
        bitten[name] = bitten.get(name, 0) + 1
        hold(rng.uniform(*BETWEEN_S))
        brokers.died()
        members.require_alive()
    return bitten


def _are_in_one_generation(members: Members, since_ns: int = 0) -> bool:
    """Whether all clients of each group are in one generation, and each commits in it."""
    hold(0.5)  # reading everything takes time that the members need
    return not _missing(members.clients, members.seen(), since_ns)


def _missing(clients: dict[str, str], seen: Iterable[Seen], since_ns: int) -> list[str]:
    every = list(seen)
    owners = owners_at_the_end(every)
    missing = []
    newest = {group: max(each.generation for each in some.values()) for group, some in owners.items() if some}
    good = {
        (each.client, each.generation)
        for each in every
        if each.kind == "committed" and each.error == 0 and each.sent_ns >= since_ns
    }
    for client, group in clients.items():
        found = owners.get(group, {}).get(client)
        if found is None or found.generation != newest[group] or (client, found.generation) not in good:
            missing.append(f"{client} of {group}: {found.generation if found else None}")
    return missing


def _stuck(members: Members, since_ns: int = 0) -> str:
    return (
        f"not in the newest generation with a commit: {_missing(members.clients, members.seen(), since_ns)}"
    )
