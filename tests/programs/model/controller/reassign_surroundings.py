"""The surroundings of the controllers in the model of reassignments: the tree, brokers, channels, faults.

The tree: /controller, /controller_epoch, `state` (leader, ISR, leader epoch,
controller epoch), the replica list AR, the admin entry, the terminal records.
Requests travel in one FIFO channel for each (controller epoch, broker); channels
are not ordered among themselves, so those of an old controller arrive late. A
broker's restart ends its connections and its memory, not its log.

log: 0 deleted, 1 behind, 2 holds everything that was acknowledged.
"""

from typing import Any, NamedTuple

from tests.programs.model.controller.tree import DATA, VER, close_session, multi

CTRL, EPOCH, STATE, AR, ADMIN, DONE, COUNT = range(7)
UP, CE, LE, ROLE, LEAD, MEM, LOG, FRESH = range(8)


class Deed(NamedTuple):
    """The actions of a controller in one step."""

    what: str
    operations: list[tuple[Any, ...]]
    """Of its transaction, without the two checks of the fence; empty where it writes nothing."""
    messages: list[tuple[int, Any]]
    """Broker and request, for brokers that live or not."""
    after: str
    """Where it goes on."""
    heard: tuple[tuple[int, ...], int] | None = None
    """What it remembers of the list that was sent last, where that was a part of all replicas."""


