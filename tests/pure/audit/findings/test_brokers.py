"""Findings about registrations of brokers and what they lead."""

from tests.pure.audit.histories import Case, cases

TABLE = """
broker_flapping
Under five minutes up is a warning that says how long, how it ended, and how long it was away.
    start 1 2; +299999; expired: expire 2; +12000; back: broker_comes 2 0x16; +4000; closed: close 0x16;
      passes 1000
    > warning 0x2 expired..back: broker 2 was up for 5.0 min only, its session expired, away for 12.0 s; it
      led nothing
    > warning 0x16 closed..: broker 2 was up for 4.0 s only, it closed its session, away for 1.0 s and not
      back; it led nothing
The topics that it led while it was up are named, lost again or not; none that it led later or only followed.
    start 1 2; state before-0 2 2; state before-0 1 1 epoch=1; expired: expire 2; state kept-0 2 1,2; state
      gone-0 1 1,2; back: broker_comes 2 0x16; state a-1 2 1,2; state a-0 2 1,2; state a-0 1 1,2 epoch=1;
      delete /brokers/topics/a/partitions/1/state 1; state unreadable-0 2 2; set
      /brokers/topics/unreadable/partitions/0/state '{' 1; expired2: expire 0x16; state late-0 2 2
    > warning 0x2 expired..back: broker 2 was up for 0 ms only, its session expired, away for 0 ms; it led 1
      partition of before
    > warning 0x16 expired2..: broker 2 was up for 0 ms only, its session expired, away for 0 ms and not back;
      it led 4 partitions of a, kept, unreadable
Of many topics five are named, the others counted.
    start 1 2; state t0-0 2 2; state t1-0 2 2; state t2-0 2 2; state t3-0 2 2; state t4-0 2 2; state t5-0 2 2;
      state t6-0 2 2; expired: expire 2
    > warning 0x2 expired..: broker 2 was up for 0 ms only, its session expired, away for 0 ms and not back;
      it led 7 partitions of t0, t1, t2, t3, t4 and 2 more
Five minutes up are long enough, unless `short_ms` says more; a life that goes on is never short.
    start 1 2; +300000; expired: expire 2; back: broker_comes 2 0x16; passes 5000
    > nothing
    > (short_ms=600000) warning 0x2 expired..back: broker 2 was up for 5.0 min only, its session expired, away
      for 0 ms; it led nothing
A registration of the snapshot lives since it was made: ten minutes, which is no short life.
    new zxid=100; seed /brokers/ids/1 '{}' zxid=9 ms=-600000 session=1; expire 1
    > nothing

preferred_leader_imbalance
given topic: topic t 0:1,2/1:1,2/2:1,2/3:1,2/4:1,2; topic u 0:1,2/1:1,2/2:1,2/3:1,2/4:1,2
given led: start 1 2; topic; 5 times (state t-{n} 1 1,2; state u-{n} 1 1,2)
One of ten not led by its first replica is allowed, two are a warning; `share` moves the bound.
    led; state t-0 2 1,2 epoch=1
    > nothing
    written: state u-0 2 1,2 epoch=1
    > warning written..: broker 1 does not lead 2 of 10 partitions (20%) that it should
    > (share=0.2) nothing
Leaders that were elsewhere for a while and are back at the end are no finding.
    led; 5 times (state t-{n} 2 1,2 epoch=1); 5 times (state t-{n} 1 1,2 epoch=2)
    > nothing
Partitions of a deleted topic, and of one whose deletion is asked for, are not counted.
    led; state t-0 -1 - epoch=1; state t-1 -1 - epoch=1; create /admin/delete_topics/t; state u-0 2 1,2
      epoch=1; delete /brokers/topics/u
    > nothing
A broker that is not registered leads nothing, and the row says that it is down.
    led; expire 1; 5 times (written{n}: state t-{n} 2 2 epoch=1)
    > warning written4..: broker 1 does not lead 5 of 10 partitions (50%) that it should; it is not registered
"""


@cases(TABLE)
def test_findings_about_brokers(case: Case) -> None:
    """Each history has the findings that are written below it, and no other of their rule."""
    case.check()
