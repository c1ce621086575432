"""Election, fence, grace and recovery: two controllers of ours and a real 0.8.2.2 one.

The tree: /controller, /controller_epoch, the registration of the real broker,
one partition `state` (leader epoch, controller epoch), the epochs we recorded as
ours, and the `state` of a topic that somebody has just created.

The real controller creates /controller, then reads and bumps the epoch in two
further steps; sees the node's fate only when it handles the event, and does not
resign when the node exists again (K1); refuses a state whose controller epoch is
above its own (F3); has no fence of its own; deletes /controller, whoever owns it,
when its bump fails (K2); and its client repeats a call in a new session (zkclient).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.model.controller.tree import CZXID, DATA, OWNER, VER, close_session, multi

CTRL, EPOCH, IDR, STATE, HIST, NEW, COUNT = range(7)
OURS, REAL = "ours", "real"
VARIANTS = ("recipe", "mended", "no-check", "epoch-only", "version-0", "no-grace", "wide-grace")


Tree = tuple[Any, ...]
State = tuple[Any, ...]
Step = tuple[str, bool, State, str | None]
"""Label, whether it is a fault, the state after it, and what it violates."""


class Configuration(NamedTuple):
    """Who takes part, which recipe they follow, how much goes wrong, and what is looked for."""

    variant: str = "mended"
    check: str = "ours"
    """`ours`: S11 and epochs that grow; `overlap`: a real one writes while ours holds /controller;
    `recovered`: a real one of an older epoch changes a standing state, or is obeyed, after our recovery;
    `all`: also states that it creates."""
    real: bool = True
    r_lives: bool = False
    """The real one's session never expires."""
    zkclient: bool = True
    """A real client repeats a call in a new session."""
    ours: int = 2
    expiries: int = 1
    deletions: int = 1
    pauses: int = 0
    restarts: int = 0
    our_writes: int = 1
    real_writes: int = 1


