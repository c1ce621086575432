"""One partition, its brokers, two zkgroup controllers, and reassignments with faults.

The controllers' elections and requests are here, their moves in `reassign_steps`; the tree, the brokers and
the faults are their surroundings.

With the variant `code` the steps are those that `zkgroup.controller.machine.reassignment.steps` decides on.
"""

import argparse

from tests.programs.model.controller.reassign_steps import COUNTERS, STAGES, Steps
from tests.programs.model.controller.reassign_surroundings import (
    ADMIN,
    AR,
    CE,
    CTRL,
    DONE,
    EPOCH,
    FRESH,
    LE,
    LOG,
    STATE,
    UP,
    Deed,
    Surroundings,
)
from tests.programs.model.controller.tree import DATA, OWNER, VER, multi
from zkgroup.controller.machine import open_reassignments
from zkgroup.controller.machine.leadership import selectors

FAULTS = ("expiries", "crashes", "lags", "produces", "cancels", "breaks", "lost")
CHANNEL = 3
"""Requests that wait in one channel."""


def ints(text):
    return tuple(int(x) for x in text.split(","))


def faults(text):
    """Parses replica lists in order and the number of each fault: `--moves 1/2/1 --crashes 1`."""
    ask = argparse.ArgumentParser(add_help=False)
    ask.add_argument("--moves")
    for name in FAULTS:
        ask.add_argument(f"--{name}", type=int, default=0)
    ask.add_argument("--max-states", type=int, default=1_200_000)
    return ask.parse_args(text.split())


