"""Findings about leaders and replicas of partitions."""

from tests.pure.audit.histories import Case, cases

TABLE = """
leader_not_in_isr
A leader outside its own ISR is an error until a state mends it, over a second such leader.
    topic t 0:1,2/1:1,2; state t-0 1 1,2; state t-1 2 1,2; written: state t-0 1 2; +3000; state t-0 3 2
      epoch=1; +2000; written2: state t-0 2 2 epoch=2
    > error t-0 0x1 written..written2: leader 1 is not in the ISR [2] for 5.0 s
One that a snapshot shows lasts since it was last written, which is all that a snapshot says.
    new zxid=100; seed /brokers/topics/t '{"version":1,"partitions":{"0":[1,2]}}' zxid=5 ms=-90000; seed
      /brokers/topics/t/partitions/0/state
      '{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":3,"isr":[2]}' zxid=6 mtime_ms=-60000;
      opened: open 1
    > error t-0 opened.. -60000..: leader 1 is not in the ISR [2] for 60.0 s
Leader -1 and a state that is no JSON have no leader that could be outside the ISR.
    topic t 0:1,2; state t-0 -1 2; set /brokers/topics/t/partitions/0/state 'not JSON' 1
    > nothing
What one multi corrects is no finding: between its operations it may say anything.
    topic t 0:1,2; state t-0 1 1,2; multi 1 & setting /brokers/topics/t/partitions/0/state
      '{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":1,"isr":[2]}' & setting
      /brokers/topics/t/partitions/0/state
      '{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":1,"isr":[2]}'
    > nothing

isr_outside_assignment
given placed: topic t 0:1,2; state t-0 1 1,2
A broker in the ISR that the replica list lacks is an error until a state leaves it out.
    placed; written: state t-0 1 1,2,7; written2: state t-0 1 1,2
    > error t-0 0x1 written..written2: [7] in the ISR, not in the replica list [1, 2] for 0 ms
A replica list that drops a broker of the ISR is the same error, from that write on.
    placed; placed: topic t 0:1
    > error t-0 placed..: [2] in the ISR, not in the replica list [1] for 0 ms
While a request moves the partition, a target in the ISR before the list names it is a warning.
    placed; reassign t-0:3; written: state t-0 1 1,2,3; placed: topic t 0:3,1,2 1
    > warning t-0 0x1 written..placed: [3] in the ISR, not in the replica list [1, 2] for 0 ms; it is being
      moved
Still outside the list when the request is gone: an error from the state on that brought it in.
    placed; reassign t-0:3; written: state t-0 1 1,2,3; delete /admin/reassign_partitions 1
    > error t-0 0x1 written..: [3] in the ISR, not in the replica list [1, 2] for 0 ms
A move that the topic itself names counts, as from Kafka 2.4 on.
    placed; set /brokers/topics/t
      '{"version":2,"partitions":{"0":[1,2]},"adding_replicas":{"0":[3]},"removing_replicas":{}}' 1; written:
      state t-0 1 1,2,3
    > warning t-0 0x1 written..: [3] in the ISR, not in the replica list [1, 2] for 0 ms; it is being moved
List and ISR that change in one multi agree, as controllers of ours end a move.
    placed; multi 1 & setting /brokers/topics/t '{"version":1,"partitions":{"0":[3]}}' & setting
      /brokers/topics/t/partitions/0/state @state/3/3/1
    > nothing
Where the replica list cannot be read, no ISR is outside it.
    placed; set /brokers/topics/t torn 1; state t-0 1 1,2,9
    > nothing

under_replicated
given placed: topic t 0:1,2,3; state t-0 1 1,2,3
One row from the first replica that fell out to the last that came back, with the time of each.
    placed; written: state t-0 1 1,2; +8000; written2: state t-0 1 1; +4000; written3: state t-0 1 1,3; +1000;
      written4: state t-0 1 1,3,2
    > warning written..written3: broker 3 was not in sync in 1 partition of 1 topic, for 12.0 s
    > warning t-0 0x1 written..written4: replicas [1, 2, 3], not in sync: 2 for 5.0 s, 3 for 12.0 s
    > warning written2..written4: broker 2 was not in sync in 1 partition of 1 topic, for 5.0 s
A replica that is missing at the end is told with the time so far, and without an end.
    placed; written: state t-0 1 1,2; passes 30000
    > warning written..: broker 3 was not in sync in 1 partition of 1 topic, for 30.0 s
    > warning t-0 0x1 written..: replicas [1, 2, 3], not in sync: 3 for 30.0 s
A replica that is back before the bound is no finding; `least_ms` moves the bound.
    placed; written: state t-0 1 1,2; +9999; written2: state t-0 1 1,2,3
    > nothing
    > (least_ms=5000) warning written..written2: broker 3 was not in sync in 1 partition of 1 topic, for 10.0
      s
    > warning t-0 0x1 written..written2: replicas [1, 2, 3], not in sync: 3 for 10.0 s
A longer replica list is under-replicated until the new ones follow, as in the first step of a move.
    placed; placed: topic t 0:4,1,2,3 1; +20000; written: state t-0 1 1,2,3,4
    > warning placed..written: broker 4 was not in sync in 1 partition of 1 topic, for 20.0 s
    > warning t-0 0x1 placed..written: replicas [4, 1, 2, 3], not in sync: 4 for 20.0 s
The request to delete the topic ends the time; what the controller takes off then is not told.
    placed; written: state t-0 1 1,2; +12000; made: create /admin/delete_topics/t; +60000; state t-0 -1 -;
      delete /brokers/topics/t/partitions/0/state 1
    > warning written..made: broker 3 was not in sync in 1 partition of 1 topic, for 12.0 s
    > warning t-0 0x1 written..made: replicas [1, 2, 3], not in sync: 3 for 12.0 s
The time in which the topic was deleted, before it was made again, counts for nothing.
    placed; state t-0 1 1,2; delete /brokers/topics/t/partitions/0/state 1; delete /brokers/topics/t 1;
      +60000; topic t 0:1,2,3; state t-0 1 1,2,3; passes 60000
    > nothing
Twenty seconds, of which fifteen were in two partitions at once; what is too short is not in it.
    placed; topic u 0:2,3/1:1,2; state u-0 2 2,3; state u-1 1 1,2; +1000; written: state t-0 1 1,3; +15000;
      written2: state t-0 1 1; written3: state u-0 2 2; +15000; written4: state t-0 1 1,2,3; state u-1 1 1;
      +5000; state u-1 1 1,2; written5: state u-0 2 2,3
    > warning written..written4: broker 2 was not in sync in 1 partition of 1 topic, for 30.0 s
    > warning t-0 0x1 written..written4: replicas [1, 2, 3], not in sync: 2 for 30.0 s, 3 for 15.0 s
    > warning written2..written5: broker 3 was not in sync in 2 partitions of 2 topics, for 20.0 s
    > warning u-0 0x1 written3..written5: replicas [2, 3], not in sync: 3 for 20.0 s
A broker that is missing anywhere at the end has no end; who is back has one.
    placed; written: state t-0 1 1; +10000; written2: state t-0 1 1,2; passes 10000
    > warning written..: broker 3 was not in sync in 1 partition of 1 topic, for 20.0 s
    > warning written..written2: broker 2 was not in sync in 1 partition of 1 topic, for 10.0 s
    > warning t-0 0x1 written..: replicas [1, 2, 3], not in sync: 2 for 10.0 s, 3 for 20.0 s
    written3: state t-0 1 1,2,3
    > warning written..written2: broker 2 was not in sync in 1 partition of 1 topic, for 10.0 s
    > warning written..written3: broker 3 was not in sync in 1 partition of 1 topic, for 20.0 s
    > warning t-0 0x1 written..written3: replicas [1, 2, 3], not in sync: 2 for 10.0 s, 3 for 20.0 s
Each spell of a partition counts from its own beginning.
    placed; written: state t-0 1 1,2; +10000; written2: state t-0 1 1,2,3; +60000; written3: state t-0 1 1,2;
      +10000; written4: state t-0 1 1,2,3; +60000
    > warning written..written4: broker 3 was not in sync in 1 partition of 1 topic, for 20.0 s
    > warning t-0 0x1 written..written2: replicas [1, 2, 3], not in sync: 3 for 10.0 s
    > warning t-0 0x1 written3..written4: replicas [1, 2, 3], not in sync: 3 for 10.0 s

offline_partition
given led: start 1 2; topic t 0:2,1; state t-0 2 2,1
A state without leader for over ten seconds is an error, up to the state that has one.
    led; +60000; written: state t-0 -1 - epoch=1; +10001; written2: state t-0 2 2 epoch=2
    > error t-0 0x1 written..written2: no leader, replicas [2, 1], offline for 10.0 s
A state without leader for ten seconds is a warning.
    led; written: state t-0 -1 - epoch=1; +10000; written2: state t-0 2 2 epoch=2
    > warning t-0 0x1 written..written2: no leader, replicas [2, 1], offline for 10.0 s
The time begins when the leader's registration ends; the state without leader only continues it.
    led; expired: expire 2; +4000; state t-0 -1 - epoch=1; +8000; broker_comes 2 0x16; written: state t-0 2 2
      epoch=2
    > error t-0 0x2 expired..written: leader 2 was not registered, offline for 12.0 s
Under a second between the end of the leader's session and the next leader is an election.
    led; expire 2; +999; state t-0 1 1 epoch=1
    > nothing
A leader that registers again ends it without a new state: five seconds are a warning.
    led; expired: expire 2; +5000; back: broker_comes 2 0x16; +5000; open 0x17
    > warning t-0 0x2 expired..back: leader 2 was not registered, offline for 5.0 s
A partition without leader at the end is an error, be it for half a second.
    led; written: state t-0 -1 - epoch=1; passes 500
    > error t-0 0x1 written..: no leader, replicas [2, 1], offline for 500 ms
A topic that is being deleted is left out: its controller takes the leaders away.
    led; create /admin/delete_topics/t; state t-0 -1 - epoch=1; +60000; delete
      /brokers/topics/t/partitions/0/state 1
    > nothing
In a snapshot alone, a leader that is not registered is an error, and one that is registered none.
    seed /brokers/topics/t '{"version":1,"partitions":{"0":[2,1]}}' zxid=5; seed
      /brokers/topics/t/partitions/0/state @state/2/2,1 zxid=6; seed /brokers/topics/u
      '{"version":1,"partitions":{"0":[1]}}' zxid=7; seed /brokers/topics/u/partitions/0/state @state/1/1
      zxid=8; seed /brokers/ids/1 '{}' zxid=90 ms=+50000 session=1
    > error t-0 #5a.. +50000..: leader 2 was not registered
A leader that a snapshot lacks is away since the log began, however long the state has stood.
    new zxid=100; seed /brokers/topics/t '{"version":1,"partitions":{"0":[2,1]}}' zxid=5 ms=-90000; seed
      /brokers/topics/t/partitions/0/state @state/2/2,1 zxid=6 ms=-90000; opened: open 1; +2000; broker 1 1;
      written: state t-0 1 1 epoch=1
    > warning t-0 opened..written: leader 2 was not registered, offline for 2.0 s
A broker that registered again after the topic was made did not leave it without leader till then.
    new zxid=100; seed /brokers/topics/t '{"version":1,"partitions":{"0":[1]}}' zxid=5; seed
      /brokers/topics/t/partitions/0/state @state/1/1 zxid=6; seed /brokers/ids/1 '{}' zxid=90 ms=+50000
      session=1; passes 60000
    > nothing
Without the log's beginning a leader whose registration nobody saw is not called away.
    new zxid=100; state t-0 2 2,1; passes 60000
    > nothing
A second without a registered leader is reported.
    led; expired: expire 2; +1000; written: state t-0 1 1 epoch=1
    > warning t-0 0x2 expired..written: leader 2 was not registered, offline for 1.0 s
Two times of one partition are judged each by itself.
    led; written: state t-0 -1 - epoch=1; written2: state t-0 2 2,1 epoch=2; +60000; expire 2; +500; state t-0
      1 1 epoch=3
    > warning t-0 0x1 written..written2: no leader, replicas [2, 1], offline for 0 ms
A state that is deleted ends it: no controller has made such a partition, whatever the topic lists.
    led; written: state t-0 -1 - epoch=1; +2000; deleted: delete /brokers/topics/t/partitions/0/state 1;
      passes 60000
    > warning t-0 0x1 written..deleted: no leader, replicas [2, 1], offline for 2.0 s

unclean_election
given placed: topic t 0:1,2; state t-0 1 1,2
A new leader that the ISR before lacked is an error, with the ISR that was passed over.
    placed; state t-0 1 1; written: state t-0 2 2 epoch=1
    > error t-0 0x1 written: broker 2 leads, in sync were [1]
It is so over a time without leader: 0.8.2.2 writes an empty ISR, and the one before counts.
    placed; state t-0 1 1; state t-0 -1 - epoch=1; written: state t-0 2 2 epoch=2
    > error t-0 0x1 written: broker 2 leads, in sync were [1]
The last broker in sync that leads again after a time without leader is no unclean leader.
    placed; state t-0 1 1; state t-0 -1 - epoch=1; state t-0 1 1 epoch=2
    > nothing
A single replica that returns is not unclean.
    topic t 0:3; state t-0 3 3; state t-0 -1 - epoch=1; state t-0 3 3 epoch=2
    > nothing
A topic that was deleted and made again is not measured by the ISR of the old one.
    placed; delete /brokers/topics/t/partitions/0/state 1; delete /brokers/topics/t 1; topic t 0:3; state t-0
      3 3
    > nothing
A leader that stays is not elected: it is `leader_not_in_isr`.
    placed; state t-0 1 2; state t-0 1 2 epoch=1
    > nothing
Any replica of a slot of zkgroup's `__consumer_offsets` may lead: its log is empty. Kafka's has the offsets.
    topic __consumer_offsets 0:1,2; state __consumer_offsets-0 1 1; written: state __consumer_offsets-0 2 2
      epoch=1
    > error __consumer_offsets-0 0x1 written: broker 2 leads, in sync were [1]
    new; create /zkgroup/config '{"version":1,"slots":1,"hash":"java"}'; topic __consumer_offsets 0:1,2; state
      __consumer_offsets-0 1 1; state __consumer_offsets-0 2 2 epoch=1
    > nothing

leader_epoch_not_rising
given placed: topic t 0:1,2; state t-0 1 1,2 epoch=5
A new leader within the same leader epoch is an error, and so is a leader epoch that falls.
    placed; written: state t-0 2 1,2 epoch=5; written2: state t-0 2 1,2 epoch=4
    > error t-0 0x1 written: leader 1 became 2 within leader epoch 5
    > error t-0 0x1 written2: leader epoch fell from 5 to 4
An ISR write keeps the leader epoch, a new leader raises it, by one or by more: no findings.
    placed; state t-0 1 1 epoch=5; state t-0 1 1,2 epoch=5; state t-0 2 1,2 epoch=6; state t-0 2 1,2 epoch=9
    > nothing
Behind a deletion of the state, leader epoch 0 is a beginning and no fall from 5.
    placed; delete /brokers/topics/t/partitions/0/state 1; state t-0 2 1,2
    > nothing
A partition that is made anew in one transaction may have a lower epoch and another leader.
    start 1 2; state t-0 1 1,2 epoch=5; multi 1 & deletion /brokers/topics/t/partitions/0/state & creation
      /brokers/topics/t/partitions/0/state @state/2/2
    > nothing

isr_flapping
given placed: start 1 2 3; topic t 0:1,2,3; state t-0 1 1,2,3
Out and back three times, a minute apart at most, is one warning with the time away in all.
    placed; written: state t-0 1 1,2; +2000; state t-0 1 1,2,3; +30000; state t-0 1 1,2; +3000; state t-0 1
      1,2,3; +60000; state t-0 1 1,2; +1000; written2: state t-0 1 1,2,3
    > warning t-0 0x1 written..written2: broker 3 left the ISR and came back 3 times, away for 6.0 s
More than a minute between two pairs makes two findings, and none where `pairs=2` asks for a series.
    placed; written: state t-0 1 1,2; +2000; written2: state t-0 1 1,2,3; +60001; written3: state t-0 1 1,2;
      +2000; written4: state t-0 1 1,2,3
    > warning t-0 0x1 written..written2: broker 3 left the ISR and came back once, away for 2.0 s
    > warning t-0 0x1 written3..written4: broker 3 left the ISR and came back once, away for 2.0 s
    > (pairs=2) nothing
A replica that comes back after more than a minute was away, and did not flap.
    placed; state t-0 1 1,2; +60001; state t-0 1 1,2,3
    > nothing
A broker that was started again is none, whether its leader or the controller noticed first.
    placed; state t-0 1 1,2; expire 3; state t-0 1 1; broker_comes 3 0x21; expire 2; broker_comes 2 0x16;
      state t-0 1 1,3,2
    > nothing
A replica that leaves and returns by changes of the replica list did not flap.
    placed; state t-0 1 1,2 epoch=1; topic t 0:1,2 1; +2000; topic t 0:1,2,3 1; state t-0 1 1,2,3 epoch=1
    > nothing
A replica that left the ISR and never came back is not flapping.
    placed; state t-0 1 1,2
    > nothing
"""


@cases(TABLE)
def test_findings_about_replicas(case: Case) -> None:
    """Each history has the findings that are written below it, and no other of their rule."""
    case.check()
