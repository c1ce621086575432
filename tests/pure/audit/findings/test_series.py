"""Findings of a series of snapshots, each fault by itself.

`snapshot` is one that is exact, an hour behind the one before; `fuzzy N` one whose window has the next N
statements. A finding has the snapshots of its ends, and behind `@` its very transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.pure.audit.histories import Case, cases
from tests.pure.audit.histories import History as LogHistory
from tests.worlds.audit_log import AuditLog
from tests.worlds.made_series import Cut, History, found_in
from zkgroup.audit.findings.rules import Finding
from zkgroup.audit.inputs.snapshots import Series

_HOUR_MS = 3_600_000


class SeriesHistory(LogHistory):
    """A history, and the zxids of its snapshots."""

    def __init__(self, givens: Mapping[str, str], with_lists: bool | None = None) -> None:
        super().__init__(givens, with_lists)
        self.cuts: list[Cut] = []

    def _do(self, statement: str) -> None:
        verb, *words = statement.split()
        if verb in ("snapshot", "list", "fuzzy"):
            self.log.wait(_HOUR_MS)
            zxid = self.log.fail(0)
            self._labels[zxid] = f"s{len(self.cuts)}"
            end_zxid = zxid + (int(words[0]) if verb == "fuzzy" else 0)
            self.cuts.append(Cut(zxid, end_zxid, verb == "list", frozenset(words[verb == "fuzzy" :])))
        elif verb == "reset":
            group, text, value, session = words
            topic, _, number = text.rpartition("-")
            marker = f"/consumers/{group}/resets/{text}"
            data = f'{{"version":1,"offset":"{value}","time":"1","by":"me"}}'
            gone = [self.log.deletion(marker)] if self.log.exists(marker) else []
            moved = self.log.setting(f"/consumers/{group}/offsets/{topic}/{number}", value)
            self.log.multi(int(session), moved, *gone, self.log.creation(marker, data))
        else:
            self.cuts = [] if verb == "new" else self.cuts
            super()._do(statement)

    def found(self, rule: str, bounds: Mapping[str, float]) -> list[str]:
        given = {name.replace(".", "__"): value for name, value in bounds.items()}
        series = History(self.log.events()).series(self.cuts)
        return [self._shown(one) for one in found_in(series, **given) if one.finding == rule]

    def time(self, interval: Finding) -> Iterator[str]:  # type: ignore[override]
        first, last = (
            self._labels.get(zxid, f"#{zxid:x}") if zxid else ""
            for zxid in (interval.from_zxid, interval.to_zxid)
        )
        at = interval.at_zxid
        yield f"{first}..{last}" + (f" @{self._labels.get(at, f'#{at:x}')}" if at else "")

    def _shown(self, finding: Finding) -> str:
        assert finding.basis == "snapshots"
        return super()._shown(finding)


TABLE = """
given member: open 1; join g g_a 1; claim g t-0 g_a-0 1
given jvm: open 1; claim g t-0 g_a-0 1; create /consumers/g/ids/g_a
  '{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}' 1 ephemeral
given second: open 2; join g g_b 2
given topic: topic t 2
given brokers: open 1; open 2; broker 1 1; broker 2 2; topic t 0:1,2; state t-0 1 1,2
offset_regression
A lower offset of one znode was set back; the write is known where it is the only one.
    commit g t-0 50 1; snapshot; back: commit g t-0 20 2; snapshot; commit g t-0 30 1; commit g t-0 9 1
    snapshot; commit g t-0 60 1; snapshot
    > error g t-0 s0..s1 @back: 50 -> 20, in 1 write
    > error g t-0 s1..s2: 20 -> 9, in 2 writes
What rose again in between is not seen, and a znode that was made again is none.
    commit g t-0 50 1; snapshot; commit g t-0 20 1; commit g t-0 60 1; snapshot
    delete /consumers/g/offsets/t/0 1; commit g t-0 5 1; snapshot
    > nothing
An operator's marker explains it, and so does the record of a change; not one that is above the offset.
    commit g t-0 50 1; snapshot; reset g t-0 20 9; commit g t-0 22 1; snapshot
    multi 9 & setting /consumers/g/offsets/t/0 4 & creation /zkgroup/audit/g '{}'; snapshot
    commit g t-0 90 1; snapshot; reset g t-0 70 9; commit g t-0 60 1; snapshot
    > info g t-0 s0..s1: 50 -> 22, in 2 writes; an operator's reset, by its marker
    > info g t-0 s1..s2 @#6: 22 -> 4, in 1 write; an operator's reset, by its marker
    > error g t-0 s3..s4: 90 -> 60, in 2 writes
