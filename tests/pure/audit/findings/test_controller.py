"""Findings about controllers and the requests to them."""

from tests.pure.audit.histories import Case, cases

TABLE = """
controller_election
given poison: broker 8 2 '{"jmx_port":-1,"timestamp":1396019252998,"host":"h","version":1,"port":9}'
Each life of `/controller` is a row: its epoch, how it ended, how long nobody held it before.
    start 1 2; +3000; expired: expire 1; +40; elect 2 2 2
    > info 0x1 #5..expired: broker 1 (session 0x1) elected, epoch 1; its session expired after 3.0 s
    > info 0x2 #8..: broker 2 (session 0x2) elected, epoch 2; after 40 ms without a controller
Each end of a controller's life has its words: deleted by itself or by another, closed, or still there.
    start 1 2; deleted: delete /controller 1; elected: elect_ours 2 2 2; deleted2: delete /controller 9;
      elected2: elect_ours 1 1 3; closed: close 1; elected3: elect 2 2 none
    > info 0x1 #5..deleted: broker 1 (session 0x1) elected, epoch 1; deleted by itself after 0 ms
    > info 0x2 elected..deleted2: broker 2 (session 0x2) elected, epoch 2; after 0 ms without a controller;
      deleted by session 0x9 after 0 ms
    > info 0x1 elected2..closed: broker 1 (session 0x1) elected, epoch 3; after 0 ms without a controller; it
      closed its session after 0 ms
    > info 0x2 elected3..: broker 2 (session 0x2) elected, epoch not raised; after 0 ms without a controller
An epoch raised in the multi that replaces `/controller` belongs to who takes it.
    start 1 2; done: multi 2 & setting /controller_epoch 2 & deletion /controller & creation /controller
      @controller/2 ephemeral
    > info 0x1 #5..done: broker 1 (session 0x1) elected, epoch 1; deleted by session 0x2 after 0 ms
    > info 0x2 done..: broker 2 (session 0x2) elected, epoch 2; after 0 ms without a controller
More than 30 s without a controller is a warning, whether one came in the end or nobody did.
    start 1 2; closed: close 1; +30001; elect 2 2 2; +1000; deleted: delete /controller 2; passes 60000
    > info 0x1 #5..closed: broker 1 (session 0x1) elected, epoch 1; it closed its session after 0 ms
    > warning 0x2 #8..deleted: broker 2 (session 0x2) elected, epoch 2; after 30.0 s without a controller;
      deleted by itself after 1.0 s
    > warning deleted..: no controller for 60.0 s, up to the end
A controller that stands in the snapshot has no row of its own; the one after it has.
    new zxid=100; seed /controller @controller/1 zxid=9 session=1; open 2; expire 1; +5; elect 2 2 2
    > info 0x2 #66..: broker 2 (session 0x2) elected, epoch 2; after 5 ms without a controller
A `/controller` whose content is no JSON is an election too, told by its session alone.
    made: create /controller ? 7 ephemeral
    > info 0x7 made..: a controller that cannot be read (session 0x7) elected, epoch not raised
Thirty seconds without a controller are not long by default, nor are thirty at the end.
    start 1 2; closed: close 1; +30000; elect 2 2 2; deleted: delete /controller 2; passes 30000
    > info 0x1 #5..closed: broker 1 (session 0x1) elected, epoch 1; it closed its session after 0 ms
    > info 0x2 #8..deleted: broker 2 (session 0x2) elected, epoch 2; after 30.0 s without a controller;
      deleted by itself after 0 ms
    > (gap_ms=29999) info 0x1 #5..closed: broker 1 (session 0x1) elected, epoch 1; it closed its session after
      0 ms
    > warning 0x2 #8..deleted: broker 2 (session 0x2) elected, epoch 2; after 30.0 s without a controller;
      deleted by itself after 0 ms
    > warning deleted..: no controller for 30.0 s, up to the end
Twenty elections 100 ms apart are one warning, which names the registration that no JVM can read.
    start 1 2; poison; +60000; deleted: delete /controller 9; 20 times (won{n}: elect 1 1 none; raise_epoch
      {n+2} 1; +100; delete /controller 1)
    > info 0x1 #5..deleted: broker 1 (session 0x1) elected, epoch 1; deleted by session 0x9 after 60.0 s
    > warning won0..won19: a storm of 20 elections in 1.9 s; no JVM can read /brokers/ids/8
A registration that came again in a storm is named once, however often its broker came back.
    start 1 2; delete /controller 9; poison; 10 times (won{n}: elect 1 1 none; raise_epoch {n+2} 1; +100;
      delete /controller 1); delete /brokers/ids/8 2; poison; 10 times (won1{n}: elect 1 1 none; raise_epoch
      {n+2} 1; +100; delete /controller 1)
    > warning #5..won19: a storm of 21 elections in 1.9 s; no JVM can read /brokers/ids/8
Four elections in a row, or six that are more than a second apart, are no storm.
    start 1 2; +60000; deleted: delete /controller 9; 4 times (elect 1 1 {n+2}; +100; ended{n}: delete
      /controller 1); +60000; 6 times (elect 1 1 {n+2}; +1001; late{n}: delete /controller 1)
    > info 0x1 #5..deleted: broker 1 (session 0x1) elected, epoch 1; deleted by session 0x9 after 60.0 s
    > info 0x1 #8..ended0: broker 1 (session 0x1) elected, epoch 2; after 0 ms without a controller; deleted
      by itself after 100 ms
    > info 0x1 #b..ended1: broker 1 (session 0x1) elected, epoch 3; after 0 ms without a controller; deleted
      by itself after 100 ms
    > info 0x1 #e..ended2: broker 1 (session 0x1) elected, epoch 4; after 0 ms without a controller; deleted
      by itself after 100 ms
    > info 0x1 #11..ended3: broker 1 (session 0x1) elected, epoch 5; after 0 ms without a controller; deleted
      by itself after 100 ms
    > warning 0x1 #14..late0: broker 1 (session 0x1) elected, epoch 2; after 60.0 s without a controller;
      deleted by itself after 1.0 s
    > info 0x1 #17..late1: broker 1 (session 0x1) elected, epoch 3; after 0 ms without a controller; deleted
      by itself after 1.0 s
    > info 0x1 #1a..late2: broker 1 (session 0x1) elected, epoch 4; after 0 ms without a controller; deleted
      by itself after 1.0 s
    > info 0x1 #1d..late3: broker 1 (session 0x1) elected, epoch 5; after 0 ms without a controller; deleted
      by itself after 1.0 s
    > info 0x1 #20..late4: broker 1 (session 0x1) elected, epoch 6; after 0 ms without a controller; deleted
      by itself after 1.0 s
    > info 0x1 #23..late5: broker 1 (session 0x1) elected, epoch 7; after 0 ms without a controller; deleted
      by itself after 1.0 s
Only a registration that stood in the storm is named, not one that was gone before or came after.
    start 1 2; broker 7 2 '{"jmx_port":-1,"timestamp":1396019252998,"host":"h","version":1,"port":9}'; delete
      /brokers/ids/7 2; +60000; deleted: delete /controller 9; 5 times (won{n}: elect 1 1 none; raise_epoch
      {n+2} 1; +1000; delete /controller 1); poison
    > info 0x1 #5..deleted: broker 1 (session 0x1) elected, epoch 1; deleted by session 0x9 after 60.0 s
    > warning won0..won4: a storm of 5 elections in 4.0 s

controller_epoch_gap
An epoch that skips, repeats or falls is an error at its write, with who wrote it.
    start 1; raised: raise_epoch 3 1; raised2: raise_epoch 3 2; raised3: raise_epoch 1 1; raise_epoch 2 1
    > error 0x1 raised: epoch 3 follows 1, by broker 1 (session 0x1)
    > error 0x2 raised2: epoch 3 follows 3, by session 0x2
    > error 0x1 raised3: epoch 1 follows 3, by broker 1 (session 0x1)
`/controller_epoch` deleted and made again with a lower number has fallen; it is no first epoch.
    start 1; raise_epoch 2 1; delete /controller_epoch 9; raised: raise_epoch 1 1
    > error 0x1 raised: epoch 1 follows 2, by broker 1 (session 0x1)
A snapshot's epoch counts, and so does one made with 0 before the first election, as from 2.1 on.
    new zxid=100; seed /controller_epoch 41 zxid=5 version=40; elect_ours 1 1 42; delete /controller 1; elect
      2 2 43; multi 2 & setting /controller_epoch 44 & creation /zkgroup/controller/history/44
    > nothing
    new; create /controller_epoch 0 1; elect_ours 1 1 1
    > nothing
An epoch that is no number is an error; the next one is measured by the last that could be read.
    start 1; raised: raise_epoch two 1; raise_epoch 2 1
    > error 0x1 raised: the epoch cannot be read: b'two'
Who holds `/controller` for over 2 s and never raises the epoch is told; raising it then is fine.
    start 1 2; delete /controller 1; elected: elect 2 2 none; +2001; expired: expire 2; elect 1 1 none; +2000;
      raise_epoch 2 1
    > warning 0x2 elected..expired: broker 2 (session 0x2) held /controller for 2.0 s and never raised the
      epoch
A KRaft controller that takes over raises the epoch before it takes `/controller`.
    start 1 2; multi 2 & setting /controller_epoch 2 & deletion /controller & creation /controller
      @controller/2 ephemeral; passes 10000
    > nothing
A controller that lasts to the end without having raised the epoch is a warning without an end.
    start 1 2; delete /controller 1; elected: elect 2 2 none; passes 10000
    > warning 0x2 elected..: broker 2 (session 0x2) held /controller for 10.0 s and never raised the epoch
The one that holds `/controller` has still not raised it; and a data change there elects nobody.
    start 1 2; delete /controller 1; elected: elect 2 2 none; raise_epoch 2 1; +2001; set /controller
      @controller/2 2; +2001; deleted: delete /controller 2
    > warning 0x2 elected..deleted: broker 2 (session 0x2) held /controller for 4.0 s and never raised the
      epoch

deposed_controller_write
given ruled: start 1 2; topic t 0:1,2/1:2,1 0x70; state t-0 1 1,2; delete /controller 0x70; elect 2 2 2
A decision by the session that ruled before is an error, whichever controller epoch it puts in.
    ruled; written: state t-1 2 2,1; written2: state t-0 2 1,2 epoch=1; written3: state t-0 2 1,2 epoch=2
      controller_epoch=2
    > error t-1 0x1 written: state made with leader 2, in controller epoch 1, by broker 1 (session 0x1), while
      broker 2 (session 0x2) held /controller
    > error t-0 0x1 written2: leader 1 -> 2, leader epoch 0 -> 1, in controller epoch 1, by broker 1 (session
      0x1), while broker 2 (session 0x2) held /controller
    > error t-0 0x1 written3: leader 2 -> 2, leader epoch 1 -> 2, in controller epoch 2, by broker 1 (session
      0x1), while broker 2 (session 0x2) held /controller
A state with controller epoch 1 while 2 is in force is an error, even from who holds `/controller`.
    ruled; written: state t-0 2 1,2 epoch=1 session=2
    > error t-0 0x2 written: leader 1 -> 2, leader epoch 0 -> 1, in controller epoch 1, by broker 2 (session
      0x2), while controller epoch 2 was in force
During a migration a KRaft controller writes its own epoch, which `/controller` names.
    ruled; delete /controller 2; create /controller
      '{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":1}' 0x3000 ephemeral; raise_epoch 3
      0x3000; state t-0 2 1,2 epoch=1 session=0x3000; written: state t-0 1 1,2 epoch=2 controller_epoch=0
      session=0x3000
    > error t-0 0x3000 written: leader 2 -> 1, leader epoch 1 -> 2, in controller epoch 0, by session 0x3000,
      while controller epoch 1 was in force
ISR writes of leaders are fine: they carry the epoch of the last decision.
    ruled; state t-0 1 1; state t-0 1 1,2
    > nothing
States, replica lists and the end of a request are fine from the session that holds `/controller`.
    ruled; state t-1 2 2,1 controller_epoch=2 session=2; state t-0 2 1,2 epoch=1 controller_epoch=2 session=2;
      reassign t-0:2 0x70; topic t 0:2/1:2,1 2; delete /admin/reassign_partitions 2
    > nothing
What a controller of ours decides in one multi, after an election in one multi, is its to decide.
    ruled; delete /controller 2; elect_ours 1 1 3; multi 1 & setting /brokers/topics/t/partitions/0/state
      @state/1/1,2/1/3 & creation /brokers/topics/t/partitions/1/state @state/2/2,1/0/3
    > nothing
Replicas that others move or drop are errors; a topic that a tool makes or lets grow is none.
    ruled; topic u 0:1 0x70; topic u 0:1/1:2 0x70; placed: topic t 0:2,1/1:2,1 1; placed2: topic t 0:2,1 0x70
    > error t-0 0x1 placed: replicas [1, 2] -> [2, 1], by broker 1 (session 0x1), while broker 2 (session 0x2)
      held /controller
    > error t-1 0x70 placed2: replicas [2, 1] -> [], by session 0x70, while broker 2 (session 0x2) held
      /controller
Requests are the controller's to take off: an error by a broker, a warning by hand, none where nobody rules.
    ruled; reassign t-0:2 0x70; deleted: delete /admin/reassign_partitions 1; create /admin/delete_topics/t
      session=0x70; deleted2: delete /admin/delete_topics/t 0x70; create /admin/preferred_replica_election
      '{}' 0x70; delete /controller 2; delete /admin/preferred_replica_election 0x70
    > error 0x1 deleted: /admin/reassign_partitions deleted, by broker 1 (session 0x1), while broker 2
      (session 0x2) held /controller
    > warning 0x70 deleted2: /admin/delete_topics/t deleted, by session 0x70, while broker 2 (session 0x2)
      held /controller
Entries of a request are the controller's to take off: an error by a broker, a warning by hand.
    ruled; reassign a-0:2/b-0:2/c-0:2/d-0:2 0x70; reassign a-0:2/b-0:2/c-0:2 2; asked: reassign a-0:2/b-0:2;
      asked2: reassign b-0:2/e-0:1 0x70; asked3: reassign none
    > error 0x1 asked: 1 entry taken off /admin/reassign_partitions, by broker 1 (session 0x1), while broker 2
      (session 0x2) held /controller
    > warning 0x70 asked2: 1 entry taken off /admin/reassign_partitions, by session 0x70, while broker 2
      (session 0x2) held /controller
    > error 0x1 asked3: 2 entries taken off /admin/reassign_partitions, by broker 1 (session 0x1), while
      broker 2 (session 0x2) held /controller
A persistent registration is no broker: a tool whose session is not known is not that broker.
    new zxid=100; seed /brokers/ids/9 '{}' zxid=3; seed /controller @controller/1 zxid=9 session=1; reassign
      t-0:2 0; deleted: delete /admin/reassign_partitions
    > warning 0x0 deleted: /admin/reassign_partitions deleted, by broker 9 (session 0x0), while broker 1
      (session 0x1) held /controller
A tool may change a request, to another target or by one more entry; what cannot be read says nothing.
    ruled; reassign t-0:2/t-1:1 0x70; reassign t-0:1,2/t-1:1/u-0:2 0x70; set /admin/reassign_partitions torn
      1; reassign t-0:2 0x70
    > nothing
The epoch is the controller's: a candidate that won, expired and came back can raise it late.
    ruled; raised: raise_epoch 3 1
    > error 0x1 raised: /controller_epoch set to 3, by broker 1 (session 0x1), while broker 2 (session 0x2)
      held /controller
`/controller_epoch` made with 0 by a broker that wins after that is its to make.
    open 1; create /controller_epoch 0 1; elect_ours 1 1 1
    > nothing
A decision after `/controller` went and before the next one came is an error.
    ruled; delete /controller 0x70; written: state t-0 2 2 epoch=1 controller_epoch=2 session=2
    > error t-0 0x2 written: leader 1 -> 2, leader epoch 0 -> 1, in controller epoch 2, by broker 2 (session
      0x2), while there was no /controller
Without the log's beginning the controller is unknown, and so is what a state was before.
    new zxid=100; set /brokers/topics/t/partitions/0/state @state/1/1/5/7 1; create
      /brokers/topics/t/partitions/1/state @state/1/1/0/7 1
    > nothing
    new zxid=100; seed /controller @controller/1 zxid=9 session=1; seed /controller_epoch 7 zxid=5; seed
      /brokers/topics/t/partitions/0/state @state/1/1/5/6 zxid=6; state t-0 2 1,2 epoch=6 controller_epoch=7
    > nothing
A torn state or topic is no finding, and the state after it has nothing to be compared with.
    ruled; set /brokers/topics/t/partitions/0/state torn 1; set /brokers/topics/t torn 1; state t-0 2 2
      epoch=9
    > nothing

stuck_reassignment
A request that stands for over ten minutes is a warning; partitions with their old list are named.
    topic t 0:1/1:1/2:1; asked: reassign t-0:2/t-1:2; topic t 0:2,1/1:1/2:1; passes 600001
    > warning 0x1 asked..: 2 partitions to be moved; not even begun: t-1; has stood for 10.0 min
A request that was finished after more than ten minutes is told with the time that it stood.
    topic t 0:1/1:1/2:1; asked: reassign t-0:2; +600001; topic t 0:2/1:1/2:1; deleted: delete
      /admin/reassign_partitions
    > warning 0x1 asked..deleted: 1 partition to be moved; stood for 10.0 min
A request that is done in time is none, entry by entry, with the list written before or with it.
    topic t 0:1/1:1/2:1; reassign t-0:2/t-1:2; +590000; topic t 0:2/1:1/2:1; reassign t-1:2; multi 1 & setting
      /brokers/topics/t '{"version":1,"partitions":{"0":[2],"1":[2],"2":[1]}}' & deletion
      /admin/reassign_partitions
    > nothing
A request that names no partition is told after a second: no controller of 0.8.2.2 takes it off.
    topic t 0:1/1:1/2:1; asked: reassign none; +1001; deleted: delete /admin/reassign_partitions; reassign
      none; +1000; delete /admin/reassign_partitions
    > warning 0x1 asked..deleted: the request names no partition, and Kafka 0.8.2.2 never removes such a one;
      stood for 1.0 s
A request that is no JSON is told with how long it has stood, without waiting ten minutes.
    topic t 0:1/1:1/2:1; made: create /admin/reassign_partitions '{'; passes 5000
    > warning made..: the request cannot be read; has stood for 5.0 s
A controller of 0.8.2.2 that takes over drops what has a dead target, and leaves the union behind.
    topic t 0:1/1:1/2:1; asked: reassign t-0:2/t-1:2; topic t 0:2,1/1:1/2:1; asked2: reassign t-1:2 5; topic t
      0:2,1/1:2,1/2:1; deleted: delete /admin/reassign_partitions 6
    > warning t-0 0x5 asked..asked2: given up: asked for [2], left at [2, 1]
    > warning t-1 0x6 asked..deleted: given up: asked for [2], left at [2, 1]
A request that goes after its topic was deleted was not given up.
    topic t 0:1/1:1/2:1; reassign t-0:2; delete /brokers/topics/t; delete /admin/reassign_partitions
    > nothing
A request that goes while the deletion of its topic is asked for is no finding.
    topic t 0:1/1:1/2:1; reassign t-0:2; create /admin/delete_topics/t; delete /admin/reassign_partitions
    > nothing
A new target is no giving up but a cancellation.
    topic t 0:1/1:1/2:1; reassign t-0:2; reassign t-0:1; delete /admin/reassign_partitions
    > nothing
A request that is shrunk stands since it was made; one that is made after it is another.
    topic t 0:1/1:1/2:1; asked: reassign t-0:2/t-1:2; +500000; topic t 0:2/1:1/2:1 1; reassign t-1:2; +100001;
      topic t 0:2/1:2/2:1 1; deleted: delete /admin/reassign_partitions 1; reassign t-2:2; passes 600000
    > warning 0x1 asked..deleted: 1 partition to be moved; stood for 10.0 min

stuck_topic_deletion
A deletion asked for over ten minutes ago, with the topic still there, is a warning without an end.
    topic t 1; made: create /admin/delete_topics/t session=5; passes 600001
    > warning t-* 0x5 made..: deletion asked for 10.0 min ago, and the topic is still there
A deletion that came to its end after more than ten minutes is told with its length.
    topic t 1; made: create /admin/delete_topics/t; +700000; delete /brokers/topics/t; deleted: delete
      /admin/delete_topics/t
    > warning t-* made..deleted: deletion took 11.7 min
Done within ten minutes, or the topic gone and only the request left behind: no finding.
    topic t 1; topic u 1; create /admin/delete_topics/t; create /admin/delete_topics/u; +600000; delete
      /brokers/topics/t; delete /admin/delete_topics/t; delete /brokers/topics/u; passes 600000
    > nothing
A snapshot alone shows it: its latest time is the end.
    seed /brokers/topics/t '{"version":1,"partitions":{"0":[1]}}' zxid=5; seed /admin/delete_topics/t zxid=6;
      seed /other zxid=7 ms=+700000
    > warning t-* #6.. +0..: deletion asked for 11.7 min ago, and the topic is still there
"""


@cases(TABLE)
def test_findings_about_controllers(case: Case) -> None:
    """Each history has the findings that are written below it, and no other of their rule."""
    case.check()
