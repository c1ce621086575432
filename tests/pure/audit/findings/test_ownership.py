"""Findings about owners of partitions, and registrations where they do not belong."""

from tests.pure.audit.histories import Case, cases

TABLE = """
orphan_owner
given alone: topic t 1; come g g_a 1
An owner that stands over ten seconds after its member unregistered is an error since then.
    alone; claim g t-0 g_a-0 1; left: leave g g_a 1; passes 10001
    > error g t-0 0x1 left..: owner 'g_a-0' of session 0x1 stands without a registration of its member, for
      10.0 s at the end
An owner in the name of a member that never registered is an error since its claim.
    alone; claimed: claim g t-0 g_other-0 1; passes 10001
    > error g t-0 0x1 claimed..: owner 'g_other-0' of session 0x1 stands without a registration of its member,
      for 10.0 s at the end
A member may be on its way out: ten seconds are granted, or what the user says.
    alone; claim g t-0 g_a-0 1; left: leave g g_a 1; passes 10000
    > info g t-0 0x1 left..: owner 'g_a-0' of session 0x1 stands without a registration of its member, for
      10.0 s at the end
    > (grace_ms=9999) error g t-0 0x1 left..: owner 'g_a-0' of session 0x1 stands without a registration of
      its member, for 10.0 s at the end
An owner with its member registered is none, nor is one that expired along with the member.
    alone; claim g t-0 g_a-0 1; passes 60000
    > nothing
    expire 1; passes 60000
    > nothing
An owner without a registration in a snapshot is an error, with nothing but the snapshot.
    seed /consumers/g/owners/t/0 g_a-0 zxid=7 ms=-60000 session=5; seed /mark zxid=9
    > error g t-0 0x5 #7.. -60000..: owner 'g_a-0' of session 0x5 stands without a registration of its member,
      for 60.0 s at the end
Without the log's beginning an owner's member may have registered before it.
    new zxid=1000; claim g t-0 g_a-0 1; passes 60000
    > nothing
Of a session that the log saw begin all is known, without the log's beginning too.
    new zxid=1000; open 1; claimed: claim g t-0 g_a-0 1; passes 60000
    > error g t-0 0x1 claimed..: owner 'g_a-0' of session 0x1 stands without a registration of its member, for
      60.0 s at the end
A member that was gone before the claim has no part in it: the owner stands alone since the claim.
    alone; leave g g_a 1; +5000; claimed: claim g t-0 g_a-0 1; passes 10000
    > info g t-0 0x1 claimed..: owner 'g_a-0' of session 0x1 stands without a registration of its member, for
      10.0 s at the end

orphan_owner_interval
given alone: topic t 1; come g g_a 1; claim g t-0 g_a-0 1
A claim released 250 ms after its registration went is an error over just these 250 ms.
    alone; left: leave g g_a 1; +250; released: release g t-0 1
    > error g t-0 0x1 left..released: owner 'g_a-0' stood for 250 ms after the registration of its member
A member that registers again while its claim stands ends the interval there.
    alone; left: leave g g_a 1; joined: join g g_a 1; passes 60000
    > error g t-0 0x1 left..joined: owner 'g_a-0' stood for 0 ms after the registration of its member
An interval that the history cuts off is info for ten seconds and an error after them.
    alone; left: leave g g_a 1; passes 10000
    > info g t-0 0x1 left..: owner 'g_a-0' stood for 10.0 s after the registration of its member
    passes 1
    > error g t-0 0x1 left..: owner 'g_a-0' stood for 10.0 s after the registration of its member
What goes in one transaction has not outlived: a session's end, a leave in one multi, a renewal.
    alone; multi 1 & deletion /consumers/g/ids/g_a & creation /consumers/g/ids/g_a '{}' ephemeral; multi 1 &
      deletion /consumers/g/ids/g_a & deletion /consumers/g/owners/t/0
    > nothing
    new either; come g g_a 1; claim g t-0 g_a-0 1; expire 1
    > nothing
Members that share a client share its session: the name tells whose claim it is.
    alone; join g g_b 1; left: leave g g_a 1; released: release g t-0 1
    > error g t-0 0x1 left..released: owner 'g_a-0' stood for 0 ms after the registration of its member

owner_session_mismatch
given group: topic t 1; open 1; open 2; join g g_a 1
A claim in g_a's name from session 2, while g_a is in 1, is an error up to its release.
    group; claimed: claim g t-0 g_a-0 2; released: release g t-0 2
    > error g t-0 0x2 claimed..released: 'g_a-0' was claimed by session 0x2, but g_a is registered in 0x1
A session registered as g_a that claims as g_b is an error that names both.
    group; claimed: claim g t-0 g_b-0 1
    > error g t-0 0x1 claimed..: 'g_b-0' was claimed by session 0x1, which is registered as g_a
A registration in another group, or after the claim, does not make the claim the member's own.
    group; join h g_c 2; claimed: claim g t-0 g_c-0 2; join g g_c 2
    > error g t-0 0x2 claimed..: 'g_c-0' was claimed by session 0x2, which registered as g_c only after that
A session that claims and registers only then is called that member by claim_stolen, too.
    group; claim g t-0 g_a-0 1; open 9; deleted: delete /consumers/g/owners/t/0 9; claimed: claim g t-0
      other-0 9; join g g_nudge 9
    > error g t-0 0x9 claimed..: 'other-0' was claimed by session 0x9, which registered as g_nudge only after
      that
    > (claim_stolen) error g t-0 0x9 deleted: the claim of 'g_a-0', member g_a (session 0x1), was deleted by
      member g_nudge (session 0x9)
Claims in the member's own session are fine: another thread, ours, or a new session after an expiry.
    group; claim g t-0 g_a-0 1; release g t-0 1; claim_ours g t-0 g_a-1 1; expire 1; come g g_a 3; claim g t-0
      g_a-0 3
    > nothing
A registration that was renewed is younger than the claims that it keeps.
    seed /consumers/g/owners/t/0 g_a-0 zxid=5 session=1; seed /consumers/g/ids/g_a @registration zxid=8
      session=1
    > nothing
    seed /consumers/g/owners/t/1 g_a-0 zxid=6 session=2
    > error g t-1 0x2 #6.. +0..: 'g_a-0' was claimed by session 0x2, but g_a is registered in 0x1
A persistent owner is none, nor its deletion a theft: `persistent_znode` names it.
    seed /consumers/g/owners/t/0 g_a-0 zxid=5; seed /consumers/g/ids/g_a @registration zxid=4 session=1; open
      9; delete /consumers/g/owners/t/0 9
    > nothing
    > (claim_stolen) nothing
    > (orphan_owner) nothing
    > (orphan_owner_interval) nothing
A session that was open before the log may be registered: only the one opened within it is told.
    new zxid=1000; claim g t-0 g_a-0 1; open 2; claimed: claim g t-1 g_b-0 2
    > error g t-1 0x2 claimed..: 'g_b-0' was claimed by session 0x2, which is no member of the group

double_ownership
given two: topic t 1; open 1; open 2; join g g_a 1; join g g_b 2; claim g t-0 g_a-0 1; commit g t-0 5 1
The put-out owner's commits are one error, from the next one's claim to the last of the commits.
    two; release g t-0 2; claimed: claim g t-0 g_b-0 2; +100; commit g t-0 6 1; commit g t-0 7 2; +100;
      committed: commit g t-0 8 1
    > error g t-0 0x1 claimed..committed: 'g_a-0' committed 2 times, up to 200 ms after 'g_b-0' of session 0x2
      had claimed
A member that expired and registered anew is still the old owner when it commits under the next one.
    two; expire 1; claimed: claim g t-0 g_b-0 2; come g g_a 3; committed: commit g t-0 6 3
    > error g t-0 0x3 claimed..committed: 'g_a-0' committed once, up to 0 ms after 'g_b-0' of session 0x2 had
      claimed
Commits under two claims of others, one after the other, are two rows.
    two; release g t-0 2; claimed: claim g t-0 g_b-0 2; committed: commit g t-0 6 1; release g t-0 2;
      claimed2: claim g t-0 g_b-0 2; committed2: commit g t-0 7 1
    > error g t-0 0x1 claimed..committed: 'g_a-0' committed once, up to 0 ms after 'g_b-0' of session 0x2 had
      claimed
    > error g t-0 0x1 claimed2..committed2: 'g_a-0' committed once, up to 0 ms after 'g_b-0' of session 0x2
      had claimed
A JVM member commits just after its own release: that is zombie_commit's.
    two; release g t-0 1; claim g t-0 g_b-0 2; commit g t-0 6 1
    > nothing
An old owner that commits before anybody claims, or claims and releases by itself, is none.
    two; release g t-0 2; commit g t-0 6 1; claim g t-0 g_a-0 1; commit g t-0 7 1; release g t-0 1; claim g
      t-0 g_b-0 2; commit g t-0 8 2
    > nothing
A claim of ours writes the offset that it found, as a fence; that is no commit of an old owner.
    two; release g t-0 2; claim_ours g t-0 g_b-0 2 5; release g t-0 1; claim_ours g t-0 g_a-0 1 5
    > nothing
The detail says how often the old owner committed, how long after the claim, and whose that was.
    two; release g t-0 2; claimed: claim g t-0 g_b-0 2; +100; committed: commit g t-0 6 1
    > error g t-0 0x1 claimed..committed: 'g_a-0' committed once, up to 100 ms after 'g_b-0' of session 0x2
      had claimed
    +100; committed2: commit g t-0 7 1
    > error g t-0 0x1 claimed..committed2: 'g_a-0' committed 2 times, up to 200 ms after 'g_b-0' of session
      0x2 had claimed
An own claim makes good for the one that was lost; the release after it is polite.
    two; release g t-0 2; claim g t-0 g_a-0 1; release g t-0 1; claim g t-0 g_b-0 2; commit g t-0 6 1
    > nothing
Only an expiry takes a claim from a member that does not know of it.
    two; close 1; claim g t-0 g_b-0 2; open 3; join g g_a 3; commit g t-0 6 3
    > nothing
    new; two; release g t-0 1; claim g t-0 g_b-0 2; commit g t-0 6 1; expire 1
    > nothing

claim_stolen
given group: open 1; open 2; join g g_a 1; claim g t-0 g_a-0 1
An owner that another session deletes is an error at that zxid; the detail names who lost it.
    group; stolen: release g t-0 2
    > error g t-0 0x2 stolen: the claim of 'g_a-0', member g_a (session 0x1), was deleted by session 0x2
A multi that deletes a foreign owner and makes its own in its place has stolen it as well.
    group; stolen: multi 2 & deletion /consumers/g/owners/t/0 & creation /consumers/g/owners/t/0 g_x-0
      ephemeral
    > error g t-0 0x2 stolen: the claim of 'g_a-0', member g_a (session 0x1), was deleted by session 0x2
A member's own releases, and owners that go with its session, listed there or not, are no theft.
    new either; group; release g t-0 1; claim_ours g t-0 g_a-0 1; close 1
    > nothing
    new either; group; release g t-0 1; claim_ours g t-0 g_a-0 1; close 1 expired
    > nothing

unowned_interval
given alone: topic t 1; come g g_a 1; claim g t-0 g_a-0 1
1,001 ms from release to claim are a warning, 1,000 ms are not, unless `longest_ms` is less.
    alone; released: release g t-0 1; +1001; claimed: claim g t-0 g_a-0 1; released2: release g t-0 1; +1000;
      claimed2: claim g t-0 g_a-0 1
    > warning g t-0 released..claimed: no member owned it for 1.0 s: 'g_a-0' before, then 'g_a-0'
    > (longest_ms=999) warning g t-0 released..claimed: no member owned it for 1.0 s: 'g_a-0' before, then
      'g_a-0'
    > warning g t-0 released2..claimed2: no member owned it for 1.0 s: 'g_a-0' before, then 'g_a-0'
A released partition that nobody claims again is told without an end.
    alone; released: release g t-0 1; passes 1001
    > warning g t-0 released..: no member owned it for 1.0 s: 'g_a-0' before, no owner until the end
With no member, or one that wants another topic, time does not count; it does from the join on.
    alone; expire 1; +60000; come g g_other 2 other:1; +60000; came: come g g_b 3; +2000; claimed: claim g t-0
      g_b-0 3
    > warning g t-0 came..claimed: no member owned it for 2.0 s: 'g_a-0' before, then 'g_b-0'
A white list whose pattern matches the topic wants it, so that its unowned time counts.
    alone; open 2; create /consumers/g/ids/g_w '{"version":1,"subscription":{"t.*":1},"pattern":"white_list"}'
      2 ephemeral; expired: expire 1; +2000; claimed: claim g t-0 g_w-0 2
    > warning g t-0 expired..claimed: no member owned it for 2.0 s: 'g_a-0' before, then 'g_w-0'
Partition 9 of a topic with one, and a deleted topic, lack no owner.
    alone; claim g t-9 g_a-0 1; release g t-9 1; delete /brokers/topics/t; release g t-0 1; passes 60000
    > nothing
The detail says who had it before and who came: the next owner, nobody, or nobody that wanted it.
    alone; released: release g t-0 1; +2000; claimed: claim g t-0 g_a-0 1; released2: release g t-0 1; +2000;
      left: leave g g_a 1; +2000; joined: join g g_a 1; passes 3000
    > warning g t-0 released..claimed: no member owned it for 2.0 s: 'g_a-0' before, then 'g_a-0'
    > warning g t-0 released2..left: no member owned it for 2.0 s: 'g_a-0' before, until no member subscribed
      to it any more
    > warning g t-0 joined..: no member owned it for 3.0 s: 'g_a-0' before, no owner until the end
The bound is for the time in which a member wanted the topic, not for the whole gap.
    alone; release g t-0 1; +1000; leave g g_a 1; passes 60000
    > nothing

never_owned
given alone: topic t 3; come g g_a 1; claim g t-0 g_a-0 1; claim g t-1 g_a-0 1
A partition unclaimed for over ten seconds is an error since the join; the plan says whose it is.
    topic t 3; came: come g g_a 1; claim g t-0 g_a-0 1; claim g t-1 g_a-0 1; passes 10001
    > error g t-2 came..: no member has owned it for 10.0 s at the end, and members subscribe to it; it is
      assigned to 'g_a-0'
A released partition counts from its release, and ten seconds of it are info.
    topic t 3; came: come g g_a 1; claim g t-0 g_a-0 1; claim g t-1 g_a-0 1; +60000; released: release g t-0
      1; passes 10000
    > error g t-2 came..: no member has owned it for 70.0 s at the end, and members subscribe to it; it is
      assigned to 'g_a-0'
    > info g t-0 released..: no member has owned it for 10.0 s at the end, and members subscribe to it; it is
      assigned to 'g_a-0'
No member left, no subscription, or a topic that is not there: nothing is missed.
    alone; expire 1; open 2; join h h_a 2 none; join i i_a 2 no-such-topic:1; passes 60000
    > nothing
Where each wanted partition has an owner there is no finding, however long it lasts.
    alone; claim g t-2 g_a-0 1; passes 60000
    > nothing
A partition that the topic gained counts since then, and `grace_ms` says when it is an error.
    alone; claim g t-2 g_a-0 1; +60000; placed: topic t 4; passes 1000
    > info g t-3 placed..: no member has owned it for 1.0 s at the end, and members subscribe to it; it is
      assigned to 'g_a-0'
    > (grace_ms=500) error g t-3 placed..: no member has owned it for 1.0 s at the end, and members subscribe
      to it; it is assigned to 'g_a-0'
Without the log's beginning an unseen owner may stand: only the released partition is told.
    new zxid=1000; topic t 2; join g g_a 1; claim g t-0 g_a-0 1; released: release g t-0 1; passes 60000
    > error g t-0 released..: no member has owned it for 60.0 s at the end, and members subscribe to it; it is
      assigned to 'g_a-0'
A tree tells nothing of the time before it, so that counts from the first record of a log, or not at all.
    new zxid=100; seed /brokers/topics/t '{"version":1,"partitions":{"0":[1]}}' zxid=5
    seed /consumers/g/ids/g_a '{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}'
      zxid=6 session=1
    > info g t-0 #6.. +0..: no member owns it, and members subscribe to it; it is assigned to 'g_a-0'
    first: create /x; passes 20000
    > error g t-0 first..: no member has owned it for 20.0 s at the end, and members subscribe to it; it is
      assigned to 'g_a-0'

persistent_znode
Each place of a session is named in a log; other znodes beside it are none.
    open 1; controller: create /controller x 1; broker: create /brokers/ids/7 x 1; member: create
      /consumers/g/ids/g_a x 1; owner: create /consumers/g/owners/t/0 x 1; view: create /consumers/g/views/g_a
      x 1; create /brokers/topics x 1
    > error controller..: /controller is persistent, so it ends with no session: no broker is elected while it
      is there
    > error broker..: /brokers/ids/7 is persistent, so it ends with no session: Kafka's clients and
      controllers take this broker for alive, and it cannot start
    > error g member..: /consumers/g/ids/g_a is persistent, so it ends with no session: the group shares
      partitions with this member, which cannot start
    > error g t-0 owner..: /consumers/g/owners/t/0 is persistent, so it ends with no session: no member can
      claim the partition
    > error g view..: /consumers/g/views/g_a is persistent, so it ends with no session: it says what a former
      member has computed
Each is named in a snapshot too.
    seed /controller x zxid=5; seed /brokers/ids/7 x zxid=6; seed /consumers/g/ids/g_a x zxid=7; seed
      /consumers/g/owners/t/0 x zxid=8; seed /consumers/g/views/g_a x zxid=9; seed /controller-no/other x
      zxid=10; seed /brokers/ids/7-no/other x zxid=11; seed /consumers/g/owners/t/0-no/other x zxid=12
    > error #5.. +0..: /controller is persistent, so it ends with no session: no broker is elected while it is
      there
    > error #6.. +0..: /brokers/ids/7 is persistent, so it ends with no session: Kafka's clients and
      controllers take this broker for alive, and it cannot start
    > error g #7.. +0..: /consumers/g/ids/g_a is persistent, so it ends with no session: the group shares
      partitions with this member, which cannot start
    > error g t-0 #8.. +0..: /consumers/g/owners/t/0 is persistent, so it ends with no session: no member can
      claim the partition
    > error g #9.. +0..: /consumers/g/views/g_a is persistent, so it ends with no session: it says what a
      former member has computed
Ephemerals of a log and of a snapshot are none.
    open 1; create /controller x 1 ephemeral; create /brokers/ids/7 x 1 ephemeral; create /consumers/g/ids/g_a
      x 1 ephemeral; create /consumers/g/owners/t/0 x 1 ephemeral; create /consumers/g/views/g_a x 1 ephemeral
    > nothing
    new; seed /controller x zxid=5 session=1; seed /brokers/ids/7 x zxid=6 session=1; seed
      /consumers/g/ids/g_a x zxid=7 session=1; seed /consumers/g/owners/t/0 x zxid=8 session=1; seed
      /consumers/g/views/g_a x zxid=9 session=1
    > nothing
It lasts from its create to its delete, each time anew; an ephemeral in its place is none.
    open 1; made: create /consumers/g/owners/t/0 g_a-0; deleted: delete /consumers/g/owners/t/0 1; create
      /consumers/g/owners/t/0 g_a-0 1 ephemeral; delete /consumers/g/owners/t/0 1; again: create
      /consumers/g/owners/t/0 g_a-0
    > error g t-0 made..deleted: /consumers/g/owners/t/0 is persistent, so it ends with no session: no member
      can claim the partition
    > error g t-0 again..: /consumers/g/owners/t/0 is persistent, so it ends with no session: no member can
      claim the partition
One that ends with its transaction is none: so `group nudge` wakes members, and `broker forget` checks.
    open 1; multi 1 & creation /consumers/g/ids/g_nudge & deletion /consumers/g/ids/g_nudge; multi 1 &
      creation /brokers/ids/7 & deletion /brokers/ids/7
    > nothing
The controller of a migration to KRaft is persistent by right, as its data shows.
    seed /controller '{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":4}'
    > nothing

foreign_owner_format
given group: topic t 5; come web host:7b0cfb39-0001 1; came: come web host-1 2; 4 times (claimed{n}: claim web
  t-{n} host:7b0cfb39-0001 1; made{n}: commit web t-{n} 10 1); claimed4: claim web t-4 host-1 2; made4: commit
  web t-4 10 2; +30000; commit web t-3 20 1; released: release web t-3 1; moved: claim web t-3 host-1 2;
  committed: commit web t-3 30 2; passes 30000
A healthy group whose owners are ids of consumers alone is named, and no fault is found.
    group
    > info web claimed0..: 5 owners are the id of a consumer alone, without a thread: the format of another
      client (kazoo-go, kafka-node)
    > (all) info web #3..claimed4: join (host:7b0cfb39-0001), join (host-1); 0 ms; 2 members then; 5
      partitions touched, 0 moved
    > info web claimed0..: 5 owners are the id of a consumer alone, without a thread: the format of another
      client (kazoo-go, kafka-node)
    > info web made0..committed: 7 commits by 2 sessions, 0.23/s, 0 % of them repeat the offset; at most 7 in
      one minute
    > info web released..moved: no cause in the log; 0 ms; 2 members then; 1 partition touched, 1 moved
Of a snapshot, as a live ensemble is read, it is the same.
    seed /consumers/web/ids/host:7b0cfb39-0001 @registration session=1; seed /consumers/web/owners/t/1
      host:7b0cfb39-0001 zxid=6 session=1; seed /consumers/web/ids/host-1 @registration zxid=2 session=2; seed
      /consumers/web/owners/t/2 host-1 zxid=7 session=2
    > (all) info web #6.. +0..: 2 owners are the id of a consumer alone, without a thread: the format of
      another client (kazoo-go, kafka-node)
A bare id that the claiming session has not registered, and one that is gone, are faults still.
    group; open 9; release web t-0 1; stolen: claim web t-0 host:7b0cfb39-0001 9; left: leave web host-1 2
    > (owner_session_mismatch) error web t-0 0x9 stolen..: 'host:7b0cfb39-0001' was claimed by session 0x9,
      but host:7b0cfb39-0001 is registered in 0x1
    passes 20000
    > (orphan_owner) error web t-3 0x2 left..: owner 'host-1' of session 0x2 stands without a registration of
      its member, for 20.0 s at the end
    > error web t-4 0x2 left..: owner 'host-1' of session 0x2 stands without a registration of its member, for
      20.0 s at the end
"""


@cases(TABLE)
def test_findings_about_ownership(case: Case) -> None:
    """Each history has the findings that are written below it, and no other of their rule."""
    case.check()