Where the path is unknown, nothing is proved of that snapshot; the ones around it are compared.
    commit g t-0 50 1; snapshot; commit g t-0 20 1; snapshot /consumers/g/offsets/t/0; commit g t-0 30 1;
      snapshot
    > error g t-0 s0..s2: 50 -> 30, in 2 writes
offset_deleted
It is gone, or made again: a lower one is a warning.
    commit g t-0 50 1; commit g t-1 50 1; snapshot; delete /consumers/g/offsets/t/0 1; made: commit g t-0 7 1
    delete /consumers/g/offsets/t/1 1; snapshot
    > warning g t-0 s0..s1 @made: deleted and made again: it was 50, and then 7
    > info g t-1 s0..s1: deleted; it was 50
What is no number is told as it is written.
    commit g t-0 50 1; snapshot; delete /consumers/g/offsets/t/0 1; made: commit g t-0 odd 1; snapshot
    delete /consumers/g/offsets/t/0 1; snapshot
    > warning g t-0 s0..s1 @made: deleted and made again: it was 50, and then odd
    > info g t-0 s1..s2: deleted; it was odd
commit_rate
The growth of versions counts writes; a znode that is new counts its create.
    commit g t-0 1 1; snapshot; commit g t-0 2 1; commit g t-0 3 1; commit g t-1 1 1; snapshot; snapshot
    > info g s0..s1: at least 3 writes of offsets, most between 0x2 and 0x6: 0.00/s
stalled_offset
Three snapshots with an owner, and without a commit.
    member; commit g t-0 5 1; snapshot; snapshot; snapshot; commit g t-0 6 1; snapshot; snapshot
    > info g t-0 0x1 s0..s2: at 5, in 3 snapshots over 2.0 h, with an owner in each of them
    > (snapshots=4) nothing
Also where there is no offset at all, or one that is no number.
    member; commit g t-0 odd 1; snapshot; snapshot; snapshot
    > info g t-0 0x1 s0..: at odd, in 3 snapshots over 2.0 h, with an owner in each of them
    new; member; snapshot; snapshot; snapshot
    > info g t-0 0x1 s0..: without an offset, in 3 snapshots over 2.0 h, with an owner in each of them
reset_overwritten
Lower than the marker.
    member; commit g t-0 5 1; snapshot; reset g t-0 70 9; commit g t-0 6 1; snapshot; snapshot
    > warning g t-0 s0..s1: reset to 70, and then written: 6; the reset was at 0x6, by
      me
As high again as before, by the one write behind it, or by a member of the JVM that owned it all along.
    commit g t-0 50 1; snapshot; reset g t-0 20 9; commit g t-0 55 1; snapshot
    > warning g t-0 s0..s1: reset to 20, and then written: 55, where it was 50 before; the reset was at 0x3,
      by me
    new; jvm; commit g t-0 50 1; snapshot; reset g t-0 20 9; commit g t-0 53 1; commit g t-0 55 1; snapshot
    > warning g t-0 s0..s1: reset to 20, and then written: 55, where it was 50 before; the reset was at 0x6,
      by me
One that is obeyed may be consumed again up to there, in many commits, by a member of ours.
    open 1; join g g_a 1 zkgroup=1; claim g t-0 g_a-0 1; commit g t-0 50 1; snapshot; reset g t-0 20 9
    commit g t-0 21 1; commit g t-0 55 1; snapshot
    > nothing
owner_changed
Another owner, and the same one anew.
    member; second; claim g t-1 g_a-0 1; snapshot; release g t-0 1; c: claim g t-0 g_b-0 2; release g t-1 1
    again: claim g t-1 g_a-0 1; snapshot
    > info g t-0 0x2 s0..s1 @c: 'g_a-0' (session 0x1) -> 'g_b-0' (session 0x2)
    > info g t-1 0x1 s0..s1 @again: claimed again by the same thread: 'g_a-0' (session 0x1) -> 'g_a-0'
      (session 0x1)
orphan_owner
One thing over ten snapshots is one finding; an error after its grace.
    member; snapshot; leave g g_a 1; 5 times (snapshot); expire 1; snapshot
    > error g t-0 0x1 s1..s5: owner 'g_a-0' (session 0x1) stands without a registration of its member, in 5
      snapshots over 4.0 h
