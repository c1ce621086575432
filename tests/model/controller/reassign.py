"""One partition, its brokers, two controllers of ours, reassignments with faults.

The controllers' elections and requests are here, their moves in `reassign_steps`; the tree, the brokers and
the faults are their surroundings.

With the variant `code` the steps are those that `zkgroup.controller.machine.moving` decides on.
"""

import argparse

from tests.model.controller.reassign_steps import COUNTERS, STAGES, Steps
from tests.model.controller.reassign_surroundings import (
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
    Surroundings,
)
from tests.model.controller.tree import DATA, OWNER, VER, explore, multi
from zkgroup.controller.machine import moving, selectors

VARIANTS = (
    "recipe",
    "mended",
    "code",
    "shrink-blind",
    "two-writes",
    "entry-first",
    "no-bump",
    "no-admin-version",
    "delete-early",
)


def ints(text):
    return tuple(int(x) for x in text.split(","))


class Model(Steps, Surroundings):
    """State: (tree, controllers, brokers, channels, late copies, requests made, faults left)."""

    def __init__(self, a):
        self.a = a
        self.moves = [ints(x) for x in a.moves.split("/")]
        self.first, self.moves = self.moves[0], self.moves[1:]
        self.n = max(max(m) for m in [*self.moves, self.first])
        self.code = a.variant == "code"
        self.mended = a.variant == "mended" or self.code
        self.lease = a.lease or self.mended
        self.await_um = a.await_um

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
        procs = [("P", 10, 1, 1, 1, (), 0)]
        if self.a.controllers > 1:
            procs.append(("I", 20, 1, 0, 0, (), 0))
        a = self.a
        return (
            tree,
            tuple(procs),
            tuple(brokers),
            (),
            (),
            0,
            (a.expiries, a.crashes, a.lags, a.produces, a.cancels, a.breaks, a.lost),
        )

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

    # ---- what must hold after every accepted change

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
        between = self.a.variant == "two-writes" and len(t[DONE][DATA]) == new[5]
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

    # ---- a controller: (pc, session, session lives, epoch version, epoch, to be answered, admin version)
    # pc: I watches, A UpdateMetadata, B first LeaderAndIsr, P plan, 2 3 7 8 9 the steps, T steps 10+11

    def send(self, s, epoch, msgs):
        """Append (broker, message) to the channels; None when one is full (back-pressure)."""
        chans = dict(s[3])
        for b, m in msgs:
            if not s[2][b - 1][UP]:
                continue
            q = chans.get((epoch, b), ())
            if len(q) >= self.a.channel:
                return None
            chans[epoch, b] = (*q, m)
        return tuple(sorted(chans.items()))

    def held(self, s, epoch):
        """Replicas to be left out for now: StopReplica(delete) not answered; or, while a
        move is open, not in the ISR and nothing of this epoch answered by that broker."""
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

    def controller(self, s, k):
        tree, p = s[0], s[1][k]
        pc, sess, live, v, n, wait, aver = p
        name = "AB"[k]

        def put(q, t=tree, chans=None, brokers=None):
            procs = (*s[1][:k], q, *s[1][k + 1 :])
            return (t, procs, brokers or s[2], s[3] if chans is None else chans, *s[4:])

        idle = ("I", sess if live else sess + 1, 1, 0, 0, (), 0)
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
                    put(("A" if self.await_um else "B", sess, 1, e[VER] + 1, e[DATA] + 1, ups, 0), t),
                    None,
                )
            return
        (leader, isr, le, _), sver = tree[STATE][DATA], tree[STATE][VER]
        ar, entry = tree[AR][DATA], tree[ADMIN]
        target = entry[DATA][0] if entry else ()
        out = tuple(b for b in ar if b not in target)

        def go(c, aver=aver, w=()):
            return (c, sess, live, v, n, out if c == "9" else w, aver)

        def up(b):
            return s[2][b - 1][UP]

        def fenced(what, ops, after, to=None, sent_ar=None, aver=aver):
            """One fenced multi, then its LeaderAndIsr in the same step (a crash between: fault `lost`)."""
            t, why = multi(tree, sess if live else sess + 1, [("check", CTRL, 1), ("check", EPOCH, v), *ops])
            if t is None:
                mine = tree[CTRL] and tree[CTRL][OWNER] == sess and tree[EPOCH][VER] == v
                yield f"{name} {what}: refused ({why})", False, put(go("P") if mine else idle), None
                return
            new = put(go(after, aver), t)
            bad = self.judge(s, new)
            if not (tree[CTRL] and tree[CTRL][OWNER] == sess and tree[EPOCH][DATA] == n):
                bad = "S11 a write of ours accepted after it lost /controller"
            elif not set(t[STATE][DATA][1]) <= set(isr):
                bad = "a controller added to the ISR"
            if s[6][6]:
                yield (
                    f"{name} {what}, the answer is lost",
                    True,
                    (*put(go("P"), t)[:6], self.spend(s, 6)),
                    bad,
                )
            if to is not None:
                chans = self.send(s, n, self.asked(s, n, t, to, sent_ar))
                if chans is None:
                    return
                new = put(go(after, aver), t, chans)
            yield f"{name} {what}", False, new, bad

        def state(first, i, bump=1):
            return [("set", STATE, (first, tuple(sorted(i)), le + bump, n), sver)]

        if pc == "A":  # every live broker answers our epoch first
            left = tuple(b for b in wait if up(b) and s[2][b - 1][CE] < n)
            if not left:
                yield f"{name} all answered", False, put(go("B")), None
            for b in left:
                x = s[2][b - 1]
                yield (
                    f"{name} UpdateMetadata answered by {b}",
                    False,
                    put(go("A", w=left), brokers=(*s[2][: b - 1], (*x[:CE], n, *x[LE:]), *s[2][b:])),
                    None,
                )
            return
        if not live and self.lease and pc in "B9":
            return  # the own lease has ended: nothing is sent
        if pc == "B":  # the picture to every replica, no bump
            chans = self.send(s, n, self.asked(s, n, tree, ar, ar))
            if chans is not None:
                fresh = tuple((*x[:FRESH], 0) for x in s[2])
                yield f"{name} first LeaderAndIsr to {ar}", False, put(go("P"), tree, chans, fresh), None
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
        seen = target if pc in "89TU" and not self.a.union_late else ar  # step 6: the cached list
        if self.code:
            again = COUNTERS[moving.interrupted(STAGES[pc], target, late)]
            seen = moving.told_replicas(STAGES[pc], target, ar)
        if live:
            if not (leader >= 1 and up(leader)):
                alive = [b for b in ar if up(b) and b in isr]
                if self.code:
                    ups = [b for b in range(1, self.n + 1) if up(b)]
                    choice = selectors.offline(ar, isr, ups, held=late)
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
                            put((again, *p[1:]), tree, chans, (*s[2][: b - 1], (*x[:FRESH], 0), *s[2][b:])),
                            None,
                        )
            if self.mended and any(c == n for c, _ in s[4]):
                t, _ = multi(tree, sess, [("check", CTRL, 1), ("set", EPOCH, n + 1, v)])
                if t:
                    ups = tuple(b for b in range(1, self.n + 1) if up(b))
                    yield (
                        f"{name} raises its own epoch to {n + 1}",
                        False,
                        put(("B", sess, 1, v + 1, n + 1, ups, 0), t),
                        None,
                    )
        if entry is None:
            if pc not in "P":
                yield f"{name} sees the entry gone", False, put(go("P")), None
            return
        if self.code:
            yield from self.decided(s, p, name, put, go, fenced, state)
            return
        yield from self.worded(s, p, name, put, go, fenced, state)


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--variant", choices=VARIANTS, default="recipe")
    p.add_argument(
        "--moves", default="1/2", help="replica lists in order, e.g. 1,2/2,3 or there and back 1/2/1"
    )
    p.add_argument(
        "--await-um", action="store_true", help="a new controller awaits an answer of every broker first"
    )
    p.add_argument("--lease", action="store_true", help="no request is sent once the own lease has ended")
    p.add_argument("--back-to-plan", action="store_true", help="step 8 whose condition is gone plans again")
    p.add_argument(
        "--loop", action="store_true", help="step 4 does not ask whether a target lives (endless bumps)"
    )
    p.add_argument(
        "--union-late",
        action="store_true",
        help="after step 7 LeaderAndIsr carries the replica list of the znode, not the target",
    )
    p.add_argument(
        "--adopt", action="store_true", help="leaders of ours adopt a newer version (controller.md 8.3)"
    )
    for name, default in (
        ("controllers", 2),
        ("expiries", 0),
        ("crashes", 0),
        ("lags", 0),
        ("produces", 0),
        ("cancels", 0),
        ("breaks", 0),
        ("lost", 0),
        ("channel", 3),
        ("max-states", 1_200_000),
        ("max-seconds", 200),
    ):
        p.add_argument(f"--{name}", type=int, default=default)
    p.add_argument("--quiet", action="store_true", help="no traces")
    p.add_argument("--stop", action="store_true", help="end at the first violation")
    return p


def main():
    a = arguments().parse_args()
    res = explore(Model(a), a.max_states, a.max_seconds, stop=a.stop)
    faults = " ".join(
        f"{n}={getattr(a, n)}"
        for n in ("expiries", "crashes", "lags", "produces", "cancels", "breaks", "lost")
        if getattr(a, n)
    )
    flags = " ".join(f for f in ("await_um", "lease", "back_to_plan", "adopt") if getattr(a, f))
    name = " ".join(filter(None, ("reassign", a.variant, a.moves, faults, flags)))
    print(f"{name}: {res.verdict}; {res.states} states, {res.edges} steps, {res.seconds:.1f} s")
    for text, trace in (*res.violations.items(), ("stuck", res.stuck or [])):
        if trace:
            print(f"  {text}, after {len(trace)} steps")
        for number, step in enumerate([] if a.quiet else trace, 1):
            print(f"  {number:3} {step}")


if __name__ == "__main__":
    main()
