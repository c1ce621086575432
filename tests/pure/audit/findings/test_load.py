"""Findings about the load of the servers, and open znodes."""

from tests.pure.audit.histories import Case, cases

TABLE = """
znode_bloat
A large znode is found where it was written: in the snapshot, or by a set.
    new zxid=100; seed /config/old @bytes/524288 zxid=7; create /config/new; set: set /config/new
      @bytes/524289
    > warning #7.. +0..: /config/old holds 524288 bytes
    > warning set..: /config/new holds 524289 bytes
What shrank or went is none: it is the end that counts.
    create /config/shrunk @bytes/524288; create /config/gone @bytes/524288; create /config/below
      @bytes/524287; set /config/shrunk ''; delete /config/gone
    > nothing
In a wide parent each name costs its bytes and four; children of children are of another list.
    10 times (create /brokers/topics/topic-{n} '{}'; made{n}: create /brokers/topics/topic-{n}/partitions)
    > (list_bytes=110) warning: /brokers/topics has 10 children, a list of 110 bytes
    delete /brokers/topics/topic-3
    > (list_bytes=110) nothing
A large subtree has its count and bytes, its largest znode and its widest parent.
    5 times (create /consumers/{n} four); set /consumers/3 more; made: set /consumers/4 'most of all'; last:
      create /brokers/1 other
    > (znodes=5) info: /consumers: 5 znodes with 27 bytes of data; the largest is /consumers/4 with 11; the
      widest is /consumers with 5 children
    > (znodes=6) nothing
    > () nothing
With `depth=2` each group is a subtree by itself; a parent above is of none of them.
    create /consumers/g; 3 times (create /consumers/g/{n} x); create /consumers/h; 2 times (made{n}: create
      /consumers/h/{n} x)
    > (znodes=4, depth=2) info: /consumers/g: 4 znodes with 3 bytes of data; the largest is /consumers/g/0
      with 1; the widest is /consumers/g with 3 children
    > (znodes=1, depth=2) info: /consumers/g: 4 znodes with 3 bytes of data; the largest is /consumers/g/0
      with 1; the widest is /consumers/g with 3 children
    > info: /consumers/h: 3 znodes with 2 bytes of data; the largest is /consumers/h/0 with 1; the widest is
      /consumers/h with 2 children

herd_size
Members of a group watch its ids: who joins wakes those before; who leaves wakes itself too.
    join g g_0 0xa0; join g g_1 0xa1; join g g_2 0xa2; join g g_3 0xa3; joined: join g g_4 0xa4; left: leave g
      g_0 0xa0
    > (watchers=4) warning g joined..left: 2 changes of /consumers/g/ids woke 9 watchers, at most 5 at once
      (zxid 0x6)
Members of every group watch brokers and topics, and brokers watch the controller.
    create /brokers/ids/1 '{}' 1 ephemeral; create /brokers/ids/2 '{}' 2 ephemeral; join g g_0 0xa0; join h
      h_0 0xb0; joined: join g g_1 0xa1; joined2: join h h_1 0xb1; placed: topic t 1; deleted: delete
      /brokers/ids/2 2; made: create /controller '{}' 1 ephemeral
    > (watchers=1) warning g joined: 1 change of /consumers/g/ids woke 1 watcher, at most 1 at once (zxid 0x5)
    > warning h joined2: 1 change of /consumers/h/ids woke 1 watcher, at most 1 at once (zxid 0x6)
    > warning placed: 1 change of /brokers/topics woke 4 watchers, at most 4 at once (zxid 0x7)
    > warning deleted: 1 change of /brokers/ids woke 4 watchers, at most 4 at once (zxid 0x8)
    > warning made: 1 change of /controller woke 1 watcher, at most 1 at once (zxid 0x9)
Znodes of the snapshot fire no watch; their lives count as watchers.
    new zxid=100; seed /consumers/g/ids/g_0 '{}' zxid=5 session=0xa0; seed /consumers/g/ids/g_1 '{}' zxid=6
      session=0xa1; seed /consumers/g/ids/g_2 '{}' zxid=7 session=0xa2; seed /consumers/g/ids/g_3 '{}' zxid=8
      session=0xa3; joined: join g g_new 0xb
    > (watchers=2) warning g joined: 1 change of /consumers/g/ids woke 4 watchers, at most 4 at once (zxid
      0x64)
Commits wake nobody, however many members there are, and a hundred members are no herd yet.
    100 times (join g g_{n} {1000+n}); commit g t-0 5 1000; claim g t-0 g_0-0 1000
    > nothing
    joined: join g g_100 2000
    > warning g joined: 1 change of /consumers/g/ids woke 100 watchers, at most 100 at once (zxid 0x67)

write_hot_spot
The busiest minute of a subtree is reported, with its operations, bytes and who wrote most of them.
    -20000; join g g_a 0xa; commit g t-0 10 0xb; +60000; first: commit g t-0 11 0xb; 8 times (wrote{n}: commit
      g t-0 {12+n} 0xa); +60000; commit g t-0 20 0xa
    > (per_minute=5) info g 0xa first..wrote7: /consumers/g/offsets: 9 operations, 18 bytes in the busiest
      minute, 8 of them by member g_a (session 0xa); 1 minute like it; biggest transaction 1
A multi of many is one record for the servers, and many changes.
    -20000; done: multi 0xa & creation /consumers/g/offsets/t/0 0 & creation /consumers/g/offsets/t/1 0 &
      creation /consumers/g/offsets/t/2 0
    > (per_minute=3) info g 0xa done: /consumers/g/offsets: 3 operations, 3 bytes in the busiest minute, 3 of
      them by session 0xa; 1 minute like it; biggest transaction 3
    > (per_minute=4) nothing
Refused requests are a place of their own; a failed multi is one, and none of its operations is a write.
    -20000; 4 times (failed{n}: fail 0xa; done{n}: multi 0xa & setting /consumers/g/offsets/t/0 1 & error -103
      & error -103 & error -103)
    > (per_minute=5) info 0xa failed0..done3: refused requests: 8 operations, 0 bytes in the busiest minute, 8
      of them by session 0xa; 1 minute like it; 100% of all transactions in that time
    > (per_minute=9) nothing
Refused requests have their share of the transactions between them; across an election nobody can tell.
    -20000; failed: fail 0xa; commit g t-0 1 0xa; commit g t-0 2 0xa; failed2: fail 0xa
    > (per_minute=2) info 0xa failed..failed2: refused requests: 2 operations, 0 bytes in the busiest minute,
      2 of them by session 0xa; 1 minute like it; 50% of all transactions in that time
    > info g 0xa #2..#3: /consumers/g/offsets: 2 operations, 2 bytes in the busiest minute, 2 of them by
      session 0xa; 1 minute like it; biggest transaction 1
    skip 0x100000000; failed3: fail 0xa
    > (per_minute=3) info 0xa failed..failed3: refused requests: 3 operations, 0 bytes in the busiest minute,
      3 of them by session 0xa; 1 minute like it
Ten a second are allowed by default, in each subtree by itself; what the snapshot has was not written now.
    -20000; 700 times (seed /consumers/g/offsets/t/{n} 3); 599 times (wrote{n}: commit g t-0 {n} 0xa; commit h
      t-0 {n} 0xa)
    > nothing
    end: commit g t-0 600 0xa
    > info g 0xa wrote0..end: /consumers/g/offsets: 600 operations, 1690 bytes in the busiest minute, 600 of
      them by session 0xa; 1 minute like it; biggest transaction 1

open_acl
A tree that is open everywhere, as every tree of 0.8.2.2 is, is one row.
    create /brokers acl=open; create /brokers/ids acl=open; create /consumers acl=open; create /elsewhere
      acl=open
    > info #1..: any client may change 3 of 3 znodes below /brokers and /consumers; 0 changes of ACLs by 0
      sessions
A tree that is half closed is a warning: somebody meant to close it; reading may stay open.
    create /brokers acl=read; create /brokers/ids acl=read; made: create /consumers acl=open
    > warning #1..: any client may change 1 of 3 znodes below /brokers and /consumers, such as /consumers; 0
      changes of ACLs by 0 sessions
A closed tree is none.
    create /brokers acl=read; create /elsewhere acl=open
    > nothing
A tree that was closed later is none but for that.
    create /brokers acl=open; create /consumers acl=open; set_acl /brokers read 0xb; set_acl /elsewhere read
      0xc; delete /consumers
    > info #1..: any client may change 0 of 1 znodes below /brokers and /consumers; 2 changes of ACLs by 2
      sessions
An ACL that the snapshot lacks, a known defect of servers, is a warning; no ACL at all was not read.
    new zxid=100; seed /brokers zxid=5 acl=open; seed /consumers zxid=5
    > warning #5.. +0..: any client may change 1 of 2 znodes below /brokers and /consumers; 1 have an ACL that
      the snapshot lacks (ZOOKEEPER-4689), such as /consumers
    new zxid=100; seed /brokers zxid=5; seed /consumers zxid=5
    > nothing
"""


@cases(TABLE)
def test_findings_about_the_load(case: Case) -> None:
    """Each history has the findings that are written below it, and no other of their rule."""
    case.check()