A fuzzy snapshot alone may have seen the owner before the member left, and the registration after that.
    member; fuzzy 2; leave g g_a 1; release g t-0 1; snapshot
    > nothing
One proves it where the owner is older and stays.
    member; leave g g_a 1; fuzzy 1; create /x; snapshot; release g t-0 1; snapshot
    > error g t-0 0x1 s0..s1: owner 'g_a-0' (session 0x1) stands without a registration of its member, in 2
      snapshots over 60.0 min
It may have left just before the first snapshot without it, also where that is the first one with the owner.
    open 1; join g g_a 1; snapshot; claim g t-0 g_a-0 1; leave g g_a 1; snapshot; release g t-0 1; snapshot
    > info g t-0 0x1 s1..s1: owner 'g_a-0' (session 0x1) stands without a registration of its member
The id of a registration without a thread is an owner of other clients.
    open 1; join g g_a-1 1; claim g t-0 g_a-1 1; snapshot; snapshot
    > nothing
owner_session_mismatch
Of another session than the registration, up to the end.
    open 1; join g g_a 1; open 2; c: claim g t-0 g_a-0 2; snapshot; snapshot
    > error g t-0 0x2 s0.. @c: 'g_a-0' (session 0x2) owns it, but g_a is registered in 0x1, in 2 snapshots
      over 60.0
      min
Two znodes of a fuzzy snapshot that are both older were there together.
    open 1; join g g_a 1; open 2; c: claim g t-0 g_a-0 2; fuzzy 1; create /x; release g t-0 2; snapshot
    > error g t-0 0x2 s0..#6 @c: 'g_a-0' (session 0x2) owns it, but g_a is registered in 0x1
unowned_interval
Fuzzy snapshots never prove that it was so throughout.
    topic; member; fuzzy 1; create /x; fuzzy 1; create /y
    > info g t-1 s0..: no member owned it, in 2 snapshots over 60.0 min, at every snapshot; between them it
      may have
      had one
Throughout, where the parent counts no claims but those that are seen.
    topic; member; snapshot; release g t-0 1; claim g t-0 g_a-0 1; snapshot; claim g t-1 g_a-0 1; snapshot
    > warning g t-1 s0..s1: no member owned it, in 2 snapshots over 60.0 min, throughout: no other owner
      was made
      meanwhile
    > (snapshots=3) nothing
A claim that is not seen may have been of it, for a while.
    topic; member; snapshot; snapshot; claim g t-1 g_a-0 1; release g t-1 1; snapshot
    > warning g t-1 s0..s1: no member owned it, in 2 snapshots over 60.0 min, throughout: no other owner was
      made meanwhile
    > info g t-1 s1..: no member owned it, in 2 snapshots over 60.0 min, at every snapshot; between them it
      may have had one
No member wants it, or it is not there.
    topic t 1; member; snapshot; leave g g_a 1; release g t-0 1; snapshot; snapshot
    > nothing
never_owned
From the first of the last snapshots without an owner; an error where it had none throughout for its grace.
    topic; member; claim g t-1 g_a-0 1; 3 times (snapshot); release g t-1 1; snapshot
    > info g t-1 s3..: no member owns it at the end, and members subscribe to it
    new; topic; member; claim g t-1 g_a-0 1; snapshot; release g t-1 1; snapshot; snapshot
    > error g t-1 s1..: no member owns it at the end, in 2 snapshots over 60.0 min, and members subscribe to
      it
Between them it may have had one.
    topic; member; snapshot; claim g t-1 g_a-0 1; release g t-1 1; snapshot
    > info g t-1 s0..: no member owns it at the end, in 2 snapshots over 60.0 min, and members subscribe to it
Where the last snapshot does not know the path, or has an owner, there is nothing to say of the end.
    topic; member; snapshot; snapshot; snapshot /consumers/g/owners/t
    new; topic; member; snapshot; snapshot; claim g t-1 g_a-0 1; snapshot
    > nothing
rebalance
The registrations that `ids` counted, of which one is not seen.
    member; snapshot; second; leave g g_b 2; left: join g g_c 2; snapshot; gone: leave g g_c 2; snapshot
    > info g s0..s1 @left: 2 registrations and at least 1 rebalance; the last change was at 0x8
    > info g s1..s2 @gone: members left: at least 1 rebalance; the last change was at 0xa
