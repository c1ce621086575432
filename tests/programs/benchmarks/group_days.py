"""The logs of a cluster without errors, in which groups commit and rebalance and replicas fall behind.

40 groups of eight members own 400 partitions each, and 200 operations a second reach the ensemble: some 90 %
commits by the owners, 8 % owners that are released and claimed when a member restarts, the rest ISR changes
and refused requests. The random logs of `zookeeper_files` would have a finding in each line. Equal arguments
give equal bytes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from struct import Struct
from zlib import adler32

from tests.programs.benchmarks.zookeeper_files import FIRST_MS, FIRST_ZXID

GROUPS = 40
_MEMBERS, _TOPICS, _PARTITIONS, _BROKERS = 8, 25, 16, 3
_MS_PER_OPERATION = 5
_REBALANCE, _ISR, _REFUSED = 0.0001, 0.012, 0.02
_CREATE, _DELETE, _SET, _ERROR, _CREATE_SESSION, _CLOSE_SESSION = 1, 2, 5, -1, -10, -11
_HEAD = Struct(">qiqqi").pack
_FRAME = Struct(">qi").pack
_INT = Struct(">i").pack
_DIGEST = Struct(">iQ").pack
_NO_COUNT = _INT(-1)
"""Of the children that the parent had before: records need not say it."""
_OPEN_ACL = _INT(1) + _INT(31) + _INT(5) + b"world" + _INT(6) + b"anyone"

_Asked = tuple[int, int, bytes]
"""Session, type and body of a record."""


def write_logs(
    folder: Path,
    operations: int,
    logs: int,
    groups: int = GROUPS,
    *,
    with_digests: bool = True,
    chroot: str = "",
) -> Path:
    """Writes this many logs with this many operations together; the last one may differ a bit in length.

    Digests are of no tree: a replay finds them wrong. Without them the logs are those of servers before 3.6.
    Below a chroot there is one operation more, which makes it.
    """
    folder.mkdir(parents=True)
    cluster = _Cluster(groups)
    asked = islice(chain(cluster.begin(), cluster.live()), operations)
    if chroot:
        asked = chain([(0, _CREATE, _create(chroot, ""))], (_below(chroot, *each) for each in asked))
    numbered = enumerate(asked)
    each = operations // logs
    rest = random.Random(2)
    for number in range(logs):
        with (folder / f"log.{FIRST_ZXID + number * each:x}").open("wb") as file:
            file.write(b"ZKLG" + _INT(2) + bytes(8))
            for place, (session, kind, body) in islice(numbered, each if number < logs - 1 else None):
                time_ms = FIRST_MS + place * _MS_PER_OPERATION
                head = _HEAD(session, place & 0x7FFFFFFF | 1, FIRST_ZXID + place, time_ms, kind)
                digest = b"" if kind == _ERROR or not with_digests else _DIGEST(2, rest.getrandbits(64))
                entry = head + body + digest
                file.write(_FRAME(adler32(entry), len(entry)) + entry + b"B")
    return folder


def _below(chroot: str, session: int, kind: int, body: bytes) -> _Asked:
    """A request of a client with this root."""
    start = {_CREATE: 0, _DELETE: 0, _SET: 0, _CLOSE_SESSION: 4}.get(kind)
    if start is None:
        return session, kind, body
    front, path = body[:start], body[start + 4 :]
    size = int.from_bytes(body[start : start + 4], "big") + len(chroot)
    return session, kind, front + _INT(size) + chroot.encode() + path


def _text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return _INT(len(raw)) + raw


def _create(path: str, data: str, *, ephemeral: bool = False) -> bytes:
    return _text(path) + _text(data) + _OPEN_ACL + bytes([ephemeral]) + _NO_COUNT


class _Cluster:
    """The writer of all operations, one after another."""

    def __init__(self, groups: int) -> None:
        self._random = random.Random(1)
        self._groups = [_Group(f"group-{number}", number, self._new_session) for number in range(groups)]
        self._sessions = 0x1000_0001_0000_0000
        self._brokers = [self._new_session() for _ in range(_BROKERS)]
        self._versions: Counter[tuple[int, int]] = Counter()
        self._shrunk: set[tuple[int, int]] = set()

    def begin(self) -> Iterator[_Asked]:
        """Starts brokers, controller and topics, then the groups."""
        controller = self._brokers[0]
        for session in self._brokers:
            yield session, _CREATE_SESSION, _INT(6000)
        for path in ("/brokers", "/brokers/ids", "/brokers/topics", "/consumers"):
            yield controller, _CREATE, _create(path, "")
        registration = '{"jmx_port":-1,"timestamp":"1700000000000","host":"h","version":1,"port":9092}'
        for number, session in enumerate(self._brokers, 1):
            yield session, _CREATE, _create(f"/brokers/ids/{number}", registration, ephemeral=True)
        elected = '{"version":1,"brokerid":1,"timestamp":"1700000000000"}'
        yield controller, _CREATE, _create("/controller", elected, ephemeral=True)
        yield controller, _CREATE, _create("/controller_epoch", "1")
        for topic in range(_TOPICS):
            path = f"/brokers/topics/topic-{topic}"
            lists = ",".join(f'"{number}":{_replicas(number)}' for number in range(_PARTITIONS))
            yield controller, _CREATE, _create(path, f'{{"version":1,"partitions":{{{lists}}}}}')
            yield controller, _CREATE, _create(f"{path}/partitions", "")
            for number in range(_PARTITIONS):
                yield controller, _CREATE, _create(f"{path}/partitions/{number}", "")
                state = _state(number, _replicas(number))
                yield controller, _CREATE, _create(f"{path}/partitions/{number}/state", state)
        for group in self._groups:
            yield from group.begin()

    def live(self) -> Iterator[_Asked]:
        """The endless sequence of operations."""
        pick, chance = self._random.choice, self._random.random
        while True:
            drawn = chance()
            if drawn < _REBALANCE:
                yield from pick(self._groups).restart_one(self._random)
            elif drawn < _ISR:
                yield self._isr()
            elif drawn < _REFUSED:
                yield pick(self._brokers), _ERROR, _INT(-101)
            else:
                yield pick(self._groups).commit(self._random)

    def _isr(self) -> _Asked:
        """The leader removes its last follower from the ISR, or adds it again."""
        place = topic, number = self._random.randrange(_TOPICS), self._random.randrange(_PARTITIONS)
        replicas = _replicas(number)
        is_shrunk = place in self._shrunk
        self._shrunk ^= {place}
        self._versions[place] += 1
        path = f"/brokers/topics/topic-{topic}/partitions/{number}/state"
        state = _state(number, replicas if is_shrunk else replicas[:-1])
        return self._brokers[replicas[0] - 1], _SET, _text(path) + _text(state) + _INT(self._versions[place])

    def _new_session(self) -> int:
        self._sessions += 1
        return self._sessions


def _replicas(number: int) -> list[int]:
    return [(number + step) % _BROKERS + 1 for step in range(_BROKERS)]


def _state(number: int, isr: list[int]) -> str:
    leader = _replicas(number)[0]
    return f'{{"controller_epoch":1,"leader":{leader},"version":1,"leader_epoch":0,"isr":{isr}}}'


class _Group:
    """A group of eight members that own every eighth partition each."""

    def __init__(self, name: str, number: int, new_session: Callable[[], int]) -> None:
        self._name, self._new_session = name, new_session
        self._partitions = [(topic, each) for topic in range(_TOPICS) for each in range(_PARTITIONS)]
        self._members: list[int] = []
        self._offsets = [100 * number] * len(self._partitions)
        self._versions = [0] * len(self._partitions)
        self._root = f"/consumers/{name}"
        self._paths = [
            _text(f"{self._root}/offsets/topic-{topic}/{each}") for topic, each in self._partitions
        ]

    def begin(self) -> Iterator[_Asked]:
        self._members = [self._new_session() for _ in range(_MEMBERS)]
        first = self._members[0]
        for session in self._members:
            yield session, _CREATE_SESSION, _INT(6000)
        for path in ("", "/ids", "/owners", "/offsets"):
            yield first, _CREATE, _create(self._root + path, "")
        for kind in ("owners", "offsets"):
            for topic in range(_TOPICS):
                yield first, _CREATE, _create(f"{self._root}/{kind}/topic-{topic}", "")
        for member in range(_MEMBERS):
            yield self._join(member)
        yield from self._claim()
        for place, (topic, each) in enumerate(self._partitions):
            path = f"{self._root}/offsets/topic-{topic}/{each}"
            yield self._owner(place), _CREATE, _create(path, str(self._offsets[place]))

    def commit(self, draw: random.Random) -> _Asked:
        place = int(draw.random() * len(self._partitions))
        self._offsets[place] += 1 + int(draw.random() * 100)
        self._versions[place] += 1
        body = self._paths[place] + _text(b"%d" % self._offsets[place]) + _INT(self._versions[place])
        return self._owner(place), _SET, body

    def restart_one(self, draw: random.Random) -> Iterator[_Asked]:
        """All members release their partitions, one restarts with a new session, and all claim again."""
        member = draw.randrange(_MEMBERS)
        for place, (topic, each) in enumerate(self._partitions):
            yield self._owner(place), _DELETE, _text(f"{self._root}/owners/topic-{topic}/{each}")
        gone = f"{self._root}/ids/{self._name}_host-{member}"
        yield self._members[member], _CLOSE_SESSION, _INT(1) + _text(gone)
        self._members[member] = self._new_session()
        yield self._members[member], _CREATE_SESSION, _INT(6000)
        yield self._join(member)
        yield from self._claim()

    def _join(self, member: int) -> _Asked:
        topics = ",".join(f'"topic-{topic}":1' for topic in range(_TOPICS))
        data = f'{{"version":1,"subscription":{{{topics}}},"pattern":"static","timestamp":"1700000000000"}}'
        path = f"{self._root}/ids/{self._name}_host-{member}"
        return self._members[member], _CREATE, _create(path, data, ephemeral=True)

    def _claim(self) -> Iterator[_Asked]:
        for place, (topic, each) in enumerate(self._partitions):
            owner = f"{self._name}_host-{place % _MEMBERS}-0"
            path = f"{self._root}/owners/topic-{topic}/{each}"
            yield self._owner(place), _CREATE, _create(path, owner, ephemeral=True)

    def _owner(self, place: int) -> int:
        return self._members[place % _MEMBERS]
