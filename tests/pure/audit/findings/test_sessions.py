"""Findings about sessions and their ephemerals."""

from tests.pure.audit.histories import Case, cases

TABLE = """
session_end
An expiry is reported with the idle time and the removed znodes, listed in the record or not.
    new either; open 0xa; join g g_a 0xa; claim g t-0 g_a-0 0xa; claim g t-1 g_a-0 0xa; +6500; expired: expire
      0xa
    > info g 0xa expired: member g_a (session 0xa) expired 6.5 s after its last write (timeout 6.0 s); 3
      ephemerals went with it
A member that comes back after its expiry was paused: a warning, with the time until it came.
    come g g_a 0xa; come g g_b 0xb; expired: expire 0xb; expired2: expire 0xa; +2800; come g g_a 0xc
    > info g 0xb expired: member g_b (session 0xb) expired 0 ms after its last write (timeout 6.0 s); 1
      ephemeral went with it
    > warning g 0xa expired2: member g_a (session 0xa) expired 0 ms after its last write (timeout 6.0 s); 1
      ephemeral went with it; the member registered again 2.8 s later
A close after a long silence is no expiry.
    open 0xa; join g g_a 0xa; +60000; closed: close 0xa
    > info g 0xa closed: member g_a (session 0xa) closed 60.0 s after its last write (timeout 6.0 s); 1
      ephemeral went with it
A close that removes nothing is not reported, as every tool does so; an expiry is.
    open 0xa; close 0xa; open 0xb; expired: expire 0xb
    > info 0xb expired: session 0xb expired 0 ms after its last write (timeout 6.0 s); 0 ephemerals went with
      it
A living session is no end, and what a session deletes by itself did not go with it.
    open 0xa; claim g t-0 g_a-0 0xa; release g t-0 0xa; open 0xb; claim g t-0 g_b-0 0xb; close 0xa
    > nothing
A session from before the log may have written nothing in it.
    new zxid=100; seed /brokers/ids/1 '{}' zxid=5 session=0xa; expired: expire 0xa
    > info 0xa expired: broker 1 (session 0xa) expired without a write in this history; 1 ephemeral went with
      it

failed_claims
Ten refusals within a minute are found, from the first to the last of them, over windows that overlap.
    come g g_a 0xa; 14 times (failed{n}: fail 0xa; +6000); +60000; fail 0xa
    > warning g 0xa failed0..failed13: 14 requests of member g_a (session 0xa) failed in 78.0 s because the
      znode existed
Nine a minute are not: four attempts of a JVM member on two partitions are eight.
    come g g_a 0xa; 30 times (failed{n}: fail 0xa; +7000)
    > nothing
    > (per_minute=9) warning g 0xa failed0..failed29: 30 requests of member g_a (session 0xa) failed in 3.4
      min because the znode existed
A failed transaction is one refusal, however many operations were not tried; its cause decides.
    come g g_a 0xa; 5 times (failed{n}: multi 0xa & creation /consumers/g/owners/t/0 g_a-0 ephemeral & error
      -110 & error -2 & error -2; multi 0xa & creation /consumers/g/owners/t/0 g_a-0 ephemeral & error -103 &
      error -2)
    > nothing
    > (per_minute=5) warning g 0xa failed0..failed4: 5 requests of member g_a (session 0xa) failed in 0 ms
      because the znode existed
A missing node, then its parent that is there already, is the first commit of a JVM client and no claim.
    come g g_a 0xa; 20 times (fail 0xa -101 cxid={3*n}; fail 0xa cxid={3*n+1}; commit g t-{n} 0 0xa)
    > nothing
A refusal behind an older missing node counts: only the very next request is the parent.
    come g g_a 0xa; 10 times (fail 0xa -101 cxid={4*n}; failed{n}: fail 0xa cxid={4*n+2})
    > warning g 0xa failed0..failed9: 10 requests of member g_a (session 0xa) failed in 0 ms because the znode
      existed
Only members claim: a broker or a tool may fail for reasons of its own.
    come g g_a 0xa; 20 times (fail 0xc)
    > nothing

ephemeral_churn
Creates and deletes of ephemerals beyond the bound are found; both count.
    60 times (claimed{n}: claim g t-0 g_a-0 0xa; released{n}: release g t-0 0xa; +60000)
    > (per_hour=100) warning 0xa claimed0..released59: session 0xa created and deleted ephemerals 120 times in
      59.0 min
Commits and persistent znodes are no ephemerals; a default rebalance is far below the bound.
    49 times (claim g t-0 g_a-0 0xa; release g t-0 0xa; +60000); 200 times (commit g t-0 {n} 0xb; create
      /persistent/{n} session=0xb)
    > (per_hour=100) nothing
    > () nothing
A session with brief ephemerals is reported; one without any is a tool, one that lives may have just begun.
    opened: open 0xa; join g g_a 0xa; +3000; closed: close 0xa; open 0xb; close 0xb; come g g_d 0xd
    > info g 0xa opened..closed: member g_a (session 0xa) lived for 3.0 s and made 1 ephemeral
A session of a minute is not short.
    come g g_a 0xa; +60000; close 0xa
    > nothing

session_leak
given a: seed_session 0x10000000000000a
given b: seed_session 0xa0fffffffffffffb
Sessions that own and write nothing for days are found, those that never wrote since the snapshot and others.
    new zxid=100; a; b; opened: open 0xc; +86400000; wrote: create /something session=0x10000000000000a;
      +345600000; create /end session=0xc
    > warning 0xa0fffffffffffffb opened..: session 0xa0fffffffffffffb, issued by server 160 (1 open session of
      it), has no ephemeral and wrote nothing for 5.0 d at least
    > warning 0x10000000000000a wrote..: session 0x10000000000000a, issued by server 1 (1 open session of it),
      has no ephemeral and wrote nothing for 4.0 d
The sessions of its server are counted that live at the end, whether they leak or not.
    new zxid=100; a; b; opened: open 0x10000000000000b; open 0x10000000000000c; close 0x10000000000000c;
      +432000000; create /end session=0x10000000000000b
    > warning 0xa0fffffffffffffb opened..: session 0xa0fffffffffffffb, issued by server 160 (1 open session of
      it), has no ephemeral and wrote nothing for 5.0 d at least
    > warning 0x10000000000000a opened..: session 0x10000000000000a, issued by server 1 (2 open sessions of
      it), has no ephemeral and wrote nothing for 5.0 d at least
An ephemeral, a write and an end excuse, each by itself.
    new zxid=100; seed_session 1; seed_session 3; seed_session 4; seed /brokers/ids/1 '{}' zxid=5 session=1;
      come g g_a 2; close 4; +432000000; create /written session=3
    > nothing
An ephemeral that was released excuses no more.
    new zxid=100; open 2; claim g t-0 g_a-0 2; released: release g t-0 2; passes 432000000
    > warning 0x2 released..: session 0x2, issued by server 0 (1 open session of it), has no ephemeral and
      wrote nothing for 5.0 d
Three days are not long, and a snapshot alone says nothing about writes.
    new zxid=100; a; create /start; +259200000; create /end
    > nothing
    new; a; seed /old ms=-2592000000; seed /new zxid=2
    > nothing
"""


@cases(TABLE)
def test_findings_about_sessions(case: Case) -> None:
    """Each history has the findings that are written below it, and no other of their rule."""
    case.check()