membership_changed
Who joined, was lost, and registered anew.
    member; second; snapshot; leave g g_a 1; anew: join g g_a 1; leave g g_b 2; c: join g g_c 2; snapshot
    d: join g g_d 1
    snapshot
    > info g 0x1 s0..s1 @anew: registered anew: g_a
    > info g 0x2 s0..s1 @c: joined: g_c
    > info g 0x2 s0..s1: lost: g_b
    > info g 0x1 s1..s2 @d: joined: g_d
persistent_znode
From the first snapshot that shows it to the last.
    snapshot; p: create /brokers/ids/1 '{}'; snapshot; snapshot; delete /brokers/ids/1; snapshot
    > error s1..s2 @p: /brokers/ids/1 is persistent, so it ends with no session: Kafka's clients and
      controllers take
      this broker for alive, and it cannot start
controller_election
Another controller, and none.
    open 1; open 2; elect 1 1 1; snapshot; expire 1; two: elect 2 2 none; raise_epoch 2 2; snapshot; expire 2
    snapshot
    > info 0x2 s0..s1 @two: broker 2 (session 0x2) elected; before it broker 1 (session 0x1)
    > info 0x2 s1..s2: no controller; before it broker 2 (session 0x2)
controller_epoch_gap
Epochs that passed are info; one that fell, or that rose by more than it was written, is an error.
    raise_epoch 1 1; snapshot; raise_epoch 2 1; raise_epoch 3 1; snapshot; raise_epoch 4 1; snapshot
    back: raise_epoch 2 1; snapshot; raise_epoch 5 1; raise_epoch 6 1; snapshot
    > info s0..s1: epoch 1 -> 3: raised 2 times
    > error s2..s3 @back: epoch 4 -> 2: it went back
    > error s3..s4: epoch 2 -> 6 in 2 writes
broker_changed
Anew, gone, and back.
    brokers; snapshot; expire 1; open 3; r: broker 1 3; expire 2; snapshot; open 4; b: broker 2 4; snapshot
    > info 0x2 s0..s1: broker 2 is gone
    > info 0x3 s0..s1 @r: broker 1 registered anew
    > info 0x4 s1..s2 @b: broker 2 registered
leadership_changed
The writes of the states of a topic, and what is otherwise.
    brokers; snapshot; state t-0 1 1; state t-0 1 1,2; snapshot; moved: state t-0 2 2 epoch=1;
      snapshot
    > info t-0 s0..s1: 2 writes
    > info t-0 s1..s2 @moved: 1 write: leader 1 -> 2, epoch 0 -> 1, ISR [1, 2] -> [2]
A leader that was elected again is no other one.
    brokers; snapshot; again: state t-0 1 1,2 epoch=5; snapshot
    > info t-0 s0..s1 @again: 1 write: epoch 0 -> 5
leader_epoch_not_rising
It fell, or stayed for another leader.
    brokers; state t-0 1 1,2 epoch=5; snapshot; f: state t-0 1 1,2 epoch=3; snapshot; s: state t-0 2 1,2
      epoch=3
    snapshot
    > error t-0 s0..s1 @f: leader epoch fell from 5 to 3
    > error t-0 s1..s2 @s: leader 1 became 2 within leader epoch 3
under_replicated
In two snapshots or more, whoever is missing.
    brokers; snapshot; state t-0 1 1; snapshot; state t-0 2 2; snapshot; state t-0 1 1,2; snapshot; state
      t-0 1 1
    snapshot
    > warning t-0 s1..s2: not in sync: [1, 2], in 2 snapshots over 60.0 min
Not while the topic is being deleted.
    brokers; state t-0 1 1; create /admin/delete_topics/t; snapshot; snapshot
    > nothing
offline_partition
No leader, and one whose broker is gone, are one thing that lasts.
    brokers; snapshot; expire 1; snapshot; state t-0 -1 -; snapshot; snapshot
    > error t-0 s1..: leader [-1, 1] not registered, in 3 snapshots over 2.0 h
stuck_reassignment
The moves that are still asked for.
    brokers; reassign t-0:1,3/t-1:1,3; snapshot; reassign t-0:1,3; snapshot; snapshot; delete
      /admin/reassign_partitions
    snapshot
    > warning t-0 s0..s2: to be moved to [1, 3], in 3 snapshots over 2.0 h
A request that was made anew says that the one before ended.
    brokers; reassign t-0:1,3; snapshot; delete /admin/reassign_partitions; reassign t-0:1,2; snapshot
    > nothing
stuck_topic_deletion
Asked for, and still there.
    topic; create /admin/delete_topics/t; snapshot; snapshot; delete /brokers/topics/t; snapshot
    > warning t-* s0..s1: deletion asked for, in 2 snapshots over 60.0 min, and the topic is still there
