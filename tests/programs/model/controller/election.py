"""Election, fence, grace and recovery of two zkgroup controllers and a Kafka 0.8.2.2 controller.

The zkgroup controllers are here; the tree, the Kafka controller and the faults are their surroundings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.programs.model.controller.election_surroundings import (
    COUNT,
    CTRL,
    EPOCH,
    HIST,
    IDR,
    NEW,
    OURS,
    REAL,
    STATE,
    Configuration,
    Put,
    State,
    Step,
    Surroundings,
    Tree,
)
from tests.programs.model.controller.tree import CZXID, DATA, OWNER, VER, close_session, multi

HISTORY_KEPT = 1
"""The fewest that a history can keep."""


class Model(Surroundings):
    """State: (tree, zkgroup's A, zkgroup's B, Kafka's R, broker X, faults left)."""

    def __init__(self, a: Configuration) -> None:
        self.a = a
        self.mark = a.variant != "version-0"
        self.mended = a.variant in ("mended", "newest-record")

    def init(self) -> State:
        a = self.a
        if a.real:
            tree = (
                (REAL, 0, 1, 30),
                (1, 1, 0, 0),
                (REAL, 0, 2, 30),
                ((0, 1), 0, 0, 0),
                ((), 0, 0, 0),
                None,
                2,
            )
            last = (1, 30, REAL, 1)
            real = ("L", 30, 1, 1, 1, None, 0, a.real_writes)
        else:
            tree = (None, (0, 0, 0, 0), None, ((0, 0), 0, 0, 0), ((), 0, 0, 0), None, 0)
            last = (0, 0, OURS, 0)
            real = None
        p = ("W", 10, 1, last, None, a.our_writes)
        q = ("W", 20, 1, last, None, a.our_writes)
        return (tree, p, q, real, (1 if a.real else 0, 0), (a.expiries, a.deletions, a.pauses, a.restarts))

    def goal(self, s: State) -> bool:
        """Whether another controller is active: /controller belongs to a live one that knows it leads."""
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
                yield from self.zkgroup_elections(s, k)
        if s[3]:
            yield from self.real(s)
        yield from self.faults(s)

    # last = (czxid, owner, kind, epoch version) when /controller was last read
    # lead = (epoch version, epoch, stage, greatest epoch of one of Kafka)
    # stage: 0 UpdateMetadata to do, 1 rewriting, 2 ordinary work

    def zkgroup_elections(self, s: State, k: int) -> Iterator[Step]:
        pc, sess, live, last, _, left = s[k]

        def put(q: State, t: Tree = s[0], x: Any = None) -> State:
            new = list(s)
            new[0], new[k] = t, q
            if x is not None:
                new[4] = x
            return tuple(new)

        if not live:
            yield (
                f"{'AB'[k - 1]} learns that its session is lost",
                False,
                put(("R", sess + 1, 1, last, None, left), close_session(s[0], sess)),
                None,
            )
        yield from {
            "W": self.watch,
            "R": self.watch,
            "D": self.read_epoch,
            "G": self.grace,
            "E": self.elect,
            "L": self.lead,
        }[pc](s, k, put)

    def watch(self, s: State, k: int, put: Put) -> Iterator[Step]:
        """Reads /controller, with the watch armed."""
        (pc, sess, live, last, _, left), name = s[k], "AB"[k - 1]
        c, e = s[0][CTRL], s[0][EPOCH]
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

    def read_epoch(self, s: State, k: int, put: Put) -> Iterator[Step]:
        """After a sync: is a grace needed?"""
        a, tree, (_, sess, live, last, _, left), name = self.a, s[0], s[k], "AB"[k - 1]
        e = tree[EPOCH]
        idr = tree[IDR]
        again = idr is not None and idr[OWNER] == last[1] and last[2] == REAL
        history = dict(tree[HIST][DATA])
        if self.mended:  # a controller of Kafka that was never read may have been active meanwhile
            again = again or (e[VER] != last[3] and e[DATA] not in history)
        foreign = self.foreign(history, e[DATA])
        wait = again and a.variant != "no-grace"
        yield (
            f"{name} reads the epoch {e[DATA]}" + (" and waits" if wait else ""),
            False,
            put(("G" if wait else "E", sess, live, last, (e[DATA], e[VER], int(again), foreign), left)),
            None,
        )

    def grace(self, s: State, k: int, put: Put) -> Iterator[Step]:
        """The grace ends; a running controller of Kafka has acted by then."""
        tree, p, name = s[0], s[k], "AB"[k - 1]
        _, sess, live, last, _, left = p
        c = tree[CTRL]
        r = s[3]
        calm = r is None or r[6] or (r[2] == 1 and not self.pending(tree, r) and r[0] not in "CBw")
        if calm and c is not None and self.mended:
            yield (
                f"{name} ends its grace, reads again",
                False,
                put(("R", sess, live, last, None, left)),
                None,
            )
        elif calm:
            yield f"{name} ends its grace", False, put(("E", *p[1:])), None

    def elect(self, s: State, k: int, put: Put) -> Iterator[Step]:
        tree, (_, sess, live, last, lead, left), name = s[0], s[k], "AB"[k - 1]
        e = tree[EPOCH]
        n, v, again, foreign = lead
        ops = [("create", CTRL, OURS, True)]
        if self.mark:
            ops.append(("set", CTRL, OURS, 0))
        ops.append(("set", EPOCH, n + 1, v))
        if self.mended:
            ops.append(("set", HIST, (*tree[HIST][DATA], (n + 1, foreign)), -1))
        t, why = multi(tree, sess, ops) if live else (None, "expired")
        if t is None:
            yield f"{name} elect refused ({why})", False, put(("R", sess, live, last, None, left)), None
        else:
            do = 0 if again or self.mended else 2
            bad = None if t[EPOCH][DATA] > e[DATA] else "S11 epoch not growing"
            yield (
                f"{name} elected, epoch {n + 1}",
                False,
                put(("L", sess, live, (t[COUNT], sess, OURS, v + 1), (v + 1, n + 1, do, foreign), left), t),
                bad,
            )

    def lead(self, s: State, k: int, put: Put) -> Iterator[Step]:
        tree, p, name = s[0], s[k], "AB"[k - 1]
        _, sess, live, last, lead, left = p
        c, e = tree[CTRL], tree[EPOCH]
        v, n, stage, foreign = lead
        if c is None or c[CZXID] != last[0] or (self.mended and e[VER] != v):
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
            if self.mended and ce > foreign:
                yield (
                    f"{name} finds nothing to rewrite",
                    False,
                    put(("L", sess, live, last, (v, n, 2, foreign), left)),
                    None,
                )
            else:
                yield from self.write(s, k, put, "rewrites state", STATE, (le + 1, n), ver, 2, left)
        if len(tree[HIST][DATA]) > HISTORY_KEPT:
            newest = tree[HIST][DATA][-HISTORY_KEPT:]
            yield from self.write(s, k, put, "prunes the history", HIST, newest, -1, stage, left)
        if stage == 2 and left:
            yield from self.write(s, k, put, "writes state", STATE, (le + 1, n), ver, 2, left - 1)
            if tree[NEW] is None:
                yield from self.write(s, k, put, "creates new state", NEW, n, None, 2, left - 1)

    def foreign(self, history: dict[int, int], epoch: int) -> int:
        """The greatest epoch of a Kafka controller: from this epoch's record; without a record, this epoch.

        history: epoch of zkgroup to the greatest epoch of Kafka before it, as its record has it.
        """
        if self.a.variant == "newest-record":  # whatever epoch it is of
            return history[max(history)] if history else epoch
        return history.get(epoch, epoch)

    @staticmethod
    def resign(tree: Tree, p: State) -> Tree:
        """Deletes /controller only if it is the very znode that this controller created (czxid, session)."""
        c = tree[CTRL]
        if p[2] and c is not None and c[CZXID] == p[3][0] and c[OWNER] == p[1]:
            return (*tree[:CTRL], None, *tree[CTRL + 1 :])
        return tree

    def write(
        self,
        s: State,
        k: int,
        put: Put,
        what: str,
        path: int,
        data: Any,
        ver: int | None,
        stage: int,
        left: int,
    ) -> Iterator[Step]:
        """A fenced write, sent in a new session if the old one is lost (the worst case).

        The controller may not know yet that its session is lost, while its client has a new one already.
        """
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
            bad = "S11 a zkgroup write was accepted after it lost /controller"
        elif path == STATE and data[0] <= tree[STATE][DATA][0]:
            bad = "leader epoch not growing"
        yield f"{name} {what}", False, put(("L", sess, live, last, (v, n, stage, foreign), left), t), bad
