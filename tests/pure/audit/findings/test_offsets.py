"""Findings about offsets of groups."""

from tests.pure.audit.histories import Case, cases

TABLE = """
offset_regression
given owned_at: open 0xa; open 0xb; open 0xc; join g g_a 0xa; claim g t-0 g_a-0 0xa; commit g t-0 1000 0xa
given owned_at2: open 0xa; open 0xb; open 0xc; join g g_a 0xa; claim g t-0 g_a-0 0xa; commit g t-0 50 0xa
A commit below the one before is an error where the partition is owned, whoever wrote it.
    owned_at; committed: commit g t-0 21 0xa; commit g t-0 22 0xa; committed2: commit g t-0 3 0xb
    > error g t-0 0xa committed: 1000 -> 21 by member g_a (session 0xa)
    > error g t-0 0xb committed2: 22 -> 3 by session 0xb; before it wrote member g_a (session 0xa)
Offsets that rise or repeat are none.
    open 0xa; open 0xb; open 0xc; join g g_a 0xa; claim g t-0 g_a-0 0xa; commit g t-0 5 0xa; commit g t-0 5
      0xa; commit g t-0 6 0xa; commit g t-0 6 0xa; commit g t-0 1099511627776 0xa
    > nothing
Every negative value is none, as KafkaJS commits -2; from an offset to none is a way back.
    open 0xa; open 0xb; open 0xc; join g g_a 0xa; claim g t-0 g_a-0 0xa; commit g t-0 -1 0xa; commit g t-0 -2
      0xa; commit g t-0 5 0xa; committed: commit g t-0 -2 0xa
    > error g t-0 0xa committed: 5 -> -2 by member g_a (session 0xa)
A claim of ours writes what was there; the first one writes -1, which is none.
    claim_ours g t-0 g_a-0 0xa; commit g t-0 7 0xa; release g t-0 0xa; claim_ours g t-0 g_b-0 0xb 7; commit g
      t-0 7 0xb
    > nothing
A claim that moves the offset has committed: only what repeats the offset is a bump.
    open 0xa; open 0xb; open 0xc; join g g_a 0xa; claim g t-0 g_a-0 0xa; commit g t-0 7 0xa; release g t-0
      0xa; claimed: claim_ours g t-0 g_b-0 0xb 2
    > error g t-0 0xb claimed: 7 -> 2 by session 0xb; before it wrote member g_a (session 0xa)
A reset with a marker is info; the marker may be new or there already, and stands behind the offset.
    owned_at2; done: multi 0xc & setting /consumers/g/offsets/t/0 40 & creation /consumers/g/resets/t-0 '{}';
      done2: multi 0xc & setting /consumers/g/offsets/t/0 30 & deletion /consumers/g/resets/t-0 & creation
      /consumers/g/resets/t-0 '{}'
    > info g t-0 0xc done: 50 -> 40 by session 0xc; before it wrote member g_a (session 0xa); an operator's
      reset, by its marker
    > info g t-0 0xc done2: 40 -> 30 by session 0xc; an operator's reset, by its marker
An audit record of an idle group in the same transaction is a marker for this group only.
    commit g t-0 50 0xa; commit other t-0 50 0xa; done: multi 0xc & setting /consumers/g/offsets/t/0 4 &
      setting /consumers/other/offsets/t/0 4 & creation /zkgroup/audit/g '{}'
    > info g t-0 0xc done: 50 -> 4 by session 0xc; before it wrote session 0xa; an operator's reset, by its
      marker
    > warning other t-0 0xc done: 50 -> 4 by session 0xc; before it wrote session 0xa; no member owned it, and
      the writer is no member: probably a tool
A marker in the next transaction excuses nothing.
    owned_at2; committed: commit g t-0 40 0xc; create /consumers/g/resets/t-0 '{}' 0xc
    > error g t-0 0xc committed: 50 -> 40 by session 0xc; before it wrote member g_a (session 0xa)
A tool on an idle group is a warning: Kafka's ImportZkOffsets leaves no marker.
    owned_at2; close 0xa; committed: commit g t-0 10 0xc; commit g t-0 20 0xc; committed2: commit g t-0 15 0xa
    > warning g t-0 0xc committed: 50 -> 10 by session 0xc; before it wrote member g_a (session 0xa); no
      member owned it, and the writer is no member: probably a tool
    > error g t-0 0xa committed2: 20 -> 15 by member g_a (session 0xa); before it wrote session 0xc
Behind a delete a new life of the offset starts anywhere.
    owned_at; delete /consumers/g/offsets/t/0 0xc; commit g t-0 3 0xa
    > nothing
A create begins a new life where the log has a hole with the deletion.
    owned_at; skip 50; create /consumers/g/offsets/t/0 3 0xa
    > nothing
The snapshot's offset counts as before, and a value that is no number changes nothing.
    new zxid=100; seed /consumers/g/offsets/t/0 500 zxid=7 version=3; commit g t-0 501 0xa; set
      /consumers/g/offsets/t/0 what? 0xa; committed: commit g t-0 499 0xa
    > warning g t-0 0xa committed: 501 -> 499 by session 0xa; no member owned it, and the writer is no member:
      probably a tool

reset_overwritten
given reset40: done: multi 0xc & setting /consumers/g/offsets/t/0 40 & creation /consumers/g/resets/t-0 '{}'
given reset70: done: multi 0xc & setting /consumers/g/offsets/t/0 70 & creation /consumers/g/resets/t-0 '{}'
As high again as before, or lower than what was set: a row for each reset.
    owned_at2; reset40; written: commit g t-0 51 0xa; commit g t-0 3 0xa
    > warning g t-0 0xa written: reset to 40, and then written: 51, where it was 50 before, by member
      g_a (session 0xa); the reset was at 0x7
    new; owned_at2; reset70; written: commit g t-0 51 0xa
    > warning g t-0 0xa written: reset to 70, and then written: 51, by member g_a (session 0xa); the reset was
      at 0x7
One that is obeyed goes on from there; later it may be lower, which is another thing than a high one.
    owned_at2; reset40; commit g t-0 41 0xa; commit g t-0 60 0xa
    > nothing
    written: commit g t-0 39 0xa
    > warning g t-0 0xa written: reset to 40, and then written: 39, by member g_a (session 0xa); the reset was
      at 0x7
An operator may set it again, and one that is deleted is not what it was.
    owned_at2; reset70; multi 0xc & setting /consumers/g/offsets/t/0 5 & creation /zkgroup/audit/g '{}'
    delete /consumers/g/offsets/t/0 0xa; commit g t-0 1 0xa
    > nothing
zombie_commit
given handed_over: join g g_a 0xa; join g g_b 0xb; claim g t-0 g_a-0 0xa; commit g t-0 10 0xa; release g t-0
  0xa; claim g t-0 g_b-0 0xb
A commit under anothers ownership is an error. Even one that repeats or raises the offset.
    handed_over; committed: commit g t-0 10 0xa; committed2: commit g t-0 12 0xa; commit g t-0 13 0xb
    > error g t-0 0xa committed: 10 -> 10 by member g_a (session 0xa), but 'g_b-0' of member g_b (session 0xb)
      owned it
    > error g t-0 0xa committed2: 10 -> 12 by member g_a (session 0xa), but 'g_b-0' of member g_b (session
      0xb) owned it
As JVM members do; an error once the offset falls, or the successor is there.
    handed_over; release g t-0 0xb; committed: commit g t-0 11 0xb; committed2: commit g t-0 9 0xb; claim g
      t-0 g_a-0 0xa; committed3: commit g t-0 12 0xb
    > warning g t-0 0xb committed: 10 -> 11 by member g_b (session 0xb), but no member owned it
    > error g t-0 0xb committed2: 11 -> 9 by member g_b (session 0xb), but no member owned it
    > error g t-0 0xb committed3: 9 -> 12 by member g_b (session 0xb), but 'g_a-0' of member g_a (session 0xa)
      owned it
A commit in the transaction of its release is fine. Ours commit before they delete the owner, in one multi.
    handed_over; multi 0xb & setting /consumers/g/offsets/t/0 11 & deletion /consumers/g/owners/t/0
    > nothing
A commit behind its release in one transaction is not. The order inside a transaction counts.
    handed_over; done: multi 0xb & deletion /consumers/g/owners/t/0 & setting /consumers/g/offsets/t/0 11
    > warning g t-0 0xb done: 10 -> 11 by member g_b (session 0xb), but no member owned it
The bump of a claim is no commit. It is written by the new owner, and repeats the offset.
    claim_ours g t-0 g_a-0 0xa; commit g t-0 3 0xa; close 0xa; claim_ours g t-0 g_b-0 0xb 3
    > nothing
The end of a session ends its ownership. Whether the record lists what goes, or not.
    new either; open 0xa; claim g t-0 g_a-0 0xa; expire 0xa; committed: commit g t-0 3 0xb
    > warning g t-0 0xb committed: 3 by session 0xb, but no member owned it
A JVM member adopts it, and commits for a claim that is not its own.
    claim g t-0 g_d-0 0xa; join g g_d 0xb; committed: commit g t-0 22 0xb
    > error g t-0 0xb committed: 22 by member g_d (session 0xb), but 'g_d-0' of session 0xa owned it: the same
      member, but another session
An operators reset is information. It never owns what it resets.
    handed_over; done: multi 0xc & setting /consumers/g/offsets/t/0 4 & creation /consumers/g/resets/t-0 '{}'
    > info g t-0 0xc done: 10 -> 4 by session 0xc, but 'g_b-0' of member g_b (session 0xb) owned it; an
      operator's reset, by its marker
Who commits by OffsetCommit v0 owns nothing, and a log may begin under an owner.
    commit gv0 t-0 7 0xa; commit gv0 t-0 8 0xa
    > nothing
An owner of the snapshot owns. The seed says in which session.
    new zxid=100; seed /consumers/g/owners/t/0 g_a-0 zxid=5 session=0xa; seed /consumers/g/offsets/t/0 10
      zxid=6; commit g t-0 11 0xa; committed: commit g t-0 12 0xb
    > error g t-0 0xb committed: 11 -> 12 by session 0xb, but 'g_a-0' of session 0xa owned it
A failed transaction wrote nothing. Its operations stand in the log nevertheless.
    handed_over; multi 0xa & setting /consumers/g/offsets/t/0 1 & error -101
    > nothing
A member took an owner with its own name for its own: both sides have that name, not that session.
    topic t 1; open 0xf; claim g t-0 g_a-0 0xf; come g g_a 0xa; committed: commit g t-0 5 0xa
    > error g t-0 0xa committed: 5 by member g_a (session 0xa), but 'g_a-0' of session 0xf owned it: the same
      member, but another session

no_commit_at_handover
An owner that never committed in over a minute is reported.
    join g g_a 0xa; claimed: claim_ours g t-0 g_a-0 0xa; +60001; released: release g t-0 0xa
    > info g t-0 0xa claimed..released: owned for 60.0 s by member g_a (session 0xa) without a commit; there
      was no offset at the end
One commit is enough, even with the release; a commit by another session is none.
    claim_ours g t-0 g_a-0 0xa; +90000; multi 0xa & setting /consumers/g/offsets/t/0 4 & deletion
      /consumers/g/owners/t/0; claimed: claim_ours g t-0 g_b-0 0xb 4; commit g t-0 5 0xa; +90000; released:
      release g t-0 0xb
    > info g t-0 0xb claimed..released: owned for 90.0 s by session 0xb without a commit; the offset was 5 at
      the end
Ownerships of a minute and open ones are none.
    claimed: claim g t-0 g_a-0 0xa; +60000; released: release g t-0 0xa; claim g t-0 g_b-0 0xb; passes 600000
    > nothing
    > (owned_ms=59999) info g t-0 0xa claimed..released: owned for 60.0 s by session 0xa without a commit;
      there was no offset at the end
Of an owner from before the log only its time in the log counts.
    new zxid=100; seed /consumers/g/owners/t/0 g_a-0 zxid=5 ms=-900000 session=0xa; made: create /start;
      +50000; released: release g t-0 0xa
    > nothing
    > (owned_ms=40000) info g t-0 0xa made..released: owned for 50.0 s by session 0xa without a commit; there
      was no offset at the end
The commit of one owner does not excuse the next.
    claim g t-0 g_a-0 0xa; commit g t-0 3 0xa; +90000; release g t-0 0xa; claimed: claim g t-0 g_a-0 0xa;
      +90000; released: release g t-0 0xa
    > info g t-0 0xa claimed..released: owned for 90.0 s by session 0xa without a commit; the offset was 3 at
      the end
An owner of the snapshot that the log saw commit is excused; one that only released is not.
    new zxid=100; seed /consumers/g/owners/t/0 g_a-0 zxid=5 session=0xa; seed /consumers/g/owners/t/1 g_a-0
      zxid=6 session=0xa; made: create /start; commit g t-0 3 0xa; +90000; release g t-0 0xa; released:
      release g t-1 0xa
    > info g t-1 0xa made..released: owned for 90.0 s by session 0xa without a commit; there was no offset at
      the end

stalled_offset
Where the claim came later, the time counts from it: a new owner is given its time.
    commit g t-0 5 0xb; +540000; claimed: claim g t-0 g_a-0 0xa; passes 540000
    > nothing
    > (still_ms=480000) info g t-0 0xa claimed..: at 5 for 9.0 min, owned by session 0xa
A partition that nobody owns stalls nobody; one without an offset may have it in Kafka.
    commit g t-0 5 0xa; claim g t-1 g_a-0 0xa; passes 1200000
    > nothing
An offset of the snapshot stands since it was written, not since it was created.
    new zxid=100; seed /consumers/g/owners/t/0 g_a-0 zxid=5 ms=-3600000 session=0xa; seed
      /consumers/g/offsets/t/0 7 zxid=6 ms=-3600000 mtime_ms=-540000; create /start
    > nothing
    passes 120000
    > info g t-0 0xa #6.. -540000..: at 7 for 11.0 min, owned by session 0xa
An offset that was made with its owner and written since stands since then.
    new zxid=100; seed /consumers/g/owners/t/0 g_a-0 zxid=5 ms=-3600000 session=0xa; seed
      /consumers/g/offsets/t/0 7 zxid=5 ms=-3600000 mtime_ms=-60000; create /start
    > nothing
An owned partition without a new offset is reported from its last change; commits that repeat it are none.
    join g g_a 0xa; claim g t-0 g_a-0 0xa; claim g t-1 g_a-0 0xa; committed: commit g t-0 5 0xa; 11 times
      (+60000; commit g t-0 5 0xa; commit g t-1 {5+2*n} 0xa)
    > info g t-0 0xa committed..: at 5 for 11.0 min, owned by member g_a (session 0xa)

commit_rate
Commits of a group are counted: claims are none, and a repeated offset is one that says nothing new.
    -20000; claim_ours g t-0 g_a-0 0xa; claim_ours g t-1 g_b-0 0xb; committed: commit g t-0 1 0xa; commit g
      t-0 1 0xa; commit g t-1 1 0xb; +80000; committed2: commit g t-1 2 0xb
    > info g committed..committed2: 4 commits by 2 sessions, 0.05/s, 25 % of them repeat the offset; at most 3
      in one minute
Each group with commits has its row; offsets of a snapshot were committed before.
    new zxid=100; seed /consumers/old/offsets/t/0 3 zxid=4; claim_ours idle t-0 idle_a-0 0xa; committed:
      commit one t-0 1 0xa; committed2: commit two t-0 1 0xa
    > info one committed: 1 commit by 1 session, 1.00/s, 0 % of them repeat the offset; at most 1 in one
      minute
    > info two committed2: 1 commit by 1 session, 1.00/s, 0 % of them repeat the offset; at most 1 in one
      minute

dead_group
given left: create /consumers/g; create /consumers/g/ids; create /consumers/g/offsets; create
  /consumers/g/offsets/t; come g g_a 0xa; commit g t-0 4 0xa; commit g t-1 4 0xa
Offsets without a member for a week are reported, with what a deletion would remove.
    left; closed: close 0xa; passes 691200000
    > info g closed..: no member (1 registration in this history) and no write for 8.0 d; 6 znodes, 2 of them
      offsets
A member that only waits is one, and so is a client that commits without registering.
    left; +691200000; create /end
    > nothing
    new; left; close 0xa; +432000000; committed: commit g t-0 5 0xb; +432000000; create /end
    > nothing
    > (idle_ms=345600000) info g committed..: no member (1 registration in this history) and no write for 5.0
      d; 6 znodes, 2 of them offsets
A group without offsets is none, deleted or never used.
    left; close 0xa; delete /consumers/g/offsets/t/0; delete /consumers/g/offsets/t/1; passes 691200000
    > nothing
What counts is when an offset was written, not when it was made.
    seed /now zxid=9 ms=+0; seed /consumers/old/offsets/t/0 4 zxid=3 ms=-2592000000 mtime_ms=-1728000000; seed
      /consumers/used/offsets/t/0 4 zxid=4 ms=-2592000000 mtime_ms=-86400000
    > info old #3.. -1728000000..: no member (none in this history) and no write for 20.0 d; 1 znode, 1 of
      them offsets

offset_of_missing_partition
Offsets of topics that are gone, or never were, count since the topic went or the offset was made.
    topic t 2; topic u 1; commit g t-0 5 0xa; commit g t-1 5 0xa; committed: commit g never-0 5 0xa;
      committed2: commit g u-1 8 0xa; deleted: delete /brokers/topics/t
    > warning g never-0 committed..: no such topic; the offset is 5
    > warning g u-1 committed2..: the topic has 1 partition; the offset is 8
    > warning g t-0 deleted..: the topic is gone; the offset is 5
    > warning g t-1 deleted..: the topic is gone; the offset is 5
Offsets of partitions that exist are none, whenever the topic came; nor is one that went with its topic.
    commit g t-1 5 0xa; topic t 1; topic t 2; topic u 1; commit g u-0 5 0xa; delete /brokers/topics/u; delete
      /consumers/g/offsets/u/0
    > nothing
Of an unreadable topic, or without the log's beginning, nothing is said.
    create /brokers/topics/t 'not JSON'; commit g t-0 5 0xa
    > nothing
    new zxid=500; commit g t-0 5 0xa
    > nothing
An owner of a missing partition is another finding.
    claim g never-0 g_a-0 0xa
    > nothing
"""


@cases(TABLE)
def test_findings_about_offsets(case: Case) -> None:
    """Each history has the findings that are written below it, and no other of their rule."""
    case.check()