class Model:
    """State: (tree, ours A, ours B, real R, broker X, faults left)."""

    def __init__(self, a: Configuration) -> None:
        self.a = a
        self.mark = a.variant != "version-0"

    def init(self) -> State:
        a = self.a
        if a.real:
            tree = (
                (REAL, 0, 1, 30),
                (1, 1, 0, 0),
                (REAL, 0, 2, 30),
                ((0, 1), 0, 0, 0),
                (frozenset(), 0, 0, 0),
                None,
                2,
            )
            last = (1, 30, REAL, 1)
            real = ("L", 30, 1, 1, 1, None, 0, a.real_writes)
        else:
            tree = (None, (0, 0, 0, 0), None, ((0, 0), 0, 0, 0), (frozenset(), 0, 0, 0), None, 0)
            last = (0, 0, OURS, 0)
            real = None
        p = ("W", 10, 1, last, None, a.our_writes)
        q = ("W", 20, 1, last, None, a.our_writes) if a.ours > 1 else None
        return (tree, p, q, real, (1 if a.real else 0, 0), (a.expiries, a.deletions, a.pauses, a.restarts))

    def goal(self, s: State) -> bool:
        """Somebody rules: /controller belongs to a live one that knows it leads."""
        tree = s[0]
        c = tree[CTRL]
        if c is None:
            return False
        for p in s[1:3]:
            if (
                p
                and p[2]
                and p[0] == "L"
                and p[1] == c[OWNER]
                and p[4][2] == 2
                and p[4][0] == tree[EPOCH][VER]
            ):
                return True
        r = s[3]
        return bool(r and r[2] == 1 and r[1] == c[OWNER] and r[0] == "L")

    def succ(self, s: State) -> Iterator[Step]:
        for k in (1, 2):
            if s[k]:
                yield from self.ours(s, k)
        if s[3]:
            yield from self.real(s)
        yield from self.faults(s)

    # ---- a controller of ours: (pc, session, session lives, last, lead, writes left)
    # last = (czxid, owner, kind, epoch version) when /controller was last read
    # lead = (epoch version, epoch, stage, greatest epoch of a real one)
    # stage: 0 UpdateMetadata to do, 1 rewriting, 2 ordinary work

    def ours(self, s: State, k: int) -> Iterator[Step]:
        a, tree, p = self.a, s[0], s[k]
        pc, sess, live, last, lead, left = p
        name = "AB"[k - 1]
        c, e = tree[CTRL], tree[EPOCH]

        def put(q: State, t: Tree = tree, x: Any = None) -> State:
            new = list(s)
            new[0], new[k] = t, q
            if x is not None:
                new[4] = x
            return tuple(new)

        if not live:
            t = close_session(tree, sess)
            yield (
                f"{name} learns that its session is lost",
                False,
                put(("R", sess + 1, 1, last, None, left), t),
                None,
            )
        if pc in "WR":  # read, with the watch armed
            if c is None:
                if (pc == "W" and last[0] == 0) or pc == "R" or last[0]:
                    yield (
                        f"{name} sees /controller gone",
                        False,
                        put(("D", sess, live, last, None, left)),
                        None,
                    )
            elif c[CZXID] != last[0] or pc == "R":
                yield (
                    f"{name} reads /controller ({c[DATA]})",
                    False,
                    put(("W", sess, live, (c[CZXID], c[OWNER], c[DATA], e[VER]), None, left)),
                    None,
                )
        elif pc == "D":  # sync done; grace?
            idr = tree[IDR]
            again = idr is not None and idr[OWNER] == last[1] and last[2] == REAL
            if a.variant == "wide-grace":
                again = idr is not None
            if a.variant == "mended":  # somebody we never saw has ruled meanwhile
                again = again or e[VER] != last[3]
            hist = tree[HIST][DATA]
            foreign = max([n for n in range(1, e[DATA] + 1) if n not in hist], default=0)
            wait = again and a.variant != "no-grace"
            yield (
                f"{name} reads the epoch {e[DATA]}" + (" and waits" if wait else ""),
                False,
                put(("G" if wait else "E", sess, live, last, (e[DATA], e[VER], int(again), foreign), left)),
                None,
            )
        elif pc == "G":  # the grace ends; a running real one has acted by then
            r = s[3]
            calm = r is None or r[6] or (r[2] == 1 and not self.pending(tree, r) and r[0] not in "CBw")
            if calm and c is not None and a.variant == "mended":
                yield (
                    f"{name} ends its grace, looks again",
                    False,
                    put(("R", sess, live, last, None, left)),
                    None,
                )
            elif calm:
                yield f"{name} ends its grace", False, put(("E", *p[1:])), None
        elif pc == "E":
            n, v, again, foreign = lead
            ops = [("create", CTRL, OURS, True)]
            if self.mark:
                ops.append(("set", CTRL, OURS, 0))
            ops.append(("set", EPOCH, n + 1, v))
            if a.variant == "mended":
                ops.append(("set", HIST, tree[HIST][DATA] | {n + 1}, -1))
            t, why = multi(tree, sess, ops) if live else (None, "expired")
            if t is None:
                yield f"{name} elect refused ({why})", False, put(("R", sess, live, last, None, left)), None
            else:
                do = 0 if again or a.variant == "mended" else 2
                bad = None if t[EPOCH][DATA] > e[DATA] else "S11 epoch not growing"
                yield (
                    f"{name} elected, epoch {n + 1}",
                    False,
                    put(
                        ("L", sess, live, (t[COUNT], sess, OURS, v + 1), (v + 1, n + 1, do, foreign), left), t
                    ),
                    bad,
                )
        elif pc == "L":
            v, n, stage, foreign = lead
            if c is None or c[CZXID] != last[0] or (a.variant == "mended" and e[VER] != v):
                yield (
                    f"{name} sees it lost, resigns",
                    False,
                    put(("R", sess, live, last, None, left), self.resign(tree, p)),
                    None,
                )
            known, restarts = s[4]
            if stage == 0:
                if known <= n:
                    yield (
                        f"{name} UpdateMetadata answered",
                        False,
                        put(("L", sess, live, last, (v, n, 1, foreign), left), tree, (n, restarts)),
                        None,
                    )
                else:
                    yield (
                        f"{name} refused by the broker (11), resigns",
                        False,
                        put(("R", sess, live, last, None, left), self.resign(tree, p)),
                        None,
                    )
            (le, ce), ver = tree[STATE][DATA], tree[STATE][VER]
            if stage == 1:
                if a.variant == "mended" and ce > foreign:
                    yield (
                        f"{name} finds nothing to rewrite",
                        False,
                        put(("L", sess, live, last, (v, n, 2, foreign), left)),
                        None,
                    )
                else:
                    yield from self.write(s, k, put, "rewrites state", STATE, (le + 1, n), ver, 2, left)
            if stage == 2 and left:
                yield from self.write(s, k, put, "writes state", STATE, (le + 1, n), ver, 2, left - 1)
                if tree[NEW] is None:
                    yield from self.write(s, k, put, "creates new state", NEW, n, None, 2, left - 1)

    @staticmethod
    def resign(tree: Tree, p: State) -> Tree:
        """Delete /controller only if it is the very node we created (czxid and session)."""
        c = tree[CTRL]
        if p[2] and c is not None and c[CZXID] == p[3][0] and c[OWNER] == p[1]:
            return (*tree[:CTRL], None, *tree[CTRL + 1 :])
        return tree

    def write(
        self,
        s: State,
        k: int,
        put: Any,
        what: str,
        path: int,
        data: Any,
        ver: int | None,
        stage: int,
        left: int,
    ) -> Iterator[Step]:
        """A fenced write. A lost session that is not known yet: worst case, the
        client has a new one already and the write goes out in it."""
        a, tree = self.a, s[0]
        _, sess, live, last, lead, _ = s[k]
        v, n, _, foreign = lead
        ops = []
        if a.variant not in ("epoch-only", "no-check"):
            ops.append(("check", CTRL, 1 if self.mark else 0))
        if a.variant != "no-check":
            ops.append(("check", EPOCH, v))
        ops.append(("create", path, data, False) if ver is None else ("set", path, data, ver))
        t, why = multi(tree, sess if live else sess + 1, ops)
        name = "AB"[k - 1]
        if t is None:
            yield (
                f"{name} {what}: refused ({why}), resigns",
                False,
                put(("R", sess, live, last, None, left), self.resign(tree, s[k])),
                None,
            )
            return
        c, bad = tree[CTRL], None
        if c is None or c[CZXID] != last[0] or c[OWNER] != sess or tree[EPOCH][DATA] != n:
            bad = "S11 a write of ours accepted after it lost /controller"
        elif path == STATE and data[0] <= tree[STATE][DATA][0]:
            bad = "leader epoch not growing"
        yield f"{name} {what}", False, put(("L", sess, live, last, (v, n, stage, foreign), left), t), bad

    # ---- a real one: (pc, session, 1 lives | 0 expired | 2 new session, event not handled,
    #                   czxid seen, epoch, local, paused, writes left)
    # pc: I watches, C created, B read the epoch, L leads, w has read a state, n about to create

    @staticmethod
    def pending(tree: Tree, r: State) -> bool:
        c = tree[CTRL]
        return (c[CZXID] if c else 0) != r[3]

    def real(self, s: State) -> Iterator[Step]:
        a, tree, r = self.a, s[0], s[3]
        pc, sess, live, seen, epoch, loc, paused, left = r
        c, e = tree[CTRL], tree[EPOCH]

        def put(q: State, t: Tree = tree, x: Any = None) -> State:
            return (t, s[1], s[2], q, x or s[4], s[5])

        if paused:
            yield "R goes on after its pause", False, put((*r[:6], 0, left)), None
            return
        if live == 0:
            if a.zkclient or pc in "IL":
                yield "R has a new session", False, put((pc, sess + 1, 2, *r[3:])), None
            return
        if pc in "IL":  # the lock is free: events are handled
            if live == 2:  # expiry: resign, register, elect
                t, q = tree, (sess, 1)
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
        elif pc in "wn":
            path = STATE if pc == "w" else NEW
            op = ("set", STATE, (loc[0] + 1, epoch), loc[1]) if pc == "w" else ("create", NEW, epoch, False)
            t, _ = multi(tree, sess, [op])
            q = ("L", *r[1:5], None, 0, left - 1)
            if t is None:
                yield "R write refused (version or exists)", False, put(q), None
            else:
                known, n = s[4]
                told = epoch >= known
                yield (
                    (
                        f"R {'writes' if path == STATE else 'creates new'} state [epoch {epoch}, "
                        f"broker {'obeys' if told else 'refuses'}]"
                    ),
                    False,
                    put(q, t, (max(known, epoch), n)),
                    self.judge(s, path, epoch, told),
                )

    def judge(self, s: State, path: int, epoch: int, told: bool) -> str | None:
        """What an accepted write of a real controller means while one of ours holds /controller."""
        c, want = s[0][CTRL], self.a.check
        if c is None or c[DATA] != OURS or want == "ours":
            return None
        holder = next((p for p in s[1:3] if p and p[1] == c[OWNER] and p[0] == "L"), None)
        if want == "overlap":
            return "two controllers at once: a real one writes while ours holds /controller"
        if holder and holder[4][2] == 2 and epoch < holder[4][1]:
            if path == STATE and want in ("recovered", "all"):
                return "after recovery a real one changed a standing state"
            if want == "all":
                return "after recovery a real one created a new state"
            if told and want == "recovered":
                return "after recovery a broker obeyed a real one"
        return None

    # ---- faults

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
