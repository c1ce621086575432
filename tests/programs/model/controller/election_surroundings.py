"""The surroundings of the zkgroup controllers in the election's model: the tree, a Kafka controller, faults.

The tree: /controller, /controller_epoch, the registration of the Kafka broker, one partition `state`
(leader epoch, controller epoch), the epochs that are recorded as zkgroup's, each with the greatest Kafka
epoch before it, and the `state` of a topic that another client has just created.

The Kafka controller creates /controller, then reads and raises the epoch in two further steps; it learns
that the znode changed only when it handles the event, and does not resign when the znode exists again (K1);
it refuses a state whose controller epoch is above its own (fence F3); it has no fence of its own; it deletes
/controller, whichever session owns it, when its write of the epoch fails (K2); and its client repeats a call
in a new session (zkclient).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.programs.model.controller.tree import CZXID, DATA, OWNER, VER, close_session, multi

CTRL, EPOCH, IDR, STATE, HIST, NEW, COUNT = range(7)
OURS, REAL = "ours", "real"

Tree = tuple[Any, ...]
State = tuple[Any, ...]
Step = tuple[str, bool, State, str | None]
"""Label, whether it is a fault, the state after it, and what it violates."""
Put = Callable[..., State]
"""Makes the state after a step of one controller: `put(controller, tree, broker)`."""


class Configuration(NamedTuple):
    """The participants, the recipe that they follow, the numbers of faults, and the checked property."""

    variant: str = "mended"
    """`recipe`: the text before it was corrected; others lack a rule, or have it wrong."""
    check: str = "ours"
    """`ours`: S11 and epochs that grow; `overlap`: Kafka's controller writes while zkgroup's holds
    /controller; `recovered`: after the recovery a Kafka controller of an older epoch changes an existing
    state, or a broker executes its request; `all`: also states that it creates."""
    real: bool = True
    r_lives: bool = False
    """The session of the Kafka controller never expires."""
    expiries: int = 1
    deletions: int = 1
    pauses: int = 0
    restarts: int = 0
    our_writes: int = 1
    real_writes: int = 1


class Surroundings:
    """The steps of a Kafka controller, and the faults; state as in `election.Model`."""

    a: Configuration

    #                   czxid seen, epoch, local, paused, writes left)
    # pc: I watches, C created, B read the epoch, L leads, w has read a state, n about to create

    @staticmethod
    def pending(tree: Tree, r: State) -> bool:
        c = tree[CTRL]
        return (c[CZXID] if c else 0) != r[3]

    def real(self, s: State) -> Iterator[Step]:
        tree, r = s[0], s[3]
        pc, sess, live, _, _, _, paused, left = r
        c = tree[CTRL]

        def put(q: State, t: Tree = tree, x: Any = None) -> State:
            return (t, s[1], s[2], q, x or s[4], s[5])

        if paused:
            yield "R goes on after its pause", False, put((*r[:6], 0, left)), None
            return
        if live == 0:
            yield "R has a new session", False, put((pc, sess + 1, 2, *r[3:])), None
            return
        if pc in "IL":  # the lock is free: events are handled
            if live == 2:  # expiry: resign, register, elect
                t = tree
                t, _ = multi(t, sess, [("create", IDR, REAL, True)]) if t[IDR] is None else (t, 0)
                yield (
                    "R handles its expiry, resigns",
                    False,
                    put(("I", sess, 1, -1, 0, None, 0, left), t),
                    None,
                )
            elif self.pending(tree, r):
                if c is None:
                    t, _ = multi(tree, sess, [("create", CTRL, REAL, True)])
                    yield (
                        "R sees 'deleted', resigns, creates /controller",
                        False,
                        put(("C", sess, live, t[COUNT], 0, None, 0, left), t),
                        None,
                    )
                else:
                    yield (
                        "R sees 'changed'" + (", does not resign (K1)" if pc == "L" else ""),
                        False,
                        put((pc, sess, live, c[CZXID], *r[4:])),
                        None,
                    )
        if pc in "wn":
            yield from self.real_write(s, put)
        else:
            yield from self.real_call(s, put)

    def real_call(self, s: State, put: Put) -> Iterator[Step]:
        """The next call of an election, or the beginning of a write."""
        tree, r = s[0], s[3]
        pc, sess, live, seen, epoch, loc, _, left = r
        e = tree[EPOCH]
        if pc == "C":
            yield (
                f"R reads the epoch {e[DATA]}",
                False,
                put(("B", *r[1:5], (e[DATA], e[VER]), *r[6:])),
                None,
            )
        elif pc == "B":
            t, _ = multi(tree, sess, [("set", EPOCH, loc[0] + 1, loc[1])])
            if t:
                yield (
                    f"R leads, epoch {loc[0] + 1}",
                    False,
                    put(("L", sess, live, seen, loc[0] + 1, None, 0, left), t),
                    None,
                )
            else:
                t = (*tree[:CTRL], None, *tree[CTRL + 1 :])
                yield (
                    "R bump fails, deletes /controller (K2)",
                    False,
                    put(("I", sess, live, -1, 0, None, 0, left), t),
                    None,
                )
        elif pc == "L" and left:
            if tree[STATE][DATA][1] <= epoch:
                yield (
                    "R reads state",
                    False,
                    put(("w", *r[1:5], (tree[STATE][DATA][0], tree[STATE][VER]), *r[6:])),
                    None,
                )
            if tree[NEW] is None:
                yield "R is about to create new state", False, put(("n", *r[1:])), None

    def real_write(self, s: State, put: Put) -> Iterator[Step]:
        """Writes the state that was read, or creates the new one."""
        tree, r = s[0], s[3]
        pc, sess, _, _, epoch, loc, _, left = r
        path = STATE if pc == "w" else NEW
        op = ("set", STATE, (loc[0] + 1, epoch), loc[1]) if pc == "w" else ("create", NEW, epoch, False)
        t, _ = multi(tree, sess, [op])
        q = ("L", *r[1:5], None, 0, left - 1)
        if t is None:
            yield "R write refused (version or exists)", False, put(q), None
        else:
            known, n = s[4]
            received = epoch >= known
            yield (
                (
                    f"R {'writes' if path == STATE else 'creates new'} state [epoch {epoch}, "
                    f"broker {'obeys' if received else 'refuses'}]"
                ),
                False,
                put(q, t, (max(known, epoch), n)),
                self.judge(s, path, epoch, received),
            )

    def judge(self, s: State, path: int, epoch: int, received: bool) -> str | None:
        """The violation by an accepted write of a Kafka controller while a zkgroup one holds /controller."""
        c, want = s[0][CTRL], self.a.check
        if c is None or c[DATA] != OURS or want == "ours":
            return None
        holder = next((p for p in s[1:3] if p and p[1] == c[OWNER] and p[0] == "L"), None)
        if want == "overlap":
            return "two controllers at once: Kafka's writes while zkgroup's holds /controller"
        if holder and holder[4][2] == 2 and epoch < holder[4][1]:
            if path == STATE and want in ("recovered", "all"):
                return "after recovery Kafka's controller changed an existing state"
            if want == "all":
                return "after recovery Kafka's controller created a new state"
            if received and want == "recovered":
                return "after recovery a broker executed a request of Kafka's controller"
        return None

    def faults(self, s: State) -> Iterator[Step]:
        tree, expiries, (_, deletions, pauses, restarts) = s[0], s[5][0], s[5]
        if expiries:
            left = (expiries - 1, *s[5][1:])
            for k in (1, 2):
                p = s[k]
                if p and p[2]:
                    new = list(s)
                    new[0] = close_session(tree, p[1])
                    new[k] = (*p[:2], 0, *p[3:])
                    new[5] = left
                    yield f"session of {'AB'[k - 1]} expires, it does not know", True, tuple(new), None
            r = s[3]
            if r and r[2] and not self.a.r_lives:
                yield (
                    "session of R expires, it does not know",
                    True,
                    (close_session(tree, r[1]), s[1], s[2], (*r[:2], 0, *r[3:]), s[4], left),
                    None,
                )
        if deletions and tree[CTRL]:
            yield (
                "/controller deleted by hand",
                True,
                (
                    (*tree[:CTRL], None, *tree[CTRL + 1 :]),
                    *s[1:5],
                    (expiries, deletions - 1, pauses, restarts),
                ),
                None,
            )
        if pauses and s[3] and not s[3][6]:
            yield (
                "R pauses",
                True,
                (*s[:3], (*s[3][:6], 1, s[3][7]), s[4], (expiries, deletions, pauses - 1, restarts)),
                None,
            )
        if restarts and s[4][0]:
            yield (
                "the broker restarts and forgets the epoch",
                True,
                (*s[:4], (0, 0), (expiries, deletions, pauses, restarts - 1)),
                None,
            )
