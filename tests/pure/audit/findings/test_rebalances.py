"""Findings about rebalances of groups and what members have after them."""

from tests.pure.audit.histories import Case, cases

TABLE = """
rebalance
given claims: 4 times (claimed{n}: claim g t-{n} g_a-0 1)
given alone: topic t 4; came: come g g_a 1; claims
given rested: alone; +10000
given share: 4 times (release g t-{n} 1); +300; 2 times (claim g t-{n} g_a-0 1); claim g t-2 g_b-0 2; shared:
  claim g t-3 g_b-0 2
given shared: alone; +10000; came2: come g g_b 2; share
Each rebalance is an info row: cause, length, members, moves, longest time without owner.
    shared
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g came2..shared: join (g_b); 300 ms; 2 members then; 4 partitions touched, 2 moved; without owner
      up to 300 ms
A release that nothing set off is told as without cause, and what is left unowned is counted.
    shared; +10000; released: release g t-0 1
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g came2..shared: join (g_b); 300 ms; 2 members then; 4 partitions touched, 2 moved; without owner
      up to 300 ms
    > info g released: no cause in the log; 0 ms; 2 members then; 1 partition touched, 0 moved; 1 without
      owner at its end
A release 2 s later is part of the same rebalance, and with `quiet_ms=1000` one of its own.
    shared; +2000; released: release g t-0 1
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g came2..released: join (g_b); 2.3 s; 2 members then; 4 partitions touched, 2 moved; without owner
      up to 300 ms; 1 without owner at its end
    > (quiet_ms=1000) info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g came2..shared: join (g_b); 300 ms; 2 members then; 4 partitions touched, 2 moved; without owner
      up to 300 ms
    > info g released: no cause in the log; 0 ms; 2 members then; 1 partition touched, 0 moved; 1 without
      owner at its end
An expiry begins one at its zxid, with a crash as cause; the last claim of what it held ends it.
    shared; +10000; died: expire 2; claim g t-2 g_a-0 1; +40; last: claim g t-3 g_a-0 1
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g came2..shared: join (g_b); 300 ms; 2 members then; 4 partitions touched, 2 moved; without owner
      up to 300 ms
    > info g died..last: crash (g_b); 40 ms; 1 member then; 2 partitions touched, 2 moved; without owner up to
      40 ms
An expired member that registers again was not crashed but too slow: the cause is expiry.
    rested; died: expire 1; +60000; again: come g g_a 2
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g died: expiry (g_a); 0 ms; 0 members then; 4 partitions touched, 0 moved; 4 without owner at its
      end
    > info g again: join (g_a); 0 ms; 1 member then; 0 partitions touched, 0 moved
A deleted registration and a closed session are both a clean leave.
    shared; +10000; left: leave g g_b 2; +10000; closed: close 1
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g came2..shared: join (g_b); 300 ms; 2 members then; 4 partitions touched, 2 moved; without owner
      up to 300 ms
    > info g left: clean leave (g_b); 0 ms; 1 member then; 0 partitions touched, 0 moved
    > info g closed: clean leave (g_a); 0 ms; 0 members then; 2 partitions touched, 0 moved; 2 without owner
      at its end
A registration that session 7 deletes, though session 1 made it, is a removal.
    rested; left: leave g g_a 7
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g left: removal (g_a); 0 ms; 0 members then; 0 partitions touched, 0 moved
A registration that is made anew in its session is a subscription by the topics that it lost or gained.
    rested; more: multi 1 & deletion /consumers/g/ids/g_a & creation /consumers/g/ids/g_a
      '{"version":1,"subscription":{"t":1,"u":1},"pattern":"static"}' ephemeral; +10000; less: multi 1 &
      deletion /consumers/g/ids/g_a & creation /consumers/g/ids/g_a
      '{"version":1,"subscription":{"u":1},"pattern":"static"}' ephemeral; +10000; left: leave g g_a 1;
      joined: join g g_a 1 u:1
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g more: subscribe (g_a); 0 ms; 1 member then; 0 partitions touched, 0 moved
    > info g less: unsubscribe (g_a); 0 ms; 1 member then; 0 partitions touched, 0 moved
    > info g left..joined: no cause in the log; 0 ms; 1 member then; 0 partitions touched, 0 moved
More threads of a topic are a subscription, fewer of one topic are none, whatever else is asked for.
    rested; more: multi 1 & deletion /consumers/g/ids/g_a & creation /consumers/g/ids/g_a
      '{"version":1,"subscription":{"t":3},"pattern":"static"}' ephemeral; +10000; less: multi 1 & deletion
      /consumers/g/ids/g_a & creation /consumers/g/ids/g_a
      '{"version":1,"subscription":{"t":2,"u":1},"pattern":"static"}' ephemeral
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g more: subscribe (g_a); 0 ms; 1 member then; 0 partitions touched, 0 moved
    > info g less: unsubscribe (g_a); 0 ms; 1 member then; 0 partitions touched, 0 moved
Unregistered, and registered a minute later in the same session, is a leave and then a join.
    rested; left: leave g g_a 1; +60000; joined: join g g_a 1
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g left: clean leave (g_a); 0 ms; 0 members then; 0 partitions touched, 0 moved
    > info g joined: join (g_a); 0 ms; 1 member then; 0 partitions touched, 0 moved
A topic that grows is the cause and the beginning; the claim of the new partition ends it.
    rested; grown: topic t 5; +50; taken: claim g t-4 g_a-0 1
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g grown..taken: partition growth (t); 50 ms; 1 member then; 1 partition touched, 0 moved
A topic that nobody of the group wants is no cause.
    rested; topic other 2; released: release g t-0 1; taken: claim g t-0 g_a-0 1
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g released..taken: no cause in the log; 0 ms; 1 member then; 1 partition touched, 0 moved
The deletion of a topic is the cause; its partitions are unowned at the end and none has moved.
    rested; deleted: delete /brokers/topics/t; 4 times (freed{n}: release g t-{n} 1)
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g deleted..freed3: topic deletion (t); 0 ms; 1 member then; 4 partitions touched, 0 moved; 4
      without owner at its end
A registration that is no JSON sets one off, and the cause names the member.
    rested; made: create /consumers/g/ids/g_x t 9 ephemeral
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g made: unreadable registration (g_x); 0 ms; 2 members then; 0 partitions touched, 0 moved
A stolen claim of a group at rest begins one by itself, though the group was busy a moment ago.
    alone; stolen: release g t-1 9; release g t-2 9; taken: claim g t-1 g_a-0 1
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g stolen..taken: stolen claim (0x9); 0 ms; 1 member then; 2 partitions touched, 0 moved; 1 without
      owner at its end
    > (needless_move) nothing
Two members that join before the group is at rest are two causes of one rebalance.
    rested; open 2; open 3; joined: join g g_b 2; release g t-0 1; join g g_c 3; taken: claim g t-0 g_c-0 3
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g joined..taken: join (g_b), join (g_c); 0 ms; 3 members then; 1 partition touched, 1 moved
Members that come when all is as planned begin the next, however soon after the one before.
    shared; +1; joined: come g g_c 3
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g came2..shared: join (g_b); 300 ms; 2 members then; 4 partitions touched, 2 moved; without owner
      up to 300 ms
    > info g joined: join (g_c); 0 ms; 3 members then; 0 partitions touched, 0 moved
A member that leaves at rest begins the next, whatever its close lists first.
    shared; +1; closed: close 2 paths=/consumers/g/owners/t/3,/consumers/g/owners/t/2,/consumers/g/ids/g_b
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g came2..shared: join (g_b); 300 ms; 2 members then; 4 partitions touched, 2 moved; without owner
      up to 300 ms
    > info g closed: clean leave (g_b); 0 ms; 1 member then; 2 partitions touched, 0 moved; 2 without owner at
      its end
4,999 ms between two releases keep it going, 5,000 ms end it, planned or not.
    rested; freed: release g t-0 1; +4999; freed2: release g t-1 1; +5000; taken: claim g t-0 g_a-0 1
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g freed..freed2: no cause in the log; 5.0 s; 1 member then; 2 partitions touched, 0 moved; 2
      without owner at its end
    > info g taken: no cause in the log; 0 ms; 1 member then; 1 partition touched, 0 moved; without owner up
      to 10.0 s
A clock that goes back a minute between release and claim leaves one rebalance of 0 ms.
    rested; freed: release g t-0 1; -60000; taken: claim g t-0 g_a-0 1
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g freed..taken +10000..+10000: no cause in the log; 0 ms; 1 member then; 1 partition touched, 0
      moved
Members and owners of the snapshot are the state before; the join in the log is the only one.
    new zxid=100; seed /brokers/topics/t '{"version":1,"partitions":{"0":[1],"1":[1]}}'; seed
      /consumers/g/ids/g_a @registration zxid=2 session=1; 2 times (seed /consumers/g/owners/t/{n} g_a-0
      zxid={3+n} session=1); joined: come g g_b 2; release g t-1 1; taken: claim g t-1 g_b-0 2
    > info g joined..taken: join (g_b); 0 ms; 2 members then; 1 partition touched, 1 moved
    > (needless_move) nothing
A rebalance of another group is none of this one.
    shared; other: come h h_a 5
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g came2..shared: join (g_b); 300 ms; 2 members then; 4 partitions touched, 2 moved; without owner
      up to 300 ms
    > info h other: join (h_a); 0 ms; 1 member then; 0 partitions touched, 0 moved
The times of a partition without owner in one rebalance add up.
    rested; freed: release g t-0 1; +100; claim g t-0 g_a-0 1; +1000; release g t-0 1; +250; taken: claim g
      t-0 g_a-0 1; +1000
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g freed..taken: no cause in the log; 1.4 s; 1 member then; 1 partition touched, 0 moved; without
      owner up to 350 ms
A topic that grew long ago is no cause: a member that comes a minute later is it by itself.
    rested; topic t 5; +60000; joined: come g g_b 2
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g joined: join (g_b); 0 ms; 2 members then; 0 partitions touched, 0 moved
A member that lets go at rest goes on with the rebalance: it asks for no other one.
    shared; +1000; release g t-0 1; +1000; taken: claim g t-0 g_a-0 1
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g came2..taken: join (g_b); 2.3 s; 2 members then; 4 partitions touched, 2 moved; without owner up
      to 1.3 s
Each that takes claims of others is a cause once, however many it took.
    rested; stolen: release g t-0 8; release g t-1 9; stolen2: release g t-2 8
    > info g came..claimed3: join (g_a); 0 ms; 1 member then; 4 partitions touched, 0 moved
    > info g stolen..stolen2: stolen claim (0x8), stolen claim (0x9); 0 ms; 1 member then; 3 partitions
      touched, 0 moved; 3 without owner at its end
The bump of the owner in a claim and the view of a member neither begin one nor prolong it.
    topic t 1; came: come g g_a 1 zkgroup=1 strategy=sticky; claimed: claim_ours g t-0 g_a-0 1; +4000; create
      /consumers/g/views/g_a '{}' 1 ephemeral; +4000; joined: come g g_b 2 u:1 zkgroup=1 strategy=sticky
    > info g came..claimed: join (g_a); 0 ms; 1 member then; 1 partition touched, 0 moved
    > info g joined: join (g_b); 0 ms; 2 members then; 0 partitions touched, 0 moved

rebalance_storm
22 rebalances in an hour are one warning over all of them, with their causes counted.
    topic t 1; open 1; 11 times (joined{n}: join g g_a 1; +150000; left{n}: leave g g_a 1; +150000)
    > warning g joined0..left10: 22 rebalances, more than 20 an hour; among their causes: clean leave 11
      times, join 11 times
Twenty in an hour are allowed, and so are sixty at ten an hour.
    topic t 1; open 1; 10 times (join g g_a 1; +150000; leave g g_a 1; +150000)
    > nothing
    new; topic t 1; open 1; 30 times (join g g_a 1; +360000; leave g g_a 1; +360000)
    > nothing
With `per_hour=4` six are a storm, and six more two hours later are another.
    topic t 1; open 1; 3 times (joined{n}: join g g_a 1; +30000; left{n}: leave g g_a 1; +30000); +7200000; 3
      times (again{n}: join g g_a 1; +30000; gone{n}: leave g g_a 1; +30000)
    > (per_hour=4) warning g joined0..left2: 6 rebalances, more than 4 an hour; among their causes: clean
      leave 3 times, join 3 times
    > warning g again0..gone2: 6 rebalances, more than 4 an hour; among their causes: clean leave 3 times,
      join 3 times
The causes of a storm are not those of the storm before; rebalances without a cause are counted as such.
    topic t 1; open 1; 3 times (joined{n}: join g g_a 1; +30000; left{n}: leave g g_a 1; +30000); +7200000;
      again: join g g_a 1; 6 times (+30000; claim g t-0 g_a-0 1; +30000; released{n}: release g t-0 1)
    > (per_hour=4) warning g joined0..left2: 6 rebalances, more than 4 an hour; among their causes: clean
      leave 3 times, join 3 times
    > warning g again..released5: 13 rebalances, more than 4 an hour; among their causes: no cause in the log
      12 times, join 1 times

needless_move
JVM members let everything go in each rebalance: what the same thread takes back is info.
    shared
    > info g came2..shared: 2 released and claimed again by the same thread
Members of ours let go only of what they must give: with sticky or range, more is a warning.
    topic t 4; come g g_a 1 zkgroup=1 strategy=sticky; claims; +10000; came2: come g g_b 2 zkgroup=1
      strategy=sticky; share
    > warning g came2..shared: 2 released and claimed again by the same thread
    new; topic t 4; come g g_a 1 zkgroup=1 strategy=range; claims; +10000; came2: come g g_b 2 zkgroup=1
      strategy=range; share
    > warning g came2..shared: 2 released and claimed again by the same thread
The least moves are no finding; three moves where one would do are a warning under sticky.
    topic t 4; come g g_a 1 zkgroup=1 strategy=sticky; claims; +10000; come g g_b 2 zkgroup=1 strategy=sticky;
      2 times (release g t-{n+2} 1; claim g t-{n+2} g_b-0 2)
    > nothing
    +10000; came: come g g_c 3 zkgroup=1 strategy=sticky; release g t-0 1; claim g t-0 g_c-0 3; release g t-1
      1; claim g t-1 g_b-0 2; release g t-2 2; claimed: claim g t-2 g_a-0 1
    > warning g came..claimed: 3 moved where 1 would have done
Three moves where one would do are info where sticky was not promised.
    alone; +10000; come g g_b 2; 2 times (release g t-{n+2} 1; claim g t-{n+2} g_b-0 2)
    > nothing
    +10000; came: come g g_c 3; release g t-0 1; claim g t-0 g_c-0 3; release g t-1 1; claim g t-1 g_b-0 2;
      release g t-2 2; claimed: claim g t-2 g_a-0 1
    > info g came..claimed: 3 moved where 1 would have done
From thread 0 of a member to its thread 1 is a move, and not taken back by the same thread.
    alone; +10000; released: release g t-0 1; claimed: claim g t-0 g_a-1 1
    > info g released..claimed: 1 moved where 0 would have done

skew
A member without partitions that is assigned some is a warning since its join, ten seconds after it.
    alone; came: come g g_b 2; passes 10000
    > nothing
    passes 1
    > warning g came..: idle, though the plan has partitions for them: g_b
Three against one, where the plan deals out two each, is a warning with both shares.
    shared; release g t-1 1; claimed: claim g t-1 g_b-0 2; passes 10001
    > warning g claimed..: g_b owns 3, g_a owns 1; by the plan they would differ by 0
Range cuts each topic by itself: the first member gets the odd one of each.
    3 times (topic t{n} 1); come g g_a 1 t0:1/t1:1/t2:1; come g g_b 2 t0:1/t1:1/t2:1; 3 times (claimed{n}:
      claim g t{n}-0 g_a-0 1); passes 10001
    > info g claimed2..: g_a owns 3, g_b owns 0, which is the plan of range: it cuts each topic by itself
Even shares are no skew, nor is one partition for two members.
    shared; passes 10001
    > nothing
    new; topic t 1; come g g_a 1; come g g_b 2; claim g t-0 g_a-0 1; passes 10001
    > nothing
Of a wildcard of Java's, or of round robin with unequal subscriptions, the plan cannot be known.
    alone; create /consumers/g/ids/g_w '{"version":1,"subscription":{"[a&&b]":1},"pattern":"white_list"}' 2;
      passes 10001
    > nothing
    new; topic t 4; come g g_a 1 zkgroup=1 strategy=roundrobin; claims; join g g_b 2 t:1/u:1 zkgroup=1
      strategy=roundrobin; passes 10001
    > nothing
Idle members beyond three are a number.
    topic t 6; 6 times (come g g_{n+1} {n+1}); 6 times (claimed{n}: claim g t-{n} g_1-0 1); passes 10001
    > warning g claimed5..: idle, though the plan has partitions for them: g_2, g_3, g_4 and 2 more
The plan gives both two each; one of them lacks one, which never_owned tells.
    shared; release g t-3 2; passes 10001
    > nothing
Members that want different topics are no equals.
    3 times (topic t{n} 1); topic u 1; come g g_a 1 t0:1/t1:1/t2:1; come g g_b 2 u:1; 3 times (claim g t{n}-0
      g_a-0 1); claim g u-0 g_b-0 2; passes 10001
    > nothing
A plan that is not carried out says nothing, until it is.
    3 times (topic t{n} 1); topic u 1; come g g_a 1 t0:1/t1:1/t2:1; come g g_b 2 t0:1/t1:1/t2:1; 2 times
      (claim g t{n}-0 g_a-0 1); passes 10001
    > nothing
    claimed: claim g t2-0 g_a-0 1; passes 10001
    > info g claimed..: g_a owns 3, g_b owns 0, which is the plan of range: it cuts each topic by itself
Only members and owners count as a change: what members publish beside them goes on at rest, too.
    alone; came: come g g_b 2; +10001; create /consumers/g/views/g_a '{}' 1 ephemeral
    > warning g came..: idle, though the plan has partitions for them: g_b

handover_time
given two_members: new lists; open 0xa; open 0xb; join g g_a 0xa; join g g_b 0xb; claim g t-0 g_a-0 0xa; claim
  g t-1 g_a-0 0xa
The time goes to the last partition's first next claim; later claims of it are other hand-overs.
    new either; open 0xa; open 0xb; join g g_a 0xa; join g g_b 0xb; claim g t-0 g_a-0 0xa; claim g t-1 g_a-0
      0xa; +6000; expired: expire 0xa; +300; claim g t-0 g_b-0 0xb; release g t-0 0xb; +200; claimed: claim g
      t-1 g_b-0 0xb; +5000; claim g t-0 g_b-0 0xb
    > info g 0xa expired..claimed: member g_a (session 0xa) expired after 6.0 s of silence with 2 partitions;
      the last was claimed again 500 ms later
An unclaimed partition counts to the end, or until the last of those who could have taken over left.
    two_members; closed: close 0xa; +1000; claim g t-1 g_b-0 0xb
    > info g 0xa closed..: member g_a (session 0xa) closed after 0 ms of silence with 2 partitions; the last
      was claimed again 1.0 s later, 1 never
    closed2: close 0xb
    > info g 0xa closed..closed2: member g_a (session 0xa) closed after 0 ms of silence with 2 partitions; the
      last was claimed again 1.0 s later, 1 never
A group that stops hands nothing over: ten seconds by default are a rebalance that does not come.
    two_members; closed: close 0xa; +10000; closed2: close 0xb
    > nothing
    > (patience_ms=9999) info g 0xa closed..closed2: member g_a (session 0xa) closed after 0 ms of silence
      with 2 partitions; none of them was claimed again in 10.0 s
A group without another member hands nothing over; who comes a day later takes nothing over.
    two_members; close 0xb; close 0xa; +86400000; come g g_d 0xd; claim g t-0 g_d-0 0xd
    > nothing
A release is no end of a session, nor is an end that took no partition.
    two_members; release g t-0 0xa; claim g t-0 g_b-0 0xb; release g t-1 0xa; close 0xa; claim g t-1 g_b-0 0xb
    > nothing
Members that left before, while their session lived on, or came after are no heirs.
    two_members; leave g g_b 0xb; close 0xa; +20000; join g g_b 0xb
    > nothing
The last heir decides how long it lasts: the one that stayed longest, be it to the end.
    two_members; come g g_c 0xc; +1000; closed: close 0xa; +15000; leave g g_c 0xc; passes 1000
    > info g 0xa closed..: member g_a (session 0xa) closed after 1.0 s of silence with 2 partitions; none of
      them was claimed again in 16.0 s
    left: leave g g_b 0xb; +60000; create /much-later
    > info g 0xa closed..left: member g_a (session 0xa) closed after 1.0 s of silence with 2 partitions; none
      of them was claimed again in 16.0 s
A member that goes with the session is no heir, whatever the close lists first.
    two_members; leave g g_b 0xb; close 0xa
      paths=/consumers/g/owners/t/0,/consumers/g/ids/g_a,/consumers/g/owners/t/1; +20000; claim g t-0 g_b-0
      0xb
    > nothing

member_flapping
Four lives within an hour are found, with how long they lasted.
    4 times (open {0xa0+n}; joined{n}: join g g_a {0xa0+n}; +10000; expire {0xa0+n}; +590000)
    > warning g 0xa3 joined0..joined3: member g_a registered 4 times within 30.0 min, for 10.0 s each (median)
Three lives are not, nor is a restart a day, nor a fourth life a day later.
    3 times (open {0xa0+n}; join g g_a {0xa0+n}; +10000; expire {0xa0+n}; +50000)
    > nothing
    +86400000; join g g_a 0xb0
    > nothing
    7 times (+86400000; come g g_a {0xc0+n}; +10000; expire {0xc0+n})
    > nothing
Each time that it flapped is found once, however many lives; the calm between ends it.
    9 times (open {0xa0+n}; joined{n}: join g g_a {0xa0+n}; +10000; expire {0xa0+n}; +50000); +18000000; 5
      times (open {0xb0+n}; again{n}: join g g_a {0xb0+n}; close {0xb0+n})
    > warning g 0xa8 joined0..joined8: member g_a registered 9 times within 8.0 min, for 10.0 s each (median)
    > warning g 0xb4 again0..again4: member g_a registered 5 times within 0 ms, for 0 ms each (median)
A group that starts is no flapping, nor the same name in another group.
    10 times (join g g_{n} {0xa0+n}; join group{n} same {0xa0+n})
    > nothing
"""


@cases(TABLE)
def test_findings_about_rebalances(case: Case) -> None:
    """Each history has the findings that are written below it, and no other of their rule."""
    case.check()