Of one that was deleted and made again, twice.
    topic; create /admin/delete_topics/t; snapshot; delete /brokers/topics/t; delete /admin/delete_topics/t
    topic t 2; create /admin/delete_topics/t; snapshot
    > nothing
topic_changed
Made, grown, moved, deleted and made again.
    snapshot; made: topic t 1; snapshot; grown: topic t 2; snapshot; moved: topic t 0:2/1:1; snapshot
    delete /brokers/topics/t; again: topic t 1; snapshot; delete /brokers/topics/t; snapshot
    > info t-* s0..s1 @made: made with 1 partition
    > info t-* s1..s2 @grown: 1 partition -> 2
    > info t-* s2..s3 @moved: 2 partitions -> 2, other replicas of [0]
    > info t-* s3..s4 @again: deleted and made again with 1 partition
    > info t-* s4..s5: deleted
config_changed
Names only: a value may be a secret.
    create /config/topics/t '{"version":1,"config":{"a":"1"}}'; snapshot
    c: set /config/topics/t '{"version":1,"config":{"a":"2","b":"3"}}'; snapshot; u: create /config/users/u
      '{}'
    create /config/changes/config_change_1 '{}'; snapshot
    > info t-* s0..s1 @c: /config/topics/t changed: a, b
    > info s1..s2 @u: /config/users/u was made
open_acl
What was closed before; what was open stays unsaid.
    create /brokers/a '' acl=read; create /brokers/b '' acl=open; snapshot; set_acl /brokers/a open; snapshot
    > warning s0..s1: any client may change /brokers/a, which was closed before
growth
What came, went and was written, by subtree.
    create /a/b xx; create /a/c ''; snapshot; create /a/d 'xyz'; delete /a/c; set /a/b 'xxx'; snapshot;
      snapshot
    > info s0..s1: /a: 1 added, 1 removed, 1 changed; 3 znodes, 2 bytes of data -> 3, 6 bytes
    > (depth=2) info s0..s1: /a/b: 0 added, 0 removed, 1 changed; 1 znode, 2 bytes of data -> 1, 3 bytes
    > info s0..s1: /a/c: 0 added, 1 removed, 0 changed; 1 znode, 0 bytes of data -> 0, 0 bytes
    > info s0..s1: /a/d: 1 added, 0 removed, 0 changed; 0 znodes, 0 bytes of data -> 1, 3 bytes
The totals are of the paths that both snapshots know.
    create /a/b xx; create /a/c y; snapshot; create /a/d 'xyz'; snapshot /a/b; set /a/c zz; snapshot
    set /a/b z; snapshot
    > info s0..s1: /a: 1 added, 0 removed, 0 changed; 2 znodes, 1 byte of data -> 3, 4 bytes
    > info s1..s2: /a: 0 added, 0 removed, 1 changed; 3 znodes, 4 bytes of data -> 3, 5 bytes
    > info s2..s3: /a: 0 added, 0 removed, 1 changed; 4 znodes, 7 bytes of data -> 4, 6 bytes
"""


@cases(TABLE)
def test_each_fault(case: Case) -> None:
    """Found where it is, and nowhere else."""
    case.check(SeriesHistory)


def test_sessions_that_no_list_has() -> None:
    """Of servers' snapshots only; a session younger than the list of a fuzzy one is none."""
    log = AuditLog()
    log.come("g", "g_a", 1)
    history = History(log.events())
    for cuts, is_found in (
        ([Cut(2, 2, True), Cut(3, 3, True)], True),
        ([Cut(2, 2), Cut(3, 3)], False),
        ([Cut(1, 2, True), Cut(1, 2, True)], False),
    ):
        series = history.series(cuts)
        lists = [each._replace(sessions=each.sessions and {}) for each in series.snapshots]
        found = found_in(Series(lists, series.table, series.trees))
        names = [(one.finding, one.session, one.from_zxid, one.to_zxid) for one in found]
        assert (("missing_session", 1, 2, None) in names) == is_found


def test_what_lasts_ends_where_logs_go_on() -> None:
    """Only the last snapshot of all leaves an end open."""
    log = AuditLog()
    log.create("/brokers/ids/1")
    series = History(log.events()).series([Cut(1, 1), Cut(2, 2)])
    ended = series.within(0, 1, ends=False)

    assert [one.to_zxid for each in (series, ended) for one in found_in(each)] == [None, 2]
