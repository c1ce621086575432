"""The steps of a reassignment: as the text of recipes 17 has them, and as the code decides (`moving`)."""

from tests.programs.model.controller.reassign_surroundings import ADMIN, AR, DONE, STATE, UP, Deed
from tests.programs.model.controller.tree import DATA, VER
from zkgroup.controller.machine.open_reassignments import Stage
from zkgroup.controller.machine.reassignment import steps

STAGES = {
    "P": Stage.PLAN,
    "2": Stage.ANNOUNCE,
    "3": Stage.CATCH_UP,
    "7": Stage.LEAD,
    "8": Stage.SHRINK,
    "9": Stage.DELETE,
    "T": Stage.FINISH,
}
COUNTERS = {stage: pc for pc, stage in STAGES.items()}


class Steps:
    """The next steps of a controller, after elections and requests; state as in `reassign.Model`.

    Both get the controller `p` with its `name`, and its ways to act: `put` a state, `go` to a
    counter, write `fenced`, and `state` for the write of a partition's state.
    """

    def worded(self, s, p, name, put, go, fenced, state):
        """The step of the text, in the requested variant."""
        var, tree, (pc, _, _, _, n, wait, aver, _) = self.variant, s[0], p
        (leader, isr, _, _), sver = tree[STATE][DATA], tree[STATE][VER]
        ar, entry = tree[AR][DATA], tree[ADMIN]
        target, late = entry[DATA][0], self.held(s, n)
        bump = 0 if var == "no-bump" else 1

        def up(b):
            return s[2][b - 1][UP]

        check = [("check", ADMIN, aver)]
        if pc == "P":
            here = go("P", entry[VER])
            union = target + tuple(b for b in ar if b not in target)
            if set(target + ar) & set(self.held(s, n)) - (
                set(ar) - set(target) if set(target) <= set(isr) else set()
            ):
                return  # waiting for the answer of that broker
            if ar == target:
                nxt = "T"
            elif set(target) <= set(isr):
                nxt = "7" if any(map(up, target)) else "3"
            elif set(ar) == set(union):
                nxt = "2"
            else:
                yield from fenced(
                    f"step 1: AR := {union}",
                    [("set", AR, union, tree[AR][VER]), ("check", ADMIN, entry[VER])],
                    "P",
                )
                return
            yield f"{name} plans: step {nxt}", False, put((*here[:0], nxt, *here[1:])), None
        elif pc == "2" and not set(target) & set(late):
            yield from fenced("step 2: leader epoch + 1", state(leader, isr, bump), "3", ar, ar)
        elif pc == "3":
            if entry[VER] != aver:
                yield f"{name} sees the entry changed", False, put(go("P")), None
            elif set(target) <= set(isr) and any(map(up, target)):
                yield f"{name} step 4: targets in the ISR", False, put(go("7")), None
        elif pc == "7":
            ok = [b for b in target if up(b) and b in isr]
            if leader in ok:
                ok = [leader]
            if ok:
                yield from fenced(
                    f"step 7: leader {ok[0]}",
                    state(ok[0], isr),
                    "9" if var == "delete-early" else "8",
                    target,
                    target,
                )
            else:
                yield f"{name} step 7: no target can lead, back to waiting", False, put(go("3")), None
        elif pc == "8":
            rest = [b for b in isr if b in target]
            if var == "shrink-blind":
                rest = rest or [isr[0]]
                yield from fenced(
                    f"step 8: ISR := {rest}",
                    state(leader if leader in rest else -1, rest),
                    "9",
                    target,
                    target,
                )
            elif leader in target and set(target) <= set(isr):
                if len(rest) == len(isr):
                    if self.mended:
                        yield from fenced(
                            "step 8: nothing to remove, checked", [*check, ("check", STATE, sver)], "9"
                        )
                    else:
                        yield f"{name} step 8: nothing to remove", False, put(go("9")), None
                else:
                    yield from fenced(
                        f"step 8: ISR := {rest}",
                        state(leader, rest, bump) + (check if self.mended else []),
                        "9",
                        target,
                        target,
                    )
            else:
                back = put(go("P" if self.mended else "3"))
                yield f"{name} step 8: condition gone, back to waiting", False, back, None
        elif pc == "9":
            chans = self.send(s, n, [(b, ("S",)) for b in wait])
            if chans is not None:
                yield (
                    f"{name} step 9: StopReplica(delete) to {wait}",
                    False,
                    put(go("8" if var == "delete-early" and set(wait) & set(isr) else "T"), tree, chans),
                    None,
                )
        elif pc in "TU":
            word = "cancelled" if entry[DATA][2] else "completed"
            ten = [("set", AR, target, tree[AR][VER])]
            keep = [("check", STATE, sver)] if self.mended else []
            if self.mended and (entry[VER] != aver or not set(isr) <= set(target)):
                yield f"{name} steps 10+11: entry or ISR changed, plans again", False, put(go("P")), None
                return
            if self.mended and not set(target) <= set(isr):
                return  # a target fell out: wait here for the leader to add it
            record = [("set", DONE, tree[DONE][DATA] + (word,), -1)]
            if var == "two-writes":  # 10 with the record, then 11
                if pc == "T":
                    yield from fenced("step 10: AR := RAR, record", ten + record, "U")
                else:
                    yield from fenced("step 11: entry deleted", [("delete", ADMIN, aver)], "P")
            elif var == "entry-first":
                if pc == "T":
                    yield from fenced(
                        "step 11: entry deleted, record", [("delete", ADMIN, aver), *record], "P"
                    )
            else:
                yield from fenced(
                    "steps 10+11: AR := RAR, entry deleted, record",
                    keep + ten + [("delete", ADMIN, aver)] + record,
                    "P",
                )

    def decided(self, s, p, name, put, go, fenced, state):
        """The step that `zkgroup.controller.machine.reassignment.steps` decides on, in this model's tree."""
        tree, (pc, _, _, _, n, drop, aver, heard) = s[0], p
        (leader, isr, _, _), sver = tree[STATE][DATA], tree[STATE][VER]
        ar, ((target, source, cancelled), entry_version) = tree[AR][DATA], tree[ADMIN][:2]
        changed = pc != "P" and entry_version != aver
        decision = steps.decide(
            steps.Situation(
                target,
                ar,
                leader,
                isr,
                STAGES[pc],
                live=frozenset(b for b in range(1, self.n + 1) if s[2][b - 1][UP]),
                deleting=frozenset(self.held(s, n)),
                changed=changed,
                drop=drop if pc == "9" else (),
                cancelled=cancelled,
                growing=not set(target) <= set(source),
                left_out=heard is not None,
            )
        )
        aver = entry_version if changed or pc == "P" else aver
        then = COUNTERS[decision.then]
        check = [("check", ADMIN, aver)]
        match decision.step:
            case steps.Wait(reason):
                if then != pc:
                    yield f"{name} {reason}", False, put(go(then, aver)), None
            case steps.WriteUnion(replicas):
                ops = [*check, ("set", AR, replicas, tree[AR][VER])]
                yield from fenced(f"step 1: AR := {replicas}", ops, then, aver=aver)
            case steps.Announce(replicas):
                ops = state(leader, isr)
                yield from fenced("step 2: leader epoch + 1", ops, then, ar, replicas, aver)
            case steps.Lead(first, same):
                yield from fenced(f"step 7: leader {first}", state(first, same), then, target, target, aver)
            case steps.Shrink(rest, needed, out):
                assert set(out) == set(ar) - set(target)
                if needed:
                    ops = check + state(leader, rest)
                    yield from fenced(f"step 8: ISR := {rest}", ops, then, target, target, aver)
                else:
                    ops = [*check, ("check", STATE, sver)]
                    yield from fenced("step 8: nothing to remove, checked", ops, then, aver=aver)
            case steps.DeleteReplicas(out):
                what, messages = f"{name} step 9: StopReplica(delete) to {out}", [(b, ("S",)) for b in out]
                self.did(Deed(what, [], messages, then, heard))
                chans = self.send(s, n, messages)
                if chans is not None:
                    yield what, False, put(go(then, aver), tree, chans), None
            case steps.Complete(outcome):
                word = "cancelled" if outcome == "cancelled" else "completed"
                assert outcome != "dropped"
                held = ("check", AR, tree[AR][VER])
                lists = held if ar == target else ("set", AR, target, tree[AR][VER])
                ops = [("check", STATE, sver), lists, ("delete", ADMIN, aver)]
                record = ("set", DONE, (*tree[DONE][DATA], word), -1)
                yield from fenced("steps 10+11: AR := RAR, entry deleted, record", [*ops, record], then)