class Model(Steps, Surroundings):
    """State: (tree, controllers, brokers, channels, late copies, requests made, faults left)."""

    def __init__(self, variant, text):
        self.variant, self.a = variant, faults(text)
        a = self.a
        self.moves = [ints(x) for x in a.moves.split("/")]
        self.first, self.moves = self.moves[0], self.moves[1:]
        self.n = max(max(m) for m in [*self.moves, self.first])
        self.code = variant == "code"
        self.mended = variant == "mended" or self.code

    def init(self):
        first = self.first
        tree = (
            ("ours", 1, 1, 10),
            (1, 1, 0, 0),
            ((first[0], tuple(sorted(first)), 0, 1), 0, 0, 0),
            (first, 0, 0, 0),
            None,
            ((), 0, 0, 0),
            1,
        )
        brokers = []
        for b in range(1, self.n + 1):
            if b == first[0]:
                brokers.append((1, 1, 0, "L", b, (tuple(sorted(first)), 0, first), 2, 0))
            elif b in first:
                brokers.append((1, 1, 0, "F", first[0], None, 2, 0))
            else:
                brokers.append((1, 1, -1, "N", 0, None, 0, 0))
        procs = (("P", 10, 1, 1, 1, (), 0, None), ("I", 20, 1, 0, 0, (), 0, None))
        left = tuple(getattr(self.a, name) for name in FAULTS)
        return (tree, procs, tuple(brokers), (), (), 0, left)

    def goal(self, s):
        return s[5] == len(self.moves) and s[0][ADMIN] is None

    def spend(self, s, i):
        left = list(s[6])
        left[i] -= 1
        return tuple(left)

    def succ(self, s):
        for k in range(len(s[1])):
            yield from self.controller(s, k)
        for b in range(1, self.n + 1):
            yield from self.broker(s, b)
        yield from self.network(s)
        yield from self.outside(s)

    def judge(self, old, new):
        t, st = new[0], new[0][STATE][DATA]
        leader, isr, le, ce = st
        ost = old[0][STATE][DATA]
        ar, entry = t[AR][DATA], t[ADMIN]
        if not isr:
            return "S13 empty ISR"
        if leader != -1 and leader not in isr:
            return "S13 leader not in ISR"
        if le < ost[2] or ce < ost[3] or (leader != ost[0] and le == ost[2]):
            return "S12 leader epoch"
        if not set(isr) <= set(ar):
            return "S13/S15 ISR member not in AR"
        if entry and len(ar) < min(len(entry[DATA][0]), len(entry[DATA][1])):
            return "S15 replica floor"
        between = self.variant == "two-writes" and len(t[DONE][DATA]) == new[5]
        if len(t[DONE][DATA]) + (entry is not None) != new[5] and not between:
            return "S14 request lost or ended twice"
        if t[DONE] != old[0][DONE]:
            target, _, cancelled = old[0][ADMIN][DATA]
            if ar != target or not set(isr) <= set(ar) or (not cancelled and not set(target) <= set(isr)):
                return "S14 terminal record is not true"
        moved = entry and old[0][ADMIN] and not entry[DATA][2] and ar != old[0][AR][DATA]
        if moved and (ar == entry[DATA][1] or old[0][AR][DATA] == entry[DATA][0]):
            return "S16 AR goes back"
        logs = [x[LOG] for x in new[2]]
        if 2 not in logs:
            return "acknowledged data lost"
        if any(logs[b - 1] != 2 for b in isr):
            return "an ISR member without the acknowledged data"
        return None

    def did(self, deed):
        """A hook for subclasses that compare the deed with something."""

    #                     the list brokers were sent last and its leader epoch where it is a part of AR: code)
    # pc: I watches, B first LeaderAndIsr, P plan, 2 3 7 8 9 the steps, T steps 10+11

    def send(self, s, epoch, msgs):
        """Appends (broker, message) to the channels; None when one is full (back-pressure)."""
        chans = dict(s[3])
        for b, m in msgs:
            if not s[2][b - 1][UP]:
                continue
            q = chans.get((epoch, b), ())
            if len(q) >= CHANNEL:
                return None
            chans[epoch, b] = (*q, m)
        return tuple(sorted(chans.items()))

    def held(self, s, epoch):
        """Replicas to leave out for now: those whose StopReplica(delete) is not answered.

        While a move is open, also those outside the ISR whose broker has answered nothing of this epoch.
        """
        if not self.mended:
            return ()
        late = []
        if s[0][ADMIN]:
            late = [
                b
                for b in range(1, self.n + 1)
                if s[2][b - 1][UP] and s[2][b - 1][CE] < epoch and b not in s[0][STATE][DATA][1]
            ]
        return (
            late
            + [b for (e, b), q in s[3] if e == epoch and ("S",) in q]
            + [b for e, b in s[4] if e == epoch]
        )

    def asked(self, s, epoch, tree, to, ar):
        leader, isr, le, _ = tree[STATE][DATA]
        held = self.held(s, epoch)
        to, ar = [b for b in to if b not in held], tuple(b for b in ar if b not in held)
        return [(b, ("L", le, leader, isr, ar, tree[STATE][VER])) for b in to]

    def received(self, s, p, tree, pc, target):
        """Where a controller continues from `pc` after brokers were sent this tree, and the list they know.

        See `open_moves.Moves.interrupted`. In the recipe's text an interruption is handled where it happens.
        """
        heard = p[7]
        if not self.code:
            return pc, heard
        ar, entry, le = tree[AR][DATA], tree[ADMIN], tree[STATE][DATA][2]
        held = self.held((tree, *s[1:]), p[4])
        replicas = open_reassignments.sent_replicas(STAGES[pc], target, ar) if entry else ar
        part = tuple(sorted(set(replicas) - set(held)))
        if set(part) != set(ar):
            heard = (part, le)
        elif heard and heard[1] != le:
            heard = None
        if entry:
            pc = COUNTERS[
                open_reassignments.interrupted(STAGES[pc], open_reassignments.union(target, replicas), held)
            ]
        return pc, heard

    def controller(self, s, k):
        tree, p = s[0], s[1][k]
        pc, sess, live, v, n, wait, aver, heard = p
        name = "AB"[k]

        def put(q, t=tree, chans=None, brokers=None):
            procs = (*s[1][:k], q, *s[1][k + 1 :])
            return (t, procs, brokers or s[2], s[3] if chans is None else chans, *s[4:])

        idle = ("I", sess if live else sess + 1, 1, 0, 0, (), 0, None)
        if not live:
            yield f"{name} learns that its session is lost", False, put(idle), None
        if pc == "I":
            if live and tree[CTRL] is None:
                e = tree[EPOCH]
                t, _ = multi(
                    tree,
                    sess,
                    [
                        ("create", CTRL, "ours", True),
                        ("set", CTRL, "ours", 0),
                        ("set", EPOCH, e[DATA] + 1, e[VER]),
                    ],
                )
                ups = tuple(b for b in range(1, self.n + 1) if s[2][b - 1][UP])
                yield (
                    f"{name} elected, epoch {e[DATA] + 1}",
                    False,
                    put(("B", sess, 1, e[VER] + 1, e[DATA] + 1, ups, 0, None), t),
                    None,
                )
            return
        (leader, isr, le, _), sver = tree[STATE][DATA], tree[STATE][VER]
        ar, entry = tree[AR][DATA], tree[ADMIN]
        target = entry[DATA][0] if entry else ()
        if self.code and entry and pc != "P" and entry[VER] != aver:
            target = self.moves[s[5] - 1]  # the request was changed since it was read
        out = tuple(b for b in ar if b not in target)

        def go(c, aver=aver, w=(), heard=heard):
            return (c, sess, live, v, n, out if c == "9" else w, aver, heard)

        def up(b):
            return s[2][b - 1][UP]

        def fenced(what, ops, after, to=None, sent_ar=None, aver=aver):
            """One fenced multi, then its LeaderAndIsr in the same step (a crash between: fault `lost`)."""
            t, why = multi(tree, sess if live else sess + 1, [("check", CTRL, 1), ("check", EPOCH, v), *ops])
            asked, known = [], heard
            if t is not None and t[ADMIN] is None and heard and set(heard[0]) == set(t[AR][DATA]):
                known = None  # what was sent is the whole list by now
            if t is not None and to is not None:
                asked = self.asked(s, n, t, to, sent_ar)
                aim = entry[DATA][0] if entry and entry[VER] == aver else target
                after, known = self.received(s, p, t, after, aim)
            self.did(Deed(f"{name} {what}", ops, asked, after, known))
            if t is None:
                mine = tree[CTRL] and tree[CTRL][OWNER] == sess and tree[EPOCH][VER] == v
                yield f"{name} {what}: refused ({why})", False, put(go("P") if mine else idle), None
                return
            new = put(go(after, aver, heard=known), t)
            bad = self.judge(s, new)
            if not (tree[CTRL] and tree[CTRL][OWNER] == sess and tree[EPOCH][DATA] == n):
                bad = "S11 a zkgroup write was accepted after it lost /controller"
            elif not set(t[STATE][DATA][1]) <= set(isr):
                bad = "a controller added to the ISR"
            elif t[ADMIN] is None and known and up(leader):
                bad = "a move ends, and its leader knows another list"
            if s[6][6]:
                yield (
                    f"{name} {what}, the answer is lost",
                    True,
                    (*put(go("P"), t)[:6], self.spend(s, 6)),
                    bad,
                )
            if to is not None:
                chans = self.send(s, n, asked)
                if chans is None:
                    return
                new = put(go(after, aver, heard=known), t, chans)
            yield f"{name} {what}", False, new, bad

        def state(first, i, bump=1):
            return [("set", STATE, (first, tuple(sorted(i)), le + bump, n), sver)]

        if not live and self.mended and pc in "B9":
            return  # the own lease has ended: nothing is sent
        if pc == "B":  # the states as they are to every replica, no bump
            chans = self.send(s, n, self.asked(s, n, tree, ar, ar))
            if chans is not None:
                fresh = tuple((*x[:FRESH], 0) for x in s[2])
                known = self.received(s, p, tree, "P", target)[1]
                if (
                    self.code and entry and known is None
                ):  # the former controller may have sent the target alone
                    known = ((), le)
                what = f"{name} first LeaderAndIsr to {ar}"
                yield what, False, put(go("P", heard=known), tree, chans, fresh), None
            return
        if live and self.mended:
            for b in range(1, self.n + 1):
                x = s[2][b - 1]
                if up(b) and x[CE] < n and not any(c[0] == (n, b) for c in s[3]):
                    yield (
                        f"{name} UpdateMetadata answered by {b}",
                        False,
                        put(p, tree, s[3], (*s[2][: b - 1], (*x[:CE], n, *x[LE:]), *s[2][b:])),
                        None,
                    )
        late = self.held(s, n)
        again = "P" if set(late) & set(target) and pc not in "2" else pc  # sent without it: plan again
        seen = target if pc in "89TU" else ar  # step 6: the cached list
        known = heard
        if self.code:
            again, known = self.received(s, p, tree, pc, target)
            seen = open_reassignments.sent_replicas(STAGES[pc], target, ar)
        if live:
            if not (leader >= 1 and up(leader)):
                alive = [b for b in ar if up(b) and b in isr]
                if self.code:
                    ups = [b for b in range(1, self.n + 1) if up(b)]
                    now = selectors.PartitionElection(ar, leader, isr, ups, late)
                    choice = selectors.offline(now)
                    alive = [choice.leader] if isinstance(choice, selectors.Choice) else []
                if alive:
                    yield from fenced(
                        f"elects leader {alive[0]}",
                        state(alive[0], [b for b in isr if up(b)]),
                        again,
                        seen,
                        seen,
                    )
            for b in seen:
                if up(b) and s[2][b - 1][FRESH] and b not in late:
                    chans = self.send(s, n, self.asked(s, n, tree, [b], seen))
                    if chans is not None:
                        x = s[2][b - 1]
                        yield (
                            f"{name} LeaderAndIsr to the new incarnation of {b}",
                            False,
                            put(
                                (again, *p[1:7], known),
                                tree,
                                chans,
                                (*s[2][: b - 1], (*x[:FRESH], 0), *s[2][b:]),
                            ),
                            None,
                        )
            if self.mended and any(c == n for c, _ in s[4]):
                t, _ = multi(tree, sess, [("check", CTRL, 1), ("set", EPOCH, n + 1, v)])
                if t:
                    ups = tuple(b for b in range(1, self.n + 1) if up(b))
                    begins = ("B", sess, 1, v + 1, n + 1, ups, 0, None)
                    goes_on = (pc, sess, 1, v + 1, n + 1, wait, aver, heard)
                    what = f"{name} raises its own epoch to {n + 1}"
                    self.did(Deed(what, [("set", EPOCH, n + 1, v)], [], pc, heard))
                    yield what, False, put(goes_on if self.code else begins, t), None
        if entry is None:
            if pc not in "P":
                yield f"{name} sees the entry gone", False, put(go("P")), None
            return
        if self.code:
            yield from self.decided(s, p, name, put, go, fenced, state)
            return
        yield from self.worded(s, p, name, put, go, fenced, state)