class Surroundings:
    """The brokers, the network and the operator; state as in `reassign.Model`."""

    def set_broker(self, s, b, x, tree=None):
        return (tree or s[0], s[1], (*s[2][: b - 1], x, *s[2][b:]), *s[3:])

    def broker(self, s, b):
        x, tree = s[2][b - 1], s[0]
        if not x[UP]:
            yield (
                f"broker {b} starts",
                False,
                self.set_broker(s, b, (1, 0, -1, "N", 0, None, x[LOG], 1)),
                None,
            )
            return
        if x[ROLE] == "F":
            top = s[2][x[LEAD] - 1]
            if top[UP] and top[ROLE] == "L" and b in top[MEM][2] and top[LOG] == 2 and x[LOG] < 2:
                yield f"broker {b} catches up", False, self.set_broker(s, b, (*x[:LOG], 2, *x[FRESH:])), None
        if x[ROLE] != "L":
            return
        isr, ver, ar = x[MEM]
        ce = tree[STATE][DATA][3]

        def write(what, new_isr, fault, left=s[6]):
            t, _ = multi(tree, 1000 + b, [("set", STATE, (b, new_isr, x[LE], ce), ver)])
            if t:  # refused: nothing happens, it tries again later
                new = (*self.set_broker(s, b, (*x[:MEM], (new_isr, ver + 1, ar), *x[LOG:]), t)[:6], left)
                yield f"leader {b} {what}", fault, new, self.judge(s, new)

        def follows(f):
            return s[2][f - 1][UP] and s[2][f - 1][ROLE] == "F" and s[2][f - 1][LEAD] == b

        for f in range(1, self.n + 1):
            if f in ar and f not in isr and follows(f) and s[2][f - 1][LOG] == 2 and x[LOG] == 2:
                yield from write(f"adds {f} to the ISR", tuple(sorted((*isr, f))), False)
            if f in isr and f != b:
                less = tuple(i for i in isr if i != f)
                if not follows(f):
                    yield from write(f"drops {f} from the ISR", less, False)
                elif s[6][2]:
                    yield from write(f"drops {f} from the ISR, too slow", less, True, self.spend(s, 2))
        if s[6][3] and x[LOG] == 2 and all(f == b or follows(f) for f in isr):
            new = (
                *s[:2],
                tuple(
                    (*y[:LOG], y[LOG] if i + 1 in isr else min(y[LOG], 1), *y[FRESH:])
                    for i, y in enumerate(s[2])
                ),
                *s[3:6],
                self.spend(s, 3),
            )
            if new[2] != s[2]:
                yield f"leader {b} acknowledges a record", True, new, self.judge(s, new)

    def obey(self, s, b, epoch, m):
        """Executes a request on a broker (controller.md 7.5). Returns (text, state', violation)."""
        x = s[2][b - 1]
        if epoch < x[CE]:
            return "refused (11)", s, None
        x = (*x[:CE], epoch, *x[LE:])
        if m[0] == "S":
            new = self.set_broker(s, b, (1, epoch, -1, "N", 0, None, 0, x[FRESH]))
            bad = self.judge(s, new)
            if b in s[0][STATE][DATA][1]:
                bad = "StopReplica(delete) executed by an ISR member"
            return "obeyed", new, bad
        _, le, leader, isr, ar, ver = m
        if le <= x[LE] or b not in ar:
            return "ignored", self.set_broker(s, b, x), None
        if leader == b:
            x = (1, epoch, le, "L", b, (isr, ver, ar), x[LOG], x[FRESH])
        else:
            x = (1, epoch, le, "F" if leader > 0 else "N", max(leader, 0), None, x[LOG], x[FRESH])
        return "obeyed", self.set_broker(s, b, x), None

    def network(self, s):
        for i, ((epoch, b), q) in enumerate(s[3]):
            rest = (((epoch, b), q[1:]),) if q[1:] else ()
            base = (*s[:3], s[3][:i] + rest + s[3][i + 1 :], *s[4:])
            how, new, bad = self.obey(base, b, epoch, q[0])
            what = "StopReplica(delete)" if q[0][0] == "S" else f"LeaderAndIsr(leader epoch {q[0][1]})"
            yield f"broker {b}: {what} of epoch {epoch} {how}", False, new, bad
            if q[0][0] == "S" and s[6][5] and (epoch, b) not in s[4]:
                yield (
                    f"connection to {b} breaks, StopReplica unanswered, sent again",
                    True,
                    (*s[:4], tuple(sorted(s[4] + ((epoch, b),))), s[5], self.spend(s, 5)),
                    None,
                )
        for epoch, b in s[4]:
            base = (*s[:4], tuple(g for g in s[4] if g != (epoch, b)), *s[5:])
            how, new, bad = self.obey(base, b, epoch, ("S",))
            yield f"broker {b}: late copy of StopReplica(delete) of epoch {epoch} {how}", False, new, bad

    def outside(self, s):
        tree = s[0]
        if s[5] < len(self.moves) and tree[ADMIN] is None:
            t, _ = multi(tree, 999, [("create", ADMIN, (self.moves[s[5]], tree[AR][DATA], False), False)])
            yield f"request {self.moves[s[5]]}", False, (t, *s[1:5], s[5] + 1, s[6]), None
        if s[6][4] and tree[ADMIN] and not tree[ADMIN][DATA][2]:
            source = tree[ADMIN][DATA][1]
            t, _ = multi(tree, 999, [("set", ADMIN, (source, source, True), tree[ADMIN][VER])])
            yield "cancel", True, (t, *s[1:6], self.spend(s, 4)), None
        if s[6][0]:
            for k, p in enumerate(s[1]):
                if p[2] and p[0] != "I":
                    q = (*p[:2], 0, *p[3:])
                    yield (
                        f"session of {'AB'[k]} expires, it does not know",
                        True,
                        (
                            close_session(tree, p[1]),
                            (*s[1][:k], q, *s[1][k + 1 :]),
                            *s[2:6],
                            self.spend(s, 0),
                        ),
                        None,
                    )
        if s[6][1]:
            for b, x in enumerate(s[2], 1):
                if x[UP]:
                    dead = self.set_broker(s, b, (0, 0, -1, "N", 0, None, x[LOG], 1))
                    yield (
                        f"broker {b} dies",
                        True,
                        (
                            *dead[:3],
                            tuple(c for c in s[3] if c[0][1] != b),
                            tuple(g for g in s[4] if g[1] != b),
                            s[5],
                            self.spend(s, 1),
                        ),
                        None,
                    )
